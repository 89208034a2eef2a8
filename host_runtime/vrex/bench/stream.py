"""A trace as a cache sees it: lines that are born, and lines that a tile asks for.

KV is resident at birth, so a stream is more than its reads: when a frame reaches a layer, the keys and values of the
frame's tokens are written, in all of the layer's traced heads, before the layer's attention reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vrex.trace.address_map import LINE_BYTES, LineArray
from vrex.trace.format import Chunk, TraceError, TraceReader

#: What a trace of a single frame is taken to last.
_ONE_FRAME_NS = 33_333_333


class Birth(NamedTuple):
    """One frame's new KV in one layer: for each traced head, its group and its line numbers, ascending."""

    frame: int
    heads: dict[int, LineArray]


class Read(NamedTuple):
    """One tile's request: its lines, ascending and each once, and when each is asked for.

    `group` is layer * heads + head.
    """

    frame: int
    group: int
    tile: int
    lines: LineArray
    time_ns: npt.NDArray[np.uint64]


class Stream:
    """The events of a trace, read anew from its file at every iteration; memory stays bounded.

    Parameters
    ----------
    path : Path
        A trace with a geometry: births cannot be told without.

    Attributes
    ----------
    path : Path
    geometry : Geometry
    groups : tuple of int
        The traced (layer, head), each as layer * heads + head, ascending: the kernel's order.
    reads : int
        Lines asked for in all.
    frames, tiles : int
        Frames, and the most tiles of a visit.
    reads_per_frame : int
        At most.
    frame_ns : int
        From one frame's first read to the next one's, in the middle of the frames.
    lines : int
        Lines born in all: what a residency is a share of.

    motion : numpy.ndarray, shape (frames, regions), or None
        How much moves in each frame's regions, in pixels at 1080p; for whoever knows the clip to set.

    Raises
    ------
    TraceError
        The file is no trace, is damaged, has no accesses or no geometry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with TraceReader(path) as reader:
            metadata = reader.metadata
            if metadata.geometry is None:
                raise TraceError(
                    f"{path}: has no geometry to tell what is born when (see docs/traces.md); what does without are "
                    f"'python -m kv_asu_sim.demo --trace' and 'vrex calibrate --trace'"
                )
            self.metadata = metadata
            self.geometry = metadata.geometry
            self.reads, self.frames = len(reader), metadata.frames
            heads = self.geometry.address_map.heads
            groups: set[int] = set()
            self.tiles = 0
            reads = np.zeros(self.frames, np.int64)
            begins = np.full(self.frames, -1, np.int64)
            for chunk in reader.chunks():
                reads += np.bincount(chunk.frame, minlength=self.frames)
                frames, first = np.unique(chunk.frame, return_index=True)
                begins[frames] = np.where(begins[frames] < 0, chunk.time_ns[first], begins[frames])
                groups.update(np.unique(chunk.layer.astype(np.int64) * heads + chunk.head).tolist())
                self.tiles = max(self.tiles, int(chunk.tile.max()) + 1)
        if not self.reads:
            raise TraceError(f"{path}: holds no accesses; make one with 'vrex trace make'")
        self.motion: npt.NDArray[np.float64] | None = None
        self.groups = tuple(sorted(groups))
        self.reads_per_frame = int(reads.max())
        gaps = np.diff(begins[begins >= 0])
        self.frame_ns = max(1, int(np.median(gaps))) if len(gaps) else _ONE_FRAME_NS
        runs = [(int(self._born(0, g)[0]), int(self._born(self.frames - 1, g)[-1]) + 1) for g in self.groups]
        shared = sum(end > start for (_, end), (start, _) in zip(runs, runs[1:], strict=False))  # by two small heads
        self.lines = sum(end - start for start, end in runs) - shared

    @property
    def first_line(self) -> int:
        """The stream's first line number."""
        return self.geometry.address_map.bases[0] // LINE_BYTES

    def places(self, residency: float) -> int:
        """Lines that a share of the stream's lines is, at least 1."""
        return max(1, int(residency * self.lines))

    def events(self) -> Iterator[Birth | Read]:
        """Births and reads, in kernel order."""
        heads = self.geometry.address_map.heads
        layer: tuple[int, int] | None = None
        for piece in self._tiles():
            frame, group = int(piece.frame[0]), int(piece.layer[0]) * heads + int(piece.head[0])
            if layer != (frame, group // heads):
                layer = frame, group // heads
                siblings = [born for born in self.groups if born // heads == group // heads]
                yield Birth(frame, {born: self._born(frame, born) for born in siblings})
            yield Read(frame, group, int(piece.tile[0]), piece.line, piece.time_ns)

    def _born(self, frame: int, group: int) -> LineArray:
        kv, per_frame = self.geometry.address_map, self.geometry.grid.tokens_per_frame
        first, last = frame * per_frame, min((frame + 1) * per_frame, kv.max_tokens) - 1
        layer, head = divmod(group, kv.heads)
        start, end = (int(kv.lines(layer, head, token)[index]) for token, index in ((first, 0), (last, -1)))
        return np.arange(start, end + 1, dtype=np.uint64)

    def _tiles(self) -> Iterator[Chunk]:
        """The accesses cut where frame, layer, head or tile changes."""
        with TraceReader(self.path) as reader:
            rest: Chunk | None = None
            for chunk in reader.chunks():
                if rest is not None:
                    chunk = Chunk._make(np.concatenate([old, new]) for old, new in zip(rest, chunk, strict=True))
                changes = np.zeros(chunk.accesses - 1, bool)
                for column in chunk[:4]:
                    changes |= column[1:] != column[:-1]
                cuts = [0, *(np.flatnonzero(changes) + 1).tolist()]
                for start, end in zip(cuts, cuts[1:], strict=False):
                    yield Chunk._make(column[start:end] for column in chunk)
                rest = Chunk._make(column[cuts[-1] :] for column in chunk)
            if rest is not None:
                yield rest
