"""One port's way through the table: address -> line -> hash -> window of slots -> what each slot holds.

::

    address ─ granule mask ─ line ──┬─ hash (hash_stages) ─ window ─ memories ─ (table_stages) ─ ways
                                    └──────────────── line, window ─────────────────────────────┘

Everything is decided at the end of this pipeline, one operation of each kind a clock. An operation that has read its
slots may have missed what older ones decide; so every stage behind the memories lays the last clock's writes over what
it holds. Once per stage is enough for any number of stages, and is all there is to hazards; where the memories are
written a clock late, the first stage lays those of the clock before under them.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import (
    banks_of,
    half_write_layout,
    heat_layout,
    place_layout,
    row_in_bank,
    settings_layout,
    slots_layout,
    touch_write_layout,
    ways_layout,
)
from kv_asu.murmur3 import Murmur3
from kv_asu.overlays import collisions, slots_with_touch, ways_with_touch, with_marks
from kv_asu.params import LINE_BITS, Params
from kv_asu.records import record
from kv_asu.t_level import count_when_touched, t_level, t_level_when_touched


class Lookup(wiring.Component):
    """Reads the window of one address a clock; its answer stands at ``ways`` L clocks later.

    Members
    -------
    address : In(addr_width)
    settings, decide_settings : In(settings_layout)
        In force when the ways are classified, and when the operation is decided.
    granule_mask : In(line_width)
        Ones where a line number is kept under the present LINE_SHIFT.
    row_mask : In
        Rows in use, less one.
    now : In(stamp_width)
        The tick of the operation being decided in this clock.
    ahead, far_ahead : In(stamp_width)
        The ticks of those to be decided in the next clock and in the one after.
    touch, evict, demote : In
        This clock's writes. They reach the memories at its end.
    clear : In(1)
        Empty row ``clear_row`` of every bank instead.
    line : Out(line_width)
    place : Out(place_layout)
    ways : Out(ways_layout)
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        row_width = params.log2_entries - params.log2_window
        super().__init__(
            {
                "address": In(params.addr_width),
                "settings": In(settings_layout(params)),
                "decide_settings": In(settings_layout(params)),
                "granule_mask": In(params.line_width),
                "row_mask": In(row_width),
                "now": In(params.stamp_width),
                "ahead": In(params.stamp_width),
                "far_ahead": In(params.stamp_width),
                "touch": In(touch_write_layout(params)),
                "evict": In(half_write_layout(params)),
                "demote": In(half_write_layout(params)),
                "clear": In(1),
                "clear_row": In(row_width),
                "line": Out(params.line_width),
                "place": Out(place_layout(params)),
                "ways": Out(ways_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        line, place = self._find_window(m)
        touch, evict, demote = last = self._remembered(
            m, last_touch=self.touch, last_evict=self.evict, last_demote=self.demote
        )
        # The memories are many and far apart: with a stage to spare they are written a clock later, from registers.
        slots = self._read(m, place, *(last if p.table_stages == 2 else (self.touch, self.evict, self.demote)))
        line, place = self._delay(m, "read_line", line), self._delay_record(m, "read_place", place)

        # Everything about time is as of the clock of the decision.
        if p.table_stages == 2:
            before, *marks = self._remembered(m, earlier_touch=touch, earlier_evict=evict, earlier_demote=demote)
            slots = with_marks(m, "earlier", slots, place, *marks)
            slots = slots_with_touch(m, p, "earlier", slots, collisions(m, p, "earlier", place, line, before), before)
        if p.table_stages >= 1:
            slots = with_marks(m, "read", slots, place, evict, demote)
            slots = slots_with_touch(m, p, "read", slots, collisions(m, p, "read", place, line, touch), touch)
        if p.table_stages == 2:
            # Whether a request writes is known last in its clock, where it would is known early: met a clock ahead.
            met = self._delay_record(m, "held_met", collisions(m, p, "read_next", place, line, self.touch))
            ages = [self._delay(m, f"held_{age.name}", age) for age in self._ages(m, slots, self.far_ahead)]
        if p.table_stages >= 1:
            slots = self._delay_record(m, "held", slots)
            line, place = self._delay(m, "held_line", line), self._delay_record(m, "held_place", place)
        if p.table_stages < 2:
            met = collisions(m, p, "classified", place, line, touch)
            ages = self._ages(m, slots, self.now)
        ways = self._classify(m, slots, line, ages)
        ways = with_marks(m, "classified", ways, place, evict, demote)
        if p.table_stages == 2:
            ways = ways_with_touch(m, p, "classified", ways, met, touch, self.settings, self.ahead, clocks=2)
            # This clock's marks are known in time to be laid over before the decision, its touch is not.
            ways = self._delay_record(m, "decided", with_marks(m, "held_next", ways, place, self.evict, self.demote))
            met = self._delay_record(m, "decided_met", collisions(m, p, "held_next", place, line, self.touch))
            line, place = self._delay(m, "decided_line", line), self._delay_record(m, "decided_place", place)
        ways = ways_with_touch(m, p, "now", ways, met, touch, self.decide_settings, self.now, clocks=1)

        m.d.comb += [self.line.eq(line), self.place.eq(place), self.ways.eq(ways)]
        return m

    def _find_window(self, m: Module) -> tuple[Value, data.View]:
        p = self.params
        line = Signal(p.line_width)
        m.d.comb += line.eq(self.address[LINE_BITS:] & self.granule_mask)
        m.submodules.hash = pipeline = Murmur3(p.line_width, p.hash_stages).create()
        m.d.comb += [pipeline.line.eq(line), pipeline.seed.eq(self.settings.hash_seed)]
        for stage in range(p.hash_stages):
            line = self._delay(m, f"hash{stage}_line", line)

        home_bank = pipeline.hash[: p.log2_window]
        place = record(place_layout(p), "place")
        m.d.comb += [
            place.row.eq(pipeline.hash[p.log2_window : p.log2_entries] & self.row_mask),
            place.next_row.eq((place.row + 1) & self.row_mask),
            # The last bank never is: no home is behind it.
            place.wrapped.eq(Cat(bank < home_bank for bank in range(p.window - 1))),
        ]
        return line, place

    def _delay(self, m: Module, name: str, value: Value) -> Signal:
        """The value a clock later; what it belongs to says whether it counts, so it needs no reset."""
        delayed = Signal.like(value, name=name, reset_less=True)
        m.d.sync += delayed.eq(value)
        return delayed

    def _delay_record(self, m: Module, name: str, value: data.View) -> data.View:
        delayed = record(value.shape(), name, reset_less=True)
        m.d.sync += delayed.eq(value)
        return delayed

    def _remembered(self, m: Module, **writes: data.View) -> list[data.View]:
        """Writes a clock later, under their new names."""
        later = [record(write.shape(), name) for name, write in writes.items()]
        m.d.sync += [remembered.eq(write) for remembered, write in zip(later, writes.values(), strict=True)]
        return later

    def _read(self, m: Module, place: data.View, touch: data.View, evict: data.View, demote: data.View) -> data.View:
        """The memories of each bank: two that requests write, and one for each of the other parties that write."""
        p = self.params
        slots = record(slots_layout(p), "slots")
        evicted, demoted = banks_of(evict, p.window), banks_of(demote, p.window)
        for bank in range(p.window):
            touched, row = touch.banks[bank], row_in_bank(touch.place, bank)
            for name, shape, enable, address, value, word in (
                ("line", p.line_width, touched, row, touch.touch.line, slots.touches[bank].line),
                ("heat", heat_layout(p), touched, row, touch.touch.heat, slots.touches[bank].heat),
                ("evict", 1, evicted[bank], evict.slot.row, evict.half, slots.evict_halves[bank]),
                ("demote", 1, demoted[bank], demote.slot.row, demote.half, slots.demote_halves[bank]),
            ):
                memory = Memory(shape=shape, depth=p.rows, init=[])
                m.submodules[f"{name}_bank{bank}"] = memory
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [
                    read.addr.eq(row_in_bank(place, bank)),
                    Value.cast(word).eq(Value.cast(read.data)),
                    write.en.eq(enable | self.clear),
                    write.addr.eq(Mux(self.clear, self.clear_row, address)),
                    Value.cast(write.data).eq(Mux(self.clear, 0, Value.cast(value))),
                ]
        return slots

    def _ages(self, m: Module, slots: data.View, now: Value) -> list[Signal]:
        """How many ticks ago each slot was touched."""
        ages = [Signal(self.params.stamp_width, name=f"age{bank}") for bank in range(self.params.window)]
        m.d.comb += [age.eq(now - touch.heat.stamp) for age, touch in zip(ages, slots.touches, strict=True)]
        return ages

    def _classify(self, m: Module, slots: data.View, line: Value, ages: list[Signal]) -> data.View:
        """Is the slot's line the operation's, and how hot is it?"""
        p = self.params
        classified = record(ways_layout(p), "classified")
        cold_halves = Cat(touch.heat.cold_half for touch in slots.touches)
        tracked = Cat(touch.heat.tracked_half for touch in slots.touches) ^ slots.evict_halves
        # A mark made from here to the decision makes no difference to what is cold: that line's age is over T1.age now.
        marked = Signal(p.window, name="marked")
        expired = Signal(p.window, name="expired")
        m.d.comb += [
            marked.eq(cold_halves ^ slots.demote_halves),
            expired.eq(Cat(age > self.settings.t1_age for age in ages)),
            classified.touches.eq(slots.touches),
            classified.evict_halves.eq(slots.evict_halves),
            classified.demote_halves.eq(slots.demote_halves),
            classified.hits.eq(tracked & Cat(touch.line == line for touch in slots.touches)),
            classified.free.eq(~tracked),
            classified.cold.eq(tracked & (marked | expired)),
            classified.marked.eq(tracked & marked),
        ]
        for bank, (age, touch) in enumerate(zip(ages, slots.touches, strict=True)):
            count = touch.heat.count
            cold = marked[bank] | expired[bank]
            m.d.comb += [
                classified.levels[bank].eq(Mux(marked[bank], 0, t_level(count, age, self.settings))),
                classified.next_counts[bank].eq(count_when_touched(count, cold, self.settings)),
                classified.next_levels[bank].eq(t_level_when_touched(count, cold, self.settings)),
            ]
        return classified
