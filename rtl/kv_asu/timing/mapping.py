"""From a core's Verilog to standard cells and SRAM macros: yosys and abc."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kv_asu.timing import liberty, tools
from kv_asu.timing.netlist import Netlist

#: A memory with fewer bits than this becomes registers instead of a macro.
SRAM_MIN_BITS = 128

#: Mapping for delay: cut-wise rebalancing of the AIG twice (`if -g`), structural choices, a delay-optimal cover.
#: No fan-out trees and strengths here: `sizing` does them against the real constraints.
ABC_SCRIPT = """strash; &get -n; &fraig -x; &put; scorr; dc2
if -g -K 6; strash; if -g -K 6; strash; dch -f; map -B 0.9 -D 1; topo
"""

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

#: Turns the memories that fit into macros. The logic cost keeps memory_libmap from preferring registers, which
#: `macro_sizes` has decided already.
MACROS = """memory_libmap -logic-cost-ram 1000 -lib macros.txt
techmap -map macros.v
read_verilog -lib macros.v
"""

_MAP = """read_rtlil core.il
{macros}memory_map
opt -fast
alumacc
maccmap
opt -fast
techmap -map +/choices/kogge-stone.v -map +/techmap.v
opt -fast
setattr -unset init w:*
dfflibmap -liberty cells.lib
opt -fast
abc -liberty cells.lib -script script.abc
setundef -zero
hilomap -hicell TIEHIx1_ASAP7_75t_R H -locell TIELOx1_ASAP7_75t_R L
opt_clean -purge
write_json mapped.json
"""


@dataclass(frozen=True)
class Mapped:
    """A mapped core.

    Parameters
    ----------
    netlist : Netlist
        Its cells and macros.
    sizes : set of (int, int)
        Words and bits of the macros it uses.
    registers : list of str
        Memories that are built of registers.
    """

    netlist: Netlist
    sizes: set[tuple[int, int]]
    registers: list[str]


def synthesize(verilog: str, cell_text: str, folder: Path, top: str, say: tools.Say) -> Mapped:
    """Map a core's Verilog with the cells of a liberty text; every file of the run stays in ``folder``."""
    (folder / "core.v").write_text(verilog)
    (folder / "cells.lib").write_text(cell_text)
    (folder / "script.abc").write_text(ABC_SCRIPT)
    say("reading the Verilog")
    tools.yosys(_READ.format(top=top), folder, "read")
    sizes, registers = macro_sizes(json.loads((folder / "memories.json").read_text())["modules"][top])
    (folder / "macros.txt").write_text(macro_rules(sizes))
    (folder / "macros.v").write_text(macro_modules(sizes))
    say("mapping to cells")
    tools.yosys(_MAP.format(macros=MACROS if sizes else ""), folder, "map")
    module = json.loads((folder / "mapped.json").read_text())["modules"][top]
    return Mapped(Netlist.from_yosys(top, module), sizes, registers)


def macro_sizes(module: dict[str, Any]) -> tuple[set[tuple[int, int]], list[str]]:
    """Decide which memories become macros.

    Parameters
    ----------
    module : dict
        A module of yosys' JSON with ``$mem_v2`` cells.

    Returns
    -------
    set of (int, int)
        Words (a power of two) and bits of the macros: of clocked memories with one write port and at least
        `SRAM_MIN_BITS` bits. More read ports make more copies.
    list of str
        Name and size of the other memories.
    """
    sizes, registers = set(), []
    for cell in module["cells"].values():
        if cell["type"] != "$mem_v2":
            continue
        parameters = cell["parameters"]
        words, width = _number(parameters["SIZE"]), _number(parameters["WIDTH"])
        depth = 1 << max(words - 1, 1).bit_length()
        read_ports = _number(parameters["RD_PORTS"])
        clocked = read_ports > 0 and "0" not in parameters["RD_CLK_ENABLE"][-read_ports:]
        if clocked and _number(parameters["WR_PORTS"]) == 1 and depth * width >= SRAM_MIN_BITS:
            sizes.add((depth, width))
        else:
            registers.append(f"{parameters['MEMID'].lstrip(chr(92))} ({words} x {width})")
    return sizes, registers


def _number(bits: str) -> int:
    return int(bits, 2)


def macro_rules(sizes: Iterable[tuple[int, int]]) -> str:
    """Write what `memory_libmap` has to know of the macros."""
    # A read of the word being written returns the old one; the core forwards by itself where it needs the new.
    # The cost grows with the words and the bits, and has a share per macro: one wide macro beats many narrow ones.
    return "".join(
        f"ram block {_rule(depth, width)} {{\n"
        f"  abits {depth.bit_length() - 1}; width {width}; cost {(depth + 64) * (width + 8)}; init none;\n"
        '  port sr "R" { clock posedge; rden; }\n'
        '  port sw "W" { clock posedge; wrtrans all old; }\n'
        "}\n"
        for depth, width in sorted(sizes)
    )


def _rule(depth: int, width: int) -> str:
    return f"$__{liberty.sram_name(depth, width)}_"


def macro_modules(sizes: Iterable[tuple[int, int]]) -> str:
    """Write the techmap modules that turn `memory_libmap`'s cells into macros, and the macros as black boxes."""
    modules = []
    for depth, width in sorted(sizes):
        name, address, data = liberty.sram_name(depth, width), f"[{depth.bit_length() - 2}:0]", f"[{width - 1}:0]"
        modules.append(f"""module \\{_rule(depth, width)} (
  input PORT_R_CLK, PORT_R_RD_EN, input {address} PORT_R_ADDR, output {data} PORT_R_RD_DATA,
  input PORT_W_CLK, PORT_W_WR_EN, input {address} PORT_W_ADDR, input {data} PORT_W_WR_DATA);
  {name} _TECHMAP_REPLACE_ (
    .CLK(PORT_R_CLK), .R_EN(PORT_R_RD_EN), .R_ADDR(PORT_R_ADDR), .R_DATA(PORT_R_RD_DATA),
    .W_EN(PORT_W_WR_EN), .W_ADDR(PORT_W_ADDR), .W_DATA(PORT_W_WR_DATA));
endmodule
(* blackbox *) module {name} (
  input CLK, R_EN, W_EN, input {address} R_ADDR, W_ADDR, input {data} W_DATA, output {data} R_DATA);
endmodule
""")
    return "".join(modules)
