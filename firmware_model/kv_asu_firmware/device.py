"""The device model: the behavioural model behind a whole PCI function's config space, clocked by what is done to it.

A register access and a bus operation take a fixed number of clocks, so a script has one sequence of clocks, and the
compiled gateware, driven with the same clocks, gives the same numbers. Where the contract leaves the core a choice of
clock, the device model therefore takes the gateware's:

- A read shows the clock in which it is made; a result that a register keeps is in it from the clock after.
- COLD, COLD_AVAILABLE, COLD_HIGH and the demotions counter follow the cold marks, of which one a clock is made. A line
  at T-level 0 is there for evictions and queries at once and for these counts when it has its mark.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, Counter
from kv_asu_firmware import integers
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_firmware.golden import Clock, Entry, KvAsuGolden, Query, Tag, Victim
from kv_asu_firmware.ports import ANSWER, TAG, VICTIM, address_array

#: Clocks a register read takes: one for the request, one for the answer.
READ_CLOCKS = 2
#: Clocks a register write takes: it has taken effect in all of the core by then (kv-asu.md section 3, settling).
WRITE_CLOCKS = 8
#: Clocks that `Device.observe` takes for the recency list's links behind the last answer.
LINK_CLOCKS = 2

_DEMOTIONS = int(Counter.DEMOTIONS)


class Device:
    """One device, just reset, with power.

    Parameters
    ----------
    params : Params
        The build.

    Attributes
    ----------
    params : Params
    model : ConfigSpaceModel
        What is inside, to be looked at: ``model.golden`` is the core.

    Raises
    ------
    ValueError
        The build's capability lies over the standard ones, or points to another behind it.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.model = _Model(params, full=True)
        self._clock = 0

    # State at the pins

    @property
    def clock(self) -> int:
        """Clocks since reset."""
        return self._clock

    @property
    def irq(self) -> bool:
        """The ``irq`` pin in the last clock; false after reset."""
        return self.model.irq_pin

    @property
    def active(self) -> bool:
        """Whether requests are tracked: STATUS.ACTIVE, by a register read."""
        return bool(self.read(self.params.config_base + REGISTERS["STATUS"].offset, 4) & 1)

    @property
    def power_good(self) -> bool:
        """The ``power_good`` pin. Setting it takes `WRITE_CLOCKS`."""
        return self.model.power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self._step()
        self.model.power_good = bool(value)
        self.idle(WRITE_CLOCKS - 1)

    # Config space

    def read(self, offset: int, size: int) -> int:
        """Read 1, 2 or 4 bytes of config space; takes `READ_CLOCKS`.

        Parameters
        ----------
        offset, size : int
            In bytes; aligned to the size.

        Raises
        ------
        ValueError
            The access is not aligned, of another size, or outside config space.
        """
        offset, size = integers.integer("offset", offset), integers.integer("size", size)
        kept = self.model.read(offset, size)
        self._step()
        now = self.model.read(offset, size)
        self._step()
        value = now if (offset & ~3) - self.params.config_base in _SHOWS_ITS_CLOCK else kept
        assert value is not None, "a full config space answers everywhere"
        return value

    def write(self, offset: int, value: int, size: int) -> None:
        """Write 1, 2 or 4 bytes of config space; takes `WRITE_CLOCKS`.

        Parameters
        ----------
        offset, size : int
            As for `read`.
        value : int
            0 to ``2**(8 * size) - 1``.

        Raises
        ------
        ValueError
            As for `read`, or the value does not fit the size.
        """
        offset, size = integers.integer("offset", offset), integers.integer("size", size)
        value = integers.integer("value", value)
        self.model.read(offset, size)  # refuses what is no access before time passes
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"value must fit {size} bytes, not {value!r}")
        self._step()
        self.model.write(offset, value, size)
        self.idle(WRITE_CLOCKS - 1)

    # The memory bus

    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        """Present memory requests, one a clock; takes n + L + `LINK_CLOCKS` clocks.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.

        Returns
        -------
        ndarray, shape (n,), dtype TAG
            Their answers, in order.

        Raises
        ------
        TypeError, ValueError
            As `kv_asu_firmware.ports.address_array`.
        """
        requests = address_array(addresses, self.params).tolist()
        answers = self._decide((request, None, False) for request in requests)
        self.idle(LINK_CLOCKS)
        return np.array([clock.tag for clock in answers], TAG)

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        """Ask for lines' T-levels without touching them, one a clock; takes n + L clocks.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.
        min_tlevel : int
            0 to 3: from which T-level on ``answer_hit`` is 1.
        boost : bool
            Raise the T-level of tracked lines by one.

        Returns
        -------
        ndarray, shape (n,), dtype ANSWER

        Raises
        ------
        TypeError, ValueError
            As `kv_asu_firmware.ports.address_array`, or ``min_tlevel`` is out of range.
        """
        if min_tlevel not in range(4):
            raise ValueError(f"min_tlevel must be 0 to 3, not {min_tlevel!r}")
        lines = address_array(addresses, self.params).tolist()
        answers = self._decide((None, Query(line, min_tlevel, bool(boost)), False) for line in lines)
        return np.array([clock.answer[:3] for clock in answers if clock.answer], ANSWER)

    def evict_lines(self, count: int) -> NDArray[np.void]:
        """Give evict commands, one a clock; takes count + L clocks.

        Returns
        -------
        ndarray, shape (count,), dtype VICTIM
            One for each command, also those answered EMPTY.

        Raises
        ------
        TypeError, ValueError
            The count is no integer, or negative.
        """
        commands = integers.count("count", count)
        answers = self._decide((None, None, True) for _ in range(commands))
        return np.array([clock.victim for clock in answers], VICTIM)

    def idle(self, clocks: int) -> None:
        """Let clocks pass.

        Raises
        ------
        TypeError, ValueError
            Their number is no integer, or negative.
        """
        clocks = integers.count("clocks", clocks)
        self.model.idle(clocks)
        self._clock += clocks

    def _step(self) -> None:
        self.model.clock()
        self._clock += 1

    def _decide(self, operations: Iterable[tuple[int | None, Query | None, bool]]) -> list[Clock]:
        """Decide one operation a clock, the first L clocks from now."""
        self.idle(self.params.latency)
        answers = self.model.decide(operations)
        self._clock += len(answers)
        return answers


#: Registers whose read shows the clock in which it is made, by their offset in the capability.
_SHOWS_ITS_CLOCK = {REGISTERS[name].offset for name in ("STATUS", "COLD")}


class _Cursor:
    """One of the gateware's cursors along the recency list (`kv_asu.cursor`): it stands on the first line ahead."""

    def __init__(self) -> None:
        self._ready = 0  # the clock from which it may step
        self._stepped = -1  # the clock of its last step onto another line
        self.ahead: OrderedDict[int, int] = OrderedDict()  # slots as they are linked, with the tick of the touch

    @property
    def slot(self) -> int | None:
        """Where it stands."""
        return next(iter(self.ahead), None)

    def at_rest(self, clock: int, moved: int | None) -> bool:
        """Whether it may step, but for a touch that is on its way to the list."""
        return clock >= self._ready and self.slot not in (None, moved)

    def step(self, clock: int) -> None:
        """Step in this clock."""
        self.ahead.popitem(last=False)
        self._ready = clock + 1
        if self.ahead:
            self._stepped = clock

    def link(self, slot: int, tick: int, clock: int) -> None:
        """A touch is linked, after what the cursor does in this clock: its line goes to the end."""
        if self.slot == slot and self._stepped == clock:
            # The line it steps onto in this clock is not there any more. That shows a clock later, and is put right by
            # another step.
            self._stepped = clock + 1
            self._ready = clock + 2
        elif self.slot in (None, slot):
            self._ready = clock + 1
        self.ahead[slot] = tick
        self.ahead.move_to_end(slot)


class _Core(KvAsuGolden):
    """The behavioural model, and what the gateware makes of it: which cold lines have a mark, and when it can evict.

    The line that grew cold first gets its mark when the candidate is ready on it, and is evicted when the tail is. Both
    cursors go along the recency list as it is linked, and a touch is linked only some clocks after its decision.
    """

    def _restart(self) -> None:
        super()._restart()
        self._follows = self.params.list_follows
        self._linking = 2 if self._follows else 1  # clocks from a decision until it is linked
        self._candidate, self._tail = _Cursor(), _Cursor()
        self._marked: set[int] = set()  # slots
        self._touches: deque[tuple[int, int, int]] = deque()  # clock, slot and tick of those that are not linked yet
        # As an evict command of this clock finds it:
        self._any_cold = self._tail_ready = False

    @property
    def marked(self) -> int:
        """How many lines have a cold mark."""
        return len(self._marked)

    def _advance(self, clocks: int) -> None:
        clock = self._now
        super()._advance(clocks)
        while clock < self._now:
            moved = self._touches[0] if self._touches and self._touches[0][0] == clock - self._linking else None
            if moved:
                self._tail.link(moved[1], moved[2], clock)
                self._touches.popleft()
            clock += 1
            if not self._touches:  # nothing happens until the candidate's line grows cold
                clock = max(clock, int(min(self._now, self._expiry(self._candidate))))
            self._retire(clock)

    def _retire(self, clock: int) -> None:
        """Let retirement have its clock; see what eviction may do in it."""
        candidate, tail = self._candidate, self._tail
        clock_moved, moved, tick = self._touches[0] if self._touches else (None, None, 0)
        if clock_moved != clock - self._linking:
            moved = None
        on_its_way = None  # to a list that follows
        if self._follows and self._touches and self._touches[-1][0] == clock - 1:
            on_its_way = self._touches[-1][1]
        unmarked_cold = clock >= self._expiry(candidate)
        tail_marked = bool(self._marked)
        if candidate.at_rest(clock, moved):
            if candidate.slot == on_its_way:
                candidate.step(clock)
            elif unmarked_cold:
                assert candidate.slot is not None
                self._marked.add(candidate.slot)
                self._counts[_DEMOTIONS] += 1
                candidate.step(clock)
        if moved is not None:
            candidate.link(moved, tick, clock)
        if not self._follows:  # it waits for this clock's mark, and knows where the candidate will stand
            tail_marked = bool(self._marked)
            unmarked_cold = clock >= self._expiry(candidate)
        self._any_cold = bool(self._marked) or unmarked_cold
        self._tail_ready = tail_marked and tail.at_rest(clock, moved)
        if tail.slot == on_its_way and tail.at_rest(clock, moved):
            tail.step(clock)
            self._tail_ready = False

    def _expiry(self, cursor: _Cursor) -> float:
        """The clock from which the line a cursor stands on is cold by the touch it knows of; infinite without one."""
        for touched in cursor.ahead.values():
            return touched + self.settings.t1_age + 1 << self.settings.tick_shift
        return math.inf

    def _expire(self) -> None:
        before = len(self._cold)
        super()._expire()
        self._counts[_DEMOTIONS] -= len(self._cold) - before  # each is counted with its mark

    def _take_from_cold(self, entry: Entry) -> bool:
        if entry.slot in self._marked:
            self._marked.remove(entry.slot)
        else:
            self._counts[_DEMOTIONS] += 1
        return super()._take_from_cold(entry)

    def _request(self, line: int) -> Tag:
        tag = super()._request(line)
        if tag.tracked:
            self._touches.append((self._now, tag.slot, self._tick))
        return tag

    def _evict(self, retry: bool) -> Victim:
        touched = self._touches[-1][1] if self._touches and self._touches[-1][0] == self._now else None
        takes = self._tail_ready and self._tail.slot != touched
        if self._tail_ready:
            self._tail.step(self._now)
        return super()._evict(self._any_cold and not takes)


class _Model(ConfigSpaceModel):
    """The register file, with the counts as the gateware shows them: of cold lines by their marks, two clocks behind,
    and of tracked lines a clock behind.
    """

    CORE = _Core
    golden: _Core

    def __init__(self, params: Params, full: bool = False) -> None:
        super().__init__(params, full)
        self._marked = self._marked_before = self._cold_shown = 0  # a clock ago, two clocks ago; as it shows
        self._tracked = 0  # a clock ago
        self.irq_pin = False  # in the last clock

    def clock(
        self,
        request: int | None = None,
        query: Query | None = None,
        evict: bool = False,
        evict_retry: bool = False,
    ) -> Clock:
        self._marked_before, self._marked = self._marked, self.golden.marked
        self._tracked = self.golden.tracked
        self.irq_pin = self.irq
        return super().clock(request, query, evict, evict_retry)

    def decide(self, operations: Iterable[tuple[int | None, Query | None, bool]]) -> list[Clock]:
        """Decide one operation a clock: request, query, evict."""
        every = list(operations)
        if not every or self._changing or self._values["COLD_WATERMARK.LINES"]:
            return [self.clock(*operation) for operation in every]
        # Nothing can happen at the registers but a request without a slot: the core is clocked by itself. The last
        # clock is taken as any other, for what shows is of clocks before.
        *most, last = every
        clock, before = self.golden.clock, self.golden.counters["untracked"]
        answers = [clock(*operation) for operation in most]
        if self.golden.counters["untracked"] > before:
            self._set_event("UNTRACKED")
        return [*answers, self.clock(*last)]

    def idle(self, clocks: int) -> None:
        while clocks:
            if clocks > 3 and not self._changing and self._cold_shown <= self._marked <= self.golden.marked:
                # Counts can only rise now. The last three clocks are taken one by one: what shows is of clocks before.
                self.golden.idle(clocks - 3)
                clocks = 3
            self.clock()
            clocks -= 1

    def _watch_cold(self, before: int) -> None:
        before, self._cold_shown = self._cold_shown, self._marked_before if self.golden.active else 0
        if before < self._values["COLD_WATERMARK.LINES"] <= self._cold_shown:
            self._set_event("COLD_HIGH")

    def _status(self, path: str) -> int:
        match path:
            case "STATUS.COLD_AVAILABLE":
                return int(self._cold_shown > 0)
            case "COLD.LINES":
                return self._cold_shown
            case "TRACKED.LINES":
                return self._tracked if self.golden.active else 0
        return super()._status(path)
