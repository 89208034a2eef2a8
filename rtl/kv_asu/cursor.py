"""A cursor: it stands on one line of the recency list and steps towards the head, a step a clock.

To step in every clock it must have the way on at hand, so it keeps copies of the memories of newer links and reads them
at where it will stand next. A step follows the link as it stood when the clock began. A touch that is being linked in
that very clock may be taking the line stepped on away to the head: the next clock sees that, and sets the cursor right
from what the touch knew, its newer neighbour. The cursor is then not ready for that one clock.

From memory to memory address is a long way where memories are slow and far apart, and whether the cursor steps is known
late. Where the list follows, there are two copies: one is read where the cursor stays if it does not step, the other
where it goes if it does, and the next clock takes the right one.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.forwarding_memory import ForwardingMemory
from kv_asu.links import line_layout, moved_layout, newer_layout, newer_write_layout
from kv_asu.params import Params


class Cursor(wiring.Component):
    """One cursor.

    A cursor off the list stands on nothing; the next touch puts it on the touched line.

    Members
    -------
    clear : In(1)
        Off the list.
    touch : In(1), touched_slot : In(slot)
        The touch whose links are read in this clock.
    moved, last_moved : In(moved_layout)
        The touch whose links are rewritten in this clock, and in the last.
    head : In(slot)
        The line at the head, before ``moved``.
    unlink_write, push_write : In(newer_write_layout)
        This clock's writes of newer links.
    step : In(1)
        Go on to the newer neighbour; only while ``ready``.
    valid : Out(1)
        It stands on a line.
    taken : Out(1)
        ``moved`` takes that line.
    skips : Out(1)
        Where the list follows: it leaves that line to the touch on its way to the list.
    line : Out(line_layout)
        Which; where the cursor is ``ready``.
    ready : Out(1)
        It may step: neither is the line being touched, nor did the cursor have to be set right.
    next_valid : Out(1), next_line : Out(line_layout)
        Where it will stand in the next clock.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "clear": In(1),
                "touch": In(1),
                "touched_slot": In(params.log2_entries),
                "moved": In(moved_layout(params)),
                "last_moved": In(moved_layout(params)),
                "head": In(params.log2_entries),
                "unlink_write": In(newer_write_layout(params)),
                "push_write": In(newer_write_layout(params)),
                "step": In(1),
                "valid": Out(1),
                "taken": Out(1),
                "skips": Out(1),
                "line": Out(line_layout(params)),
                "ready": Out(1),
                "next_valid": Out(1),
                "next_line": Out(line_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        valid = Signal()
        stands = Signal(line_layout(p))
        stepped = Signal()  # in the last clock

        line = Signal(line_layout(p))  # where the cursor stands, set right
        overtaken = Signal()
        m.d.comb += [
            self.valid.eq(valid),
            self.line.eq(stands),
            overtaken.eq(stepped & self.last_moved.valid & (self.last_moved.line.slot == stands.slot)),
            line.eq(Mux(overtaken, went_on(self.last_moved), stands)),
            self.taken.eq(valid & self.moved.valid & (self.moved.line.slot == line.slot)),
        ]

        # Where it stands in the next clock unless it steps.
        stays = Signal(line_layout(p))
        stays_valid = Signal()
        m.d.comb += [stays_valid.eq(valid | self.moved.valid), stays.eq(line)]
        with m.If(~valid):
            m.d.comb += stays.eq(self.moved.line)
        with m.Elif(self.taken):
            m.d.comb += stays.eq(went_on(self.moved))

        newer = Signal(line_layout(p))
        if p.list_follows:
            stayed_on = self._newer(m, "stay", stays.slot)
            stepped_on = self._newer(m, "step", newer.slot)
            m.d.comb += newer.eq(Mux(stepped, stepped_on, stayed_on))
        else:
            m.d.comb += newer.eq(self._newer(m, "newer", self.next_line.slot))

        # Not `taken`: where the cursor had to be set right it is not at rest anyway, and this does not wait to know.
        at_rest = valid & ~overtaken & ~(self.moved.valid & (self.moved.line.slot == stands.slot))
        if p.list_follows:
            m.d.comb += self.skips.eq(at_rest & self.touch & (self.touched_slot == stands.slot))
        m.d.comb += [self.ready.eq(at_rest & ~self.skips), self.next_valid.eq(stays_valid), self.next_line.eq(stays)]
        m.d.sync += [valid.eq(self.next_valid & ~self.clear), stands.eq(self.next_line), stepped.eq(0)]
        steps = self.step | self.skips
        with m.If(steps & (stands.slot == self.head)):
            m.d.comb += [self.next_valid.eq(self.moved.valid), self.next_line.eq(self.moved.line)]
        with m.Elif(steps):
            m.d.comb += self.next_line.eq(newer)
            m.d.sync += stepped.eq(1)
        return m

    def _newer(self, m: Module, name: str, slot: Value) -> Value:
        """The newer neighbour, as line_layout, of the slot given a clock before."""
        links = []
        for bank, write in (("unlink", self.unlink_write), ("push", self.push_write)):
            m.submodules[f"{name}_{bank}"] = memory = ForwardingMemory(newer_layout(self.params), self.params.entries)
            m.d.comb += [
                memory.write_enable.eq(write.enable),
                memory.write_address.eq(write.address),
                memory.write_data.eq(write.link),
                memory.read_address.eq(slot),
            ]
            links.append(memory.read_data)
        unlink, push = links
        return Mux(unlink.parity ^ push.parity, Value.cast(unlink.line), Value.cast(push.line))


def went_on(moved: data.View) -> Value:
    """Where a cursor finds itself whose line was moved: on the newer neighbour, or still on the line at the head."""
    return Mux(moved.moves, Value.cast(moved.newer), Value.cast(moved.line))
