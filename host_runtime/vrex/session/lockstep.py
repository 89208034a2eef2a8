"""Two buses as one: what is done on it is done on a bus and on the behavioural model, and has to come out the same."""

from __future__ import annotations

from vrex.session.operation import Answer, Operation, take
from vrex.session.relay import Relay
from vrex.session.replay import difference
from vrex.transports.base import Bus
from vrex.transports.model import ModelTransport


class DifferenceError(AssertionError):
    """Bus and model differ; the message says where and how."""


class Lockstep(Relay):
    """A bus under test, just reset, beside a model of the same build.

    Every operation gives the model's answer, or raises `DifferenceError`.

    Parameters
    ----------
    bus : Bus
        The bus under test.
    """

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._model = ModelTransport(bus.params)
        self._calls = 0

    def _take(self, operation: Operation) -> Answer:
        expected = take(self._model, operation)
        found = difference(self._calls, expected, self.bus)
        self._calls += 1
        if found:
            what = found.fault or ", ".join(
                f"{name} is {got:#x}, the model says {wanted:#x}" for name, wanted, got in found.fields if got != wanted
            )
            command = "" if found.command is None else f", command {found.command + 1}"
            raise DifferenceError(f"call {found.call + 1}, {operation.kind}{command}, in clock {found.clock}: {what}")
        return expected.answer
