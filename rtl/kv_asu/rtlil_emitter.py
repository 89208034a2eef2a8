"""Amaranth's RTLIL emitter, with the result made to be read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._ir import Design, PortDirection, build_netlist
from amaranth.hdl._nir import Value as Nets
from amaranth.lib import wiring

from kv_asu.naming import drop_repeated_names, name_ports, name_signals

_SLICE = re.compile(r"[\\$]\S+ \[\d+(?::\d+)?\]")


def prepare(component: wiring.Component, name: str) -> Design:
    """A component elaborated, its members as top-level ports, every block and signal under its final name."""
    ports = {
        "__".join(map(str, path)): (value, PortDirection.Input if member.flow is wiring.In else PortDirection.Output)
        for path, member, value in component.signature.flatten(component)
    }
    design = Fragment.get(component, None).prepare(ports=ports, hierarchy=(name,))
    name_signals(design)
    return design


def convert(component: wiring.Component, name: str) -> str:
    """RTLIL of a component; the top module is called ``name``, a block in it ``name_path_of_the_block``."""
    netlist = build_netlist(prepare(component, name))
    name_ports(netlist)
    drop_repeated_names(netlist)
    builder = rtlil.Design(emit_src=False)
    empty = rtlil.EmptyModuleChecker(netlist)
    for index, module in enumerate(netlist.modules):
        if not empty.is_empty(index):
            emitter = _ModuleEmitter(builder.module(".".join(module.name)), netlist, module, SignalDict(), empty)
            emitter.emit()
            _use_names(emitter.builder)
    text = str(builder)
    return re.sub(rf"\\{name}(?:\.[\w.]+)", lambda match: match[0].replace(".", "_"), text)


class _ModuleEmitter(rtlil.ModuleEmitter):
    def emit_memory(self, cell_idx: int, cell: object) -> None:
        """Leave out a memory's initial contents: bit by bit they are megabytes, and nobody relies on them."""

    def shorten_operand(self, value: Nets, *, signed: bool) -> Nets:
        """Operands of equal width are left alone."""
        return value


def _use_names(module: rtlil.Module) -> None:
    """Where bits, of one wire (a field of a structure, say) or of several, have a name, read them by it."""
    names: dict[str, str] = {}
    for name, bits in module.connections:
        if name in module.contents and (bits.startswith("{") or _is_part(bits, module.contents[name].width, module)):
            names.setdefault(bits, name)

    def named(bits: str) -> str:
        return names.get(bits) or _SLICE.sub(lambda match: names.get(match[0], match[0]), bits)

    module.connections = [(name, bits if names.get(bits) == name else named(bits)) for name, bits in module.connections]
    for item in module.contents.values():
        if isinstance(item, rtlil.Cell):
            item.ports = {port: named(bits) for port, bits in item.ports.items()}
        elif isinstance(item, rtlil.Process):
            for statement in _statements(item):
                if isinstance(statement, rtlil.Switch):
                    statement.sel = named(statement.sel)
                else:
                    statement.rhs = named(statement.rhs)


def _is_part(bits: str, width: int, module: rtlil.Module) -> bool:
    """Some bits of a wire, not all."""
    return _SLICE.fullmatch(bits) is not None and width < module.contents[bits.split()[0]].width


def _statements(block: rtlil.Process | rtlil.Case) -> Iterator[rtlil.Switch | rtlil.Assignment]:
    for statement in block.contents:
        yield statement
        if isinstance(statement, rtlil.Switch):
            for case in statement.cases:
                yield from _statements(case)
