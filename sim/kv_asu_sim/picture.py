"""The picture of a run: frames under their patches' T-levels, hit rate and T-levels over time, what is kept hot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from vrex.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kv_asu_sim.demo import Frame

#: Frames drawn with their picture, at most.
PICTURES = 3

#: T-level 0 to 3.
COLOURS = ("#2b5c8a", "#5fb0b7", "#f2b134", "#d7263d")
#: A patch's lines are read in some layers and heads only, so its mean is seldom above this.
_HOTTEST = 2
_UNSEEN = "#c9ced6"
_INK = "#22303c"
_HEAT = LinearSegmentedColormap.from_list("tlevel", COLOURS)


def draw(
    frames: Sequence[Frame],
    patches: Mapping[int, NDArray[np.float64]],
    memory: Sequence[NDArray[np.float64]],
    trace: Path,
    path: Path,
) -> None:
    """Draw a run.

    Parameters
    ----------
    frames : sequence of Frame
    patches : mapping of frame to ndarray, shape (rows, columns)
        T-levels of each frame's own patches; empty when the trace has no geometry.
    memory : sequence of ndarray
        After each frame, the mean T-level of every frame so far.
    trace : Path
        Pictures of its frames lie beside it as ``<stem>_frame_<number>.jpg``.
    path : Path
        The PNG file to write.

    Raises
    ------
    VrexError
        The file cannot be written.
    """
    figure = Figure(figsize=(15, 9), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 12, height_ratios=(1.0, 1.08), left=0.05, right=0.955, top=0.87, bottom=0.075,
                               hspace=0.5, wspace=0.9)  # fmt: skip
    figure.text(0.05, 0.955, "KV-ASU on a real attention trace", fontsize=19, weight="bold", color=_INK)
    reads, hits = sum(frame.reads for frame in frames), sum(frame.hits for frame in frames)
    figure.text(0.05, 0.925, f"{trace.name}: {reads:,} KV line reads in {len(frames)} frames on the compiled RTL; "
                f"{hits / reads:.1%} of them found their line tracked", fontsize=11.5, color="#5a6772")  # fmt: skip
    pictures = _pictures(trace)
    shown = [number for number in pictures if number in patches] or sorted(patches)
    for column, number in enumerate(shown[-PICTURES:]):
        axes = figure.add_subplot(grid[0, 3 * column : 3 * column + 3])
        _draw_patches(axes, pictures.get(number), patches[number], number)
    if shown:
        scale = figure.colorbar(ScalarMappable(Normalize(0, _HOTTEST), _HEAT), ticks=range(_HOTTEST + 1),
                                cax=figure.add_axes((0.2, 0.532, 0.36, 0.014)), orientation="horizontal")  # fmt: skip
        scale.set_label(
            "T-level after the last read in that frame, mean over a patch's lines (not read: 0)", color="#5a6772"
        )
        scale.outline.set_visible(False)
    if memory:
        _draw_memory(figure.add_subplot(grid[0, 9:]), memory, frames)
    _draw_hit_rate(figure.add_subplot(grid[1, :6]), frames)
    _draw_tlevels(figure.add_subplot(grid[1, 6:]), frames)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format="png")


def _pictures(trace: Path) -> dict[int, Path]:
    found = trace.parent.glob(f"{trace.stem}_frame_*.jpg")
    return {int(number): path for path in sorted(found) if (number := path.stem.rsplit("_", 1)[1]).isdigit()}


def _draw_patches(axes: Axes, picture: Path | None, levels: NDArray[np.float64], number: int) -> None:
    rows, columns = levels.shape
    extent = (0, columns, rows, 0)
    if picture is not None:
        with Image.open(picture) as image:
            axes.imshow(np.asarray(image.convert("L")), cmap="gray", extent=extent)
    # The hotter a patch, the more of its colour shows.
    alpha = 0.25 + 0.45 * np.clip(levels / _HOTTEST, 0, 1)
    axes.imshow(levels, cmap=_HEAT, vmin=0, vmax=_HOTTEST, alpha=alpha, extent=extent, interpolation="nearest")
    axes.set_title(f"Frame {number}: T-level of its patches", fontsize=11.5, color=_INK)
    axes.set_anchor("N")
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_memory(axes: Axes, memory: Sequence[NDArray[np.float64]], frames: Sequence[Frame]) -> None:
    size = max(map(len, memory))
    levels = np.full((size, len(memory)), np.nan)
    for column, row in enumerate(memory):
        levels[: len(row), column] = row
    first, last = frames[0].number - 0.5, frames[-1].number + 0.5
    image = axes.imshow(levels, cmap=_HEAT, vmin=0, vmax=3, aspect="auto", origin="lower", interpolation="nearest",
                        extent=(first, last, -0.5, size - 0.5))  # fmt: skip
    axes.set_title("How hot each frame is kept", fontsize=11.5, color=_INK)
    axes.set_xlabel("after frame")
    axes.set_ylabel("KV of frame", labelpad=2)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, ticks=range(4), pad=0.03, fraction=0.06)
    bar.set_label("mean T-level")
    bar.outline.set_visible(False)
    _tidy(axes)


def _draw_hit_rate(axes: Axes, frames: Sequence[Frame]) -> None:
    numbers = [frame.number for frame in frames]
    rates = [100 * frame.hit_rate for frame in frames]
    floor = max(0.0, 10 * np.floor((np.percentile(rates, 5) - 5) / 10))
    axes.fill_between(numbers, rates, floor, color=COLOURS[1], alpha=0.25, linewidth=0)
    axes.plot(numbers, rates, color=COLOURS[0], linewidth=2.2, marker="o", markersize=3.5)
    axes.set_ylim(floor, 100.5)
    axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
    axes.set_title("KV hit rate: reads whose line was tracked", fontsize=11.5, color=_INK, loc="left")
    axes.set_xlabel("frame")
    axes.set_ylabel("%")
    axes.grid(axis="y", color="#e4e7eb")
    _tidy(axes)


def _draw_tlevels(axes: Axes, frames: Sequence[Frame]) -> None:
    numbers = [frame.number for frame in frames]
    heights = [[frame.tlevels[level] / 1000 for frame in frames] for level in (3, 2, 1, 0)]
    heights.append([(frame.reads - frame.hits) / 1000 for frame in frames])
    names = ["T-level 3", "T-level 2", "T-level 1", "T-level 0", "no slot"]
    colours = [*reversed(COLOURS), _UNSEEN]
    below = np.zeros(len(frames))
    for name, colour, height in zip(names, colours, heights, strict=True):
        axes.bar(numbers, height, bottom=below, width=0.86, color=colour, label=name)
        below += height
    axes.set_xlim(numbers[0] - 0.7, numbers[-1] + 0.7)
    axes.set_title("Reads by the T-level of their line just before", fontsize=11.5, color=_INK, loc="left")
    axes.set_xlabel("frame")
    axes.set_ylabel("thousand reads")
    axes.legend(frameon=False, loc="upper left", fontsize=9.5)
    axes.grid(axis="y", color="#e4e7eb")
    axes.set_axisbelow(True)
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9aa5b1")
    axes.tick_params(colors="#5a6772", labelsize=9.5)
    axes.xaxis.label.set_color("#5a6772")
    axes.yaxis.label.set_color("#5a6772")
