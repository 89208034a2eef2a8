"""Retirement: the oldest line without a cold mark gets one as soon as its age passes T1.age, one line a clock.

At most one line is touched a clock, so no more than one a clock grows cold for long: the mark always comes before the
age would wrap. Retirement goes before the request of the same clock.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import half_write_layout
from kv_asu.links import line_layout
from kv_asu.params import Params


class Retirement(wiring.Component):
    """Decides whether the candidate is marked cold in this clock.

    Members
    -------
    active : In(1)
    candidate : In(line_layout), ready : In(1)
    oldest_stamp : In(stamp_width), oldest_valid : In(1)
        As the recency list has them.
    now, ahead : In(stamp_width), t1_age : In(16)
        The tick of this clock and of the next; T1.age does not change while the core is active.
    wish : Out(1)
        The candidate is to go on to the next line.
    demote : Out(half_write_layout)
        Its line's mark, if it does.
    unmarked_cold : Out(1)
        A line is cold and does not get its mark in this clock.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "active": In(1),
                "candidate": In(line_layout(params)),
                "ready": In(1),
                "oldest_stamp": In(params.stamp_width),
                "oldest_valid": In(1),
                "now": In(params.stamp_width),
                "ahead": In(params.stamp_width),
                "t1_age": In(16),
                "wish": Out(1),
                "demote": Out(half_write_layout(params)),
                "unmarked_cold": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()

        # A stamp is warm from the one whose age is T1.age up to now. Both ends are there when the clock begins, so this
        # is two comparisons side by side, not an age and then a comparison.
        warm_from = Signal(self.params.stamp_width)
        wraps = Signal()  # the stamps between them go through 0
        m.d.sync += [warm_from.eq(self.ahead - self.t1_age), wraps.eq(self.ahead < self.t1_age)]

        def expired(stamp: Value) -> Value:
            after, before = stamp >= warm_from, stamp <= self.now
            return ~Mux(wraps, after | before, after & before)

        m.d.comb += [
            self.wish.eq(self.active & expired(self.candidate.stamp)),
            self.demote.enable.eq(self.wish & self.ready),
            self.demote.slot.eq(self.candidate.slot),
            self.demote.half.eq(~self.candidate.cold_half),
            self.unmarked_cold.eq(self.oldest_valid & expired(self.oldest_stamp)),
        ]
        return m
