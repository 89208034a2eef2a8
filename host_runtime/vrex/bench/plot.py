"""Pictures of the bench's tables."""

from __future__ import annotations

from pathlib import Path

from kv_asu.installing import way_out
from vrex.bench.table import Table
from vrex.errors import VrexError
from vrex.files import whole_file

_OURS, _BOUND = "#d7263d", "#22303c"


def plot(table: Table, path: Path) -> None:
    """Draw a table whose columns, but the first, are residencies: one line a policy.

    Raises
    ------
    VrexError
        matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise VrexError(f"the plots need matplotlib, which is not installed: {way_out('matplotlib')}") from None
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shares = [float(column.rstrip("%")) for column in table.columns[1:]]
    for name, *rates in table.rows:
        if name.startswith(("V-Rex less", "V-Rex as")):
            continue
        ours = "V-Rex" in name
        axes.plot(
            shares,
            rates,
            color=_OURS if ours else _BOUND if name == "Belady" else None,
            linewidth=2.5 if name == "V-Rex" else 1.2,
            linestyle="-" if name in ("V-Rex", "Belady") else "--" if ours else "-",
            marker="o",
            markersize=3,
            label=name,
        )
    axes.set(xlabel="residency, % of all lines", ylabel="hit rate", title=table.title, ylim=(None, 1.005))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    with whole_file(path) as scratch:
        figure.savefig(scratch, format="png")
