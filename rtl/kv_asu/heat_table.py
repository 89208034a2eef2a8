"""The decision: what one request does to the table, from the ways of its window as they stand in this clock.

A request whose line has a slot takes that slot. Another takes the first free slot of its window in probe order; else,
unless reclaiming is off, the first slot whose line is cold, which is spilled; else its line stays untracked.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import (
    COUNT_WIDTH,
    MAX_COUNT,
    half_write_layout,
    place_layout,
    row_in_bank,
    settings_layout,
    slot_layout,
    touch_write_layout,
)
from kv_asu.lookup import way_layout
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
    return Cat(bit & ~bits[:index].any() for index, bit in enumerate(bits))


def chosen(select: Value, values: list[Value]) -> Value:
    """The value whose select bit is set; 0 when none is."""
    result = Value.cast(values[0]) & select[0].replicate(len(Value.cast(values[0])))
    for bit, value in zip(select[1:], values[1:], strict=True):
        result = result | (Value.cast(value) & bit.replicate(len(Value.cast(value))))
    return result


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
    tail : In(slot_layout)
        Where the cold list ends.
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
                "ways": In(data.ArrayLayout(way_layout(params), params.window)),
                "now": In(params.stamp_width),
                "settings": In(settings_layout(params)),
                "demote": In(half_write_layout(params)),
                "tail": In(slot_layout(params)),
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
        ways = [self.ways[bank] for bank in banks]

        def each(name: str, values: object) -> Signal:
            signal = Signal(p.window, name=name)
            m.d.comb += signal.eq(Cat(values))
            return signal

        # What every way is.
        rows = [Signal.like(self.place.row, name=f"row{bank}") for bank in banks]
        m.d.comb += [row.eq(row_in_bank(self.place, bank)) for bank, row in enumerate(rows)]
        is_here = [lambda slot, bank=bank: (slot.bank == bank) & (slot.row == rows[bank]) for bank in banks]
        demoted = [self.demote.enable & is_here[bank](self.demote.slot) for bank in banks]
        demote_half = each("demote_half", (Mux(demoted[b], self.demote.half, ways[b].demote_half) for b in banks))
        marked = each("marked", (ways[b].touch.cold_half ^ demote_half[b] for b in banks))
        tracked = each("tracked", (ways[b].touch.tracked_half ^ ways[b].evict_half for b in banks))
        free = each("free", ~tracked)
        levels = [Signal(2, name=f"level{bank}") for bank in banks]
        m.d.comb += [levels[bank].eq(Mux(marked[bank], 0, ways[bank].level)) for bank in banks]
        cold = each("cold", (tracked[bank] & (levels[bank] == 0) for bank in banks))

        # Which one the request takes.
        hits = each("hits", (ways[bank].match & tracked[bank] for bank in banks))
        first_free = each("first_free", self._first_in_probe_order(m, free))
        first_cold = each("first_cold", self._first_in_probe_order(m, cold))
        hit = Signal()
        has_free = Signal()
        reclaims = Signal()
        m.d.comb += [
            hit.eq(hits.any()),
            has_free.eq(free.any()),
            reclaims.eq(~hit & ~has_free & cold.any() & ~self.settings.reclaim_off),
        ]
        takes = each(
            "takes",
            (
                hits[bank] | (~hit & Mux(has_free, first_free[bank], first_cold[bank] & ~self.settings.reclaim_off))
                for bank in banks
            ),
        )

        # What becomes of it.
        before = Signal(2)
        count = Signal(COUNT_WIDTH)
        decayed = Signal(COUNT_WIDTH)
        after_count = Signal(COUNT_WIDTH)
        m.d.comb += [
            before.eq(chosen(hits, levels)),
            count.eq(chosen(hits, [way.touch.count for way in ways])),
            decayed.eq(Mux(before == 0, Array([count, count >> 1, 0, 0])[self.settings.decay], count)),
            after_count.eq(Mux(decayed == MAX_COUNT, MAX_COUNT, decayed + 1)),
        ]

        taken = Signal()
        m.d.comb += taken.eq(self.valid & (hit | has_free | reclaims))
        with m.If(self.valid):
            m.d.comb += [
                self.tag.hit.eq(hit),
                self.tag.before.eq(before),
                self.tag.spill_valid.eq(reclaims),
            ]
        with m.If(taken):
            m.d.comb += [
                self.tag.tracked.eq(1),
                self.tag.after.eq(t_level_when_touched(after_count, self.settings)),
                self.tag.count.eq(after_count),
                self.tag.slot.eq(chosen(takes, [Cat(Const(bank, p.log2_window), rows[bank]) for bank in banks])),
            ]
        with m.If(self.valid & reclaims):
            m.d.comb += self.tag.spill_line.eq(chosen(first_cold, [way.touch.line for way in ways]))

        m.d.comb += [
            self.write.banks.eq(Mux(self.valid, takes, 0)),
            self.write.place.eq(self.place),
            self.write.touch.line.eq(self.line),
            self.write.touch.count.eq(after_count),
            self.write.touch.stamp.eq(self.now),
            self.write.touch.tracked_half.eq(~chosen(takes, [way.evict_half for way in ways])),
            self.write.touch.cold_half.eq((takes & demote_half).any()),
            self.touched_tail.eq(self.valid & (takes & Cat(is_here[b](self.tail) for b in banks)).any()),
            self.was_tracked.eq(self.valid & (takes & tracked).any()),
            self.was_marked.eq(self.valid & (takes & tracked & marked).any()),
            self.was_cold.eq(self.valid & (takes & cold).any()),
        ]
        return m

    def _first_in_probe_order(self, m: Module, bits: Signal) -> Value:
        """Probe order is from the home bank up, then the wrapped banks of the next row."""
        ahead = Signal(self.params.window, name=f"{bits.name}_ahead")
        m.d.comb += ahead.eq(bits & ~self.place.wrapped)
        return Mux(ahead.any(), lowest(ahead), lowest(bits))
