"""Small traces with a geometry, made up: what a kernel reads over a few frames of a model with few layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vrex.trace.address_map import AddressMap, PatchGrid
from vrex.trace.format import Geometry, TraceMetadata, write_trace

GRID = PatchGrid(rows=4, columns=4, leading=1)
FRAME_NS = 40_000_000


def write_stream(
    path: Path,
    seed: int,
    *,
    frames: int = 6,
    layers: int = 2,
    heads: int = 2,
    tiles: int = 3,
    head_size: int = 64,
    still: float = 0.8,
    made: dict[str, Any] | None = None,
) -> Path:
    """A trace whose tiles read about a quarter of the past; a share of it, `still`, again and again."""
    rng = np.random.default_rng(seed)
    per_frame = GRID.tokens_per_frame
    kv = AddressMap(layers, heads, head_size, max_tokens=frames * per_frame)
    liked = rng.random((layers, heads, tiles, kv.max_tokens)) < 0.25
    with write_trace(path, TraceMetadata(f"made up, seed {seed}", Geometry(kv, GRID), made or {})) as writer:
        for frame in range(frames):
            time_ns = frame * FRAME_NS
            for layer in range(layers):
                for head in range(heads):
                    for tile in range(tiles):
                        tokens = _tokens(rng, liked[layer, head, tile], (frame + 1) * per_frame, still)
                        lines = np.unique(kv.lines(layer, head, tokens))
                        times = time_ns + 3 * np.arange(len(lines), dtype=np.uint64)
                        writer.append(frame, layer, head, tile, lines, times)
                        time_ns = int(times[-1]) + 1000
    return path


def _tokens(rng: np.random.Generator, liked: npt.NDArray[np.bool_], past: int, still: float) -> npt.NDArray[np.int64]:
    chance = rng.random(past) < 0.25
    read = np.where(rng.random(past) < still, liked[:past], chance)
    read[past - 1] = True  # never nothing
    return np.flatnonzero(read)
