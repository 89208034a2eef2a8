"""One port's way through the table: address -> line -> hash -> window of slots -> what each slot holds.

::

    address ─ granule mask ─ line ──┬─ hash (hash_stages) ─ window ─ memories ─ (table_stages) ─ ways
                                    └──────────────── line, window ─────────────────────────────┘

Everything is decided at the end of this pipeline, one operation of each kind a clock. An operation that has read its
slots may have missed what older ones decide; so every stage behind the memories lays the last clock's writes over what
it holds. Once per stage is enough for any number of stages, and is all there is to hazards.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kv_asu.layouts import (
    half_write_layout,
    place_layout,
    row_in_bank,
    settings_layout,
    touch_layout,
    touch_write_layout,
)
from kv_asu.murmur3 import Murmur3
from kv_asu.params import LINE_BITS, Params
from kv_asu.t_level import t_level


def way_layout(params: Params) -> data.StructLayout:
    """What one slot of the window holds, as the operation sees it."""
    return data.StructLayout(
        {
            "touch": touch_layout(params),
            "evict_half": 1,
            "demote_half": 1,
            "match": 1,  # the slot's line number is the operation's
            "level": 2,  # its T-level by counter and age
        }
    )


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
    ahead : In(stamp_width)
        The tick of the one to be decided in the next clock.
    touch, evict, demote : In
        This clock's writes. They reach the memories at its end.
    clear : In(1)
        Empty row ``clear_row`` of every bank instead.
    line : Out(line_width)
    place : Out(place_layout)
    ways : Out(way_layout) of every bank
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
                "touch": In(touch_write_layout(params)),
                "evict": In(half_write_layout(params)),
                "demote": In(half_write_layout(params)),
                "clear": In(1),
                "clear_row": In(row_width),
                "line": Out(params.line_width),
                "place": Out(place_layout(params)),
                "ways": Out(data.ArrayLayout(way_layout(params), params.window)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line, place = self._find_window(m)
        last = self._remember_writes(m)
        ways = self._read(m, place)
        line, place = self._delay(m, "read_line", line), self._delay(m, "read_place", place)

        stages = self.params.table_stages
        if stages >= 1:
            ways = self._delay_ways(
                m, "held", self._settle(m, "read", ways, line, place, last, self.settings, self.now)
            )
            line, place = self._delay(m, "held_line", line), self._delay(m, "held_place", place)
        # Classified a clock before it is decided, an operation is judged by the tick it will be decided in.
        now = self.ahead if stages == 2 else self.now
        ways = self._classify(m, ways, line, now)
        if stages == 2:
            ways = self._delay_ways(
                m, "decided", self._settle(m, "classified", ways, line, place, last, self.settings, now)
            )
            line, place = self._delay(m, "decided_line", line), self._delay(m, "decided_place", place)
        ways = self._settle(m, "now", ways, line, place, last, self.decide_settings, self.now)

        m.d.comb += [self.line.eq(line), self.place.eq(place)]
        m.d.comb += [self.ways[bank].eq(way) for bank, way in enumerate(ways)]
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
        place = Signal(place_layout(p))
        m.d.comb += [
            place.row.eq(pipeline.hash[p.log2_window : p.log2_entries] & self.row_mask),
            place.next_row.eq((place.row + 1) & self.row_mask),
            place.wrapped.eq(Cat(bank < home_bank for bank in range(p.window))),
        ]
        return line, place

    def _delay(self, m: Module, name: str, value: data.View) -> data.View:
        """The value a clock later; what it belongs to says whether it counts, so it needs no reset."""
        delayed = Signal.like(value, name=name, reset_less=True)
        m.d.sync += delayed.eq(value)
        return delayed

    def _delay_ways(self, m: Module, name: str, ways: list[data.View]) -> list[data.View]:
        return [self._delay(m, f"{name}_way{bank}", way) for bank, way in enumerate(ways)]

    def _read(self, m: Module, place: data.View) -> list[data.View]:
        """The memories: three to a bank, for the three parties that write."""
        p = self.params
        ways = []
        for bank in range(p.window):
            way = Signal(way_layout(p), name=f"way{bank}")
            ways.append(way)
            row = row_in_bank(place, bank)
            touched = self.touch.banks[bank]
            touch_row = row_in_bank(self.touch.place, bank)
            for name, shape, enable, address, value, word in (
                ("touch", touch_layout(p), touched, touch_row, self.touch.touch, way.touch),
                ("evict", 1, *self._half_write(self.evict, bank), way.evict_half),
                ("demote", 1, *self._half_write(self.demote, bank), way.demote_half),
            ):
                memory = Memory(shape=shape, depth=p.rows, init=[])
                m.submodules[f"{name}_bank{bank}"] = memory
                read, write = memory.read_port(), memory.write_port()
                m.d.comb += [
                    read.addr.eq(row),
                    Value.cast(word).eq(Value.cast(read.data)),
                    write.en.eq(enable | self.clear),
                    write.addr.eq(Mux(self.clear, self.clear_row, address)),
                    Value.cast(write.data).eq(Mux(self.clear, 0, Value.cast(value))),
                ]
        return ways

    @staticmethod
    def _half_write(write: data.View, bank: int) -> tuple[Value, Value, Value]:
        return write.enable & (write.slot.bank == bank), write.slot.row, write.half

    def _remember_writes(self, m: Module) -> tuple[data.View, data.View, data.View]:
        p = self.params
        touch = Signal(touch_write_layout(p), name="last_touch")
        evict = Signal(half_write_layout(p), name="last_evict")
        demote = Signal(half_write_layout(p), name="last_demote")
        m.d.sync += [touch.eq(self.touch), evict.eq(self.evict), demote.eq(self.demote)]
        return touch, evict, demote

    def _classify(self, m: Module, ways: list[data.View], line: Value, now: Value) -> list[data.View]:
        """Is the slot's line the operation's, and how hot is it?"""
        classified = []
        for bank, way in enumerate(ways):
            view = Signal(way_layout(self.params), name=f"classified{bank}")
            age = Signal(self.params.stamp_width, name=f"age{bank}")
            m.d.comb += [
                age.eq(now - way.touch.stamp),
                view.eq(way),
                view.match.eq(way.touch.line == line),
                view.level.eq(t_level(way.touch.count, age, self.settings)),
            ]
            classified.append(view)
        return classified

    def _settle(
        self,
        m: Module,
        name: str,
        ways: list[data.View],
        line: Value,
        place: data.View,
        last: tuple[data.View, data.View, data.View],
        settings: data.View,
        now: Value,
    ) -> list[data.View]:
        """The ways with the last clock's writes laid over them."""
        p = self.params
        touch, evict, demote = last
        age = Signal(p.stamp_width, name=f"{name}_last_age")
        match = Signal(name=f"{name}_last_match")
        level = Signal(2, name=f"{name}_last_level")
        m.d.comb += [
            age.eq(now - touch.touch.stamp),
            match.eq(touch.touch.line == line),
            level.eq(t_level(touch.touch.count, age, settings)),
        ]
        settled = []
        for bank, way in enumerate(ways):
            row = Signal.like(place.row, name=f"{name}_row{bank}")
            touched = Signal(name=f"{name}_touched{bank}")
            view = Signal(way_layout(p), name=f"{name}_settled{bank}")
            m.d.comb += [
                row.eq(row_in_bank(place, bank)),
                touched.eq(touch.banks[bank] & (row_in_bank(touch.place, bank) == row)),
                view.touch.eq(Mux(touched, touch.touch, way.touch)),
                view.match.eq(Mux(touched, match, way.match)),
                view.level.eq(Mux(touched, level, way.level)),
                view.evict_half.eq(Mux(self._wrote(evict, bank, row), evict.half, way.evict_half)),
                view.demote_half.eq(Mux(self._wrote(demote, bank, row), demote.half, way.demote_half)),
            ]
            settled.append(view)
        return settled

    @staticmethod
    def _wrote(write: data.View, bank: int, row: Value) -> Value:
        return write.enable & (write.slot.bank == bank) & (write.slot.row == row)
