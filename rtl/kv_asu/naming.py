"""Names that survive into the Verilog.

Left to itself, Amaranth calls a signal the same in every module it passes through, tells those that clash apart by a
number, and calls a port by a number where its bits come from two signals. Here a block's ports are called what its
signature calls them, the wires that lead to them are called after the block, and wires that would only repeat another
one are left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from amaranth.hdl import Fragment, Signal, Value
from amaranth.hdl._ast import SignalDict
from amaranth.hdl._ir import Design
from amaranth.hdl._nir import Module, Netlist
from amaranth.hdl._nir import Value as Nets
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from kv_asu.records import join


def name_signals(design: Design) -> None:
    """Rename every block and signal of a prepared design."""
    _name_block(design, design.fragment, (design.fragments[design.fragment].name[-1],))


def _name_block(design: Design, fragment: Fragment, hierarchy: tuple[str, ...]) -> None:
    info = design.fragments[fragment]
    info.name = hierarchy
    taken: set[str] = set()
    names = SignalDict()

    def name(signal: Signal, wanted: str) -> None:
        if signal in info.signal_names and signal not in names:
            names[signal] = _free(taken, wanted)
            taken.add(names[signal])

    for signal, path, _ in _members(_component(fragment)):
        name(signal, path)
    blocks = []
    for block, given, _ in fragment.subfragments:
        kind = type(_component(block)).__name__.lower()
        unique = _free(taken, given if given not in taken else f"{given}_{kind}")
        taken.add(unique)
        blocks.append((block, unique))
    # Where one block's output is the next one's input, the wire is called after where it comes from.
    ends = [
        (flow is wiring.In, signal, f"{unique}_{path}")
        for block, unique in blocks
        for signal, path, flow in _members(_component(block))
    ]
    ends.sort(key=lambda end: end[0])
    at_blocks = SignalDict((signal, None) for _, signal, _ in ends)
    for signal in info.signal_names:
        if signal not in at_blocks:
            name(signal, signal.name)
    for _, signal, wanted in ends:
        name(signal, wanted)
    info.signal_names = names
    for block, unique in blocks:
        _name_block(design, block, (*hierarchy, unique))


def _component(fragment: Fragment) -> object:
    return fragment.origins[0] if fragment.origins else None


def _members(component: object) -> Iterator[tuple[Signal, str, wiring.Flow]]:
    """The signals at a block's boundary, each with its path."""
    if isinstance(component, Memory):
        for kind, ports in (("read", component.read_ports), ("write", component.write_ports)):
            for index, port in enumerate(ports):
                for signal, path, flow in _members(port):
                    yield signal, f"{kind}{index or ''}_{path}", flow
    elif hasattr(component, "signature"):
        for path, member, value in component.signature.flatten(component):
            value = Value.cast(value)
            if isinstance(value, Signal):
                yield value, "_".join(map(str, path)), member.flow


def _free(taken: Container[str], wanted: str) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def name_ports(netlist: Netlist) -> None:
    """Give every signal that crosses a block's boundary a port of its own, under its own name."""
    for module in netlist.modules[1:]:
        ports = {}
        taken = set(module.signal_names.values())
        for port, (nets, flow) in module.ports.items():
            if not port.startswith("port$"):
                ports[port] = nets, flow
                continue
            while nets:
                name, count = _next_port(netlist, module, nets)
                ports[name if name in taken else _free(ports, name)] = nets[:count], flow
                nets = nets[count:]
        module.ports = ports


def _next_port(netlist: Netlist, module: Module, nets: Nets) -> tuple[str, int]:
    """Name and width of a port for the first of ``nets``: a signal, a field of one, or the bits of it that the block
    uses.
    """
    for signal, name in module.signal_names.items():
        whole = netlist.signals[signal]
        if nets[: len(whole)] == whole:
            return name, len(whole)
    fields = (
        (join((name, *path)), field.value)
        for signal, name in module.signal_names.items()
        for path, field in netlist.signal_fields.get(signal, {}).items()
    )
    matching = [(name, len(value)) for name, value in fields if nets[: len(value)] == value and len(value)]
    if matching:
        return max(matching, key=lambda match: match[1])
    for signal, name in module.signal_names.items():
        if nets[0] in netlist.signals[signal]:
            inside = set(netlist.signals[signal])
            outside = (index for index, net in enumerate(nets) if net not in inside)
            return f"{name}_bits", next(outside, len(nets))
    return "anonymous", len(nets)


def drop_repeated_names(netlist: Netlist) -> None:
    """Keep one name for each value in each block: the first, which is the port's if there is one."""
    for module in netlist.modules:
        kept = SignalDict()
        seen = {nets for nets, _ in module.ports.values()}
        for signal, name in module.signal_names.items():
            nets = netlist.signals[signal]
            if name in module.ports or (nets not in seen and not all(net.is_const for net in nets)):
                kept[signal] = name
                seen.add(nets)
        module.signal_names = kept
