"""A sweep's results as a table, as files, and as a picture."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kv_asu.params import LINE_BITS
from vrex.bench.table import Table
from vrex.files import whole_file
from vrex.sweep.measure import Result
from vrex.sweep.points import Point

DEFINITION = (
    "Hit rate: the share of the lines asked for that were resident when their tile asked; the others were moved. "
    "Residency is a share of all lines born by the stream's end; lines are resident at birth. Motion: whether the "
    "policy's LSTM was told of the clip's."
)

#: A point and its result, by columns: registers by their names, residency and hit rate as shares.
Record = dict[str, Any]

#: What tells points apart for people, but the residency. Counts are those of one line, as `--counts` takes them.
_AXES = ("trace", "policy", "transport", "slots", "LINE_SHIFT", "TICK_SHIFT", "counts", "ages")
#: What a picture may have across.
_NUMERIC = ("residency", "slots", "LINE_SHIFT", "TICK_SHIFT")


def record(name: str, point: Point, result: Result) -> Record:
    """A point and its result; `name` is the trace's."""
    settings = point.settings
    t3_age, t2_age, t1_age = settings.ages
    return {
        "trace": name,
        "policy": point.policy,
        "transport": point.transport,
        "slots": 1 << point.log2_entries,
        "LINE_SHIFT": settings.line_shift,
        "TICK_SHIFT": settings.tick_shift,
        "T3.COUNT": settings.t3_count,
        "T2.COUNT": settings.t2_count,
        "T3.AGE": t3_age,
        "T2.AGE": t2_age,
        "T1.AGE": t1_age,
        "residency": point.residency,
        "motion": point.motion is not None,
        "reads": result.reads,
        "hits": result.hits,
        "hit_rate": result.hits / result.reads,
    }


def table(records: Sequence[Record]) -> Table:
    """A row a setting, a column a residency; what is the same everywhere stands below."""
    places = [_place(each) for each in records]
    varied = _varying(places)
    residencies = sorted({each["residency"] for each in records})
    rows: dict[tuple[str, ...], dict[float, float]] = {}
    for each, place in zip(records, places, strict=True):
        rows.setdefault(tuple(place[axis] for axis in varied), {})[each["residency"]] = each["hit_rate"]
    same = ", ".join(f"{axis} {places[0][axis]}" for axis in _AXES if axis not in varied)
    columns = (*(varied or ["trace"]), *(f"{residency:.3g}" for residency in residencies))
    shown = Table("sweep", "Hit rate by residency", f"{DEFINITION} Everywhere: {same}.", columns)
    shown.rows = [(*(key or (places[0]["trace"],)), *map(rates.get, residencies)) for key, rates in rows.items()]
    return shown


def best(records: Sequence[Record]) -> list[str]:
    """Of each trace and residency, the best hit rate and where it was reached, in words."""
    varied = [axis for axis in _varying([_place(each) for each in records]) if axis != "trace"]
    found: dict[tuple[str, float], Record] = {}
    for each in records:
        group = each["trace"], each["residency"]
        if group not in found or each["hit_rate"] > found[group]["hit_rate"]:
            found[group] = each
    return [
        f"best on {trace} at {residency:.3g}: {each['hit_rate']:.4f}"
        + (f", {_in_words(each, varied)}" if varied else "")
        for (trace, residency), each in found.items()
    ]


def write_files(records: Sequence[Record], folder: Path) -> None:
    """Write sweep.json, sweep.csv and sweep.parquet, each with a row a point."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with whole_file(folder / "sweep.json") as scratch:
        scratch.write_text(json.dumps({"definition": DEFINITION, "points": list(records)}, indent=2) + "\n")
    with whole_file(folder / "sweep.csv") as scratch, open(scratch, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    with whole_file(folder / "sweep.parquet") as scratch:
        pq.write_table(pa.Table.from_pylist(list(records)), scratch)


def plot(records: Sequence[Record], path: Path) -> None:
    """Draw hit rate over the number of most values, a panel a trace, a line for all that differs else."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = max(_NUMERIC, key=lambda axis: len({each[axis] for each in records}))
    varied = _varying([_place(each) for each in records])
    told = [axis for axis in (*varied, "residency") if axis not in (across, "trace")]
    panels: dict[str, dict[str, list[Record]]] = {}
    for each in records:
        panels.setdefault(each["trace"], {}).setdefault(_in_words(each, told), []).append(each)
    figure = Figure(figsize=(max(8, 5 * len(panels)), 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    drawn = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (trace, lines) in zip(drawn, panels.items(), strict=True):
        for words, line in lines.items():
            line = sorted(line, key=lambda each: each[across])
            x, y = ([each[name] for each in line] for name in (across, "hit_rate"))
            axes.plot(x, y, marker="o", markersize=3, linewidth=1.2, label=words)
        axes.set(xlabel=across, title=trace)
        axes.grid(alpha=0.3)
        if told:
            axes.legend(fontsize=6)
    drawn[0].set(ylabel="hit rate")
    with whole_file(path) as scratch:
        figure.savefig(scratch, format="png")


def _place(each: Record) -> dict[str, str]:
    """A record's place on the axes, as text."""
    lines = each["LINE_SHIFT"] - LINE_BITS
    return {
        **{axis: str(each[axis]) for axis in _AXES[:3]},
        **{axis: f"{each[axis]:,}" for axis in _AXES[3:6]},
        "counts": f"{each['T3.COUNT'] >> lines}/{each['T2.COUNT'] >> lines}",
        "ages": f"{each['T3.AGE']}/{each['T2.AGE']}/{each['T1.AGE']}",
    }


def _varying(places: Sequence[dict[str, str]]) -> list[str]:
    return [axis for axis in _AXES if len({place[axis] for place in places}) > 1]


def _in_words(each: Record, axes: Sequence[str]) -> str:
    place = {**_place(each), "residency": f"{each['residency']:.3g}"}
    return ", ".join(place[axis] if axis in ("policy", "transport") else f"{axis} {place[axis]}" for axis in axes)
