"""Which resident lines to give up: those least likely to be read soon.

Attention reads a stream's KV in visits: in each frame, each (layer, head) in the kernel's order, tile after tile. So a
resident line's worth is how likely its next visit reads it, over how far away that visit is::

    worth = P(read in the next visit) / visits until then

- **How likely** comes from a table of counts (`ReuseTable`): of the lines that had the same *context* when their last
  visit ended, how many were read in the next one? It learns while the stream runs, so it has no constants of a clip
  in it. The context holds what the predictors say about the line: its history of reads, its T-level in the core, the
  LSTM's opinion about its patch region. A predictor that is switched off takes its bits out of the context.
- **How far** comes from the address templates: visits follow each other in the kernel's order. Without them every
  visit is taken to be as far.
- **Within a visit** a line may be read by several tiles. Tiles, too, read what they read in the frames before, so a
  table of the same kind tells how likely each later tile of this visit reads the line.

This is Belady's rule, with the time of the next use replaced by its likelihood over its distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vrex.runtime.lstm import Regions
from vrex.trace.address_map import LINE_BYTES, AddressMap

Lines = npt.NDArray[np.int64]

#: T-levels of a run of lines: the first line's place in the stream, and how many -> shape (how many,), 0 to 3.
TLevels = Callable[[int, int], npt.NDArray[np.uint8]]

#: Tiles of a visit that are told apart; those beyond share the last one's bit.
MOST_TILES = 16

#: Frames of a line's history that its context holds.
HISTORY_FRAMES = 6

#: Bits of a context's parts: recent history; what was before; T-level and region.
CONTEXT_PARTS = (2 + 2, HISTORY_FRAMES, 2 + 2)

#: Bits of a number up to 255.
_LOG2 = np.array([number.bit_length() for number in range(256)])


@dataclass(frozen=True)
class Predictors:
    """What may have a say in how likely a line is read; each can be switched off.

    Parameters
    ----------
    tlevels : bool
        The core's T-levels.
    history : bool
        In which frames, and by how many tiles, the runtime has seen the line read.
    lstm : bool
        The LSTM's probability for the line's patch region.
    templates : bool
        The kernel's order of visits, from the address templates.
    """

    tlevels: bool = True
    history: bool = True
    lstm: bool = True
    templates: bool = True


ALL = Predictors()


class ReuseTable:
    """How often what was in a context came true, by group; recent trials count more.

    A context has parts, the coarsest in its high bits. What has seen few trials with all of its parts is judged by the
    coarser ones as well, and at last by the group's mean, so that one more part never makes the table forget what it
    knows.

    Parameters
    ----------
    groups : int
        Rows of the table.
    parts : tuple of int
        Bits of each part of a context, the coarsest first.
    keep : float
        What a count is worth after another visit, below 1.
    """

    #: Trials that the coarser judgement stands for.
    _WEIGHT = 4.0

    def __init__(self, groups: int, parts: tuple[int, ...], keep: float) -> None:
        self._keep = keep
        self._shape = tuple(1 << bits for bits in parts)
        self._trials = np.zeros((groups, 1 << sum(parts)))
        self._came = np.zeros_like(self._trials)

    def learn(self, group: int, context: Lines, came_true: npt.NDArray[np.bool_]) -> None:
        """Count trials of one group; shapes (n,)."""
        contexts = self._trials.shape[1]
        self._trials[group] = self._keep * self._trials[group] + np.bincount(context, minlength=contexts)
        self._came[group] = self._keep * self._came[group] + np.bincount(context[came_true], minlength=contexts)

    def probability(self, group: int) -> npt.NDArray[np.float64]:
        """By context: shape (contexts,). An empty table says one half."""
        trials, came = self._trials[group].reshape(self._shape), self._came[group].reshape(self._shape)
        judged = np.asarray((came.sum() + 0.5) / (trials.sum() + 1))
        for parts in range(1, len(self._shape) + 1):
            finer = tuple(range(parts, len(self._shape)))
            judged = judged[..., np.newaxis] * self._WEIGHT
            judged = (came.sum(axis=finer) + judged) / (trials.sum(axis=finer) + self._WEIGHT)
        return judged.reshape(-1)


class RetrievalPolicy:
    """Watches one stream's reads, and ranks its lines by what keeping them is worth.

    Lines are named by their *place*: line number less the stream's first. A *group* is one (layer, head).

    Parameters
    ----------
    kv : AddressMap
        The layout; the stream is its first.
    tiles : int
        Tiles of a visit, as the kernel cuts it.
    predictors : Predictors
    tlevels : callable, optional
        Where T-levels come from; without, `predictors.tlevels` has nothing to say.
    order : numpy.ndarray of int, shape (groups,), optional
        The place of each group in the kernel's order, from `vrex.runtime.templates`; layer by layer and head by head
        unless given.
    regions : Regions, optional
        The LSTM; without, or without T-levels to feed it, `predictors.lstm` has nothing to say.

    Attributes
    ----------
    motion : numpy.ndarray, shape (regions,)
        How much moves in the present frame, in pixels at 1080p; for whoever knows to set.
    likely : numpy.ndarray of float32, shape (lines,)
        For each line, the probability that its next visit reads it.
    """

    def __init__(
        self,
        kv: AddressMap,
        tiles: int,
        predictors: Predictors = ALL,
        tlevels: TLevels | None = None,
        order: npt.NDArray[np.int64] | None = None,
        regions: Regions | None = None,
    ) -> None:
        self.predictors = predictors
        self._regions = regions if predictors.lstm and tlevels is not None else None
        self._tlevels = tlevels if predictors.tlevels or self._regions is not None else None
        self.motion = np.zeros(0 if regions is None else regions.count)
        self._tiles = min(tiles, MOST_TILES)
        groups = kv.layers * kv.heads
        self._order = np.arange(groups) if order is None else order
        group_bytes = kv.max_tokens * kv.bytes_per_token
        #: Where each group's lines begin; a line that two small heads share counts with the first.
        self.starts: Lines = -(-np.arange(groups + 1, dtype=np.int64) * group_bytes // LINE_BYTES)
        lines = int(self.starts[-1])
        self.likely = np.full(lines, 0.5, np.float32)
        self._written = np.zeros(groups, np.int64)  # lines of each group that hold something, from its start
        self._turn = np.zeros(groups, np.int64)  # groups visited before it in a frame
        self._turns = 0
        # Of each line: a 1, then one bit a frame since its birth, the newest last; tiles of the last visit that read it
        # and of the one before that; those of the present visit.
        self._history = np.ones(lines, np.int32)
        self._visits_read = np.zeros(lines, np.uint8)
        self._visits_since = np.zeros(lines, np.uint8)
        self._level = np.zeros(lines, np.uint8)
        self._region = np.zeros(lines, np.uint8)
        self._last = np.zeros(lines, np.uint16)
        self._before_last = np.zeros(lines, np.uint16)
        self._present = np.zeros(lines, np.uint16)
        self._tile_counts = np.array([mask.bit_count() for mask in range(1 << self._tiles)], np.uint8)
        self._visits = ReuseTable(groups, CONTEXT_PARTS, keep=0.95)
        self._later_tiles = ReuseTable(groups, (3,), keep=0.98)
        self._visit: tuple[int, int] | None = None  # frame and group
        self._tile = 0
        self._soon: npt.NDArray[np.float32] = np.zeros(0, np.float32)  # worth of its group's lines within it
        self._worth = np.zeros(lines, np.float32)
        self._worth_is_stale = True

    # What happens

    def write(self, group: int, places: Lines) -> None:
        """New KV of a group: a run of lines that begins where its written lines end, or inside them."""
        places = places[places >= self.starts[group]]
        if not len(places):
            return
        if self._visit is not None and self._visit[1] == group:
            self.end_visit()  # which had no way to read them
        if not self._written[group]:  # from now on it has a turn
            self._turn[self._order > self._order[group]] += 1
            self._turns += 1
        self._written[group] = max(self._written[group], int(places[-1]) + 1 - int(self.starts[group]))
        self._worth_is_stale = True
        self.likely[places] = self._visits.probability(group)[self._context(places)]

    def read(self, frame: int, group: int, tile: int, places: Lines) -> None:
        """A tile of a visit reads lines, each once.

        A visit is over when another frame or group reads.
        """
        if self._visit != (frame, group):
            self.end_visit()
            self._visit = frame, group
        self._worth_is_stale = True
        self._tile = tile = min(tile, self._tiles - 1)
        written = self._slice(group)
        places = places[places >= written.start]
        read = np.zeros(written.stop - written.start, np.int64)
        read[places - written.start] = 1
        if tile:
            context = self._tile_context(written, tile, self._present[written] >> (tile - 1) & 1)
            self._later_tiles.learn(group, context, read.astype(bool))
        self._soon = self._worth_within_visit(group, tile, read)
        self._present[places] |= np.uint16(1 << tile)

    def end_visit(self) -> None:
        """The present visit is over: learn from it, and say how likely the next one is to read each line."""
        if self._visit is None:
            return
        _, group = self._visit
        self._visit = None
        self._worth_is_stale = True
        written = self._slice(group)
        read = self._present[written] > 0
        self._visits.learn(group, self._context(written), read)
        bit = 1 << HISTORY_FRAMES
        history = self._history[written] << 1 | read
        self._history[written] = np.where(history >= 2 * bit, history & (bit - 1) | bit, history)
        self._visits_read[written] += (read & (self._visits_read[written] < 255)).astype(np.uint8)
        since = self._visits_since[written]
        self._visits_since[written] = np.where(read, 0, np.minimum(since, 254) + 1)
        self._before_last[written] = np.where(read, self._last[written], self._before_last[written])
        self._last[written] = np.where(read, self._present[written], self._last[written])
        self._present[written] = 0
        if self._tlevels is not None:
            levels = self._tlevels(written.start, written.stop - written.start)
            if self.predictors.tlevels:
                self._level[written] = levels
            if self._regions is not None:
                self._region[written] = self._regions.judge(group, levels, self.motion)
        self.likely[written] = self._visits.probability(group)[self._context(written)]

    # What it makes of it

    @property
    def worth(self) -> npt.NDArray[np.float32]:
        """What keeping each line is worth now, more is better: shape (lines,), to be read until the next event."""
        if self._worth_is_stale:
            nearness = 1 / self._visits_until()
            for group in np.flatnonzero(self._written).tolist():
                written = self._slice(group)
                np.multiply(self.likely[written], nearness[group], out=self._worth[written])
            if self._visit is not None:
                here = self._worth[self._slice(self._visit[1])]
                np.maximum(here[: len(self._soon)], self._soon, out=here[: len(self._soon)])
            self._worth_is_stale = False
        return self._worth

    def levels(self, group: int) -> npt.NDArray[np.uint8]:
        """T-levels of the written lines of a group when its last visit ended; 0 when they have no say."""
        return self._level[self._slice(group)]

    def expected(self, group: int, likely: float) -> Lines:
        """The lines of a group that its next visit reads with at least this probability, ascending."""
        written = self._slice(group)
        return written.start + np.flatnonzero(self.likely[written] >= likely)

    def following(self, group: int) -> int:
        """The group that is visited after this one, in the kernel's order."""
        visited = np.flatnonzero(self._written)
        ahead = (self._turn[visited] - self._turn[group] - 1) % self._turns
        return int(visited[np.argmin(ahead)])

    def victims(self, places: Lines, count: int) -> Lines:
        """The lines to give up first, of those that may be: at most `count`, in no order."""
        if count >= len(places):
            return places
        return places[np.argpartition(self.worth[places], count)[:count]]

    def _visits_until(self) -> npt.NDArray[np.float32]:
        """How far away each group's next visit is, in visits; the present one counts as over: shape (groups,)."""
        if not self.predictors.templates or not self._turns:
            return np.ones(len(self._turn), np.float32)
        if self._visit is None:
            present, passed = -1, 0.5
        else:
            present, passed = int(self._turn[self._visit[1]]), self._tile / self._tiles
        ahead = (self._turn - present - 1) % self._turns + 1
        return np.maximum(ahead - passed, 1 / self._tiles).astype(np.float32)

    def _worth_within_visit(self, group: int, tile: int, read: Lines) -> npt.NDArray[np.float32]:
        """Of the present group's written lines: how likely a later tile of this visit reads it, over its distance."""
        written = self._slice(group)
        probability = self._later_tiles.probability(group).astype(np.float32)
        soon = np.zeros(len(read), np.float32)
        for later in range(tile + 1, self._tiles):
            nearness = np.float32(self._tiles / (later - tile) if self.predictors.templates else 1)
            np.maximum(soon, (nearness * probability)[self._tile_context(written, later, read)], out=soon)
        return soon

    def _slice(self, group: int) -> slice:
        """Where the written lines of a group are."""
        start = int(self.starts[group])
        return slice(start, start + int(self._written[group]))

    def _context(self, lines: slice | Lines) -> Lines:
        """Of each line, what the predictors say."""
        context = self._level[lines].astype(np.int64) << 2 | self._region[lines]
        if self.predictors.history:
            tiles = np.minimum(self._tile_counts[self._last[lines]], 3)
            tiles = np.where(self._history[lines] & 1, tiles, 0)
            history = self._history[lines].astype(np.int64)
            # The coarsest part: the last two frames, and the tiles. Then what was before, or, of a line that has not
            # been read for all of its history, how long that is ago, and how often it was read, by powers of two.
            short = (history & 3) << 2 | tiles
            since = np.minimum(_LOG2[self._visits_since[lines]] - 2, 7)
            often = np.minimum(_LOG2[self._visits_read[lines]], 3)
            forgotten = history == 1 << HISTORY_FRAMES
            older = np.where(forgotten, 1 << HISTORY_FRAMES - 1 | since << 2 | often, history >> 2)
            context |= (short << HISTORY_FRAMES | older) << 4
        return context

    def _tile_context(self, lines: slice, tile: int, read: npt.NDArray[np.int64]) -> Lines:
        """Of each line, whether this tile read it in its last visits, and whether the tile before (or now) does."""
        if not self.predictors.history:
            return read
        last, before = self._last[lines] >> tile & 1, self._before_last[lines] >> tile & 1
        return last.astype(np.int64) << 2 | before.astype(np.int64) << 1 | read
