"""The device model: the behavioural model behind a whole PCI function's config space, clocked by what is done to it.

A register access and a bus operation take a fixed number of clocks, so a script has one sequence of clocks, and the
compiled gateware, driven with the same clocks, gives the same numbers. Where the contract leaves the core a choice of
clock, the device model therefore takes the gateware's:

- A read shows the clock in which it is made; a result that a register keeps is in it from the clock after.
- COLD, COLD_AVAILABLE, COLD_HIGH and the demotions counter follow the cold marks, of which one a clock is made. A line
  at T-level 0 is there for evictions and queries at once and for these counts when it has its mark.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from itertools import chain, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, Counter
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_firmware.golden import Clock, Entry, KvAsuGolden, Query
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
        ValueError
            The count is negative.
        """
        answers = self._decide((None, None, True) for _ in range(_count("count", count)))
        return np.array([clock.victim for clock in answers], VICTIM)

    def idle(self, clocks: int) -> None:
        """Let clocks pass.

        Raises
        ------
        ValueError
            Their number is negative.
        """
        self.model.idle(_count("clocks", clocks))
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


class _Core(KvAsuGolden):
    """The behavioural model, and which of its cold lines the gateware has marked.

    One line a clock gets its mark, the least recently used first, before the request of that clock. Retirement goes
    along the recency list, which has a touch in its links only some clocks after the decision. Until then the touched
    line stands where it was, and retirement rests for each clock on it, or when it stepped onto it in the last of these
    clocks (`kv_asu.cursor`).
    """

    def _restart(self) -> None:
        super()._restart()
        self._linking = 2 if self.params.list_follows else 1  # clocks after a decision in which links are as before
        self._unmarked: OrderedDict[int, Entry] = OrderedDict()
        self._next_mark = 0  # no mark is made before this clock
        self._rests: set[int] = set()  # the clocks, from now on, in which none is made
        self._ahead: deque[tuple[int, list[Entry]]] = deque(maxlen=4)  # by clock: the lines below the one touched

    @property
    def marked(self) -> int:
        """How many lines have a cold mark."""
        return len(self._cold) - len(self._unmarked)

    def _advance(self, clocks: int) -> None:
        super()._advance(clocks)
        if self._unmarked:
            self._mark()

    def _expire(self) -> None:
        before = len(self._cold)
        super()._expire()
        expired = list(islice(reversed(self._cold.values()), len(self._cold) - before))
        self._unmarked.update((entry.line, entry) for entry in reversed(expired))
        self._counts[_DEMOTIONS] -= len(expired)  # each is counted with its mark

    def _mark(self) -> None:
        """Make the marks that are due by now."""
        settings = self.settings
        while self._unmarked:
            oldest = next(iter(self._unmarked.values()))
            expires = oldest.touched + settings.t1_age + 1 << settings.tick_shift
            linked = (oldest.touched << settings.tick_shift) + self._linking + 1
            clock = max(self._next_mark, expires, linked)
            while clock in self._rests:
                clock += 1
            self._next_mark = clock
            if clock > self._now:
                return
            del self._unmarked[oldest.line]
            self._counts[_DEMOTIONS] += 1
            self._next_mark = clock + 1
            self._leave(oldest, clock)

    def _leave(self, entry: Entry, clock: int) -> None:
        """Retirement steps off a line."""
        for touched, ahead in self._ahead:
            if touched < clock <= touched + self._linking and entry in ahead:
                ahead.remove(entry)
                if not ahead:
                    self._rests.add(clock + 1)

    def _touch(self, entry: Entry) -> int:
        # Only beside lines that are cold within a few clocks does it matter which line is touched.
        near = entry.touched + self.settings.t1_age <= self._tick + self._linking
        if near and entry.line not in self._unmarked:
            self._disturb(entry)
        return super()._touch(entry)

    def _take_from_cold(self, entry: Entry) -> bool:
        if entry.line in self._unmarked:
            self._disturb(entry)
            del self._unmarked[entry.line]
            self._counts[_DEMOTIONS] += 1
        return super()._take_from_cold(entry)

    def _disturb(self, entry: Entry) -> None:
        """A request is about to take a line away from where retirement may stand."""
        ahead = list(islice(chain(self._unmarked.values(), self._warm.values()), self._linking + 1))
        if entry in ahead:
            del ahead[ahead.index(entry) :]
            self._rests = {clock for clock in self._rests if clock > self._now}
            if ahead:
                self._ahead.append((self._now, ahead))
            else:
                coming = self._now + 1
                if self._linking > 1 and coming in self._rests:  # it comes to the line when the links have the touch
                    self._rests.add(coming + 1)
                else:
                    self._rests.add(coming)
                    if self._linking > 1:  # it stands on the line already, and does not wait for the links
                        self._leave(entry, coming)


class _Model(ConfigSpaceModel):
    """The register file, with the counts of cold lines as the gateware's marks make them, a clock behind."""

    CORE = _Core
    golden: _Core

    def __init__(self, params: Params, full: bool = False) -> None:
        super().__init__(params, full)
        self._marked = self._cold_shown = 0
        self.irq_pin = False  # in the last clock

    def clock(
        self,
        request: int | None = None,
        query: Query | None = None,
        evict: bool = False,
        evict_retry: bool = False,
    ) -> Clock:
        self._marked = self.golden.marked
        self.irq_pin = self.irq
        return super().clock(request, query, evict, evict_retry)

    def decide(self, operations: Iterable[tuple[int | None, Query | None, bool]]) -> list[Clock]:
        """Decide one operation a clock: request, query, evict."""
        if self._changing or self._values["COLD_WATERMARK.LINES"]:
            return [self.clock(*operation) for operation in operations]
        # Nothing can happen at the registers but a request without a slot, so the core is clocked by itself.
        clock, before = self.golden.clock, self.golden.counters["untracked"]
        answers = [clock(*operation) for operation in operations]
        if self.golden.counters["untracked"] > before:
            self._set_event("UNTRACKED")
            self._signal()
        return answers

    def idle(self, clocks: int) -> None:
        while clocks:
            if clocks > 2 and not self._changing and self._cold_shown <= self.golden.marked:
                # Counts can only rise now. The last two clocks are taken one by one: what shows is of the clock before.
                self.golden.idle(clocks - 2)
                clocks = 2
            self.clock()
            clocks -= 1

    def _watch_cold(self, before: int) -> None:
        before, self._cold_shown = self._cold_shown, self._marked if self.golden.active else 0
        if before < self._values["COLD_WATERMARK.LINES"] <= self._cold_shown:
            self._set_event("COLD_HIGH")

    def _status(self, path: str) -> int:
        match path:
            case "STATUS.COLD_AVAILABLE":
                return int(self._cold_shown > 0)
            case "COLD.LINES":
                return self._cold_shown
        return super()._status(path)


def _count(name: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value!r}")
    return int(value)
