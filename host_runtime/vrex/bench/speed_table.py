"""Table 6: requests a second of the compiled core, the golden model, libcachesim's LRU, and the whole runtime."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from kv_asu.params import LINE_BITS
from vrex.bench.jobs import Bars
from vrex.bench.knobs import BenchKnobs
from vrex.bench.peers import libcachesim
from vrex.bench.stream import Read, Stream
from vrex.bench.table import Table
from vrex.errors import VrexError
from vrex.extras import need
from vrex.transports.rtl import RtlTransport

DEFINITION = (
    "Requests a second of this process's CPU time, because other programs share the machine; the median of {repeats} "
    "runs over the trace's first {requests:,} lines. The compiled core at one request a clock, in batches through its "
    "numpy interface; the golden model; libcachesim's LRU, a call a request through its Python interface, with 2,048 "
    "places. The whole runtime: cache, policy, driver, DMA engine and compiled core, with {residency:.0%} of the lines "
    "near, every byte checked; its core alone: as if nothing else took time. It is clocked between requests, too."
)


def speed_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    lines = _first_lines(stream, int(knobs.speed["requests"]))
    addresses = lines << np.uint64(LINE_BITS)
    residency = float(knobs.latency["residency"])
    runs: dict[str, Callable[[], tuple[float, ...]]] = {"compiled core": lambda: (_core(addresses),)}
    runs["golden model"] = lambda: (_golden(addresses),)
    if with_peers:
        runs["libcachesim's LRU"] = lambda: (_lru(lines),)
    need("the whole runtime", "simpy")
    runs["whole runtime"] = lambda: _runtime(stream, residency, len(lines))
    repeats = int(knobs.speed["repeats"])
    definition = DEFINITION.format(requests=len(lines), repeats=repeats, residency=residency)
    table = Table("speed", f"Speed, {stream.path.name}", definition, ("what", "requests a second"))
    for name, run in runs.items():
        seconds = []
        with bars(name, "runs") as bar:
            for number in range(repeats):
                seconds.append(run())
                bar(number + 1, repeats)
        for each, times in zip((name, f"{name}, its core alone"), zip(*seconds, strict=True), strict=False):
            table.rows.append((each, round(len(lines) / median(times))))
    return table


class _TimedRtl(RtlTransport):
    """The compiled gateware, and how long it has been at it."""

    seconds = 0.0

    def observe(self, addresses: ArrayLike) -> npt.NDArray[np.void]:
        with self._timed():
            return super().observe(addresses)

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> npt.NDArray[np.void]:
        with self._timed():
            return super().query_lines(addresses, min_tlevel=min_tlevel, boost=boost)

    def evict_lines(self, count: int) -> npt.NDArray[np.void]:
        with self._timed():
            return super().evict_lines(count)

    def idle(self, clocks: int) -> None:
        with self._timed():
            super().idle(clocks)

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds += time.process_time() - began


def _runtime(stream: Stream, residency: float, requests: int) -> tuple[float, float]:
    """Seconds for so many requests in all, and of these in the core; measured in whole frames."""
    from vrex.run.replay import Replay, Shape, cache_for

    bus = _TimedRtl()
    replay = Replay(stream, cache_for(Shape.of(stream), bus, share=residency), min_tlevel=2, prefetch=True)
    began, bus.seconds = time.process_time(), 0.0
    for _ in replay.run():
        if replay.lines >= requests:
            break
    scale = requests / replay.lines
    return scale * (time.process_time() - began), scale * bus.seconds


def _first_lines(stream: Stream, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    pieces, have = [], 0
    for event in stream.events():
        if isinstance(event, Read):
            pieces.append(event.lines)
            have += len(event.lines)
            if have >= count:
                break
    return np.concatenate(pieces)[:count]


def _core(addresses: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    core = RtlTransport().core
    began = time.process_time()
    core.request(addresses)
    return time.process_time() - began


def _golden(addresses: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    from kv_asu.params import Params
    from kv_asu_firmware.golden import KvAsuGolden

    golden = KvAsuGolden(Params())
    golden.activate()
    requests = addresses.tolist()
    began = time.process_time()
    for request in requests:
        golden.clock(request)
    return time.process_time() - began


def _lru(lines: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    library = libcachesim()
    cache, request = library.LRU(2048), library.Request()
    request.obj_size = 1
    numbers = lines.tolist()
    began = time.process_time()
    for number in numbers:
        request.obj_id = number
        cache.get(request)
    seconds = time.process_time() - began
    if not cache.get_n_obj():
        raise VrexError("libcachesim's LRU holds nothing after its run: another version; install 0.3.5")
    return seconds
