"""Event counters: fifteen 64-bit counts of what the core did, latched and shown without disturbing them."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.register_map import Counter

COUNTER_WIDTH = 64

#: How much each counter can advance in one clock, where that is more than one.
_MOST_AT_ONCE = {Counter.DEMOTIONS: 3}


def events_layout() -> data.StructLayout:
    """What happened in one clock: for each counter but CYCLES, by its name in lower case, how much it advances."""
    return data.StructLayout(
        {
            counter.name.lower(): _MOST_AT_ONCE.get(counter, 1).bit_length()
            for counter in Counter
            if counter is not Counter.CYCLES
        }
    )


class Counters(wiring.Component):
    """The counters and their snapshot.

    Events of a clock are counted at its end; a snapshot holds, and a clear forgets, what happened in earlier clocks. In
    one clock, the snapshot takes what the clear is about to forget.

    Members
    -------
    active : In(1)
        The core is active: CYCLES advances.
    events : In(events_layout())
        By how much every other counter advances.
    snapshot, clear : In(1)
        Latch all the counters at once; zero them.
    select : In(4)
        Which counter to show.
    value : Out(64)
        The snapshot of the selected counter, one clock after ``select`` or three after ``snapshot``.

    Attributes
    ----------
    live : dict of Counter to Signal
        The counters themselves.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "active": In(1),
                "events": In(events_layout()),
                "snapshot": In(1),
                "clear": In(1),
                "select": In(range(len(Counter))),
                "value": Out(COUNTER_WIDTH),
            }
        )
        self.live = {counter: Signal(COUNTER_WIDTH, name=counter.name.lower()) for counter in Counter}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Events come late in their clock, and 64 bits are a long carry. Nothing is lost by counting in the next one.
        active, snapshot, clear = Signal(), Signal(), Signal()
        events = Signal(events_layout())
        m.d.sync += [
            active.eq(self.active),
            events.eq(self.events),
            snapshot.eq(self.snapshot),
            clear.eq(self.clear),
        ]
        latched = []
        for counter, count in self.live.items():
            name = counter.name.lower()
            held = Signal(COUNTER_WIDTH, name=f"{name}_snapshot")
            advance = active if counter is Counter.CYCLES else events[name]
            m.d.sync += count.eq(Mux(clear, 0, count) + advance)
            with m.If(snapshot):
                m.d.sync += held.eq(count)
            latched.append(held)
        m.d.sync += self.value.eq(Array(latched)[self.select])
        return m
