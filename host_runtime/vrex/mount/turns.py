"""One device for many threads: one at a time, and whoever looks at it before the traffic that runs by itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """A lock with two doors.

    A plain lock goes, as a rule, to the thread that has just given it back: traffic would keep everybody else out.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self._accesses_waiting = 0

    @contextlib.contextmanager
    def access(self) -> Iterator[None]:
        """Hold the device for an access: next, whatever traffic is waiting."""
        with self._changed:
            self._accesses_waiting += 1
            self._changed.wait_for(lambda: not self._taken)
            self._accesses_waiting -= 1
            self._taken = True
        with self._given_back():
            yield

    @contextlib.contextmanager
    def traffic(self) -> Iterator[None]:
        """Hold the device for a little traffic, when no access is waiting."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken and not self._accesses_waiting)
            self._taken = True
        with self._given_back():
            yield

    @contextlib.contextmanager
    def _given_back(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()
