"""A register's turn on a hardware port: it waits for the first clock the port is idle, and for its answer."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class BorrowedPort(wiring.Component):
    """Members
    -------
    start : In(1)
        The register was written.
    port_valid : In(1)
        The port's own user has an operation in this clock.
    again : In(1)
        The operation told of in this clock came to nothing and must be repeated.
    issue : Out(1)
        Give the port the register's operation in this clock.
    mine : Out(1)
        The operation decided in this clock is the register's.
    done : Out(1)
        The register's operation is told of in this clock, ``until_told`` clocks after its decision, and is its answer.
    """

    def __init__(self, latency: int, until_told: int = 0) -> None:
        self._latency = latency
        self._until_told = until_told
        super().__init__(
            {
                "start": In(1),
                "port_valid": In(1),
                "again": In(1),
                "issue": Out(1),
                "mine": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        waiting = Signal()
        in_flight = Signal(self._latency + self._until_told)
        told = in_flight[-1]
        m.d.comb += [
            self.issue.eq(waiting & ~self.port_valid),
            self.mine.eq(in_flight[self._latency - 1]),
            self.done.eq(told & ~self.again),
        ]
        m.d.sync += [
            waiting.eq((waiting & ~self.issue) | self.start | (told & self.again)),
            in_flight.eq(Cat(self.issue, in_flight)),
        ]
        return m
