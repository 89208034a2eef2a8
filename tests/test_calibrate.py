"""`vrex calibrate`: motion and its warnings, tick and granule, on clips and traces that are made to order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from made_clips import scene, window, write_clip
from small_streams import FRAME_NS, write_stream
from vrex.calibrate.clip import ClipMotion, measure_clip, picture_shift
from vrex.calibrate.reuse import measure_reuse
from vrex.cli import main
from vrex.runtime.core_watch import AGES, CLOCK_NS
from vrex.runtime.motion import MotionError, motion_vectors, region_motion
from vrex.trace.format import TraceMetadata, TraceReader, write_trace

pytest.importorskip("av", reason="av is not installed")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    ground, rng = scene(1), np.random.default_rng(2)
    write_clip(folder / "pan.mp4", [window(ground, 50, 2 * n) for n in range(40)])
    write_clip(folder / "shaky.mp4", [window(ground, *rng.integers(40, 52, 2)) for _ in range(40)])
    write_clip(folder / "still.mp4", [window(ground, 50, 50)] * 40)
    write_clip(folder / "slides.mp4", [window(scene(n // 20), 50, 50) for n in range(60)])
    write_clip(folder / "one.mp4", [window(ground, 0, 0)])
    write_clip(folder / "vp8.webm", [window(ground, 50, 2 * n) for n in range(4)], codec="libvpx")
    return folder


@pytest.mark.parametrize(
    ("deviation", "t3_count", "t2_count"),
    [(0, 1, 1), (1.4, 1, 1), (4.4, 1, 1), (4.5, 2, 1), (8, 3, 2), (10.4, 3, 2), (10.5, 4, 3), (15, 5, 3), (30, 10, 3)],
)
def test_thresholds_follow_the_deviation(deviation: float, t3_count: int, t2_count: int) -> None:
    motion = ClipMotion(10, deviation, 0, 0, 0)
    assert (motion.t3_count, motion.t2_count) == (t3_count, t2_count)


def test_a_pan_is_seen_and_is_no_shaking(clips: Path) -> None:
    motion = measure_clip(clips / "pan.mp4")
    assert motion.frames == 40
    assert motion.shake < 2
    assert motion.warnings("pan.mp4") == []
    vectors = np.concatenate([frame.vectors for frame in motion_vectors(clips / "pan.mp4")])
    moved = np.median(np.hypot(vectors[:, 2], vectors[:, 3]))
    assert moved == pytest.approx(2 * 1080 / 144, rel=0.1)  # two pixels a frame, as if 1080 high


def test_shaking_is_told_with_its_filter(clips: Path) -> None:
    motion = measure_clip(clips / "shaky.mp4")
    assert motion.shaky
    (warning,) = motion.warnings("shaky.mp4")
    assert "ffmpeg -i shaky.mp4 -vf deshake" in warning


def test_slides_are_told_from_a_still_camera(clips: Path) -> None:
    assert not measure_clip(clips / "still.mp4").slides
    motion = measure_clip(clips / "slides.mp4")
    assert motion.slides
    assert "--kv-prefetch-disable" in motion.warnings("slides.mp4")[0]


def test_picture_shift() -> None:
    ground = scene(3).astype(float)[:, :, 0]
    shift = picture_shift(ground[20:92, 30:158], ground[17:89, 35:163])
    assert shift.tolist() == pytest.approx([3 * 15, -5 * 15], abs=5)


def test_motion_by_region(clips: Path, tmp_path: Path) -> None:
    ground = scene(4)
    pictures = [window(ground, 50, 50) for _ in range(12)]
    for number, picture in enumerate(pictures):  # something moves through the middle square's upper left quarter
        picture[0:72, 56:128] = scene(5)[100 : 100 + 72, 3 * number : 3 * number + 72]
    motion = region_motion(write_clip(tmp_path / "corner.mp4", pictures))
    assert motion.shape == (12, 16)
    mean = motion.mean(axis=0).reshape(4, 4)
    assert mean[:2, :2].mean() > 5 * mean[2:, 2:].mean()
    assert region_motion(clips / "pan.mp4", 5).shape == (5, 16)


def test_what_has_no_motion(clips: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.mp4").write_bytes(b"junk" * 100)
    for path, message in (
        (clips / "one.mp4", "has a single frame"),
        (clips / "vp8.webm", "its coder, .*vp8, gives no motion vectors; re-encode it as H.264"),
        (tmp_path / "none.mp4", "no such file"),
        (tmp_path / "junk.mp4", "cannot be decoded"),
    ):
        with pytest.raises(MotionError, match=message):
            measure_clip(path)


def test_reuse_from_frame_to_frame(tmp_path: Path) -> None:
    with TraceReader(write_stream(tmp_path / "in.parquet", 1, frames=8, still=1.0)) as reader:
        reuse = measure_reuse(reader, 64)
    assert FRAME_NS <= reuse.covered_ns < 1.5 * FRAME_NS
    window_ns = AGES[2] * CLOCK_NS << reuse.tick_shift
    assert reuse.covered_ns <= window_ns < 2 * reuse.covered_ns
    assert 2 ** (reuse.line_shift - 8) * 64 >= reuse.lines > 2 ** (reuse.line_shift - 9) * 64


def test_reuse_across_chunks_by_hand(tmp_path: Path) -> None:
    ms = 1_000_000
    with write_trace(tmp_path / "in.parquet", TraceMetadata("made up")) as writer:
        lines, times = [7, 8, 7, 7, 8, 9], [0, 1, 2, 10 * ms, 10 * ms + 1, 10 * ms + 2]
        writer.append(0, 0, 0, 0, np.array(lines, np.uint64), np.array(times, np.uint64))
    with TraceReader(tmp_path / "in.parquet") as reader:
        chunks = reader.chunks
        reader.chunks = lambda rows=2: chunks(2)  # type: ignore[method-assign]
        reuse = measure_reuse(reader, 64)
    assert (reuse.lines, reuse.reuses) == (3, 3)
    assert 10 * ms <= reuse.covered_ns < 12 * ms
    assert reuse.line_shift == 8


def test_reads_of_a_bus_are_uses_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace of 0.3 ms without frames: what `vrex trace info` calls reused is what is calibrated by."""
    lines, times = np.tile(np.arange(20, dtype=np.uint64), 5), np.arange(100, dtype=np.uint64) * 3000
    for frames, reuses in ((1, 80), (2, 0)):
        with write_trace(path := tmp_path / f"{frames}.parquet", TraceMetadata("made up")) as writer:
            frame = np.repeat(np.arange(frames), 100 // frames)
            writer.append(frame, 0, 0, 0, lines, times)
        assert main(["calibrate", "--trace", str(path), "--json"]) == (reuses == 0)
        shown = capsys.readouterr()
        if reuses:
            record = json.loads(shown.out)
            assert record["reuse"]["reuses"] == reuses
            window_ns = AGES[2] * CLOCK_NS << record["settings"]["TIMEBASE.TICK_SHIFT"]
            assert 60_000 <= record["reuse"]["covered_ns"] <= window_ns < 2 * 60_000 * 2**0.25
        else:
            assert shown.out == ""
            assert "none of its 20 lines is read again, but in the same millisecond if at all" in shown.err
            assert shown.err.count("\n") == 1


def test_a_trace_without_reuse(tmp_path: Path) -> None:
    with write_trace(tmp_path / "in.parquet", TraceMetadata("made up")) as writer:
        writer.append(0, 0, 0, 0, np.arange(5, dtype=np.uint64), np.arange(5, dtype=np.uint64))
    with TraceReader(tmp_path / "in.parquet") as reader:
        assert measure_reuse(reader, 64).reuses == 0


def test_the_command(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--preset", "1080p"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["T3.COUNT=5", "T2.COUNT=3"]
    assert main(lines[-1].replace("--device 00:02.0", "").split()[1:]) == 0, "the command it prints is one"
    assert "T3.COUNT 5" in capsys.readouterr().out
    assert main(["calibrate", "--preset", "720p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"T3.COUNT": 3, "T2.COUNT": 2}
    trace = write_stream(tmp_path / "in.parquet", 1)
    assert main(["calibrate", str(clips / "slides.mp4"), "--trace", str(trace), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["settings"]) == {"T3.COUNT", "T2.COUNT", "TIMEBASE.TICK_SHIFT", "GEOMETRY.LINE_SHIFT"}
    assert len(record["warnings"]) == 1
    assert main(["calibrate", str(clips / "slides.mp4")]) == 0
    shown = capsys.readouterr()
    assert "60 frames" in shown.out
    assert main(["calibrate", "--trace", str(trace)]) == 0
    commands = [line.split()[1:-2] for line in capsys.readouterr().out.splitlines() if line.startswith("vrex ")]
    assert [command[2:] for command in commands[:-1]] == [["CTRL.ENABLE=0"]]
    assert all(main(command) == 0 for command in commands), capsys.readouterr().err
    capsys.readouterr()
    assert "slide-like" in " ".join(shown.err.split())


def test_wrong_usage(clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate"]) == 2
    assert main(["calibrate", "--preset", "4k"]) == 2
    assert main(["calibrate", str(clips / "pan.mp4"), "--preset", "720p"]) == 2
    assert main(["calibrate", str(clips / "vp8.webm")]) == 1
    assert main(["calibrate", "--trace", str(clips / "pan.mp4")]) == 1
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    assert main(["calibrate", str(tmp_path / "in.parquet")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 6
    assert "pan.mp4: a clip, not a trace; 'vrex trace make' makes one of it" in errors[4]
    assert "in.parquet is a trace: give it with --trace" in errors[5]
