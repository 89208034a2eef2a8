"""What other cache policies reach on the very same accesses, by libcachesim (extra `peers`).

A birth is an access that brings its line in. It is the line's first, so no policy can hit it: every hit that
libcachesim counts is a hit of a read. A policy is free to put a line that is born out again at once.

Parameters of the policies are libcachesim's defaults. Belady knows the future: the bound that no online policy passes.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from vrex.bench.hit_rate import Follower, HitRate
from vrex.bench.stream import Birth, Stream
from vrex.errors import VrexError
from vrex.extras import need
from vrex.trace.format import Progress, no_progress
from vrex.trace.oracle_general import RECORD, next_accesses

#: The online policies by the names that they go by, and their classes in libcachesim.
ONLINE = {
    "LRU": "LRU",
    "ARC": "ARC",
    "S3-FIFO": "S3FIFO",
    "SIEVE": "Sieve",
    "LIRS": "LIRS",
    "W-TinyLFU": "WTinyLFU",
    "LeCaR": "LeCaR",
}
BOUND = {"Belady": "Belady"}

#: Log2 buckets of libcachesim's hash tables to begin with: they grow. Its default takes 128 MB a policy.
_HASH_POWER = 16

_RECORDS_AT_ONCE = 1 << 18

#: With fewer places some of libcachesim's policies end the whole process.
LEAST_PLACES = 12


def libcachesim() -> ModuleType:
    """The package.

    Raises
    ------
    VrexError
        It is not installed.
    """
    need("the comparison with other policies", "libcachesim")
    module: ModuleType = importlib.import_module("libcachesim")
    return module


#: What a run of requests is.
BORN, AHEAD, READ = range(3)


def write_requests(runs: Iterable[tuple[int, npt.NDArray[np.uint64]]], path: Path) -> list[tuple[int, int]]:
    """Write requests as libcachesim's records, size 1 each.

    Bounded memory, but for one entry a line: each access's next one is found from the end.

    Parameters
    ----------
    runs : iterable of (kind, lines)
    path : Path

    Returns
    -------
    list of (kind, count)
        The runs; of neighbours of one kind, their sum.
    """
    written: list[tuple[int, int]] = []
    with open(path, "wb") as file:
        for kind, lines in runs:
            records = np.zeros(len(lines), RECORD)
            records["id"], records["size"] = lines, 1
            file.write(records.tobytes())
            before = written.pop()[1] if written and written[-1][0] == kind else 0
            written.append((kind, before + len(lines)))
    count = sum(length for _, length in written)
    records = np.memmap(path, RECORD, "r+", shape=(count,))
    later: dict[int, int] = {}
    for start in reversed(range(0, count, _RECORDS_AT_ONCE)):
        part = records[start : start + _RECORDS_AT_ONCE]
        part["next"] = next_accesses(np.ascontiguousarray(part["id"]), start + 1, later)
    records.flush()
    return written


def _births_and_reads(stream: Stream) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    for event in stream.events():
        if isinstance(event, Birth):
            yield BORN, np.concatenate([*event.heads.values()])
        else:
            yield READ, event.lines


def _with_prefetches(stream: Stream, follower: Follower) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    for event, places, ahead in follower:
        if len(ahead):
            yield AHEAD, ahead.astype(np.uint64) + np.uint64(stream.first_line)
        kind = BORN if isinstance(event, Birth) else READ
        yield kind, places.astype(np.uint64) + np.uint64(stream.first_line)


def peer_hit_rates(
    stream: Stream,
    residencies: Sequence[float],
    policies: Iterable[str] = (*ONLINE, *BOUND),
    follower: Follower | None = None,
    progress: Progress = no_progress,
) -> list[HitRate]:
    """Every policy's hit rate at every residency.

    Parameters
    ----------
    stream : Stream
    residencies : sequence of float
        Shares of the stream's lines.
    policies : iterable of str
        Keys of `ONLINE` and `BOUND`.
    follower : Follower, optional
        One that prefetches: the peers are then asked for the very lines that it brings ahead, when it does. What they
        miss of them comes, and counts as moved and prefetched, not as hit or missed.
    progress : callable
        Told the runs done, and how many there are.

    Raises
    ------
    VrexError
        libcachesim is not installed, a residency is too small for it, or the disk is full.
    """
    library = libcachesim()
    smallest = min(residencies)
    if stream.places(smallest) < LEAST_PLACES:
        raise VrexError(
            f"{stream.path}: a residency of {smallest:.0%} is {stream.places(smallest)} lines, too few for "
            f"libcachesim's policies, which need {LEAST_PLACES}; use a longer trace, or --no-peers"
        )
    jobs = [(policy, residency) for policy in policies for residency in residencies]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder) / "requests.oracleGeneral"
        try:
            runs = write_requests(
                _births_and_reads(stream) if follower is None else _with_prefetches(stream, follower), requests
            )
        except OSError as error:
            raise VrexError(f"{folder}: cannot be written ({error.strerror}); set TMPDIR to another place") from None
        if follower is None:  # no birth hits, so there is no need to tell the kinds apart
            runs = [(READ, sum(length for _, length in runs))]
        for done, (policy, residency) in enumerate(jobs):
            progress(done, len(jobs))
            cache = getattr(library, (ONLINE | BOUND)[policy])(stream.places(residency), hashpower=_HASH_POWER)
            reader = library.TraceReader(str(requests), library.TraceType.ORACLE_GENERAL_TRACE)
            start = 0
            hits, missed = [0] * 3, [0] * 3
            for kind, length in runs:
                miss_ratio, _ = cache.process_trace(reader, start_req=start, max_req=length)
                misses = round(miss_ratio * length)
                hits[kind] += length - misses
                missed[kind] += misses
                start += length
            moved = stream.reads - hits[READ] + missed[AHEAD]
            results.append(HitRate(policy, residency, stream.reads, hits[READ], moved, missed[AHEAD]))
        progress(len(jobs), len(jobs))
    return results
