"""Drive strengths and buffers of a mapped netlist, chosen against the same constraints OpenSTA then checks.

abc sizes for the deepest logic and knows neither the macros' clock to output nor the delays around the core. This
pass does: a timing graph in numpy (the library's tables, worst slew per net, load = pins + wire per sink), and
moves that are kept when they shorten the worst paths:

- another drive strength, judged on the cell's own delay and on what its input load costs its drivers;
- a buffer in front of the sinks of a net that can wait, or in front of all of them when the driver is too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cells import EDGES, NEVER, CellTiming
from .liberty import SramTiming
from .netlist import Cell, Netlist

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_IN = np.array([e[0] for e in EDGES])
_OUT = np.array([e[1] for e in EDGES])
_LATE = 1e9


@dataclass(frozen=True)
class Constraints:
    """Picoseconds and femtofarads: the clock, the surroundings, the macros, the wire."""

    period: float
    input_delay: float
    output_delay: float
    macro: SramTiming
    wire_ff: float


class _Library:
    """Every cell's arcs stacked in arrays, one row per (cell, input pin)."""

    def __init__(self, cells: dict[str, CellTiming]) -> None:
        self.cells = [c for c in cells.values() if c.arcs]
        self.number = {c.name: i for i, c in enumerate(self.cells)}
        self.row: dict[tuple[int, str], int] = {}
        tables, slews, loads, caps = [], [], [], []
        for i, cell in enumerate(self.cells):
            for pin, arc in cell.arcs.items():
                self.row[i, pin] = len(tables)
                tables.append(arc)
                slews.append(cell.slews)
                loads.append(cell.loads)
                caps.append(cell.caps[pin])
        self.tables, self.slews, self.loads, self.caps = (np.array(x) for x in (tables, slews, loads, caps))
        # (row, edge, slew, load) in one flat first axis, delay and slew in the second: one gather per corner.
        self.flat = np.ascontiguousarray(self.tables.transpose(0, 1, 3, 4, 2)).reshape(-1, 2)
        family: dict[tuple, list[int]] = {}
        for i, cell in enumerate(self.cells):
            if cell.function:
                family.setdefault((cell.function, cell.output, *sorted(cell.arcs)), []).append(i)
        self.family = {i: sorted(group, key=lambda k: self.cells[k].area) for group in family.values() for i in group}
        self.buffers = [i for i, c in enumerate(self.cells) if c.function in ("A", "(A)") and list(c.arcs) == ["A"]]

    def look_up(self, rows: Index, slew: Array, load: Array) -> Array:
        """Interpolate: rows (n), slew (n, 4) by edge, load (n) -> (n, 4, 2) delay and output slew."""
        xs, ys = self.slews[rows], self.loads[rows]
        n = np.arange(len(rows))
        across = xs.shape[1]
        j = np.minimum(np.maximum((ys <= load[:, None]).sum(1) - 1, 0), ys.shape[1] - 2)
        y0 = ys[n, j]
        fy = ((load - y0) / (ys[n, j + 1] - y0))[:, None, None]
        i = np.minimum(np.maximum((xs[:, None, :] <= slew[:, :, None]).sum(2) - 1, 0), across - 2)
        x0 = xs[n[:, None], i]
        fx = ((slew - x0) / (xs[n[:, None], i + 1] - x0))[:, :, None]
        at = ((rows[:, None] * 4 + np.arange(4)) * across + i) * ys.shape[1] + j[:, None]
        down = ys.shape[1]
        low, high = self.flat.take(at, 0), self.flat.take(at + down, 0)
        low += (self.flat.take(at + 1, 0) - low) * fy
        high += (self.flat.take(at + down + 1, 0) - high) * fy
        low += (high - low) * fx
        return low


class Graph:
    """Timing graph of a netlist: arrival, slew and slack of every net, by edge."""

    def __init__(self, netlist: Netlist, library: _Library, constraints: Constraints) -> None:
        self.netlist, self.library, self.constraints = netlist, library, constraints
        self.net: dict[str, int] = {}
        c = constraints
        arcs: list[tuple[int, int, int, int]] = []
        starts: list[tuple[int, float, float]] = []
        ends: list[tuple[int, float]] = []
        registers: list[tuple[int, int]] = []
        macro_load: list[tuple[int, float]] = []
        self.names, self.kind, self.output = [], [], []
        self.pins: list[list[tuple[str, int]]] = []
        of = self._of
        for bits in netlist.inputs.values():
            starts += [(of(b), c.input_delay, 0.0) for b in bits if b != "clk"]
        for name, cell in netlist.cells.items():
            if cell.type not in library.number:
                if cell.type.startswith("sram_"):
                    for pin, value in cell.pins.items():
                        nets = value if isinstance(value, list) else [value]
                        if pin == "R_DATA":
                            starts += [(of(b), c.macro.clk_to_q, 20.0) for b in nets]
                        elif pin != "CLK":
                            ends += [(of(b), c.period - c.macro.setup) for b in nets if not b.startswith("1'b")]
                            macro_load += [(of(b), 1.0) for b in nets if not b.startswith("1'b")]
                continue
            kind = library.number[cell.type]
            timing = library.cells[kind]
            me = len(self.names)
            self.names.append(name)
            self.kind.append(kind)
            out = of(cell.pins[timing.output])
            self.output.append(out)
            if timing.setup is not None:
                d = of(cell.pins["D"])
                registers.append((d, kind))
                macro_load.append((d, timing.caps["D"]))
                arcs.append((of("clk"), out, me, library.row[kind, "CLK"]))
                self.pins.append([])
            else:
                self.pins.append([(pin, of(cell.pins[pin])) for pin in timing.arcs])
                arcs += [(source, out, me, library.row[kind, pin]) for pin, source in self.pins[-1]]
        for bits in netlist.outputs.values():
            ends += [(of(b), c.period - c.output_delay) for b in bits if not b.startswith("1'b")]
        self.size = len(self.net)
        self._levels(np.array(arcs, dtype=np.int64))
        self.kind = np.array(self.kind)
        self.output = np.array(self.output)
        self.start_net = np.array([s[0] for s in starts], dtype=np.int64)
        self.start_at, self.start_slew = np.array([s[1] for s in starts]), np.array([s[2] for s in starts])
        self.end_net, self.end_at = np.array([e[0] for e in ends], dtype=np.int64), np.array([e[1] for e in ends])
        self.register_net = np.array([r[0] for r in registers], dtype=np.int64)
        self.register_kind = np.array([r[1] for r in registers], dtype=np.int64)
        self.extra = np.zeros(self.size)
        for net, cap in macro_load:
            self.extra[net] += cap + c.wire_ff
        for bits in netlist.outputs.values():
            for b in bits:
                if not b.startswith("1'b"):
                    self.extra[of(b)] += c.wire_ff
        self.clock = of("clk")

    def _of(self, name: str) -> int:
        return self.net.setdefault(name, len(self.net))

    def _levels(self, arcs: Index) -> None:
        source, target = arcs[:, 0], arcs[:, 1]
        level = np.zeros(self.size, dtype=np.int64)
        for _ in range(2000):
            new = level.copy()
            np.maximum.at(new, target, level[source] + 1)
            if (new == level).all():
                break
            level = new
        else:
            raise ValueError("the netlist has a combinational loop")
        order = np.lexsort((target, level[target]))
        arcs = arcs[order]
        self.source, self.target, self.owner, self.rows = arcs.T.copy()
        bounds = np.flatnonzero(np.diff(level[self.target], prepend=-1, append=-1))
        self.level_slices = [(a, b, np.flatnonzero(np.diff(self.target[a:b], prepend=-1)))
                             for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

    def time(self) -> float:
        """Work out arrivals, slews and slacks; returns the worst slack in picoseconds."""
        c, lib = self.constraints, self.library
        self.load = self.extra.copy()
        inner = self.source != self.clock
        np.add.at(self.load, self.source[inner], lib.caps[self.rows[inner]] + c.wire_ff)
        self.arrival = np.full((self.size, 2), NEVER)
        self.slew = np.zeros((self.size, 2))
        self.arrival[self.clock, 0] = 0.0
        self.arrival[self.start_net] = self.start_at[:, None]
        self.slew[self.start_net] = self.start_slew[:, None]
        self.delay = np.empty((len(self.rows), 4))
        self.arc_slew = np.empty((len(self.rows), 4))
        for a, b, heads in self.level_slices:
            s, t = self.source[a:b], self.target[a:b]
            found = lib.look_up(self.rows[a:b], self.slew[s][:, _IN], self.load[t])
            self.delay[a:b], self.arc_slew[a:b] = found[..., 0], found[..., 1]
            reach = self.arrival[s][:, _IN] + found[..., 0]
            nets = t[heads]
            for edge in (0, 1):
                pick = np.flatnonzero(edge == _OUT)
                self.arrival[nets, edge] = np.maximum.reduceat(reach[:, pick].max(1), heads)
                live = np.where(reach[:, pick] > NEVER / 2, found[..., 1][:, pick], 0.0)
                self.slew[nets, edge] = np.maximum.reduceat(live.max(1), heads)
        self.required = np.full((self.size, 2), _LATE)
        np.minimum.at(self.required, self.end_net, self.end_at[:, None])
        for kind in np.unique(self.register_kind):
            cell, d = lib.cells[kind], self.register_net[self.register_kind == kind]
            assert cell.setup is not None and cell.setup_slews is not None
            for edge in (0, 1):
                setup = np.interp(self.slew[d, edge], cell.setup_slews, cell.setup[edge])
                np.minimum.at(self.required[:, edge], d, c.period - setup)
        for a, b, _ in reversed(self.level_slices):
            back = np.where(self.delay[a:b] > NEVER / 2, self.required[self.target[a:b]][:, _OUT] - self.delay[a:b], _LATE)
            for edge in (0, 1):
                pick = np.flatnonzero(edge == _IN)
                np.minimum.at(self.required[:, edge], self.source[a:b], back[:, pick].min(1))
        slack = np.where(self.arrival > NEVER / 2, self.required - self.arrival, _LATE)
        slack[self.clock] = _LATE
        self.slack = slack.min(1)
        self.end_slack = self.slack[np.concatenate([self.end_net, self.register_net])]
        return float(self.slack.min())

    def slopes(self, arcs: Index) -> tuple[Array, Array]:
        """Return what one femtofarad more costs the nets these arcs drive: picoseconds of delay, of slew."""
        target = self.target[arcs]
        more = self.library.look_up(self.rows[arcs], self.slew[self.source[arcs]][:, _IN], self.load[target] + 1.0)
        live = self.delay[arcs] > NEVER / 2
        delay, slew = np.zeros(self.size), np.zeros(self.size)
        np.maximum.at(delay, target, np.where(live, more[..., 0] - self.delay[arcs], 0).max(1))
        np.maximum.at(slew, target, np.where(live, more[..., 1] - self.arc_slew[arcs], 0).max(1))
        return delay, slew

    def arc_slacks(self, arcs: Index) -> Array:
        """Return the slack of each of these arcs."""
        live = self.delay[arcs] > NEVER / 2
        slack = self.required[self.target[arcs]][:, _OUT] - self.arrival[self.source[arcs]][:, _IN] - self.delay[arcs]
        return np.where(live, slack, _LATE).min(1)

    def change(self, cells: Index, kinds: Index) -> None:
        """Give cells another drive strength."""
        lib = self.library
        for cell, kind in zip(cells.tolist(), kinds.tolist(), strict=True):
            old = lib.cells[self.kind[cell]]
            for arc in self.arcs_of(cell):
                self.rows[arc] = lib.row[kind, self._pin_of[int(self.rows[arc])]]
            self.kind[cell] = kind
            assert old.output == lib.cells[kind].output

    def arcs_of(self, cell: int) -> Index:
        """Return the arcs of a cell."""
        if not hasattr(self, "_first"):
            self._by_owner = np.argsort(self.owner, kind="stable")
            self._first = np.searchsorted(self.owner[self._by_owner], np.arange(len(self.names) + 1))
            self._pin_of = {row: pin for (_, pin), row in self.library.row.items()}
        return self._by_owner[self._first[cell] : self._first[cell + 1]]

    def store(self) -> None:
        """Write the strengths chosen back to the netlist."""
        for name, kind in zip(self.names, self.kind, strict=True):
            self.netlist.cells[name].type = self.library.cells[kind].name


#: Share of an output's slew that shows in the delay of the cells it drives.
_SLEW_COST = 0.25


def _candidates(graph: Graph, critical: Index) -> tuple[Index, Index, Array]:
    """Judge every other strength of the critical cells: (cell, kind, picoseconds won), the best kind of each."""
    lib = graph.library
    # Only the nets that feed a critical cell matter: their drivers, and everything else that hangs on them.
    mine = np.zeros(len(graph.names), dtype=bool)
    mine[critical] = True
    near = np.zeros(graph.size, dtype=bool)
    near[graph.source[mine[graph.owner]]] = True
    d_slope, s_slope = graph.slopes(np.flatnonzero(near[graph.target]))
    hanging = np.flatnonzero(near[graph.source])
    arc_slack = np.full(len(graph.rows), _LATE)
    arc_slack[hanging] = graph.arc_slacks(hanging)
    # The least and second least slack among the arcs that leave each net: what the other sinks can bear.
    order = hanging[np.lexsort((arc_slack[hanging], graph.source[hanging]))]
    source = graph.source[order]
    heads = np.flatnonzero(np.diff(source, prepend=-1))
    least, second = np.full(graph.size, _LATE), np.full(graph.size, _LATE)
    least[source[heads]] = arc_slack[order[heads]]
    more = heads[heads + 1 < len(order)]
    more = more[source[more + 1] == source[more]]
    second[source[more]] = arc_slack[order[more + 1]]

    pair_cell, pair_kind, arc_pair, arc_index, arc_row = [], [], [], [], []
    for cell in critical.tolist():
        arcs = graph.arcs_of(cell).tolist()
        for kind in lib.family.get(int(graph.kind[cell]), ()):
            if kind == graph.kind[cell]:
                continue
            pair = len(pair_cell)
            pair_cell.append(cell)
            pair_kind.append(kind)
            for arc in arcs:
                arc_pair.append(pair)
                arc_index.append(arc)
                arc_row.append(lib.row[kind, graph._pin_of[int(graph.rows[arc])]])
    if not pair_cell:
        return np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    cells, kinds = np.array(pair_cell), np.array(pair_kind)
    pair, arc, row = np.array(arc_pair), np.array(arc_index), np.array(arc_row)
    source, target = graph.source[arc], graph.target[arc]
    cost = d_slope[source] * (lib.caps[row] - lib.caps[graph.rows[arc]])
    slew = graph.slew[source][:, _IN] + (s_slope[source] * (lib.caps[row] - lib.caps[graph.rows[arc]]))[:, None]
    new = lib.look_up(row, np.maximum(slew, 1.0), graph.load[target])
    arrive = graph.arrival[source][:, _IN] + cost[:, None] + new[..., 0]
    arrive += _SLEW_COST * (new[..., 1] - graph.slew[target][:, _OUT])
    live = (new[..., 0] > NEVER / 2) & (graph.arrival[source][:, _IN] > NEVER / 2)
    own = np.where(live, graph.required[target][:, _OUT] - arrive, _LATE).min(1)
    others = np.where(arc_slack[arc] <= least[source], second[source], least[source])
    after, before = np.full(len(cells), _LATE), np.full(len(cells), _LATE)
    np.minimum.at(after, pair, np.minimum(own, others - cost))
    np.minimum.at(before, pair, np.minimum(arc_slack[arc], others))
    won = after - before
    best = np.lexsort((-won, cells))
    first = np.flatnonzero(np.diff(cells[best], prepend=-1))
    take = best[first]
    return cells[take], kinds[take], won[take]


def _resize(graph: Graph, steps: int) -> float:
    """Change strengths along the worst paths until nothing helps; returns the worst slack."""
    worst = graph.time()
    graph.arcs_of(0)
    driver = np.full(graph.size, -1)
    driver[graph.output] = np.arange(len(graph.output))
    share, tabu = 0.3, np.zeros(len(graph.names), dtype=int)

    def score() -> float:
        return float(np.sort(graph.end_slack)[:60].mean() + graph.end_slack.min())

    now = score()
    for step in range(steps):
        band = worst + (15 if step % 3 else 60)
        critical = np.flatnonzero((graph.slack[graph.output] < band) & (tabu <= step))
        cells, kinds, won = _candidates(graph, critical)
        keep = won > 0.3
        cells, kinds, won = cells[keep], kinds[keep], won[keep]
        if not len(cells):
            if step % 3 == 0:
                break
            continue
        blocked: set[int] = set()
        chosen = []
        for k in np.argsort(-won):
            cell = int(cells[k])
            if cell in blocked:
                continue
            chosen.append(k)
            arcs = graph.arcs_of(cell)
            blocked.update(driver[graph.source[arcs]].tolist())
            if len(chosen) >= max(1, int(share * len(cells))):
                break
        before = graph.kind[cells[chosen]].copy()
        graph.change(cells[chosen], kinds[chosen])
        new_worst = graph.time()
        new = score()
        if new > now:
            worst, now, share = new_worst, new, min(0.5, share * 1.3)
        else:
            graph.change(cells[chosen], before)
            worst = graph.time()
            tabu[cells[chosen]] = step + (6 if len(chosen) > 1 else 30)
            share = max(share * 0.5, 0.02)
    return worst


@dataclass
class _Sink:
    cell: str | None
    pin: str
    index: int
    slack: float
    cap: float


def _sinks(graph: Graph) -> dict[int, list[_Sink]]:
    """Return the pins that hang on each net, with their slack."""
    lib, sinks = graph.library, {}
    arc_slack = graph.arc_slacks(np.arange(len(graph.rows)))
    by_pin = {(graph.names[o], graph._pin_of[int(r)]): s
              for o, r, s in zip(graph.owner.tolist(), graph.rows.tolist(), arc_slack.tolist(), strict=True)}
    c = graph.constraints
    for name, cell in graph.netlist.cells.items():
        number = lib.number.get(cell.type)
        for pin, value in cell.pins.items():
            if pin in ("CLK", "R_DATA") or (number is not None and pin == lib.cells[number].output):
                continue
            for i, net in enumerate(value if isinstance(value, list) else [value]):
                if net.startswith("1'b") or net not in graph.net:
                    continue
                n = graph.net[net]
                if (name, pin) in by_pin:
                    slack, cap = by_pin[name, pin], lib.caps[lib.row[number, pin]]
                else:
                    setup = c.macro.setup if number is None else 25.0
                    slack, cap = c.period - setup - graph.arrival[n].max(), 1.0
                sinks.setdefault(n, []).append(_Sink(name, pin, i, slack, cap))
    for port, bits in graph.netlist.outputs.items():
        for i, net in enumerate(bits):
            if net in graph.net:
                slack = c.period - c.output_delay - graph.arrival[graph.net[net]].max()
                sinks.setdefault(graph.net[net], []).append(_Sink(None, port, i, slack, 0.0))
    return sinks


def _buffer(graph: Graph, serial: int, margin: float) -> int:
    """Buffer nets on the worst paths; returns how many buffers went in."""
    lib, wire = graph.library, graph.constraints.wire_ff
    worst = float(graph.slack.min())
    every = np.arange(len(graph.rows))
    d_slope, _ = graph.slopes(every)
    names = {n: name for name, n in graph.net.items()}
    drivers = set(graph.output.tolist())
    done = 0
    sinks = _sinks(graph)
    critical = [n for n in np.argsort(graph.slack).tolist() if graph.slack[n] < worst + margin and n in drivers]
    quick = {}
    for kind in lib.buffers:
        quick[kind] = lib.row[kind, "A"]
    for net in critical:
        group = sorted(sinks.get(net, []), key=lambda s: s.slack)
        if len(group) < 2:
            continue
        rows = np.array([quick[k] for k in lib.buffers])
        slew = np.full((len(rows), 4), graph.slew[net].max())
        best = (2.0, None, 0)
        for keep in sorted({0, 1, 2, len(group) // 2, *(i for i in range(1, len(group)) if group[i].slack > group[0].slack + 30)}):
            moved = group[keep:]
            if len(moved) < 2 and keep:
                continue
            behind = sum(s.cap for s in moved) + wire * len(moved)
            found = lib.look_up(rows, slew, np.full(len(rows), behind))[..., 0]
            delay = found.max(1)
            saved = d_slope[net] * (behind - lib.caps[rows] - wire)
            front = saved if keep else np.full(len(rows), _LATE)
            back = moved[0].slack - group[0].slack + saved - delay
            gain = np.minimum(front, back)
            k = int(gain.argmax())
            if gain[k] > best[0]:
                best = (float(gain[k]), lib.buffers[k], keep)
        if best[1] is None:
            continue
        fresh = f"fan_{serial + done}"
        done += 1
        graph.netlist.cells[f"buf_{fresh}"] = Cell(lib.cells[best[1]].name, {"A": names[net], "Y": fresh})
        for s in group[best[2]:]:
            if s.cell is None:
                graph.netlist.outputs[s.pin][s.index] = fresh
            else:
                pins = graph.netlist.cells[s.cell].pins
                value = pins[s.pin]
                if isinstance(value, list):
                    value[s.index] = fresh
                else:
                    pins[s.pin] = fresh
    return done


def optimize(netlist: Netlist, cells: dict[str, CellTiming], constraints: Constraints, steps: tuple[int, ...] = (12, 30, 40, 40),
             say: Callable[[str], None] = lambda _: None) -> float:
    """Size and buffer a netlist in place; returns the worst slack this pass sees, in picoseconds."""
    library = _Library(cells)
    serial, worst = 0, 0.0
    for turn, count in enumerate(steps):
        before = worst
        graph = Graph(netlist, library, constraints)
        worst = _resize(graph, count)
        graph.store()
        say(f"sizing round {turn + 1}: worst slack {worst / 1000:+.3f} ns, {serial} buffers")
        if turn > 1 and worst < before + 3:
            break
        if turn + 1 < len(steps):
            added = _buffer(graph, serial, 40.0 if turn else 200.0)
            serial += added
    return worst
