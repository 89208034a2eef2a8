"""The recency list against an abstract one.

Two orders are kept beside the list. *decided* is the list as the contract sees it: a touch counts from its decision.
*order* is the list as the links have it: a touch counts once its links are written, one clock later, two where the
list follows; in between it is *in flight*, and its line still stands where it stood. Beside *order* stand the
neighbours of each line (``up_lines``, ``down``), kept as any textbook keeps a doubly linked list: what memories and
cursors hold is claimed to agree with the neighbours, the neighbours with *order*, and *order* with *decided*.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from formal.claims import Claims
from formal.internals import Internals
from formal.order import Order
from kv_asu.links import line_layout, newer_layout, older_layout
from kv_asu.params import Params
from kv_asu.recency_list import RecencyList

#: Bits of a line's age as the model counts it.
AGE_WIDTH = 5


@dataclass
class Decisions:
    """What is decided in this clock: a touch of ``slot``, which may be the tail's, and what goes with it."""

    touch: Value
    slot: Value
    stamp: Value
    cold_half: Value
    touched_tail: Value


@dataclass
class Flight:
    """A touch on its way to the links."""

    valid: Value
    line: data.View
    linked: Value
    left: Value

    @property
    def slot(self) -> Value:
        """The slot."""
        return self.line.slot

    def is_(self, slot: int) -> Value:
        """It takes this slot."""
        return self.valid & (self.slot == slot)


def steps(recency: RecencyList) -> Value:
    """The tail goes on in this clock."""
    return recency.pop & recency.tail_ready


def marks(recency: RecencyList) -> Value:
    """The candidate goes on in this clock: its line has its mark."""
    return recency.demote & recency.candidate_ready


def forgets_oldest(recency: RecencyList, params: Params) -> Value:
    """What is told of the oldest line leaves out the one being marked; a list that follows tells of that, too."""
    return Const(0) if params.list_follows else marks(recency)


class ListModel:
    """The abstract list.

    Attributes
    ----------
    members : list of Value
        The tracked lines, by slot, as the contract sees them.
    marked : list of Value
        Those with a cold mark.
    decided : Order
        When they were touched last.
    in_flight : list of Value
        Those whose links do not show that yet.
    linked : list of Value
        Those in the links, the ones the tail has left behind included.
    stamps, halves : list of Value
        What was linked with them last.
    """

    def __init__(
        self, m: Module, claims: Claims, recency: RecencyList, inside: Internals, params: Params, decisions: Decisions
    ) -> None:
        self._m, self._claims, self._recency, self._inside, self._params = m, claims, recency, inside, params
        self._slots = range(params.entries)
        self._decisions = decisions
        self._linked_age = 3 if params.list_follows else 2
        self._line = inside.record("self_line", line_layout(params))
        self._linking = Flight(inside.signal("touch"), self._line, inside.signal("linked"), inside.signal("left"))
        self._flights = [self._linking]
        if params.list_follows:
            self._flights.append(Flight(recency.touch, recency.line, recency.linked, recency.left))
        self._settled = Signal()  # a memory's read register counts from the second clock on
        m.d.sync += self._settled.eq(1)

        def each(name: str, width: int = 1) -> list[Signal]:
            return [Signal(width, name=f"{name}{slot}") for slot in self._slots]

        self.decided = Order(m, params.entries)
        self.order = Order(m, params.entries)
        self.members: list[Signal] = each("member")
        self.marked: list[Signal] = each("marked")
        self.linked: list[Signal] = each("linked")
        self.passed: list[Signal] = each("passed")  # below the candidate, in the links
        self.stamps: list[Signal] = each("stamp", params.stamp_width)
        self.halves: list[Signal] = each("half")
        self.ages: list[Signal] = each("age", AGE_WIDTH)
        self.told_stamps: list[Signal] = each("told_stamp", params.stamp_width)
        self.told_halves: list[Signal] = each("told_half")
        self.told_ages: list[Signal] = each("told_age", AGE_WIDTH)
        # The next newer line with its stamp and half, and the slot of the next older one.
        self.up_lines = [Signal(line_layout(params), name=f"up{slot}") for slot in self._slots]
        self.up = [line.slot for line in self.up_lines]
        self.down: list[Signal] = each("down", params.log2_entries)
        # What the links say of the parity of the link back.
        self.up_backs: list[Signal] = each("up_back")
        self.down_backs: list[Signal] = each("down_back")
        self.in_flight = [Cat(flight.is_(slot) for flight in self._flights).any() for slot in self._slots]
        left = [Cat(flight.is_(slot) & flight.left for flight in self._flights).any() for slot in self._slots]
        self.left = [behind & linked for behind, linked in zip(left, self.linked, strict=True)]
        self.listed = [linked & ~behind for behind, linked in zip(left, self.linked, strict=True)]
        self.waiting = [linked & ~passed for linked, passed in zip(self.linked, self.passed, strict=True)]

        self._overtaken = {name: inside.block(name).signal("overtaken") for name in ("tail", "candidate")}
        self._valid = {name: inside.block(name).signal("valid") for name in ("tail", "candidate")}
        self._places = {name: self._place(name) for name in ("tail", "candidate")}
        self._decide()
        self._link()
        self._head = inside.record("head", data.StructLayout({"slot": params.log2_entries, "parity": 1}))
        self._point()
        self._claim_order()
        self._claim_flights()
        self._claim_cursors()
        self._claim_links()
        self._claim_memories()
        self._claim_told()
        self._claim_contract()
        self._leans()
        self._cover()

    def _place(self, cursor: str) -> data.View:
        """Where a cursor is, once set right."""
        inside, layout = self._inside.block(cursor), line_layout(self._params)
        stands, right = inside.record("stands", layout), inside.record("right", layout)
        place = Signal(layout, name=f"{cursor}_place")
        with self._m.If(self._overtaken[cursor]):
            self._m.d.comb += place.eq(right)
        with self._m.Else():
            self._m.d.comb += place.eq(stands)
        return place

    def _decide(self) -> None:
        """Advance the list as the contract sees it."""
        m, recency, decisions = self._m, self._recency, self._decisions
        self.decided.touch(decisions.touch, decisions.slot)
        self.popped = steps(recency) & ~decisions.touched_tail
        for slot in self._slots:
            told_age = self.told_ages[slot]
            m.d.sync += told_age.eq(told_age + ~told_age.all())
            with m.If(marks(recency) & (recency.candidate.slot == slot)):
                m.d.sync += self.marked[slot].eq(1)
            with m.If(self.popped & (recency.tail.slot == slot)):
                m.d.sync += [self.members[slot].eq(0), self.marked[slot].eq(0)]
            with m.If(decisions.touch & (decisions.slot == slot)):
                m.d.sync += [
                    self.members[slot].eq(1),
                    self.marked[slot].eq(0),
                    self.told_stamps[slot].eq(decisions.stamp),
                    self.told_halves[slot].eq(decisions.cold_half),
                    told_age.eq(1),
                ]
            with m.If(recency.clear):
                m.d.sync += [self.members[slot].eq(0), self.marked[slot].eq(0)]

    def _link(self) -> None:
        """Advance the list as the links have it."""
        m, recency, linking = self._m, self._recency, self._linking
        self.order.touch(linking.valid, linking.slot)
        # What the line linked last had before: a cursor that stepped onto it still shows that.
        self._old_stamp = Signal(self._params.stamp_width, name="old_stamp")
        self._old_age = Signal(AGE_WIDTH, name="old_age")
        old_age = Array(self.ages)[linking.slot]
        m.d.sync += [
            self._old_stamp.eq(Array(self.stamps)[linking.slot]),
            self._old_age.eq(old_age + ~old_age.all()),
        ]
        skips = self._inside.block("candidate").signal("skips") if self._params.list_follows else Value.cast(0)
        for slot in self._slots:
            age = self.ages[slot]
            m.d.sync += age.eq(age + ~age.all())
            with m.If(self.popped & (recency.tail.slot == slot)):
                m.d.sync += self.linked[slot].eq(0)
            with m.If((marks(recency) & (recency.candidate.slot == slot)) | (skips & (recency.candidate.slot == slot))):
                m.d.sync += self.passed[slot].eq(1)
            with m.If(linking.is_(slot)):
                m.d.sync += [
                    self.linked[slot].eq(1),
                    self.passed[slot].eq(0),
                    self.stamps[slot].eq(self._line.stamp),
                    self.halves[slot].eq(self._line.cold_half),
                    age.eq(self._linked_age),
                ]
            with m.If(recency.clear):
                m.d.sync += [self.linked[slot].eq(0), self.passed[slot].eq(0)]

    def _point(self) -> None:
        """Keep the neighbours of each line, as any textbook has it."""
        m, linking, head = self._m, self._linking, self._head
        lines, down = Array(Value.cast(line) for line in self.up_lines), Array(self.down)
        up_backs, down_backs = Array(self.up_backs), Array(self.down_backs)
        slot, line = linking.slot, self._line.as_value()
        stays = Array(self.linked)[slot] & (slot == head.slot)
        last = Signal(name="model_last")
        m.d.comb += last.eq(linking.left | (self._valid["tail"] & (self._places["tail"].slot == slot)))
        with m.If(linking.valid & linking.linked & ~last):
            m.d.sync += [
                lines[down[slot]].eq(Mux(stays, line, lines[slot])),
                up_backs[down[slot]].eq(Mux(stays, self._own_parity("older_push"), up_backs[slot])),
            ]
        with m.If(linking.valid & linking.linked & ~last & ~stays):
            m.d.sync += [
                down[self._up_of(slot)].eq(down[slot]),
                down_backs[self._up_of(slot)].eq(down_backs[slot]),
            ]
        with m.If(linking.valid & ~stays):
            m.d.sync += [
                down[slot].eq(head.slot),
                down_backs[slot].eq(head.parity),
                lines[head.slot].eq(line),
                up_backs[head.slot].eq(linking.linked & self._own_parity("older_unlink")),
            ]

    def _own_parity(self, bank: str) -> Value:
        """The parity that a touch has read of its own slot."""
        layout = older_layout(self._params) if "older" in bank else newer_layout(self._params)
        return self._inside.block(bank).record("read_data", layout).parity

    def _up_of(self, slot: Value) -> Value:
        return Array(self.up)[slot]

    def _claim(self, group: str, name: str, value: Value) -> None:
        self._claims.claim(group, name, value)

    def _claim_order(self) -> None:
        """Orders are orders; those passed by the candidate, and left by the tail, are the oldest."""
        for name, order in (("decided", self.decided), ("linked", self.order)):
            self._claim("order", f"{name} is a total order", ~Cat(order.cycles()).any())
        pairs = [(a, b) for a in self._slots for b in self._slots if a != b]
        self._claim(
            "order",
            "whatever is older than a passed line is passed",
            ~Cat(
                self.linked[a] & self.linked[b] & self.passed[a] & self.order.newer(a, b) & ~self.passed[b]
                for a, b in pairs
            ).any(),
        )
        self._claim(
            "order",
            "what the tail has left is older than the rest",
            ~Cat(self.left[a] & self.listed[b] & self.order.newer(a, b) for a, b in pairs).any(),
        )
        same = [
            ~self.members[a]
            | ~self.members[b]
            | self.in_flight[a]
            | self.in_flight[b]
            | (self.decided.newer(a, b) == self.order.newer(a, b))
            for a, b in pairs
            if a < b
        ]
        ahead = [~self.in_flight[a] | self.in_flight[b] | ~self.members[b] | self.decided.newer(a, b) for a, b in pairs]
        self._claim("order", "links agree with decisions", Cat(same).all())
        self._claim("order", "lines in flight are the newest", Cat(ahead).all())
        if self._params.list_follows:
            first, second = self._flights
            in_turn = [~(first.is_(a) & second.is_(b)) | self.decided.newer(b, a) for a, b in pairs]
            self._claim("order", "flights are in turn", Cat(in_turn).all())

    def _claim_flights(self) -> None:
        """Touches on their way know whether their line is linked, and marks and members agree."""
        linked = Array(self.linked)
        first = self._linking
        self._claim("flights", "linking knows", ~first.valid | (first.linked == linked[first.slot]))
        self._claim("flights", "left is linked", ~(first.valid & first.left) | linked[first.slot])
        if self._params.list_follows:
            second = self._flights[1]
            same = first.valid & (first.slot == second.slot)
            self._claim("flights", "following knows", ~second.valid | (second.linked == (linked[second.slot] | same)))
            self._claim(
                "flights", "following left is linked", ~(second.valid & second.left) | (linked[second.slot] & ~same)
            )
        for slot in self._slots:
            self._claim(
                "flights",
                f"slot {slot} is a member when linked or in flight",
                self.members[slot] == (self.linked[slot] | self.in_flight[slot]),
            )
            self._claim(
                "flights",
                f"slot {slot} is marked when passed",
                ~self.members[slot]
                | (self.marked[slot] == (self.linked[slot] & self.passed[slot] & ~self.in_flight[slot])),
            )
            self._claim("flights", f"slot {slot} is a member when marked", ~self.marked[slot] | self.members[slot])

    def _at(self, place: data.View, chosen: list[Value]) -> Value:
        """The place is the chosen slot, with its stamp and half."""
        return Cat(
            ~chosen[slot]
            | ((place.slot == slot) & (place.stamp == self.stamps[slot]) & (place.cold_half == self.halves[slot]))
            for slot in self._slots
        ).all()

    def _claim_cursors(self) -> None:
        """The tail is at the oldest line, the candidate at the oldest it has not passed."""
        for cursor, lines in (("tail", self.listed), ("candidate", self.waiting)):
            valid, place = self._valid[cursor], self._places[cursor]
            self._claim(cursor, f"{cursor} stands on a line if there is one", valid == Cat(lines).any())
            self._claim(cursor, f"{cursor} is at the oldest", self._at(place, self.order.oldest(lines)))
        for slot in self._slots:
            self._claim(
                "candidate",
                f"slot {slot} left by the tail first is on its way to the head",
                ~(self.left[slot] & self.waiting[slot]) | (self._linking.is_(slot) & self._linking.left),
            )

    def _claim_links(self) -> None:
        """Links of neighbours name each other, in every copy; each end knows the other's parity."""
        newer, older = newer_layout(self._params), older_layout(self._params)

        def memory(path: str, layout: data.StructLayout) -> list[data.View]:
            return self._inside.block(f"{path}.memory").rows(layout)

        unlinks = memory("newer_unlink", newer)
        pushes = memory("newer_push", newer)
        older_unlinks, older_pushes = memory("older_unlink", older), memory("older_push", older)
        copies = {
            cursor: (memory(f"{cursor}.newer_unlink", newer), memory(f"{cursor}.newer_push", newer))
            for cursor in ("tail", "candidate")
        }

        def live(unlink: data.View, push: data.View) -> data.View:
            link = Signal(unlink.shape(), name="live")
            with self._m.If(unlink.parity ^ push.parity):
                self._m.d.comb += link.eq(unlink)
            with self._m.Else():
                self._m.d.comb += link.eq(push)
            return link

        head, slots = self._head, self._slots
        at_tail = [self._valid["tail"] & (self._places["tail"].slot == a) for a in slots]
        at_head = [head.slot == a for a in slots]
        followed = [(self.listed[a] | self.waiting[a]) & ~at_head[a] for a in slots]

        newest = self.order.newest(self.listed)
        for a in slots:
            up = self.up[a]
            self._claim("rising", f"slot {a} points at a newer line", ~followed[a] | self._newer_than(up, a))
            line = self.up_lines[a]
            held = (line.stamp == Array(self.stamps)[line.slot]) & (line.cold_half == Array(self.halves)[line.slot])
            self._claim("stamps", f"slot {a} knows the stamp and half of the next newer line", ~followed[a] | held)
            between = [
                self.linked[c] & self.order.newer(c, a) & (up != c) & self._newer_than(up, c) for c in slots if c != a
            ]
            self._claim("chain", f"slot {a} points at the next newer line", ~followed[a] | ~Cat(between).any())
            self._claim(
                "head", f"slot {a} is listed only if the head is", ~self.listed[a] | Array(self.listed)[head.slot]
            )
            self._claim("head", f"slot {a} is at the head if it is the newest", ~newest[a] | at_head[a])
            self._claim(
                "neighbours",
                f"slot {a} is pointed at from above",
                ~followed[a]
                | (
                    Array(self.linked)[self.up[a]]
                    & (self.up[a] != a)
                    & (~self.listed[a] | (Array(self.listed)[self.up[a]] & (Array(self.down)[self.up[a]] == a)))
                ),
            )
            self._claim(
                "neighbours",
                f"slot {a} is pointed at from below",
                ~self.listed[a]
                | at_tail[a]
                | (
                    Array(self.listed)[self.down[a]]
                    & (self.down[a] != a)
                    & (self.down[a] != head.slot)
                    & (Array(self.up)[self.down[a]] == a)
                ),
            )

        self._claim_joint(older_pushes, pushes, unlinks)
        backs = [live(*pair) for pair in zip(older_unlinks, older_pushes, strict=True)]
        mains = [live(*pair) for pair in zip(unlinks, pushes, strict=True)]
        for copy, (unlink_rows, push_rows) in {"list": (unlinks, pushes), **copies}.items():
            for a in slots:
                link = live(unlink_rows[a], push_rows[a])
                same = (unlink_rows[a].parity == unlinks[a].parity) & (
                    at_head[a] | (push_rows[a].parity == pushes[a].parity)
                )
                reference = self.up_lines[a].as_value() if copy == "list" else mains[a].line.as_value()
                self._claim(
                    f"newer links of the {copy}",
                    f"slot {a} names the next newer",
                    ~followed[a] | (link.line.as_value() == reference),
                )
                self._claim(f"newer links of the {copy}", f"slot {a} has the right parities", ~self.linked[a] | same)
        for a in slots:
            has_older, has_newer = self.listed[a] & ~at_tail[a], self.listed[a] & ~at_head[a]
            back = backs[a]
            named = (back.slot == self.down[a]) & (back.back_parity == self.down_backs[a])
            self._claim("older links", f"slot {a} names the next older", ~has_older | named)
            known = mains[a].back_parity == self.up_backs[a]
            self._claim("older links", f"slot {a} tells the parity of the link back", ~has_newer | known)
            known = head.parity == unlinks[a].parity
            self._claim(
                "older links", f"slot {a} at the head has its parity known", ~(self.linked[a] & at_head[a]) | known
            )
            right = self.down_backs[a] == Array(row.parity for row in pushes)[self.down[a]]
            self._claim("parities", f"slot {a} is right about the next older", ~has_older | right)
            right = self.up_backs[a] == Array(row.parity for row in older_pushes)[self.up[a]]
            self._claim("parities", f"slot {a} is right about the next newer", ~has_newer | right)

    def _claim_joint(self, older_pushes: list[data.View], pushes: list[data.View], unlinks: list[data.View]) -> None:
        """What an unlink has read of the neighbours it joins."""
        older = self._inside.record("older", older_layout(self._params))
        newer = self._inside.record("newer", newer_layout(self._params))
        linking, slot = self._linking, self._linking.slot
        up, down = Array(self.up)[slot], Array(self.down)[slot]
        unlinks_newer = linking.valid & linking.linked & (self._head.slot != slot)
        unlinks_older = (
            linking.valid
            & linking.linked
            & ~linking.left
            & ~(self._valid["tail"] & (self._places["tail"].slot == slot))
        )
        for name, value in (
            ("newer neighbour", newer.line.as_value() == Array(line.as_value() for line in self.up_lines)[slot]),
            ("parity told by the newer link", linking.left | (newer.back_parity == Array(self.up_backs)[slot])),
            (
                "parity of the newer neighbour",
                linking.left | (newer.back_parity == Array(row.parity for row in older_pushes)[up]),
            ),
        ):
            self._claim("joint", name, ~unlinks_newer | value)
        for name, value in (
            ("older neighbour", older.slot == down),
            ("parity told by the older link", older.back_parity == Array(self.down_backs)[slot]),
            ("parity of the older neighbour", older.back_parity == Array(row.parity for row in pushes)[down]),
        ):
            self._claim("joint", name, ~unlinks_older | value)
        for name, bank, rows in (("newer unlink", "newer_unlink", unlinks), ("older push", "older_push", older_pushes)):
            parity = self._own_parity(bank)
            self._claim(
                "joint", f"own parity in {name}", ~linking.valid | (parity == Array(row.parity for row in rows)[slot])
            )

    def _newer_than(self, slot: Value, other: int) -> Value:
        """The order of a slot that is not a constant."""
        return Array(Value.cast(0) if a == other else self.order.newer(a, other) for a in self._slots)[slot]

    def _leans(self) -> None:
        """What the solver can do without."""
        lean = self._claims.lean
        copies = [f"newer links of the {owner}" for owner in ("list", "tail", "candidate")]
        links = [
            "newer links of the list",
            "older links",
            "flights",
            "reads",
            "neighbours",
            "rising",
            "head",
            "candidate",
            "joint",
        ]
        lean("rising", "head", "neighbours", "order", "flights", "tail", "candidate")
        lean("neighbours", "head", "rising", "flights", "tail", "candidate", "order", *copies, "reads")
        lean("chain", "head", "rising", "neighbours", "order", "flights", "tail", "candidate", *copies, "reads")
        lean("newer links of the list", *links)
        for copy in copies[1:]:
            lean(copy, *links)
        lean(
            "parities",
            "joint",
            "older links",
            "flights",
            "reads",
            "neighbours",
            "rising",
            "head",
            "candidate",
            "tail",
            *copies,
        )
        lean("stamps", "neighbours", "rising", "head", "flights", "tail", "candidate")
        lean(
            "joint",
            now=("newer links of the list", "older links", "parities", "reads", "flights", "neighbours", "head"),
        )
        lean("older links", *links, "tail", *copies)
        lean("reads")
        lean("order", "head", "rising", "chain", "flights", "tail", "candidate", "contract")
        lean(
            "tail", "stamps", "head", "rising", "chain", "neighbours", "flights", "order", "reads", *copies, "candidate"
        )
        lean(
            "candidate", "stamps", "head", "rising", "chain", "neighbours", "flights", "order", "reads", *copies, "tail"
        )
        lean("head", "order", "flights", "tail")
        lean("told", "flights")
        lean("contract", now=("order", "flights", "tail", "candidate", "told"))
        lean("in time", now=("punctual", "told", "order", "flights", "candidate"))
        lean(
            "oldest",
            now=(
                "punctual",
                "told",
                "order",
                "flights",
                "candidate",
                "stamps",
                "head",
                "chain",
                "rising",
                "neighbours",
                "reads",
                *copies,
            ),
        )
        lean(
            "punctual",
            "stamps",
            "order",
            "flights",
            "tail",
            "candidate",
            "head",
            "rising",
            "chain",
            "neighbours",
            "reads",
            *copies,
        )

    def _claim_memories(self) -> None:
        """A read returns what the memory holds now, of the slot in hand."""
        memories = [(name, self._line.slot) for name in ("older_unlink", "older_push", "newer_unlink", "newer_push")]
        for cursor in ("tail", "candidate"):
            stands = self._inside.block(cursor).record("stands", line_layout(self._params))
            memories += [(f"{cursor}.newer_{bank}", stands.slot) for bank in ("unlink", "push")]
        for path, slot in memories:
            memory = self._inside.block(path)
            layout = older_layout(self._params) if "older" in path else newer_layout(self._params)
            read = memory.record("read_data", layout).as_value()
            rows = Array(row.as_value() for row in memory.block("memory").rows(layout))
            self._claim("reads", f"{path} reads the slot in hand", ~self._settled | (memory.signal("asked") == slot))
            self._claim("reads", f"{path} reads what is there", ~self._settled | (read == rows[memory.signal("asked")]))

    def _claim_told(self) -> None:
        """What a touch brought with it is in flight or linked, and ages count from the decision."""
        for slot in self._slots:
            told = Cat(self.told_stamps[slot], self.told_halves[slot])
            age = self.told_ages[slot]
            linked = Cat(self.stamps[slot], self.halves[slot])
            brought, oldest = linked, age == self.ages[slot]
            for clock, flight in enumerate(self._flights):  # the later one counts
                late = self._linked_age - 1 - clock
                brought = Mux(flight.is_(slot), Cat(flight.line.stamp, flight.line.cold_half), brought)
                oldest = Mux(flight.is_(slot), age == late, oldest)
            self._claim("told", f"slot {slot} has what its last touch brought", ~self.members[slot] | (told == brought))
            self._claim("told", f"slot {slot} has its age", ~self.members[slot] | oldest)

    def _claim_oldest(self) -> None:
        """The stamp given for the lines that wait for their mark is one that is no younger than any of them."""
        recency, line = self._recency, self._line
        # T1.age is 1 at least: a line of that age is not cold.
        waiting = [
            member & ~marked & (age > 1)
            for member, marked, age in zip(self.members, self.marked, self.told_ages, strict=True)
        ]

        def no_younger(age: Value) -> Value:
            return Cat(~waits | (told <= age) for waits, told in zip(waiting, self.told_ages, strict=True)).all()

        stamps = [
            linked & (stamp == recency.oldest_stamp) & no_younger(age)
            for linked, stamp, age in zip(self.linked, self.stamps, self.ages, strict=True)
        ]
        linking = self._linking.valid & (line.stamp == recency.oldest_stamp)
        overtaken = self._valid["candidate"] & self._overtaken["candidate"]
        stamps.append(overtaken & (self._old_stamp == recency.oldest_stamp) & no_younger(self._old_age))
        stamps.append(linking & no_younger(Array(self.told_ages)[line.slot]))
        forgets = forgets_oldest(recency, self._params)
        self._claim(
            "oldest",
            "the oldest stamp is no younger",
            recency.clear | forgets | ~Cat(waiting).any() | (recency.oldest_valid & Cat(stamps).any()),
        )

    def _claim_contract(self) -> None:
        """What the other blocks rely on."""
        recency = self._recency
        oldest = self.decided.oldest(list(self.members))
        unmarked = [member & ~marked for member, marked in zip(self.members, self.marked, strict=True)]
        self._claim(
            "contract",
            "a ready tail is the line least recently used",
            ~recency.tail_ready | Array(oldest)[recency.tail.slot],
        )
        at_candidate = Array(self.decided.oldest(unmarked))[recency.candidate.slot]
        self._claim(
            "contract",
            "a ready candidate is the oldest line without a mark",
            ~recency.candidate_ready | at_candidate,
        )
        in_flight = Array(self.in_flight)
        for name, ready, line in (
            ("tail", recency.tail_ready, recency.tail),
            ("candidate", recency.candidate_ready, recency.candidate),
        ):
            self._claim("contract", f"a ready {name} is not in flight", ~ready | ~in_flight[line.slot])
        told = (recency.candidate.stamp == Array(self.told_stamps)[recency.candidate.slot]) & (
            recency.candidate.cold_half == Array(self.told_halves)[recency.candidate.slot]
        )
        self._claim("contract", "a ready candidate comes with its stamp and half", ~recency.candidate_ready | told)
        next_tail = Signal.like(recency.next_tail, name="last_next_tail", reset_less=True)
        self._m.d.sync += next_tail.eq(recency.next_tail)
        self._claim("contract", "the next tail is told", ~self._settled | (recency.tail.slot == next_tail))
        self._claim(
            "contract",
            "whatever is older than a marked line is marked",
            Cat(
                ~self.members[a] | ~self.members[b] | ~self.marked[a] | self.decided.newer(b, a) | self.marked[b]
                for a in self._slots
                for b in self._slots
                if a != b
            ).all(),
        )

    def due(self, limit: Value) -> Value:
        """The candidate may be marked, and its age has reached ``limit`` clocks."""
        return self._recency.candidate_ready & (Array(self.ages)[self._places["candidate"].slot] >= limit)

    def claim_punctual(self, limit: Value) -> None:
        """If lines are marked when they are due, no line without a mark gets older than ``limit``."""
        self._claims.assume((limit >= 2) & (limit < (1 << AGE_WIDTH) - 4), group="punctual")
        place = Array(self.ages)[self._places["candidate"].slot]
        self._claim(
            "punctual",
            "older lines have greater ages",
            Cat(
                ~self.linked[a]
                | ~self.linked[b]
                | ~self.order.newer(b, a)
                | (self.ages[b] < self.ages[a])
                | self.ages[a].all()
                for a in self._slots
                for b in self._slots
                if a != b
            ).all(),
        )
        self._claim(
            "punctual",
            "no linked line is younger than the way to the links is long",
            Cat(~linked | (age >= self._linked_age) for linked, age in zip(self.linked, self.ages, strict=True)).all(),
        )
        self._claim(
            "punctual",
            "the candidate is no older than the limit allows",
            ~self._valid["candidate"] | (place + self._overtaken["candidate"] <= limit + 2),
        )
        overtaken = self._valid["candidate"] & self._overtaken["candidate"]
        stands = self._inside.block("candidate").record("stands", line_layout(self._params))
        self._claim(
            "punctual",
            "an overtaken candidate shows an older line",
            ~overtaken | ((stands.stamp == self._old_stamp) & (self._old_age >= place)),
        )
        young = [
            ~member | marked | (age <= limit + 2)
            for member, marked, age in zip(self.members, self.marked, self.told_ages, strict=True)
        ]
        self._claim("in time", "no line without a mark is older than the limit allows", Cat(young).all())
        self._claim_oldest()

    def _cover(self) -> None:
        """Every interesting touch, and what cursors meet."""
        recency, decisions, claims = self._recency, self._decisions, self._claims
        member = Array(self.members)[decisions.slot]
        oldest, newest = self.decided.oldest(list(self.members)), self.decided.newest(list(self.members))
        at_tail, at_head = Array(oldest)[decisions.slot], Array(newest)[decisions.slot]
        touch = decisions.touch & member
        claims.cover("touch of a new line", decisions.touch & ~member)
        claims.cover("touch of the head", touch & at_head & ~at_tail)
        claims.cover("touch of the tail", touch & at_tail & ~at_head)
        claims.cover("touch of the middle", touch & ~at_tail & ~at_head)
        claims.cover("touch of the only line", touch & at_tail & at_head)
        claims.cover(
            "demotion together with a touch of the line",
            touch & marks(recency) & (decisions.slot == recency.candidate.slot),
        )
        claims.cover("the tail is taken out", self.popped)
        claims.cover("the tail is touched as it would be taken out", steps(recency) & decisions.touched_tail)
        claims.cover("overtaken tail", self._valid["tail"] & self._overtaken["tail"])
        claims.cover("overtaken candidate", self._valid["candidate"] & self._overtaken["candidate"])
        claims.cover("all slots listed, half of them marked", Cat(self.members).all() & Cat(self.marked[:4]).all())
