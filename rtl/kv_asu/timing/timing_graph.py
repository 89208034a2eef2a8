"""Static timing of a netlist in numpy: table delays, the worst slew of each net, load = pins + wire per sink."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kv_asu.timing import liberty
from kv_asu.timing.cell_library import Array, CellLibrary, Index
from kv_asu.timing.cells import EDGES, NEVER
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.netlist import Cell, Netlist, is_constant

#: Input and output edge of each of `EDGES`.
IN = np.array([edge_in for edge_in, _ in EDGES])
OUT = np.array([edge_out for _, edge_out in EDGES])
#: Required time of a net that nothing waits for.
LATE = 1e9

_CLOCK = "clk"
#: More levels than any clock allows: the netlist has a loop.
_MOST_LEVELS = 2000


@dataclass
class _Parts:
    """What the walk over the netlist collects, before it becomes arrays."""

    arcs: list[tuple[int, int, int, int]] = field(default_factory=list)  # source, target, cell, row
    starts: list[tuple[int, float, float]] = field(default_factory=list)  # net, arrival, slew
    ends: list[tuple[int, float]] = field(default_factory=list)  # net, required
    registers: list[tuple[int, int]] = field(default_factory=list)  # net of D, kind
    loads: list[tuple[int, float]] = field(default_factory=list)  # net, femtofarads of a pin that is no arc's source
    kinds: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class Graph:
    """Arrival, slew and slack of every net, by edge; picoseconds and femtofarads.

    Parameters
    ----------
    netlist : Netlist
        Standard cells and macros.
    library : CellLibrary
        The standard cells.
    conditions : Conditions
        Clock, surroundings, macros, wire.

    Attributes
    ----------
    net : dict
        Name to number of each net.
    names : list of str
        The standard cells; ``kind``, ``output`` (a net) are arrays in this order.
    source, target, owner, rows : ndarray
        Of each arc: its nets, the cell it is in, and its row in the library.
    slack : ndarray
        Of each net, after `time`.

    Raises
    ------
    ValueError
        The netlist has a combinational loop.
    """

    def __init__(self, netlist: Netlist, library: CellLibrary, conditions: Conditions) -> None:
        self.netlist, self.library, self.macro = netlist, library, conditions.macro
        self.wire_ff = conditions.wire_ff
        self.period = 1000 * conditions.period
        self.output_required = self.period - 1000 * conditions.output_delay
        self.net: dict[str, int] = {}
        self.names: list[str] = []
        self.clock = self._of(_CLOCK)
        self._arrays(self._walk(1000 * conditions.input_delay))

    def _of(self, name: str) -> int:
        return self.net.setdefault(name, len(self.net))

    def _walk(self, input_delay: float) -> _Parts:
        parts = _Parts()
        for bits in self.netlist.inputs.values():
            parts.starts += [(self._of(bit), input_delay, 0.0) for bit in bits if bit != _CLOCK]
        for name, cell in self.netlist.cells.items():
            if cell.is_macro:
                self._add_macro(cell, parts)
            elif cell.type in self.library.number:
                self._add_cell(name, cell, parts)
        for bits in self.netlist.outputs.values():
            nets = [self._of(bit) for bit in bits if not is_constant(bit)]
            parts.ends += [(net, self.output_required) for net in nets]
            parts.loads += [(net, 0.0) for net in nets]
        return parts

    def _add_macro(self, cell: Cell, parts: _Parts) -> None:
        for pin in cell.pins:
            if pin == "R_DATA":
                slew = liberty.SRAM_SLEW
                parts.starts += [(self._of(net), self.macro.clk_to_q, slew) for net in cell.nets(pin)]
            elif pin != "CLK":
                nets = [self._of(net) for net in cell.nets(pin) if not is_constant(net)]
                parts.ends += [(net, self.period - self.macro.setup) for net in nets]
                parts.loads += [(net, liberty.SRAM_PIN_FF) for net in nets]

    def _add_cell(self, name: str, cell: Cell, parts: _Parts) -> None:
        kind = self.library.number[cell.type]
        timing = self.library.cells[kind]
        me, out = len(self.names), self._of(cell.net(timing.output))
        self.names.append(name)
        parts.kinds.append(kind)
        parts.outputs.append(out)
        if timing.setup is not None:
            held = self._of(cell.net("D"))
            parts.registers.append((held, kind))
            parts.loads.append((held, timing.caps["D"]))
        # Of a register's pins only the clock has an arc.
        parts.arcs += [(self._of(cell.net(pin)), out, me, self.library.row[kind, pin]) for pin in timing.arcs]

    def _arrays(self, parts: _Parts) -> None:
        self.size = len(self.net)
        self.kind, self.output = np.array(parts.kinds, dtype=np.int64), np.array(parts.outputs, dtype=np.int64)
        self._start_net = np.array([net for net, _, _ in parts.starts], dtype=np.int64)
        self._start_at = np.array([arrival for _, arrival, _ in parts.starts]).reshape(-1, 1)
        self._start_slew = np.array([slew for _, _, slew in parts.starts]).reshape(-1, 1)
        self._end_net = np.array([net for net, _ in parts.ends], dtype=np.int64)
        self._end_at = np.array([required for _, required in parts.ends]).reshape(-1, 1)
        self._register_net = np.array([net for net, _ in parts.registers], dtype=np.int64)
        self._register_kind = np.array([kind for _, kind in parts.registers], dtype=np.int64)
        self._fixed_load = np.zeros(self.size)
        for net, femtofarads in parts.loads:
            self._fixed_load[net] += femtofarads + self.wire_ff
        self._order(np.array(parts.arcs, dtype=np.int64).reshape(-1, 4))

    def _order(self, arcs: Index) -> None:
        """Sort the arcs by level, so that a level is one slice; within it by target."""
        level = self._levels(arcs[:, 0], arcs[:, 1])
        arcs = arcs[np.lexsort((arcs[:, 1], level[arcs[:, 1]]))]
        self.source, self.target, self.owner, self.rows = arcs.T.copy()
        bounds = np.flatnonzero(np.diff(level[self.target], prepend=-1, append=-1))
        # (first arc, end, where in the slice another target begins)
        self._slices = [
            (a, b, np.flatnonzero(np.diff(self.target[a:b], prepend=-1)))
            for a, b in zip(bounds[:-1], bounds[1:], strict=True)
        ]
        self._by_owner = np.argsort(self.owner, kind="stable")
        self._first = np.searchsorted(self.owner[self._by_owner], np.arange(len(self.names) + 1))

    def _levels(self, source: Index, target: Index) -> Index:
        level = np.zeros(self.size, dtype=np.int64)
        for _ in range(_MOST_LEVELS):
            new = level.copy()
            np.maximum.at(new, target, level[source] + 1)
            if (new == level).all():
                return level
            level = new
        raise ValueError("the netlist has a combinational loop")

    def time(self) -> float:
        """Work out arrivals, slews and slacks; returns the worst slack."""
        self._forward()
        self._backward()
        slack = np.where(self.arrival > NEVER / 2, self.required - self.arrival, LATE)
        slack[self.clock] = LATE
        self.slack = slack.min(1)
        self.end_slack = self.slack[np.concatenate([self._end_net, self._register_net])]
        return float(self.slack.min())

    def _forward(self) -> None:
        self.load = self._fixed_load.copy()
        inner = self.source != self.clock
        np.add.at(self.load, self.source[inner], self.library.caps[self.rows[inner]] + self.wire_ff)
        self.arrival, self.slew = np.full((self.size, 2), NEVER), np.zeros((self.size, 2))
        self.arrival[self.clock, 0] = 0.0
        self.arrival[self._start_net] = self._start_at
        self.slew[self._start_net] = self._start_slew
        self.delay, self.arc_slew = np.empty((len(self.rows), 4)), np.empty((len(self.rows), 4))
        for a, b, heads in self._slices:
            sources, targets = self.source[a:b], self.target[a:b]
            found = self.library.look_up(self.rows[a:b], self.slew[sources][:, IN], self.load[targets])
            self.delay[a:b], self.arc_slew[a:b] = found[..., 0], found[..., 1]
            reach = self.arrival[sources][:, IN] + found[..., 0]
            slews = np.where(reach > NEVER / 2, found[..., 1], 0.0)
            for edge in (0, 1):
                self.arrival[targets[heads], edge] = np.maximum.reduceat(reach[:, edge == OUT].max(1), heads)
                self.slew[targets[heads], edge] = np.maximum.reduceat(slews[:, edge == OUT].max(1), heads)

    def _backward(self) -> None:
        self.required = np.full((self.size, 2), LATE)
        np.minimum.at(self.required, self._end_net, self._end_at)
        for kind in np.unique(self._register_kind):
            self._require_setup(kind)
        for a, b, _ in reversed(self._slices):
            required = self.required[self.target[a:b]][:, OUT] - self.delay[a:b]
            required = np.where(self.delay[a:b] > NEVER / 2, required, LATE)
            for edge in (0, 1):
                np.minimum.at(self.required[:, edge], self.source[a:b], required[:, edge == IN].min(1))

    def _require_setup(self, kind: int) -> None:
        cell, nets = self.library.cells[kind], self._register_net[self._register_kind == kind]
        assert cell.setup is not None
        assert cell.setup_slews is not None
        for edge in (0, 1):
            setup = np.interp(self.slew[nets, edge], cell.setup_slews, cell.setup[edge])
            np.minimum.at(self.required[:, edge], nets, self.period - setup)

    def slopes(self, arcs: Index) -> tuple[Array, Array]:
        """Return what one femtofarad more costs the nets these arcs drive: picoseconds of delay, of slew."""
        target = self.target[arcs]
        more = self.library.look_up(self.rows[arcs], self.slew[self.source[arcs]][:, IN], self.load[target] + 1.0)
        live = self.delay[arcs] > NEVER / 2
        delay, slew = np.zeros(self.size), np.zeros(self.size)
        np.maximum.at(delay, target, np.where(live, more[..., 0] - self.delay[arcs], 0).max(1))
        np.maximum.at(slew, target, np.where(live, more[..., 1] - self.arc_slew[arcs], 0).max(1))
        return delay, slew

    def arc_slacks(self, arcs: Index) -> Array:
        """Return the slack of each of these arcs."""
        live = self.delay[arcs] > NEVER / 2
        slack = self.required[self.target[arcs]][:, OUT] - self.arrival[self.source[arcs]][:, IN] - self.delay[arcs]
        return np.where(live, slack, LATE).min(1)

    def arcs_of(self, cell: int) -> Index:
        """Return the arcs of a cell."""
        return self._by_owner[self._first[cell] : self._first[cell + 1]]

    def pin(self, arc: int) -> str:
        """Return the input pin of an arc."""
        return self.library.pins[self.rows[arc]]

    def change(self, cells: Index, kinds: Index) -> None:
        """Give cells another drive strength."""
        for cell, kind in zip(cells.tolist(), kinds.tolist(), strict=True):
            for arc in self.arcs_of(cell):
                self.rows[arc] = self.library.row[kind, self.pin(arc)]
            self.kind[cell] = kind

    def store(self) -> None:
        """Write the strengths chosen back to the netlist."""
        for name, kind in zip(self.names, self.kind, strict=True):
            self.netlist.cells[name].type = self.library.cells[kind].name
