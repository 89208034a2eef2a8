"""The behavioural model of the KV-ASU: the hardware contract, written once, in plain Python.

Read it beside the hardware contract (sections 3 and 5). Scoreboards, the device model and the documentation use this
model and no other. It knows neither pins nor pipelines: `KvAsuGolden.clock` is called once a clock with the operations
that are decided in that clock, and returns their answers. On the pins both lie L clocks apart, whatever L is.

Two departures from the letter, both for speed and neither visible: a line is found through a dictionary instead of by
comparing its whole window (a line never lies anywhere else), and the tick at which it was last touched is kept as a
plain integer instead of a stamp (a stamp never aliases: a line at T-level 0 stays there until it is touched).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kv_asu.params import LINE_BITS, Params
from kv_asu.register_map import Counter, Decay, VictimStatus
from kv_asu_firmware.integers import count, integer

#: A line's access counter stops here.
COUNT_MAX = 0xFFFF

#: At most so many clocks in a row may evict answer RETRY because the next tail is being fetched.
FETCH_CLOCKS = 4

#: The counters' names in the order of their index.
COUNTERS = tuple(counter.name.lower() for counter in Counter)

# As plain integers: looking up an enumeration's member takes longer than counting.
(
    _CYCLES,
    _REQUESTS,
    _HITS,
    _LEVEL0,
    _LEVEL1,
    _LEVEL2,
    _LEVEL3,
    _INSERTS,
    _UNTRACKED,
    _SPILLS,
    _RESCUES,
    _DEMOTIONS,
    _EVICTIONS,
    _QUERIES,
    _QUERY_HITS,
) = map(int, Counter)


def fmix32(h: int) -> int:
    """MurmurHash3's 32-bit finalizer."""
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def home_slot(line: int, log2_active: int, hash_seed: int = 0) -> int:
    """The first slot of a line's window, in a table of ``2**log2_active`` active entries."""
    return fmix32(line & 0xFFFFFFFF ^ line >> 32 ^ hash_seed) & (1 << log2_active) - 1


@dataclass
class Settings:
    """What the registers set, with the values after reset.

    ``enable`` is what software asked for; whether the core is active is `KvAsuGolden.activate`'s and
    `KvAsuGolden.deactivate`'s matter, since emptying the table takes a while and power may be missing.
    ``decay``, ``reclaim_off`` and the T3 and T2 thresholds may change at any clock. The others are structural: they
    stay as they are while the core is enabled. Ages are in ticks of ``2**tick_shift`` clocks.
    """

    log2_active: int
    enable: bool = False
    decay: int = Decay.HOLD
    reclaim_off: bool = False
    line_shift: int = LINE_BITS
    tick_shift: int = 2
    t3_count: int = 5
    t3_age: int = 25
    t2_count: int = 3
    t2_age: int = 50
    t1_age: int = 125
    hash_seed: int = 0

    def check(self, params: Params) -> None:
        """Raise `ValueError`, naming the setting, unless the build can work with these settings."""
        for name, low, high in (
            ("decay", Decay.HOLD, Decay.CLEAR),
            ("log2_active", params.min_log2_active, params.log2_entries),
            ("line_shift", LINE_BITS, 24),
            ("tick_shift", 0, 24),
            ("t3_count", 0, COUNT_MAX),
            ("t2_count", 0, COUNT_MAX),
            ("t1_age", 1, params.t1_limit),
            ("t2_age", 0, self.t1_age),
            ("t3_age", 0, self.t2_age),
            ("hash_seed", 0, 0xFFFFFFFF),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be {low} to {high}, not {value!r}")


class Query(NamedTuple):
    """A question on the query port: the T-level of the line at ``addr``, without touching it."""

    addr: int
    min_tlevel: int = 0
    boost: bool = False


class Tag(NamedTuple):
    """The answer to a request: the ``tag_*`` and ``spill_*`` pins."""

    line: int
    tracked: bool
    hit: bool
    before: int
    after: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs of an answer
    slot: int
    stamp: int
    spill_valid: bool
    spill_line: int


class Answer(NamedTuple):
    """The answer to a query: the ``answer_*`` pins, and the line's counter, which register QUERY shows."""

    tracked: bool
    tlevel: int
    hit: bool
    count: int  # type: ignore[assignment]


class Victim(NamedTuple):
    """The answer to an evict: the ``victim_*`` pins."""

    status: int
    line: int


class Clock(NamedTuple):
    """The answers to the operations of one clock; None where there was no operation."""

    tag: Tag | None
    answer: Answer | None
    victim: Victim | None


@dataclass(slots=True, eq=False)
class Entry:
    """One occupied slot: its line, its access counter, and the tick of its last touch."""

    line: int
    slot: int
    count: int
    touched: int


# tuple.__new__ takes a third of the time of the class's own, and tags are most of what the model makes.
_tag = partial(tuple.__new__, Tag)
_clock = partial(tuple.__new__, Clock)

#: T-levels as plain integers, by integers of any kind.
_LEVELS = {level: level for level in range(4)}

_UNKNOWN = Answer(False, 0, False, 0)
_NOTHING = Victim(VictimStatus.EMPTY, 0)
_ASK_AGAIN = Victim(VictimStatus.RETRY, 0)


class KvAsuGolden:
    """The contract's behaviour, one call a clock.

    Parameters
    ----------
    params : Params
        The build. Only the widths of the answers, and in `retry_allowed` L, depend on it.

    Attributes
    ----------
    settings : Settings
        The settings in force. A change acts on the next clock; structural ones are for while the core is not active.
    active : bool
        Whether the next clock's operations find the core active.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.settings = Settings(log2_active=params.log2_entries)
        self._counts = [0] * len(COUNTERS)
        self._address_width = params.addr_width
        self._stamp_mask = (1 << params.stamp_width) - 1
        self.active = False
        self._restart()

    # Life cycle

    def activate(self) -> None:
        """Become active from the next clock on: the table empty, the tick 0. A flush ends so, too.

        Raises
        ------
        ValueError
            The settings are not legal for this build.
        """
        self.settings.check(self.params)
        self._restart()
        self.active = True

    def deactivate(self) -> None:
        """Stop from the next clock on: disabled, flushing, or without power. The table is forgotten."""
        self._restart()
        self.active = False

    def _restart(self) -> None:
        self._now = -1  # clocks since active; the first active clock is 0
        self._tick = 0
        self._next_expiry = 0  # no line expires before this tick
        self._slots: list[Entry | None] = [None] * (1 << self.settings.log2_active)
        # All tracked lines by recency, the least recently used first: those at T-level 0, then the others. What is
        # touched goes to the end of _warm; what expires passes from the front of _warm to the end of _cold.
        self._cold: OrderedDict[int, Entry] = OrderedDict()
        self._warm: OrderedDict[int, Entry] = OrderedDict()
        self._tail_touched = self._tail_changed = -1 << 64  # at which clock, for retry_allowed
        self._fetches = 0

    # One clock

    def clock(
        self,
        request: int | None = None,
        query: Query | None = None,
        evict: bool = False,
        evict_retry: bool = False,
    ) -> Clock:
        """Advance one clock, with at most one operation on each port: query, then request, then evict.

        Parameters
        ----------
        request : int, optional
            The byte address of a memory request.
        query : Query, optional
            A question about a line.
        evict : bool
            Take the coldest line out of the table.
        evict_retry : bool
            With ``evict``: the core answered RETRY, so take nothing. `retry_allowed` tells whether it had the right.

        Raises
        ------
        TypeError, ValueError
            An address is no integer, negative, or has more bits than the build; ``min_tlevel`` is not 0 to 3. No clock
            has passed then.
        """
        line = None if request is None else self.line(request)
        asked = least = 0
        if query is not None:
            asked = self.line(query.addr)
            try:
                least = _LEVELS[query.min_tlevel]
            except (KeyError, TypeError):
                raise ValueError(f"min_tlevel must be 0 to 3, not {query.min_tlevel!r}") from None
        if not self.active:
            return Clock(
                None if line is None else Tag(line, False, False, 0, 0, 0, 0, 0, False, 0),
                None if query is None else _UNKNOWN,
                _NOTHING if evict else None,
            )
        self._advance(1)
        answer = None if query is None else self._query(asked, least, query.boost)
        tag = None if line is None else self._request(line)
        victim = self._evict(evict_retry) if evict else None
        return _clock((tag, answer, victim))

    def idle(self, clocks: int) -> None:
        """Advance some clocks without operations; the time this takes grows with the lines that expire only.

        Raises
        ------
        TypeError, ValueError
            Their number is no integer, or negative.
        """
        clocks = count("clocks", clocks)
        if self.active and clocks:
            self._advance(clocks)

    def _advance(self, clocks: int) -> None:
        self._counts[_CYCLES] += clocks
        self._now += clocks
        self._tick = self._now >> self.settings.tick_shift
        if self._tick >= self._next_expiry:
            self._expire()

    def _expire(self) -> None:
        """Lines whose age has passed T1.age are at T-level 0 from this tick on."""
        lifetime = self.settings.t1_age + 1
        while self._warm:
            oldest = next(iter(self._warm.values()))
            self._next_expiry = oldest.touched + lifetime
            if self._next_expiry > self._tick:
                return
            if not self._cold:
                self._tail_changed = self._next_expiry << self.settings.tick_shift
            del self._warm[oldest.line]
            self._cold[oldest.line] = oldest
            self._counts[_DEMOTIONS] += 1
        self._next_expiry = self._tick + lifetime

    def _request(self, line: int) -> Tag:
        counts = self._counts
        counts[_REQUESTS] += 1
        stamp = self._tick & self._stamp_mask
        entry = self._find(line)
        if entry is not None:
            before = self._touch(entry)
            counts[_HITS] += 1
            counts[_LEVEL0 + before] += 1
            return _tag((line, True, True, before, self._tlevel(entry), entry.count, entry.slot, stamp, False, 0))
        counts[_LEVEL0] += 1
        slot = self._place(line)
        if slot is None:
            counts[_UNTRACKED] += 1
            return _tag((line, False, False, 0, 0, 0, 0, stamp, False, 0))
        counts[_INSERTS] += 1
        spilled = self._slots[slot]
        spill = (False, 0)
        if spilled is not None:
            counts[_SPILLS] += 1
            spill = (True, spilled.line)
            if self._take_from_cold(spilled):
                self._tail_touched = self._now
        entry = self._slots[slot] = self._warm[line] = Entry(line, slot, 1, self._tick)
        return _tag((line, True, False, 0, self._tlevel(entry), 1, slot, stamp, *spill))

    def _touch(self, entry: Entry) -> int:
        """Count a touch of a line with a slot; tell its T-level just before."""
        before = self._tlevel(entry)
        if before:
            if not self._cold and entry is next(iter(self._warm.values())):
                self._tail_touched = self._now
            self._warm.move_to_end(entry.line)  # the most recently used
        else:
            self._counts[_RESCUES] += 1
            if self._take_from_cold(entry):
                self._tail_touched = self._now
            self._warm[entry.line] = entry
            self._decay(entry)
        if entry.count < COUNT_MAX:
            entry.count += 1
        entry.touched = self._tick
        return before

    def _decay(self, entry: Entry) -> None:
        if self.settings.decay == Decay.HALVE:
            entry.count >>= 1
        elif self.settings.decay == Decay.CLEAR:
            entry.count = 0

    def _place(self, line: int) -> int | None:
        """The slot a new line takes: the first free one, else the first at T-level 0, else none."""
        window = self.window(line)
        for slot in window:
            if self._slots[slot] is None:
                return slot
        if not self.settings.reclaim_off:
            for slot in window:
                entry = self._slots[slot]
                if entry is not None and entry.line in self._cold:
                    return slot
        return None

    def _query(self, line: int, min_tlevel: int, boost: bool) -> Answer:
        self._counts[_QUERIES] += 1
        entry = self._find(line)
        if entry is None:
            return _UNKNOWN
        tlevel = min(self._tlevel(entry) + (1 if boost else 0), 3)
        hit = tlevel >= min_tlevel
        self._counts[_QUERY_HITS] += hit
        return Answer(True, tlevel, hit, entry.count)

    def _evict(self, retry: bool) -> Victim:
        if retry:
            if not self._tail_touched_lately():
                self._fetches += 1
            return _ASK_AGAIN
        self._fetches = 0
        if not self._cold:
            return _NOTHING
        tail = next(iter(self._cold.values()))
        self._take_from_cold(tail)
        self._slots[tail.slot] = None
        self._counts[_EVICTIONS] += 1
        return Victim(VictimStatus.FOUND, tail.line)

    def _take_from_cold(self, entry: Entry) -> bool:
        """Take a line out of the cold list, wherever it is in it; tell whether it was the tail."""
        was_tail = next(iter(self._cold)) == entry.line
        del self._cold[entry.line]
        if was_tail:
            self._tail_changed = self._now
        return was_tail

    def retry_allowed(self) -> bool:
        """Whether the contract lets the evict of the clock just taken, a RETRY, be one.

        It does when a request took the line then at the tail, as its own or by spilling it, in that clock or the L + 4
        before; or while the next tail is being fetched: the tail changed at most 4 clocks ago, and this is at most the
        fourth such RETRY in a row. With no cold line, the tail is the tracked line least recently used: the core may
        not know yet that it has been touched.
        """
        return self._tail_touched_lately() or (
            self._now - self._tail_changed <= FETCH_CLOCKS and self._fetches <= FETCH_CLOCKS
        )

    def _tail_touched_lately(self) -> bool:
        return self._now - self._tail_touched <= self.params.latency + 4

    # The rules

    def line(self, address: int) -> int:
        """The line number of a byte address, in units of 256 B whatever the granule.

        Raises
        ------
        TypeError, ValueError
            The address is no integer, negative, or has more bits than the build.
        """
        if type(address) is not int:  # spares most calls another one
            address = integer("address", address)
        if address >> self._address_width:  # of a negative one, the sign is left
            raise ValueError(f"address must be 0 to {(1 << self._address_width) - 1:#x}, not {address:#x}")
        return address >> LINE_BITS & -1 << self.settings.line_shift - LINE_BITS

    def window(self, line: int) -> list[int]:
        """The slots a line may live in, in probe order."""
        home = home_slot(line, self.settings.log2_active, self.settings.hash_seed)
        return [(home + probe) % len(self._slots) for probe in range(self.params.window)]

    def _find(self, line: int) -> Entry | None:
        return self._warm.get(line) or self._cold.get(line)

    def _tlevel(self, entry: Entry) -> int:
        settings = self.settings
        age = self._tick - entry.touched
        if entry.count >= settings.t3_count and age <= settings.t3_age:
            return 3
        if entry.count >= settings.t2_count and age <= settings.t2_age:
            return 2
        if age <= settings.t1_age:
            return 1
        return 0

    # What can be looked at

    @property
    def counters(self) -> dict[str, int]:
        """The live counters by name, in the order of their index."""
        return dict(zip(COUNTERS, self._counts, strict=True))

    def clear_counters(self) -> None:
        """What CTRL.CLEAR does."""
        self._counts = [0] * len(COUNTERS)

    @property
    def tick(self) -> int:
        """The tick of the last clock, not wrapped."""
        return self._tick

    @property
    def next_tick(self) -> int:
        """The tick of the coming clock, not wrapped."""
        return self._now + 1 >> self.settings.tick_shift

    @property
    def tracked(self) -> int:
        """How many lines have a slot."""
        return len(self._warm) + len(self._cold)

    @property
    def cold(self) -> int:
        """How many lines are at T-level 0."""
        return len(self._cold)

    def lines(self) -> Iterator[Entry]:
        """The tracked lines, the least recently used first: the cold list from its tail, then the others."""
        yield from self._cold.values()
        yield from self._warm.values()

    def at(self, slot: int) -> Entry | None:
        """What a slot holds."""
        return self._slots[slot]

    def tlevel(self, entry: Entry) -> int:
        """The T-level of a tracked line in the last clock."""
        return self._tlevel(entry)
