"""OpenSTA: the script that times a mapped netlist, and what it reports."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kv_asu.errors import ToolError
from kv_asu.timing import tools
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.netlist import Netlist

#: Where a path starts or ends.
KINDS = {"in": "input", "sram": "SRAM", "reg": "register", "out": "output"}

#: Marks the sections of the printed report.
_MARK = "@@"


@dataclass(frozen=True)
class WorstPath:
    """The worst path of one kind.

    Parameters
    ----------
    start, end : str
        Keys of `KINDS`.
    slack : float
        Nanoseconds.
    report : str
        OpenSTA's report of it.
    """

    start: str
    end: str
    slack: float
    report: str


def program() -> str:
    """Return OpenSTA's path.

    Raises
    ------
    ToolError
        It is missing.
    """
    return tools.find("sta", "install OpenSTA (Debian package opensta)")


def time(folder: Path, libraries: list[str], verilog: str, netlist: Netlist, conditions: Conditions) -> list[WorstPath]:
    """Time a netlist; returns the worst path of each kind, the worst kind first.

    Parameters
    ----------
    folder : Path
        Where ``libraries`` and ``verilog`` are, and ``sta.tcl`` and the log go.

    Raises
    ------
    ToolError
        OpenSTA is missing, refuses an input, or finds no path.
    """
    (folder / "sta.tcl").write_text(script(libraries, verilog, netlist, conditions))
    return parse(tools.call([program(), "-no_splash", "-exit", "sta.tcl"], folder, "OpenSTA"))


def script(libraries: list[str], verilog: str, netlist: Netlist, conditions: Conditions) -> str:
    """Write the Tcl that constrains a netlist and reports the worst path of each kind."""
    lines = [f"read_liberty {library}" for library in libraries]
    lines += [f"read_verilog {verilog}", f"link_design {netlist.name}"]
    if conditions.wire_ff:
        lines += ["set_wire_load_mode top", "set_wire_load_model -name per_sink"]
    # The libraries count in picoseconds.
    period, before, after = (
        1000 * value for value in (conditions.period, conditions.input_delay, conditions.output_delay)
    )
    lines += [
        f"create_clock -name clk -period {period} [get_ports clk]",
        "set inputs {}",
        'foreach p [all_inputs] { if {[get_property $p full_name] != "clk"} {lappend inputs $p} }',
        f"set_input_delay {before} -clock clk $inputs",
        f"set_output_delay {after} -clock clk [all_outputs]",
    ]
    for start, from_ in _starts(netlist).items():
        for end, to in _ends(netlist).items():
            lines += [
                f"puts {{{_MARK} {start} {end}}}",
                f"report_checks -from {from_} -to {to} -path_delay max -digits 1 -fields {{capacitance slew fanout}}",
            ]
    return "\n".join([*lines, "exit", ""])


def _inside(netlist: Netlist) -> dict[str, str]:
    """Tcl collections of the macros and the registers; OpenSTA does not accept empty ones."""
    names = {
        "sram": [name for name, cell in netlist.cells.items() if cell.is_macro],
        "reg": [name for name, cell in netlist.cells.items() if cell.is_register],
    }
    return {kind: f"[get_cells {{{' '.join(cells)}}}]" for kind, cells in names.items() if cells}


def _starts(netlist: Netlist) -> dict[str, str]:
    return {"in": "$inputs", **_inside(netlist)}


def _ends(netlist: Netlist) -> dict[str, str]:
    return {**_inside(netlist), "out": "[all_outputs]"}


def parse(text: str) -> list[WorstPath]:
    """Read what the script printed; returns the worst path of each kind that has one, the worst kind first.

    Raises
    ------
    ToolError
        There is no path at all.
    """
    paths = []
    for part in re.split(rf"^{_MARK} ", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        start, end = head.split()
        slack = re.search(r"(-?[\d.]+)\s+slack \(", body)
        if slack:
            paths.append(WorstPath(start, end, round(float(slack[1]) / 1000, 4), body.strip()))
    if not paths:
        raise ToolError("OpenSTA found no constrained path: is the clock called clk?")
    return sorted(paths, key=lambda path: path.slack)
