"""Static timing of a core's Verilog in an ASAP7-like standard-cell library: yosys and abc map it, OpenSTA times it."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import cells, liberty, sizing, tools
from .netlist import Netlist
from .tools import TimingError

#: A memory with fewer bits than this, or with an unclocked read port, becomes registers instead of a macro.
_SRAM_MIN_BITS = 128

#: Mapping for delay: cut-wise rebalancing of the AIG twice (`if -g`), structural choices, a delay-optimal cover.
#: No fan-out trees and strengths here: `sizing` does them against the real constraints.
ABC_SCRIPT = """strash; &get -n; &fraig -x; &put; scorr; dc2
if -g -K 6; strash; if -g -K 6; strash; dch -f; map -B 0.9 -D 1; topo
"""

_ENDS = {"in": "input", "sram": "SRAM", "reg": "register", "out": "output"}


@dataclass(frozen=True)
class Path_:
    """The worst path of one kind.

    Parameters
    ----------
    start, end : str
        ``in``, ``sram``, ``reg`` and ``sram``, ``reg``, ``out``.
    slack : float
        Nanoseconds.
    report : str
        OpenSTA's report of it.
    """

    start: str
    end: str
    slack: float
    report: str


@dataclass
class Result:
    """What one run found; times in ns, areas in square micrometres."""

    corner: str
    period: float
    wire_ff: float
    worst_slack: float = 0.0
    paths: list[Path_] = field(default_factory=list)
    cells: int = 0
    registers: int = 0
    area: float = 0.0
    macros: dict[str, int] = field(default_factory=dict)
    unmapped_memories: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def delay(self) -> float:
        """The clock period at which the worst slack would be 0."""
        return self.period - self.worst_slack


def _parameter(cell: dict, name: str) -> int:
    value = cell["parameters"][name]
    return int(value, 2) if set(value) <= {"0", "1"} else 0


def _memories(design: dict, top: str) -> tuple[set[tuple[int, int]], list[str]]:
    """Return the macro sizes (words, bits) the memories ask for, and the names of those that stay registers."""
    sizes, registers = set(), []
    for cell in design["modules"][top]["cells"].values():
        if cell["type"] != "$mem_v2":
            continue
        depth, width = _parameter(cell, "SIZE"), _parameter(cell, "WIDTH")
        depth = 1 << max(depth - 1, 1).bit_length()
        ports = _parameter(cell, "RD_PORTS")
        clocked = cell["parameters"]["RD_CLK_ENABLE"][-ports:] == "1" * ports
        if clocked and _parameter(cell, "WR_PORTS") == 1 and depth * width >= _SRAM_MIN_BITS:
            sizes.add((depth, width))
        else:
            registers.append(f"{cell['parameters']['MEMID'].strip(chr(92))} ({depth} x {width})")
    return sizes, registers


def _macro_rules(sizes: set[tuple[int, int]]) -> tuple[str, str]:
    """Write the `memory_libmap` description of the macros and the techmap file that instantiates them."""
    rules, maps = [], []
    for depth, width in sorted(sizes):
        bits, name = depth.bit_length() - 1, liberty.sram_name(depth, width)
        # A read of the word being written returns the old one; the core forwards by itself where it needs the new.
        rules.append(f"ram block $__{name}_ {{ abits {bits}; width {width}; cost {(depth + 64) * (width + 8)}; init none;\n"
                     f"  port sr \"R\" {{ clock posedge; rden; }}\n"
                     f"  port sw \"W\" {{ clock posedge; wrtrans all old; }}\n}}\n")
        maps.append(f"module \\$__{name}_ (input PORT_R_CLK, PORT_R_RD_EN, input [{bits - 1}:0] PORT_R_ADDR, "
                    f"output [{width - 1}:0] PORT_R_RD_DATA, input PORT_W_CLK, PORT_W_WR_EN, "
                    f"input [{bits - 1}:0] PORT_W_ADDR, input [{width - 1}:0] PORT_W_WR_DATA);\n"
                    f"  {name} _TECHMAP_REPLACE_ (.CLK(PORT_R_CLK), .R_EN(PORT_R_RD_EN), .R_ADDR(PORT_R_ADDR), "
                    ".R_DATA(PORT_R_RD_DATA), .W_EN(PORT_W_WR_EN), .W_ADDR(PORT_W_ADDR), .W_DATA(PORT_W_WR_DATA));\n"
                    "endmodule\n")
    boxes = [f"(* blackbox *) module {liberty.sram_name(d, w)} (input CLK, R_EN, W_EN, input [{d.bit_length() - 2}:0] "
             f"R_ADDR, W_ADDR, input [{w - 1}:0] W_DATA, output [{w - 1}:0] R_DATA); endmodule\n"
             for d, w in sorted(sizes)]
    return "".join(rules), "".join([*maps, *boxes])


_READ = """read_verilog -sv core.v
hierarchy -check -top {top}
proc -norom
flatten
opt
wreduce
peepopt
opt_clean
memory_share
delete t:$meminit t:$meminit_v2
memory -nomap
opt -fast
write_rtlil core.il
write_json memories.json
"""

_MAP = """read_rtlil core.il
{macros}
memory_map
opt -fast
alumacc
maccmap
opt -fast
techmap -map +/choices/{adder}.v -map +/techmap.v
opt -fast
setattr -unset init w:*
dfflibmap -liberty cells.lib
opt -fast
abc -liberty cells.lib -script script.abc {dont_use}
setundef -zero
hilomap -hicell TIEHIx1_ASAP7_75t_R H -locell TIELOx1_ASAP7_75t_R L
opt_clean -purge
write_json mapped.json
"""


def synthesize(verilog: str, cell_text: str, folder: Path, *, top: str = "kv_asu", adder: str = "kogge-stone",
               script: str = ABC_SCRIPT, say: Callable[[str], None] = lambda _: None) -> dict:
    """Map a core to standard cells and SRAM macros; files stay in ``folder``; returns yosys' JSON netlist."""
    (folder / "core.v").write_text(verilog)
    (folder / "cells.lib").write_text(cell_text)
    (folder / "script.abc").write_text(script)
    say("reading the Verilog")
    tools.yosys(_READ.format(top=top), folder, "read")
    sizes, registers = _memories(json.loads((folder / "memories.json").read_text()), top)
    rules, maps = _macro_rules(sizes)
    (folder / "macros.txt").write_text(rules)
    (folder / "macros.v").write_text(maps)
    macros = "memory_libmap -logic-cost-ram 1000 -lib macros.txt\ntechmap -map macros.v\nread_verilog -lib macros.v\n" if sizes else ""
    say("mapping to cells")
    tools.yosys(_MAP.format(macros=macros, adder=adder, dont_use=""), folder, "map")
    module = json.loads((folder / "mapped.json").read_text())["modules"][top]
    netlist = Netlist.from_yosys(top, module)
    return {"netlist": netlist, "sizes": sizes, "registers": registers}


def _sta(folder: Path, corner_files: list[str], top: str, netlist: Netlist, period: float, wire_ff: float,
         input_delay: float, output_delay: float, count: int, verilog: str = "mapped.v") -> str:
    """Run OpenSTA; returns what it printed."""
    srams = [n for n, c in netlist.cells.items() if c.type.startswith("sram_")]
    registers = [n for n, c in netlist.cells.items() if c.type.startswith("DFF")]
    lines = [f"read_liberty {f}" for f in corner_files]
    lines += [f"read_verilog {verilog}", f"link_design {top}"]
    if wire_ff:
        lines += ["set_wire_load_mode top", "set_wire_load_model -name per_sink"]
    unit = 1000
    lines += [f"create_clock -name clk -period {period * unit} [get_ports clk]",
              "set inputs {}", "foreach p [all_inputs] { if {[get_property $p full_name] != \"clk\"} {lappend inputs $p} }",
              f"set_input_delay {input_delay * unit} -clock clk $inputs",
              f"set_output_delay {output_delay * unit} -clock clk [all_outputs]"]
    starts = {"in": "$inputs"}
    starts |= {kind: "[get_cells {" + " ".join(names) + "}]" for kind, names in (("sram", srams), ("reg", registers))}
    ends = {"sram": starts["sram"], "reg": starts["reg"], "out": "[all_outputs]"}
    for start, a in starts.items():
        for end, b in ends.items():
            if (not srams and "sram" in (start, end)) or (not registers and "reg" in (start, end)):
                continue
            lines += [f"puts {{@@ {start} {end}}}",
                      f"report_checks -from {a} -to {b} -path_delay max -digits 1 -group_count {count} -fields {{capacitance slew fanout}}"]
    lines += ["puts {@@ end}", "report_wns -digits 1", "report_tns -digits 1", "exit"]
    (folder / "sta.tcl").write_text("\n".join(lines) + "\n")
    return tools.call([tools.find("sta", "install OpenSTA (Debian package opensta)"), "-no_splash", "-exit", "sta.tcl"],
                      folder, "OpenSTA")


def run(verilog: str, liberty_dir: Path, corner: str = "TT", wire_ff: float = 0.0, *, clk_to_q: float | None = None,
        setup: float | None = None, period: float = 2.0, input_delay: float = 0.2, output_delay: float = 0.5,
        top: str = "kv_asu", adder: str = "kogge-stone", script: str = ABC_SCRIPT, paths: int = 1,
        resize: bool = True, keep: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Result:
    """Map and time a core.

    Parameters
    ----------
    verilog : str
        The core's text; top module ``top``, clock ``clk``.
    liberty_dir : Path
        Folder with ``*_<corner>.lib[.gz]``.
    corner : str
        ``TT`` or ``SS``.
    wire_ff : float
        Femtofarads of wire for each sink of a net; 0: no wire.
    clk_to_q, setup : float, optional
        Picoseconds of the SRAM macros; by default `liberty.SRAM_TIMING`.
    period, input_delay, output_delay : float
        Nanoseconds.
    keep : Path, optional
        Work there and leave the files.

    Returns
    -------
    Result
        Worst paths by kind, area and counts.
    """
    if keep is None:
        with tempfile.TemporaryDirectory() as scratch:
            return run(verilog, liberty_dir, corner, wire_ff, clk_to_q=clk_to_q, setup=setup, period=period,
                       input_delay=input_delay, output_delay=output_delay, top=top, adder=adder, script=script,
                       paths=paths, resize=resize, keep=Path(scratch), say=say)
    keep.mkdir(parents=True, exist_ok=True)
    result = Result(corner, period, wire_ff)
    clock = time.monotonic()

    def lap(step: str) -> None:
        nonlocal clock
        now = time.monotonic()
        result.seconds[step] = round(now - clock, 1)
        clock = now

    default = liberty.SRAM_TIMING[corner]
    timing = liberty.SramTiming(default.clk_to_q if clk_to_q is None else clk_to_q,
                                default.setup if setup is None else setup)
    texts = liberty.load(liberty_dir, corner)
    merged = liberty.merge(texts, wire_ff=wire_ff)
    lap("liberty")
    mapped = synthesize(verilog, merged, keep, top=top, adder=adder, script=script, say=say)
    lap("mapping")
    netlist = mapped["netlist"]
    library = cells.read(merged)
    if resize:
        constraints = sizing.Constraints(period * 1000, input_delay * 1000, output_delay * 1000, timing, wire_ff)
        sizing.optimize(netlist, library, constraints, say=say)
        lap("sizing")
    (keep / "mapped.v").write_text(netlist.verilog())
    (keep / "sram.lib").write_text(liberty.sram_library(mapped["sizes"] or {(16, 16)}, timing))
    say("timing with OpenSTA")
    text = _sta(keep, ["cells.lib", "sram.lib"], top, mapped["netlist"], period, wire_ff, input_delay, output_delay, paths)
    (keep / "sta.log").write_text(text)
    lap("sta")
    _fill(result, text, mapped)
    result.area = sum(library[c.type].area for c in netlist.cells.values() if c.type in library)
    return result


def _fill(result: Result, text: str, mapped: dict) -> None:
    cells = mapped["netlist"].cells.values()
    result.cells = sum(not c.type.startswith("sram_") for c in cells)
    result.registers = sum(c.type.startswith("DFF") for c in cells)
    for cell in cells:
        if cell.type.startswith("sram_"):
            result.macros[cell.type] = result.macros.get(cell.type, 0) + 1
    result.unmapped_memories = mapped["registers"]
    for part in re.split(r"^@@ ", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "end":
            continue
        start, end = head.split()
        slacks = re.findall(r"(-?[\d.]+)\s+slack \(", body)
        if slacks:
            result.paths.append(Path_(start, end, min(map(float, slacks)) / 1000, body.strip()))
    result.paths.sort(key=lambda p: p.slack)
    if not result.paths:
        raise TimingError("OpenSTA found no constrained path: is the clock called clk?")
    result.worst_slack = result.paths[0].slack


def summary(result: Result, paths: int = 1) -> str:
    """Return the result as text: the table of path kinds, area and the ``paths`` worst paths in full."""
    lines = [f"{result.corner}, {result.period} ns, {result.wire_ff:g} fF a sink: worst slack {result.worst_slack:+.3f} ns "
             f"(path {result.delay:.3f} ns)"]
    for p in result.paths:
        lines.append(f"  {_ENDS[p.start]:>8} -> {_ENDS[p.end]:<8} {p.slack:+.3f}")
    lines.append(f"  {result.cells} cells, {result.registers} registers, {result.area:.0f} um2 of logic; macros: "
                 + (", ".join(f"{n} x {k}" for k, n in sorted(result.macros.items())) or "none"))
    if result.unmapped_memories:
        lines.append("  memories built of registers: " + ", ".join(result.unmapped_memories))
    lines.append("  seconds: " + ", ".join(f"{k} {v}" for k, v in result.seconds.items()))
    for p in result.paths[:paths]:
        lines += ["", p.report]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the flow from a command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="kv_asu.timing.asap7", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--liberty", type=Path, required=True)
    parser.add_argument("--corner", choices=["TT", "SS"], default="TT")
    parser.add_argument("--wire", type=float, default=0.0, help="femtofarads of wire a sink")
    parser.add_argument("--period", type=float, default=2.0)
    parser.add_argument("--clk-to-q", type=float)
    parser.add_argument("--setup", type=float)
    parser.add_argument("--adder", default="kogge-stone")
    parser.add_argument("--script", type=Path, help="another abc script")
    parser.add_argument("--no-resize", action="store_true", help="time what abc made, without the sizing pass")
    parser.add_argument("--top", default="kv_asu")
    parser.add_argument("--paths", type=int, default=1, help="how many of the kinds' worst paths to print in full")
    parser.add_argument("--keep", type=Path, help="folder that keeps every file of the run")
    args = parser.parse_args(arguments)
    try:
        result = run(args.file.read_text(), args.liberty, args.corner, args.wire, clk_to_q=args.clk_to_q,
                     setup=args.setup, period=args.period, adder=args.adder, top=args.top, resize=not args.no_resize, keep=args.keep,
                     script=args.script.read_text() if args.script else ABC_SCRIPT,
                     say=lambda step: print(f"... {step}", file=sys.stderr, flush=True))
    except (TimingError, liberty.LibertyError, OSError) as error:
        print(f"kv_asu.timing.asap7: {error}", file=sys.stderr)
        return 1
    print(summary(result, args.paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
