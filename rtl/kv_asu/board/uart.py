"""A serial line's two ends: 8 data bits, no parity, one stop bit."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out


class Receiver(wiring.Component):
    """Bits to bytes. A byte without a stop bit is dropped.

    Parameters
    ----------
    clocks : int
        Clocks of a bit, 4 or more.

    Members
    -------
    rx : In(1)
        The line, of no clock.
    valid, data : Out(1), Out(8)
        A byte, for one clock.
    """

    def __init__(self, clocks: int) -> None:
        self._clocks = clocks
        super().__init__({"rx": In(1), "valid": Out(1), "data": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rx = Signal(init=1)
        m.submodules.synchroniser = FFSynchronizer(self.rx, rx, init=1)
        timer = Signal(range(self._clocks + self._clocks // 2))
        left = Signal(range(10))  # bits still to come
        bits = Signal(8, reset_less=True)
        m.d.comb += [
            self.data.eq(bits),
            self.valid.eq((left == 1) & (timer == 0) & rx),
        ]
        with m.If(left == 0), m.If(~rx):  # the start bit; from its edge to the middle of the first data bit
            m.d.sync += [left.eq(9), timer.eq(self._clocks + self._clocks // 2 - 1)]
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [left.eq(left - 1), timer.eq(self._clocks - 1)]
            with m.If(left != 1):
                m.d.sync += bits.eq(Cat(bits[1:], rx))
        return m


class Transmitter(wiring.Component):
    """Bytes to bits.

    Parameters
    ----------
    clocks : int
        Clocks of a bit.

    Members
    -------
    tx : Out(1)
        The line.
    valid, ready, data : In(1), Out(1), In(8)
        A byte is taken in a clock in which both valid and ready are 1.
    """

    def __init__(self, clocks: int) -> None:
        self._clocks = clocks
        super().__init__({"tx": Out(1, init=1), "valid": In(1), "ready": Out(1), "data": In(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        timer = Signal(range(self._clocks))
        bits = Signal(9, init=0x1FF)
        left = Signal(range(11))
        m.d.comb += self.ready.eq((left == 0) & (timer == 0))
        with m.If(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Elif(left != 0):
            m.d.sync += [
                Cat(self.tx, bits).eq(Cat(bits, Const(1, 1))),
                left.eq(left - 1),
                timer.eq(self._clocks - 1),
            ]
        with m.Elif(self.valid):
            m.d.sync += [Cat(bits).eq(Cat(Const(0, 1), self.data)), left.eq(10)]
        return m
