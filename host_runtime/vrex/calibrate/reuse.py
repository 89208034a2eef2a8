"""Tick and granule from a trace: when lines are read again, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vrex.runtime.core_watch import AGES, CLOCK_NS, MOST_LINE_SHIFT, MOST_TICK_SHIFT, smallest_granule
from vrex.trace.format import Progress, TraceReader, no_progress

#: Share of the reuses that T1, the longest window, is to cover.
COVERED = 0.9

#: Reads of one line that follow within this time are one use where frames are known: a kernel's tiles, one by one.
ONE_USE_NS = 1_000_000


@dataclass(frozen=True)
class Reuse:
    """What was found, and the settings that follow.

    Parameters
    ----------
    lines : int
        Distinct lines.
    reuses : int
        Reads of a line that was read before: over a millisecond earlier where the trace has frames.
    covered_ns : int
        Nine in ten of them come within this time; 0 when there are none.
    tick_shift : int
        TIMEBASE.TICK_SHIFT with which T1, at its age of 125 ticks, covers that time.
    line_shift : int
        GEOMETRY.LINE_SHIFT with which the lines fit the table.
    """

    lines: int
    reuses: int
    covered_ns: int
    tick_shift: int
    line_shift: int


def measure_reuse(reader: TraceReader, entries: int, progress: Progress = no_progress) -> Reuse:
    """Read a trace to its end. Memory holds one entry a distinct line.

    Of a trace without frames, of a bus for one, nothing says which reads are one use, so each is.

    Parameters
    ----------
    reader : TraceReader
    entries : int
        Slots of the core's table.
    progress : callable
        Told the accesses done, and how many there are.
    """
    one_use = ONE_USE_NS if reader.metadata.geometry or reader.metadata.frames > 1 else -1
    last: dict[int, int] = {}
    fine = np.zeros(256, np.int64)  # reuses by their time, four to the octave
    done = 0
    for chunk in reader.chunks():
        order = np.lexsort((chunk.time_ns, chunk.line))
        line, time = chunk.line[order].astype(np.int64), chunk.time_ns[order].astype(np.int64)
        starts = np.flatnonzero(np.r_[True, line[1:] != line[:-1]])
        before = np.r_[np.int64(-1), time[:-1]]
        before[starts] = [last.get(key, -1) for key in line[starts].tolist()]
        ends = np.r_[starts[1:], len(line)] - 1
        last.update(zip(line[ends].tolist(), time[ends].tolist(), strict=True))
        gaps = (time - before)[before >= 0]
        gaps = np.maximum(gaps[gaps > one_use], 1)
        fine += np.bincount((4 * np.log2(gaps)).astype(np.int64), minlength=len(fine))[: len(fine)]
        done += chunk.accesses
        progress(done, len(reader))
    reuses = int(fine.sum())
    bucket = int(np.searchsorted(np.cumsum(fine), COVERED * reuses)) if reuses else 0
    covered = round(2 ** ((bucket + 1) / 4)) if reuses else 0
    tick = max(0, -(-covered // (AGES[2] * CLOCK_NS)) - 1).bit_length()
    return Reuse(
        lines=len(last),
        reuses=reuses,
        covered_ns=covered,
        tick_shift=min(tick, MOST_TICK_SHIFT),
        line_shift=min(smallest_granule(len(last), entries), MOST_LINE_SHIFT),
    )
