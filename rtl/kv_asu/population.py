"""How many lines are tracked, and how many of them are marked cold.

What changes the counts is known last in its clock. They take it a clock later, from registers; whether there is a
marked line at all has to be known at once, and is told from the count and the change that is on its way to it.
"""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.params import Params


class Population(wiring.Component):
    """Members: ``clear``; this clock's ``insert`` into a free slot, ``demote``, ``warm`` (a marked line was touched or
    spilled) and ``pop`` (a marked line was evicted); the counts ``tracked`` and ``cold``, a clock behind; ``marked``
    and ``marked_before``: a line has a cold mark, after this clock's demotion and before it.
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
        insert, demote, warm, pop = (Signal(name=name) for name in ("inserted", "demoted", "warmed", "popped"))
        m.d.sync += [
            insert.eq(self.insert),
            demote.eq(self.demote),
            warm.eq(self.warm),
            pop.eq(self.pop),
            self.tracked.eq(self.tracked + insert - pop),
            self.cold.eq(self.cold + demote - warm - pop),
        ]
        with m.If(self.clear):
            m.d.sync += [event.eq(0) for event in (insert, demote, warm, pop)]
            m.d.sync += [self.tracked.eq(0), self.cold.eq(0)]
        fewer = warm + pop - demote  # -1 to 2, by which the count is behind
        m.d.comb += [
            self.marked_before.eq(~Array([self.cold == 0, self.cold == 1, self.cold == 2, 0])[fewer[:2]]),
            self.marked.eq(self.marked_before | self.demote),
        ]
        return m
