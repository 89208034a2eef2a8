"""Buffers on the nets of a netlist's worst paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kv_asu.timing.liberty import SRAM_PIN_FF
from kv_asu.timing.netlist import Cell, is_constant
from kv_asu.timing.timing_graph import LATE, Graph

#: Picoseconds a buffer has to win.
_LEAST_GAIN = 2.0
#: Picoseconds by which sinks have to be better off than the worst one to be a group that can wait.
_APART = 30.0
#: Setup of a register, as far as it matters for the order of a net's sinks.
_ABOUT_SETUP = 25.0


@dataclass(frozen=True)
class _Sink:
    """One pin, or one bit of an output port (``cell`` is None), on a net."""

    cell: str | None
    pin: str
    index: int
    slack: float
    cap: float


@dataclass(frozen=True)
class _Plan:
    """A buffer of a kind in front of the sinks from place ``keep`` on, and the picoseconds it wins."""

    gain: float
    kind: int
    keep: int


def insert_buffers(graph: Graph, serial: int, margin: float) -> int:
    """Buffer nets whose slack is within ``margin`` picoseconds of the worst.

    The graph is no longer the netlist's afterwards.

    Parameters
    ----------
    serial : int
        Number of the first buffer, for its name.

    Returns
    -------
    int
        How many buffers went in.
    """
    limit = float(graph.slack.min()) + margin
    delay_slope, _ = graph.slopes(np.arange(len(graph.rows)))
    names = {number: name for name, number in graph.net.items()}
    driven = set(graph.output.tolist())
    sinks = _sinks(graph)
    count = 0
    for net in np.argsort(graph.slack).tolist():
        if graph.slack[net] >= limit:
            break
        if net not in driven:
            continue
        group = sorted(sinks.get(net, []), key=lambda sink: sink.slack)
        plan = _plan(graph, net, group, float(delay_slope[net]))
        if plan is not None:
            _insert(graph, plan, group[plan.keep :], names[net], f"fan_{serial + count}")
            count += 1
    return count


def _plan(graph: Graph, net: int, group: list[_Sink], delay_slope: float) -> _Plan | None:
    """Find the best buffer for a net: for all of its sinks, or for those that can wait."""
    if len(group) < 2:
        return None
    library, wire = graph.library, graph.wire_ff
    rows = np.array([library.row[kind, "A"] for kind in library.buffers])
    slew = np.full((len(rows), 4), graph.slew[net].max())
    best = None
    for keep in _splits(group):
        moved = group[keep:]
        behind = sum(sink.cap for sink in moved) + wire * len(moved)
        delay = library.look_up(rows, slew, np.full(len(rows), behind))[..., 0].max(1)
        saved = delay_slope * (behind - library.caps[rows] - wire)
        front = saved if keep else np.full(len(rows), LATE)
        gain = np.minimum(front, moved[0].slack - group[0].slack + saved - delay)
        at = int(gain.argmax())
        if gain[at] > (best.gain if best else _LEAST_GAIN):
            best = _Plan(float(gain[at]), library.buffers[at], keep)
    return best


def _splits(group: list[_Sink]) -> list[int]:
    """Return how many of the worst sinks may stay in front of the buffer; behind it are two or more, or all."""
    apart = (i for i in range(1, len(group)) if group[i].slack > group[0].slack + _APART)
    return [keep for keep in sorted({0, 1, 2, len(group) // 2, *apart}) if not keep or len(group) - keep >= 2]


def _insert(graph: Graph, plan: _Plan, moved: list[_Sink], net: str, fresh: str) -> None:
    netlist = graph.netlist
    netlist.cells[f"buf_{fresh}"] = Cell(graph.library.cells[plan.kind].name, {"A": net, "Y": fresh})
    for sink in moved:
        if sink.cell is None:
            netlist.outputs[sink.pin][sink.index] = fresh
        else:
            netlist.cells[sink.cell].connect(sink.pin, sink.index, fresh)


def _sinks(graph: Graph) -> dict[int, list[_Sink]]:
    """Return what hangs on each net."""
    sinks: dict[int, list[_Sink]] = {}
    _gate_sinks(graph, sinks)
    _end_sinks(graph, sinks)
    for port, bits in graph.netlist.outputs.items():
        for i, name in enumerate(bits):
            if not is_constant(name):
                net = graph.net[name]
                slack = graph.output_required - graph.arrival[net].max()
                sinks.setdefault(net, []).append(_Sink(None, port, i, slack, 0.0))
    return sinks


def _gate_sinks(graph: Graph, sinks: dict[int, list[_Sink]]) -> None:
    slacks = graph.arc_slacks(np.arange(len(graph.rows)))
    for arc, (net, owner, row) in enumerate(zip(graph.source.tolist(), graph.owner, graph.rows, strict=True)):
        if net != graph.clock:
            sink = _Sink(graph.names[owner], graph.pin(arc), 0, float(slacks[arc]), float(graph.library.caps[row]))
            sinks.setdefault(net, []).append(sink)


def _end_sinks(graph: Graph, sinks: dict[int, list[_Sink]]) -> None:
    for name, cell in graph.netlist.cells.items():
        if cell.is_macro:
            pins, setup = [pin for pin in cell.pins if pin not in ("CLK", "R_DATA")], graph.macro.setup
        elif cell.is_register:
            pins, setup = ["D"], _ABOUT_SETUP
        else:
            continue
        for pin in pins:
            for i, bit in enumerate(cell.nets(pin)):
                if not is_constant(bit):
                    net = graph.net[bit]
                    slack = graph.period - setup - graph.arrival[net].max()
                    sinks.setdefault(net, []).append(_Sink(name, pin, i, slack, SRAM_PIN_FF))
