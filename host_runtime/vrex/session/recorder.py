"""`Recorder`: a bus that writes down what is done on another."""

from __future__ import annotations

import os
import sys
import weakref

import numpy as np

from vrex.errors import VrexError
from vrex.session.format import SessionMetadata, SessionWriter
from vrex.session.operation import Answer, Operation, take
from vrex.session.relay import Relay
from vrex.transports.base import Bus


class Recorder(Relay):
    """Another bus, and a session file of what is done on it.

    The file is there when the recorder is closed. An operation that raises has no answer and is not in it; those before
    it are. It belongs to the process that opened it: a child made by `os.fork` can neither write nor finish it, and
    nothing can be done over its copy.

    Parameters
    ----------
    bus : Bus
        What is driven; from now on only through the recorder, which closes it. Nothing has been done on it yet.
    path : path
        The session file.

    Raises
    ------
    TypeError
        It is no bus, but a device whose traffic somebody else makes.
    ValueError
        Clocks have passed on it: a session begins at reset.
    VrexError
        The file cannot be written: found at once where the place will not do, or by any operation, which has been done
        then.
    """

    def __init__(self, bus: Bus, path: str | os.PathLike[str]) -> None:
        super().__init__(bus)
        self._writer = SessionWriter(path, SessionMetadata(bus.params, bus.name))
        self._process = os.getpid()
        # Also when nobody closes it: at the latest when the interpreter ends.
        self._unclosed = weakref.finalize(self, _finish_unasked, self._writer)

    def close(self) -> None:
        """Finish the file and give back the bus."""
        try:
            if self._unclosed.detach():
                self._writer.finish()
        finally:
            super().close()

    def _take(self, operation: Operation) -> Answer:
        if os.getpid() != self._process:
            raise VrexError(
                f"{self}: process {self._process} records this session, and this is a child of it; open a device of "
                "its own here"
            )
        step = take(self.bus, operation)
        # What the caller may change afterwards is kept as it was.
        answer = step.answer.copy() if isinstance(step.answer, np.ndarray) else step.answer
        kept = operation._replace(addresses=operation.addresses.copy())
        self._writer.append(step._replace(operation=kept, answer=answer))
        return step.answer


def _finish_unasked(writer: SessionWriter) -> None:
    try:
        writer.finish()
    except VrexError as error:  # with nobody left to catch it
        print(f"vrex: {error}", file=sys.stderr)
