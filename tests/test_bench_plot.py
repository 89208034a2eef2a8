"""Pictures of the bench's tables: each row is drawn, with its own figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import Rectangle

from vrex.bench.plot import draw, plot
from vrex.bench.table import Table
from vrex.errors import VrexError


def table(name: str, columns: tuple[str, ...], *rows: tuple[object, ...]) -> Table:
    return Table(name, f"Title of {name}", "definition", columns, list(rows))


HIT_RATE = table(
    "hit-rate", ("policy", "5%", "20%"),
    ("V-Rex", 0.7, 0.98), ("V-Rex without lstm", 0.6, 0.9), ("LRU", 0.5, 0.96), ("Belady", 0.8, 1.0),
    ("V-Rex less best online peer", 0.2, 0.02), ("V-Rex as a share of Belady", 0.9, 0.98),
)  # fmt: skip


def test_shares() -> None:
    (axes,) = draw(HIT_RATE).axes
    drawn = {str(line.get_label()): line for line in axes.lines}
    assert list(drawn) == ["V-Rex", "V-Rex without lstm", "LRU", "Belady"]
    for name, *values in HIT_RATE.rows[:4]:
        assert np.asarray(drawn[name].get_xdata()).tolist() == [5, 20]
        assert np.asarray(drawn[name].get_ydata()).tolist() == values
    assert same_color(drawn["V-Rex"].get_color(), drawn["V-Rex without lstm"].get_color())
    assert not same_color(drawn["V-Rex"].get_color(), drawn["LRU"].get_color())
    assert axes.get_title() == "Title of hit-rate"


def test_fidelity() -> None:
    (axes,) = draw(
        table("fidelity", ("method", "5%", "31%"), ("retrieval, exact", 0.5, 0.1), ("INT4", 0.03, 0.03))
    ).axes
    assert [np.asarray(line.get_ydata()).tolist() for line in axes.lines] == [[0.5, 0.1], [0.03, 0.03]]
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "relative output error"


def test_prefetch() -> None:
    columns = ("policy", "10% hit rate", "10% moved", "15% hit rate", "15% moved")
    rows = ("V-Rex", 0.87, 0.12, 0.96, 0.04), ("V-Rex at the best peer's bytes", 0.9, 0.1, 0.9, 0.1)
    (axes,) = draw(table("prefetch", columns, *rows)).axes
    (line,) = axes.lines
    assert np.asarray(line.get_xdata()).tolist() == [0.12, 0.04]
    assert np.asarray(line.get_ydata()).tolist() == [0.87, 0.96]


@pytest.mark.parametrize(
    ("name", "columns", "row", "expected"),
    [
        ("reuse", ("predictor", "accuracy", "precision", "recall", "F1"), (0.9, None, 0.7, 0.8), [0.8]),
        ("latency", ("far memory, way", "mean us", "p50 us", "p99 us"), (4.5, 2.0, 30.0), [4.5, 30.0]),
        ("bytes", ("what", "moved MiB a frame", "NVMe MiB a frame", "useful"), (1.4, 12.0, None), [1.4, 12.0]),
        ("speed", ("what", "requests a second"), (1_000_000,), [1_000_000]),
    ],
)
def test_bars(name: str, columns: tuple[str, ...], row: tuple[object, ...], expected: list[float]) -> None:
    (axes,) = draw(table(name, columns, ("V-Rex", *row), ("other", *row))).axes
    assert [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)] == [
        value for value in expected for _ in range(2)
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["V-Rex", "other"]
    assert axes.yaxis_inverted()  # the first row on top


def test_the_file(tmp_path: Path) -> None:
    plot(HIT_RATE, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(VrexError, match="cannot be written"):
        plot(HIT_RATE, tmp_path / "plot.png" / "inside")
