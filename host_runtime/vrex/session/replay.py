"""Playing a session on another bus, every answer compared: to the first difference, or to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vrex.session.format import Progress, no_progress
from vrex.session.operation import Operation, Step, take
from vrex.transports.base import Bus

#: Answers between two reports of progress.
_REPORT = 4096


class Differing(NamedTuple):
    """One field of an answer, as it was recorded and as it was now; they may be equal."""

    name: str
    recorded: int
    replayed: int


@dataclass(frozen=True)
class Difference:
    """The first answer that is not the same.

    Attributes
    ----------
    call : int
        Which call of the session, from 0.
    step : Step
        As recorded.
    command : int or None
        Which command of the call; None when the call has none, or when it is its end that differs.
    clock : int
        The clock in which the operation was presented.
    fields : tuple of Differing
        All of the answer's fields; none when there was no answer at all.
    fault : str
        Why there was none.
    """

    call: int
    step: Step
    command: int | None
    clock: int
    fields: tuple[Differing, ...]
    fault: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """What differs: the kind of operation and the first field of it. Two faults of one cause have one kind."""
        if self.fault:
            return self.step.operation.kind, "fault"
        name = next(field.name for field in self.fields if field.recorded != field.replayed)
        return ("", name) if name == "irq" else (self.step.operation.kind, name)

    @property
    def operation(self) -> Operation:
        """The operation, cut behind the command that differs."""
        operation = self.step.operation
        return operation if self.command is None else operation.first(self.command + 1)


@dataclass
class Replay:
    """What came of playing a session.

    Attributes
    ----------
    difference : Difference or None
    calls : int
        Calls played.
    compared : Counter of str
        Answers compared, by what was asked.
    clocks : int
        Clocks it took.
    """

    difference: Difference | None = None
    calls: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    clocks: int = 0


_ASKED = {"observe": "requests", "query_lines": "queries", "evict_lines": "evicts", "read": "reads"}


def replay(steps: Iterable[Step], bus: Bus, *, calls: int | None = None, progress: Progress = no_progress) -> Replay:
    """Play a session on a bus that was just opened, and stop at the first difference.

    Parameters
    ----------
    steps : iterable of Step
    bus : Bus
    calls : int, optional
        How many there are, for the progress.
    progress : callable

    Returns
    -------
    Replay
    """
    result = Replay()
    unreported = 0
    for step in steps:
        result.difference = difference(result.calls, step, bus)
        result.calls += 1
        result.clocks = bus.clock
        if result.difference:
            break
        operation = step.operation
        answers = operation.commands or operation.kind == "read"
        if operation.kind in _ASKED:
            result.compared[_ASKED[operation.kind]] += answers
        unreported += answers
        if unreported >= _REPORT:
            progress(result.calls, calls)
            unreported = 0
    progress(result.calls, calls)
    return result


def difference(call: int, expected: Step, bus: Bus) -> Difference | None:
    """Do an operation again, and compare what comes of it with what came of it before."""
    operation = expected.operation
    try:
        step = take(bus, operation)
    except bus.faults as error:
        return Difference(call, expected, None, expected.clock, (), str(error))
    if step.clock != expected.clock:
        return Difference(call, expected, None, expected.clock, (Differing("clock", expected.clock, step.clock),))
    was, now = expected.answer, step.answer
    if isinstance(was, int) and isinstance(now, int):
        if was != now:
            return Difference(call, expected, None, step.clock, (Differing("data", was, now),))
    elif isinstance(was, np.ndarray) and isinstance(now, np.ndarray):
        if len(now) < len(was):
            return Difference(
                call, expected, None, step.clock, (), f"{len(was)} commands were answered {len(now)} times"
            )
        if not np.array_equal(was, now):
            command = int(np.flatnonzero(was != now)[0])
            rows = zip(was.dtype.names or (), was[command].tolist(), now[command].tolist(), strict=True)
            return Difference(call, expected, command, step.clock + command, tuple(Differing(*row) for row in rows))
    if step.irq != expected.irq:
        return Difference(call, expected, None, bus.clock - 1, (Differing("irq", int(expected.irq), int(step.irq)),))
    return None
