"""Queries: a line's T-level, without touching it."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.heat_table import chosen
from kv_asu.layouts import COUNT_WIDTH, ways_layout
from kv_asu.params import Params


class Query(wiring.Component):
    """Decides a query, before the request of the same clock; all answers are 0 for a line without a slot.

    Members
    -------
    valid : In(1)
        A query is being decided, and the core is active.
    ways : In
        From its lookup.
    min_tlevel : In(2), boost : In(1)
    tracked : Out(1), tlevel : Out(2), hit : Out(1)
        As the pins; ``hit`` compares the T-level with the boost in it.
    count : Out(16)
        The access counter.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "valid": In(1),
                "ways": In(ways_layout(params)),
                "min_tlevel": In(2),
                "boost": In(1),
                "tracked": Out(1),
                "tlevel": Out(2),
                "hit": Out(1),
                "count": Out(COUNT_WIDTH),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ways = self.ways
        hits = Signal(self.params.window)
        level = Signal(2)
        m.d.comb += [
            hits.eq(Mux(self.valid, ways.hits, 0)),
            level.eq(chosen(hits, list(ways.levels))),
            self.tracked.eq(hits.any()),
            self.tlevel.eq(Mux(self.tracked & self.boost & (level != 3), level + 1, level)),
            self.hit.eq(self.tracked & (self.tlevel >= self.min_tlevel)),
            self.count.eq(chosen(hits, [touch.heat.count for touch in ways.touches])),
        ]
        return m
