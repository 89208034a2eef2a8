"""The comparison: pins as they were seen, clock by clock, against the reference.

It is the only comparison there is: the cocotb bench feeds it from its monitors, :mod:`kv_asu_sim.lockstep` from the
compiled RTL's arrays. It knows neither simulator nor drivers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, VictimStatus
from kv_asu_firmware.golden import Answer, Clock, Query, Tag, Victim
from kv_asu_sim.coverage import Coverage
from kv_asu_sim.reference import Reference

#: Clocks of pins shown with a difference.
CONTEXT = 16

#: Clocks without a request after which only fetching can delay a victim.
QUIET = 16


class Taken(NamedTuple):
    """What the input pins carried in one clock; None or False where nothing was valid."""

    request: int | None = None
    query: tuple[int, int, int] | None = None  # address, least T-level, boost
    evict: bool = False
    write: tuple[int, int, int, int] | None = None  # DWORD, value, byte enables, function
    read: tuple[int, int] | None = None  # DWORD, function
    reset: bool = False
    power_good: bool = True


class Seen(NamedTuple):
    """What the output pins carried in one clock; None where nothing was valid."""

    tag: tuple[int, ...] | None = None  # tag_line to spill_line, in the order of the pins
    answer: tuple[int, int, int] | None = None
    victim: tuple[int, int] | None = None
    read_data: int | None = None
    irq: int = 0


class Difference(AssertionError):
    """The core and the reference differ; the message says where, how, and what came before."""


_NOTHING = Taken()

#: What the tuples in messages hold, in the order of the pins.
_FIELDS = {"tag": Tag._fields, "answer": Answer._fields, "victim": Victim._fields, "query": Query._fields}


class Scoreboard:
    """Compares every clock of one run.

    Parameters
    ----------
    params : Params
        The build under test.
    coverage : Coverage, optional
        Told of everything that is compared.

    Attributes
    ----------
    compared : Counter of str
        How many answers of each port, register reads and clocks were compared.
    clock_number : int
        Clocks seen so far; the number of the last one in messages.
    """

    def __init__(self, params: Params, coverage: Coverage | None = None) -> None:
        self.params = params
        self._coverage = coverage
        self.compared: Counter[str] = Counter()
        self.clock_number = -1
        self._reference: Reference | None = None  # none before the first reset
        self._recent: deque[tuple[int, Taken, Seen]] = deque(maxlen=CONTEXT)
        self._restart()

    def _restart(self) -> None:
        self._in_flight: deque[Taken] = deque([_NOTHING] * self.params.latency)
        self._reading: tuple[int, int] | None = None  # the read of the clock before
        self._irq: tuple[int, ...] = (0,)  # what irq could be after the clock before
        self._drained = self._retries = 0  # clocks of evict without requests; of RETRY among them

    def clock(self, taken: Taken, seen: Seen) -> None:
        """Compare one clock.

        Parameters
        ----------
        taken, seen : Taken, Seen
            The pins as they stood at one rising edge.

        Raises
        ------
        Difference
            The core did something that the reference does not allow.
        """
        self.clock_number += 1
        self._recent.append((self.clock_number, taken, seen))
        if self._coverage is not None and self._reference is not None:
            self._coverage.taken(self._reference.worlds[0], taken, self._in_flight)
        if taken.reset:
            self._reference = Reference(self.params)
            self._restart()
            return
        reference = self._reference
        if reference is None:
            return
        answered = self._reading
        self._compare_read(reference, seen.read_data)
        if taken.read is not None and taken.read != answered:  # a read held until it is answered is one read
            self._reading = taken.read
            for world in reference.worlds:
                world.remember(taken.read[0], begin=True)
        self._compare_answers(reference, self._in_flight.popleft(), seen)
        if self._reading is not None:
            for world in reference.worlds:
                world.remember(self._reading[0], begin=False)
        self._in_flight.append(taken)
        if taken.write is not None and taken.write[3] == self.params.function:
            reference.write(*taken.write[:3])
            self._irq = reference.worlds[0].may_irq()
        reference.power(taken.power_good)

    def finish(self) -> None:
        """Check that nothing is owed.

        Raises
        ------
        Difference
            An operation has not been answered yet, or the run never left reset.
        """
        if not self.compared["clocks"]:
            raise Difference("nothing was compared: the core never left reset")
        waiting = [taken for taken in self._in_flight if taken.request is not None or taken.query or taken.evict]
        if waiting or self._reading is not None:
            raise Difference(f"{len(waiting)} clocks of operations are unanswered at the end: {waiting}")

    def _compare_read(self, reference: Reference, data: int | None) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            if data is not None:
                self._fail(f"cfg_ext_read_data_valid with {data:#x}, but nothing was read")
            return
        number, function = reading
        if function != self.params.function:
            if data is not None:
                self._fail(f"a read of function {function} was answered with {data:#x}")
            return
        if not reference.keep([world.may_read(number, data) for world in reference.worlds]):
            got = "nothing" if data is None else f"{data:#x}"
            expected = reference.worlds[0].read_dword(number)
            wanted = "nothing" if expected is None else f"{expected:#x}"
            self._fail(f"{self._register(number)} reads {got}, expected {wanted}")
        self.compared["reads"] += 1

    def _compare_answers(self, reference: Reference, due: Taken, seen: Seen) -> None:
        retry = due.evict and seen.victim is not None and seen.victim[0] == VictimStatus.RETRY
        query = due.query and Query(due.query[0], due.query[1], bool(due.query[2]))
        before = None if self._coverage is None else self._coverage.look(reference.worlds[0].golden, due)
        answers = reference.clock(due.request, query, due.evict, retry)
        possible = [
            seen.tag == tag and seen.victim == victim and seen.answer == (None if answer is None else answer[:3])
            for tag, answer, victim in answers
        ]
        if not reference.keep(possible):
            self._fail(_differences(due, answers[0], seen))
        if self._coverage is not None and before is not None:
            world = reference.worlds[0]
            self._coverage.decided(world.golden, due, seen, before)
            self._coverage.interrupt(world, seen.irq)
        compared = self.compared
        compared["clocks"] += 1
        if due.request is not None:
            compared["requests"] += 1
        if query is not None:
            compared["queries"] += 1
        if due.evict:
            compared["evicts"] += 1
            compared["retries"] += retry
        self._check_retry(reference, due, retry)
        irq_before, self._irq = self._irq, reference.worlds[0].may_irq()
        if seen.irq not in irq_before and seen.irq not in self._irq:
            self._fail(f"irq is {seen.irq}, expected {self._irq[0]}")

    def _check_retry(self, reference: Reference, due: Taken, retry: bool) -> None:
        """RETRY only where the rule lets it be; victims at the contract's rate while nothing is touched."""
        if retry and not any(world.golden.retry_allowed() for world in reference.worlds):
            self._fail("victim_status is RETRY, but the tail was neither touched lately nor can it still be in fetch")
        self._drained = self._drained + 1 if due.evict and due.request is None else 0
        self._retries = self._retries + 1 if retry and self._drained > self.params.latency + QUIET else 0
        if self._retries > (self.params.latency > 1):
            self._fail(f"RETRY {self._retries} times in a row while nothing is touched: victims come too slowly")

    # ---- messages ----
    def _register(self, number: int) -> str:
        for register in REGISTERS.values():
            if self.params.config_base + register.offset == 4 * number:
                return register.name
        return f"DWORD {number:#x}"

    def _fail(self, what: str) -> NoReturn:
        recent = "\n".join(
            f"  {number:>9}  {_shown(taken, self._register)}  =>  {_shown(seen, self._register)}"
            for number, taken, seen in self._recent
        )
        raise Difference(f"clock {self.clock_number}: {what}\nthe clocks before (pins in => pins out):\n{recent}")


def _differences(due: Taken, expected: Clock, seen: Seen) -> str:
    """Which fields of which answer differ."""
    found = []
    for port, kind, operation, want, got in (
        ("request", Tag, due.request, expected.tag, seen.tag),
        ("query", Answer, due.query, expected.answer, seen.answer),
        ("evict", Victim, due.evict or None, expected.victim, seen.victim),
    ):
        name = f"{port} {operation:#x}" if port == "request" and operation is not None else f"{port} {operation}"
        if (want is None) != (got is None):
            found.append(f"{name}: {'no answer came' if got is None else f'an answer nobody asked for: {got}'}")
        elif want is not None and got is not None:
            fields = zip(kind._fields, want, got, strict=False)
            wrong = [f"{field} is {int(g):#x}, expected {int(w):#x}" for field, w, g in fields if w != g]
            if wrong:
                found.append(f"{name}: " + ", ".join(wrong))
    return "; ".join(found)


def _shown(pins: Taken | Seen, register: Callable[[int], str]) -> str:
    """One clock of pins, briefly."""
    parts = []
    for name, value in pins._asdict().items():
        if value is None or value is False or (name == "irq" and not value) or (name == "power_good" and value):
            continue
        match name, value:
            case "request", int():
                parts.append(f"request {value:#x}")
            case "write", (number, data, enables, _):
                parts.append(f"write {register(number)}={data:#x}/{enables:x}")
            case "read", (number, _):
                parts.append(f"read {register(number)}")
            case "tag" | "answer" | "victim" | "query", tuple():
                fields = zip(_FIELDS[name], value, strict=False)
                parts.append(f"{name} " + " ".join(f"{field}={int(number):x}" for field, number in fields))
            case _:
                parts.append(name if value is True else f"{name} {value}")
    return "  ".join(parts) or "-"
