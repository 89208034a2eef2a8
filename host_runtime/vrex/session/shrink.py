"""Cutting a session down: the fewest operations on which a bus and the behavioural model still differ.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) over single commands
and register accesses. What is left of a session keeps its clocks, with idle ones where something was taken out, so that
lines have the ages they had; idle stretches are shortened at the end. Register writes before the first command set the
core up and are kept. Everything is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from kv_asu.params import Params
from kv_asu_firmware.golden import KvAsuGolden
from vrex.session.format import Progress, no_progress
from vrex.session.operation import PORTS, Operation, Step, duration, take
from vrex.session.replay import Difference, difference
from vrex.transports.base import Bus
from vrex.transports.model import ModelTransport

#: The name and first field of what differs: `vrex.session.replay.Difference.kind`.
Kind = tuple[str, str]


@dataclass(frozen=True)
class Cut:
    """What is left of a session.

    Attributes
    ----------
    steps : list of Step
        As the model takes them.
    difference : Difference
        Where the bus differs from the model on them.
    replays : int
        Replays it took.
    exhausted : bool
        The budget was used up: it might be cut further.
    """

    steps: list[Step]
    difference: Difference
    replays: int
    exhausted: bool


@dataclass(frozen=True)
class _Atom:
    """A single command or access, and the clock it was given in."""

    clock: int
    call: int
    operation: Operation
    setup: bool


def shrink(
    steps: Sequence[Step],
    params: Params,
    fresh: Callable[[], Bus],
    *,
    budget: int = 1000,
    progress: Progress = no_progress,
) -> Cut | None:
    """Cut a session down.

    Parameters
    ----------
    steps : sequence of Step
        Up to the call that differs, or more.
    params : Params
        The build.
    fresh : callable
        Gives the bus that differs from the model, just reset.
    budget : int
        Replays to spend at most.
    progress : callable

    Returns
    -------
    Cut or None
        None: model and bus do not differ on these operations.
    """
    search = _Search(params, fresh, budget, progress)
    found = search.play([step.operation for step in steps])
    if found is None:
        return None
    search.kind = found.difference.kind
    search.best = found
    size = None
    while size != (size := _size(search.best.operations)) and not search.exhausted:
        _minimize_commands(search, params)
        _shorten_idle(search)
        _join_calls(search)
    steps = [step for step in search.best.steps if step.operation.kind != "idle" or step.operation.value]
    return Cut(steps, replace(search.best.difference, call=len(steps) - 1), search.replays, search.exhausted)


@dataclass
class _Found:
    """Steps that the model took, the last of which the bus took otherwise."""

    steps: list[Step]
    difference: Difference
    golden: KvAsuGolden

    @property
    def lines(self) -> set[int]:
        """The lines that the two answers are about."""
        fields = [field for field in self.difference.fields if field.name.endswith("line")]
        lines = {line for field in fields for line in (field.recorded, field.replayed)}
        if self.difference.command is not None:
            lines |= {self.golden.line(address) for address in self.difference.operation.addresses[-1:].tolist()}
        return lines

    @property
    def neighbours(self) -> set[int]:
        """... and those in their windows."""
        slots = (slot for line in self.lines for slot in self.golden.window(line))
        return self.lines | {entry.line for entry in map(self.golden.at, slots) if entry is not None}

    @property
    def operations(self) -> list[Operation]:
        """What was done, as far as it matters."""
        return [*(step.operation for step in self.steps[:-1]), self.difference.operation]


@dataclass
class _Search:
    """Tries operations out, and keeps the fewest that still differ as the first ones did."""

    params: Params
    fresh: Callable[[], Bus]
    budget: int
    progress: Progress
    kind: Kind = ("", "")
    replays: int = 0
    best: _Found = field(init=False)

    @property
    def exhausted(self) -> bool:
        """Whether the budget is used up."""
        return self.replays >= self.budget

    def play(self, operations: Sequence[Operation]) -> _Found | None:
        """Play them on model and bus in turn, to the first difference."""
        self.replays += 1
        self.progress(self.replays, self.budget)
        model, steps = ModelTransport(self.params), []
        with self.fresh() as bus:
            for call, operation in enumerate(operations):
                steps.append(take(model, operation))
                found = difference(call, steps[-1], bus)
                if found:
                    return _Found(steps, found, model.device.model.golden)
        return None

    def differs(self, operations: Sequence[Operation]) -> bool:
        """Whether they differ, in the same way; false when the budget is used up."""
        if self.exhausted:
            return False
        found = self.play(operations)
        if found is None or found.difference.kind != self.kind:
            return False
        self.best = found
        return True


def _minimize_commands(search: _Search, params: Params) -> None:
    """Take out whatever single commands and accesses are not needed."""
    found = search.best
    atoms, end = _atoms(found.operations, params)
    setup = [index for index, atom in enumerate(atoms) if atom.setup]
    free = [index for index, atom in enumerate(atoms) if not atom.setup]

    def differs(kept: Sequence[int]) -> bool:
        return search.differs(_operations([atoms[index] for index in sorted([*setup, *kept])], end, params))

    def about(lines: set[int]) -> list[int]:
        """Without commands for other lines."""
        asked = [{found.golden.line(address) for address in atom.operation.addresses.tolist()} for atom in atoms]
        return [index for index in free if asked[index] <= lines]

    # A first guess, for it is right so often and saves so many replays.
    guesses = (about(lines) for lines in (found.lines, found.neighbours))
    free = next((guess for guess in guesses if len(guess) < len(free) and differs(guess)), free)
    _minimize(_window(free, differs), differs)


def _atoms(operations: Sequence[Operation], params: Params) -> tuple[list[_Atom], int]:
    """The single commands and accesses of operations, and the clock they end in; idle clocks are between them."""
    atoms: list[_Atom] = []
    clock = 0
    setup = True
    for call, operation in enumerate(operations):
        setup = setup and not operation.commands
        for command in range(operation.commands):
            address = operation.addresses[command : command + 1]
            single = operation._replace(addresses=address, value=int(operation.kind == "evict_lines"))
            atoms.append(_Atom(clock + command, call, single, False))
        if operation.kind not in (*PORTS, "idle"):
            atoms.append(_Atom(clock, call, operation, setup and operation.kind == "write"))
        clock += duration(operation, params)
    return atoms, clock


def _operations(atoms: Sequence[_Atom], end: int, params: Params) -> list[Operation]:
    """Calls that give the atoms in the clocks they were given in, as far as calls leave room, and go on to the end.

    Commands of one call stay in one call when there are too few clocks between them to end it. The last of them keeps
    its clock, and the others move up to it: of a line's touches, the last tells its age.
    """
    groups: list[list[_Atom]] = []
    for atom in atoms:
        last = groups[-1][-1] if groups else None
        if last and last.call == atom.call and atom.clock < last.clock + duration(atom.operation, params):
            groups[-1].append(atom)
        else:
            groups.append([atom])
    operations: list[Operation] = []
    now = 0
    for group in groups:
        start = group[-1].clock - len(group) + 1
        if start > now:
            operations.append(Operation("idle", value=start - now))
        operations.append(reduce(_joined, (atom.operation for atom in group)))
        now = max(start, now) + duration(operations[-1], params)
    if end > now:
        operations.append(Operation("idle", value=end - now))
    return operations


def _joined(one: Operation, other: Operation) -> Operation:
    addresses = np.concatenate([one.addresses, other.addresses])
    return one._replace(addresses=addresses, value=one.value + other.value)


def _window(items: list[int], differs: Callable[[Sequence[int]], bool]) -> list[int]:
    """The last items, as few as will do when their number is doubled each time."""
    width = 1
    while width < len(items):
        if differs(items[-width:]):
            return items[-width:]
        width *= 2
    return items


def _minimize(items: list[int], differs: Callable[[Sequence[int]], bool]) -> list[int]:
    """Delta debugging: of what is returned, no single item can be taken out."""
    parts = 2
    while items:
        size = -(-len(items) // parts)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        for number, chunk in enumerate(chunks):
            others = [item for other in chunks[:number] + chunks[number + 1 :] for item in other]
            if len(chunks) > 2 and differs(chunk):
                items, parts = chunk, 2
                break
            if differs(others):
                items, parts = others, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(items))
    return items


def _shorten_idle(search: _Search) -> None:
    """Make idle stretches as short as they can be, one after the other."""
    index = 0
    while index < len(search.best.steps):
        operation = search.best.steps[index].operation
        low, high = -1, operation.value if operation.kind == "idle" else 0  # differs at high, not at low
        while high - low > 1 and index < len(search.best.steps) - 1:
            clocks = 0 if low < 0 else (low + high) // 2
            operations = search.best.operations
            operations[index] = operation._replace(value=clocks)
            if search.differs(operations):
                high = clocks
            else:
                low = clocks
        index += 1


def _join_calls(search: _Search) -> None:
    """Give the commands of neighbouring calls in one, where they differ all the same."""
    index = 1
    while index < len(search.best.steps):
        operations = [op for op in search.best.operations if op.kind != "idle" or op.value]
        if index >= len(operations):
            return
        one, other = operations[index - 1 : index + 1]
        alike = one.commands and other.commands and one[2:6] == other[2:6] and one.kind == other.kind
        joined = [*operations[: index - 1], _joined(one, other), *operations[index + 1 :]] if alike else []
        if not (alike and search.differs(joined)):
            index += 1


def _size(operations: Sequence[Operation]) -> tuple[int, int]:
    """How much there is of them: commands and accesses, and idle clocks."""
    idle = sum(operation.value for operation in operations if operation.kind == "idle")
    return sum(operation.commands or operation.kind != "idle" for operation in operations), idle
