"""The KV-ASU: what is wired to what.

::

    req_addr ──── Lookup ── ways ── HeatTable ─┬─ touch ──► RecencyList ── tail ────── Eviction ◄── evict_valid
      (mask, hash, memories)          │        │                    └─── candidate ── Retirement
                                      ▼        └─ write ─► memories of both lookups      │
                                   tag_*, spill_*              ▲ ▲──── evict, demote ────┘
    query_addr ── Lookup ── ways ── level ── answer_*

    cfg_ext_* ─── ConfigSpace ── settings ──► all      Lifecycle: active, tick      Counters, Population

An operation enters at clock t and is *decided* at clock t + L, in the clock its answer stands at the pins. Within that
clock retirement comes first, then the query, the request, the evict command. Everything they change is written at the
end of it.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.borrowed_port import BorrowedPort
from kv_asu.cfg_ext import cfg_ext_members
from kv_asu.config_space import ConfigSpace
from kv_asu.counters import Counters
from kv_asu.eviction import Eviction
from kv_asu.geometry import Geometry
from kv_asu.heat_table import HeatTable
from kv_asu.layouts import COUNT_WIDTH, listed_layout, settings_layout, victim_layout
from kv_asu.lifecycle import Lifecycle
from kv_asu.lookup import Lookup
from kv_asu.params import Params
from kv_asu.population import Population
from kv_asu.query import Query
from kv_asu.recency_list import RecencyList
from kv_asu.records import record
from kv_asu.register_map import VictimStatus
from kv_asu.retirement import Retirement


class KvAsu(wiring.Component):
    """The core; its members are its pins (kv-asu.md section 2, registers.md)."""

    def __init__(self, params: Params) -> None:
        self.params = params
        line = params.line_width
        super().__init__(
            {
                "req_valid": In(1),
                "req_addr": In(params.addr_width),
                "tag_valid": Out(1),
                "tag_line": Out(line),
                "tag_tracked": Out(1),
                "tag_hit": Out(1),
                "tag_before": Out(2),
                "tag_after": Out(2),
                "tag_count": Out(COUNT_WIDTH),
                "tag_slot": Out(params.log2_entries),
                "tag_stamp": Out(params.stamp_width),
                "spill_valid": Out(1),
                "spill_line": Out(line),
                "query_valid": In(1),
                "query_addr": In(params.addr_width),
                "query_min_tlevel": In(2),
                "query_boost": In(1),
                "answer_valid": Out(1),
                "answer_tracked": Out(1),
                "answer_tlevel": Out(2),
                "answer_hit": Out(1),
                "evict_valid": In(1),
                "victim_valid": Out(1),
                "victim_status": Out(2),
                "victim_line": Out(line),
                "power_good": In(1),
                "irq": Out(1),
                **cfg_ext_members(),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.config_space = config = ConfigSpace(p)
        m.submodules.geometry = geometry = Geometry(p)
        m.submodules.lifecycle = lifecycle = Lifecycle(p)
        m.submodules.request_lookup = request = Lookup(p)
        m.submodules.query_lookup = query_lookup = Lookup(p)
        m.submodules.heat_table = table = HeatTable(p)
        m.submodules.query = query = Query(p)
        m.submodules.recency_list = recency = RecencyList(p)
        m.submodules.retirement = retirement = Retirement(p)
        m.submodules.eviction = eviction = Eviction(p)
        m.submodules.population = population = Population(p)
        m.submodules.counters = counters = Counters()
        m.submodules.query_register = query_register = BorrowedPort(p.latency)
        m.submodules.evict_register = evict_register = BorrowedPort(p.latency, until_told=p.list_follows)

        def until_decided(name: str, value: Value) -> Signal:
            """The value of the operation that is decided in this clock."""
            for stage in range(p.latency):
                delayed = Signal.like(value, name=f"{name}{stage + 1}")
                m.d.sync += delayed.eq(value)
                value = delayed
            return value

        # Settings, life, time.
        powered = Signal()
        m.d.sync += powered.eq(self.power_good)
        settings = config.settings
        decide_settings = settings
        if p.table_stages == 2:  # levels are worked out a clock ahead; the rest of a decision follows the same settings
            decide_settings = Signal(settings_layout(p))
            m.d.sync += decide_settings.eq(settings)
        m.d.comb += [
            geometry.log2_active.eq(settings.log2_active),
            geometry.line_shift.eq(settings.line_shift),
            lifecycle.run.eq(settings.enable & powered),
            lifecycle.flush.eq(config.flush),
            lifecycle.row_mask.eq(geometry.row_mask),
            lifecycle.tick_shift.eq(settings.tick_shift),
        ]
        active = lifecycle.active

        # Requests.
        req_valid = until_decided("req_valid", self.req_valid)
        for lookup in (request, query_lookup):
            m.d.comb += [
                lookup.settings.eq(settings),
                lookup.decide_settings.eq(decide_settings),
                lookup.granule_mask.eq(geometry.granule_mask),
                lookup.row_mask.eq(geometry.row_mask),
                lookup.now.eq(lifecycle.now),
                lookup.ahead.eq(lifecycle.ahead),
                lookup.far_ahead.eq(lifecycle.far_ahead),
                lookup.touch.eq(table.write),
                lookup.evict.eq(eviction.evict),
                lookup.demote.eq(retirement.demote),
                lookup.clear.eq(lifecycle.clear),
                lookup.clear_row.eq(lifecycle.clear_row),
            ]
        m.d.comb += [
            request.address.eq(self.req_addr),
            table.valid.eq(req_valid & active),
            table.line.eq(request.line),
            table.place.eq(request.place),
            table.ways.eq(request.ways),
            table.now.eq(lifecycle.now),
            table.settings.eq(decide_settings),
            table.demote.eq(retirement.demote),
            table.evict.eq(eviction.evict),
            self.tag_valid.eq(req_valid),
            self.tag_line.eq(Mux(req_valid, request.line, 0)),
            self.tag_stamp.eq(Mux(table.valid, lifecycle.now, 0)),
            self.tag_tracked.eq(table.tag.tracked),
            self.tag_hit.eq(table.tag.hit),
            self.tag_before.eq(table.tag.before),
            self.tag_after.eq(table.tag.after),
            self.tag_count.eq(table.tag.count),
            self.tag_slot.eq(table.tag.slot),
            self.spill_valid.eq(table.tag.spill_valid),
            self.spill_line.eq(table.tag.spill_line),
        ]

        # Recency, retirement, eviction. Slots are chosen late in their clock: a list that follows is spared that.
        listed = record(listed_layout(p), "listed")
        m.d[("sync" if p.list_follows else "comb")] += [
            listed.valid.eq(table.tag.tracked),
            listed.slot.eq(table.tag.slot),
            listed.linked.eq(table.was_tracked),
            listed.left.eq(eviction.step & table.touched_tail),
            listed.touch.eq(table.write.touch),
        ]
        evict_valid = until_decided("evict_valid", self.evict_valid | evict_register.issue)
        m.d.comb += [
            recency.clear.eq(~active),
            recency.touch.eq(listed.valid),
            recency.line.slot.eq(listed.slot),
            recency.line.stamp.eq(listed.touch.heat.stamp),
            recency.line.cold_half.eq(listed.touch.heat.cold_half),
            recency.linked.eq(listed.linked),
            recency.left.eq(listed.left),
            recency.demote.eq(retirement.wish),
            recency.pop.eq(eviction.wish),
            retirement.active.eq(active),
            retirement.candidate.eq(recency.candidate),
            retirement.ready.eq(recency.candidate_ready),
            retirement.oldest_stamp.eq(recency.oldest_stamp),
            retirement.oldest_valid.eq(recency.oldest_valid),
            retirement.now.eq(lifecycle.now),
            retirement.ahead.eq(lifecycle.ahead),
            retirement.t1_age.eq(settings.t1_age),
            eviction.valid.eq(evict_valid),
            eviction.active.eq(active),
            eviction.marked.eq(population.marked_before if p.list_follows else population.marked),
            eviction.unmarked_cold.eq(retirement.unmarked_cold),
            eviction.tail.eq(recency.tail.slot),
            eviction.tail_ready.eq(recency.tail_ready),
            eviction.touched_tail.eq(table.touched_tail),
            eviction.next_tail.eq(recency.next_tail),
            eviction.touch.eq(listed.valid),
            eviction.touched_slot.eq(listed.slot),
            eviction.touched.eq(listed.touch),
            population.clear.eq(~active),
            population.insert.eq(table.tag.tracked & ~table.was_tracked),
            population.demote.eq(retirement.demote.enable),
            population.warm.eq(table.was_marked),
            population.pop.eq(eviction.pop),
            self.victim_valid.eq(evict_valid & ~evict_register.mine),
            self.victim_status.eq(Mux(self.victim_valid, eviction.status, 0)),
            self.victim_line.eq(Mux(self.victim_valid, eviction.line, 0)),
        ]

        # Queries.
        query_valid = until_decided("query_valid", self.query_valid | query_register.issue)
        m.d.comb += [
            query_lookup.address.eq(Mux(self.query_valid, self.query_addr, config.query_addr)),
            query.valid.eq(query_valid & active),
            query.ways.eq(query_lookup.ways),
            query.min_tlevel.eq(until_decided("min_tlevel", Mux(self.query_valid, self.query_min_tlevel, 0))),
            query.boost.eq(until_decided("boost", self.query_valid & self.query_boost)),
            self.answer_valid.eq(query_valid & ~query_register.mine),
            self.answer_tracked.eq(self.answer_valid & query.tracked),
            self.answer_tlevel.eq(Mux(self.answer_valid, query.tlevel, 0)),
            self.answer_hit.eq(self.answer_valid & query.hit),
        ]

        # Config space. A victim is known late in its clock: registers are told of it a clock later where that is long.
        victim = record(victim_layout(p), "victim")
        m.d["sync" if p.list_follows else "comb"] += [victim.status.eq(eviction.status), victim.line.eq(eviction.line)]
        m.d.comb += [
            config.active.eq(active),
            config.busy.eq(lifecycle.busy),
            config.powered.eq(powered),
            config.tracked.eq(Mux(active, population.tracked, 0)),
            config.cold.eq(Mux(active, population.cold, 0)),
            config.counter_value.eq(counters.value),
            query_register.start.eq(config.query_start),
            query_register.port_valid.eq(self.query_valid),
            query_register.again.eq(0),
            config.query_done.eq(query_register.done),
            config.query_tracked.eq(query.tracked),
            config.query_tlevel.eq(query.tlevel),
            config.query_count.eq(query.count),
            evict_register.start.eq(config.evict_start),
            evict_register.port_valid.eq(self.evict_valid),
            evict_register.again.eq(victim.status == VictimStatus.RETRY),
            config.evict_done.eq(evict_register.done),
            config.evict_status.eq(victim.status),
            config.evict_line.eq(victim.line),
            self.irq.eq(config.irq),
        ]
        for name, member in cfg_ext_members().items():
            pin, port = getattr(self, name), getattr(config, name)
            m.d.comb += port.eq(pin) if member.flow is In else pin.eq(port)

        # Counters.
        events = counters.events
        untracked = table.valid & ~table.tag.tracked
        m.d.comb += [
            counters.active.eq(active),
            counters.snapshot.eq(config.snapshot),
            counters.clear.eq(config.clear),
            counters.select.eq(config.counter_select),
            events.requests.eq(table.valid),
            events.hits.eq(table.tag.hit),
            Cat(getattr(events, f"level{level}") for level in range(4)).eq(
                Cat(table.valid & (table.tag.before == level) for level in range(4))
            ),
            events.inserts.eq(table.tag.tracked & ~table.tag.hit),
            events.untracked.eq(untracked),
            events.spills.eq(table.tag.spill_valid),
            events.rescues.eq(table.tag.hit & (table.tag.before == 0)),
            # A line touched or spilled between growing cold and getting its mark passed into T-level 0 all the same.
            events.demotions.eq(retirement.demote.enable + (table.was_cold & ~table.was_marked)),
            events.evictions.eq(eviction.pop),
            events.queries.eq(query.valid),
            events.query_hits.eq(query.hit),
            config.untracked_event.eq(untracked),
        ]
        return m
