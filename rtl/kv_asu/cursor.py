"""A cursor: it stands on one line of the recency list and steps towards the head, a step a clock.

To step in every clock it must have the way on at hand, so it keeps copies of the memories of newer links and reads them
at where it will stand next. From memory to memory address is a long way where memories are slow and far apart: between
them is nothing but the choice of the live bank and of the link over the other places the cursor may go, which come from
registers.

A step follows the link as it stood when the clock began. A touch that is being linked in that very clock may be taking
the line stepped on away to the head: the next clock sees that, and sets the cursor right from what the touch knew, its
newer neighbour, which is a step again. The cursor is not ready for that clock.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.forwarding_memory import ForwardingMemory
from kv_asu.links import line_layout, moved_layout, moving_layout, newer_layout, newer_write_layout
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
    moving : In(moving_layout), last_moved : In(moved_layout)
        The touch whose links are rewritten in this clock, and in the last.
    head : In(slot)
        The line at the head, before ``moving``.
    unlink_write, push_write : In(newer_write_layout)
        This clock's writes of newer links.
    step : In(1)
        Go on to the newer neighbour if ``ready``.
    valid : Out(1)
        It stands on a line.
    taken : Out(1)
        ``moving`` takes that line.
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
                "moving": In(moving_layout(params)),
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

        # What the last step went onto may have gone to the head: then this is where the cursor should be.
        overtaken = Signal()
        right = Signal(line_layout(p))
        m.d.comb += [
            overtaken.eq(stepped & self.last_moved.valid & (self.last_moved.line.slot == stands.slot)),
            right.eq(Mux(self.last_moved.moves, self.last_moved.newer, self.last_moved.line)),
        ]
        moves = Signal()
        m.d.comb += [
            moves.eq(self.moving.valid & (self.moving.line.slot == stands.slot)),
            self.taken.eq(valid & Mux(overtaken, self.moving.valid & (self.moving.line.slot == right.slot), moves)),
        ]

        stays = valid & ~overtaken  # on its line, unless that moves or the cursor steps
        waits = Signal()  # the touch read in this clock is of that line
        if p.list_follows:
            m.d.comb += waits.eq(self.touch & (self.touched_slot == stands.slot))
        m.d.comb += [
            self.valid.eq(valid),
            self.line.eq(stands),
            self.skips.eq(stays & ~moves & waits),
            self.ready.eq(stays & ~moves & ~waits),
        ]

        # The wish to step comes last, and chooses last.
        goes_on = stays & (moves | waits | self.step)
        newer = self._newer(m, self.next_line.slot)
        at_head = stands.slot == self.head
        beyond = Mux(at_head, Value.cast(self.moving.line), newer)
        here = Mux(valid, Mux(overtaken, Value.cast(right), Value.cast(stands)), Value.cast(self.moving.line))
        m.d.comb += [
            Value.cast(self.next_line).eq(Mux(goes_on, beyond, here)),
            self.next_valid.eq(Mux(valid & ~(goes_on & at_head), 1, self.moving.valid)),
        ]
        m.d.sync += [
            valid.eq(self.next_valid & ~self.clear),
            stands.eq(self.next_line),
            stepped.eq(valid & (overtaken | (goes_on & ~at_head))),
        ]
        return m

    def _newer(self, m: Module, slot: Value) -> Value:
        """The newer neighbour, as line_layout, of the slot given a clock before."""
        links = []
        for bank, write in (("unlink", self.unlink_write), ("push", self.push_write)):
            m.submodules[f"newer_{bank}"] = memory = ForwardingMemory(newer_layout(self.params), self.params.entries)
            m.d.comb += [
                memory.write_enable.eq(write.enable),
                memory.write_address.eq(write.address),
                memory.write_data.eq(write.link),
                memory.read_address.eq(slot),
            ]
            links.append(memory.read_data)
        unlink, push = links
        return Mux(unlink.parity ^ push.parity, Value.cast(unlink.line), Value.cast(push.line))
