"""The recency list by itself, under every sequence of operations that its contract allows."""

from __future__ import annotations

from amaranth.hdl import Array, Fragment, Module, Signal

from formal.claims import Claims, constant
from formal.internals import Internals
from formal.list_model import AGE_WIDTH, Decisions, ListModel, marks, steps
from formal.register_memory import memories_as_registers
from kv_asu.links import line_layout
from kv_asu.params import Params
from kv_asu.recency_list import RecencyList


class RecencyHarness:
    """Free touches, demotions and steps of the tail.

    Attributes
    ----------
    claims : Claims
        Complete once elaborated.
    ports : list of Signal
        The free inputs.
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self.claims = Claims()
        self.ports: list[Signal] = []

    def _free(self, name: str, width: int = 1) -> Signal:
        signal = Signal(width, name=name)
        self.ports.append(signal)
        return signal

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, claims = self._params, self.claims
        recency = RecencyList(p)
        with memories_as_registers():
            fragment = Fragment.get(recency, None)
        m.submodules.recency = fragment

        touch, slot = self._free("touch"), self._free("slot", p.log2_entries)
        stamp, half = self._free("stamp", p.stamp_width), self._free("half")
        step, demote, clear = self._free("step"), self._free("demote"), self._free("clear")
        touched_tail = Signal()
        m.d.comb += touched_tail.eq(touch & (slot == recency.tail.slot))
        model = ListModel(m, claims, recency, Internals(fragment), p, Decisions(touch, slot, stamp, half, touched_tail))

        # As the core has it: a touch comes as it is decided, or a clock later.
        line = Signal(line_layout(p))
        touched, linked, left = Signal(name="touched"), Signal(name="was_linked"), Signal(name="was_left")
        m.d["sync" if p.list_follows else "comb"] += [
            touched.eq(touch),
            line.slot.eq(slot),
            line.stamp.eq(stamp),
            line.cold_half.eq(half),
            linked.eq(Array(model.members)[slot]),
            left.eq(steps(recency) & touched_tail),
        ]
        m.d.comb += [
            recency.clear.eq(clear),
            recency.touch.eq(touched),
            recency.line.eq(line),
            recency.linked.eq(linked),
            recency.left.eq(left),
            recency.pop.eq(step),
            recency.demote.eq(demote),
        ]

        # What the core promises the list (claimed of the core in core_harness).
        marked = Array(model.marked)[recency.tail.slot]
        if not p.list_follows:
            marked |= marks(recency) & (recency.candidate.slot == recency.tail.slot)
        claims.assume(~(clear & (touch | step | demote)))
        claims.assume(~steps(recency) | marked)
        limit = constant(m, "limit", AGE_WIDTH)
        claims.assume(~model.due(limit) | demote | clear, group="punctual")
        model.claim_punctual(limit)
        return m
