"""Other drive strengths along the worst paths of a netlist."""

from __future__ import annotations

import numpy as np

from kv_asu.timing.cell_library import Array, Index
from kv_asu.timing.cells import NEVER
from kv_asu.timing.timing_graph import IN, LATE, OUT, Graph

#: Share of an output's slew that shows in the delay of the cells it drives.
_SLEW_COST = 0.25
#: Picoseconds below which a change is not worth trying.
_LEAST_GAIN = 0.3
#: How many ends the score looks at: all but one of them keep a step from trading many paths for the worst.
_SCORED_ENDS = 60


def resize(graph: Graph, steps: int) -> float:
    """Change strengths along the worst paths until nothing helps; returns the worst slack in picoseconds.

    Each step tries the best changes of a share of the cells at once, no two of them neighbours, and takes them back
    when the score does not improve; the share grows with success, and cells that failed rest for some steps.
    """
    worst = graph.time()
    score = _score(graph)
    share, rests_until = 0.3, np.zeros(len(graph.names), dtype=int)
    driver = np.full(graph.size, -1)
    driver[graph.output] = np.arange(len(graph.output))
    for step in range(steps):
        # Every third step looks further, at paths that a later change might make the worst.
        wide = step % 3 == 0
        band = worst + (60 if wide else 15)
        critical = np.flatnonzero((graph.slack[graph.output] < band) & (rests_until <= step))
        cells, kinds, won = _best_changes(graph, critical)
        if not len(cells):
            if wide:
                break
            continue
        chosen = _choose(graph, driver, cells, won, max(1, int(share * len(cells))))
        before = graph.kind[cells[chosen]].copy()
        graph.change(cells[chosen], kinds[chosen])
        worst = graph.time()
        if (new := _score(graph)) > score:
            score, share = new, min(0.5, share * 1.3)
        else:
            graph.change(cells[chosen], before)
            worst = graph.time()
            rests_until[cells[chosen]] = step + (6 if len(chosen) > 1 else 30)
            share = max(share * 0.5, 0.02)
    return worst


def _score(graph: Graph) -> float:
    return float(np.sort(graph.end_slack)[:_SCORED_ENDS].mean() + graph.end_slack.min())


def _choose(graph: Graph, driver: Index, cells: Index, won: Array, most: int) -> list[int]:
    """Choose changes, the best first; a cell that drives a chosen one stays, for its load is no longer what it was."""
    blocked: set[int] = set()
    chosen: list[int] = []
    for k in np.argsort(-won).tolist():
        cell = int(cells[k])
        if cell in blocked:
            continue
        chosen.append(k)
        blocked.update(driver[graph.source[graph.arcs_of(cell)]].tolist())
        if len(chosen) >= most:
            break
    return chosen


def _best_changes(graph: Graph, critical: Index) -> tuple[Index, Index, Array]:
    """Return the cells worth changing, the best kind for each, and the picoseconds won."""
    pair_cell, pair_kind, pair, arc, row = _pairs(graph, critical)
    if not len(pair_cell):
        return pair_cell, pair_kind, np.zeros(0)
    won = _gains(graph, critical, len(pair_cell), pair, arc, row)
    best = np.lexsort((-won, pair_cell))
    take = best[np.flatnonzero(np.diff(pair_cell[best], prepend=-1))]
    take = take[won[take] > _LEAST_GAIN]
    return pair_cell[take], pair_kind[take], won[take]


def _pairs(graph: Graph, critical: Index) -> tuple[Index, Index, Index, Index, Index]:
    """List the other strengths of cells: cell and kind of each pair; pair, arc and new row of each of their arcs."""
    pairs: list[tuple[int, int]] = []
    arcs: list[tuple[int, int, int]] = []
    for cell in critical.tolist():
        now = int(graph.kind[cell])
        for kind in graph.library.family.get(now, ()):
            if kind != now:
                arcs += [
                    (len(pairs), arc, graph.library.row[kind, graph.pin(arc)]) for arc in graph.arcs_of(cell).tolist()
                ]
                pairs.append((cell, kind))
    cells, kinds = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    pair, arc, row = np.array(arcs, dtype=np.int64).reshape(-1, 3).T
    return cells, kinds, pair, arc, row


def _gains(graph: Graph, critical: Index, count: int, pair: Index, arc: Index, row: Index) -> Array:
    """Judge pairs: the slack won on the cell's own arcs, or lost by what else hangs on the nets it loads."""
    library = graph.library
    # Only the nets that feed a critical cell matter: their drivers, and everything else that hangs on them.
    is_critical = np.zeros(len(graph.names), dtype=bool)
    is_critical[critical] = True
    near = np.zeros(graph.size, dtype=bool)
    near[graph.source[is_critical[graph.owner]]] = True
    delay_slope, slew_slope = graph.slopes(np.flatnonzero(near[graph.target]))
    hanging = np.flatnonzero(near[graph.source])
    arc_slack = np.full(len(graph.rows), LATE)
    arc_slack[hanging] = graph.arc_slacks(hanging)
    least, second = _two_least(graph, hanging, arc_slack)

    source, target = graph.source[arc], graph.target[arc]
    more_load = library.caps[row] - library.caps[graph.rows[arc]]
    cost = delay_slope[source] * more_load
    slew = graph.slew[source][:, IN] + (slew_slope[source] * more_load)[:, None]
    new = library.look_up(row, np.maximum(slew, 1.0), graph.load[target])
    arrival = graph.arrival[source][:, IN] + cost[:, None] + new[..., 0]
    arrival += _SLEW_COST * (new[..., 1] - graph.slew[target][:, OUT])
    live = (new[..., 0] > NEVER / 2) & (graph.arrival[source][:, IN] > NEVER / 2)
    own = np.where(live, graph.required[target][:, OUT] - arrival, LATE).min(1)
    others = np.where(arc_slack[arc] <= least[source], second[source], least[source])
    after, before = np.full(count, LATE), np.full(count, LATE)
    np.minimum.at(after, pair, np.minimum(own, others - cost))
    np.minimum.at(before, pair, np.minimum(arc_slack[arc], others))
    return after - before


def _two_least(graph: Graph, arcs: Index, arc_slack: Array) -> tuple[Array, Array]:
    """Return the least and second least slack among the arcs that leave each net: what the other sinks can bear."""
    order = arcs[np.lexsort((arc_slack[arcs], graph.source[arcs]))]
    source = graph.source[order]
    heads = np.flatnonzero(np.diff(source, prepend=-1))
    least, second = np.full(graph.size, LATE), np.full(graph.size, LATE)
    least[source[heads]] = arc_slack[order[heads]]
    next_ = heads[heads + 1 < len(order)]
    next_ = next_[source[next_ + 1] == source[next_]]
    second[source[next_]] = arc_slack[order[next_ + 1]]
    return least, second
