"""A mapped netlist: read from yosys' JSON, given short readable names, written as plain structural Verilog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

#: Pins of a macro that are one bit wide whatever its size.
_SCALAR_PINS = ("CLK", "R_EN", "W_EN")


@dataclass
class Cell:
    """One instance: its cell type and the net on each pin (a list, least significant first, for bus pins)."""

    type: str
    pins: dict[str, str | list[str]]

    @property
    def is_macro(self) -> bool:
        """Whether it is an SRAM."""
        return self.type.startswith("sram_")

    @property
    def is_register(self) -> bool:
        """Whether it is a flip-flop."""
        return self.type.startswith("DFF")

    def nets(self, pin: str) -> list[str]:
        """Return the nets on a pin, one of them unless it is a bus."""
        value = self.pins[pin]
        return value if isinstance(value, list) else [value]

    def net(self, pin: str) -> str:
        """Return the net on a pin that is no bus."""
        (net,) = self.nets(pin)
        return net

    def connect(self, pin: str, index: int, net: str) -> None:
        """Put another net on one bit of a pin."""
        value = self.pins[pin]
        if isinstance(value, list):
            value[index] = net
        else:
            self.pins[pin] = net


def is_constant(net: str) -> bool:
    """Whether a net is ``1'b0`` or ``1'b1``."""
    return net.startswith("1'b")


@dataclass
class Netlist:
    """Instances by name, and the ports' nets (least significant first)."""

    name: str
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)

    @classmethod
    def from_yosys(cls, name: str, module: dict[str, Any]) -> Netlist:
        """Build from one module of ``write_json``; registers take the name of the signal they hold."""
        netlist = cls(name)
        names: dict[int, str] = {}
        for port, entry in module["ports"].items():
            if entry["direction"] == "input":
                netlist.inputs[port] = _port_bits(port, len(entry["bits"]))
                names.update(zip(entry["bits"], netlist.inputs[port], strict=True))

        def of(bit: int | str) -> str:
            if isinstance(bit, str):  # a constant; what does not matter is 0
                return "1'b1" if bit == "1" else "1'b0"
            return names.setdefault(bit, f"n{bit}")

        for port, entry in module["ports"].items():
            if entry["direction"] == "output":
                netlist.outputs[port] = [of(bit) for bit in entry["bits"]]
        labels = _labels(module)
        for number, (instance, entry) in enumerate(module["cells"].items()):
            cell = Cell(entry["type"], {})
            for pin, bits in entry["connections"].items():
                if bits:
                    bus = cell.is_macro and pin not in _SCALAR_PINS
                    cell.pins[pin] = [of(bit) for bit in bits] if bus else of(bits[0])
            text = _instance_name(number, instance, cell, entry["connections"], labels)
            while text in netlist.cells:
                text += "_"
            netlist.cells[text] = cell
        return netlist

    def verilog(self) -> str:
        """Return the netlist as structural Verilog that any timing analyser reads."""
        lines = [f"module {self.name} ({', '.join([*self.inputs, *self.outputs])});"]
        for kind, ports in (("input", self.inputs), ("output", self.outputs)):
            for port, bits in ports.items():
                width = f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""
                lines.append(f"{kind} {width}{port};")
        inputs = {bit for bits in self.inputs.values() for bit in bits}
        lines += [f"wire {wire};" for wire in sorted(set(self._nets()) - inputs) if not is_constant(wire)]
        for name, cell in self.cells.items():
            pins = ", ".join(
                f".{pin}({{{', '.join(reversed(nets))}}})" if isinstance(nets, list) else f".{pin}({nets})"
                for pin, nets in cell.pins.items()
            )
            lines.append(f"{cell.type} {name} ({pins});")
        for port, bits in self.outputs.items():
            lines += [f"assign {bit} = {net};" for bit, net in zip(_port_bits(port, len(bits)), bits, strict=True)]
        return "\n".join([*lines, "endmodule", ""])

    def _nets(self) -> Iterator[str]:
        for cell in self.cells.values():
            for pin in cell.pins:
                yield from cell.nets(pin)


def _port_bits(port: str, width: int) -> list[str]:
    return [f"{port}[{i}]" for i in range(width)] if width > 1 else [port]


def _labels(module: dict[str, Any]) -> dict[int, str]:
    """Return the shortest name the source has for each bit."""
    labels: dict[int, str] = {}
    for signal, entry in module["netnames"].items():
        if "$" in signal:
            continue
        base = re.sub(r"\W+", "_", signal).strip("_")
        for i, bit in enumerate(entry["bits"]):
            text = f"{base}_{i}" if len(entry["bits"]) > 1 else base
            if isinstance(bit, int) and (bit not in labels or len(text) < len(labels[bit])):
                labels[bit] = text
    return labels


def _instance_name(number: int, instance: str, cell: Cell, connections: dict[str, Any], labels: dict[int, str]) -> str:
    """Macros keep their name, registers have their signal's, and gates a number."""
    if cell.is_macro:
        return re.sub(r"\W+", "_", instance).strip("_")
    for pin in ("Q", "QN"):
        if pin in connections and connections[pin][0] in labels:
            return f"r_{labels[connections[pin][0]]}"
    return f"u{number}"
