"""How hot the core finds a video's frames: T-levels gathered by patch and by frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vrex.trace.format import Chunk, Geometry, TraceError

#: Tokens of each past frame that are asked about, evenly spaced.
PROBES = 4


class FrameHeat:
    """Follows the reads of a frame and asks about the frames before.

    Parameters
    ----------
    geometry : Geometry
        Whose lines they are.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._map = geometry.address_map
        self._grid = geometry.grid
        self._seen = np.zeros(self._map.layers * self._map.heads, bool)
        self._levels = np.full((len(self._seen), self._grid.tokens_per_frame), np.nan)

    def add(self, reads: Chunk, tags: NDArray[np.void]) -> None:
        """Take reads of one frame and their answers.

        Raises
        ------
        TraceError
            A line is outside the geometry.
        """
        try:
            place = self._map.locate_line(reads.line)
        except ValueError as error:
            raise TraceError(f"the trace's lines do not fit its geometry ({error}); make it again") from None
        owner = place.layer * self._map.heads + place.head
        self._seen[owner] = True
        frame, token = np.divmod(place.token, self._grid.tokens_per_frame)
        own = frame == reads.frame
        self._levels[owner[own], token[own]] = tags["tag_after"][own]  # of several reads the last one stays

    def patches(self) -> NDArray[np.float64]:
        """T-levels of the frame's own patches, shape (rows, columns); the next frame starts afresh.

        A patch's is the mean, over the layers and heads that have read it in this frame, of its line's T-level after
        the last of these reads; NaN for a patch that none has read.
        """
        levels = self._levels[:, self._grid.leading :]
        read = ~np.isnan(levels)
        count, sum_ = read.sum(axis=0), np.where(read, levels, 0).sum(axis=0)
        mean = np.divide(sum_, count, out=np.full(count.shape, np.nan), where=count > 0)
        self._levels[:] = np.nan
        return mean.reshape(self._grid.rows, self._grid.columns)

    def probes(self, frames: int) -> NDArray[np.uint64]:
        """Addresses that tell how hot the first frames are: shape (frames, addresses a frame)."""
        layer, head = np.divmod(np.flatnonzero(self._seen), self._map.heads)
        step = self._grid.tokens_per_frame / PROBES
        within = ((np.arange(PROBES) + 0.5) * step).astype(np.int64)
        tokens = np.arange(frames)[:, None] * self._grid.tokens_per_frame + within
        addresses = self._map.address(layer[None, :, None], head[None, :, None], tokens[:, None, :])
        return addresses.reshape(frames, -1)
