"""Jobs of a sweep that end badly; worker processes import this."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from vrex.errors import VrexError
from vrex.sweep.measure import Result, measure
from vrex.sweep.points import Job, Point

#: An environment variable: the file that `die_once` leaves.
MARK = "SWEEP_TEST_MARK"


def die_once(job: Job) -> list[tuple[Point, Result]]:
    """The first job of all kills its process, as want of memory would."""
    try:
        Path(os.environ[MARK]).touch(exist_ok=False)
    except FileExistsError:
        return measure(job)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("lives on")


def fail_on_large_granules(job: Job) -> list[tuple[Point, Result]]:
    """Jobs of one setting fail."""
    if job.points[0].settings.line_shift == 12:
        raise VrexError("granules of 4 KiB, says the test; none")
    return measure(job)
