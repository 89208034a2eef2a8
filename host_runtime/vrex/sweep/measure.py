"""One pass of a sweep, in whatever process it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vrex.bench.driver_alone import driver_hit_rates
from vrex.bench.hit_rate import TLevelTape, hit_rates
from vrex.bench.stream import Stream
from vrex.errors import VrexError
from vrex.runtime.core_watch import CoreWatch
from vrex.runtime.policy import ALL
from vrex.sweep.points import Job, Point, file_digest
from vrex.transports import open_transport
from vrex.transports.base import Bus

_PREDICTORS = {"v-rex": ALL, "tlevels": replace(ALL, history=False, lstm=False)}


@dataclass(frozen=True)
class Result:
    """What came of a point.

    Parameters
    ----------
    reads, hits : int
        Lines asked for, and those of them that were resident. The others were moved.
    """

    reads: int
    hits: int


def measure(job: Job) -> list[tuple[Point, Result]]:
    """Measure a job's points.

    Raises
    ------
    VrexError
        The trace is not there, or is another one than the points name; or the core cannot be had.
    """
    first = job.points[0]
    try:
        found = file_digest(job.path)
    except OSError as error:
        raise VrexError(
            f"{job.path}: cannot be read by a worker ({error.strerror}); put traces where all workers see them"
        ) from None
    if found != first.trace:
        raise VrexError(
            f"{job.path}: is not what it was when the sweep began, or another file on a worker; sweep again"
        )
    stream = Stream(job.path)
    stream.motion = job.motion
    tape = TLevelTape(_watch(first))
    measured = []
    for policy in dict.fromkeys(point.policy for point in job.points):
        points = [point for point in job.points if point.policy == policy]
        residencies = [point.residency for point in points]
        if policy == "driver":
            rates = driver_hit_rates(stream, residencies, lambda: _watch(first))
        else:
            rates = hit_rates(stream, residencies, _PREDICTORS[policy], tape)
        measured += [(point, Result(rate.reads, rate.hits)) for point, rate in zip(points, rates, strict=True)]
    return measured


def _watch(point: Point) -> CoreWatch:
    bus = open_transport(point.transport, log2_entries=point.log2_entries)
    assert isinstance(bus, Bus)
    return CoreWatch(bus, point.settings)
