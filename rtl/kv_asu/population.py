"""How many lines are tracked, and how many of them are marked cold."""

from __future__ import annotations

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.params import Params


class Population(wiring.Component):
    """Members: ``clear``; this clock's ``insert`` into a free slot, ``demote``, ``warm`` (a marked line was touched or
    spilled) and ``pop`` (a marked line was evicted); the counts ``tracked`` and ``cold``; ``marked`` and
    ``marked_before``: a line has a cold mark, after this clock's demotion and before it.
    """

    def __init__(self, params: Params) -> None:
        width = params.log2_entries + 1
        super().__init__(
            {
                "clear": In(1),
                "insert": In(1),
                "demote": In(1),
                "warm": In(1),
                "pop": In(1),
                "tracked": Out(width),
                "cold": Out(width),
                "marked": Out(1),
                "marked_before": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.marked_before.eq(self.cold != 0), self.marked.eq(self.marked_before | self.demote)]
        # What changes them is known late: the sums are there before it.
        fewer = Mux(self.demote, self.cold, self.cold - 1)
        more = Mux(self.demote, self.cold + 1, self.cold)
        fewest = Mux(self.demote, self.cold - 1, self.cold - 2)
        m.d.sync += [
            self.tracked.eq(
                Mux(self.insert ^ self.pop, Mux(self.pop, self.tracked - 1, self.tracked + 1), self.tracked)
            ),
            self.cold.eq(Mux(self.warm, Mux(self.pop, fewest, fewer), Mux(self.pop, fewer, more))),
        ]
        with m.If(self.clear):
            m.d.sync += [self.tracked.eq(0), self.cold.eq(0)]
        return m
