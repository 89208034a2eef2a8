"""A memory with one read and one write port whose reads see every write, those of the same clock edge included."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class ForwardingMemory(wiring.Component):
    """``read_data`` is, one clock after ``read_address``, what the last write to it left.

    A memory macro does not say what a read returns that meets a write to its address. The addresses are compared from
    registers while the memory is being read, so forwarding costs the read path one multiplexer.
    """

    def __init__(self, shape: data.StructLayout, depth: int) -> None:
        self._shape = shape
        self._depth = depth
        address = (depth - 1).bit_length()
        super().__init__(
            {
                "read_address": In(address),
                "read_data": Out(shape),
                "write_enable": In(1),
                "write_address": In(address),
                "write_data": In(shape),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            read.addr.eq(self.read_address),
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
        ]
        asked = Signal.like(self.read_address, reset_less=True)
        written = Signal()
        written_address = Signal.like(self.write_address, reset_less=True)
        written_data = Signal(self._shape, reset_less=True)
        m.d.sync += [
            asked.eq(self.read_address),
            written.eq(self.write_enable),
            written_address.eq(self.write_address),
            written_data.eq(self.write_data),
        ]
        forward = written & (written_address == asked)
        m.d.comb += Value.cast(self.read_data).eq(Mux(forward, Value.cast(written_data), Value.cast(read.data)))
        return m
