"""Functional coverage: which cases of the contract a run has met, by named coverpoints.

Coverage is collected at the scoreboard, from what it compares with: the operations decided in a clock, the model before
that clock and the answers that both agree on. So it is the same for the cocotb bench and for the compiled RTL, and it
touches neither.

The class is our own: cocotb-coverage samples through decorators inside a simulator, evaluates each bin of each point at
every call, and wants cocotb; here the same points are to run at the compiled core's speed without a simulator. What was
wanted of it is small: named points with named bins, counts, a sum over runs, and bins that must never be hit.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kv_asu.params import LINE_BITS, Params
from kv_asu.register_map import REGISTERS, WINDOW_BYTES, Decay, VictimStatus
from kv_asu_firmware.golden import COUNT_MAX, Entry, KvAsuGolden

if TYPE_CHECKING:
    from kv_asu_sim.reference import World
    from kv_asu_sim.scoreboard import Seen, Taken

#: Lines of the cold list, from its tail, among which a touched line's place is looked up.
NEAR_TAIL = 64

#: The farthest apart, in clocks, that two operations on one line are told by their distance.
FAR = 10

WINDOWS = (2, 4, 8, 16)
REQUESTS = ("no request", "warm hit", "cold hit", "new in a free slot", "new by a spill", "untracked")
QUERIES = ("no query", "tracked", "not tracked")
EVICTS = ("no evict", "FOUND", "EMPTY", "RETRY")
EVENTS = ("enable", "disable", "flush", "flush while emptying", "disable while emptying", "reset", "power lost",
          "power back", "snapshot", "clear", "snapshot and clear")  # fmt: skip
_EDGES = {"age": ("at limit", "past limit"), "count": ("at limit", "below limit")}
IRQ = ("UNTRACKED", "COLD_HIGH", "CONFIG_ERROR")


def _probe_bins() -> Iterator[str]:
    for window in WINDOWS:
        places = ("first", "last") if window == 2 else ("first", "inner", "last")
        for outcome, place in product(("hit", "free", "spill"), places):
            yield f"{outcome} in the {place} of {window}"
        yield f"{window} live lines, untracked"
        yield f"a cold line kept by RECLAIM_OFF among {window}, untracked"


def _near(what: str, first: int = 1, last: int = FAR) -> list[str]:
    return [f"{what} {clocks} clocks later" for clocks in range(first, last + 1)]


#: Every coverpoint and its bins.
POINTS: dict[str, tuple[str, ...]] = {
    # where in its window a request ends, and with what
    "cp_probe": tuple(_probe_bins()),
    # the same where the window lies across the end of the table
    "cp_window_wrap": (
        *(f"{how}, {where} the end" for how in ("hit", "free", "spill") for where in ("before", "behind")),
        "untracked",
    ),
    # T-level before and after a request; "-": the line had no slot
    "cp_tlevel": (*(f"{before} to {after}" for before, after in product("-01", "123")), "2 to 2", "2 to 3", "3 to 3"),
    # how a threshold is met by a touch: the limits themselves and their neighbours
    "cp_threshold": (
        *(f"{name} {of} {edge}" for name, of in product(("T3", "T2"), ("age", "count")) for edge in _EDGES[of]),
        *("T1 age at limit", "T1 age past limit"),
    ),
    # which line of the recency list a request touches
    "cp_list_place": (
        *("cold tail", "cold middle", "cold head", "cold only"),
        *("warm newest", "warm within", "warm oldest, nothing cold", "warm only line"),
        *("spill of the tail", "spill of another"),
    ),
    # what the three ports do in one clock
    "cp_ports": tuple(", ".join(bins) for bins in product(REQUESTS, QUERIES, EVICTS))[1:],
    # an eviction and other operations on the same or the neighbouring line in one clock
    "cp_evict_meets": (
        *("touch of the tail", "touch of the next to tail", "spill of the tail", "touch of the only cold line"),
        *("query of the tail", "query and touch of the tail", "line that expires in this clock", "nothing tracked"),
    ),
    # operations on one line a few clocks apart
    "cp_same_line": (
        *("query with the first request", "query with a later request"),
        *_near("request after request"),
        *_near("query after request"),
        *_near("request after eviction"),
        *_near("query after eviction"),
        *_near("request after its spill"),
    ),
    "cp_victim": (
        *("FOUND", "EMPTY", "RETRY", "FOUND twice in a row", "FOUND 8 times in a row"),
        *("FOUND after RETRY", "EMPTY after FOUND", "RETRY twice in a row"),
    ),
    # T-level answered, boost, and whether it was enough
    "cp_query": (
        *("not tracked", "not tracked with boost", "not tracked, level 0 asked for", "level 0, enough"),
        *(f"level {level}{boost}, enough" for level in "123" for boost in ("", " with boost")),
        *(f"level {level}{boost}, not enough" for level in "12" for boost in ("", " with boost")),
        *("level 0, not enough", "level 3 by boost from 3"),
    ),
    # a cold line's counter when it is touched
    "cp_decay": tuple(f"{kind.name} of {count}" for kind, count in product(Decay, ("1", "more", str(COUNT_MAX)))),
    "cp_count": ("1", "2", "more", f"reaches {COUNT_MAX}", f"stays {COUNT_MAX}"),
    # a touch in view of the stamp's width
    "cp_stamp": (
        *("warm over the wrap", "cold after a turn", "cold after two turns", "cold after whole turns"),
        *("cold and young but for a turn", "T1.age at its limit"),
    ),
    "cp_expiry": ("one line", "2 to 8 lines in one clock", "more than 8 in one clock", "touched in that clock"),
    "cp_geometry": (
        *("all entries", "fewer entries", "least entries", "granule of a line", "granule of up to 64 KiB"),
        *("larger granule", "seed 0", "another seed", "tick of a clock", "tick of 2 to 8", "tick of 16 and more"),
    ),
    # settings written while a request is in flight
    "cp_live_write": (
        *("T3", "T2", "CTRL.DECAY", "CTRL.RECLAIM_OFF", "no byte enabled", "some bytes", "all bytes"),
        *(f"refused {name}" for name in ("T3", "T2", "T1", "GEOMETRY", "TIMEBASE", "HASH_SEED")),
    ),
    "cp_life_cycle": tuple(f"{event}, {when}" for event, when in product(EVENTS, ("idle", "operations in flight"))),
    # answers of a core that is not active
    "cp_not_active": ("request", "query", "evict", "all three"),
    "cp_register_read": (*REGISTERS, "no register", "outside the window", "another function", "held"),
    "cp_register_write": (*REGISTERS, "no register", "outside the window", "another function"),
    # register operations beside the hardware port of the same kind
    "cp_register_port": tuple(
        f"{name}, port {port}" for name, port in product(("QUERY", "EVICT"), ("idle", "busy"))
    ),
    "cp_irq": (*(f"rises with {cause}" for cause in IRQ), "falls"),
    "cp_build": (
        *(f"table_stages {stages}" for stages in range(3)),
        *("hash_stages 0", "hash_stages 1 to 3", "hash_stages 4 to 6", "L = 1", "L = 8"),
        *(f"window {window}" for window in WINDOWS),
        *("stamp_width 8", "stamp_width above 8", "addr_width 64", "addr_width below 64"),
    ),
}  # fmt: skip

#: What must never be seen, whatever else happens.
ILLEGAL = {"cp_tlevel": ("2 to 1", "3 to 1", "3 to 2")}


class NoCoverage(Exception):
    """A file is not what `Coverage.save` writes."""


class IllegalBin(AssertionError):
    """Core and model agree on something that the contract rules out."""


class _Look(NamedTuple):
    """What the model holds before the clock of some operations."""

    active: bool = False
    line: int | None = None  # the request's
    entry: tuple[int, int, int] | None = None  # its slot, count and last touch
    place: str = ""
    tail: int | None = None
    next_to_tail: int | None = None
    cold: int = 0
    tracked: int = 0
    reclaimable: bool = False  # a cold line in the request's window
    window: tuple[int, ...] = ()


class Coverage:
    """Counts of every bin of :data:`POINTS`.

    Parameters
    ----------
    params : Params, optional
        The build that is watched; without, the object only sums others up.

    Attributes
    ----------
    hits : Counter of (str, str)
        How often each bin was hit, by coverpoint and bin.
    """

    def __init__(self, params: Params | None = None) -> None:
        self.hits: Counter[tuple[str, str]] = Counter()
        if params is None:
            return
        self._params = params
        self._registers = {(params.config_base + register.offset) >> 2: name for name, register in REGISTERS.items()}
        self._clock = 0
        self._restart()
        self._build()

    def _restart(self) -> None:
        self._requested: dict[int, int] = {}  # the clock of a line's last request, eviction, spill
        self._evicted: dict[int, int] = {}
        self._spilled: dict[int, int] = {}
        self._order: deque[tuple[int, dict[int, int], int]] = deque()
        self._newest: int | None = None
        self._found_in_a_row = 0
        self._last_victim: int | None = None
        self._irq = 0
        self._last_read: tuple[int, int] | None = None

    def hit(self, point: str, name: str) -> None:
        """Count a bin.

        Raises
        ------
        IllegalBin
            It is one that must never be hit.
        """
        if name in ILLEGAL.get(point, ()):
            raise IllegalBin(f"{point}: {name}")
        self.hits[point, name] += 1

    def add(self, hits: Mapping[tuple[str, str], int]) -> None:
        """Add the counts of another run."""
        self.hits.update(hits)

    def missed(self) -> list[tuple[str, str]]:
        """Every bin that was never hit."""
        return [(point, name) for point, names in POINTS.items() for name in names if not self.hits[point, name]]

    # ---- what the scoreboard tells ----
    def look(self, golden: KvAsuGolden, due: Taken) -> _Look:
        """What the model holds before the clock in which ``due`` is decided."""
        if due.request is None and not due.evict:
            return _Look(golden.active, cold=golden.cold)
        if not golden.active:
            return _Look()
        oldest = [entry.line for entry in islice(golden.lines(), 2)]
        tail = oldest[0] if oldest else None
        next_to_tail = oldest[1] if len(oldest) > 1 else None
        limit = golden.settings.t1_age
        tick = golden.next_tick
        found = _Look(True, None, None, "", tail, next_to_tail, golden.cold, golden.tracked)
        if due.request is None:
            return found
        line = golden.line(due.request)
        window = golden.window(line)
        entries = [golden.at(slot) for slot in window]
        entry = next((entry for entry in entries if entry is not None and entry.line == line), None)
        reclaimable = any(entry is not None and tick - entry.touched > limit for entry in entries)
        found = found._replace(line=line, window=tuple(window), reclaimable=reclaimable)
        if entry is None:
            return found
        return found._replace(entry=(entry.slot, entry.count, entry.touched), place=self._place(golden, entry, tick))

    def _place(self, golden: KvAsuGolden, entry: Entry, tick: int) -> str:
        """Where in the recency list a line is that is about to be touched; empty when it is too far from the tail."""
        limit = golden.settings.t1_age
        lines = golden.lines()
        if tick - entry.touched <= limit:
            if golden.tracked == 1:
                return "warm only line"
            if next(lines).line == entry.line:
                return "warm oldest, nothing cold"
            return "warm newest" if entry.line == self._newest else "warm within"
        near = list(islice(lines, NEAR_TAIL))
        index = next((index for index, other in enumerate(near) if other is entry), None)
        if index is None or index + 1 == NEAR_TAIL:
            return ""
        last = index + 1 == len(near) or tick - near[index + 1].touched <= limit
        if index == 0:
            return "cold only" if last else "cold tail"
        return "cold head" if last else "cold middle"

    def decided(self, golden: KvAsuGolden, due: Taken, seen: Seen, before: _Look) -> None:
        """A clock's operations and the answers that core and model agree on.

        Parameters
        ----------
        golden : KvAsuGolden
            The model after the clock.
        due : Taken
            The operations.
        seen : Seen
            The pins.
        before : _Look
            What :meth:`look` said.
        """
        self._clock += 1
        if not golden.active:
            self._not_active(due)
            return
        if not before.active:
            return  # the clock in which it becomes active
        request = self._request(golden, seen.tag, before) if seen.tag is not None else REQUESTS[0]
        query = QUERIES[0]
        if seen.answer is not None and due.query is not None:
            query = QUERIES[1] if seen.answer[0] else QUERIES[2]
            self._query(golden, due.query, seen.answer, before)
        evict = EVICTS[0]
        if seen.victim is not None:
            evict = VictimStatus(seen.victim[0]).name
            self._evict(golden, seen.victim, due, before)
        if due.request is not None or due.query is not None or due.evict:
            self.hit("cp_ports", f"{request}, {query}, {evict}")
        self._expiry(golden, seen, before)

    def taken(self, world: World, taken: Taken, in_flight: Iterable[Taken]) -> None:
        """What the pins carry in a clock, before any of it acts."""
        reading, self._last_read = self._last_read, None
        busy = any(flight.request is not None or flight.query is not None or flight.evict for flight in in_flight)
        when = "operations in flight" if busy else "idle"
        if taken.reset:
            self.hit("cp_life_cycle", f"reset, {when}")
            self._restart()
            return
        if taken.power_good != world.power_good:
            self.hit("cp_life_cycle", f"{'power back' if taken.power_good else 'power lost'}, {when}")
        if taken.read is not None:
            held = taken.read == reading
            self._last_read = None if held else taken.read
            self.hit("cp_register_read", "held" if held else self._named(*taken.read))
        if taken.write is not None:
            self._write(world, taken, when)

    def interrupt(self, world: World, irq: int) -> None:
        """The level of ``irq`` in a clock."""
        if irq == self._irq:
            return
        self._irq = irq
        if not irq:
            self.hit("cp_irq", "falls")
            return
        base = self._params.config_base
        status, enable = (world.read_dword((base + REGISTERS[name].offset) >> 2) or 0
                          for name in ("IRQ_STATUS", "IRQ_ENABLE"))  # fmt: skip
        for bit, cause in enumerate(IRQ):
            if (status & enable) >> bit & 1:
                self.hit("cp_irq", f"rises with {cause}")

    # ---- the ports ----
    def _not_active(self, due: Taken) -> None:
        kinds = [
            name
            for name, there in (
                ("request", due.request is not None),
                ("query", due.query is not None),
                ("evict", due.evict),
            )
            if there
        ]
        for kind in kinds:
            self.hit("cp_not_active", kind)
        if len(kinds) == 3:
            self.hit("cp_not_active", "all three")

    def _request(self, golden: KvAsuGolden, tag: tuple[int, ...], before: _Look) -> str:
        """Sample a request; tell its kind for ``cp_ports``."""
        line, tracked, hit, level, after, count, slot, _, spill, spilled = tag
        settings, window = golden.settings, self._params.window
        wraps = before.window[-1] < before.window[0]
        for earlier, name in (
            (self._requested, "request after request"),
            (self._evicted, "request after eviction"),
            (self._spilled, "request after its spill"),
        ):
            self._distance(earlier, line, name)
        if not tracked:
            if before.reclaimable and settings.reclaim_off:
                self.hit("cp_probe", f"a cold line kept by RECLAIM_OFF among {window}, untracked")
            else:
                self.hit("cp_probe", f"{window} live lines, untracked")
            if wraps:
                self.hit("cp_window_wrap", "untracked")
            return REQUESTS[5]
        outcome = "hit" if hit else "spill" if spill else "free"
        position = before.window.index(slot)
        place = "first" if position == 0 else "last" if position == window - 1 else "inner"
        self.hit("cp_probe", f"{outcome} in the {place} of {window}")
        if wraps:
            self.hit("cp_window_wrap", f"{outcome}, {'before' if slot >= before.window[0] else 'behind'} the end")
        self.hit("cp_tlevel", f"{level if hit else '-'} to {after}")
        self._count(count, before)
        self._note(self._requested, line)
        if before.entry is not None:
            self._touch(golden, level, before)
        self._newest = line
        if spill:
            self._note(self._spilled, spilled)
            self.hit("cp_list_place", f"spill of {'the tail' if spilled == before.tail else 'another'}")
            return REQUESTS[4]
        if not hit:
            return REQUESTS[3]
        return REQUESTS[1] if level else REQUESTS[2]

    def _touch(self, golden: KvAsuGolden, level: int, before: _Look) -> None:
        """Sample a request for a line that had a slot."""
        assert before.entry is not None
        _, count, touched = before.entry
        settings = golden.settings
        age = golden.tick - touched
        if before.place:
            self.hit("cp_list_place", before.place)
        for name, limit_count, limit_age in (
            ("T3", settings.t3_count, settings.t3_age),
            ("T2", settings.t2_count, settings.t2_age),
        ):
            if count >= limit_count and 0 <= age - limit_age <= 1:
                self.hit("cp_threshold", f"{name} age {'at' if age == limit_age else 'past'} limit")
            if age <= limit_age and 0 <= limit_count - count <= 1:
                self.hit("cp_threshold", f"{name} count {'at' if count == limit_count else 'below'} limit")
        if 0 <= age - settings.t1_age <= 1:
            self.hit("cp_threshold", f"T1 age {'at' if age == settings.t1_age else 'past'} limit")
        turn = 1 << self._params.stamp_width
        if level:
            if golden.tick % turn < touched % turn:
                self.hit("cp_stamp", "warm over the wrap")
            if settings.t1_age == self._params.t1_limit and age == settings.t1_age:
                self.hit("cp_stamp", "T1.age at its limit")
            return
        kind = Decay(settings.decay).name
        self.hit("cp_decay", f"{kind} of {count if count in (1, COUNT_MAX) else 'more'}")
        if age >= turn:
            self.hit("cp_stamp", "cold after a turn")
            if age >= 2 * turn:
                self.hit("cp_stamp", "cold after two turns")
            if age % turn == 0:
                self.hit("cp_stamp", "cold after whole turns")
            elif age % turn <= settings.t1_age:
                self.hit("cp_stamp", "cold and young but for a turn")

    def _count(self, count: int, before: _Look) -> None:
        if count == COUNT_MAX:
            full = before.entry is not None and before.entry[1] == COUNT_MAX
            self.hit("cp_count", f"{'stays' if full else 'reaches'} {COUNT_MAX}")
        else:
            self.hit("cp_count", str(count) if count <= 2 else "more")

    def _query(
        self, golden: KvAsuGolden, query: tuple[int, int, int], answer: tuple[int, int, int], before: _Look
    ) -> None:
        address, least, boost = query
        tracked, level, enough = answer
        line = golden.line(address)
        for earlier, name in ((self._requested, "query after request"), (self._evicted, "query after eviction")):
            self._distance(earlier, line, name)
        if line == before.line:
            self.hit("cp_same_line", f"query with {'a later' if before.entry else 'the first'} request")
        if not tracked:
            self.hit("cp_query", "not tracked" + (" with boost" if boost else ""))
            if not least:
                self.hit("cp_query", "not tracked, level 0 asked for")
            return
        by_boost = " with boost" if boost else ""
        self.hit("cp_query", f"level {level}{by_boost}, {'enough' if enough else 'not enough'}")
        if boost and before.line == line and before.entry is not None and self._level(golden, before.entry) == 3:
            self.hit("cp_query", "level 3 by boost from 3")

    @staticmethod
    def _level(golden: KvAsuGolden, entry: tuple[int, int, int]) -> int:
        settings, age = golden.settings, golden.tick - entry[2]
        return 3 if entry[1] >= settings.t3_count and age <= settings.t3_age else 0

    def _evict(self, golden: KvAsuGolden, victim: tuple[int, int], due: Taken, before: _Look) -> None:
        status, line = victim
        name = VictimStatus(status).name
        self.hit("cp_victim", name)
        last = self._last_victim
        self._last_victim = status
        self._found_in_a_row = self._found_in_a_row + 1 if status == VictimStatus.FOUND else 0
        if status == VictimStatus.FOUND:
            self._note(self._evicted, line)
            if last == VictimStatus.RETRY:
                self.hit("cp_victim", "FOUND after RETRY")
            if self._found_in_a_row in (2, 8):
                self.hit("cp_victim", f"FOUND {'twice' if self._found_in_a_row == 2 else '8 times'} in a row")
            if not before.cold:
                self.hit("cp_evict_meets", "line that expires in this clock")
        elif status == VictimStatus.EMPTY and last == VictimStatus.FOUND:
            self.hit("cp_victim", "EMPTY after FOUND")
        elif status == VictimStatus.RETRY and last == VictimStatus.RETRY:
            self.hit("cp_victim", "RETRY twice in a row")
        if not before.tracked:
            self.hit("cp_evict_meets", "nothing tracked")
        asked = None if due.query is None else golden.line(due.query[0])
        if before.tail is None or not before.cold:
            return
        if before.line == before.tail:
            self.hit("cp_evict_meets", "touch of the tail")
            if before.place == "cold only":
                self.hit("cp_evict_meets", "touch of the only cold line")
            if asked == before.tail:
                self.hit("cp_evict_meets", "query and touch of the tail")
        elif before.line is not None and before.line == before.next_to_tail and before.cold > 1:
            self.hit("cp_evict_meets", "touch of the next to tail")
        if asked == before.tail:
            self.hit("cp_evict_meets", "query of the tail")
        if self._spilled.get(before.tail) == self._clock:
            self.hit("cp_evict_meets", "spill of the tail")

    def _expiry(self, golden: KvAsuGolden, seen: Seen, before: _Look) -> None:
        taken = 0
        if seen.tag is not None:
            taken += bool(seen.tag[8]) or (bool(seen.tag[2]) and seen.tag[3] == 0)
        if seen.victim is not None:
            taken += seen.victim[0] == VictimStatus.FOUND
        expired = golden.cold - before.cold + taken
        if expired > 0:
            self.hit("cp_expiry", "one line" if expired == 1 else
                     "2 to 8 lines in one clock" if expired <= 8 else "more than 8 in one clock")  # fmt: skip
            if before.entry is not None and golden.tick - before.entry[2] == golden.settings.t1_age + 1:
                self.hit("cp_expiry", "touched in that clock")

    # ---- operations on one line ----
    def _note(self, earlier: dict[int, int], line: int) -> None:
        earlier[line] = self._clock
        self._order.append((self._clock, earlier, line))
        while self._order[0][0] < self._clock - FAR:
            clock, where, old = self._order.popleft()
            if where.get(old) == clock:
                del where[old]

    def _distance(self, earlier: dict[int, int], line: int, name: str) -> None:
        clocks = self._clock - earlier.get(line, self._clock)
        if 1 <= clocks <= FAR:
            self.hit("cp_same_line", f"{name} {clocks} clocks later")

    # ---- registers ----
    def _named(self, number: int, function: int) -> str:
        if function != self._params.function:
            return "another function"
        if not 0 <= 4 * number - self._params.config_base < WINDOW_BYTES:
            return "outside the window"
        return self._registers.get(number, "no register")

    def _write(self, world: World, taken: Taken, when: str) -> None:
        assert taken.write is not None
        number, value, enables, function = taken.write
        name = self._named(number, function)
        self.hit("cp_register_write", name)
        golden = world.golden
        if name == "CTRL" and enables & 1:
            self._control(golden, value, when)
        if taken.request is not None and golden.active and name in REGISTERS:
            bytes_written = "no byte enabled" if not enables else "all bytes" if enables == 0xF else "some bytes"
            self.hit("cp_live_write", bytes_written)
            if name == "CTRL" and enables & 1:
                for field, changed in (
                    ("DECAY", value >> 4 & 3 != golden.settings.decay),
                    ("RECLAIM_OFF", bool(value >> 6 & 1) != golden.settings.reclaim_off),
                ):
                    if changed:
                        self.hit("cp_live_write", f"CTRL.{field}")
            elif enables == 0xF:
                self._threshold_write(world, name, value)
        if name in ("QUERY", "EVICT") and value & enables & 1:
            port = taken.query is not None if name == "QUERY" else taken.evict
            self.hit("cp_register_port", f"{name}, port {'busy' if port else 'idle'}")

    def _threshold_write(self, world: World, name: str, value: int) -> None:
        settings = world.golden.settings
        age = value >> 16
        if name in ("GEOMETRY", "TIMEBASE", "HASH_SEED", "T1"):
            self.hit("cp_live_write", f"refused {name}")
        elif name in ("T3", "T2"):
            right = age <= settings.t2_age if name == "T3" else settings.t3_age <= age <= settings.t1_age
            self.hit("cp_live_write", name if right else f"refused {name}")

    def _control(self, golden: KvAsuGolden, value: int, when: str) -> None:
        """What a write to CTRL is about to do."""
        settings = golden.settings
        enable, flush, snapshot, clear = (bool(value >> bit & 1) for bit in range(4))
        emptying = settings.enable and not golden.active
        if enable and not settings.enable:
            self.hit("cp_life_cycle", f"enable, {when}")
            self._settings(golden)
        elif not enable and settings.enable:
            self.hit("cp_life_cycle", f"disable{' while emptying' if emptying else ''}, {when}")
        elif enable and flush:
            self.hit("cp_life_cycle", f"flush{' while emptying' if emptying else ''}, {when}")
        if snapshot or clear:
            both = "snapshot and clear" if snapshot and clear else "snapshot" if snapshot else "clear"
            self.hit("cp_life_cycle", f"{both}, {when}")

    def _settings(self, golden: KvAsuGolden) -> None:
        """The structural settings of a core that is being enabled."""
        settings, params = golden.settings, self._params
        active, shift = settings.log2_active, settings.line_shift
        self.hit("cp_geometry", "all entries" if active == params.log2_entries else "fewer entries")
        if active == params.min_log2_active:
            self.hit("cp_geometry", "least entries")
        self.hit("cp_geometry", "granule of a line" if shift == LINE_BITS else
                 "granule of up to 64 KiB" if shift <= 16 else "larger granule")  # fmt: skip
        self.hit("cp_geometry", "another seed" if settings.hash_seed else "seed 0")
        tick = settings.tick_shift
        self.hit("cp_geometry", "tick of a clock" if tick == 0 else
                 "tick of 2 to 8" if tick <= 3 else "tick of 16 and more")  # fmt: skip

    def _build(self) -> None:
        params = self._params
        stages = params.hash_stages
        self.hit("cp_build", f"table_stages {params.table_stages}")
        self.hit("cp_build", f"hash_stages {'0' if not stages else '1 to 3' if stages <= 3 else '4 to 6'}")
        if params.latency in (1, 8):
            self.hit("cp_build", f"L = {params.latency}")
        self.hit("cp_build", f"window {params.window}")
        self.hit("cp_build", f"stamp_width {'8' if params.stamp_width == 8 else 'above 8'}")
        self.hit("cp_build", f"addr_width {'64' if params.addr_width == 64 else 'below 64'}")

    # ---- to a file and back ----
    def save(self, path: Path) -> None:
        """Write every bin's count as JSON: coverpoint, then bin."""
        counts = {point: {name: self.hits[point, name] for name in names} for point, names in POINTS.items()}
        path.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Coverage:
        """Read what :meth:`save` wrote.

        Raises
        ------
        NoCoverage
            The file is something else.
        OSError
            It cannot be read.
        """
        coverage = cls()
        try:
            for point, bins in json.loads(path.read_text(encoding="utf-8")).items():
                if not set(bins) <= set(POINTS[point]) or not all(type(count) is int for count in bins.values()):
                    raise ValueError
                coverage.add({(point, name): count for name, count in bins.items()})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise NoCoverage(f"{path}: is not coverage that a bench has saved") from None
        return coverage
