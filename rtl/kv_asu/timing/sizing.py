"""Drive strengths and buffers of a mapped netlist, chosen against the same constraints OpenSTA then checks.

abc sizes for the deepest logic and knows neither the macros' clock to output nor the delays around the core. This
pass does, with a timing graph of its own, and makes moves that are kept when they shorten the worst paths:

- another drive strength, judged on the cell's own delay and on what its input load costs its drivers (`resizing`);
- a buffer in front of the sinks of a net that can wait, or in front of all of them when the driver is too small
  (`buffering`).
"""

from __future__ import annotations

from kv_asu.timing.buffering import insert_buffers
from kv_asu.timing.cell_library import CellLibrary
from kv_asu.timing.cells import CellTiming
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.netlist import Netlist
from kv_asu.timing.resizing import resize
from kv_asu.timing.timing_graph import Graph
from kv_asu.timing.tools import Say, silent

#: Rounds at most, and steps of resizing in each; between two rounds nets are buffered.
_ROUNDS = 12
_STEPS = 40
#: Picoseconds another round has to win, after the third.
_LEAST_GAIN = 3.0


def optimize(netlist: Netlist, cells: dict[str, CellTiming], conditions: Conditions, say: Say = silent) -> float:
    """Size and buffer a netlist in place; returns the worst slack this pass sees, in picoseconds."""
    library = CellLibrary(cells)
    buffers, worst = 0, 0.0
    for turn in range(_ROUNDS):
        before = worst
        graph = Graph(netlist, library, conditions)
        worst = resize(graph, _STEPS)
        graph.store()
        say(f"sizing round {turn + 1}: worst slack {worst / 1000:+.3f} ns, {buffers} buffers")
        if turn > 2 and worst < before + _LEAST_GAIN:
            break
        if turn + 1 < _ROUNDS:
            # At first far beyond the worst paths: abc's netlist has nets that no strength can drive.
            buffers += insert_buffers(graph, buffers, 400.0 if turn == 0 else 100.0)
    return worst
