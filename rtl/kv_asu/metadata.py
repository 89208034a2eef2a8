"""What a build is: the record written beside its Verilog, which ``kv-asu info`` shows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Shape
from amaranth.hdl._ir import Design
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib import wiring

from kv_asu import __version__
from kv_asu.params import Params
from kv_asu.rtlil_emitter import prepare
from kv_asu.tops import Top

#: What each pin is for.
MEANINGS = {
    "clk": "clock, rising edge",
    "rst": "synchronous reset, active high",
    "req_valid": "a memory request seen on the bus",
    "req_addr": "its address",
    "tag_valid": "the answer to the request of L clocks ago",
    "tag_line": "its line number",
    "tag_tracked": "the line has a slot now",
    "tag_hit": "it already had one",
    "tag_before": "T-level just before the request",
    "tag_after": "T-level with the request counted",
    "tag_count": "access counter after the request",
    "tag_slot": "its slot",
    "tag_stamp": "the tick at which the request was taken",
    "spill_valid": "a cold line lost its slot to this one",
    "spill_line": "that line's number",
    "query_valid": "ask for a line's T-level without touching it",
    "query_addr": "its address",
    "query_min_tlevel": "the T-level from which it is a hit",
    "query_boost": "count the T-level as one higher",
    "answer_valid": "the answer to the query of L clocks ago",
    "answer_tracked": "the line has a slot",
    "answer_tlevel": "its T-level, with the boost",
    "answer_hit": "tracked, and its T-level is high enough",
    "evict_valid": "take the coldest line out of the table",
    "victim_valid": "the answer to the evict command of L clocks ago",
    "victim_status": "1 FOUND, 0 EMPTY, 2 RETRY",
    "victim_line": "the line number found",
    "power_good": "0: the core is not active; tie to 1 where there is no such signal",
    "irq": "level: an enabled status bit is set",
    "cfg_ext_read_received": "config space: read this register",
    "cfg_ext_write_received": "config space: write this register",
    "cfg_ext_register_number": "config space: which DWORD",
    "cfg_ext_function_number": "config space: which function",
    "cfg_ext_write_data": "config space: what to write",
    "cfg_ext_write_byte_enable": "config space: which bytes of it",
    "cfg_ext_read_data": "config space: what was read",
    "cfg_ext_read_data_valid": "config space: the read of the last clock is answered",
    "axi_arvalid": "AXI4 read address channel: the master's valid",
    "axi_arready": "AXI4 read address channel: the slave's ready",
    "axi_araddr": "AXI4 read address channel: address of the first beat",
    "axi_arlen": "AXI4 read address channel: beats less one",
    "axi_arsize": "AXI4 read address channel: log2 of the bytes of a beat",
    "axi_arburst": "AXI4 read address channel: 0 FIXED, 1 INCR, 2 WRAP",
    "axi_awvalid": "AXI4 write address channel: the master's valid",
    "axi_awready": "AXI4 write address channel: the slave's ready",
    "axi_awaddr": "AXI4 write address channel: address of the first beat",
    "axi_awlen": "AXI4 write address channel: beats less one",
    "axi_awsize": "AXI4 write address channel: log2 of the bytes of a beat",
    "axi_awburst": "AXI4 write address channel: 0 FIXED, 1 INCR, 2 WRAP",
    "region_base": "pages of 4 KiB to listen for: those that agree with this in every bit of region_mask",
    "region_mask": "which bits of a page's number have to agree; 0 for the whole bus",
    "skipped": "lines of bursts that met a full queue, since reset",
    "cfg_clk": "clock of config space and irq, rising edge",
    "cfg_rst": "their synchronous reset, active high",
    "cfg_dropped": "an access came while the queue was full and was lost, since cfg_rst",
    "msi_valid": "send the message that is the interrupt, a memory write of 4 bytes",
    "msi_address": "its address",
    "msi_data": "its data, below 16 bits of 0",
}


def metadata(params: Params, top: Top | None = None) -> dict[str, Any]:
    """The record of a build; elaborates it, which takes a second.

    Parameters
    ----------
    params : Params
        The build.
    top : Top, optional
        What is around the core; nothing unless given.

    Returns
    -------
    dict
        Every build parameter by its name; what follows from them; ``memories`` by their path of instances from the top,
        with depth in words and width in bits; ``pins`` in the order of the port list, with their width in bits.

    Raises
    ------
    ValueError
        The build cannot be a whole function.
    """
    top = top or Top()
    component = top.component(params)
    design = prepare(component, top.name)
    memories = _memories(design)
    return {
        "name": top.name,
        "version": __version__,
        "profile": params.profile,
        "full_config_space": top.full_config_space,
        **params.asdict(),
        **top.settings(),
        "latency": params.latency,
        "t1_limit": params.t1_limit,
        "memory_bits": sum(memory["depth"] * memory["width"] for memory in memories),
        "memories": memories,
        "pins": _pins(component, design),
    }


def _memories(design: Design) -> list[dict[str, Any]]:
    return [
        {
            "name": ".".join(block.name[1:]),
            "depth": fragment._data.depth,
            "width": Shape.cast(fragment._data.shape).width,
        }
        for fragment, block in design.fragments.items()
        if isinstance(fragment, MemoryInstance)
    ]


def _pins(component: wiring.Component, design: Design) -> list[dict[str, Any]]:
    clocks = [name for name, *_ in design.ports if name in ("clk", "rst", "cfg_clk", "cfg_rst")]
    widths = dict.fromkeys(sorted(clocks, key=list(MEANINGS).index), ("in", 1))
    for (name,), member, _ in component.signature.flatten(component):
        widths[name] = "in" if member.flow is wiring.In else "out", Shape.cast(member.shape).width
    return [
        {"name": name, "direction": direction, "width": width, "meaning": MEANINGS[name]}
        for name, (direction, width) in widths.items()
    ]
