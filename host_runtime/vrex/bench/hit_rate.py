"""Hit rate of the V-Rex policy at several residencies, in one pass over a stream.

Definitions, the same for every policy that is compared:

- *Residency* is a share of all lines of the stream, born by its end, whatever is born yet.
- A line is resident at birth. Births count neither as hits nor as bytes moved.
- A *hit* is a line that is resident when its tile asks for it. A miss is brought in, one line moved.
- *Hit rate* is hits over lines asked for.

What the policy and the core see does not depend on what is resident, so they watch the stream once for all residencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vrex.bench.stream import Birth, Read, Stream
from vrex.runtime.core_watch import CoreWatch
from vrex.runtime.lstm import Regions
from vrex.runtime.policy import ALL, Lines, Predictors, RetrievalPolicy
from vrex.runtime.templates import Template, visit_order
from vrex.trace.address_map import LineArray
from vrex.trace.format import Progress, no_progress


@dataclass(frozen=True)
class HitRate:
    """What came of one policy at one residency.

    Parameters
    ----------
    policy : str
    residency : float
    reads, hits : int
        Lines asked for, and those of them that were resident.
    moved : int
        Lines brought from far memory, asked for or ahead of it.
    prefetched, useful : int
        Lines brought ahead, and those of them that were asked for while they were there.
    """

    policy: str
    residency: float
    reads: int
    hits: int
    moved: int
    prefetched: int = 0
    useful: int = 0

    @property
    def rate(self) -> float:
        """Hits over reads."""
        return self.hits / self.reads

    @property
    def moved_share(self) -> float:
        """Lines moved over reads."""
        return self.moved / self.reads


class Pool:
    """Near memory of one size, in the hands of a policy.

    Parameters
    ----------
    policy : RetrievalPolicy
        Told of every event before the pool is.
    places : int
        Lines it holds.
    """

    def __init__(self, policy: RetrievalPolicy, places: int) -> None:
        self.places = places
        self.hits = self.moved = self.prefetched = self.useful = 0
        self._policy = policy
        self._is_resident = np.zeros(len(policy.likely), bool)
        self.resident = np.zeros(0, np.int64)  # the same, as a list
        self._is_ahead = np.zeros(len(policy.likely), bool)  # brought ahead, and not asked for yet

    def ask(self, places: Lines) -> Lines:
        """A tile asks for lines; what is missing comes, and is given back."""
        missing = places[~self._is_resident[places]]
        self.useful += int(self._is_ahead[places].sum())
        self._is_ahead[places] = False
        self.hits += len(places) - len(missing)
        self.moved += len(missing)
        self._take(missing, keep=places)
        return missing

    def admit(self, places: Lines) -> None:
        """Lines are born."""
        self._take(places[~self._is_resident[places]], keep=places)

    def bring(self, places: Lines) -> Lines:
        """Lines come ahead of their use, as far as they are worth more than what makes room for them; those that do."""
        new = places[~self._is_resident[places]]
        worth = self._policy.worth
        new = new[np.argsort(-worth[new], kind="stable")][: self.places]
        short = len(self.resident) + len(new) - self.places
        if short > 0:
            given_up = np.sort(np.partition(worth[self.resident], short - 1)[:short])
            room = len(new) - short
            new = new[: room + int((worth[new[room:]] > given_up).sum())]
        self.prefetched += len(new)
        self.moved += len(new)
        self._is_ahead[new] = True
        self._take(new, keep=new)
        return new

    def _take(self, new: Lines, keep: Lines) -> None:
        short = len(self.resident) + len(new) - self.places
        if short > 0:
            worth = self._policy.worth[self.resident]
            worth[self._is_kept(keep)] = np.inf
            order = np.argpartition(worth, min(short, len(worth)) - 1) if len(worth) else np.zeros(0, np.int64)
            victims = order[:short][np.isfinite(worth[order[:short]])]
            self._is_resident[self.resident[victims]] = False
            self._is_ahead[self.resident[victims]] = False
            self.resident = np.delete(self.resident, victims)
        new = new[: self.places - len(self.resident)]  # a tile larger than the pool is read through it
        self._is_resident[new] = True
        self.resident = np.concatenate([self.resident, new])

    def _is_kept(self, keep: Lines) -> npt.NDArray[np.bool_]:
        """Of the resident lines, which are in use."""
        self._is_resident[keep] ^= True
        kept = ~self._is_resident[self.resident]
        self._is_resident[keep] ^= True
        return kept


class TLevelTape:
    """What the core said of a stream, to be said again: it depends on nothing but the stream.

    Parameters
    ----------
    watch : CoreWatch
        The core, freshly programmed.
    """

    def __init__(self, watch: CoreWatch) -> None:
        self._watch: CoreWatch | None = watch
        self._said: list[tuple[int, int, npt.NDArray[np.uint8]]] = []
        self._next = 0

    def rewind(self) -> None:
        """From here on, what was said is said again from its beginning."""
        if self._said:
            self._watch = None
        self._next = 0

    def read(self, lines: LineArray, time_ns: int) -> None:
        """A tile reads lines."""
        if self._watch is not None:
            self._watch.read(lines, time_ns)

    def tlevels(self, first_line: int, count: int) -> npt.NDArray[np.uint8]:
        """T-levels of a run of lines."""
        if self._watch is not None:
            self._said.append((first_line, count, self._watch.tlevels(first_line, count)))
        first, length, levels = self._said[self._next]
        assert (first, length) == (first_line, count), "another stream"
        self._next += 1
        return levels


class Followed(NamedTuple):
    """An event after the policy and the core have been told of it, with lines by their place in the stream.

    `ahead` is what is to be brought ahead now, before the event's own lines are asked for.
    """

    event: Birth | Read
    places: Lines
    ahead: Lines


class Follower:
    """Leads the policy and the core through a stream.

    Parameters
    ----------
    stream : Stream
    predictors : Predictors
        What the policy may use.
    core : TLevelTape, optional
        Where T-levels come from; without, they have no say.
    prefetch : float, optional
        When a visit begins, lines of the one after it are brought ahead if they are at least so likely to be read.

    Attributes
    ----------
    policy : RetrievalPolicy
    """

    def __init__(
        self,
        stream: Stream,
        predictors: Predictors = ALL,
        core: TLevelTape | None = None,
        prefetch: float | None = None,
    ) -> None:
        self._stream = stream
        self._core = core if predictors.tlevels or predictors.lstm else None
        self._prefetch = prefetch
        if self._core is not None:
            self._core.rewind()
        tlevels = None if self._core is None else self._tlevels
        kv = stream.geometry.address_map
        order = visit_order(Template.of_attention(kv), kv)
        regions = Regions(kv, stream.geometry.grid) if predictors.lstm and self._core is not None else None
        self.policy = RetrievalPolicy(kv, stream.tiles, predictors, tlevels, order, regions)

    def _tlevels(self, first: int, count: int) -> npt.NDArray[np.uint8]:
        assert self._core is not None
        return self._core.tlevels(self._stream.first_line + first, count)

    def _places(self, lines: LineArray) -> Lines:
        return (lines - np.uint64(self._stream.first_line)).astype(np.int64)

    def __iter__(self) -> Iterator[Followed]:
        nothing = np.zeros(0, np.int64)
        for event in self._stream.events():
            if isinstance(event, Birth):
                for group, lines in event.heads.items():
                    self.policy.write(group, self._places(lines))
                yield Followed(event, self._places(np.concatenate([*event.heads.values()])), nothing)
                continue
            places = self._places(event.lines)
            if self._stream.motion is not None and event.frame < len(self._stream.motion):
                self.policy.motion = self._stream.motion[event.frame]
            self.policy.read(event.frame, event.group, event.tile, places)
            if self._core is not None:
                self._core.read(event.lines, int(event.time_ns[0]))
            ahead = nothing
            if self._prefetch is not None and event.tile == 0:
                ahead = self.policy.expected(self.policy.following(event.group), self._prefetch)
            yield Followed(event, places, ahead)


def hit_rates(
    stream: Stream,
    residencies: Sequence[float],
    predictors: Predictors = ALL,
    core: TLevelTape | None = None,
    name: str = "V-Rex",
    prefetch: float | None = None,
    progress: Progress = no_progress,
) -> list[HitRate]:
    """The V-Rex policy's hit rate at each residency.

    Parameters
    ----------
    stream, predictors, core, prefetch
        As for `Follower`.
    residencies : sequence of float
        Shares of the stream's lines, over 0.
    name : str
        What to call it in the results.
    progress : callable
        Told the lines asked for so far, and how many there are.
    """
    follower = Follower(stream, predictors, core, prefetch)
    pools = [Pool(follower.policy, stream.places(residency)) for residency in residencies]
    done = 0
    for event, places, ahead in follower:
        for pool in pools:
            if isinstance(event, Birth):
                pool.admit(places)
                continue
            if len(ahead):
                pool.bring(ahead)
            pool.ask(places)
        if not isinstance(event, Birth):
            done += len(places)
            progress(done, stream.reads)
    return [
        HitRate(name, residency, stream.reads, pool.hits, pool.moved, pool.prefetched, pool.useful)
        for residency, pool in zip(residencies, pools, strict=True)
    ]
