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


def smallest_granule(lines: int, entries: int) -> int:
    """LINE_SHIFT of the smallest granule with which so many lines fit a table."""
    return LINE_BITS + max(0, -(-lines // entries) - 1).bit_length()


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
    ages : tuple of int
        T3.AGE, T2.AGE and T1.AGE, in ticks.
    """

    line_shift: int
    tick_shift: int
    t3_count: int
    t2_count: int
    coarser: int
    ages: tuple[int, int, int] = AGES

    @classmethod
    def of_stream(
        cls,
        lines: int,
        reads_per_frame: int,
        frame_ns: int,
        entries: int,
        *,
        line_shift: int | None = None,
        tick_shift: int | None = None,
        counts: tuple[int, int] = COUNTS,
        ages: tuple[int, int, int] = AGES,
    ) -> WatchSettings:
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
        line_shift, tick_shift : int, optional
            Instead of what follows from the stream.
        counts : tuple of int
            Touches (T3, T2) of one line; a granule's are as many for each of its lines.
        ages : tuple of int
        """
        if line_shift is None:
            line_shift = min(smallest_granule(lines, entries), MOST_LINE_SHIFT)
        shift = line_shift - LINE_BITS
        if tick_shift is None:
            tick = max(0, -(-frame_ns // (CLOCK_NS * TICKS_PER_FRAME)) - 1).bit_length()
            tick_shift = min(tick, MOST_TICK_SHIFT)
        coarser = max(0, (frame_ns // (2 * CLOCK_NS * max(1, reads_per_frame))).bit_length() - 1)
        return cls(
            line_shift=line_shift,
            tick_shift=tick_shift,
            t3_count=min(counts[0] << shift, 0xFFFF),
            t2_count=min(counts[1] << shift, 0xFFFF),
            coarser=min(coarser, tick_shift),
            ages=ages,
        )


class SlowClock:
    """A bus whose clock is simulated once for ``2**coarser`` clocks, in time that counts them all.

    It is what the driver needs of a core. An operation takes as many clocks as on the bus; if that is more time than
    has passed in the simulation, idle clocks are left out until both agree.

    Parameters
    ----------
    bus : Bus
    coarser : int

    Attributes
    ----------
    clock : int
        Clocks of 2 ns passed.
    """

    def __init__(self, bus: Bus, coarser: int) -> None:
        self._bus = bus
        self._coarser = coarser
        self._origin = bus.clock
        self.clock = 0

    @property
    def active(self) -> bool:
        """Whether the core tracks requests."""
        return self._bus.active

    def query_lines(
        self, addresses: npt.NDArray[np.uint64], *, min_tlevel: int = 0, boost: bool = False
    ) -> npt.NDArray[np.void]:
        """As `Bus.query_lines`."""
        begun = self._bus.clock
        answers = self._bus.query_lines(addresses, min_tlevel=min_tlevel, boost=boost)
        self.clock += self._bus.clock - begun
        return answers

    def observe(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        """As `Bus.observe`."""
        begun = self._bus.clock
        answers = self._bus.observe(addresses)
        self.clock += self._bus.clock - begun
        return answers

    def evict_lines(self, count: int) -> npt.NDArray[np.void]:
        """As `Bus.evict_lines`."""
        begun = self._bus.clock
        victims = self._bus.evict_lines(count)
        self.clock += self._bus.clock - begun
        return victims

    def idle(self, clocks: int) -> None:
        """Let clocks pass."""
        self.clock += clocks
        behind = (self.clock >> self._coarser) - (self._bus.clock - self._origin)
        if behind > 0:
            self._bus.idle(behind)


class CoreWatch:
    """Programs a core for a stream, feeds it, and asks it.

    Parameters
    ----------
    bus : Bus
        The core, found and not enabled yet.
    settings : WatchSettings

    Attributes
    ----------
    device : KvAsu
        The core as a script uses it.
    bus : SlowClock
        The core as a driver uses it.

    Raises
    ------
    VrexError
        There is no such core, or it cannot become active.
    """

    def __init__(self, bus: Bus, settings: WatchSettings) -> None:
        from vrex.kv_asu import KvAsu
        from vrex.registers import Decay

        self.settings = settings
        self.device = device = KvAsu(bus)
        device.disable()
        device.tick_shift = settings.tick_shift - settings.coarser
        device.granule = 1 << settings.line_shift
        device.decay = Decay.HALVE
        device.write_fields({"T3.COUNT": settings.t3_count, "T2.COUNT": settings.t2_count})
        if settings.ages != AGES:  # which stand after reset
            t3, t2, t1 = (age << device.tick_shift for age in settings.ages)
            device.set_thresholds(t3_age=t3, t2_age=t2, t1_age=t1)
        device.enable()
        self.bus = SlowClock(bus, settings.coarser)

    def read(self, lines: npt.NDArray[np.uint64], time_ns: int) -> None:
        """Reads on the bus, from a time on; if the core's time is later already, from then on."""
        self.bus.idle(max(0, time_ns // CLOCK_NS - self.bus.clock))
        self.bus.observe(lines << np.uint64(LINE_BITS))

    def tlevels(self, first_line: int, count: int) -> npt.NDArray[np.uint8]:
        """T-levels of a run of lines: shape (count,). Each granule is asked for once, at the query port."""
        shift = self.settings.line_shift - LINE_BITS
        first, last = first_line >> shift, first_line + count - 1 >> shift
        granules = np.arange(first, last + 1, dtype=np.uint64) << np.uint64(self.settings.line_shift)
        levels = self.bus.query_lines(granules)["answer_tlevel"]
        granule = (np.arange(first_line, first_line + count) >> shift) - first
        return np.asarray(levels[granule], np.uint8)

    def cold_lines(self, commands: int) -> list[range]:
        """Give evict commands; of each granule that was cold, the run of its lines, the coldest first."""
        from kv_asu.register_map import VictimStatus

        victims = self.bus.evict_lines(commands)
        lines = 1 << self.settings.line_shift - LINE_BITS
        found = victims["victim_line"][victims["victim_status"] == VictimStatus.FOUND].tolist()
        return [range(line, line + lines) for line in found]
