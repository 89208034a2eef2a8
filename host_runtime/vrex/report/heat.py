"""How hot each patch of each frame is, as the stream goes on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vrex.runtime.cache import DynamicRetrievalCache
from vrex.trace.address_map import PatchGrid

#: T-level 3 in the recorded bytes; the mean of levels is between.
FULL_SCALE = 255
_TOP = 3


class HeatMap:
    """T-levels of the frames' patches, asked for at the query port at each frame's end.

    Of each patch, the mean over all (layer, head)s of its KV.

    Parameters
    ----------
    cache : DynamicRetrievalCache
    grid : PatchGrid
    depth : int
        Frames that are looked back on: so much later a frame is looked at for the last time.

    Attributes
    ----------
    frames : list of int
        Frames at whose end was looked.
    """

    def __init__(self, cache: DynamicRetrievalCache, grid: PatchGrid, depth: int) -> None:
        self._cache = cache
        self._grid = grid
        self.depth = depth
        self.frames: list[int] = []
        self._looks: list[npt.NDArray[np.uint8]] = []

    def look(self, frame: int) -> None:
        """A frame has ended."""
        cache, per_frame = self._cache, self._grid.tokens_per_frame
        held = min(cache.tokens(layer) for layer in range(cache.kv.layers))
        first = max(0, frame + 1 - self.depth) * per_frame
        count = min((frame + 1) * per_frame, held) // per_frame * per_frame - first
        heat = np.zeros((self.depth, self._grid.rows * self._grid.columns), np.uint8)
        if count > 0:
            total = np.zeros(count, np.int64)
            for layer in range(cache.kv.layers):
                for head in range(cache.kv.heads):
                    total += cache.tlevels(layer, head, first, count)
            mean = FULL_SCALE * total / (_TOP * cache.kv.layers * cache.kv.heads)
            by_frame = mean.round().astype(np.uint8).reshape(-1, per_frame)[:, self._grid.leading :]
            newest = frame - (first + count) // per_frame + 1  # 0, or 1 and more where the stream's last frame is cut
            heat[newest : newest + len(by_frame)] = by_frame[::-1]
        self.frames.append(frame)
        self._looks.append(heat)

    def bytes(self) -> bytes:
        """By the frame at whose end it was, by how many frames a frame lay back, by patch; 255 is T3 everywhere."""
        return b"".join(look.tobytes() for look in self._looks)
