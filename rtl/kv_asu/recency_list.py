"""The recency list: every tracked line in order of its last touch, doubly linked, its tail end the cold list.

A touch unlinks its line and pushes it at the head: up to two links each way change in one clock, for ever. So each
direction has two banks of memory, one written by unlinks and one by pushes, and which of the two holds a slot's link is
the XOR of a parity bit kept in each. A writer must know the other bank's parity to make its own link the live one. A
push has just read it. An unlink knows it without another read, because the two ends of a link are always written
together: each link carries, beside the neighbour it names, the parity in the push bank of the link that names it back.

::

    clock t    a request is decided; its slot goes to the memories' read ports
    clock t+1  its links are out, are rewritten, the head moves        (the next request reads behind it)

The ends that matter are cursors: *tail*, the coldest line, and *candidate*, the coldest line without a cold mark. Every
slot below the candidate is marked. Demoting it is one step of the candidate, evicting one step of the tail.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.cursor import Cursor
from kv_asu.forwarding_memory import ForwardingMemory
from kv_asu.links import line_layout, moved_layout, newer_layout, older_layout
from kv_asu.params import Params


class RecencyList(wiring.Component):
    """The list and its two cursors.

    Members
    -------
    clear : In(1)
        Empty the list.
    touch : In(1)
        The request decided in this clock took a slot; in the last clock, in a build whose list follows.
    line : In(line_layout)
        That slot, its new stamp and cold half.
    linked : In(1)
        The slot is in the list already.
    left : In(1)
        The tail stepped off it in the clock of the decision.
    pop, demote : In(1)
        Move the tail, the candidate, on by one if it is ready.
    tail, candidate : Out(line_layout)
    oldest_stamp : Out(stamp_width), oldest_valid : Out(1)
        Of the coldest line that has no cold mark when the clock ends. A list that follows gives the candidate's, which
        may have been touched lately and not be it any more.
    tail_ready, candidate_ready : Out(1)
        The cursor stands still on a line that no touch in flight is taking away.
    next_tail : Out(slot)
        Where the tail will stand in the next clock, for the memory of line numbers.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "clear": In(1),
                "touch": In(1),
                "line": In(line_layout(params)),
                "linked": In(1),
                "left": In(1),
                "pop": In(1),
                "demote": In(1),
                "tail": Out(line_layout(params)),
                "tail_ready": Out(1),
                "candidate": Out(line_layout(params)),
                "candidate_ready": Out(1),
                "oldest_stamp": Out(params.stamp_width),
                "oldest_valid": Out(1),
                "next_tail": Out(params.log2_entries),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params

        # The touch whose links are out in this clock.
        touch = Signal()
        linked = Signal()
        left = Signal()
        self_line = Signal(line_layout(p))
        m.d.sync += [
            touch.eq(self.touch & ~self.clear),
            linked.eq(self.linked),
            self_line.eq(self.line),
        ]

        head = Signal(data.StructLayout({"slot": p.log2_entries, "parity": 1}))
        m.submodules.older_unlink = older_unlink = ForwardingMemory(older_layout(p), p.entries)
        m.submodules.older_push = older_push = ForwardingMemory(older_layout(p), p.entries)
        m.submodules.newer_unlink = newer_unlink = ForwardingMemory(newer_layout(p), p.entries)
        m.submodules.newer_push = newer_push = ForwardingMemory(newer_layout(p), p.entries)
        memories = (older_unlink, older_push, newer_unlink, newer_push)
        m.d.comb += [memory.read_address.eq(self.line.slot) for memory in memories]
        older = Signal(older_layout(p))
        newer = Signal(newer_layout(p))
        m.d.comb += [
            older.eq(live(older_unlink.read_data, older_push.read_data)),
            newer.eq(live(newer_unlink.read_data, newer_push.read_data)),
        ]

        m.submodules.tail = tail = Cursor(p)
        m.submodules.candidate = candidate = Cursor(p)
        m.d.sync += left.eq(self.left | tail.skips)
        is_tail = tail.taken | left
        moves = Signal()
        m.d.comb += moves.eq(self_line.slot != head.slot)

        # Unlink: the neighbours on both sides come together. The line at the head stays there; of it only the stamp
        # in its older neighbour's link is renewed.
        older_parity = Signal()
        newer_parity = Signal()
        with m.If(linked):
            m.d.comb += [
                older_parity.eq(older_unlink.read_data.parity),
                newer_parity.eq(newer_unlink.read_data.parity),
                older_unlink.write_enable.eq(touch & moves & ~is_tail),
                older_unlink.write_address.eq(newer.line.slot),
                older_unlink.write_data.slot.eq(older.slot),
                older_unlink.write_data.back_parity.eq(older.back_parity),
                older_unlink.write_data.parity.eq(~newer.back_parity),
                newer_unlink.write_enable.eq(touch & ~is_tail),
                newer_unlink.write_address.eq(older.slot),
                newer_unlink.write_data.line.eq(Mux(moves, newer.line, self_line)),
                newer_unlink.write_data.back_parity.eq(Mux(moves, newer.back_parity, older_push.read_data.parity)),
                newer_unlink.write_data.parity.eq(~older.back_parity),
            ]
        # A line that was not in the list has nothing to unlink. Its slot's parities start from 0 instead, whatever the
        # memories and their copies held.
        with m.Else():
            m.d.comb += [
                older_unlink.write_enable.eq(touch),
                older_unlink.write_address.eq(self_line.slot),
                newer_unlink.write_enable.eq(touch),
                newer_unlink.write_address.eq(self_line.slot),
            ]
        # Push: the line and the old head become neighbours.
        m.d.comb += [
            older_push.write_enable.eq(touch & moves),
            older_push.write_address.eq(self_line.slot),
            older_push.write_data.slot.eq(head.slot),
            older_push.write_data.back_parity.eq(head.parity),
            older_push.write_data.parity.eq(older_parity),
            newer_push.write_enable.eq(touch & moves),
            newer_push.write_address.eq(head.slot),
            newer_push.write_data.line.eq(self_line),
            newer_push.write_data.back_parity.eq(older_parity),
            newer_push.write_data.parity.eq(head.parity),
        ]
        with m.If(touch):
            m.d.sync += [head.slot.eq(self_line.slot), head.parity.eq(newer_parity)]

        moved = Signal(moved_layout(p))
        last_moved = Signal(moved_layout(p))
        m.d.comb += [
            moved.valid.eq(touch),
            moved.moves.eq(moves),
            moved.line.eq(self_line),
            moved.newer.eq(newer.line),
        ]
        m.d.sync += last_moved.eq(moved)
        for cursor in (tail, candidate):
            m.d.comb += [
                cursor.clear.eq(self.clear),
                cursor.touch.eq(self.touch),
                cursor.touched_slot.eq(self.line.slot),
                cursor.moving.valid.eq(moved.valid),
                cursor.moving.line.eq(moved.line),
                cursor.last_moved.eq(last_moved),
                cursor.head.eq(head.slot),
            ]
            for write, memory in ((cursor.unlink_write, newer_unlink), (cursor.push_write, newer_push)):
                m.d.comb += [
                    write.enable.eq(memory.write_enable),
                    write.address.eq(memory.write_address),
                    write.link.eq(memory.write_data),
                ]
        oldest_stamp, oldest_valid = candidate.next_line.stamp, candidate.next_valid
        if p.list_follows:  # where the candidate will stand is known too late
            oldest_stamp = Mux(candidate.valid, candidate.line.stamp, self_line.stamp)
            oldest_valid = candidate.valid | touch
        m.d.comb += [
            tail.step.eq(self.pop),
            candidate.step.eq(self.demote),
            self.tail.eq(tail.line),
            self.tail_ready.eq(tail.ready),
            self.next_tail.eq(tail.next_line.slot),
            self.candidate.eq(candidate.line),
            self.candidate_ready.eq(candidate.ready),
            self.oldest_stamp.eq(oldest_stamp),
            self.oldest_valid.eq(oldest_valid),
        ]
        return m


def live(unlink: data.View, push: data.View) -> Value:
    """Of a slot's two links in one direction, the one written last."""
    return Mux(unlink.parity ^ push.parity, Value.cast(unlink), Value.cast(push))
