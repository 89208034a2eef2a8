"""`vrex run`: a stream through the whole runtime, its figures, its switches, its one-line errors."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vrex.run.replay
from kv_asu.installing import way_out
from small_streams import write_stream
from vrex.bench.stream import Birth, Stream
from vrex.cli import main
from vrex.runtime.cache import DynamicRetrievalCache
from vrex.trace.maker import Knobs


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stream(tmp_path_factory.mktemp("traces") / "small.parquet", 21, frames=8)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["run", *arguments, "--json"]) == 0
    record: dict[str, object] = json.loads(capsys.readouterr().out)
    return record


def test_everything_near_hits(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for switch in (["--no-kv-retrieval-enabled"], ["--kv-cache-reserve-mb", "64"]):
        record = run(capsys, str(trace), *switch)
        assert record["hit_rate"] == 1
        assert record["warnings"] == []
    stream = Stream(trace)
    frames = record["frames"]
    assert isinstance(frames, list)
    assert sum(frame["lines"] for frame in frames) == stream.reads
    assert sum(frame["written"] for frame in frames) == stream.lines
    assert [frame["frame"] for frame in frames] == list(range(8))


def test_lines_for_people(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, prometheus = tmp_path / "frames.jsonl", tmp_path / "totals.prom"
    command = ["run", str(trace), "--residency", "0.5", "--json-lines", str(lines), "--prometheus", str(prometheus)]
    assert main(command) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[0] for line in shown[:2]] == ["KVHitRate", "Latency"], "what the labels say"
    assert len(shown) == 3 + 9
    for number, line in enumerate(shown[3:11]):
        assert re.fullmatch(rf"\[Frame {number}\] Latency: \d+\.\dms \| KVHitRate: \d+\.\d%", line)
    assert shown[11].startswith("KVHitRate ")
    assert [json.loads(line)["frame"] for line in lines.read_text().splitlines()] == list(range(8))
    assert "vrex_frames_total 8" in prometheus.read_text()


def test_the_bar_makes_way_for_the_lines(trace: Path) -> None:
    """On a terminal, where both are shown."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    with subprocess.Popen(
        [sys.executable, "-m", "vrex", "run", str(trace), "--frames", "5"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "xterm", "COLUMNS": "120"},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    text = shown.decode()
    for number in range(5):
        (line,) = (line for line in text.split("\r\n") if f"[Frame {number}]" in line)
        assert re.search(r"(^|\x1b\[2K)\[Frame \d\] Latency: [\d.]+ms \| KVHitRate: [\d.]+%$", line), line
    assert re.search(r"\d/5", text)  # which of the frames the bar was drawn at is the machine's to say


def test_model_and_rtl_give_the_same(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(trace), "--residency", "0.4", "--frames", "4")
    assert run(capsys, *arguments) == run(capsys, *arguments, "--transport", "rtl")


def test_prefetch_adds_hits_and_can_be_switched_off(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(trace), "--residency", "0.4", "--kv-tlevel-thresh", "0")
    ahead, without = run(capsys, *arguments), run(capsys, *arguments, "--kv-prefetch-disable")
    for record, expected in ((ahead, True), (without, False)):
        frames = record["frames"]
        assert isinstance(frames, list)
        assert any(frame["prefetched"] for frame in frames) == expected


def test_a_low_hit_rate_is_told_once_with_its_cause(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--residency", "0.2", "--kv-prefetch-disable"]) == 0
    error = " ".join(capsys.readouterr().err.split())
    assert error.count("warning") == 1
    assert "hit rate under 70%: near memory has" in error


def test_changed_data_would_be_seen(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gather = DynamicRetrievalCache._gather

    def broken(self: DynamicRetrievalCache, layer: int, head: int, tokens: object) -> object:
        keys, values = gather(self, layer, head, tokens)  # type: ignore[arg-type]
        values.view("u2")[-1, -1] ^= 1
        return keys, values

    monkeypatch.setattr(DynamicRetrievalCache, "_gather", broken)
    assert main(["run", str(trace), "--frames", "1"]) == 1
    assert "frame 0, layer 0, head 0: data came back changed" in capsys.readouterr().err


def test_streams_that_do_not_fit(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(trace), "--max-model-len", "40"]) == 1
    assert main(["run", str(trace), "--residency", "0.01"]) == 1
    assert main(["run", str(trace), "--dtype", "float"]) == 2
    assert main(["run", str(trace), "--transport", "sysfs"]) == 2
    assert main(["run", str(trace), "--residency", "nan"]) == 2
    assert main(["run", "none.mp4"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 6
    assert "layer 0 holds 34 tokens of at most 40, no room for 17 more" in errors[0]
    assert re.search(r"near memory has \d+ places for lines, and 34 lines are in use at once: at least", errors[1])
    assert "the stream's KV is fp16" in errors[2]
    assert "none.mp4: cannot be read" in errors[5]


@pytest.mark.parametrize("small", ["--residency 0.02", "--kv-cache-reserve-mb 0.01"])
def test_what_is_told_to_make_room_makes_room(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_stream(tmp_path / "wide.parquet", 3, frames=8, head_size=256)
    assert main(["run", str(trace), *small.split(), "--frames", "1"]) == 1
    error = capsys.readouterr().err
    assert "136 lines are in use at once" in error
    found = re.findall(r"(--[a-z-]+) ([\d.]+),? ?", error.partition("at least")[2])
    assert [option for option, _ in found] == ["--residency", "--kv-cache-reserve-mb"]
    for option, value in found:
        assert main(["run", str(trace), option, value, "--frames", "1"]) == 0
        assert main(["run", str(trace), option, str(float(value) * 0.7), "--frames", "1"]) == 1


def test_a_stream_that_is_longer_than_memory(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(DynamicRetrievalCache, "__init__", none_left)
    assert main(["run", str(trace), "--max-model-len", str(1 << 24)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("vrex: no memory for a stream of 16,777,216 tokens; a smaller --max-model-len")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-model-len", "99999999"], "is at most 16,777,216"),
        (["--max-model-len", "9" * 400], "is at most 16,777,216"),
        (["--kv-cache-reserve-mb", "inf"], "is at most 1,048,576"),
        (["--kv-cache-reserve-mb", "1e30"], "is at most 1,048,576"),
        (["--kv-cache-reserve-mb", "nan"], "'--kv-cache-reserve-mb'"),
        (["--kv-cache-reserve-mb", "10", "--residency", "0.5"], "near memory has one size: give MiB or a share"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_numbers_that_make_no_sense(
    arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(trace), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_that_everything_fits_is_told_once(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, told in (
        ([], 1),
        (["--kv-cache-reserve-mb", "16"], 1),
        (["--kv-cache-reserve-mb", "0.06"], 0),
        (["--residency", "1"], 0),
        (["--no-kv-retrieval-enabled"], 0),
        (["--json"], 0),
    ):
        assert main(["run", str(trace), *arguments]) == 0
        error = capsys.readouterr().err
        assert error.count("of KV fitted in near memory, so that nothing had to move") == told, arguments


def test_a_missing_package_is_one_line(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vrex.extras.find_spec", lambda name: None)
    assert main(["run", str(trace)]) == 1
    assert main(["bench", str(trace)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        f"vrex: vrex {command} needs simpy, which is not installed: {way_out('simpy')}" for command in ("run", "bench")
    ]


def test_a_clip_is_traced_and_played(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The maker has its own tests and needs a model; here it only says what it was asked for."""
    asked = []

    def make(clip: Path, output: Path, knobs: Knobs, command: str, progress: object) -> None:
        asked.append((clip, knobs.frames, knobs.layers))
        output.write_bytes(trace.read_bytes())

    monkeypatch.setattr("vrex.run.sources.make_trace", make)
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"a clip, says the name")
    assert main(["run", str(clip), "--frames", "2", "--layers", "1,4-5"]) == 0
    assert asked == [(clip, 2, (1, 4, 5))]
    assert "[Frame 1]" in capsys.readouterr().out


def test_layers_and_heads_are_numbered_densely(trace: Path) -> None:
    stream = Stream(trace)
    stream.groups = (0, 3)  # layer 0 head 0, layer 1 head 1
    kv = vrex.run.replay.layout_of(stream)
    assert (kv.layers, kv.heads) == (2, 2)
    stream.groups = (2, 3)
    kv = vrex.run.replay.layout_of(stream, 500)
    assert (kv.layers, kv.heads, kv.max_tokens) == (1, 2, 500)
    assert sum(isinstance(event, Birth) for event in stream.events()) == 16
