"""The main job: a short replay end to end, and each way in which it must fail."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
    assert demo.main(arguments) == demo.FAILURE
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
    assert "[Frame 5] Latency: 1.1ms | KVHitRate: 99.7%\n" in out
    assert "0 mismatches" in out


def test_collecting_cold_lines(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """With a short memory lines go cold every frame; what is evicted is checked like everything else."""
    monkeypatch.setattr(demo, "SETTINGS", replace(demo.SETTINGS, t3_age=1, t2_age=1, t1_age=1))
    found = results(trace, tmp_path, capsys)
    assert found["counters"]["evictions"] == sum(frame["evicted"] for frame in found["frames"]) > demo.WATERMARK


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
    monkeypatch.setattr(demo, "SETTINGS", replace(demo.SETTINGS, t3_age=1, t2_age=1, t1_age=1))
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


@pytest.mark.parametrize("arguments", [["--check", "-1"], ["--check", "x"], ["--nonsense"]])
def test_wrong_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        demo.main(arguments)
    assert capsys.readouterr().err.count("\n") == 1


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
