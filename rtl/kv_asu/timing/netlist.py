"""A mapped netlist: read from yosys' JSON, given short readable names, written as plain structural Verilog."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass
class Cell:
    """One instance: its cell type and the net on each pin (a list, least significant first, for bus pins)."""

    type: str
    pins: dict[str, str | list[str]]


@dataclass
class Netlist:
    """Instances by name, and the ports' nets (least significant first)."""

    name: str
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)

    @classmethod
    def from_yosys(cls, name: str, module: dict, is_macro: object = None) -> Netlist:
        """Build from one module of ``write_json``; registers take the name of the signal they hold."""
        net = cls(name)
        names: dict[int | str, str] = {}
        label: dict[int | str, str] = {}
        for signal, entry in module["netnames"].items():
            if signal.startswith("$") or "$" in signal:
                continue
            base = re.sub(r"\W+", "_", signal).strip("_")
            for i, bit in enumerate(entry["bits"]):
                text = f"{base}_{i}" if len(entry["bits"]) > 1 else base
                if isinstance(bit, int) and (bit not in label or len(text) < len(label[bit])):
                    label[bit] = text
        for port, entry in module["ports"].items():
            if entry["direction"] == "input":
                width = len(entry["bits"])
                net.inputs[port] = [f"{port}[{i}]" if width > 1 else port for i in range(width)]
                names.update(zip(entry["bits"], net.inputs[port], strict=True))

        def of(bit: int | str) -> str:
            if isinstance(bit, str):
                return f"1'b{bit if bit in '01' else 0}"
            return names.setdefault(bit, f"n{bit}")

        for port, entry in module["ports"].items():
            if entry["direction"] == "output":
                net.outputs[port] = [of(bit) for bit in entry["bits"]]
        used: set[str] = set()
        for number, (cell, entry) in enumerate(module["cells"].items()):
            pins = entry["connections"]
            bus = any(len(bits) > 1 for bits in pins.values()) or entry["type"].startswith("sram_")
            out = next((pins[p][0] for p in ("Q", "QN") if p in pins), None)
            if bus:
                text = re.sub(r"\W+", "_", cell).strip("_")
            elif out in label:
                text = f"r_{label[out]}"
            else:
                text = f"u{number}"
            while text in used:
                text += "_"
            used.add(text)
            net.cells[text] = Cell(entry["type"], {
                p: [of(b) for b in bits] if bus and p not in ("CLK", "R_EN", "W_EN") else of(bits[0])
                for p, bits in pins.items() if bits})
        return net

    def verilog(self) -> str:
        """Return the netlist as structural Verilog that any timing analyser reads."""
        ports = [*self.inputs, *self.outputs]
        lines = [f"module {self.name} ({', '.join(ports)});"]
        for kind, group in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"{kind} {f'[{len(bits) - 1}:0] ' if len(bits) > 1 else ''}{port};" for port, bits in group.items()]
        known = {bit for bits in self.inputs.values() for bit in bits}
        wires = {bit for cell in self.cells.values() for pin in cell.pins.values()
                 for bit in (pin if isinstance(pin, list) else [pin])}
        lines += [f"wire {wire};" for wire in sorted(wires - known) if not wire.startswith("1'b")]
        for name, cell in self.cells.items():
            pins = ", ".join(f".{p}({{{', '.join(reversed(v))}}})" if isinstance(v, list) else f".{p}({v})"
                             for p, v in cell.pins.items())
            lines.append(f"{cell.type} {name} ({pins});")
        for port, bits in self.outputs.items():
            for i, bit in enumerate(bits):
                lines.append(f"assign {port}{f'[{i}]' if len(bits) > 1 else ''} = {bit};")
        return "\n".join([*lines, "endmodule", ""])
