"""`vrex run` on frames that nobody has traced: raw YUV on standard input, and cameras."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vrex.bench.stream import Stream
from vrex.cli import main
from vrex.errors import VrexError
from vrex.run import live
from vrex.run.live import Camera, Live, RawVideo
from vrex.run.replay import Replay, Shape, cache_for
from vrex.trace.address_map import AddressMap
from vrex.trace.format import Geometry, TraceMetadata, write_trace
from vrex.trace.maker import Knobs, record_reads
from vrex.trace.timing import ORIN_NX, PacedClock
from vrex.trace.video import Picture
from vrex.trace.vit import VIT_S14, VIT_S14_GRID, HalfArray

pytest.importorskip("av", reason="PyAV is not installed: make setup-test")

LAYERS = (0, 2)
RATE = Fraction(25)
TOKENS = VIT_S14_GRID.tokens_per_frame
RAW = RawVideo(32, 16, RATE)


class NoModel:
    """Queries, keys and values that follow from how many pictures were seen."""

    def __init__(self, layers: tuple[int, ...] = LAYERS) -> None:
        self._shape = (len(layers), VIT_S14.heads, TOKENS, VIT_S14.head_size)
        self._seen = 0

    def attention_inputs(self, picture: Picture) -> tuple[HalfArray, HalfArray, HalfArray]:
        assert picture.shape == (224, 224, 3)
        self._seen += 1
        rng = np.random.default_rng(self._seen)
        queries, keys, values = (rng.normal(size=self._shape).astype(np.float16) for _ in range(3))
        return queries, keys, values


def frames(count: int) -> bytes:
    return np.random.default_rng(5).integers(0, 255, count * RAW.frame_bytes, np.uint8).tobytes()


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts bytes on standard input, and no model behind the frames."""
    monkeypatch.setattr("vrex.trace.vit.QueryKeyModel", lambda path, layers, values: NoModel(layers))
    monkeypatch.setattr("vrex.trace.packaged.packaged_file", lambda *names: SimpleNamespace(path=Path(names[1])))

    def pipe(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False))

    return pipe


def test_live_frames_are_what_their_trace_is(tmp_path: Path) -> None:
    """The same queries and keys, traced and replayed: every figure of every frame is the same."""
    count = 3
    pictures = [np.zeros((224, 224, 3), np.uint8)] * count
    model = NoModel()
    tensors = [model.attention_inputs(picture)[:2] for picture in pictures]
    kv = AddressMap(VIT_S14.layers, VIT_S14.heads, VIT_S14.head_size, max_tokens=count * TOKENS)
    path = tmp_path / "trace.parquet"
    with write_trace(path, TraceMetadata("made up", Geometry(kv, VIT_S14_GRID))) as writer:
        record_reads(tensors, count, kv, Knobs(layers=LAYERS), PacedClock(ORIN_NX, VIT_S14, RATE), writer)
    stream = Stream(path)
    shape = Shape.of(stream)
    played = list(Replay(stream, cache_for(shape, "model", share=0.5), 2, True).run())
    lived = list(Live(pictures, NoModel(), LAYERS, RATE, cache_for(shape, "model", share=0.5), 2, True).run())
    assert [asdict(frame) for frame in lived] == [asdict(frame) for frame in played]
    assert lived[2].hits < lived[2].lines
    assert live.shape(LAYERS, RATE, count * TOKENS).kv == shape.kv
    assert live.shape(LAYERS, RATE, count * TOKENS).tiles == shape.tiles


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("640x360@24", RawVideo(640, 360, Fraction(24))),
        ("2x2@29.97", RawVideo(2, 2, Fraction(2997, 100))),
        ("1920x1080@30000/1001", RawVideo(1920, 1080, Fraction(30000, 1001))),
    ],
)
def test_raw_video(text: str, expected: RawVideo) -> None:
    assert RawVideo.parse(text) == expected
    assert expected.frame_bytes == expected.width * expected.height * 1.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("640x360", "is not of the form"),
        ("640x360@", "is not of the form"),
        ("640x360@-1", "is not of the form"),
        ("640x360@24 ", "is not of the form"),
        ("641x360@24", "width must be even, 2 to 16384, not 641"),
        ("640x0@24", "height must be even"),
        ("640x16386@24", "height must be even"),
        ("640x360@0", "the rate must be over 0"),
        ("640x360@1/0", "the rate must be over 0"),
        ("640x360@1001", "at most 1000 frames a second"),
    ],
)
def test_what_is_no_raw_video(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--yuv", text]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_frames_are_read_one_by_one() -> None:
    """Grey, then a colour: what comes out is what went in, and no more is read than is worked on."""
    luma, half = RAW.width * RAW.height, RAW.width * RAW.height // 4
    grey = bytes([126]) * luma + bytes([128]) * 2 * half
    red = bytes([82]) * luma + bytes([90]) * half + bytes([240]) * half
    file = io.BytesIO(grey + red)
    pictures = RAW.pictures(file)
    first = next(pictures)
    assert file.tell() == RAW.frame_bytes
    assert first.shape == (224, 224, 3)
    assert np.ptp(first.astype(int)) <= 1
    second = next(pictures).reshape(-1, 3).mean(axis=0)
    assert second[0] > 240
    assert max(second[1:]) < 15
    assert list(pictures) == []


def test_the_command(piped: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ["run", "--yuv", "32x16@25", "--layers", "2"]
    piped(frames(3))
    assert main([*usual, "--residency", "0.5"]) == 0
    shown = capsys.readouterr()
    assert [line[:9] for line in shown.out.splitlines()[3:]] == ["[Frame 0]", "[Frame 1]", "[Frame 2]", "KVHitRate"]
    assert shown.err == ""
    piped(frames(3))
    assert main([*usual, "--frames", "2"]) == 0  # the third is not waited for
    assert capsys.readouterr().out.count("[Frame") == 2
    piped(frames(3)[:-7])
    assert main(usual) == 1
    shown = capsys.readouterr()
    assert shown.out.count("[Frame") == 2
    assert shown.out.splitlines()[-1].startswith("KVHitRate 100.0%")
    assert shown.err == (
        "vrex: standard input ended 761 bytes into frame 2, which has 768: is it 32x16 in yuv420p, and whole?\n"
    )
    piped(b"")
    assert main(usual) == 1
    assert "ended 0 bytes into frame 0" in capsys.readouterr().err
    piped(frames(3))
    assert main([*usual, "--max-model-len", str(2 * TOKENS)]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("[Frame") == 2
    assert "no room for 257 more: a longer --max-model-len makes room" in shown.err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=None, isatty=lambda: True))
    assert main(usual) == 1
    assert "standard input is a terminal" in capsys.readouterr().err
    assert main([*usual, "--camera", "/dev/video0"]) == 2
    assert main([*usual, "clip.mp4"]) == 2


def test_the_real_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is not installed: make setup-test")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(frames(2)), isatty=lambda: False))
    assert main(["run", "--yuv", "32x16@25", "--layers", "0", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [frame["written"] for frame in record["frames"]] == [6 * TOKENS] * 2
    assert 0 < record["frames"][0]["lines"] < record["frames"][1]["lines"] < 5 * 6 * 2 * TOKENS


def test_a_camera_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--camera", str(tmp_path / "video0")]) == 1
    assert "video0: no such camera; 'ls /dev/video*' shows those that there are" in capsys.readouterr().err
    assert main(["run", "--camera", "/dev/null"]) == 1
    assert "/dev/null: cannot be opened as a camera (" in capsys.readouterr().err


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Camera:
    """FFmpeg's test picture, half a second of it, where a camera would be."""
    monkeypatch.setattr(live, "CAMERA_FORMAT", "lavfi")
    return Camera(Path("testsrc=size=320x240:rate=10:duration=0.5"))


def test_frames_of_a_camera(stand_in: Camera) -> None:
    assert stand_in.rate == 10
    pictures = list(stand_in.pictures())
    assert len(pictures) == 5
    assert all(picture.shape == (224, 224, 3) for picture in pictures)
    assert len({picture.tobytes() for picture in pictures}) > 1


def test_a_camera_that_goes_away(stand_in: Camera, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unplugged:
        def __init__(self, container: Any) -> None:
            self._container = container

        def decode(self, stream: Any) -> Iterator[Any]:
            yield next(self._container.decode(stream))
            raise OSError(errno.ENODEV, "No such device")

        def close(self) -> None:
            self._container.close()

    monkeypatch.setattr(stand_in, "_container", Unplugged(stand_in._container))
    pictures = stand_in.pictures()
    next(pictures)
    with pytest.raises(VrexError, match=r"the camera has gone after 1 frames \(No such device\)"):
        next(pictures)
