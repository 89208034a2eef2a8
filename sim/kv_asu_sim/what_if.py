"""What the demo lets an architect choose: table, granule, time and thresholds; and what a trace asks of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import LINE_BITS, Params
from kv_asu_firmware.golden import Settings
from vrex import registers as regs
from vrex.trace.format import Chunk, TraceReader

#: The core's clock, and log2 of how many of them one simulated clock stands for at most. A frame of the committed trace
#: lasts 20 million clocks of 2 ns, nearly all of them idle; 128 at a time still leave every frame done before the next
#: one starts. With a denser trace, or a shorter tick, it stands for fewer: `WhatIf.for_trace`.
CLOCK_NS = 2
MOST_LOG2_COARSER = 7

_LARGEST_SHIFT = _MOST_TICK_SHIFT = 24

#: Defaults. A granule is a page of 4 KiB, 16 lines: 2,048 slots hold 15 % of those that the committed trace reads. A
#: tick is 2^18 clocks, 0.52 ms, and a granule is warm for two of them, which are some 4,000 reads when each takes a
#: simulated clock. With more, granules that no kernel reads again in this frame keep the slots from those that come.
#: T2 is for half as many reads as a granule has lines, T3 for as many.
_GRANULE = "4K"
_LOG2_TICK = 18
_AGE = 2
_T3_COUNT, _T2_COUNT = 16, 8
_WATERMARK = 16


@dataclass(frozen=True)
class WhatIf:
    """One choice.

    Parameters
    ----------
    params : Params
        The build.
    settings : Settings
        Its registers; TICK_SHIFT counts simulated clocks.
    log2_tick : int
        log2 of a tick in clocks.
    watermark : int
        Cold lines at which the core asks for a collection.
    log2_coarser : int
        log2 of the clocks that a simulated one stands for; TICK_SHIFT is less than `log2_tick` by so much.
    """

    params: Params
    settings: Settings
    log2_tick: int
    watermark: int
    log2_coarser: int

    def for_trace(self, asked: WorkingSet) -> WhatIf:
        """The same with simulated clocks that a trace leaves half of idle, if the core's own clocks do.

        One request goes into each, so with coarser ones a dense trace would take longer than it says.
        """
        between_ns = asked.span_ns // asked.reads
        coarser = min(self.log2_coarser, max(0, (between_ns // (2 * CLOCK_NS)).bit_length() - 1))
        coarser = max(coarser, self.log2_tick - _MOST_TICK_SHIFT)
        settings = replace(self.settings, tick_shift=self.log2_tick - coarser)
        return replace(self, settings=settings, log2_coarser=coarser)

    @property
    def simulated_ns(self) -> int:
        """Nanoseconds that a simulated clock stands for."""
        return CLOCK_NS << self.log2_coarser

    @property
    def tick_ns(self) -> int:
        """Nanoseconds in a tick."""
        return CLOCK_NS << self.log2_tick

    @property
    def granule_bytes(self) -> int:
        """Bytes that share a slot."""
        return 1 << self.settings.line_shift


def _granule(text: str) -> int:
    """log2 of a size like 256, 4K or 1M."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    digits = text if factor == 1 else text[:-1]
    size = int(digits) * factor if digits.isascii() and digits.isdecimal() else 0
    shift = size.bit_length() - 1
    if size.bit_count() != 1 or not LINE_BITS <= shift <= _LARGEST_SHIFT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a power of two from 256 to 16M")
    return shift


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose."""
    group = parser.add_argument_group("what if", "The core and its registers; ages are in ticks.")

    def add(name: str, default: int | None, text: str, least: int = 0, most: int | None = None) -> None:
        shown = text if default is None else f"{text} (default: %(default)s)"
        group.add_argument(name, type=whole_number(least, most), default=default, metavar="N", help=shown)

    add("--log2-entries", 11, "log2 of the table's slots, 3 to 16")
    add("--window", 8, "slots probed in parallel: 2, 4, 8 or 16")
    group.add_argument(
        "--granule", type=_granule, default=_GRANULE, metavar="SIZE",
        help="bytes that share a slot, 256 (one line) to 16M, a power of two (default: %(default)s)",
    )  # fmt: skip
    add("--tick", _LOG2_TICK, f"log2 of a tick in clocks of {CLOCK_NS} ns, 0 to 31; the core's reset value is 2", 0, 31)
    add("--t1-age", _AGE, "a line not read for longer is cold, T-level 0", 1)
    add("--t2-age", None, "for T-level 2 the last read is at most so long ago (default: as T1)")
    add("--t3-age", None, "for T-level 3 (default: as T2)")
    add("--t2-count", _T2_COUNT, "reads for T-level 2")
    add("--t3-count", _T3_COUNT, "reads for T-level 3")
    add("--watermark", _WATERMARK, "cold lines at which they are collected, when a frame is over", 1, 0xFFFF_FFFF)


def from_options(parser: Parser, options: argparse.Namespace) -> WhatIf:
    """What the options choose; wrong usage where the core cannot have it."""
    t2_age = options.t1_age if options.t2_age is None else options.t2_age
    t3_age = t2_age if options.t3_age is None else options.t3_age
    coarser = min(MOST_LOG2_COARSER, options.tick)
    try:
        params = Params.asic(log2_entries=options.log2_entries, window=options.window)
        settings = Settings(
            log2_active=params.log2_entries,
            decay=regs.Decay.HALVE,
            line_shift=options.granule,
            tick_shift=options.tick - coarser,
            t3_count=options.t3_count,
            t3_age=t3_age,
            t2_count=options.t2_count,
            t2_age=t2_age,
            t1_age=options.t1_age,
        )
        settings.check(params)
    except ValueError as error:
        parser.error(str(error))
    return WhatIf(params, settings, options.tick, options.watermark, coarser)


# ---- what a trace asks of it ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkingSet:
    """What a trace reads.

    Parameters
    ----------
    reads : int
        Accesses.
    granules : int
        Distinct granules, each of which would want a slot of its own.
    most_in_a_frame : int
        Distinct granules of the frame that has most.
    span_ns : int
        From the first access to the last.
    """

    reads: int
    granules: int
    most_in_a_frame: int
    span_ns: int

    @property
    def always_tracked(self) -> float:
        """The hit rate if no granule ever lost its slot: only the first read of each finds it untracked."""
        return 1 - self.granules / self.reads


def working_set(reader: TraceReader, line_shift: int) -> WorkingSet:
    """Count the granules of a trace; memory is one number for each."""
    seen = within = np.empty(0, np.uint64)
    most, frame = 0, None
    first = last = 0
    for reads in pieces(reader, 1 << 20):
        first = int(reads.time_ns[0]) if frame is None else first
        last = int(reads.time_ns[-1])
        found = np.unique(reads.line >> np.uint64(line_shift - LINE_BITS))
        seen = np.union1d(seen, found)
        within = found if reads.frame[0] != frame else np.union1d(within, found)
        frame = reads.frame[0]
        most = max(most, len(within))
    return WorkingSet(len(reader), len(seen), most, last - first)


def pieces(reader: TraceReader, most: int) -> Iterator[Chunk]:
    """The trace in pieces of at most so many accesses, none of which spans two frames."""
    for chunk in reader.chunks(most):
        cuts = [0, *(np.flatnonzero(np.diff(chunk.frame)) + 1).tolist(), chunk.accesses]
        for start, end in zip(cuts, cuts[1:], strict=False):
            yield Chunk._make(column[start:end] for column in chunk)
