"""The core at its place on the memory bus: it sees a stream's reads, and is asked for T-levels.

A frame lasts tens of millions of the core's 2 ns clocks, nearly all of them idle. A simulated clock therefore stands
for ``2**coarser`` of them and TICK_SHIFT is lowered by as much, so that a tick lasts as long as it would. A read takes
a simulated clock; `coarser` is chosen so that a frame's reads still end well before the next frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kv_asu.params import LINE_BITS
from vrex.transports.base import Bus

CLOCK_NS = 2

#: Ages in ticks (T3, T2, T1), as after reset. With 25 ticks a frame or a little less they are one frame, two and five.
AGES = (25, 50, 125)
TICKS_PER_FRAME = 25

#: Touches (T3, T2) of one line's visit, by which a line counts as read much, or twice; as after reset.
COUNTS = (5, 3)

MOST_LINE_SHIFT = 24
MOST_TICK_SHIFT = 24


@dataclass(frozen=True)
class WatchSettings:
    """How the core is programmed for a stream.

    Parameters
    ----------
    line_shift, tick_shift : int
        GEOMETRY.LINE_SHIFT and TIMEBASE.TICK_SHIFT on the real clock.
    t3_count, t2_count : int
    coarser : int
        Log2 of the clocks that a simulated one stands for.
    """

    line_shift: int
    tick_shift: int
    t3_count: int
    t2_count: int
    coarser: int

    @classmethod
    def of_stream(cls, lines: int, reads_per_frame: int, frame_ns: int, entries: int) -> WatchSettings:
        """The smallest granule with which the stream's lines fit the table, and a tick of 1/25 frame or a little more.

        Parameters
        ----------
        lines : int
            All lines of the stream.
        reads_per_frame : int
            At most.
        frame_ns : int
            From one frame to the next.
        entries : int
            Slots of the table.
        """
        shift = max(0, (-(-lines // entries) - 1).bit_length())
        tick = max(0, -(-frame_ns // (CLOCK_NS * TICKS_PER_FRAME)) - 1).bit_length()
        coarser = max(0, (frame_ns // (2 * CLOCK_NS * max(1, reads_per_frame))).bit_length() - 1)
        tick = min(tick, MOST_TICK_SHIFT)
        return cls(
            line_shift=min(LINE_BITS + shift, MOST_LINE_SHIFT),
            tick_shift=tick,
            t3_count=min(COUNTS[0] << shift, 0xFFFF),
            t2_count=min(COUNTS[1] << shift, 0xFFFF),
            coarser=min(coarser, tick),
        )


class CoreWatch:
    """Feeds a core, and asks it.

    Parameters
    ----------
    bus : Bus
        The core, found and not enabled yet.
    settings : WatchSettings
    """

    def __init__(self, bus: Bus, settings: WatchSettings) -> None:
        from vrex.kv_asu import KvAsu
        from vrex.registers import Decay

        self.settings = settings
        self.bus = bus
        device = KvAsu(bus)
        device.disable()
        device.tick_shift = settings.tick_shift - settings.coarser
        device.granule = 1 << settings.line_shift
        device.decay = Decay.HALVE
        device.write_fields({"T3.COUNT": settings.t3_count, "T2.COUNT": settings.t2_count})
        device.enable()
        self._origin = bus.clock

    def read(self, lines: npt.NDArray[np.uint64], time_ns: int) -> None:
        """Reads on the bus, from a time on; if the core's time is later already, from then on."""
        due = self._origin + time_ns // (CLOCK_NS << self.settings.coarser)
        if due > self.bus.clock:
            self.bus.idle(due - self.bus.clock)
        self.bus.observe(lines << np.uint64(LINE_BITS))

    def tlevels(self, first_line: int, count: int) -> npt.NDArray[np.uint8]:
        """T-levels of a run of lines: shape (count,). Each granule is asked for once, at the query port."""
        shift = self.settings.line_shift - LINE_BITS
        first, last = first_line >> shift, first_line + count - 1 >> shift
        granules = np.arange(first, last + 1, dtype=np.uint64) << np.uint64(self.settings.line_shift)
        levels = self.bus.query_lines(granules)["answer_tlevel"]
        granule = (np.arange(first_line, first_line + count) >> shift) - first
        return np.asarray(levels[granule], np.uint8)

    def cold_lines(self) -> list[range]:
        """Take the cold list out of the table, coldest first: of each granule, the run of its lines."""
        from kv_asu.register_map import VictimStatus

        lines = 1 << self.settings.line_shift - LINE_BITS
        cold: list[range] = []
        while True:
            victims = self.bus.evict_lines(64)
            found = victims["victim_line"][victims["victim_status"] == VictimStatus.FOUND].tolist()
            cold += [range(line, line + lines) for line in found]
            if (victims["victim_status"] == VictimStatus.EMPTY).any():
                return cold
