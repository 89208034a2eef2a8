"""The bench's other tables: reuse prediction counted by hand, latencies against the DMA engine itself, speed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_asu_firmware.dma import ORIN_NX_DRAM, ORIN_NX_NVME, DmaEngine, DmaParams
from kv_asu_firmware.residency import Bank
from small_streams import write_stream
from vrex.bench.bytes_table import bytes_table, drive_bytes, first_retrieval
from vrex.bench.hit_rate import TLevelTape, hit_rates
from vrex.bench.jobs import new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.latency_table import (
    Blocks,
    HostCosts,
    block_ns,
    bursts_of,
    dma_ns,
    gather_ns,
    latency_table,
    vrex_ns,
    zero_copy_ns,
)
from vrex.bench.reuse_table import Score, predict, reuse_table
from vrex.bench.speed_table import speed_table
from vrex.bench.stream import Read, Stream
from vrex.trace.format import Progress, no_progress


@contextlib.contextmanager
def no_bars(what: str, unit: str) -> Iterator[Progress]:
    yield no_progress


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return Stream(write_stream(tmp_path_factory.mktemp("traces") / "small.parquet", 31, frames=12))


@pytest.fixture(scope="module")
def knobs() -> BenchKnobs:
    knobs = BenchKnobs.read()
    knobs.hit_rate["log2_entries"] = [8]
    knobs.latency["residency"] = 0.3
    knobs.speed["requests"] = 500
    return knobs


def test_scores_by_hand() -> None:
    score = Score()
    score.add(np.array([1, 1, 1, 0, 0], bool), np.array([1, 1, 0, 1, 0], bool))
    accuracy, precision, recall, f1 = score.figures()
    assert (accuracy, precision, recall, f1) == pytest.approx((3 / 5, 2 / 3, 2 / 3, 2 / 3))
    nothing = Score()
    nothing.add(np.zeros(3, bool), np.zeros(3, bool))
    assert nothing.figures() == (1, None, None, 0)


def test_last_frame_always_and_never_are_what_they_say(stream: Stream) -> None:
    """Counted plainly: line by line, visit by visit."""
    visits: dict[int, list[tuple[int, set[int]]]] = {}
    for event in stream.events():
        if isinstance(event, Read):
            of_group = visits.setdefault(event.group, [])
            if not of_group or of_group[-1][0] != event.frame:
                of_group.append((event.frame, set()))
            of_group[-1][1].update(event.lines.tolist())
    ahead = 3
    counts = np.zeros((2, 2), int)  # said by "last frame", came
    kv, per_frame = stream.geometry.address_map, stream.geometry.grid.tokens_per_frame
    for group, of_group in visits.items():
        for number, (frame, read) in enumerate(of_group[:-ahead]):
            later = set().union(*(lines for _, lines in of_group[number + 1 : number + 1 + ahead]))
            for token in range((frame + 1) * per_frame):
                line = int(kv.lines(*divmod(group, kv.heads), token)[0])
                counts[int(line in read), int(line in later)] += 1
    scores = predict(stream, TLevelTape(new_watch(stream, "model", 8)), ahead, 0.4)
    last = scores["last frame"]
    assert counts.tolist() == [
        [last.true_negative, last.false_negative],
        [last.false_positive, last.true_positive],
    ]
    assert scores["always"].true_positive == counts[:, 1].sum()
    assert scores["never"].false_negative == counts[:, 1].sum()


def test_a_still_stream_is_predicted(tmp_path: Path, knobs: BenchKnobs) -> None:
    still = Stream(write_stream(tmp_path / "still.parquet", 32, frames=14, still=0.97))
    table = reuse_table(still, knobs, "model", False, no_bars)
    f1 = {row[0]: row[4] for row in table.rows}
    assert f1["V-Rex, 256 slots"] > max(f1["always"], f1["never"])
    assert set(f1) == {
        "V-Rex, 256 slots", "T-level 2 or 3, 256 slots", "T-level not 0, 256 slots", "last frame", "always", "never"
    }  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(
    lines=st.lists(st.integers(0, 300), min_size=1, max_size=40, unique=True),
    dma=st.sampled_from([ORIN_NX_DRAM, ORIN_NX_NVME]),
)
def test_the_engine_takes_as_long(lines: list[int], dma: DmaParams) -> None:
    env = simpy.Environment()
    engine = DmaEngine(env, dma)
    bursts = engine.merge(lines, Bank.DEMAND)
    engine.submit(bursts, lambda burst: None)
    env.run(until=simpy.AllOf(env, [burst.landed for burst in bursts]))
    missing = np.array(sorted(lines))
    assert dma_ns(missing, dma) == env.now
    assert [(burst.first, burst.count) for burst in bursts] == bursts_of(missing, dma.max_burst_bytes // 256)


def test_times_by_hand() -> None:
    dma, host = ORIN_NX_DRAM, HostCosts(launch_ns=10_000, issue_ns=500, outstanding=4)
    three = np.array([5, 6, 9])  # two bursts, of 512 and 256 bytes: 5 and 2.5 ns, rounded up
    assert vrex_ns(100, 1, three, dma) == 202 + 100 + 150 + 100 + 3
    assert vrex_ns(100, 1, three[:0], dma) == 202
    assert gather_ns(three, dma, host) == 10_000 + 150 + 5 + 3
    assert gather_ns(three[:0], dma, host) == 0
    assert zero_copy_ns(9, dma, host) == 3 * 150 + 9 * 3
    assert block_ns(2, 16, dma, host) == 10_000 + 1000 + 150 + 2 * 40
    assert block_ns(0, 16, dma, host) == 0


def test_blocks_are_kept_by_recency() -> None:
    blocks = Blocks(2)
    asked = ([1, 2], [1], [3], [2], [1, 2, 3])
    assert [blocks.ask(each) for each in asked] == [[1, 2], [], [3], [2], [1]]


def test_the_latency_table(stream: Stream, knobs: BenchKnobs) -> None:
    table = latency_table(stream, knobs, "model", False, no_bars)
    means = {row[0]: row[1] for row in table.rows}
    assert means["DRAM, V-Rex"] < means["DRAM, gather, launch 2 us"] < means["DRAM, gather, launch 20 us"]
    assert means["DRAM, blocks, launch 10 us"] < means["NVMe, blocks, launch 10 us"]
    assert "NVMe, zero-copy" not in means
    for _, mean, median, worst, times_mean, times_worst in table.rows:
        assert 0 <= median <= worst
        assert mean <= worst
        assert times_mean > 0 < times_worst


def test_bytes_of_a_drive() -> None:
    assert drive_bytes(np.array([0, 1, 15, 16, 40])) == 3 * 4096
    assert drive_bytes(np.zeros(0, np.int64)) == 0


def test_a_first_retrieval_after_a_pause() -> None:
    asleep, warm, awake = first_retrieval(np.arange(5, 8))
    dma = ORIN_NX_NVME
    expected = dma_ns(np.arange(5, 8), dma) / 1000
    assert (warm, awake) == (expected, expected)
    assert asleep == expected + dma.wake_up_ns / 1000


def test_the_bytes_table(stream: Stream, knobs: BenchKnobs) -> None:
    table = bytes_table(stream, knobs, "model", False, no_bars)
    (plain, ahead, blocks) = table.rows
    assert plain[3] == 1.0  # whoever asks has use for it
    assert 0 < ahead[3] <= 1
    assert 0 < blocks[3] < 1
    assert plain[1] < plain[2]  # a drive reads more than it is asked for
    core = TLevelTape(new_watch(stream, "model", 8))
    (same,) = hit_rates(stream, [0.3], core=core)
    assert plain[1] == pytest.approx(same.moved * 256 / 12 / 2**20)


def test_the_speed_table(stream: Stream, knobs: BenchKnobs) -> None:
    pytest.importorskip("libcachesim", reason="libcachesim is not installed")
    table = speed_table(stream, knobs, "rtl", True, no_bars)
    names = ["compiled core", "golden model", "libcachesim's LRU", "whole runtime", "whole runtime, its core alone"]
    assert [row[0] for row in table.rows] == names
    assert all(row[1] > 100 for row in table.rows)
    assert table.rows[4][1] > table.rows[3][1]  # a part takes less time than all
