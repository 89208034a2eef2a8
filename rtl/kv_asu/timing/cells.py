"""Delay tables of a liberty library as numpy arrays, for the sizer's own timing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kv_asu.timing.liberty import groups

Array = NDArray[np.float64]

#: (input edge, output edge): rise-rise, rise-fall, fall-rise, fall-fall.
EDGES = ((0, 0), (0, 1), (1, 0), (1, 1))
_TABLES = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
_OUT_EDGE = {"cell_rise": 0, "cell_fall": 1, "rise_transition": 0, "fall_transition": 1}
#: Delay of an arc that does not exist: never the worst.
NEVER = -1e9


@dataclass
class CellTiming:
    """One cell: area, input pins with their load, the output and the delay tables of each input.

    Parameters
    ----------
    name : str
        Its liberty name.
    area : float
        Square micrometres.
    caps : dict
        Input pin to femtofarads, in the file's order.
    output : str
        The output pin.
    function : str
        The output's function, used to find cells that may replace each other.
    arcs : dict
        Input pin to array (4 edges, delay and slew, slew points, load points).
    slews, loads : ndarray
        Axes of the tables, picoseconds and femtofarads.
    setup, setup_slews : ndarray or None
        Of a register: (2 edges of D, slew points) in picoseconds at the steepest clock, and those slews.
    """

    name: str
    area: float
    caps: dict[str, float] = field(default_factory=dict)
    output: str = ""
    function: str = ""
    arcs: dict[str, Array] = field(default_factory=dict)
    slews: Array | None = None
    loads: Array | None = None
    setup: Array | None = None
    setup_slews: Array | None = None


def _attribute(text: str, name: str, default: str = "") -> str:
    found = re.search(rf"\b{name}[ \t]*:[ \t]*\"?([^;\"\n]*)", text)
    return found.group(1).strip() if found else default


def _numbers(text: str, name: str) -> Array:
    found = re.search(rf"\b{name}\s*\(([^)]*)\)", text)
    if found is None:
        return np.zeros(0)
    return np.array([float(x) for x in re.findall(r"[-+\d.eE]+", found.group(1).replace('"', " ").replace("\\", " "))])


def read(text: str) -> dict[str, CellTiming]:
    """Read the cells with one output of a liberty text whose tables carry their own axes."""
    cells = {}
    for kind, name, depth, start, end in groups(text):
        if depth == 1 and kind == "cell":
            cell = _cell(name, text[start:end])
            if cell is not None:
                cells[name] = cell
    return cells


def _cell(name: str, text: str) -> CellTiming | None:
    cell = CellTiming(name, float(_attribute(text, "area", "0")))
    tree = list(groups(text))
    outputs = 0
    for kind, pin, depth, start, end in tree:
        if kind != "pin" or depth != 1:
            continue
        body = text[start:end]
        if _attribute(body, "direction") == "input":
            cell.caps[pin] = float(_attribute(body, "capacitance", "0"))
        else:
            outputs += 1
            cell.output, cell.function = pin, _attribute(body, "function")
        for inner, _, level, a, b in tree:
            if inner == "timing" and level == 2 and start < a < end:
                _timing(cell, text[a:b])
    return cell if outputs == 1 else None


def _timing(cell: CellTiming, text: str) -> None:
    """Add one ``timing`` group; what is neither a combinational, a clock-to-output nor a setup arc does not count."""
    kind = _attribute(text, "timing_type", "combinational")
    tables = {name: text[a:b] for name, _, depth, a, b in groups(text) if depth == 1}
    if kind == "setup_rising":
        _setup(cell, tables)
    elif kind in ("combinational", "rising_edge") and "cell_rise" in tables:
        sense = "rising" if kind == "rising_edge" else _attribute(text, "timing_sense", "non_unate")
        _delays(cell, _attribute(text, "related_pin"), sense, tables)


def _setup(cell: CellTiming, tables: dict[str, str]) -> None:
    rows = []
    for name in ("rise_constraint", "fall_constraint"):
        cell.setup_slews = _numbers(tables[name], "index_1")
        rows.append(_numbers(tables[name], "values").reshape(len(cell.setup_slews), -1)[:, 0])
    new = np.array(rows)
    cell.setup = new if cell.setup is None else np.maximum(cell.setup, new)


def _delays(cell: CellTiming, pin: str, sense: str, tables: dict[str, str]) -> None:
    for table in _TABLES:
        if table not in tables:
            continue
        slews, loads = _numbers(tables[table], "index_1"), _numbers(tables[table], "index_2")
        values = _numbers(tables[table], "values").reshape(len(slews), len(loads))
        if cell.slews is None:
            cell.slews, cell.loads = slews, loads
        arc = cell.arcs.setdefault(pin, np.full((4, 2, len(slews), len(loads)), NEVER))
        what = 0 if table.startswith("cell") else 1
        for edge in _input_edges(sense, _OUT_EDGE[table]):
            at = EDGES.index((edge, _OUT_EDGE[table]))
            # The arc's conditions (`when`) are not known here: the slowest counts.
            arc[at, what] = np.maximum(arc[at, what], values)


def _input_edges(sense: str, output_edge: int) -> tuple[int, ...]:
    """Return the edges of the input that can cause an edge of the output."""
    if sense == "rising":
        return (0,)
    if sense == "positive_unate":
        return (output_edge,)
    if sense == "negative_unate":
        return (1 - output_edge,)
    return (0, 1)
