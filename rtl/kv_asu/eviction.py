"""Eviction: answers evict commands from the tail of the recency list."""

from __future__ import annotations

from amaranth.hdl import Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import half_write_layout, touch_layout
from kv_asu.params import Params
from kv_asu.register_map import VictimStatus


class Eviction(wiring.Component):
    """Decides an evict command, after the request of the same clock.

    Members
    -------
    valid : In(1)
        A command is being decided.
    active : In(1)
    marked : In(1)
        A line has a cold mark: the one at the tail, then.
    unmarked_cold : In(1)
        A line is cold, and has no mark yet.
    tail : In(slot), tail_ready : In(1), touched_tail : In(1), next_tail : In(slot)
    touch : In(1), touched_slot : In(slot), touched : In(touch_layout)
        The touch that the recency list takes in this clock, to keep the memory of line numbers.
    status : Out(VictimStatus), line : Out(line_width)
    wish : Out(1)
        The tail is to go on to the next line.
    step : Out(1)
        It does: the line it stands on is taken out, or touched in this clock.
    pop : Out(1)
        It is taken out.
    evict : Out(half_write_layout)
        Made on a step: a request that took the tail's line has set its half of the bit to fit.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        slot = params.log2_entries
        super().__init__(
            {
                "valid": In(1),
                "active": In(1),
                "marked": In(1),
                "unmarked_cold": In(1),
                "tail": In(slot),
                "tail_ready": In(1),
                "touched_tail": In(1),
                "next_tail": In(slot),
                "touch": In(1),
                "touched_slot": In(slot),
                "touched": In(touch_layout(params)),
                "status": Out(2),
                "line": Out(params.line_width),
                "wish": Out(1),
                "step": Out(1),
                "pop": Out(1),
                "evict": Out(half_write_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # A third copy of the line numbers, read at the tail. A slot is written a clock before the tail can get there.
        word = data.StructLayout({"line": self.params.line_width, "tracked_half": 1})
        m.submodules.lines = lines = Memory(shape=word, depth=self.params.entries, init=[])
        read, write = lines.read_port(), lines.write_port()
        m.d.comb += [
            read.addr.eq(self.next_tail),
            write.en.eq(self.touch),
            write.addr.eq(self.touched_slot),
            write.data.line.eq(self.touched.line),
            write.data.tracked_half.eq(self.touched.heat.tracked_half),
        ]

        m.d.comb += [
            self.wish.eq(self.valid & self.active & self.marked),
            self.step.eq(self.wish & self.tail_ready),
            self.pop.eq(self.step & ~self.touched_tail),
            self.evict.enable.eq(self.step),
            self.evict.slot.eq(self.tail),
            self.evict.half.eq(read.data.tracked_half),
            self.line.eq(Mux(self.pop, read.data.line, 0)),
        ]
        with m.If(self.pop):
            m.d.comb += self.status.eq(VictimStatus.FOUND)
        with m.Elif(self.valid & self.active & (self.marked | self.unmarked_cold)):
            m.d.comb += self.status.eq(VictimStatus.RETRY)
        return m
