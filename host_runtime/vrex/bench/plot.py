"""Pictures of the bench's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kv_asu.installing import way_out
from vrex.bench.table import Table
from vrex.errors import VrexError
from vrex.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _BOUND, _OTHERS = "#d7263d", "#22303c", "#1b6ca8"
#: Whose names begin so: the subject of the bench.
_SUBJECT = ("V-Rex", "retrieval")
#: The tables that are drawn as bars: columns, and whether their axis is logarithmic.
_BARS = {
    "reuse": (("F1",), False),
    "latency": (("mean us", "p99 us"), True),
    "bytes": (("moved MiB a frame", "NVMe MiB a frame"), True),
    "speed": (("requests a second",), True),
}


def plot(table: Table, path: Path) -> None:
    """Draw a table into a PNG file.

    Raises
    ------
    VrexError
        matplotlib is not installed, or the file cannot be written.
    """
    figure = draw(table)
    with whole_file(path) as scratch:
        figure.savefig(scratch, format="png")


def draw(table: Table) -> Figure:
    """Draw a table of the bench.

    Raises
    ------
    VrexError
        matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise VrexError(f"the plots need matplotlib, which is not installed: {way_out('matplotlib')}") from None
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if table.name in _BARS:
        _bars(axes, table, *_BARS[table.name])
    elif table.name == "prefetch":
        _moved(axes, table)
    elif table.name == "fidelity":
        _shares(axes, table)
        axes.set(xlabel="bytes read, % of all KV bytes", ylabel="relative output error", yscale="log")
    else:
        _shares(axes, table)
        axes.set(xlabel="residency, % of all lines", ylabel="hit rate", ylim=(None, 1.005))
    axes.set(title=table.title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure


def _style(name: str) -> dict[str, Any]:
    """Ours stand out; what is a variant of ours, or of a peer's, is dashed."""
    ours = name.startswith(_SUBJECT)
    plain = name in ("V-Rex", "Belady") or not ours
    return {
        "color": _OURS if ours else _BOUND if name == "Belady" else None,
        "linewidth": 2.5 if name == "V-Rex" else 1.2,
        "linestyle": "-" if plain else "--",
        "marker": "o",
        "markersize": 3,
        "label": name,
    }


def _shares(axes: Axes, table: Table) -> None:
    """One line a row, over columns that are shares."""
    shares = [float(column.rstrip("%")) for column in table.columns[1:]]
    for name, *values in table.rows:
        if not name.startswith(("V-Rex less", "V-Rex as")):
            axes.plot(shares, values, **_style(name))


def _moved(axes: Axes, table: Table) -> None:
    """Hit rate over what it costs, a line a policy, a point a residency."""
    for name, *values in table.rows:
        if not name.startswith("V-Rex at"):
            axes.plot(values[1::2], values[0::2], **_style(name))
    axes.set(xlabel="lines moved, per line asked for", ylabel="hit rate")


def _bars(axes: Axes, table: Table, columns: tuple[str, ...], logarithmic: bool) -> None:
    """One group of bars a row, the first row on top."""
    names = [row[0] for row in table.rows]
    height = 0.8 / len(columns)
    for number, column in enumerate(columns):
        index = table.columns.index(column)
        places = [place + number * height for place in range(len(names))]
        values = [row[index] or 0.0 for row in table.rows]
        axes.barh(places, values, height=height, label=column, color=(_OTHERS, _BOUND)[number])
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(names))], names, fontsize=7)
    for label in axes.get_yticklabels():
        if label.get_text().startswith(_SUBJECT) or ", V-Rex" in label.get_text():
            label.set_color(_OURS)
    axes.invert_yaxis()
    axes.set(xscale="log" if logarithmic else "linear")
