"""One port's way through the table: address -> line -> hash -> window of slots -> what each slot holds.

::

    address ─ granule mask ─ line ──┬─ hash (hash_stages) ─ window ─ memories ─ (table_stages) ─ ways
                                    └──────────────── line, window ─────────────────────────────┘

Everything is decided at the end of this pipeline, one operation of each kind a clock. An operation that has read its
slots may have missed what older ones decide; so every stage behind the memories lays the last clock's writes over what
it holds. Once per stage is enough for any number of stages, and is all there is to hazards.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import (
    COUNT_WIDTH,
    banks_met,
    banks_of,
    collisions_layout,
    half_write_layout,
    heat_layout,
    place_layout,
    replaced,
    row_in_bank,
    rows_meet,
    settings_layout,
    slots_layout,
    touch_write_layout,
    ways_layout,
)
from kv_asu.murmur3 import Murmur3
from kv_asu.params import LINE_BITS, Params
from kv_asu.records import mux, record
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
        writes = (self.touch, self.evict, self.demote)
        last = self._remembered(m, "last", ("touch", "evict", "demote"), writes)
        slots = self._read(m, place, last)
        line, place = self._delay(m, "read_line", line), self._delay_record(m, "read_place", place)

        # Before it is decided, an operation is judged by the tick it will be decided in.
        classify_now = self.ahead if p.table_stages == 2 else self.now
        age_now = self.far_ahead if p.table_stages == 2 else self.now
        if p.table_stages == 2:  # its memories have the marks a clock late
            marked = record(slots_layout(p), "marked_slots")
            evict, demote = self._remembered(m, "earlier", ("evict", "demote"), writes=last[1:])
            m.d.comb += [
                marked.touches.eq(slots.touches),
                marked.evict_halves.eq(replaced(slots.evict_halves, banks_met(place, evict), evict.half)),
                marked.demote_halves.eq(replaced(slots.demote_halves, banks_met(place, demote), demote.half)),
            ]
            slots = marked
        if p.table_stages >= 1:
            met = self._collisions(m, "read", place, line, last)
            settled = record(slots_layout(p), "read_settled")
            self._settle_slots(m, "read", settled, slots, met, last)
            slots = self._delay_record(m, "held", settled)
            line, place = self._delay(m, "held_line", line), self._delay_record(m, "held_place", place)
        ages = self._ages(m, settled if p.table_stages == 2 else slots, age_now)
        if p.table_stages == 2:
            ages = [self._delay(m, f"held_{age.name}", age) for age in ages]
        ways = self._classify(m, slots, line, ages)
        met = self._collisions(m, "classified", place, line, last)
        if p.table_stages == 2:
            ways = self._settle(m, "classified", ways, met, last, self.settings, classify_now)
            ways = self._delay_record(m, "decided", ways)
            # Whether this clock writes is known late, and where it would is known early: compared for the next clock.
            met = self._collisions(m, "next", place, line, writes)
            met = self._delay_record(m, "met", met)
            line, place = self._delay(m, "decided_line", line), self._delay_record(m, "decided_place", place)
        ways = self._settle(m, "now", ways, met, last, self.decide_settings, self.now)

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

    def _remembered(
        self, m: Module, name: str, parties: tuple[str, ...], writes: tuple[data.View, ...]
    ) -> tuple[data.View, ...]:
        """What the parties write, a clock later."""
        later = tuple(record(write.shape(), f"{name}_{party}") for write, party in zip(writes, parties, strict=True))
        m.d.sync += [remembered.eq(write) for remembered, write in zip(later, writes, strict=True)]
        return later

    def _read(self, m: Module, place: data.View, last: tuple[data.View, ...]) -> data.View:
        """The memories of each bank: two that requests write, and one for each of the other parties that write."""
        p = self.params
        slots = record(slots_layout(p), "slots")
        evict, demote = self.evict, self.demote
        clear, clear_row = self.clear, self.clear_row
        if p.table_stages == 2:  # marks are many small memories, far apart: they are written a clock later
            _, evict, demote = last
            clear, clear_row = self._delay(m, "clear_marks", clear), self._delay(m, "clear_marks_row", clear_row)
        evicted, demoted = banks_of(evict, p.window), banks_of(demote, p.window)
        touch = self.touch.touch
        for bank in range(p.window):
            touched, row = self.touch.banks[bank], row_in_bank(self.touch.place, bank)
            requests, marks = (self.clear, self.clear_row), (clear, clear_row)
            for name, shape, (clears, cleared), enable, address, value, word in (
                ("line", p.line_width, requests, touched, row, touch.line, slots.touches[bank].line),
                ("heat", heat_layout(p), requests, touched, row, touch.heat, slots.touches[bank].heat),
                ("evict", 1, marks, evicted[bank], evict.slot.row, evict.half, slots.evict_halves[bank]),
                ("demote", 1, marks, demoted[bank], demote.slot.row, demote.half, slots.demote_halves[bank]),
            ):
                memory = Memory(shape=shape, depth=p.rows, init=[])
                m.submodules[f"{name}_bank{bank}"] = memory
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [
                    read.addr.eq(row_in_bank(place, bank)),
                    Value.cast(word).eq(Value.cast(read.data)),
                    write.en.eq(enable | clears),
                    write.addr.eq(Mux(clears, cleared, address)),
                    Value.cast(write.data).eq(Mux(clears, 0, Value.cast(value))),
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

    def _collisions(
        self, m: Module, name: str, place: data.View, line: Value, writes: tuple[data.View, ...]
    ) -> data.View:
        """Where a clock's writes meet the operation's window; whether a request writes is known too late for it."""
        touch, evict, demote = writes
        met = record(collisions_layout(self.params), f"{name}_met")
        m.d.comb += [
            met.touched.eq(rows_meet(place, touch.place)),
            met.evicted.eq(banks_met(place, evict)),
            met.demoted.eq(banks_met(place, demote)),
            met.line.eq(touch.touch.line == line),
        ]
        return met

    def _settle_slots(
        self,
        m: Module,
        name: str,
        settled: data.View,
        slots: data.View,
        met: data.View,
        last: tuple[data.View, ...],
    ) -> Signal:
        """The slots with the last clock's writes laid over them, as ``settled``; in which banks a request wrote."""
        p = self.params
        write, evict, demote = last
        touched = Signal(p.window, name=f"{name}_touched")
        m.d.comb += [
            touched.eq(write.banks & met.touched),
            settled.evict_halves.eq(replaced(slots.evict_halves, met.evicted, evict.half)),
            settled.demote_halves.eq(replaced(slots.demote_halves, met.demoted, demote.half)),
        ]
        for bank in range(p.window):
            m.d.comb += settled.touches[bank].eq(mux(touched[bank], write.touch, slots.touches[bank]))
        return touched

    def _settle(
        self,
        m: Module,
        name: str,
        ways: data.View,
        met: data.View,
        last: tuple[data.View, ...],
        settings: data.View,
        now: Value,
    ) -> data.View:
        """The ways with the last clock's writes laid over them."""
        p = self.params
        settled = record(ways_layout(p), f"{name}_settled")
        touched = self._settle_slots(m, name, settled, ways, met, last)
        heat = last[0].touch.heat
        age = Signal(1 if now is self.now else 2, name=f"{name}_last_age")  # a tick a clock at most
        level = Signal(2, name=f"{name}_last_level")
        next_count = Signal(COUNT_WIDTH, name=f"{name}_last_next_count")
        next_level = Signal(2, name=f"{name}_last_next_level")
        # T1.age is 1 at least: what was touched a clock ago has not expired.
        cold = Const(0) if now is self.now else age > settings.t1_age
        m.d.comb += [
            age.eq(now - heat.stamp),
            level.eq(t_level(heat.count, age, settings)),
            next_count.eq(count_when_touched(heat.count, cold, settings)),
            next_level.eq(t_level_when_touched(heat.count, cold, settings)),
            settled.hits.eq(Mux(met.line, touched, 0) | (ways.hits & ~touched & ~met.evicted)),
            settled.free.eq((ways.free | met.evicted) & ~touched),
            settled.cold.eq(Mux(cold, touched, 0) | (ways.cold & ~touched & ~met.evicted)),
            settled.marked.eq((ways.marked | met.demoted) & ~touched & ~met.evicted),
        ]
        for bank in range(p.window):
            m.d.comb += [
                settled.levels[bank].eq(Mux(touched[bank], level, ways.levels[bank])),
                settled.next_counts[bank].eq(Mux(touched[bank], next_count, ways.next_counts[bank])),
                settled.next_levels[bank].eq(Mux(touched[bank], next_level, ways.next_levels[bank])),
            ]
        return settled
