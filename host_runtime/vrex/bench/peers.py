"""What other cache policies reach on the very same accesses, by libcachesim (extra `peers`).

A birth is an access that brings its line in. It is the line's first, so no policy can hit it: every hit that
libcachesim counts is a hit of a read. A policy is free to put a line that is born out again at once.

Parameters of the policies are libcachesim's defaults. Belady knows the future: the bound that no online policy passes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from vrex.bench.hit_rate import HitRate
from vrex.bench.stream import Birth, Stream
from vrex.errors import VrexError
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


def libcachesim() -> ModuleType:
    """The package.

    Raises
    ------
    VrexError
        It is not installed.
    """
    try:
        import libcachesim
    except ModuleNotFoundError:
        raise VrexError("the peers need libcachesim, which is not installed: make setup-test, or --no-peers") from None
    module: ModuleType = libcachesim
    return module


def write_requests(stream: Stream, path: Path) -> int:
    """Write births and reads as libcachesim's records, size 1 each; how many there are.

    Bounded memory, but for one entry a line: each access's next one is found from the end.
    """
    count = 0
    with open(path, "wb") as file:
        for event in stream.events():
            lines = np.concatenate([*event.heads.values()]) if isinstance(event, Birth) else event.lines
            records = np.zeros(len(lines), RECORD)
            records["id"], records["size"] = lines, 1
            file.write(records.tobytes())
            count += len(lines)
    records = np.memmap(path, RECORD, "r+", shape=(count,))
    later: dict[int, int] = {}
    for start in reversed(range(0, count, _RECORDS_AT_ONCE)):
        part = records[start : start + _RECORDS_AT_ONCE]
        part["next"] = next_accesses(np.ascontiguousarray(part["id"]), start + 1, later)
    records.flush()
    return count


def peer_hit_rates(
    stream: Stream,
    residencies: Sequence[float],
    policies: Iterable[str] = (*ONLINE, *BOUND),
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
    progress : callable
        Told the runs done, and how many there are.

    Raises
    ------
    VrexError
        libcachesim is not installed, or the disk is full.
    """
    library = libcachesim()
    runs = [(policy, residency) for policy in policies for residency in residencies]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder) / "requests.oracleGeneral"
        try:
            count = write_requests(stream, requests)
        except OSError as error:
            raise VrexError(f"{folder}: cannot be written ({error.strerror}); set TMPDIR to another place") from None
        for done, (policy, residency) in enumerate(runs):
            progress(done, len(runs))
            cache = getattr(library, (ONLINE | BOUND)[policy])(stream.places(residency), hashpower=_HASH_POWER)
            reader = library.TraceReader(str(requests), library.TraceType.ORACLE_GENERAL_TRACE)
            miss_ratio, _ = cache.process_trace(reader)
            hits = count - round(miss_ratio * count)
            results.append(HitRate(policy, residency, stream.reads, hits, stream.reads - hits))
        progress(len(runs), len(runs))
    return results
