"""The picture of a run: what is in it, and that one colour means one thing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from kv_asu.params import Params
from kv_asu_firmware.golden import Settings
from kv_asu_sim import picture
from kv_asu_sim.demo import Frame
from kv_asu_sim.heat import FrameHeat
from kv_asu_sim.what_if import WhatIf, WorkingSet
from made_clips import scene, window, write_clip
from small_streams import write_stream
from vrex.trace.address_map import AddressMap, PatchGrid
from vrex.trace.format import Chunk, Geometry, TraceMetadata

EXAMPLES = Path(__file__).parents[1] / "examples"

CHOSEN = WhatIf(Params.asic(), Settings(11, line_shift=12), 18, 16, 7)
ASKED = WorkingSet(reads=1000, granules=40, most_in_a_frame=30, span_ns=10**9)


def frames(count: int) -> list[Frame]:
    return [Frame(number, reads=100, hits=60, tlevels=[10, 20, 20, 10]) for number in range(count)]


def drawn(metadata: TraceMetadata, *, patches: dict[int, Any] | None = None, count: int = 4) -> Figure:
    stretches = frames(3)
    stretches[-1] = Frame(2, reads=50, hits=50, tlevels=[0, 0, 0, 50])
    replay = SimpleNamespace(frames=frames(count), patches=patches or {}, stretches=stretches,
                             memory=[np.full(number + 1, 0.5) for number in range(count)])  # fmt: skip

    class Reader:
        path = Path("some") / "clip.parquet"

        def __len__(self) -> int:
            return 1000

    reader = Reader()
    reader.metadata = metadata  # type: ignore[attr-defined]
    return picture.figure_of(cast(Any, replay), cast(Any, reader), CHOSEN, ASKED)


def titles(figure: Figure) -> list[str]:
    return [title for axes in figure.axes for side in ("left", "center") if (title := axes.get_title(loc=side))]


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def test_a_trace_of_a_clip() -> None:
    levels = np.array([[0.0, 1.0], [3.0, np.nan]])
    metadata = TraceMetadata("x", None, {"clip": "bikes.mp4", "model": "vit.onnx of a package: DINOv2 ViT-S/14"})
    figure = drawn(metadata, patches={1: levels, 3: levels})
    assert titles(figure)[:2] == ["Frame 1: T-level of its patches", "Frame 3: T-level of its patches"]
    assert len(titles(figure)) == 5
    said = texts(figure)
    assert said.startswith("KV-ASU on bikes.mp4, attention of DINOv2 ViT-S/14\n")
    assert "2,048 slots for 40 granules of 4 KiB (100%)" in said
    assert "60.0% of the reads found their line tracked; with a slot for everything it would be 96.0%" in said


def test_one_colour_means_one_level_and_none_means_not_read() -> None:
    levels = np.array([[0.0, 1.0], [3.0, np.nan]])
    figure = drawn(TraceMetadata("x"), patches={1: levels})
    shown = np.asarray(figure.axes[0].get_images()[0].get_array())[..., :3]
    for place, colour in (((0, 0), picture.COLOURS[0]), ((0, 1), picture.COLOURS[1]), ((1, 0), picture.COLOURS[3])):
        assert shown[place] == pytest.approx(to_rgb(colour), abs=0.01)
    assert shown[1, 1] == pytest.approx(to_rgb(picture._NONE), abs=0.01)
    bars = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("Reads by"))
    by_label = {container.get_label(): container.patches[0].get_facecolor()[:3] for container in bars.containers}  # type: ignore[attr-defined]
    assert by_label["T-level 3"] == pytest.approx(to_rgb(picture.COLOURS[3]))
    assert by_label["T-level 0: cold"] == pytest.approx(to_rgb(picture.COLOURS[0]))
    assert by_label["not tracked"] == pytest.approx(to_rgb(picture._NONE))


def test_the_hit_rate_stands_on_nothing() -> None:
    axes = next(axes for axes in drawn(TraceMetadata("x")).axes if axes.get_title(loc="left").startswith("KV hit"))
    assert axes.get_ylim()[0] == 0
    assert np.asarray(axes.get_lines()[1].get_ydata()) == pytest.approx([96, 96])


def test_an_imported_trace_has_no_empty_panels() -> None:
    """It is all of one frame, whose number says nothing: drawn over its reads."""
    figure = drawn(TraceMetadata("x", None, {"imported": "w01.oracleGeneral.zst"}), count=1)
    assert [title.split()[0] for title in titles(figure)] == ["KV", "Reads"]
    assert texts(figure).startswith("KV-ASU on w01.oracleGeneral.zst\n")
    assert "frames" not in texts(figure)
    line = figure.axes[0].get_lines()[0]
    assert np.asarray(line.get_xdata()).tolist() == pytest.approx([0.05, 0.15, 0.225])
    assert np.asarray(line.get_ydata()).tolist() == [60, 60, 100]


def test_patches_that_nobody_read_have_no_level() -> None:
    grid = PatchGrid(rows=2, columns=2, leading=1)
    kv = AddressMap(layers=1, heads=2, head_size=64, max_tokens=50)
    heat = FrameHeat(Geometry(kv, grid))

    def read(head: int, token: int, level: int) -> None:
        line = np.array([int(kv.address(0, head, token)) >> 8], np.uint64)
        zero = np.zeros(1, np.uint16)
        tags = np.array([(level,)], np.dtype([("tag_after", "u1")]))
        heat.add(Chunk(zero.astype(np.uint32), zero, zero, zero, line, line), tags)

    read(0, 1, 2)
    read(0, 1, 3)
    read(1, 1, 1)
    read(0, 4, 0)
    assert heat.patches() == pytest.approx(np.array([[2, np.nan], [np.nan, 0]]), nan_ok=True)
    assert np.isnan(heat.patches()).all()


def test_pictures_of_a_clip_are_those_the_demo_looks_for(tmp_path: Path) -> None:
    pytest.importorskip("av")
    trace = write_stream(tmp_path / "own.parquet", 1, frames=6)
    clip = write_clip(tmp_path / "own.mp4", [window(scene(1), 9 * frame, 0) for frame in range(6)])
    command = [sys.executable, str(EXAMPLES / "traces" / "make_pictures.py"), str(trace), str(clip)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    found = picture._pictures(trace)
    assert list(found) == [1, 3, 5]  # the last of each third
    assert done.stdout.splitlines() == [str(path) for path in found.values()]
    shown = [np.asarray(Image.open(path).convert("L"), dtype=int) for path in found.values()]
    assert {image.shape for image in shown} == {(224, 224)}
    still = 0.3 * shown[0].std()
    for former, later in zip(shown, shown[1:], strict=False):
        moved = round(18 * 224 / 144)  # rows, two frames on
        assert abs(former[moved:] - later[:-moved]).mean() < still < abs(former - later).mean()
