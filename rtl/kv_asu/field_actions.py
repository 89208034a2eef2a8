"""Register fields in hardware: one small component for each access kind that acts on writes.

Each sees the writes to its register through a :class:`FieldWrite` port; ``value`` is what a read returns.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class FieldWrite(wiring.Signature):
    """A register write as one field sees it.

    Parameters
    ----------
    width : int
        The field's bits.

    Members
    -------
    strobe : Out(1)
        The write is accepted, in this clock.
    data, mask : Out(width)
        What is written, and 1 for each bit whose byte is enabled.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"strobe": Out(1), "data": Out(width), "mask": Out(width)})


class ReadWrite(wiring.Component):
    """Software writes it, hardware reads it.

    Parameters
    ----------
    width : int
        The field's bits.
    reset : int
        Its value after reset.
    maximum : int
        The greatest value that is ever accepted; bits that it does not need are not kept.

    Members
    -------
    write : In(FieldWrite(width))
    merged : Out(width)
        What the field becomes if the write in this clock is accepted.
    value : Out(width)
    """

    def __init__(self, width: int, *, reset: int, maximum: int) -> None:
        self._reset = reset
        self._maximum = maximum
        super().__init__({"write": In(FieldWrite(width)), "merged": Out(width), "value": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal(self._maximum.bit_length(), init=self._reset)
        m.d.comb += self.value.eq(kept)
        m.d.comb += self.merged.eq((self.write.data & self.write.mask) | (self.value & ~self.write.mask))
        with m.If(self.write.strobe):
            m.d.sync += kept.eq(self.merged)
        return m


class WriteOneToClear(wiring.Component):
    """Hardware sets it, software clears it by writing 1; set and cleared in the same clock, it stays set.

    Members
    -------
    write : In(FieldWrite(1))
    set : In(1)
    value : Out(1)
    """

    def __init__(self) -> None:
        super().__init__({"write": In(FieldWrite(1)), "set": In(1), "value": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clear = self.write.strobe & self.write.data & self.write.mask
        m.d.sync += self.value.eq(self.set | (self.value & ~clear))
        return m


class WriteOneToDo(wiring.Component):
    """Writing 1 starts something; reads 0.

    Members
    -------
    write : In(FieldWrite(1))
    do : Out(1)
        In the clock of the write.
    """

    def __init__(self) -> None:
        super().__init__({"write": In(FieldWrite(1)), "do": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.do.eq(self.write.strobe & self.write.data & self.write.mask)
        return m


class Operation(wiring.Component):
    """What a :class:`WriteOneToDo` starts and the core ends some clocks later. One at a time: while one runs, another
    is not begun.

    Members
    -------
    do : In(1)
        A start is asked for.
    begin : Out(1)
        In the same clock: it is granted.
    start : Out(1)
        One clock later: tells the core.
    done : In(1)
        The core ends it.
    finished : Out(1)
        It has ended, and no other was begun since.
    """

    def __init__(self) -> None:
        super().__init__({"do": In(1), "begin": Out(1), "start": Out(1), "done": In(1), "finished": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = Signal()
        m.d.comb += self.begin.eq(self.do & (~running | self.done))
        m.d.sync += self.start.eq(self.begin)
        with m.If(self.begin):
            m.d.sync += [running.eq(1), self.finished.eq(0)]
        with m.Elif(self.done):
            m.d.sync += [running.eq(0), self.finished.eq(1)]
        return m
