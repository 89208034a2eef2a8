"""A trace as the traffic of a bus, over and over, beside whoever looks at the device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vrex.errors import VrexError
from vrex.mount.turns import Turns
from vrex.transports.base import Bus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vrex.trace.format import TraceReader

#: The clock a trace's times are counted in.
CLOCK_NS = 2

#: Requests, and idle clocks, that the device is held for at a time: a few milliseconds of its own work.
_BURST = 256
_IDLE = 1 << 14

#: Seconds ahead of the trace's own time from which on it is worth to sleep, and behind it from which on a pause is cut.
_AHEAD = 1e-3
_BEHIND = 0.1

_LOG2_LINE = 8


class Traffic:
    """Plays a trace into a device from a thread of its own, in the trace's own time or as fast as the device goes.

    Requests come at the clocks the trace says, or one a clock until they have caught up; behind the last comes the
    first again. Between them a device may be slower than its trace: compiled gateware takes seconds for a pause of
    40 ms. Then the pause is cut, to `_IDLE` clocks at least, so that it lasts no longer than the trace's own.

    Parameters
    ----------
    bus : Bus
    trace : path
    turns : Turns
        Who else uses the device.
    failed : callable
        Called from the thread with the reason if it has to stop.

    Raises
    ------
    TraceError
        The trace cannot be read.
    """

    def __init__(self, bus: Bus, trace: Path, turns: Turns, failed: Callable[[str], None]) -> None:
        from vrex.trace.format import TraceReader

        self._bus = bus
        self._trace: TraceReader = TraceReader(trace)
        self._turns = turns
        self._failed = failed
        self._progress: Callable[[int, int], None] = lambda done, total: None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Begin.

        Parameters
        ----------
        progress : callable, optional
            Called from the thread with the requests of this lap that are done, and how many there are.
        """
        if progress is not None:
            self._progress = progress
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._lap()
        except (VrexError, ValueError) as error:
            self._failed(f"no more traffic: {error}")

    def _lap(self) -> None:
        """All of the trace, once."""
        began, first, done = time.monotonic(), self._bus.clock, 0
        for due, addresses in _bursts(self._trace):
            while not self._stopped.is_set() and (missing := due - (self._bus.clock - first)) > 0:
                with self._turns.traffic():
                    self._bus.idle(min(missing, _IDLE))
                if self._keep_to_time(began, self._bus.clock - first) < -_BEHIND:
                    first = self._bus.clock - due
            if self._stopped.is_set():
                return
            with self._turns.traffic():
                self._bus.observe(addresses)
            self._keep_to_time(began, self._bus.clock - first)
            done += len(addresses)
            self._progress(done, len(self._trace))

    def _keep_to_time(self, began: float, clocks: int) -> float:
        """Sleep where the trace's own time has not come to this clock; by how many seconds it had not."""
        ahead = clocks * CLOCK_NS * 1e-9 - (time.monotonic() - began)
        if ahead > _AHEAD:
            self._stopped.wait(ahead)
        return ahead


def _bursts(trace: TraceReader) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Requests that are made in one go: the clock of the first, and their addresses."""
    import numpy as np

    for chunk in trace.chunks():
        clocks = chunk.time_ns // np.uint64(CLOCK_NS)
        addresses = chunk.line << np.uint64(_LOG2_LINE)
        begin = 0
        while begin < len(clocks):
            end = min(begin + _BURST, len(clocks))
            late = np.flatnonzero(np.diff(clocks[begin:end]) > _BURST)  # a pause of the kernel's
            end = begin + int(late[0]) + 1 if len(late) else end
            yield int(clocks[begin]), addresses[begin:end]
            begin = end
