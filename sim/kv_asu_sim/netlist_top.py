"""The core's top module again around a netlist of it, so that whatever takes the Verilog takes the netlist."""

from __future__ import annotations

import re


def around(core: str, module: str, declarations: str = "", connections: str = "") -> str:
    """A module ``kv_asu`` with the core's pins around another one with pins of the same names.

    Parameters
    ----------
    core : str
        The core's Verilog, which has the pins.
    module : str
        The module inside.
    declarations, connections : str
        What the module has beyond the core's pins: statements for it, and a comma before each connection.
    """
    found = re.search(r"^module kv_asu \((.*?)^\);", core, re.MULTILINE | re.DOTALL)
    assert found
    names = re.findall(r"(?:input|output) (?:wire|reg) (?:\[\d+:0\] )?(\w+)", found[1])
    header = re.sub(r"output reg\b", "output wire", found[0])
    header = re.sub(r" = \d+'[hd][0-9a-f]+(?=,?$)", "", header, flags=re.MULTILINE)
    pins = ", ".join(f".{name}({name})" for name in names)
    return f"""
{header}
{declarations}  {module} core ({pins}{connections});
endmodule
"""
