"""Table 5: bytes moved, how many of them were of use, memory saved, and the wait of a first retrieval after a pause."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import simpy

from kv_asu_firmware.dma import NS_PER_S, ORIN_NX_NVME, DmaEngine
from kv_asu_firmware.residency import Bank
from vrex.bench.hit_rate import Follower, Pool, TLevelTape
from vrex.bench.jobs import Bars, new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.latency_table import BLOCK_TOKENS, Blocks
from vrex.bench.stream import Birth, Stream
from vrex.bench.table import Table
from vrex.runtime.policy import ALL, Lines
from vrex.trace.address_map import LINE_BYTES

DEFINITION = (
    "At {residency:.0%} residency, so {saved:.0%} of the KV's memory saved. Moved: lines of 256 bytes, asked for or "
    "ahead. NVMe: what a drive reads for them, whole blocks of 4 KiB, a block once a tile. Useful: the share of the "
    "lines moved that was asked for while near. Blocks: 16 tokens each, LRU in as much memory. First: modelled device "
    "time of the tile with the most misses, as far as the DMA queue takes it at once, after a pause of {pause} s, with "
    "an engine that sleeps, one that was warmed up, and one kept awake by a heartbeat."
)

#: Long enough for the engine to fall asleep.
PAUSE_S = 20

_MIB = 1 << 20


def bytes_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    residency = float(knobs.latency["residency"])
    kv = stream.geometry.address_map
    block_lines = max(1, BLOCK_TOKENS * kv.bytes_per_token // LINE_BYTES)
    moved_columns = ("moved MiB a frame", "NVMe MiB a frame", "useful")
    columns = ("what", *moved_columns, "first us, asleep", "first us, warmed up", "first us, heartbeat")
    definition = DEFINITION.format(residency=residency, saved=1 - residency, pause=PAUSE_S)
    table = Table("bytes", f"Bytes moved, {stream.path.name}", definition, columns)
    core = TLevelTape(new_watch(stream, transport, knobs.hit_rate["log2_entries"][0]))
    ahead_if = float(knobs.latency["likely"])
    for name, prefetch in (("V-Rex", None), (f"V-Rex, ahead if likely {ahead_if}", ahead_if)):
        follower = Follower(stream, ALL, core, prefetch)
        pool = Pool(follower.policy, stream.places(residency))
        drive = 0
        worst: Lines = np.zeros(0, np.int64)
        done = 0
        with bars(name, "reads") as bar:
            for event, places, ahead in follower:
                if isinstance(event, Birth):
                    pool.admit(places)
                    continue
                brought = pool.bring(ahead) if len(ahead) else worst[:0]
                missing = pool.ask(places)
                drive += drive_bytes(missing + stream.first_line) + drive_bytes(brought + stream.first_line)
                worst = max(worst, missing, key=len)
                done += len(places)
                bar(done, stream.reads)
        useful = 1 - (pool.prefetched - pool.useful) / pool.moved if pool.moved else None
        first = first_retrieval(worst + stream.first_line)
        table.rows.append((name, *_moved(stream, pool.moved * LINE_BYTES, drive), useful, *first))
    blocks = Blocks(max(1, stream.places(residency) // block_lines))
    missed = asked = 0
    for event in stream.events():
        lines = np.concatenate([*event.heads.values()]) if isinstance(event, Birth) else event.lines
        numbers = (lines - np.uint64(stream.first_line)).astype(np.int64) // block_lines
        gone = blocks.ask(np.unique(numbers).tolist())
        if not isinstance(event, Birth):
            missed += len(gone)
            asked += int(np.isin(numbers, gone).sum())
    moved = missed * block_lines * LINE_BYTES
    useful = asked / (missed * block_lines) if missed else None
    drive = missed * max(block_lines * LINE_BYTES, ORIN_NX_NVME.far_block_bytes)
    table.rows.append(("blocks", *_moved(stream, moved, drive), useful, None, None, None))
    return table


def drive_bytes(lines: npt.NDArray[np.int64]) -> int:
    """What an NVMe drive reads for lines that are asked for together."""
    blocks = np.unique(lines * LINE_BYTES // ORIN_NX_NVME.far_block_bytes)
    return len(blocks) * ORIN_NX_NVME.far_block_bytes


def first_retrieval(lines: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """Microseconds until lines are near after a pause, by the real engine: asleep, warmed up before, with a heartbeat.

    As many lines as the engine's queue has entries for.
    """
    times = []
    for warmed_up, heartbeat in ((False, False), (True, False), (False, True)):
        env = simpy.Environment()
        engine = DmaEngine(env)
        if heartbeat:
            env.process(engine.heartbeat())
        env.run(until=PAUSE_S * NS_PER_S)
        if warmed_up:
            engine.keep_awake()
            env.run(until=env.now + engine.params.wake_up_ns)
        began = env.now
        waiting = engine.merge(lines.tolist(), Bank.DEMAND)[: engine.params.queue_bursts]
        engine.submit(waiting, lambda burst: None)
        if waiting:
            env.run(until=simpy.AllOf(env, [burst.landed for burst in waiting]))
        times.append((env.now - began) / 1000)
    asleep, warm, awake = times
    return asleep, warm, awake


def _moved(stream: Stream, lines_bytes: int, drive: int) -> tuple[float, float]:
    return lines_bytes / stream.frames / _MIB, drive / stream.frames / _MIB
