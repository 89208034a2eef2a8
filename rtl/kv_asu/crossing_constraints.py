"""What timing tools have to be told of `kv_asu.config_crossing`: SDC for most, XDC for Vivado.

Everything that crosses goes from a register to a register, so both files name registers: by their place in the
hierarchy, and with the ``_reg`` that synthesis appends.
"""

from __future__ import annotations

from kv_asu import __version__

_CROSSING = "crossing"

#: What crosses: (from, to, whether it goes to the config side, what it is).
_BUSES = (
    ("held", "request", False, "an access, still since before its toggle"),
    ("answer", "cfg_ext_read_data", True, "an answer, still since before done"),
)
_SYNCHRONISED = (
    ("toggle", "toggle_synchroniser/stage0", False),
    ("done", "done_synchroniser/stage0", True),
    ("interrupt", "irq_synchroniser/stage0", True),
)


def sdc(module: str) -> str:
    """Constraints for an instance whose path the user sets, as ``set kv_asu path/of/it/``.

    Parameters
    ----------
    module : str
        The top module, for the heading.
    """
    lines = [
        f"# KV-ASU {__version__}: {module}, crossings between cfg_clk and clk.",
        "# Read it after the clocks are defined; set these to your instance (with a / at the end) and your periods.",
        "if {![info exists kv_asu]} { set kv_asu {} }",
        "if {![info exists kv_asu_period]} { set kv_asu_period 2.0 }          ;# of clk, ns",
        "if {![info exists kv_asu_cfg_period]} { set kv_asu_cfg_period 4.0 }  ;# of cfg_clk, ns",
        "",
    ]
    for source, target, to_config, what in (
        *_BUSES,
        *((*bits, f"the synchroniser of {bits[0]}") for bits in _SYNCHRONISED),
    ):
        period = "kv_asu_cfg_period" if to_config else "kv_asu_period"
        ends = f"-from [get_cells ${{kv_asu}}{_path(source)}_reg*] -to [get_cells ${{kv_asu}}{_path(target)}_reg*]"
        lines += [
            f"# {what}",
            f"set_max_delay -ignore_clock_latency ${period} {ends}",
            f"set_false_path -hold {ends}",
        ]
    return "\n".join(lines) + "\n"


def xdc(module: str) -> str:
    """Constraints for Vivado, scoped to the module: ``read_xdc -ref kv_asu_cdc kv_asu.xdc``."""
    lines = [
        f"# KV-ASU {__version__}: {module}, crossings between cfg_clk and clk.",
        f"# Read it scoped: read_xdc -ref {module} FILE, or set SCOPED_TO_REF {module} and PROCESSING_ORDER LATE.",
        "set clk [get_clocks -of_objects [get_ports clk]]",
        "set cfg_clk [get_clocks -of_objects [get_ports cfg_clk]]",
        "set period [get_property -min PERIOD $clk]",
        "set cfg_period [get_property -min PERIOD $cfg_clk]",
        "",
    ]
    for source, target, to_config, what in _BUSES:
        period = "$cfg_period" if to_config else "$period"
        ends = f"-from [get_cells {_path(source)}_reg*] -to [get_cells {_path(target)}_reg*]"
        lines += [f"# {what}", f"set_max_delay -datapath_only {ends} {period}"]
    for source, target, to_config in _SYNCHRONISED:
        period = "$cfg_period" if to_config else "$period"
        ends = f"-from [get_cells {_path(source)}_reg*] -to [get_cells {_path(target)}_reg*]"
        last = target.replace("stage0", "stage1")
        lines += [
            f"# the synchroniser of {source}",
            f"set_max_delay -datapath_only {ends} {period}",
            f"set_property ASYNC_REG TRUE [get_cells [list {_path(target)}_reg {_path(last)}_reg]]",
        ]
    return "\n".join(lines) + "\n"


def _path(register: str) -> str:
    return f"{_CROSSING}/{register}"
