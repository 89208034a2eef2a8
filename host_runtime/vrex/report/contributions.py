"""What each predictor adds to the hit rate: the policy with it and without, over the same reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vrex.bench.hit_rate import Follower, Pool, TLevelTape
from vrex.bench.hit_rate_table import PREDICTORS
from vrex.bench.jobs import new_watch
from vrex.bench.stream import Birth, Stream
from vrex.runtime.policy import ALL
from vrex.trace.format import Progress, no_progress

#: Without one of them, and without any.
_WITHOUT = {name: replace(ALL, **{name: False}) for name in PREDICTORS}


def contributions(
    stream: Stream,
    places: int,
    frames: int,
    transport: str,
    log2_entries: int,
    progress: Progress = no_progress,
) -> Iterator[tuple[str, list[float]]]:
    """Hit rate by frame: with all predictors, named "", and without each of them.

    As `vrex bench` has it: near memory is all the policy's, nothing is brought ahead, and nothing is collected before
    its place is needed.

    Parameters
    ----------
    stream : Stream
    places : int
        Lines that near memory holds.
    frames : int
        Frames from the stream's start.
    transport, log2_entries
        The core.
    progress : callable
        Told the frames done, and how many there are in all.
    """
    core = TLevelTape(new_watch(stream, transport, log2_entries))
    runs = {"": ALL, **_WITHOUT}
    for number, (name, predictors) in enumerate(runs.items()):
        follower = Follower(stream, predictors, core)
        pool = Pool(follower.policy, places)
        reads, hits = [0] * frames, [0] * frames
        for event, lines, _ in follower:
            if event.frame >= frames:
                break
            if isinstance(event, Birth):
                pool.admit(lines)
                progress(number * frames + event.frame, len(runs) * frames)
                continue
            before = pool.hits
            pool.ask(lines)
            reads[event.frame] += len(lines)
            hits[event.frame] += pool.hits - before
        yield name, [hit / read if read else 1.0 for hit, read in zip(hits, reads, strict=True)]
    progress(len(runs) * frames, len(runs) * frames)
