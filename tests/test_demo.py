"""The main job: a short replay end to end, and each way in which it must fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kv_asu.command_line import FAILURE
from kv_asu_firmware.golden import KvAsuGolden
from kv_asu_sim import demo
from kv_asu_sim.machine import ReadTime, Tiers
from vrex.trace.format import Chunk, TraceMetadata, TraceReader, write_trace

FRAMES = 6


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first frames of the trace that comes with V-Rex."""
    path = tmp_path_factory.mktemp("trace") / "short.parquet"
    with TraceReader(demo.TRACE) as reader, write_trace(path, reader.metadata) as writer:
        chunk = next(reader.chunks())
        writer.metadata = TraceMetadata("a slice", reader.metadata.geometry)
        writer.append(*Chunk._make(column[chunk.frame < FRAMES] for column in chunk))
    return path


def results(trace: Path, out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert demo.main(["--trace", str(trace), "--out", str(out), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a run that fails."""
    assert demo.main(arguments) == FAILURE
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("demo: ")
    assert "Traceback" not in "".join(error)
    return error[-1]


def test_every_answer_is_checked_and_the_files_are_there(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = results(trace, tmp_path, capsys)
    with TraceReader(trace) as reader:
        assert found["checked"] == found["requests"] == len(reader)
        assert found["hit_rate"] == sum(frame["hits"] for frame in found["frames"]) / len(reader)
    assert [frame["number"] for frame in found["frames"]] == list(range(FRAMES))
    assert found["counters"]["queries"] > 0
    assert (tmp_path / "kv_asu.v").read_text().count("module kv_asu (") == 1
    assert json.loads((tmp_path / "kv_asu.json").read_text())["latency"] == 1
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.png", "kv_asu.json", "kv_asu.v"]


def test_lines_for_people(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--trace", str(trace), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "[Frame 5] Latency: 3.2ms | KVHitRate: 92.2%\n" in out
    assert "0 mismatches" in out
    told = " ".join(out.split())
    assert "the trace reads 1,631 granules, up to 1,518 in a frame: 2,048 slots are enough for 100% of them" in told
    assert "share of the frame's reads whose line was tracked" in told
    assert "with 2,048 slots for 1,631 granules; a slot for each would give 97.0%" in told


def test_a_smaller_table_tracks_less(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = results(trace, tmp_path, capsys, "--log2-entries", "4", "--window", "4")
    large = results(trace, tmp_path, capsys)
    assert (small["slots"], large["slots"]) == (16, 2048)
    assert (small["params"]["window"], large["params"]["window"]) == (4, 8)
    assert small["hit_rate"] < large["hit_rate"] < large["always_tracked"] == small["always_tracked"]
    assert large["always_tracked"] == 1 - large["granules"] / large["requests"]


def test_what_is_chosen_is_what_runs(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--granule", "32K", "--tick", "19", "--t1-age", "20", "--t2-age", "10", "--t2-count", "3"]
    found = results(trace, tmp_path, capsys, *chosen, "--t3-count", "5", "--watermark", "7")
    settings = found["settings"]
    assert found["timing"]["tick_ns"] == 2 << 19
    assert (settings["line_shift"], settings["tick_shift"], settings["watermark"]) == (15, 12, 7)
    assert (settings["t1_age"], settings["t2_age"], settings["t3_age"]) == (20, 10, 10)
    assert (settings["t2_count"], settings["t3_count"]) == (3, 5)


def test_collecting_cold_lines(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines go cold every frame; what is evicted is checked like everything else."""
    found = results(trace, tmp_path, capsys)
    evicted = sum(frame["evicted"] for frame in found["frames"])
    assert found["counters"]["evictions"] == evicted > found["settings"]["watermark"]


def test_the_same_every_time_and_unchecked(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = results(trace, tmp_path, capsys)
    second = results(trace, tmp_path, capsys, "--check", "1234")
    assert second.pop("checked") == 1234
    first.pop("checked")
    for found in (first, second):
        del found["requests_per_second"]
    assert first == second


def test_a_wrong_answer_ends_it(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(KvAsuGolden, "_tlevel", lambda self, entry: 1)
    error = failure(capsys, "--trace", str(trace), "--out", str(tmp_path))
    assert re.fullmatch(r"demo: request \d+ to 0x[0-9a-f]+: after is 0x2, expected 0x1", error)
    assert not (tmp_path / "demo.png").exists()


@pytest.mark.parametrize("method", ["_query", "_evict"])
def test_a_wrong_answer_at_another_port_ends_it(
    method: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = getattr(KvAsuGolden, method)
    monkeypatch.setattr(KvAsuGolden, method, lambda *given: real(*given)._replace(**{"_query": {"tlevel": 9}}.get(
        method, {"line": 9})))  # fmt: skip
    error = failure(capsys, "--trace", str(trace), "--out", str(tmp_path))
    assert error.startswith({"_query": "demo: query of 0x", "_evict": "demo: evict: line is"}[method])


def test_a_counter_that_differs_ends_it(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = demo.Frame.add
    monkeypatch.setattr(demo.Frame, "add", lambda self, tags: real(self, tags[1:]))
    error = failure(capsys, "--trace", str(trace), "--out", str(tmp_path))
    assert error.startswith("demo: counter requests reads 53,587, but the ports have shown")


def test_unreadable_traces(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in failure(capsys, "--trace", str(tmp_path / "none.parquet"))
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(trace.read_bytes()[:-100])
    assert "cut short" in failure(capsys, "--trace", str(cut), "--out", str(tmp_path / "out"))
    with write_trace(tmp_path / "empty.parquet", TraceMetadata("empty")):
        pass
    assert "holds no accesses" in failure(capsys, "--trace", str(tmp_path / "empty.parquet"))


def test_a_trace_without_geometry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.parquet"
    with write_trace(path, TraceMetadata("made up for a test")) as writer:
        writer.append(0, 0, 0, 0, np.array([7, 8, 700], np.uint64), np.array([0, 2, 5000], np.uint64))
    assert results(path, tmp_path / "out", capsys)["counters"]["hits"] == 1


def test_no_place_to_write(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert "file: cannot be made" in failure(capsys, "--trace", str(trace), "--out", str(tmp_path / "file"))


def bus_trace(path: Path, every_ns: float, reads: int = 4000) -> Path:
    """Reads as a bus monitor has them: so many nanoseconds apart, of 64 lines."""
    with write_trace(path, TraceMetadata("a bus")) as writer:
        at = (np.arange(reads) * every_ns).astype(np.uint64)
        writer.append(0, 0, 0, 0, np.arange(reads, dtype=np.uint64) % 64, at)
    return path


def test_a_dense_trace_takes_its_own_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4,000 reads 5 ns apart are 20 us, also here: every clock of the core's is simulated, with its own reset tick."""
    dense = bus_trace(tmp_path / "bus.parquet", 5)
    found = results(dense, tmp_path, capsys, "--granule", "256", "--tick", "2", "--t1-age", "125")
    assert (found["timing"]["simulated_clock_ns"], found["timing"]["tick_ns"]) == (2, 8)
    assert found["settings"]["tick_shift"] == 2
    assert found["timing"]["took_ms"] == pytest.approx(found["timing"]["trace_ms"], abs=2e-6)
    assert found["hit_rate"] == 1 - 64 / 4000  # 64 reads of 5 ns apart are warm for 125 ticks of 8 ns
    assert demo.main(["--trace", str(dense), "--out", str(tmp_path)]) == 0
    assert "Warning" not in capsys.readouterr().out


def test_a_trace_with_more_requests_than_clocks_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = bus_trace(tmp_path / "bus.parquet", 0.5)
    assert demo.main(["--trace", str(full), "--out", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Warning: the trace's 0.002 ms took 0.008 ms here: it has more requests than clocks of 2 ns" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "-1"], "'-1' is not a number of 0 or more"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--granule", "5000"], "'5000' is not a power of two from 256 to 16M"),
        (["--granule", "128"], "'128' is not a power of two"),
        (["--granule", "K"], "'K' is not a power of two"),
        (["--granule", "32M"], "'32M' is not a power of two"),
        (["--tick", "32"], "'32' is not a number from 0 to 31"),
        (["--t1-age", "999999"], "t1_age must be 1 to"),
        (["--t2-age", "3"], "t2_age must be 0 to 2, not 3"),
        (["--t3-count", "99999"], "t3_count must be 0 to 65535"),
        (["--log2-entries", "17"], "log2_entries must be"),
        (["--window", "5"], "window must be"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo.main(arguments)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_modelled_time_by_hand() -> None:
    """Two near lines; three far ones, two of them in one block, in two tiles that wait once each."""
    tiers = Tiers(near_bytes_per_second=256_000_000_000, far_bytes_per_second=4_096_000_000, far_latency_ns=50_000,
                  far_block_bytes=4096, source="made up")  # fmt: skip
    lines = np.array([0, 1, 2, 3, 16], np.uint64)
    zero, tile = np.zeros(5, np.uint16), np.array([0, 0, 0, 0, 1], np.uint16)
    reads = Chunk(zero.astype(np.uint32), zero, zero, tile, lines, lines)
    whole, cut = ReadTime(tiers), ReadTime(tiers)
    near = np.array([True, False, False, True, False])
    whole.add(reads, near)
    for part in (slice(0, 2), slice(2, 5)):
        cut.add(Chunk._make(column[part] for column in reads), near[part])
    assert whole.ms == cut.ms == pytest.approx((2 * 1 + 2 * 1000 + 2 * 50_000) / 1e6)


def test_what_if_does_not_take_the_place_of_the_demo(monkeypatch: pytest.MonkeyPatch, trace: Path) -> None:
    asked: list[Path] = []

    def run(trace: Path, out: Path, *_: object) -> None:
        asked.append(out)
        raise demo.DemoError("far enough")

    monkeypatch.setattr(demo, "run", run)
    for arguments in ([], ["--check", "0"], ["--granule", "8K"], ["--trace", str(trace)], ["--out", "here"]):
        assert demo.main(arguments) == FAILURE
    assert asked == [Path(place) for place in ("build/demo", "build/demo", "build/what_if", "build/what_if", "here")]
