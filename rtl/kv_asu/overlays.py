"""A clock's writes laid over what an operation has read of its window: slots, or ways once they are classified.

Marks first, then the touch: a request that takes the slot at the tail wins over the eviction that meets it.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data

from kv_asu.layouts import (
    COUNT_WIDTH,
    banks_met,
    collisions_layout,
    replaced,
    rows_meet,
    slots_layout,
    ways_layout,
)
from kv_asu.params import Params
from kv_asu.records import mux, record
from kv_asu.t_level import count_when_touched, t_level, t_level_when_touched


def collisions(m: Module, params: Params, name: str, place: data.View, line: Value, touch: data.View) -> data.View:
    """Where a request would write in an operation's window; whether it writes is known later."""
    met = record(collisions_layout(params), f"{name}_met")
    m.d.comb += [met.touched.eq(rows_meet(place, touch.place)), met.line.eq(touch.touch.line == line)]
    return met


def with_marks(
    m: Module, name: str, held: data.View, place: data.View, evict: data.View, demote: data.View
) -> data.View:
    """Slots or ways with an eviction's and a demotion's halves of their bits."""
    marked = record(held.shape(), f"{name}_marked")
    evicted, demoted = banks_met(place, evict), banks_met(place, demote)
    m.d.comb += [
        marked.eq(held),
        marked.evict_halves.eq(replaced(held.evict_halves, evicted, evict.half)),
        marked.demote_halves.eq(replaced(held.demote_halves, demoted, demote.half)),
    ]
    if "hits" in held.shape().members:  # ways
        m.d.comb += [
            marked.hits.eq(held.hits & ~evicted),
            marked.free.eq(held.free | evicted),
            marked.cold.eq(held.cold & ~evicted),
            marked.marked.eq((held.marked | demoted) & ~evicted),
        ]
    return marked


def slots_with_touch(
    m: Module, params: Params, name: str, slots: data.View, met: data.View, touch: data.View
) -> data.View:
    """Slots with what a request wrote."""
    settled = record(slots_layout(params), f"{name}_settled")
    touched = touch.banks & met.touched
    m.d.comb += settled.eq(slots)
    for bank in range(params.window):
        m.d.comb += settled.touches[bank].eq(mux(touched[bank], touch.touch, slots.touches[bank]))
    return settled


def ways_with_touch(
    m: Module,
    params: Params,
    name: str,
    ways: data.View,
    met: data.View,
    touch: data.View,
    settings: data.View,
    now: Value,
    *,
    clocks: int,
) -> data.View:
    """Ways with what a request wrote, some clocks before the tick ``now``: at most a tick each.

    The number of a line touched a clock ago is left out: the decision wants those of cold lines only.
    """
    settled = record(ways_layout(params), f"{name}_settled")
    touched = Signal(params.window, name=f"{name}_touched")
    heat = touch.touch.heat
    age = Signal(range(clocks + 1), name=f"{name}_last_age")
    level = Signal(2, name=f"{name}_last_level")
    next_count = Signal(COUNT_WIDTH, name=f"{name}_last_next_count")
    next_level = Signal(2, name=f"{name}_last_next_level")
    # T1.age is 1 at least: what was touched a clock ago has not expired.
    cold = Const(0) if clocks == 1 else age > settings.t1_age
    m.d.comb += [
        touched.eq(touch.banks & met.touched),
        age.eq(now - heat.stamp),
        level.eq(t_level(heat.count, age, settings)),
        next_count.eq(count_when_touched(heat.count, cold, settings)),
        next_level.eq(t_level_when_touched(heat.count, cold, settings)),
        settled.evict_halves.eq(ways.evict_halves),
        settled.demote_halves.eq(ways.demote_halves),
        settled.hits.eq(Mux(met.line, touched, 0) | (ways.hits & ~touched)),
        settled.free.eq(ways.free & ~touched),
        settled.cold.eq(Mux(cold, touched, 0) | (ways.cold & ~touched)),
        settled.marked.eq(ways.marked & ~touched),
    ]
    for bank in range(params.window):
        line = ways.touches[bank].line
        m.d.comb += [
            settled.touches[bank].heat.eq(mux(touched[bank], heat, ways.touches[bank].heat)),
            settled.touches[bank].line.eq(line if clocks == 1 else Mux(touched[bank], touch.touch.line, line)),
            settled.levels[bank].eq(Mux(touched[bank], level, ways.levels[bank])),
            settled.next_counts[bank].eq(Mux(touched[bank], next_count, ways.next_counts[bank])),
            settled.next_levels[bank].eq(Mux(touched[bank], next_level, ways.next_levels[bank])),
        ]
    return settled
