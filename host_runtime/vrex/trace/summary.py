"""What a trace holds, in numbers, from one pass over all of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrex.trace.address_map import LINE_BYTES
from vrex.trace.format import Progress, TraceReader, no_progress


@dataclass(frozen=True)
class Summary:
    """Numbers of a trace.

    Parameters
    ----------
    accesses, frames : int
    tiles : int
        Runs of accesses of one frame, layer, head and tile.
    lines : int
        Distinct lines read.
    line_bytes : int
        Bytes these lines take.
    reused : float
        Share of accesses whose line was read before.
    first_ns, last_ns : int
        When the first and the last line are asked for.
    closest_ns : int
        The shortest time between two accesses; below a clock period two requests would meet.
    """

    accesses: int
    frames: int
    tiles: int
    lines: int
    line_bytes: int
    reused: float
    first_ns: int
    last_ns: int
    closest_ns: int


def summarize(reader: TraceReader, progress: Progress = no_progress) -> Summary:
    """Read a trace to its end and count.

    Parameters
    ----------
    reader : TraceReader
    progress : callable
        Told the accesses read, and how many there are.

    Raises
    ------
    TraceError
        The trace is damaged.
    """
    seen: set[int] = set()
    tiles = done = first_ns = last_ns = 0
    closest_ns: int | None = None
    tile = None
    for chunk in reader.chunks():
        seen.update(np.unique(chunk.line).tolist())
        owner = np.stack([chunk.frame, chunk.layer, chunk.head, chunk.tile])
        tiles += int((owner[:, 1:] != owner[:, :-1]).any(axis=0).sum()) + (tile != tuple(owner[:, 0]))
        tile = tuple(owner[:, -1])
        if not done:
            first_ns = last_ns = int(chunk.time_ns[0])
            times = chunk.time_ns
        else:
            times = np.r_[np.uint64(last_ns), chunk.time_ns]
        if len(times) > 1:
            gap = int(np.diff(times).min())
            closest_ns = gap if closest_ns is None else min(closest_ns, gap)
        last_ns = int(chunk.time_ns[-1])
        done += chunk.accesses
        progress(done, len(reader))
    return Summary(
        accesses=done,
        frames=reader.metadata.frames,
        tiles=tiles,
        lines=len(seen),
        line_bytes=len(seen) * LINE_BYTES,
        reused=(done - len(seen)) / done if done else 0.0,
        first_ns=first_ns,
        last_ns=last_ns,
        closest_ns=closest_ns or 0,
    )
