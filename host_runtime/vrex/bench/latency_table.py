"""Table 3: how long a tile waits for its lines, in one machine model: V-Rex against what a CPU starts."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kv_asu_firmware.dma import ORIN_NX_DRAM, ORIN_NX_NVME, DmaParams
from vrex.bench.hit_rate import Follower, Pool, TLevelTape
from vrex.bench.jobs import Bars, new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.stream import Birth, Stream
from vrex.bench.table import Table
from vrex.runtime.core_watch import CLOCK_NS
from vrex.runtime.policy import ALL, Lines
from vrex.trace.address_map import LINE_BYTES

DEFINITION = (
    "Modelled time from a tile's request until all its lines are near, in microseconds, at {residency:.0%} "
    "residency; a request holds {lines:.0f} lines on average. V-Rex: a query a line at 2 ns, then the DMA engine: "
    "{setup} ns a burst, far latency, transfer. Gather: the same missing lines, started by the CPU for the launch "
    "cost named, then one merged copy. Blocks: 16 tokens each, LRU in as much memory, a launch and {issue} ns a "
    "block. Zero-copy: nothing is kept near but what V-Rex keeps; missing lines are read one by one, "
    "{outstanding} at a time. Nothing else loads the memories. What V-Rex brings ahead is taken to be there a "
    "visit later."
)


@dataclass(frozen=True)
class HostCosts:
    """What a CPU-started copy costs, in nanoseconds; assumptions, swept or named.

    Parameters
    ----------
    launch_ns : int
        Launch and synchronisation of one copy.
    issue_ns : int
        Each further block in the same call.
    outstanding : int
        Lines that a kernel has under way when it reads far memory itself.
    """

    launch_ns: int = 10_000
    issue_ns: int = 500
    outstanding: int = 64


#: Tokens of a block, as vLLM has them.
BLOCK_TOKENS = 16


def bursts_of(lines: npt.NDArray[np.integer], most: int) -> list[tuple[int, int]]:
    """Ascending lines as bursts of at most `most`: first, and how many."""
    if not len(lines):
        return []
    cuts = [0, *(np.flatnonzero(np.diff(lines) != 1) + 1).tolist(), len(lines)]
    return [
        (int(lines[part]), min(most, end - part))
        for start, end in zip(cuts, cuts[1:], strict=False)
        for part in range(start, end, most)
    ]


def dma_ns(missing: npt.NDArray[np.integer], dma: DmaParams, setup_ns: int | None = None) -> int:
    """How long the engine takes, idle and awake: `kv_asu_firmware.dma`'s own formula.

    Parameters
    ----------
    missing : numpy.ndarray of int, shape (n,)
        Line numbers, ascending.
    dma : DmaParams
    setup_ns : int, optional
        Another set-up a burst than the engine's.
    """
    setup = dma.setup_ns if setup_ns is None else setup_ns
    end = 0
    for number, (first, count) in enumerate(bursts_of(missing, dma.max_burst_bytes // LINE_BYTES)):
        issued = (number + 1) * setup + dma.far_latency_ns
        end = max(issued, end) + dma.transfer_ns(dma.burst_bytes(first, count))
    return end


def vrex_ns(lines: int, latency: int, missing: npt.NDArray[np.integer], dma: DmaParams) -> int:
    """A query a line and the core's latency, then the engine."""
    return (lines + latency) * CLOCK_NS + dma_ns(missing, dma)


def gather_ns(missing: npt.NDArray[np.integer], dma: DmaParams, host: HostCosts) -> int:
    """A CPU-started copy of the same lines: no set-up a burst, its launch instead."""
    return host.launch_ns + dma_ns(missing, dma, 0) if len(missing) else 0


def zero_copy_ns(missing: int, dma: DmaParams, host: HostCosts) -> int:
    """Lines read one by one from far memory, some under way at a time."""
    waves = -(-missing // host.outstanding)
    return waves * dma.far_latency_ns + missing * dma.transfer_ns(dma.far_block_bytes)


@dataclass
class Blocks:
    """Near memory of blocks, the least recently used given up first.

    Parameters
    ----------
    places : int
        Blocks it holds.
    """

    places: int
    _near: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def ask(self, blocks: list[int]) -> list[int]:
        """A tile asks for blocks; those that were missing. They are near from now on."""
        missing = [block for block in blocks if block not in self._near]
        for block in blocks:
            self._near[block] = None
            self._near.move_to_end(block)
        while len(self._near) > self.places:
            self._near.popitem(last=False)
        return missing


def block_ns(missing: int, block_lines: int, dma: DmaParams, host: HostCosts) -> int:
    """A swap-in of whole blocks."""
    if not missing:
        return 0
    size = max(block_lines * LINE_BYTES, dma.far_block_bytes)
    return host.launch_ns + missing * host.issue_ns + dma.far_latency_ns + missing * dma.transfer_ns(size)


def latency_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    residency = float(knobs.latency["residency"])
    watch = new_watch(stream, transport, knobs.hit_rate["log2_entries"][0])
    follower = Follower(stream, ALL, TLevelTape(watch), float(knobs.latency["likely"]))
    pool = Pool(follower.policy, stream.places(residency))
    kv = stream.geometry.address_map
    block_lines = max(1, BLOCK_TOKENS * kv.bytes_per_token // LINE_BYTES)
    blocks = Blocks(max(1, stream.places(residency) // block_lines))
    host = HostCosts()
    sweep = [replace(host, launch_ns=int(us * 1000)) for us in knobs.latency["launch_us"]]
    tiers = {"DRAM": ORIN_NX_DRAM, "NVMe": ORIN_NX_NVME}
    times: dict[tuple[str, str], list[int]] = {}
    requests = done = 0

    def note(tier: str, how: str, ns: int) -> None:
        times.setdefault((tier, how), []).append(ns)

    with bars("latency", "reads") as bar:
        for event, places, ahead in follower:
            if isinstance(event, Birth):
                pool.admit(places)
                blocks.ask(_blocks(places, block_lines))
                continue
            if len(ahead):
                pool.bring(ahead)
            missing = pool.ask(places)
            missing_blocks = len(blocks.ask(_blocks(places, block_lines)))
            requests += 1
            for tier, dma in tiers.items():
                note(tier, "V-Rex", vrex_ns(len(places), 1, missing + stream.first_line, dma))
                for costs in sweep:
                    launch = f"launch {costs.launch_ns / 1000:g} us"
                    note(tier, f"gather, {launch}", gather_ns(missing + stream.first_line, dma, costs))
                    note(tier, f"blocks, {launch}", block_ns(missing_blocks, block_lines, dma, costs))
                if tier == "DRAM":  # nobody reads an NVMe drive with load instructions
                    note(tier, "zero-copy", zero_copy_ns(len(missing), dma, host))
            done += len(places)
            bar(done, stream.reads)
    definition = DEFINITION.format(
        residency=residency, lines=stream.reads / requests, setup=ORIN_NX_DRAM.setup_ns, issue=host.issue_ns,
        outstanding=host.outstanding,
    )  # fmt: skip
    columns = ("far memory, way", "mean us", "p50 us", "p99 us", "mean, times V-Rex", "p99, times V-Rex")
    table = Table("latency", f"Retrieval latency (modelled), {stream.path.name}", definition, columns)
    for (tier, how), taken in times.items():
        ours = _figures(times[tier, "V-Rex"])
        figures = _figures(taken)
        table.rows.append((f"{tier}, {how}", *figures, figures[0] / ours[0], figures[2] / ours[2]))
    return table


def _figures(ns: list[int]) -> tuple[float, float, float]:
    return float(np.mean(ns)) / 1e3, float(np.percentile(ns, 50)) / 1e3, float(np.percentile(ns, 99)) / 1e3


def _blocks(places: Lines, block_lines: int) -> list[int]:
    blocks: list[int] = np.unique(places // block_lines).tolist()
    return blocks
