"""What the core should do: the behavioural model L clocks behind the pins, and what the contract leaves open around it.

The contract fixes every answer but four, and for these a reference says what may be, not what is: a RETRY (the core's
choice within a rule), how far the count of cold lines lags, the clock in which a status becomes readable, and how often
the EVICT register had to retry inside. The last one is hidden from the pins, so the reference carries one world for
each possibility until an answer tells them apart.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import islice

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, Counter
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_firmware.golden import Clock, Query

#: A status may be read this many clocks late, and counts of lines may be off by what can happen in them.
READ_CLOCKS = 8

#: Worlds that may have to be told apart at once; more means that no answer ever does.
MAX_WORLDS = 64

_LIVE = ("decay", "reclaim_off", "t3_count", "t3_age", "t2_count", "t2_age")


class World(ConfigSpaceModel):
    """The model of core and registers, with what the contract lets differ around it."""

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._offsets = {(params.config_base + register.offset) >> 2: name for name, register in REGISTERS.items()}
        self._clock_number = 0
        # the last clocks in which COLD was below its watermark, IRQ_STATUS was written, COLD was at its watermark
        self._last_below = self._last_clear = 0
        self._last_above = -1 << 64
        self._last_operation = 0
        # demotions that the core may have missed, for the table was given up before their marks, and those it may have
        # counted after a clear instead of before; by how much the snapshot may be short or over for either reason
        self._missed = self._carried = 0
        self._short = self._over = 0
        self._earlier: list[int | None] = []
        self._held: dict[str, int] | None = None  # live settings on their way through a build with a late decision

    # ---- one clock ----
    def evict_register_comes(self, evict: bool) -> bool:
        """Whether the EVICT register gets its turn in the coming clock."""
        clocks = self._evict_turn._clocks
        return clocks is not None and clocks <= 1 and not evict

    def retry_evict_register(self) -> None:
        """Let the register's turn in the coming clock end in a RETRY: it asks for another."""
        self._evict_turn.start(self.params.latency + self.params.list_follows)

    def clock(
        self,
        request: int | None = None,
        query: Query | None = None,
        evict: bool = False,
        evict_retry: bool = False,
    ) -> Clock:
        self._clock_number += 1
        answers = super().clock(request, query, evict, evict_retry)
        if self._held is not None:
            for name, value in self._held.items():
                setattr(self.golden.settings, name, value)
            self._held = None
        if request is not None or evict:
            self._last_operation = self._clock_number
        watermark = self._values["COLD_WATERMARK.LINES"]
        if watermark:
            # Each line may be counted as late as the lag: short lives one after the other may never be.
            if self.golden.cold - self._recently_expired() < watermark:
                self._last_below = self._clock_number
            if self.golden.cold >= watermark:
                self._last_above = self._clock_number
        return answers

    def write_dword(self, number: int, value: int, byte_enable: int = 0xF) -> None:
        settings = self.golden.settings
        before = {name: getattr(settings, name) for name in _LIVE}
        if self._offsets.get(number) == "CTRL" and byte_enable & 1:
            lag = self._recently_expired()
            if value & 4:
                self._short, self._over = lag + self._missed, self._carried
            if value & 8:
                self._missed, self._carried = 0, lag
        super().write_dword(number, value, byte_enable)
        if self._offsets.get(number) in ("COLD_WATERMARK", "IRQ_STATUS"):
            self._last_below = self._last_clear = self._clock_number
        if self.params.table_stages == 2:
            # such a build works out levels a clock ahead and holds the settings of the decision as long
            self._held = {name: getattr(settings, name) for name in _LIVE}
            for name, held in before.items():
                setattr(settings, name, held)

    def likeness(self) -> object:
        """Equal for worlds that no answer will ever tell apart."""
        if self._evict_turn.running:
            return id(self)
        lines = tuple((entry.line, entry.slot, entry.count, entry.touched) for entry in self.golden.lines())
        return lines, self._victim_told, tuple(self.golden.counters.values())

    def _start_or_stop(self, flush: bool = False) -> None:
        lag = self._recently_expired()
        super()._start_or_stop(flush)
        if not self.golden.active:
            self._missed += lag

    # ---- what may be seen ----
    @property
    def _lag(self) -> int:
        return (1 << self.golden.settings.tick_shift) + READ_CLOCKS

    def _recently_expired(self) -> int:
        """Cold lines that a count may not have in it yet."""
        golden = self.golden
        if not golden.cold:
            return 0
        shift, t1_age = golden.settings.tick_shift, golden.settings.t1_age
        cold = islice(golden.lines(), golden.cold)
        return sum((golden.tick - line.touched - t1_age - 1) << shift <= self._lag for line in cold)

    def remember(self, number: int, *, begin: bool) -> None:
        """Keep what a register reads as its read's clock begins, and after that clock's operations: a status may take
        that long to be seen.
        """
        self._earlier = [*([] if begin else self._earlier), self.read_dword(number)]

    def may_read(self, number: int, value: int | None) -> bool:
        """Whether the read of the clock just taken may return a value."""
        return any(self._may_be(number, value, expected) for expected in (self.read_dword(number), *self._earlier))

    def _may_be(self, number: int, value: int | None, expected: int | None) -> bool:
        """Whether a value is the expected one, but for what the contract lets lag."""
        if value == expected:
            return True
        if value is None or expected is None:
            return False
        match self._offsets.get(number):
            case "TRACKED":
                return abs(value - expected) <= self._unsettled
            case "COLD":
                least, most = self._cold_range()
                return least <= value <= most
            case "STATUS":
                least, most = self._cold_range()
                available = value >> 2 & 1
                return (value ^ expected) & ~4 == 0 and (most > 0 if available else least <= 0)
            case "IRQ_STATUS":
                return (value ^ expected) & ~2 == 0 and (value >> 1 & 1) in self._cold_high()
            case "COUNTER_LO" if self._values["COUNTER_SELECT.INDEX"] == Counter.DEMOTIONS:
                return expected - self._short <= value <= expected + self._over
        return False

    @property
    def _unsettled(self) -> int:
        """How many lines a count may be off by because of operations too young to be in it."""
        return READ_CLOCKS if self._clock_number - self._last_operation <= READ_CLOCKS else 0

    def _cold_range(self) -> tuple[int, int]:
        cold, off = self.golden.cold, 3 * self._unsettled  # touched, spilled and evicted in one clock
        return cold - self._recently_expired() - off, cold + off

    def _cold_high(self) -> tuple[int, ...]:
        """What IRQ_STATUS.COLD_HIGH may be."""
        latched = self._values["IRQ_STATUS.COLD_HIGH"]
        if not self._values["COLD_WATERMARK.LINES"]:
            return (latched,)
        if latched and self._last_clear < self._last_below < self._clock_number - self._lag:
            return (1,)
        # COLD lags: the core may see a rise after the clear that the model saw before it
        return (0, 1) if latched or self._last_above >= self._last_clear - self._lag else (0,)

    def may_irq(self) -> tuple[int, ...]:
        """The levels that ``irq`` may have."""
        values = self._values
        if values["IRQ_STATUS.UNTRACKED"] & values["IRQ_ENABLE.UNTRACKED"]:
            return (1,)
        if values["IRQ_STATUS.CONFIG_ERROR"] & values["IRQ_ENABLE.CONFIG_ERROR"]:
            return (1,)
        return self._cold_high() if values["IRQ_ENABLE.COLD_HIGH"] else (0,)


class Reference:
    """All the worlds that agree with everything seen so far.

    Parameters
    ----------
    params : Params
        The build.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.worlds = [World(params)]

    def clock(self, request: int | None, query: Query | None, evict: bool, retry: bool) -> list[Clock]:
        """Advance every world by the operations decided in this clock; one set of answers for each."""
        worlds, answers = [], []
        for world in self.worlds:
            if world.evict_register_comes(evict):
                other = deepcopy(world)
                other.retry_evict_register()
                other_answers = other.clock(request, query, evict, retry)
                if other.golden.retry_allowed():
                    worlds.append(other)
                    answers.append(other_answers)
            worlds.append(world)
            answers.append(world.clock(request, query, evict, retry))
        if len(worlds) > MAX_WORLDS:
            raise RuntimeError("the EVICT register was never read: too many things may have happened")
        self.worlds = worlds
        return answers

    def keep(self, possible: list[bool]) -> bool:
        """Drop the worlds that what was seen rules out; false, and nothing dropped, if that is all of them."""
        if not any(possible):
            return False
        if len(possible) > 1:
            kept = [world for world, keep in zip(self.worlds, possible, strict=True) if keep]
            self.worlds = list({world.likeness(): world for world in reversed(kept)}.values())[::-1]
        return True

    def write(self, number: int, value: int, byte_enable: int) -> None:
        """A register write in this clock."""
        for world in self.worlds:
            world.write_dword(number, value, byte_enable)

    def power(self, good: bool) -> None:
        """The ``power_good`` pin in this clock."""
        for world in self.worlds:
            if world.power_good != good:
                world.power_good = good
