"""The contract as SystemVerilog assertions that bind to the core: what ``kv-asu verilog --assertions`` writes.

The assertions are in ``assertions.sv``, written by hand for every build at once; here they get the build's numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

from kv_asu import __version__
from kv_asu.params import Params
from kv_asu.pci_header import CONFIG_SPACE_BYTES
from kv_asu.register_map import WINDOW_BYTES
from kv_asu.tops import Top

SOURCE = Path(__file__).with_name("assertions.sv")

MODULE = "kv_asu_assertions"


def names() -> list[str]:
    """Every assertion's name in the order of the file: ``a_*`` of the core, ``s_*`` of its surroundings."""
    return re.findall(r"^  `KV_ASU_ASSERT\((\w+),", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)


def instance(params: Params, top: Top | None = None) -> str:
    """An instance of the assertions with a build's numbers, to stand in the top module."""
    top = top or Top()
    first, size = (0, CONFIG_SPACE_BYTES) if top.full_config_space else (params.config_base, WINDOW_BYTES)
    numbers = {
        "ADDR_WIDTH": str(params.addr_width),
        "LOG2_ENTRIES": str(params.log2_entries),
        "STAMP_WIDTH": str(params.stamp_width),
        "LATENCY": str(params.latency),
        "CONFIG_FIRST": f"10'h{first >> 2:03x}",
        "CONFIG_LAST": f"10'h{(first + size >> 2) - 1:03x}",
        "CONFIG_FUNCTION": f"8'h{params.function:02x}",
    }
    wires = "".join(f".{pin}({wire}), " for pin, wire in top.core_pins(params).items())
    return f"{MODULE} #({', '.join(f'.{name}({value})' for name, value in numbers.items())}) assertions ({wires}.*);"


def emit(params: Params, top: Top | None = None) -> str:
    """The assertions of a build, bound to every instance of its top module.

    Parameters
    ----------
    params : Params
        The build.
    top : Top, optional
        What is around the core; nothing unless given.

    Returns
    -------
    str
        SystemVerilog to be compiled beside the core's. Icarus Verilog knows no ``bind``: there the instance that is
        bound here has to stand in the bench.
    """
    top = top or Top()
    bound = instance(params, top)
    return (
        f"// KV-ASU {__version__}{top.description}: assertions of the contract\n{SOURCE.read_text(encoding='utf-8')}\n"
        f"`ifndef __ICARUS__\nbind {top.name} {bound}\n`endif\n"
    )
