"""What led to a difference: the table window, the neighbourhood in the recency list, and the rule on either side.

State is the behavioural model's, in the clock in which the operation was decided, before it took effect: the gateware
shows none but at its pins. The gateware that stands at the end of a replay is asked afterwards what it can tell there:
registers, and the T-level and count of each line of the window. The model is asked the same in the same clocks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kv_asu.params import LINE_BITS, Params
from kv_asu_firmware.device import LINK_CLOCKS
from kv_asu_firmware.golden import Entry, Query
from vrex.registers import (
    CTRL_OFFSET,
    REGISTERS,
    Cold,
    Evict,
    IrqEnable,
    IrqStatus,
    QueryHi,
    QueryLo,
    Register,
    Status,
    Tracked,
    VictimHi,
    VictimLo,
)
from vrex.registers import Query as QueryRegister
from vrex.session import rules
from vrex.session.operation import PORTS, Answer, Step, take
from vrex.session.replay import Difference
from vrex.transports.base import Bus
from vrex.transports.model import ModelTransport

#: Lines shown to each side of one in the recency list.
_BESIDE = 2

#: Registers that tell what the core is doing.
_ASKED: tuple[type[Register], ...] = (Status, Tracked, Cold, IrqStatus)


@dataclass(frozen=True)
class Slot:
    """A slot of the window, or a place in the recency list, in the model; no line: the slot is free.

    ``place`` counts from the least recently used line, 0; ages are in ticks.
    """

    slot: int
    line: int | None = None
    count: int = 0
    touched: int = 0
    age: int = 0
    tlevel: int = 0
    place: int | None = None


@dataclass(frozen=True)
class Told:
    """Something both sides were asked right after the operation; None: it could not be asked any more."""

    what: str
    model: str
    replayed: str | None


@dataclass(frozen=True)
class Explanation:
    """A difference and its surroundings.

    Attributes
    ----------
    operation : str
        In words.
    clock, decided, tick : int
        The clock in which it was presented, that in which it was decided, and the tick then; clocks since reset.
    fields : list of (name, recorded, replayed, model)
        The answer's fields; model: what the behavioural model answers; None where a side gave no answer.
    recorded, replayed, model : str
        The rule that fired, or what the pins say of it.
    line, home : int or None
        The line the operation is about, and the first slot of its window.
    window : list of Slot
        Its window in probe order.
    neighbours : list of Slot
        Its neighbourhood in the recency list, the least recently used first; ends and gaps show in ``place``.
    tracked, cold : int
        Lines in the list, and how many of them, from the least recently used on, are at T-level 0.
    told : list of Told
        What the device replayed on tells afterwards, beside the model; none when it is the model.
    model_parted : int or None
        The call from which on the model of today does not answer as recorded: its state says little then.
    """

    operation: str
    clock: int
    decided: int
    tick: int
    fields: list[tuple[str, int | None, int | None, int | None]]
    recorded: str
    replayed: str
    model: str
    line: int | None
    home: int | None
    window: list[Slot]
    neighbours: list[Slot]
    tracked: int
    cold: int
    told: list[Told]
    model_parted: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def explain(difference: Difference, before: Iterable[Step], fresh: Callable[[], Bus], params: Params) -> Explanation:
    """Work out what led to a difference.

    Parameters
    ----------
    difference : Difference
    before : iterable of Step
        The session up to the call that differs, or more.
    fresh : callable
        Opens a bus like that of the replay, just reset.
    params : Params
        The build.
    """
    model = ModelTransport(params)
    parted = None
    with fresh() as bus:
        others = [bus] if bus.name != "model" else []
        for number, step in zip(range(difference.call), before, strict=False):
            for other in others:
                step.operation.play(other)
            if not _same(take(model, step.operation), step) and parted is None:
                parted = number
        scene = _Scene(model, difference)
        explanation = scene.explanation(parted)
        told = [row for other in others for row in _told(scene, model, other)]
    return replace(explanation, told=told)


def _same(one: Step, other: Step) -> bool:
    return (
        one.irq == other.irq and one.clock == other.clock and np.array_equal(_array(one.answer), _array(other.answer))
    )


def _array(answer: Answer) -> Any:
    return np.array(-1 if answer is None else answer)


class _Scene:
    """The model brought to the clock of the operation, and taken over it."""

    def __init__(self, model: ModelTransport, difference: Difference) -> None:
        self.difference = difference
        self.operation = difference.operation
        self.device = device = model.device
        command = difference.command
        self.query = Query(0)
        if command is None:
            self.decided = difference.clock
            self.before = copy.deepcopy(device.model.golden)
            self.answer = take(model, self.operation).answer
            self.row: dict[str, int] | None = None
            return
        # The commands before it, the clock it is decided in, and the model as it stands in that clock.
        self.decided = difference.clock + model.params.latency
        commands = [self._command(number) for number in range(command + 1)]
        device.idle(model.params.latency)
        device.model.decide(commands[:-1])
        self.before = copy.deepcopy(device.model.golden)
        decided = device.model.clock(*commands[-1])
        if device.model.golden.active and not self.before.active:
            self.before.activate()
        self.before.idle(1)
        kind = self.operation.kind
        answer = {"observe": decided.tag, "query_lines": decided.answer, "evict_lines": decided.victim}[kind]
        assert answer is not None
        self.row = dict(zip(PORTS[kind].names or (), map(int, answer), strict=False))

    def _command(self, number: int) -> tuple[int | None, Query | None, bool]:
        operation = self.operation
        match operation.kind:
            case "observe":
                return int(operation.addresses[number]), None, False
            case "query_lines":
                self.query = Query(int(operation.addresses[number]), operation.min_tlevel, operation.boost)
                return None, self.query, False
            case _:
                return None, None, True

    def explanation(self, parted: int | None) -> Explanation:
        """Of the model as it stands right after the operation."""
        golden, window = self.before, self.window
        recorded, replayed, model = self._rules()
        return Explanation(
            operation=self.described,
            clock=self.difference.clock,
            decided=self.decided,
            tick=golden.tick,
            fields=self._fields(),
            recorded=recorded,
            replayed=replayed,
            model=model,
            line=self.line,
            home=window[0] if window else None,
            window=[self._slot(slot) for slot in window],
            neighbours=self._neighbours(),
            tracked=golden.tracked,
            cold=golden.cold,
            told=[],
            model_parted=parted,
        )

    # The operation

    @property
    def register(self) -> type[Register] | None:
        """The register that is read or written, in whole."""
        offset = self.operation.offset - self.device.params.config_base - CTRL_OFFSET
        if self.operation.kind in ("read", "write") and self.operation.size == 4:
            return next((register for register in REGISTERS.values() if offset == register.OFFSET), None)
        return None

    @property
    def described(self) -> str:
        operation, golden = self.operation, self.before
        match operation.kind:
            case "observe" if self.row:
                address = int(operation.addresses[-1])
                return f"request to {address:#x} (line {golden.line(address):#x})"
            case "query_lines" if self.row:
                boost = ", with boost" if operation.boost else ""
                address, least = int(operation.addresses[-1]), operation.min_tlevel
                return f"query of {address:#x} (line {golden.line(address):#x}), hit from T{least} on{boost}"
            case "evict_lines" if self.row:
                return "evict"
            case "read" | "write":
                name = self.register.NAME if self.register else f"{operation.size} bytes"
                value = f" of {operation.value:#x}" if operation.kind == "write" else ""
                return f"{operation.kind}{value}, {name} at {operation.offset:#x}"
            case "idle":
                return f"{operation.value} clocks without operation"
            case "power_good":
                return f"power_good set to {operation.value}"
        return f"{operation.commands} commands, {operation.kind}"

    @property
    def line(self) -> int | None:
        """The line it is about."""
        operation = self.operation
        if self.row is not None and operation.kind != "evict_lines":
            return self.before.line(int(operation.addresses[-1]))
        if operation.kind == "evict_lines":
            victims = [field for field in self.difference.fields if field.name == "victim_line"]
            return next((value for field in victims for value in field[1:] if value), None)
        if self.register in (QueryRegister, QueryLo, QueryHi):
            address = self._read(QueryLo) | self._read(QueryHi) << 32
            return self.before.line(address & (1 << self.device.params.addr_width) - 1)  # as the core takes it
        if self.register in (Evict, VictimLo, VictimHi):
            return self.before.line(self._read(VictimLo) | self._read(VictimHi) << 32) or None
        return None

    def _read(self, register: type[Register]) -> int:
        """A register of the model as it stands now; no time passes."""
        value = self.device.model.read(self.device.params.config_base + CTRL_OFFSET + register.OFFSET, 4)
        assert value is not None
        return value

    @property
    def window(self) -> list[int]:
        """Where that line may be."""
        return self.before.window(self.line) if self.line is not None and self.before.active else []

    # The answers

    def _fields(self) -> list[tuple[str, int | None, int | None, int | None]]:
        fields = self.difference.fields
        if self.row is not None:
            return [(*field, self.row[field.name]) for field in fields]
        if not fields:  # no answer
            return []
        if fields[0].name == "irq":
            return [(*fields[0], int(self.device.irq))]
        if fields[0].name == "clock":
            return [(*fields[0], None)]
        assert isinstance(self.answer, int)
        values = (fields[0].recorded, fields[0].replayed, self.answer)
        if self.register is None:
            return [("data", *values)]
        recorded, replayed, model = (self.register(value).fields() for value in values)
        return [(name, recorded[name], replayed[name], model[name]) for name in recorded]

    def _rules(self) -> tuple[str, str, str]:
        """Of the recorded side, the replayed side and the model."""
        if self.row is None:
            model = self._register_rule()
            if self.difference.fault:
                return model, f"no answer: {self.difference.fault}", model
            fields = self._fields()
            agrees = [all(field[side] == field[3] for field in fields) for side in (1, 2)]
            recorded, replayed = (model if agreed else "the value is all it tells" for agreed in agrees)
            return recorded, replayed, model
        model = self._command_rule()
        names = [field.name for field in self.difference.fields]
        sides = []
        for side in (1, 2):
            row = {field.name: int(field[side]) for field in self.difference.fields}
            sides.append(model if row == {name: self.row[name] for name in names} else self._pins_rule(row))
        return sides[0], sides[1], model

    def _command_rule(self) -> str:
        match self.operation.kind:
            case "observe":
                return rules.request_rule(self.before, int(self.operation.addresses[-1]))
            case "query_lines":
                return rules.query_rule(self.before, self.query)
            case _:
                return rules.evict_rule(self.before)

    def _pins_rule(self, row: dict[str, int]) -> str:
        match self.operation.kind:
            case "observe":
                return rules.request_answer(self.before, int(self.operation.addresses[-1]), row)
            case "query_lines":
                return rules.query_answer(self.before, self.query, row)
            case _:
                return rules.evict_answer(self.before, row)

    def _register_rule(self) -> str:
        """What stands behind a register or the irq pin."""
        golden = self.device.model.golden
        if not golden.active:
            return "the core is not active"
        state = f"active, tick {golden.tick}, {golden.tracked} lines tracked, {golden.cold} of them cold"
        return f"{state}; IRQ_STATUS {self._read(IrqStatus):#x}, IRQ_ENABLE {self._read(IrqEnable):#x}"

    # The state

    def _slot(self, slot: int) -> Slot:
        entry = self.before.at(slot)
        if entry is None:
            return Slot(slot)
        place = next(place for place, other in enumerate(self.before.lines()) if other is entry)
        return self._entry(entry, place)

    def _entry(self, entry: Entry, place: int) -> Slot:
        golden = self.before
        return Slot(
            entry.slot, entry.line, entry.count, entry.touched, golden.tick - entry.touched, golden.tlevel(entry), place
        )

    def _neighbours(self) -> list[Slot]:
        entries = list(self.before.lines())
        lines = {self.line, *self._spilled()}
        centres = [place for place, entry in enumerate(entries) if entry.line in lines]
        if not centres or self.operation.kind == "evict_lines":
            centres += [0, self.before.cold]  # the tail, and the border between cold and warm
        shown = {place for centre in centres for place in range(centre - _BESIDE, centre + _BESIDE + 1)}
        return [self._entry(entries[place], place) for place in sorted(shown) if 0 <= place < len(entries)]

    def _spilled(self) -> set[int]:
        """Lines that lost their slot, in the eyes of either side."""
        fields = [field for field in self._fields() if field[0] == "spill_line"]
        return {value for field in fields for value in field[1:] if value}


def _told(scene: _Scene, model: ModelTransport, bus: Bus) -> list[Told]:
    """Bring a device over the operation, to where the model is, and ask both the same."""
    try:
        scene.operation.play(bus)
    except bus.faults:
        return []
    if scene.row is not None and scene.operation.kind == "observe":
        model.idle(LINK_CLOCKS)
    told = []
    base = bus.params.config_base + CTRL_OFFSET
    for register in _ASKED:
        values = [register(side.read(base + register.OFFSET, 4)) for side in (model, bus)]
        told.append(Told(register.NAME, *map(hex, values)))
    lines = [entry.line for entry in map(scene.before.at, scene.window) if entry is not None]
    if scene.line is not None and scene.line not in lines:
        lines.append(scene.line)
    for line in lines:
        texts = []
        for side in (model, bus):
            address = line << LINE_BITS
            side.write(base + QueryLo.OFFSET, address & 0xFFFFFFFF, 4)
            side.write(base + QueryHi.OFFSET, address >> 32, 4)
            side.write(base + QueryRegister.OFFSET, 1, 4)
            side.idle(bus.params.latency + 8)
            answer = QueryRegister(side.read(base + QueryRegister.OFFSET, 4))
            texts.append(f"T{answer.tlevel}, count {answer.count}" if answer.tracked else "not tracked")
        told.append(Told(f"line {line:#x}", *texts))
    return told
