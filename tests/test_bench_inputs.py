"""What a bench and a sweep are given: traces as they are, clips by their traces, made once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from made_clips import scene, window, write_clip
from small_streams import write_stream
from vrex.bench.inputs import open_streams
from vrex.errors import VrexError
from vrex.trace.maker import Knobs

KNOBS: dict[str, Any] = {"frames": 4, "layers": [2, 6], "tile": 64, "share": 0.5}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Knobs]:
    """The maker has its own tests and needs a model; here it gives a small trace, and lists what it was asked."""
    asked: list[Knobs] = []

    def make(clip: Path, output: Path, knobs: Knobs, command: str, progress: object) -> None:
        assert command == f"the test {clip.name}"
        asked.append(knobs)
        write_stream(output, 7, frames=4)

    monkeypatch.setattr("vrex.trace.maker.make_trace", make)
    return asked


def moving(path: Path, step: int = 8) -> Path:
    return write_clip(path, [window(scene(2), 0, step * frame) for frame in range(4)])


def test_a_trace_is_taken_as_it_is(tmp_path: Path, made: list[Knobs]) -> None:
    path = write_stream(tmp_path / "small.parquet", 1, frames=3)
    ((stream, clip),) = open_streams([path], KNOBS, tmp_path / "out", "the test")
    assert (stream.path, clip, stream.motion, made) == (path, None, None, [])


def test_a_clips_trace_is_made_once(tmp_path: Path, made: list[Knobs]) -> None:
    pytest.importorskip("av", reason="PyAV is not installed: make setup-test")
    out, path = tmp_path / "out", moving(tmp_path / "street.mp4")
    out.mkdir()
    ((stream, clip),) = open_streams([path], KNOBS, out, "the test")
    assert made == [Knobs(frames=4, layers=(2, 6))]
    assert clip == path
    assert stream.motion is not None
    assert stream.motion.shape == (4, 16)
    assert stream.motion[1:].max() > 0
    ((again, _),) = open_streams([path], KNOBS, out, "the test")
    assert again.path == stream.path
    assert len(made) == 1
    open_streams([path], KNOBS | {"share": 0.9}, out, "the test")
    assert len(made) == 2  # other knobs
    open_streams([moving(path, 4)], KNOBS, out, "the test")
    assert len(made) == 3  # another clip of the same name
    assert len(list(out.iterdir())) == 3


def test_a_packaged_clip_is_found_by_its_trace(
    tmp_path: Path, made: list[Knobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_stream(tmp_path / "t.parquet", 1, made={"clip": "x.mp4", "clip_from": "no-such-package 1.0 (PyPI)"})
    ((_, clip),) = open_streams([path], KNOBS, tmp_path, "the test")
    assert clip is None
    path = write_stream(tmp_path / "u.parquet", 1, made={"clip": "x.mp4", "clip_from": "a file"})
    ((_, clip),) = open_streams([path], KNOBS, tmp_path, "the test")
    assert clip is None


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        VrexError, match=r"none.mp4: cannot be read \(No such file or directory\); give a trace or a clip"
    ):
        open_streams([tmp_path / "none.mp4"], KNOBS, tmp_path, "the test")


def test_motion_that_cannot_be_had_is_told(
    tmp_path: Path, made: list[Knobs], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_stream(tmp_path / "small.parquet", 1, frames=3, made={"clip": "street.mp4", "clip_from": "a file"})
    ((stream, _),) = open_streams([path], KNOBS, tmp_path, "the test")
    assert stream.motion is None
    said = "small.parquet: measured without its clip's motion, which gives other figures: street.mp4 is not at hand\n"
    assert capsys.readouterr().err == said
    (clip := tmp_path / "street.mp4").write_bytes(b"a clip")
    monkeypatch.setitem(sys.modules, "av", None)
    ((stream, _),) = open_streams([clip], KNOBS, tmp_path, "the test")
    assert stream.motion is None
    error = capsys.readouterr().err
    assert "measured without its clip's motion, which gives other figures: " in error
    assert error.count("\n") == 1
