"""A register file behind the configuration-extend port, made from a table of registers.

A write of clock w acts in clock w + 1; a read of clock r is answered in clock r + 1, with what the registers held in
clock r. A write that is not legal changes nothing, in none of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.cfg_ext import REGISTER_NUMBER_WIDTH, ReadAcceptor, byte_mask, cfg_ext_members
from kv_asu.field_actions import ReadWrite, WriteOneToClear, WriteOneToDo
from kv_asu.params import Params
from kv_asu.register_types import Access, Field, Register

#: The hardware of a field that writes act on.
Action = ReadWrite | WriteOneToClear | WriteOneToDo


class RegisterFile(wiring.Component):
    """Registers of one block of config space.

    The structures have a member for each register that has such fields, by its name in lower case, with a member for
    each of these fields.

    Parameters
    ----------
    registers : iterable of Register
        The registers.
    params : Params
        The build.
    base : int
        Where offset 0 sits in config space, in bytes.
    window : int
        Bytes of config space that are answered, from ``base`` on.

    Members
    -------
    cfg_ext_* : the configuration-extend port
    locked : In(1)
        Structural registers refuse writes.
    refused : Out(1)
        The write in this clock is refused.
    values : Out
        Fields that software writes.
    do : Out
        Fields whose writing of 1 starts something, in the clock of the write.
    set : In
        Fields that software clears: 1 sets them.
    status : In
        Fields that hardware writes: what they read.
    """

    def __init__(self, registers: Iterable[Register], params: Params, *, base: int, window: int) -> None:
        self.registers = {register.name: register for register in registers}
        self.params = params
        self.base = base
        self.window = window
        super().__init__(
            {
                **cfg_ext_members(),
                "locked": In(1),
                "refused": Out(1),
                "values": Out(self._layout(Access.READ_WRITE, Access.WRITE_ONE_TO_CLEAR)),
                "do": Out(self._layout(Access.WRITE_ONE_TO_DO)),
                "set": In(self._layout(Access.WRITE_ONE_TO_CLEAR)),
                "status": In(self._layout(Access.STATUS)),
            }
        )

    def _layout(self, *kinds: Access) -> data.StructLayout:
        """All the fields of some kinds."""
        members = {
            register.name.lower(): data.StructLayout(
                {field.name.lower(): field.width for field in register.fields if field.access in kinds}
            )
            for register in self.registers.values()
        }
        return data.StructLayout({name: fields for name, fields in members.items() if fields.size})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        actions = self._fields(m)
        self._writes(m, actions)
        self._reads(m)
        return m

    def _fields(self, m: Module) -> dict[str, Action]:
        """The hardware of every field that writes act on, by "REGISTER.FIELD"."""
        actions: dict[str, Action] = {}
        for register in self.registers.values():
            for field in register.fields:
                match field.access:
                    case Access.READ_WRITE:
                        action: Action = ReadWrite(
                            field.width, reset=field.reset_value(self.params), maximum=self._greatest(field)
                        )
                        m.d.comb += self._member(self.values, register, field).eq(action.value)
                    case Access.WRITE_ONE_TO_CLEAR:
                        action = WriteOneToClear()
                        m.d.comb += self._member(self.values, register, field).eq(action.value)
                        m.d.comb += action.set.eq(self._member(self.set, register, field))
                    case Access.WRITE_ONE_TO_DO:
                        action = WriteOneToDo()
                        m.d.comb += self._member(self.do, register, field).eq(action.do)
                    case _:
                        continue
                m.submodules[f"{register.name}_{field.name}".lower()] = action
                actions[f"{register.name}.{field.name}"] = action
        return actions

    @staticmethod
    def _member(structure: data.View, register: Register, field: Field) -> Value:
        return structure[register.name.lower()][field.name.lower()]

    def _register_number(self, register: Register) -> int:
        """The DWORD of config space that holds ``register``."""
        return (self.base + register.offset) // 4

    def _writes(self, m: Module, actions: dict[str, Action]) -> None:
        """Bring legal writes to their fields, and tell of the others."""
        mask = byte_mask(self.cfg_ext_write_byte_enable)
        write = (
            self.cfg_ext_write_received
            & (self.cfg_ext_function_number == self.params.function)
            & self.cfg_ext_write_byte_enable.any()
        )
        refusals = []
        for register in self.registers.values():
            written = Signal(name=f"{register.name}_written".lower())
            accepted = Signal(name=f"{register.name}_accepted".lower())
            m.d.comb += written.eq(write & (self.cfg_ext_register_number == self._register_number(register)))
            if conditions := list(self._conditions(register, actions)):
                m.d.comb += accepted.eq(written & Cat(conditions).all())
                refusals.append(written & ~accepted)
            else:
                m.d.comb += accepted.eq(written)
            for field in register.fields:
                if action := actions.get(f"{register.name}.{field.name}"):
                    bits = slice(field.low, field.low + field.width)
                    m.d.comb += [
                        action.write.strobe.eq(accepted),
                        action.write.data.eq(self.cfg_ext_write_data[bits]),
                        action.write.mask.eq(mask[bits]),
                    ]
        m.d.comb += self.refused.eq(Cat(refusals).any())

    def _conditions(self, register: Register, actions: dict[str, Action]) -> Iterator[Value]:
        """Everything that must hold for a write to ``register`` to be accepted."""
        if register.structural:
            yield ~self.locked
        for field in register.fields:
            if field.access is Access.READ_WRITE:
                merged = actions[f"{register.name}.{field.name}"].merged
                least, most = field.bounds(self.params)
                if field.step > 1:
                    yield Cat(merged == value for value in range(least, most + 1, field.step)).any()
                    continue
                if least > 0:
                    yield merged >= least
                if most < (1 << field.width) - 1:
                    yield merged <= most
                if field.at_least:
                    yield merged >= actions[field.at_least].value
                if field.at_most:
                    yield merged <= actions[field.at_most].value

    def _greatest(self, field: Field) -> int:
        """The greatest value that ``field`` can ever be given, other fields' limits on it included."""
        most = field.bounds(self.params)[1]
        if field.at_most is None:
            return most
        register, name = field.at_most.split(".")
        return min(most, self._greatest(next(f for f in self.registers[register].fields if f.name == name)))

    def _in_window(self, register_number: Value) -> Value:
        first, end = self.base // 4, (self.base + self.window) // 4
        inside: Value = Const(1)
        if first > 0:
            inside &= register_number >= first
        if end < 1 << REGISTER_NUMBER_WIDTH:
            inside &= register_number < end
        return inside

    def _reads(self, m: Module) -> None:
        """Answer every DWORD of the window, with 0 where nothing is; stay silent elsewhere."""
        m.submodules.acceptor = acceptor = ReadAcceptor()
        m.d.comb += [
            acceptor.register_number.eq(self.cfg_ext_register_number),
            acceptor.request.eq(
                self.cfg_ext_read_received
                & (self.cfg_ext_function_number == self.params.function)
                & self._in_window(self.cfg_ext_register_number)
            ),
            self.cfg_ext_read_data_valid.eq(acceptor.answering),
        ]
        m.d.sync += self.cfg_ext_read_data.eq(0)
        with m.If(acceptor.accept), m.Switch(self.cfg_ext_register_number):
            for register in self.registers.values():
                word = Signal(32, name=register.name.lower())
                for field in register.fields:
                    m.d.comb += word[field.low : field.low + field.width].eq(self._read(register, field))
                with m.Case(self._register_number(register)):
                    m.d.sync += self.cfg_ext_read_data.eq(word)

    def _read(self, register: Register, field: Field) -> Value | int:
        """What a field reads."""
        match field.access:
            case Access.CONSTANT:
                return field.reset_value(self.params)
            case Access.STATUS:
                return self._member(self.status, register, field)
            case Access.WRITE_ONE_TO_DO:
                return 0
            case _:
                return self._member(self.values, register, field)
