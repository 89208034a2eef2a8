"""Table 6: requests a second of the compiled core, of the golden model, and of libcachesim's LRU, on the same lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from kv_asu.params import LINE_BITS
from vrex.bench.jobs import Bars
from vrex.bench.knobs import BenchKnobs
from vrex.bench.peers import libcachesim
from vrex.bench.stream import Read, Stream
from vrex.bench.table import Table
from vrex.errors import VrexError

DEFINITION = (
    "Requests a second of wall-clock time on this machine, the median of {repeats} runs over the trace's first "
    "{requests:,} lines: the compiled core at one request a clock, in batches through its numpy interface; the golden "
    "model; libcachesim's LRU, a call a request through its Python interface, with 2,048 places. Other programs share "
    "the machine."
)


def speed_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    lines = _first_lines(stream, int(knobs.speed["requests"]))
    addresses = lines << np.uint64(LINE_BITS)
    runs: dict[str, Callable[[], float]] = {"compiled core": lambda: _core(addresses)}
    runs["golden model"] = lambda: _golden(addresses)
    if with_peers:
        runs["libcachesim's LRU"] = lambda: _lru(lines)
    repeats = int(knobs.speed["repeats"])
    definition = DEFINITION.format(requests=len(lines), repeats=repeats)
    table = Table("speed", f"Speed, {stream.path.name}", definition, ("what", "requests a second"))
    for name, run in runs.items():
        seconds = []
        with bars(name, "runs") as bar:
            for number in range(repeats):
                seconds.append(run())
                bar(number + 1, repeats)
        table.rows.append((name, round(len(lines) / median(seconds))))
    return table


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
    from vrex.transports.rtl import RtlTransport

    core = RtlTransport().core
    began = time.perf_counter()
    core.request(addresses)
    return time.perf_counter() - began


def _golden(addresses: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    from kv_asu.params import Params
    from kv_asu_firmware.golden import KvAsuGolden

    golden = KvAsuGolden(Params())
    golden.activate()
    requests = addresses.tolist()
    began = time.perf_counter()
    for request in requests:
        golden.clock(request)
    return time.perf_counter() - began


def _lru(lines: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> float:
    library = libcachesim()
    cache, request = library.LRU(2048), library.Request()
    request.obj_size = 1
    numbers = lines.tolist()
    began = time.perf_counter()
    for number in numbers:
        request.obj_id = number
        cache.get(request)
    seconds = time.perf_counter() - began
    if not cache.get_n_obj():
        raise VrexError("libcachesim's LRU holds nothing after its run: another version; install 0.3.5")
    return seconds
