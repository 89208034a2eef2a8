"""The core with its table, evictions and retirement real, and the recency list known by its contract only.

What the list promises is assumed here and claimed in list_model; what the core promises the list is claimed here and
assumed in recency_harness. Both hold from reset on because each promise of a clock rests on promises of earlier ones.
"""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Fragment, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In

from formal.claims import Claims, constant
from formal.internals import Internals
from formal.list_model import forgets_oldest, marks, steps
from formal.order import Order
from formal.register_memory import memories_as_registers
from formal.stand_ins import FreeConfig, FreeHash, FreeList, FullGeometry, NoCounters, small_counters, watched
from kv_asu.core import KvAsu
from kv_asu.eviction import Eviction
from kv_asu.heat_table import HeatTable
from kv_asu.layouts import heat_layout
from kv_asu.lifecycle import Lifecycle, State
from kv_asu.params import LINE_BITS, Params
from kv_asu.population import Population
from kv_asu.query import Query
from kv_asu.register_map import VictimStatus
from kv_asu.retirement import Retirement


class CoreHarness:
    """Free requests, queries, evict commands, flushes, enables and power.

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

    def elaborate(self, platform: object) -> Module:
        self._m = m = Module()
        p = self._params
        self._slots = range(p.entries)
        self._homes = [constant(m, f"home{line}", p.log2_entries) for line in range(1 << p.line_width)]
        with (
            small_counters(),
            memories_as_registers(),
            watched("kv_asu.lookup", Murmur3=FreeHash(self._homes)),  # type: ignore[arg-type]
            watched(
                "kv_asu.core",
                ConfigSpace=FreeConfig,
                Counters=NoCounters,
                Geometry=FullGeometry,
                RecencyList=FreeList,
                HeatTable=HeatTable,
                Eviction=Eviction,
                Retirement=Retirement,
                Population=Population,
                Lifecycle=Lifecycle,
                Query=Query,
            ) as blocks,
        ):
            core = KvAsu(p)
            fragment = Fragment.get(core, None)
            self._heat_layout = heat_layout(p)
        m.submodules.core = fragment
        self._core, self._inside, self._blocks = core, Internals(fragment), blocks
        for path, member, value in core.signature.flatten(core):
            if member.flow is In:
                free = Signal(Value.cast(value).shape(), name="__".join(map(str, path)))
                self.ports.append(free)
                m.d.comb += Value.cast(value).eq(free)
        for block in ("ConfigSpace", "RecencyList"):
            self.ports += blocks[block].free

        self._assume_settings()
        self._keep_state()
        self._assume_list()
        self._claim_to_list()
        self._claim_lifecycle()
        self._claim_table()
        self._claim_pipelines()
        self._claim_time()
        self._claim_answers()
        self._claim_decisions()
        self._leans()
        self._cover()
        return m

    def _claim(self, group: str, name: str, value: Value) -> None:
        self.claims.claim(group, name, value)

    def _assume_settings(self) -> None:
        """Thresholds that do not change, of those that config_harness claims; a tick a clock."""
        settings, assume = self._blocks["ConfigSpace"].settings, self.claims.assume
        for name in ("t3_count", "t3_age", "t2_count", "t2_age", "t1_age", "decay", "reclaim_off"):
            assume(settings[name] == constant(self._m, f"setting_{name}", len(Value.cast(settings[name]))))
        assume((settings.t3_age <= settings.t2_age) & (settings.t2_age <= settings.t1_age))
        assume((settings.t1_age >= 1) & (settings.t1_age < (1 << self._params.stamp_width) - 6))
        assume(settings.decay <= 2)
        assume(settings.tick_shift == 0)
        self._t1 = settings.t1_age
        self._reclaim_off = settings.reclaim_off

    def _keep_state(self) -> None:
        """What the memories say of each slot, and what the contract says: lines, order, ages."""
        m, p = self._m, self._params
        table, recency = self._blocks["HeatTable"], self._blocks["RecencyList"]
        self._running = Signal()
        m.d.comb += self._running.eq(self._state() == State.RUNNING)
        self._active = self._blocks["Lifecycle"].active
        rows = self._rows("request_lookup")
        self._lines = [line for line, _, _, _ in rows]
        self._stamps = [heat.stamp for _, heat, _, _ in rows]
        self._cold_halves = [heat.cold_half for _, heat, _, _ in rows]
        self._tracked = [self._running & (heat.tracked_half ^ evict) for _, heat, evict, _ in rows]
        self._marked = [
            tracked & (heat.cold_half ^ demote)
            for tracked, (_, heat, _, demote) in zip(self._tracked, rows, strict=True)
        ]
        self._order = Order(m, p.entries)
        self._touch, self._slot = table.tag.tracked, table.tag.slot
        self._order.touch(self._touch, self._slot)
        self._ages = [Signal(p.stamp_width + 2, name=f"age{slot}") for slot in self._slots]
        for slot, age in enumerate(self._ages):
            m.d.sync += age.eq(Mux(self._touch & (self._slot == slot), 1, age + ~age.all()))
        # Touches of the last clocks, that the list has not linked.
        self._recent: list[tuple[Value, Value]] = []
        touch, slot = self._touch, self._slot
        for clock in range(2 if p.list_follows else 1):
            last, last_slot = Signal(name=f"recent{clock}"), Signal(p.log2_entries, name=f"recent_slot{clock}")
            m.d.sync += [last.eq(touch & self._active), last_slot.eq(slot)]
            self._recent.append((last, last_slot))
            touch, slot = last, last_slot
        self._unmarked = [t & ~k for t, k in zip(self._tracked, self._marked, strict=True)]
        self._demoted = [marks(recency) & (recency.candidate.slot == slot) for slot in self._slots]

    def _state(self) -> Value:
        return self._inside.block("lifecycle").signal("state")

    def _rows(self, lookup: str) -> list[tuple[Value, data.View, Value, Value]]:
        """What a lookup's memories hold, by slot: line, heat, halves of eviction and demotion."""
        window = self._params.window
        inside = self._inside.block(lookup)
        banks = [
            tuple(
                inside.block(f"{name}_bank{bank}").rows(self._heat_layout if name == "heat" else None)
                for name in ("line", "heat", "evict", "demote")
            )
            for bank in range(window)
        ]
        rows = [tuple(memory[slot // window] for memory in banks[slot % window]) for slot in self._slots]
        if self._params.table_stages == 2:  # everything comes into the memories a clock late
            rows = [self._coming(inside, slot, *row) for slot, row in enumerate(rows)]
        return rows

    def _coming(
        self, inside: Internals, slot: int, line: Value, heat: data.View, evict: Value, demote: Value
    ) -> tuple[Value, data.View, Value, Value]:
        """A slot as it is once what is on its way to the memories has been written."""
        row, bank = divmod(slot, self._params.window)
        here, behind = (inside.signal(f"last_touch_place_{part}") == row for part in ("row", "next_row"))
        wrapped = inside.signal("last_touch_place_wrapped")[bank]
        touched = inside.signal("last_touch_banks")[bank] & Mux(wrapped, behind, here)
        heat_now = Cat(inside.signal(f"last_touch_touch_heat_{name}") for name in self._heat_layout.members)
        halves = []
        for party, half in (("evict", evict), ("demote", demote)):
            at = Cat(inside.signal(f"last_{party}_slot_bank"), inside.signal(f"last_{party}_slot_row"))
            written = inside.signal(f"last_{party}_enable") & (at == slot)
            halves.append(Mux(written, inside.signal(f"last_{party}_half"), half))
        return (
            Mux(touched, inside.signal("last_touch_touch_line"), line),
            data.View(self._heat_layout, Mux(touched, heat_now, heat.as_value())),
            halves[0],
            halves[1],
        )

    def _recently(self, slot: Value) -> Value:
        """The slot's touch is on its way to the links."""
        return Cat(last & (last_slot == slot) for last, last_slot in self._recent).any()

    def _assume_list(self) -> None:
        """The recency list's contract."""
        m, recency, assume = self._m, self._blocks["RecencyList"], self.claims.assume
        tail, candidate = recency.tail, recency.candidate
        next_tail = Signal.like(recency.next_tail, name="last_next_tail", reset_less=True)
        settled = Signal()
        m.d.sync += [next_tail.eq(recency.next_tail), settled.eq(1)]
        assume(~settled | (tail.slot == next_tail))
        assume(~recency.tail_ready | (Array(self._order.oldest(self._tracked))[tail.slot] & ~self._recently(tail.slot)))
        assume(
            ~recency.candidate_ready
            | (
                Array(self._order.oldest(self._unmarked))[candidate.slot]
                & ~self._recently(candidate.slot)
                & (candidate.stamp == Array(self._stamps)[candidate.slot])
                & (candidate.cold_half == Array(self._cold_halves)[candidate.slot])
            )
        )
        # Marked as soon as they are due (claimed in _claim_to_list), lines without a mark stay young.
        assume(
            Cat(
                ~unmarked | (age <= self._t1 + 3) for unmarked, age in zip(self._unmarked, self._ages, strict=True)
            ).all()
        )
        now = self._blocks["Lifecycle"].now
        claimed_age = Signal(self._params.stamp_width)
        m.d.comb += claimed_age.eq(now - recency.oldest_stamp)
        oldest = self._order.oldest(self._unmarked)
        assume(
            forgets_oldest(recency, self._params)
            | Cat(
                ~oldest[slot] | (self._ages[slot] <= 1) | (recency.oldest_valid & (claimed_age >= self._ages[slot]))
                for slot in self._slots
            ).all()
        )

    def _claim_to_list(self) -> None:
        """What the recency list relies on."""
        names = ("RecencyList", "HeatTable", "Eviction", "Retirement")
        recency, table, eviction, retirement = (self._blocks[name] for name in names)
        marked = Array(self._marked)[recency.tail.slot]
        if not self._params.list_follows:
            marked |= marks(recency) & (recency.candidate.slot == recency.tail.slot)
        quiet = ~(self._touch | steps(recency) | marks(recency))
        self._claim("to the list", "nothing while it is cleared", ~recency.clear | quiet)
        self._claim(
            "to the list", "the core marks what the candidate leaves", retirement.demote.enable == marks(recency)
        )
        self._claim("to the list", "it evicts what the tail leaves", eviction.step == steps(recency))
        self._claim("to the list", "steps when marked", ~steps(recency) | marked)
        at_tail = self._touch & (self._slot == recency.tail.slot)
        self._claim("to the list", "touches of the tail are known", eviction.touched_tail == at_tail)
        heat = table.write.touch.heat
        decided: dict[str, tuple[Value, Value]] = {
            "touch": (recency.touch, self._touch),
            "slot": (recency.line.slot, self._slot),
            "stamp": (recency.line.stamp, heat.stamp),
            "cold half": (recency.line.cold_half, heat.cold_half),
            "whether it is linked": (recency.linked, Array(self._tracked)[self._slot]),
            "whether the tail left it": (recency.left, steps(recency) & at_tail),
        }
        for name, (told, value) in decided.items():
            if self._params.list_follows:
                last = Signal.like(value, name=f"last_{name}".replace(" ", "_"))
                self._m.d.sync += last.eq(value)
                value = last
            self._claim("to the list", f"a touch tells {name}", (told == value) | ((name != "touch") & ~recency.touch))
        known = table.was_tracked == Array(self._tracked)[self._slot]
        self._claim("to the list", "a taken slot is known to be linked", ~self._touch | known)
        due = recency.candidate_ready & (Array(self._ages)[recency.candidate.slot] > self._t1)
        self._claim("to the list", "lines are marked when due", ~self._active | ~due | marks(recency))

    def _claim_lifecycle(self) -> None:
        """Before it is active the core empties the table, and nobody writes."""
        inside = self._inside.block("lifecycle")
        state, drain, latency = self._state(), inside.signal("drain"), self._params.latency
        clear_row = self._blocks["Lifecycle"].clear_row
        self._claim("lifecycle", "draining has an end", drain <= latency)
        draining = state == State.DRAINING
        self._drained = [self._running | (draining & (drain >= stage)) for stage in range(latency + 1)]
        for name in ("request_lookup", "query_lookup"):
            for slot, (line, heat, evict, demote) in enumerate(self._rows(name)):
                empty = ~Cat(line, heat.as_value(), evict, demote).any()
                done = draining | ((state == State.CLEARING) & (slot // self._params.window < clear_row))
                self._claim("lifecycle", f"{name} slot {slot} is emptied", ~done | empty)
            lookup = self._inside.block(name)
            writes = Cat(
                lookup.signal("last_touch_banks"),
                lookup.signal("last_evict_enable"),
                lookup.signal("last_demote_enable"),
            )
            self._claim("lifecycle", f"{name} sees no writes while draining", ~draining | ~writes.any())
        lifecycle = self._blocks["Lifecycle"]
        self._claim("lifecycle", "whole ticks", inside.signal("whole") == 0)
        width = len(lifecycle.now)
        ahead = (lifecycle.ahead == (lifecycle.now + 1)[:width]) & (lifecycle.far_ahead == (lifecycle.now + 2)[:width])
        self._claim("lifecycle", "time is kept ahead", ~self._running | ahead)
        started = (lifecycle.ahead == 0) & (lifecycle.far_ahead == (drain == latency))
        self._claim("lifecycle", "time starts at 0", ~draining | started)
        stopped = (state == State.CLEARING) & (clear_row > 0)
        self._claim("lifecycle", "time stops", ~stopped | (lifecycle.far_ahead == 0))

    def _home_of(self, line: Value) -> Value:
        return Array(self._homes)[line]

    def _claim_table(self) -> None:
        """No line has two slots, every tracked line is within its window, the counts are right."""
        p = self._params
        for a in self._slots:
            for b in range(a):
                twice = self._tracked[a] & self._tracked[b] & (self._lines[a] == self._lines[b])
                self._claim("table", f"slots {b} and {a} hold different lines", ~twice)
            distance = (Const(a, p.log2_entries) - self._home_of(self._lines[a]))[: p.log2_entries]
            self._claim("table", f"slot {a} is in its line's window", ~self._tracked[a] | (distance < p.window))
        requests, queries = self._rows("request_lookup"), self._rows("query_lookup")
        for slot in self._slots:
            mine, other = (
                Cat(line, heat.as_value(), evict, demote)
                for line, heat, evict, demote in (requests[slot], queries[slot])
            )
            self._claim("copies", f"slot {slot} is the same for queries", ~self._running | (mine == other))
        population = self._blocks["Population"]
        inside = self._inside.block("population")
        inserted, demoted, warmed, popped = (inside.signal(on) for on in ("inserted", "demoted", "warmed", "popped"))
        tracked = population.tracked + inserted == sum(self._tracked) + popped
        marked = population.cold + demoted == sum(self._marked) + warmed + popped
        self._claim("population", "tracked lines are counted", ~self._running | tracked)
        self._claim("population", "marked lines are counted", ~self._running | marked)
        none = ~Cat(population.tracked, population.cold, inserted, demoted, warmed, popped).any()
        self._claim("population", "no lines before", self._running | none)
        word = self._inside.block("eviction.lines").rows(data.StructLayout({"line": p.line_width, "tracked_half": 1}))
        first = self._recent[0]
        for slot in self._slots:
            right = (word[slot].line == self._lines[slot]) & (word[slot].tracked_half == requests[slot][1].tracked_half)
            coming = first[0] & (first[1] == slot) if p.list_follows else Const(0)
            self._claim("copies", f"slot {slot} is the same for evictions", ~self._tracked[slot] | coming | right)

    def _claim_pipelines(self) -> None:
        """Every stage behind the memories, overlaid with the last clock's writes, is what the memories hold now."""
        p = self._params
        stages = {
            0: ["now_settled"],
            1: ["read_settled", "now_settled"],
            2: ["read_settled", "classified_settled", "now_settled"],
        }
        places = {0: ["read_place"], 1: ["read_place", "held_place"], 2: ["read_place", "held_place", "decided_place"]}
        for name in ("request_lookup", "query_lookup"):
            inside = self._inside.block(name)
            for number, (settled, place) in enumerate(zip(stages[p.table_stages], places[p.table_stages], strict=True)):
                line_name = place.replace("place", "line")
                row, next_row, wrapped = (inside.signal(f"{place}_{part}") for part in ("row", "next_row", "wrapped"))
                rows = self._rows(name)
                group = f"{name} stage {number}"
                home_bank = Signal(range(p.window + 1), name=f"{group}_home".replace(" ", "_"))
                home = self._home_of(inside.signal(line_name))
                self._m.d.comb += home_bank.eq(home[: p.log2_window])
                window = (row == home[p.log2_window :]) & (next_row == (row + 1)[: len(row)])
                window &= wrapped == Cat(Const(bank) < home_bank for bank in range(p.window))
                self._claim(
                    "windows", f"{group} is where the line belongs", ~self._drained[min(number + 1, p.latency)] | window
                )
                for bank in range(p.window):
                    held = [rows[bank + p.window * r] for r in range(p.rows)]
                    at = Mux(wrapped[bank], next_row, row)
                    parts = [
                        inside.signal(f"{settled}_touches{bank}_{part}")
                        for part in ("line", "heat_count", "heat_stamp", "heat_tracked_half", "heat_cold_half")
                    ]
                    evict = inside.signal(f"{settled}_evict_halves")[bank]
                    demote = inside.signal(f"{settled}_demote_halves")[bank]
                    lines = Array(line for line, _, _, _ in held)
                    words = Array(Cat(heat.as_value(), e, d) for _, heat, e, d in held)
                    same = Cat(*parts[1:], evict, demote) == words[at]
                    if settled != "now_settled":
                        same &= parts[0] == lines[at]
                    else:  # the number of a line touched a clock ago is left out
                        same &= inside.signal("now_touched")[bank] | (parts[0] == lines[at])
                    ready = self._drained[min(number + 1, p.latency)]
                    self._claim(group, f"bank {bank} is what the table holds", ~ready | same)
                    if settled == "read_settled":
                        continue
                    hit, free, cold, marked = (
                        inside.signal(f"{settled}_{told}")[bank] for told in ("hits", "free", "cold", "marked")
                    )
                    _, _, _, tracked_half, cold_half = parts
                    tracked = tracked_half ^ evict
                    compared = hit == (tracked & (lines[at] == inside.signal(line_name)))
                    self._claim(group, f"bank {bank} is compared", ~ready | compared)
                    known = (free == ~tracked) & (marked == (tracked & (cold_half ^ demote)))
                    self._claim(group, f"bank {bank} is known to be free or marked", ~ready | known)
                    # By the age it has, or will have, when the operation is decided.
                    tracked = Array(self._tracked[bank + p.window * r] for r in range(p.rows))[at]
                    age = Array(self._ages[bank + p.window * r] for r in range(p.rows))[at]
                    expired = age >= self._t1 if settled == "classified_settled" else age > self._t1
                    self._claim(
                        group,
                        f"bank {bank} is known to be cold",
                        ~self._running | (cold == (tracked & expired)),
                    )
                    if settled == "classified_settled":
                        ahead = self._blocks["Lifecycle"].ahead
                        stamp = inside.signal(f"held_touches{bank}_heat_stamp")
                        told = inside.signal(f"held_age{bank}") == (ahead - stamp)[: len(stamp)]
                        self._claim(group, f"bank {bank} has its age", ~ready | told)

    def _claim_time(self) -> None:
        """Stamps tell the true age of every line without a mark; lines with one are at T-level 0."""
        now = self._blocks["Lifecycle"].now
        inside = self._inside.block("retirement")
        warm_from = inside.signal("warm_from") == (now - self._t1)[: len(now)]
        self._claim("time", "the oldest warm stamp is known", ~self._running | warm_from)
        self._claim(
            "time", "it is known on which side of 0", ~self._running | (inside.signal("wraps") == (now < self._t1))
        )
        inside = self._inside.block("request_lookup")
        last = Cat(inside.signal("last_demote_slot_bank"), inside.signal("last_demote_slot_row"))
        late = inside.signal("last_demote_enable") & (Array(self._ages)[last] > self._t1 + 4)
        self._claim("time", "a line is marked in time", ~self._running | ~late)
        for slot in self._slots:
            age = self._ages[slot]
            told = (now - self._stamps[slot])[: len(now)]
            self._claim("time", f"slot {slot} has its age by its stamp", ~self._unmarked[slot] | (told == age))
            self._claim("time", f"slot {slot} is cold when marked", ~self._marked[slot] | (age > self._t1))

            for other in self._slots:
                if other != slot:
                    younger = (self._ages[other] < age) | age.all()
                    pair = self._tracked[slot] & self._tracked[other] & self._order.newer(other, slot)
                    self._claim("time", f"slot {other} is younger than slot {slot} if newer", ~pair | younger)
        for a in self._slots:
            older = Cat(self._unmarked[b] & self._order.newer(a, b) for b in self._slots if b != a).any()
            self._claim("marks", f"whatever is older than slot {a} is marked if it is", ~self._marked[a] | ~older)
        self._claim("marks", "the order is one", ~Cat(self._order.cycles()).any())

    def _claim_answers(self) -> None:
        """One answer for each operation, in order, L clocks later."""
        core, m, p = self._core, self._m, self._params

        def later(value: Value, name: str) -> Value:
            for clock in range(p.latency):
                delayed = Signal.like(value, name=f"{name}_{clock}")
                m.d.sync += delayed.eq(value)
                value = delayed
            return value

        for name, asked, answered in (
            ("request", core.req_valid, core.tag_valid),
            ("query", core.query_valid, core.answer_valid),
            ("evict", core.evict_valid, core.victim_valid),
        ):
            self._claim("answers", f"one answer for each {name}", answered == later(asked, name))
        line = later(core.req_addr[LINE_BITS:], "line")
        self._claim("answers", "answers are in order", core.tag_line == Mux(core.tag_valid, line, 0))

    def _claim_decisions(self) -> None:
        """What is answered is so."""
        core, blocks, p = self._core, self._blocks, self._params
        table, recency = blocks["HeatTable"], blocks["RecencyList"]
        line, home = table.line, self._home_of(table.line)
        inside = [(Const(a, p.log2_entries) - home)[: p.log2_entries] < p.window for a in self._slots]
        cold = [t & (age > self._t1) for t, age in zip(self._tracked, self._ages, strict=True)]
        has = [t & (self._lines[a] == line) for a, t in enumerate(self._tracked)]
        live = [t & (self._reclaim_off | ~c) for t, c in zip(self._tracked, cold, strict=True)]
        self._claim(
            "decisions",
            "an answered request is tracked or its window is live",
            ~table.valid | core.tag_tracked | Cat(~i | v for i, v in zip(inside, live, strict=True)).all(),
        )
        self._claim("decisions", "a hit is a hit", ~table.valid | (core.tag_hit == Cat(has).any()))
        self._claim("decisions", "a hit is of its slot", ~core.tag_hit | Array(has)[core.tag_slot])
        spilled = Array(cold)[core.tag_slot] & (Array(self._lines)[core.tag_slot] == core.spill_line)
        self._claim("decisions", "a spilled line is cold", ~core.spill_valid | spilled)
        for bank in range(p.window):
            written = table.write.banks[bank]
            here = core.tag_tracked & (core.tag_slot[: p.log2_window] == bank)
            row = Mux(table.write.place.wrapped[bank], table.write.place.next_row, table.write.place.row)
            self._claim("decisions", f"bank {bank} is written if its slot is taken", written == here)
            self._claim("decisions", f"bank {bank} is written there", ~here | (row == core.tag_slot[p.log2_window :]))
        self._claim("decisions", "the slot taken is in the window", ~core.tag_tracked | Array(inside)[core.tag_slot])
        slot = Array(self._tracked)[core.tag_slot]
        self._claim(
            "decisions",
            "an insert takes a free slot or spills",
            ~(core.tag_tracked & ~core.tag_hit) | (slot == core.spill_valid),
        )
        query = blocks["Query"]
        asked = Signal.like(line, name="asked_line")
        lookup = self._inside.block("query_lookup")
        self._m.d.comb += asked.eq(lookup.signal({0: "read_line", 1: "held_line", 2: "decided_line"}[p.table_stages]))
        known = Cat(t & (self._lines[a] == asked) for a, t in enumerate(self._tracked)).any()
        self._claim("decisions", "a query finds what is tracked", ~query.valid | (query.tracked == known))
        found = core.victim_valid & (core.victim_status == VictimStatus.FOUND)
        victim = recency.tail.slot
        oldest = Array(self._order.oldest(self._tracked))[victim] & Array(cold)[victim]
        self._claim(
            "decisions",
            "a victim is the oldest line and cold",
            ~found | (oldest & (core.victim_line == Array(self._lines)[victim])),
        )
        empty = core.victim_valid & (core.victim_status == VictimStatus.EMPTY) & self._active
        left = Cat(c & ~(self._touch & (self._slot == a)) for a, c in enumerate(cold)).any()
        self._claim("decisions", "EMPTY is exact", ~empty | ~left)
        cold_candidate = Array(cold)[recency.candidate.slot]
        self._claim("decisions", "a line is cold when it gets its mark", ~marks(recency) | cold_candidate)
        none = ~core.tag_tracked & (core.tag_slot == 0) & ~core.spill_valid
        self._claim("decisions", "not active, nothing is tracked", self._active | none)

    def _leans(self) -> None:
        """What is decided follows from what the clock begins with."""
        state = tuple(name for name in self.claims.groups if name not in ("to the list", "decisions", "answers"))
        for group in ("to the list", "decisions"):
            self.claims.lean(group, now=state)

    def _cover(self) -> None:
        """Every interesting decision."""
        core, cover = self._core, self.claims.cover
        recency = self._blocks["RecencyList"]
        insert = core.tag_tracked & ~core.tag_hit & ~core.spill_valid
        cover("insert", insert)
        cover("hit", core.tag_hit)
        cover("spill", core.spill_valid)
        cover("untracked while active", core.tag_valid & ~core.tag_tracked & self._active)
        for status in VictimStatus:
            cover(f"evict {status.name}", core.victim_valid & self._active & (core.victim_status == status))
        cover("touch and evict of one line", steps(recency) & self._touch & (self._slot == recency.tail.slot))
        cover("demotion together with touch", marks(recency) & self._touch & (self._slot == recency.candidate.slot))
        cover(
            "a line marked, and its stamp about to alias",
            Cat(
                k & (age == (1 << self._params.stamp_width) - 1)
                for k, age in zip(self._marked, self._ages, strict=True)
            ).any(),
        )
