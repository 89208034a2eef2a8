"""The picture of a run: frames under their patches' T-levels, what stays tracked, hit rate and T-levels over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from PIL import Image

from vrex.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kv_asu_sim.demo import Frame, Replay
    from kv_asu_sim.what_if import WhatIf, WorkingSet
    from vrex.trace.format import TraceMetadata, TraceReader

#: Frames drawn with their picture, at most.
PICTURES = 3

#: T-level 0 to 3, in every panel.
COLOURS = ("#2b5c8a", "#5fb0b7", "#f2b134", "#d7263d")
_LEVELS = LinearSegmentedColormap.from_list("tlevel", COLOURS)
_SCALE = Normalize(0, 3)
#: What was not read, or has no slot: no T-level.
_NONE = "#c9ced6"
_TRACKED = LinearSegmentedColormap.from_list("tracked", ("#f3f4f6", "#3d4f6b"))
_INK, _PALE = "#22303c", "#5a6772"


def draw(replay: Replay, reader: TraceReader, chosen: WhatIf, asked: WorkingSet, path: Path) -> None:
    """Draw a run into a PNG file; the others as for `figure_of`.

    Raises
    ------
    VrexError
        The file cannot be written.
    """
    figure = figure_of(replay, reader, chosen, asked)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format="png")


def figure_of(replay: Replay, reader: TraceReader, chosen: WhatIf, asked: WorkingSet) -> Figure:
    """Draw a run.

    What a trace has not is not drawn: without a geometry there are no patches, and a trace that is all of one frame is
    drawn over its reads instead of over frames.

    Parameters
    ----------
    replay : Replay
        The run.
    reader : TraceReader
        Its trace. Pictures of its frames lie beside it as ``<stem>_frame_<number>.jpg``.
    chosen : WhatIf
        The core and its registers.
    asked : WorkingSet
        What the trace reads.
    """
    by_frame = len(replay.frames) > 1
    over_time = replay.frames if by_frame else replay.stretches
    pictures = _pictures(reader.path)
    shown = [number for number in pictures if number in replay.patches] or sorted(replay.patches)
    above = bool(shown)
    figure = Figure(figsize=(15, 8.8 if above else 5.4), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    _title(figure, replay.frames, reader, chosen, asked)
    grid = figure.add_gridspec(1 + above, 12, height_ratios=(1.0, 1.08)[: 1 + above], left=0.05, right=0.955,
                               top=0.85 if above else 0.76, bottom=0.075 if above else 0.12,
                               hspace=0.44, wspace=0.9)  # fmt: skip
    panels = [figure.add_subplot(grid[0, 3 * column : 3 * column + 3]) for column in range(min(len(shown), PICTURES))]
    for axes, number in zip(panels, shown[-PICTURES:], strict=True):
        _draw_patches(axes, pictures.get(number), replay.patches[number], number)
    if above:
        _draw_scale(figure, panels)
        if by_frame:
            _draw_memory(figure.add_subplot(grid[0, 9:]), replay.memory, replay.frames)
    _draw_hit_rate(figure.add_subplot(grid[-1, :6]), over_time, asked, by_frame)
    _draw_tlevels(figure.add_subplot(grid[-1, 6:]), over_time, by_frame)
    return figure


def _title(figure: Figure, frames: Sequence[Frame], reader: TraceReader, chosen: WhatIf, asked: WorkingSet) -> None:
    reads, hits = sum(frame.reads for frame in frames), sum(frame.hits for frame in frames)
    slots = chosen.params.entries
    asked_of = (
        f"{len(reader):,} KV line reads{f' in {len(frames)} frames' if len(frames) > 1 else ''} on the compiled RTL; "
        f"{slots:,} slots for {asked.granules:,} granules of {_size(chosen.granule_bytes)} "
        f"({min(1, slots / asked.granules):.0%})"
    )
    came_out = (
        f"{hits / reads:.1%} of the reads found their line tracked; with a slot for everything it would be "
        f"{asked.always_tracked:.1%}"
    )
    height = figure.get_figheight()
    figure.text(0.05, 1 - 0.42 / height, _subject(reader.metadata, reader.path), fontsize=19, weight="bold", color=_INK)
    figure.text(0.05, 1 - 0.70 / height, asked_of, fontsize=11.5, color=_PALE)
    figure.text(0.05, 1 - 0.94 / height, came_out, fontsize=11.5, color=_PALE)


def _subject(metadata: TraceMetadata, path: Path) -> str:
    """What the trace says it is of."""
    made = metadata.made
    if "clip" in made:
        model = str(made.get("model", "")).partition(":")[2].strip()
        return f"KV-ASU on {made['clip']}" + (f", attention of {model}" if model else "")
    return f"KV-ASU on {made.get('imported', path.name)}"


def _size(bytes_: int) -> str:
    return f"{bytes_ >> 10} KiB" if bytes_ >= 1024 else f"{bytes_} bytes"


def _pictures(trace: Path) -> dict[int, Path]:
    found = trace.parent.glob(f"{trace.stem}_frame_*.jpg")
    return {int(number): path for path in sorted(found) if (number := path.stem.rsplit("_", 1)[1]).isdigit()}


def _draw_patches(axes: Axes, picture: Path | None, levels: NDArray[np.float64], number: int) -> None:
    rows, columns = levels.shape
    extent = (0, columns, rows, 0)
    if picture is not None:
        with Image.open(picture) as image:
            axes.imshow(np.asarray(image.convert("L")), cmap="gray", extent=extent)
    colours = _LEVELS(_SCALE(np.nan_to_num(levels)))
    colours[np.isnan(levels)] = (*(int(_NONE[at : at + 2], 16) / 255 for at in (1, 3, 5)), 1)
    colours[..., 3] = 0.55 if picture is not None else 1  # the picture shows through
    axes.imshow(colours, extent=extent, interpolation="nearest")
    axes.set_title(f"Frame {number}: T-level of its patches", fontsize=11.5, color=_INK)
    axes.set_anchor("N")
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_scale(figure: Figure, panels: Sequence[Axes]) -> None:
    """The one scale of T-levels, below the patches."""
    for panel in panels:
        panel.apply_aspect()
    left, right = panels[0].get_position(), panels[-1].get_position()
    axes = figure.add_axes((left.x0, left.y0 - 0.03, 0.7 * (right.x1 - left.x0), 0.014))
    scale = figure.colorbar(ScalarMappable(_SCALE, _LEVELS), ticks=range(4), cax=axes, orientation="horizontal")
    scale.set_label("T-level after a patch's last read, mean over the layers and heads that read it", color=_PALE)
    scale.outline.set_visible(False)
    axes.legend(
        handles=[Patch(color=_NONE, label="not read")], loc="center left", bbox_to_anchor=(1.02, 0.4), frameon=False,
        fontsize=9.5,
    )  # fmt: skip


def _draw_memory(axes: Axes, memory: Sequence[NDArray[np.float64]], frames: Sequence[Frame]) -> None:
    size = max(map(len, memory))
    shares = np.full((size, len(memory)), np.nan)
    for column, row in enumerate(memory):
        shares[: len(row), column] = 100 * row
    first, last = frames[0].number - 0.5, frames[-1].number + 0.5
    image = axes.imshow(shares, cmap=_TRACKED, vmin=0, vmax=100, aspect="auto", origin="lower",
                        interpolation="nearest", extent=(first, last, -0.5, size - 0.5))  # fmt: skip
    axes.set_title("What stays tracked of each frame", fontsize=11.5, color=_INK)
    axes.set_xlabel("after frame")
    axes.set_ylabel("KV of frame", labelpad=2)
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, ticks=(0, 50, 100), pad=0.03, fraction=0.06)
    bar.set_label("% of its lines", labelpad=-6)
    bar.outline.set_visible(False)
    _tidy(axes)


def _where(over_time: Sequence[Frame], by_frame: bool) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Middles and widths of what is drawn over time, and what they count."""
    if by_frame:
        return np.array([frame.number for frame in over_time], float), np.ones(len(over_time)), "frame"
    widths = np.array([frame.reads for frame in over_time]) / 1000
    return np.cumsum(widths) - widths / 2, widths, "thousand reads since the beginning"


def _draw_hit_rate(axes: Axes, over_time: Sequence[Frame], asked: WorkingSet, by_frame: bool) -> None:
    at, width, unit = _where(over_time, by_frame)
    rates = [100 * frame.hit_rate for frame in over_time]
    axes.fill_between(at, rates, 0, color=COLOURS[1], alpha=0.25, linewidth=0)
    axes.plot(at, rates, color=COLOURS[0], linewidth=2.2, marker="o", markersize=3.5, label="this core")
    axes.axhline(100 * asked.always_tracked, color=_INK, linewidth=1.2, linestyle=(0, (4, 3)),
                 label="a slot for everything, whole trace")  # fmt: skip
    axes.set_ylim(0, 103)
    axes.set_xlim(at[0] - width[0] / 2, at[-1] + width[-1] / 2)
    axes.set_title("KV hit rate: reads whose line was tracked", fontsize=11.5, color=_INK, loc="left")
    axes.set_xlabel(unit)
    axes.set_ylabel("%")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.grid(axis="y", color="#e4e7eb")
    axes.set_axisbelow(True)
    _tidy(axes)


def _draw_tlevels(axes: Axes, over_time: Sequence[Frame], by_frame: bool) -> None:
    at, width, unit = _where(over_time, by_frame)
    heights = [[frame.tlevels[level] / 1000 for frame in over_time] for level in (3, 2, 1, 0)]
    heights.append([(frame.reads - frame.hits) / 1000 for frame in over_time])
    names = ["T-level 3", "T-level 2", "T-level 1", "T-level 0: cold", "not tracked"]
    colours = [*reversed(COLOURS), _NONE]
    below = np.zeros(len(over_time))
    for name, colour, height in zip(names, colours, heights, strict=True):
        axes.bar(at, height, bottom=below, width=0.86 * width, color=colour, label=name)
        below += height
    axes.set_xlim(at[0] - 0.7 * width[0], at[-1] + 0.7 * width[-1])
    axes.set_ylim(0, (1.02 if by_frame else 1.45) * float(below.max()))  # reads a frame grow, and leave the legend room
    axes.set_title("Reads by the T-level of their line just before", fontsize=11.5, color=_INK, loc="left")
    axes.set_xlabel(unit)
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
    axes.tick_params(colors=_PALE, labelsize=9.5)
    axes.xaxis.label.set_color(_PALE)
    axes.yaxis.label.set_color(_PALE)
