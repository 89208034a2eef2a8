"""The configuration-extend port: how config-space accesses reach a block, and when a read counts.

Names and timing are Xilinx's, so that a PCI Express hard block connects with no glue.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

REGISTER_NUMBER_WIDTH = 10

#: The port as a config space sees it: (name, width, direction).
PINS = (
    ("read_received", 1, In),
    ("write_received", 1, In),
    ("register_number", REGISTER_NUMBER_WIDTH, In),
    ("function_number", 8, In),
    ("write_data", 32, In),
    ("write_byte_enable", 4, In),
    ("read_data", 32, Out),
    ("read_data_valid", 1, Out),
)


def cfg_ext_members(prefix: str = "cfg_ext_", *, flip: bool = False) -> dict[str, Member]:
    """The port's members, named ``prefix`` and the pin's name; ``flip``: as whoever makes the accesses sees it."""
    return {
        f"{prefix}{name}": Member(direction.flip() if flip else direction, width) for name, width, direction in PINS
    }


class ReadAcceptor(wiring.Component):
    """Tells new reads from one that its master holds until it sees the answer.

    A read is answered in the clock after it. Still there in that clock, for the same register, it is the read that is
    being answered; for another register it is a new one.

    Members
    -------
    request : In(1)
        A read for this block.
    register_number : In(10)
        Which DWORD.
    accept : Out(1)
        It is a new read: answer it in the next clock.
    answering : Out(1)
        The clock in which the last accepted read is answered.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "request": In(1),
                "register_number": In(REGISTER_NUMBER_WIDTH),
                "accept": Out(1),
                "answering": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        answered = Signal(REGISTER_NUMBER_WIDTH)
        held = self.answering & (self.register_number == answered)
        m.d.comb += self.accept.eq(self.request & ~held)
        m.d.sync += self.answering.eq(self.accept)
        with m.If(self.accept):
            m.d.sync += answered.eq(self.register_number)
        return m


def byte_mask(byte_enable: Value) -> Value:
    """The 32 bits that four byte enables stand for."""
    return Cat(enable.replicate(8) for enable in byte_enable)
