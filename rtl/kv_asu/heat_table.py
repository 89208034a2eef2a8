"""The decision: what one request does to the table, from the ways of its window as they stand in this clock.

A request whose line has a slot takes that slot. Another takes the first free slot of its window in probe order; else,
unless reclaiming is off, the first slot whose line is cold, which is spilled; else its line stays untracked.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import (
    COUNT_WIDTH,
    half_write_layout,
    place_layout,
    row_in_bank,
    settings_layout,
    touch_write_layout,
    ways_layout,
    where_in,
)
from kv_asu.params import Params
from kv_asu.t_level import t_level_when_touched


def tag_layout(params: Params) -> data.StructLayout:
    """The answer to a request, named like the pins."""
    return data.StructLayout(
        {
            "tracked": 1,
            "hit": 1,
            "before": 2,
            "after": 2,
            "count": COUNT_WIDTH,
            "slot": params.log2_entries,
            "spill_valid": 1,
            "spill_line": params.line_width,
        }
    )


def lowest(bits: Value) -> Value:
    """The lowest set bit alone."""
    width = len(bits)
    below = (bits << 1)[:width]  # grows to: a lower bit is set
    for step in range((width - 1).bit_length()):
        below = below | (below << (1 << step))[:width]
    return bits & ~below


def chosen(select: Value, values: list[Value]) -> Value:
    """The value whose select bit is set; 0 when none is."""
    alone = [Mux(bit, value, 0) for bit, value in zip(select, values, strict=True)]
    return reduce(or_, alone)


class HeatTable(wiring.Component):
    """Decides a request and writes its slot, in the clock in which its ways are known.

    Members
    -------
    valid : In(1)
        A request is being decided, and the core is active.
    line, place, ways : In
        From its lookup.
    now : In(stamp_width)
        Its tick.
    settings : In(settings_layout)
    demote : In(half_write_layout)
        The line being marked cold in this clock, before the request.
    evict : In(half_write_layout)
        The line at the end of the cold list, and whether an evict command takes it: only if the request does not.
    tag : Out(tag_layout)
        The answer; all 0 without ``valid``.
    write : Out(touch_write_layout)
        What goes into the slot.
    touched_tail : Out(1)
        The request took the slot at the tail.
    was_tracked : Out(1)
        The slot it took had a line: its own or the spilled one.
    was_marked : Out(1)
        ... with a cold mark.
    was_cold : Out(1)
        ... at T-level 0.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "valid": In(1),
                "line": In(params.line_width),
                "place": In(place_layout(params)),
                "ways": In(ways_layout(params)),
                "now": In(params.stamp_width),
                "settings": In(settings_layout(params)),
                "demote": In(half_write_layout(params)),
                "evict": In(half_write_layout(params)),
                "tag": Out(tag_layout(params)),
                "write": Out(touch_write_layout(params)),
                "touched_tail": Out(1),
                "was_tracked": Out(1),
                "was_marked": Out(1),
                "was_cold": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        banks = range(p.window)
        ways = self.ways

        def each(name: str, bits: Value) -> Signal:
            """One bit for each bank."""
            signal = Signal(p.window, name=name)
            m.d.comb += signal.eq(bits)
            return signal

        # Which one the request takes.
        first_free = each("first_free", self._first_in_probe_order(m, "free", ways.free))
        first_cold = each("first_cold", self._first_in_probe_order(m, "cold", ways.cold))
        hit = Signal()
        has_free = Signal()
        reclaims = Signal()
        m.d.comb += [
            hit.eq(ways.hits.any()),
            has_free.eq(ways.free.any()),
            reclaims.eq(~hit & ~has_free & ways.cold.any() & ~self.settings.reclaim_off),
        ]
        inserts = Mux(has_free, first_free, Mux(self.settings.reclaim_off, 0, first_cold))
        takes = each("takes", ways.hits | Mux(hit, 0, inserts))

        # What becomes of it.
        before = Signal(2)
        count = Signal(COUNT_WIDTH)
        after = Signal(2)
        new_level = t_level_when_touched(Const(0), Const(0), self.settings)
        m.d.comb += [
            before.eq(chosen(ways.hits, list(ways.levels))),
            count.eq(Mux(hit, chosen(ways.hits, list(ways.next_counts)), 1)),
            after.eq(Mux(hit, chosen(ways.hits, list(ways.next_levels)), new_level)),
        ]

        taken = Signal()
        lines = [touch.line for touch in ways.touches]
        slots = [Cat(Const(bank, p.log2_window), row_in_bank(self.place, bank)) for bank in banks]
        m.d.comb += [
            taken.eq(self.valid & (hit | has_free | reclaims)),
            self.tag.tracked.eq(taken),
            self.tag.hit.eq(self.valid & hit),
            self.tag.before.eq(Mux(self.valid, before, 0)),
            self.tag.after.eq(Mux(taken, after, 0)),
            self.tag.count.eq(Mux(taken, count, 0)),
            self.tag.slot.eq(Mux(taken, chosen(takes, slots), 0)),
            self.tag.spill_valid.eq(self.valid & reclaims),
            self.tag.spill_line.eq(Mux(self.tag.spill_valid, chosen(first_cold, lines), 0)),
        ]
        # A line being marked cold in this clock is cold already, and one that is being evicted in it stays: only their
        # halves of the bits have to know, and whether those change is known late.
        demoted = Signal()
        kept = Signal()
        m.d.comb += [
            self.touched_tail.eq(self.valid & self._takes_slot(takes, self.evict.slot)),
            demoted.eq(self.demote.enable & self._takes_slot(takes, self.demote.slot)),
            kept.eq(self.evict.enable & self.touched_tail),
            self.write.banks.eq(Mux(self.valid, takes, 0)),
            self.write.place.eq(self.place),
            self.write.touch.line.eq(self.line),
            self.write.touch.heat.count.eq(count),
            self.write.touch.heat.stamp.eq(self.now),
            self.write.touch.heat.tracked_half.eq(~Mux(kept, self.evict.half, (takes & ways.evict_halves).any())),
            self.write.touch.heat.cold_half.eq(Mux(demoted, self.demote.half, (takes & ways.demote_halves).any())),
            self.was_tracked.eq(self.valid & (hit | reclaims)),
            self.was_marked.eq(self.valid & ((takes & ways.marked).any() | demoted)),
            self.was_cold.eq(self.valid & (takes & ways.cold).any()),
        ]
        return m

    def _takes_slot(self, takes: Value, slot: data.View) -> Value:
        """Whether the slot is the one taken."""
        return (takes & where_in(self.place, slot)).any()

    def _first_in_probe_order(self, m: Module, name: str, bits: Value) -> Value:
        """Probe order is from the home bank up, then the wrapped banks of the next row."""
        ahead = Signal(self.params.window, name=f"{name}_ahead")
        m.d.comb += ahead.eq(bits & ~self.place.wrapped)
        return Mux(ahead.any(), lowest(ahead), lowest(bits))
