"""A cursor: it stands on one line of the recency list and steps towards the head, a step a clock.

To step in every clock it must have the way on at hand, so it keeps copies of the memories of newer links and reads them
at where it will stand next. A step follows the link as it stood when the clock began. A touch that is being linked in
that very clock may be taking the line stepped on away to the head: the next clock sees that, and sets the cursor right
from what the touch knew, its newer neighbour. The cursor is then not ready for that one clock.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
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
    line : Out(line_layout)
        Which.
    ready : Out(1)
        ... and may step: neither is the line being touched, nor did the cursor have to be set right.
    next_valid : Out(1), next_line : Out(line_layout)
        Where it will stand in the next clock.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "clear": In(1),
                "moved": In(moved_layout(params)),
                "last_moved": In(moved_layout(params)),
                "head": In(params.log2_entries),
                "unlink_write": In(newer_write_layout(params)),
                "push_write": In(newer_write_layout(params)),
                "step": In(1),
                "valid": Out(1),
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

        m.submodules.unlink = unlink = ForwardingMemory(newer_layout(p), p.entries)
        m.submodules.push = push = ForwardingMemory(newer_layout(p), p.entries)
        for memory, write in ((unlink, self.unlink_write), (push, self.push_write)):
            m.d.comb += [
                memory.write_enable.eq(write.enable),
                memory.write_address.eq(write.address),
                memory.write_data.eq(write.link),
                memory.read_address.eq(self.next_line.slot),
            ]
        newer = Signal(line_layout(p))
        m.d.comb += newer.eq(
            Mux(unlink.read_data.parity ^ push.read_data.parity, unlink.read_data.line, push.read_data.line)
        )

        overtaken = Signal()
        touched = Signal()
        m.d.comb += [
            overtaken.eq(stepped & self.last_moved.valid & (self.last_moved.line.slot == stands.slot)),
            self.line.eq(stands),
            touched.eq(self.moved.valid & (self.moved.line.slot == self.line.slot)),
            self.valid.eq(valid),
            self.ready.eq(valid & ~overtaken & ~touched),
        ]
        with m.If(overtaken):
            m.d.comb += self.line.eq(Mux(self.last_moved.moves, self.last_moved.newer, self.last_moved.line))

        m.d.comb += [self.next_valid.eq(valid), self.next_line.eq(self.line)]
        m.d.sync += [valid.eq(self.next_valid & ~self.clear), stands.eq(self.next_line), stepped.eq(0)]
        with m.If(~valid):
            m.d.comb += [self.next_valid.eq(self.moved.valid), self.next_line.eq(self.moved.line)]
        with m.Elif(touched):
            m.d.comb += self.next_line.eq(Mux(self.moved.moves, self.moved.newer, self.moved.line))
        with m.Elif(self.step & (self.line.slot == self.head)):
            m.d.comb += [self.next_valid.eq(self.moved.valid), self.next_line.eq(self.moved.line)]
        with m.Elif(self.step):
            m.d.comb += self.next_line.eq(newer)
            m.d.sync += stepped.eq(1)
        return m
