"""The points of a sweep: what is measured, named by everything that its result depends on."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kv_asu import __version__
from vrex.bench.stream import Stream
from vrex.runtime.core_watch import WatchSettings

#: What keeps lines near: every predictor; T-levels and templates; the core's cold list and least recent use.
POLICIES = ("v-rex", "tlevels", "driver")


@dataclass(frozen=True)
class Point:
    """One measurement.

    Parameters
    ----------
    trace : str
        SHA-256 of the trace file.
    motion : str or None
        SHA-256 of the clip's motion by region, where the LSTM is told of it.
    policy : str
        One of `POLICIES`.
    transport : str
        "rtl" or "model": what the core is.
    log2_entries : int
        Slots of the core's table, log2.
    settings : WatchSettings
        How the core is programmed.
    residency : float
        Near memory as a share of the stream's lines.
    version : str
        Of V-Rex.
    """

    trace: str
    motion: str | None
    policy: str
    transport: str
    log2_entries: int
    settings: WatchSettings
    residency: float
    version: str = __version__

    @property
    def key(self) -> str:
        """The point's name on disk: it changes with anything that is in the point."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]


@dataclass(frozen=True, eq=False)
class Source:
    """A trace that is swept.

    Parameters
    ----------
    path : Path
        Absolute: workers open it, too.
    digest : str
        SHA-256 of the file.
    stream : Stream
    """

    path: Path
    digest: str
    stream: Stream

    @classmethod
    def of(cls, stream: Stream) -> Source:
        """A stream's file."""
        return cls(stream.path.resolve(), file_digest(stream.path), stream)

    @property
    def motion_digest(self) -> str | None:
        """SHA-256 of the clip's motion."""
        motion = self.stream.motion
        return None if motion is None else hashlib.sha256(np.ascontiguousarray(motion).tobytes()).hexdigest()


@dataclass(frozen=True)
class Axes:
    """What is varied; None stands for what follows from the stream, as `WatchSettings.of_stream` has it.

    Parameters
    ----------
    policy, log2_entries, line_shift, tick_shift, counts, ages, residency : sequence
        `counts` are (T3, T2) of one line, `ages` (T3, T2, T1) in ticks.
    """

    policy: Sequence[str]
    log2_entries: Sequence[int]
    line_shift: Sequence[int | None]
    tick_shift: Sequence[int | None]
    counts: Sequence[tuple[int, int]]
    ages: Sequence[tuple[int, int, int]]
    residency: Sequence[float]

    def points(self, source: Source, transport: str) -> list[Point]:
        """All combinations for one trace, in the order of the axes; what comes to the same is there once."""
        stream = source.stream
        found: dict[Point, None] = {}
        cores = itertools.product(self.log2_entries, self.line_shift, self.tick_shift, self.counts, self.ages)
        for log2, line_shift, tick_shift, counts, ages in cores:
            settings = WatchSettings.of_stream(
                stream.lines,
                stream.reads_per_frame,
                stream.frame_ns,
                1 << log2,
                line_shift=line_shift,
                tick_shift=tick_shift,
                counts=counts,
                ages=ages,
            )
            for policy, residency in itertools.product(self.policy, self.residency):
                motion = source.motion_digest if policy == "v-rex" else None  # nobody else is told of it
                found[Point(source.digest, motion, policy, transport, log2, settings, residency)] = None
        return list(found)


@dataclass(frozen=True, eq=False)
class Job:
    """Points of one trace and one setting of the core: one pass over the trace measures them all.

    Parameters
    ----------
    path : Path
    motion : numpy.ndarray or None
    points : tuple of Point
    """

    path: Path
    motion: npt.NDArray[np.float64] | None
    points: tuple[Point, ...]

    @property
    def key(self) -> str:
        """A name that two jobs share only if they are the same."""
        return hashlib.sha256("".join(point.key for point in self.points).encode()).hexdigest()[:20]


def jobs(source: Source, points: Sequence[Point]) -> list[Job]:
    """Put points together that one pass can measure."""
    passes: dict[Point, list[Point]] = {}
    for point in points:
        passes.setdefault(replace(point, residency=0.0, policy="", motion=None), []).append(point)
    return [Job(source.path, source.stream.motion, tuple(together)) for together in passes.values()]


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def point_json(point: Point) -> dict[str, Any]:
    """Plain values by name, the settings' among them."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(point)))
    return values
