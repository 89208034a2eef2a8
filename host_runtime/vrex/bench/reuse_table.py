"""Table 2: is a line read again soon? The policy's answer and the T-levels', against three that need no hardware."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vrex.bench.hit_rate import Follower, TLevelTape
from vrex.bench.jobs import Bars, new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.stream import Birth, Stream
from vrex.bench.table import Table
from vrex.runtime.core_watch import CLOCK_NS
from vrex.runtime.policy import ALL, Lines

DEFINITION = (
    "When a visit of a (layer, head) ends: is each of its written lines read within the next {ticks} ticks, which are "
    "the next {visits} visits here? Never, always, and read by the visit that ends, need no predictor. V-Rex: the "
    "policy's probability that the very next visit reads it, over {likely}. Visits with fewer than {visits} after them "
    "are left out."
)


@dataclass
class Score:
    """Right and wrong answers."""

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    def add(self, said: npt.NDArray[np.bool_], came: npt.NDArray[np.bool_]) -> None:
        """Count answers, and what came."""
        self.true_positive += int((said & came).sum())
        self.false_positive += int((said & ~came).sum())
        self.false_negative += int((~said & came).sum())
        self.true_negative += int((~said & ~came).sum())

    def figures(self) -> tuple[float, float | None, float | None, float]:
        """Accuracy, precision, recall, F1; None where nothing was said, or came."""
        right, said = self.true_positive + self.true_negative, self.true_positive + self.false_positive
        came = self.true_positive + self.false_negative
        count = right + self.false_positive + self.false_negative
        return (
            right / count if count else 0.0,
            self.true_positive / said if said else None,
            self.true_positive / came if came else None,
            2 * self.true_positive / (said + came) if said + came else 0.0,
        )


@dataclass
class _Visit:
    """What was said at a visit's end, and what has come of it so far; arrays by the group's lines then written."""

    said: dict[str, npt.NDArray[np.bool_]]
    came: npt.NDArray[np.bool_]


def reuse_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    ticks, likely = int(knobs.reuse["ticks"]), float(knobs.reuse["likely"])
    log2_entries = knobs.hit_rate["log2_entries"]
    scores: dict[str, Score] = {}
    visits = 1
    for log2 in log2_entries:
        watch = new_watch(stream, transport, log2)
        tick_ns = CLOCK_NS << watch.settings.tick_shift
        visits = max(1, ticks * tick_ns // stream.frame_ns)
        with bars(f"reuse, {1 << log2:,} slots", "reads") as bar:
            found = predict(stream, TLevelTape(watch), visits, likely, bar)
        slots = f", {1 << log2:,} slots"
        scores |= {name + slots * (name.startswith(("V-Rex", "T-level"))): score for name, score in found.items()}
    definition = DEFINITION.format(ticks=ticks, visits=visits, likely=likely)
    table = Table(
        "reuse", f"Reuse prediction, {stream.path.name}", definition,
        ("predictor", "accuracy", "precision", "recall", "F1"),
    )  # fmt: skip
    table.rows = [(name, *score.figures()) for name, score in scores.items()]
    return table


def predict(stream: Stream, core: TLevelTape, visits: int, likely: float, progress: object = None) -> dict[str, Score]:
    """Predict, and see what comes.

    Parameters
    ----------
    stream : Stream
    core : TLevelTape
    visits : int
        How many visits ahead count as soon.
    likely : float
        From which probability on V-Rex says yes.
    progress : callable, optional
        Told the lines asked for so far, and how many there are.
    """
    follower = Follower(stream, ALL, core)
    policy = follower.policy
    open_visits: dict[int, deque[_Visit]] = {}
    scores: dict[str, Score] = {}
    present: tuple[int, int] | None = None
    read: list[Lines] = []
    done = 0

    def end(group: int) -> None:
        start, levels = int(policy.starts[group]), policy.levels(group)
        now = np.zeros(len(levels), bool)
        now[np.concatenate(read) - start] = True
        waiting = open_visits.setdefault(group, deque())
        for visit in waiting:
            visit.came |= now[: len(visit.came)]
        if len(waiting) == visits:
            over = waiting.popleft()
            for name, answers in over.said.items():
                scores.setdefault(name, Score()).add(answers, over.came)
        said = {
            "V-Rex": policy.likely[start : start + len(levels)] > likely,
            "T-level 2 or 3": levels >= 2,
            "T-level not 0": levels >= 1,
            "last frame": now,
            "always": np.ones(len(now), bool),
            "never": np.zeros(len(now), bool),
        }
        waiting.append(_Visit(said, np.zeros(len(now), bool)))

    for event, places, _ in follower:
        if isinstance(event, Birth):
            continue
        if present is not None and present != (event.frame, event.group):
            end(present[1])  # the policy has just ended it, too
            read = []
        present = event.frame, event.group
        read.append(places)
        done += len(places)
        if callable(progress):
            progress(done, stream.reads)
    assert present is not None, "a stream has reads"
    policy.end_visit()
    end(present[1])
    return scores
