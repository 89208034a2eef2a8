"""Streams that break such cores: what the pins carry, clock by clock, from a name, a build and a seed.

A stream is an endless generator of blocks of rows (:data:`kv_asu_sim.pins.INPUTS`), all ports at once, register
accesses included. Nothing in it depends on the core's answers, so the same rows play through cocotb and through the
compiled RTL. :func:`play` cuts a stream to a length and closes it with the read-out of every register that must have
settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kv_asu.params import LINE_BITS, Params
from kv_asu.register_map import REGISTERS, WINDOW_BYTES
from kv_asu.register_types import Access
from kv_asu_sim.hash_inverse import lines_with_home
from kv_asu_sim.pins import INPUTS

Rows = np.ndarray
Stream = Callable[["Plan"], Iterator[Rows]]

#: Every stream by its name; the docstring says what it is after.
STREAMS: dict[str, Stream] = {}

#: Streams that show what they are for only after this many clocks.
NEEDS_CLOCKS = {"counter_saturation": 99_000}

ENABLE, FLUSH, SNAPSHOT, CLEAR, RECLAIM_OFF = 1, 2, 4, 8, 64


def _stream(make: Stream) -> Stream:
    STREAMS[make.__name__] = make
    return make


@dataclass
class Plan:
    """What a stream knows while it is being made: the build, the dice, and the settings it has programmed."""

    params: Params
    rng: np.random.Generator
    log2_active: int = 0
    line_shift: int = LINE_BITS
    tick_shift: int = 2
    t1_age: int = 125
    hash_seed: int = 0
    control: int = 0

    @property
    def active(self) -> int:
        """Active entries."""
        return 1 << self.log2_active

    # ---- rows ----
    def idle(self, clocks: int) -> Rows:
        """Clocks in which no port does anything."""
        rows = np.zeros(max(clocks, 0), INPUTS)
        rows["power_good"] = 1
        rows["cfg_ext_function_number"] = self.params.function
        return rows

    def reset(self, clocks: int = 2) -> Rows:
        """Clocks under reset; the registers come back with their reset values."""
        self.log2_active, self.line_shift, self.tick_shift = self.params.log2_entries, LINE_BITS, 2
        self.t1_age, self.hash_seed, self.control = 125, 0, 0
        rows = self.idle(clocks)
        rows["rst"] = 1
        return rows

    def write(self, name: str, value: int, byte_enable: int = 0xF) -> Rows:
        """One clock that writes a register."""
        rows = self.idle(1)
        put_write(rows, 0, self.params, name, value, byte_enable)
        return rows

    def read(self, *names: str) -> Rows:
        """Clocks that read registers, one every second clock, some held until they are answered."""
        rows = self.idle(2 * len(names) + 1)
        for index, name in enumerate(names):
            for clock in range(2 * index, 2 * index + 1 + int(self.rng.integers(2))):
                put_read(rows, clock, self.params, name)
        return rows

    def flush_clocks(self) -> int:
        """The most clocks the table may take to be emptied."""
        return self.active // self.params.window + self.params.latency + 8

    def start(
        self,
        *,
        t1: int = 125,
        t2: tuple[int, int] = (3, 50),
        t3: tuple[int, int] = (5, 25),
        tick_shift: int = 2,
        log2_active: int | None = None,
        line_shift: int = LINE_BITS,
        hash_seed: int = 0,
        control: int = 0,
    ) -> Rows:
        """Reset, program and enable the core, then wait until its table is empty. Ages follow T1 down if above it."""
        blocks = [self.reset()]
        self.log2_active = self.params.log2_entries if log2_active is None else log2_active
        self.line_shift, self.tick_shift, self.t1_age = line_shift, tick_shift, t1
        self.hash_seed, self.control = hash_seed, control | ENABLE
        age2 = min(t2[1], t1)
        age3 = min(t3[1], age2)
        blocks += [
            self.write("T3", t3[0]),  # ages fall to 0 first, so that no write is out of order
            self.write("T2", t2[0]),
            self.write("T1", 1 | t1 << 16),
            self.write("T2", t2[0] | age2 << 16),
            self.write("T3", t3[0] | age3 << 16),
            self.write("GEOMETRY", self.log2_active | line_shift << 8),
            self.write("TIMEBASE", tick_shift),
            self.write("HASH_SEED", hash_seed),
            self.write("IRQ_ENABLE", int(self.rng.integers(8))),
            self.write("COLD_WATERMARK", int(self.rng.integers(self.active))),
            self.write("CTRL", self.control),
            self.idle(self.flush_clocks()),
            self.read("STATUS"),
        ]
        return np.concatenate(blocks)

    def random_start(self, **fixed: int) -> Rows:
        """Start with settings drawn to make everything happen soon: short ages, low counts, quick ticks."""
        rng, limit = self.rng, self.params.t1_limit
        t1 = int(min(rng.choice([1, 2, 3, 5, 8, 13, 30, 125, limit]), limit))
        settings = {
            "t1": t1,
            "t2": (int(rng.integers(1, 6)), int(rng.integers(0, t1 + 1))),
            "t3": (int(rng.integers(1, 9)), int(rng.integers(0, t1 + 1))),
            "tick_shift": int(rng.choice([0, 0, 1, 2, 3])),
            "hash_seed": int(rng.integers(1 << 32)),
            "control": int(rng.integers(3)) << 4 | (RECLAIM_OFF if rng.random() < 0.2 else 0),
        }
        return self.start(**{**settings, **fixed})  # type: ignore[arg-type]

    def age_out(self) -> Rows:
        """Idle until every line is cold."""
        return self.idle(((self.t1_age + 1) << self.tick_shift) + 2)

    # ---- lines and addresses ----
    def lines(self, count: int) -> np.ndarray:
        """Distinct random line numbers in the present granule."""
        granule = self.line_shift - LINE_BITS
        numbers = self.rng.choice(1 << min(self.params.line_width - granule, 40), count * 2, replace=True)
        distinct = np.unique(numbers.astype(np.uint64))
        self.rng.shuffle(distinct)
        return distinct[:count] << np.uint64(granule)

    def homed(self, homes: np.ndarray) -> np.ndarray:
        """Lines whose home slots are given, under the present geometry and seed."""
        return lines_with_home(
            self.params,
            np.asarray(homes) % self.active,
            self.rng,
            log2_active=self.log2_active,
            line_shift=self.line_shift,
            hash_seed=self.hash_seed,
        )

    def addresses(self, lines: np.ndarray) -> np.ndarray:
        """Addresses inside the given lines; the bits below the granule are anything."""
        below = self.rng.integers(0, 1 << self.line_shift, lines.size, dtype=np.uint64)
        return (lines.astype(np.uint64) << np.uint64(LINE_BITS)) | below

    # ---- traffic ----
    def traffic(
        self,
        lines: np.ndarray,
        *,
        request: float | np.ndarray = 1.0,
        query: float | np.ndarray = 0.5,
        evict: float | np.ndarray = 0.0,
        asked: np.ndarray | None = None,
    ) -> Rows:
        """One clock per line: requests for them, queries and evictions beside them.

        Parameters
        ----------
        lines : ndarray of uint64
            The line requested in each clock.
        request, query, evict : float or ndarray of bool
            The share of clocks, or the very clocks, in which each port is valid.
        asked : ndarray of uint64, optional
            The line queried in each clock; by default the one requested in this clock or one or two before.
        """
        clocks = lines.size
        rows = self.idle(clocks)
        if asked is None:
            recent = np.arange(clocks) - self.rng.integers(0, 3, clocks)
            asked = lines[np.maximum(recent, 0)]
        for port, share in (("req_valid", request), ("query_valid", query), ("evict_valid", evict)):
            rows[port] = share if isinstance(share, np.ndarray) else self.rng.random(clocks) < share
        rows["req_addr"] = np.where(rows["req_valid"], self.addresses(lines), 0)
        rows["query_addr"] = np.where(rows["query_valid"], self.addresses(asked), 0)
        rows["query_min_tlevel"] = rows["query_valid"] * self.rng.integers(0, 4, clocks)
        rows["query_boost"] = rows["query_valid"] * self.rng.integers(0, 2, clocks)
        return rows

    def touch(self, line: int, *, request: bool = True, query: bool = False, evict: bool = False) -> Rows:
        """One clock that requests, asks for, or evicts beside, one line."""
        row = self.idle(1)
        address = int(line) << LINE_BITS | int(self.rng.integers(1 << self.line_shift))
        if request:
            row["req_valid"], row["req_addr"] = 1, address
        if query:
            row["query_valid"], row["query_addr"] = 1, address
            row["query_min_tlevel"], row["query_boost"] = self.rng.integers(4), self.rng.integers(2)
        row["evict_valid"] = evict
        return row

    def mixed(self, pool: np.ndarray, clocks: int) -> Rows:
        """Random traffic over a pool of lines, each port with a density of its own, now and then full."""
        density = self.rng.choice([0.05, 0.5, 1.0, 1.0], 3)
        return self.traffic(
            self.rng.choice(pool, clocks),
            request=density[0],
            query=density[1],
            evict=self.rng.choice([0.0, 0.1, density[2]]),
            asked=self.rng.choice(pool, clocks) if self.rng.random() < 0.5 else None,
        )


def put_write(rows: Rows, clock: int, params: Params, name: str, value: int, byte_enable: int = 0xF) -> None:
    """Lay a register write over one clock of some rows."""
    rows["cfg_ext_write_received"][clock] = 1
    rows["cfg_ext_register_number"][clock] = register_number(params, name)
    rows["cfg_ext_write_data"][clock] = value
    rows["cfg_ext_write_byte_enable"][clock] = byte_enable


def put_read(rows: Rows, clock: int, params: Params, name: str) -> None:
    """Lay a register read over one clock of some rows."""
    rows["cfg_ext_read_received"][clock] = 1
    rows["cfg_ext_register_number"][clock] = register_number(params, name)


def register_number(params: Params, name: str) -> int:
    """The DWORD that a register is on the configuration port."""
    return (params.config_base + REGISTERS[name].offset) >> 2


def play(name: str, params: Params, seed: int, clocks: int, *, settle: bool = True) -> Iterator[Rows]:
    """Play a stream.

    Parameters
    ----------
    name : str
        A key of :data:`STREAMS`.
    params : Params
        The build it will run on.
    seed : int
        Every random choice comes from it: equal arguments give equal rows.
    clocks : int
        Where the stream is cut.
    settle : bool
        Close with quiet ports, a counter snapshot and the read-out of every register.

    Yields
    ------
    ndarray of INPUTS
        Blocks of rows, one clock each, with a reset in the first.

    Raises
    ------
    KeyError
        No stream has this name.
    """
    plan = Plan(params, np.random.default_rng([seed, *name.encode()]))
    left = clocks
    for rows in STREAMS[name](plan):
        yield rows[:left]
        left -= len(rows)
        if left <= 0:
            break
    if settle:
        yield _read_out(plan)


def _read_out(plan: Plan) -> Rows:
    """Quiet until nothing moves, then read everything that must agree exactly."""
    lag = (1 << plan.tick_shift) + 32
    blocks = [plan.idle(lag + plan.flush_clocks()), plan.write("CTRL", plan.control | SNAPSHOT), plan.idle(8)]
    for counter in range(15):
        blocks += [plan.write("COUNTER_SELECT", counter), plan.idle(2), plan.read("COUNTER_LO", "COUNTER_HI")]
    blocks.append(plan.read(*REGISTERS))
    blocks.append(plan.idle(4))
    return np.concatenate(blocks)


# ---- one line, two lines, one bucket ----
@_stream
def one_line(plan: Plan) -> Iterator[Rows]:
    """One line touched in every clock for ever, asked for in every clock, evictions beside it."""
    yield plan.start()
    lines = np.repeat(plan.lines(1), 400)
    while True:
        yield plan.traffic(lines, query=1.0, evict=plan.rng.choice([0.0, 0.2, 1.0]))


@_stream
def two_lines(plan: Plan) -> Iterator[Rows]:
    """Two lines alternating in every clock: neighbours in the list, in one window or not."""
    while True:
        yield plan.random_start()
        near = plan.homed(np.full(2, plan.rng.integers(plan.active)))
        for pair in (near, plan.lines(2)):
            yield plan.traffic(np.tile(pair, 150), query=1.0, evict=plan.rng.choice([0.0, 1.0]))
            yield plan.age_out()[:3000]
            yield plan.traffic(np.tile(pair, 20), query=1.0, evict=1.0)


@_stream
def one_bucket(plan: Plan) -> Iterator[Rows]:
    """Three windows' worth of lines with one home slot: every request probes the same full window."""
    while True:
        yield plan.random_start()
        pool = plan.homed(np.full(3 * plan.params.window, plan.rng.integers(plan.active)))
        for _ in range(4):
            yield plan.mixed(pool, 250)
            yield plan.idle(int(plan.rng.integers(2 * (plan.t1_age << plan.tick_shift) + 2) % 600))


@_stream
def window_wrap(plan: Plan) -> Iterator[Rows]:
    """Lines whose windows lie across the end of the table, and the ones at its beginning they collide with."""
    while True:
        yield plan.random_start()
        window = plan.params.window
        homes = plan.rng.integers(-window, window, 4 * window)
        pool = plan.homed(homes)
        for _ in range(4):
            yield plan.mixed(pool, 250)
            yield plan.idle(int(plan.rng.integers(100)))


# ---- scans ----
def _scan(length: int) -> Stream:
    def scan(plan: Plan) -> Iterator[Rows]:
        while True:
            yield plan.start(tick_shift=int(plan.rng.choice([0, 2])))
            loop = plan.lines(length)
            for evict in (0.0, 0.1, 1.0):
                yield plan.traffic(np.tile(loop, 2), evict=evict, query=0.5)
            yield plan.traffic(loop, request=0.5, evict=1.0, query=1.0)

    scan.__doc__ = f"A cyclic scan over {length} lines at full rate."
    scan.__name__ = f"scan_{length}"
    return scan


for _length in (400, 600, 1500, 2048, 5000):
    _stream(_scan(_length))


@_stream
def scan_table(plan: Plan) -> Iterator[Rows]:
    """Cyclic scans about as long as the table or as T1's reach, where lines expire just as they are touched."""
    while True:
        t1 = int(plan.rng.integers(1, min(plan.params.t1_limit, plan.params.entries) + 1))
        yield plan.start(t1=t1, tick_shift=0)
        for around in (t1, plan.active):
            loop = plan.lines(max(1, around + int(plan.rng.integers(-3, 4))))
            repeats = max(2, 300 // loop.size)
            for evict in (0.0, 0.3, 1.0):
                yield plan.traffic(np.tile(loop, repeats), evict=evict)


# ---- the list ----
@_stream
def list_ends(plan: Plan) -> Iterator[Rows]:
    """Touches of the cold list's head, middle, tail and only element, with evictions in between."""
    while True:
        t1 = int(plan.rng.integers(1, 5))
        yield plan.start(t1=t1, tick_shift=0)
        recency = [int(line) for line in plan.lines(int(plan.rng.integers(1, min(plan.active // 2, 24) + 1)))]
        yield plan.traffic(np.array(recency[::-1], np.uint64))
        yield plan.age_out()
        for _ in range(60):
            place = plan.rng.choice(["head", "middle", "tail", "next to tail", "evict"])
            index = {"head": 0, "middle": len(recency) // 2, "tail": -1, "next to tail": -2}.get(place, -1)
            line = recency.pop(max(index, -len(recency)))
            recency.insert(0, line)
            touch = place != "evict" or plan.rng.random() < 0.3
            yield plan.touch(line, request=touch, query=bool(plan.rng.integers(2)), evict=place == "evict")
            yield plan.idle(int(plan.rng.choice([0, 1, 2, t1, t1 + 1, 2 * t1 + 12])))
        yield plan.age_out()
        yield plan.traffic(np.repeat(plan.lines(1), 4 * len(recency) + 20), request=0.0, evict=1.0, query=0.0)
        only = int(plan.lines(1)[0])
        for _ in range(6):  # the only element: touched, aged, touched in the clock of its eviction, or evicted
            yield plan.touch(only)
            yield plan.idle(t1 + int(plan.rng.integers(0, 6)))
            yield plan.touch(only, request=bool(plan.rng.integers(2)), evict=True)


@_stream
def touch_and_evict(plan: Plan) -> Iterator[Rows]:
    """The list's tail, or a neighbour of it, touched in the clock of an eviction or a few clocks off."""
    reach = plan.params.latency + 6
    while True:
        t1 = int(plan.rng.integers(1, 4))
        yield plan.start(t1=t1, tick_shift=0)
        pool = [int(line) for line in plan.lines(int(plan.rng.integers(2, min(plan.active // 2, 16) + 1)))]
        yield plan.traffic(np.array(pool[::-1], np.uint64))
        yield plan.age_out()
        for _ in range(40):
            rows = plan.idle(3 * reach)
            rows["evict_valid"][reach : reach + int(plan.rng.integers(1, 4))] = 1
            for neighbour in range(int(plan.rng.integers(1, 4))):
                at = int(np.clip(reach + plan.rng.integers(-3, 4) * plan.rng.integers(0, 3), 0, len(rows) - 1))
                line = pool.pop(max(-1 - neighbour, -len(pool)))
                pool.insert(0, line)
                rows["req_valid"][at] = 1
                rows["req_addr"][at] = line << LINE_BITS
            yield rows
            yield plan.idle(int(plan.rng.integers(0, 2 * t1 + 8)))


@_stream
def churn(plan: Plan) -> Iterator[Rows]:
    """A handful of lines and short ages, all ports dense: pops, unlinks and expiries meet on neighbouring links."""
    while True:
        t1 = int(plan.rng.integers(1, 10))
        yield plan.random_start(t1=t1, tick_shift=int(plan.rng.choice([0, 0, 1])), control=0)
        pool = plan.lines(int(plan.rng.integers(2, min(plan.active, 24) + 1)))
        for _ in range(12):
            yield plan.mixed(pool, int(plan.rng.integers(10, 120)))
            yield plan.idle(int(plan.rng.choice([0, 0, t1, t1 + 3, 3 * t1 + 10])))


@_stream
def evict_every_clock(plan: Plan) -> Iterator[Rows]:
    """A table of cold lines drained with an eviction in every clock, quiet first, then with touches among them."""
    while True:
        yield plan.start(t1=2, tick_shift=0)
        for touches in (0.0, 0.0, 0.1, 1.0):
            fill = plan.lines(int(plan.rng.integers(1, plan.active + 1)))
            yield plan.traffic(fill)
            yield plan.age_out()
            clocks = 2 * fill.size + 20
            yield plan.traffic(plan.rng.choice(fill, clocks), request=touches, evict=1.0, query=0.3)


@_stream
def mass_expiry(plan: Plan) -> Iterator[Rows]:
    """A slow tick lets a burst of lines expire together, while they are touched, asked for, spilled and evicted."""
    while True:
        shift = int(plan.rng.integers(3, 8))
        yield plan.start(t1=1, tick_shift=shift, control=int(plan.rng.integers(3)) << 4)
        pool = plan.lines(min(plan.active, 1 << shift))
        yield plan.traffic(pool)
        yield plan.idle((1 << shift) - int(plan.rng.integers(0, 8)))
        rows = plan.mixed(pool, 3 << shift)
        for clock in range(0, len(rows), 3):
            put_read(rows, clock, plan.params, str(plan.rng.choice(["COLD", "TRACKED", "STATUS"])))
        yield rows


# ---- queries and levels ----
@_stream
def query_just_touched(plan: Plan) -> Iterator[Rows]:
    """A query in every clock for the line touched in the clock before, and for the one being touched."""
    while True:
        yield plan.random_start()
        pool = plan.lines(int(plan.rng.integers(2, 2 * plan.active)))
        touched = plan.rng.choice(pool, 400)
        for behind in (1, 0, 2):
            yield plan.traffic(touched, query=1.0, asked=np.roll(touched, behind), evict=0.1)


@_stream
def counter_saturation(plan: Plan) -> Iterator[Rows]:
    """One line counted past 65535, then aged and touched under each kind of decay."""
    while True:
        yield plan.start(t3=(65535, 25), t2=(65534, 50), t1=100, tick_shift=0)
        line = plan.lines(1)
        yield plan.traffic(np.repeat(line, 65530), query=0.01)
        for kind, recover in ((0, 0), (1, 32768), (2, 0)):
            yield plan.traffic(np.repeat(line, 30), query=1.0, request=0.7)
            plan.control = ENABLE | kind << 4
            yield plan.write("CTRL", plan.control)
            yield plan.age_out()
            yield plan.traffic(np.repeat(line, 5 + recover), query=1.0)


@_stream
def level_edges(plan: Plan) -> Iterator[Rows]:
    """A line touched again just at, before and after each threshold's count and age."""
    while True:
        t1 = int(plan.rng.integers(4, 20))
        ages = sorted(int(age) for age in plan.rng.integers(0, t1 + 1, 2))
        shift = int(plan.rng.choice([0, 0, 1, 2]))
        counts = (int(plan.rng.integers(1, 5)), int(plan.rng.integers(1, 7)))
        decay = int(plan.rng.integers(3)) << 4
        yield plan.start(t1=t1, t2=(counts[0], ages[1]), t3=(counts[1], ages[0]), tick_shift=shift, control=decay)
        pool = plan.lines(3)
        for _ in range(60):
            line = pool[plan.rng.integers(3)]
            age = int(plan.rng.choice([ages[0], ages[1], t1]))
            wait = max(0, (age << shift) + int(plan.rng.integers(-1, (2 << shift) + 2)))
            yield plan.touch(line, query=True)
            yield plan.traffic(np.repeat(line, wait), request=0.0, query=0.2)


@_stream
def thresholds_live(plan: Plan) -> Iterator[Rows]:
    """T3, T2, DECAY and RECLAIM_OFF changed under full load, among writes that must be refused, any byte enables."""
    rng = plan.rng
    while True:
        yield plan.random_start()
        pool = plan.lines(int(rng.integers(2, 2 * plan.active)))
        for _ in range(6):
            rows = plan.mixed(pool, 200)
            for clock in np.flatnonzero(rng.random(len(rows)) < 0.15).tolist():
                name = str(rng.choice(["T3", "T2", "T3", "T2", "CTRL", "T1", "GEOMETRY", "TIMEBASE", "HASH_SEED"]))
                if name == "CTRL":
                    plan.control = ENABLE | int(rng.integers(3)) << 4 | int(rng.integers(2)) * RECLAIM_OFF
                    put_write(rows, clock, plan.params, name, plan.control)
                else:
                    value = int(rng.integers(1, 8)) | int(rng.integers(0, plan.t1_age + 2)) << 16
                    put_write(rows, clock, plan.params, name, value, int(rng.choice([0xF, 0xF, 0x3, 0xC, 0])))
            for clock in np.flatnonzero((rng.random(len(rows)) < 0.1) & (rows["cfg_ext_write_received"] == 0)).tolist():
                put_read(rows, clock, plan.params, str(rng.choice(["T3", "T2", "CTRL", "IRQ_STATUS"])))
            yield rows
            yield plan.write("IRQ_STATUS", 7)


# ---- time ----
@_stream
def stamp_wrap(plan: Plan) -> Iterator[Rows]:
    """Lines left alone for about one, two or three turns of the stamp, then touched, asked for and evicted."""
    turn = 1 << plan.params.stamp_width
    while True:
        yield plan.random_start(tick_shift=int(plan.rng.choice([0, 0, 1])))
        pool = plan.lines(min(plan.active, 12))
        for _ in range(4):
            yield plan.mixed(pool, 40)
            yield plan.touch(pool[0])
            around = turn * int(plan.rng.integers(1, 4)) + int(plan.rng.choice([0, 0, 0, -4, -1, 1, 4]))
            yield plan.idle((around << plan.tick_shift) - 1)
            yield plan.touch(pool[0], query=True)
            yield plan.mixed(pool, int(plan.rng.integers(1, 30)))


@_stream
def t1_limit(plan: Plan) -> Iterator[Rows]:
    """T1.age at its limit and one clock a tick: a full table whose stamps come as near to aliasing as they may."""
    while True:
        yield plan.start(t1=plan.params.t1_limit, tick_shift=0)
        fill = plan.lines(plan.active)
        for age in (plan.t1_age, plan.t1_age + 1):
            yield plan.touch(fill[0])
            yield plan.idle(age - 1)
            yield plan.touch(fill[0], query=True)
        yield plan.traffic(fill)
        for evict in (0.0, 0.2):
            yield plan.traffic(plan.rng.choice(fill, 2 * plan.params.t1_limit % 3000 + 300), request=1.0, evict=evict)
            yield plan.mixed(fill, 300)
        yield plan.idle(plan.params.t1_limit + int(plan.rng.integers(-5, 6)))
        yield plan.mixed(fill, 300)


# ---- room ----
@_stream
def table_full(plan: Plan) -> Iterator[Rows]:
    """More live lines than slots: untracked requests, then, as they go cold, spills."""
    while True:
        shift = max(0, plan.params.log2_entries - 6)
        yield plan.start(tick_shift=shift, control=int(plan.rng.integers(2)) * RECLAIM_OFF)
        pool = plan.lines(3 * plan.active)
        yield plan.traffic(pool, query=0.5)
        yield plan.mixed(pool, 200)
        yield plan.write("CTRL", ENABLE)
        plan.control = ENABLE
        yield plan.age_out()
        yield plan.traffic(pool, evict=plan.rng.choice([0.0, 0.5]))


@_stream
def spill_and_evict(plan: Plan) -> Iterator[Rows]:
    """A table full of cold lines: new ones may not have their slots, then take them, evictions in the same clocks."""
    while True:
        yield plan.start(t1=int(plan.rng.integers(2, 7)), tick_shift=0)
        pool = plan.lines(4 * plan.active)
        for evict in (0.1, 0.3, 0.6):
            yield plan.traffic(pool[: 2 * plan.active], query=0.3)
            yield plan.age_out()
            yield plan.write("CTRL", ENABLE | RECLAIM_OFF)
            yield plan.traffic(plan.rng.choice(pool, plan.active // 2), query=0.3)
            yield plan.write("CTRL", ENABLE)
            yield plan.traffic(plan.rng.choice(pool, plan.active), query=0.3, evict=evict)


@_stream
def geometry(plan: Plan) -> Iterator[Rows]:
    """Smaller active sizes, larger granules, seeds and slow ticks."""
    while True:
        yield plan.random_start(
            log2_active=int(plan.rng.integers(plan.params.min_log2_active, plan.params.log2_entries + 1)),
            line_shift=int(plan.rng.integers(8, min(24, plan.params.addr_width - 8) + 1)),
            tick_shift=int(plan.rng.integers(0, 6)),
        )
        pool = plan.lines(min(2 * plan.active, 1000))
        if plan.line_shift <= 12:  # lines of a large granule have too few free bits to be chosen by their slot
            edge = plan.homed(plan.rng.integers(-plan.params.window, plan.params.window, 2 * plan.params.window))
            pool = np.concatenate([edge, pool])
        for _ in range(3):
            yield plan.mixed(pool, 300)


# ---- registers and life cycle ----
@_stream
def register_ports(plan: Plan) -> Iterator[Rows]:
    """Register QUERY and EVICT while the hardware ports leave them a clock now and then."""
    rng = plan.rng
    while True:
        yield plan.random_start(control=0)
        pool = plan.lines(int(rng.integers(2, 2 * plan.active)))
        for _ in range(8):
            rows = plan.mixed(pool, 150)
            address = int(plan.addresses(rng.choice(pool, 1))[0])
            script = [("QUERY_LO", address & 0xFFFFFFFF), ("QUERY_HI", address >> 32), ("QUERY", 1), ("EVICT", 1)]
            for clock, (name, value) in enumerate(script, start=int(rng.integers(30))):
                put_write(rows, clock, plan.params, name, value)
            read = ("QUERY", "EVICT", "VICTIM_LO", "VICTIM_HI", "TRACKED", "IRQ_STATUS")
            for index, clock in enumerate(range(45, 150, 6)):
                put_read(rows, clock, plan.params, read[index % len(read)])
            yield rows
            yield plan.idle(12)
            yield plan.read("QUERY", "EVICT", "VICTIM_LO", "VICTIM_HI")


@_stream
def stray_accesses(plan: Plan) -> Iterator[Rows]:
    """Reads anywhere in config space, writes where they must do nothing, and accesses to other functions."""
    rng, params = plan.rng, plan.params
    first, dwords = params.config_base >> 2, WINDOW_BYTES // 4
    fixed = [
        name
        for name, register in REGISTERS.items()
        if all(field.access in (Access.CONSTANT, Access.STATUS) for field in register.fields)
    ]
    while True:
        yield plan.random_start()
        pool = plan.lines(int(rng.integers(2, 2 * plan.active)))
        rows = plan.mixed(pool, 200)
        for clock in range(0, len(rows), 3):
            inside, anywhere = int(rng.integers(first, first + dwords)), int(rng.integers(1 << 10))
            number = int(rng.choice([inside, anywhere, first - 1, first + dwords]))
            if rng.random() < 0.4:
                put_read(rows, clock, params, "CTRL")
                rows["cfg_ext_register_number"][clock] = number
            else:
                put_write(
                    rows, clock, params, str(rng.choice(fixed)), int(rng.integers(1 << 32)), int(rng.integers(16))
                )
                if not first <= number < first + dwords:
                    rows["cfg_ext_register_number"][clock] = number
                elif rng.random() < 0.2:
                    rows["cfg_ext_register_number"][clock] = first + dwords - 1  # no register
            if rng.random() < 0.2:
                rows["cfg_ext_register_number"][clock] = number
                rows["cfg_ext_function_number"][clock] ^= 1 << int(rng.integers(8))
        yield rows


@_stream
def life_cycle(plan: Plan) -> Iterator[Rows]:
    """Flush, disable, enable, reset and power loss at any clock, traffic never stopping."""
    rng = plan.rng
    while True:
        yield plan.random_start()
        pool = plan.lines(int(rng.integers(2, 2 * plan.active)))
        for _ in range(5):
            clocks = 60 + int(plan.active // plan.params.window * rng.choice([0.5, 1.5]))
            rows = plan.mixed(pool, clocks) if rng.random() < 0.8 else plan.idle(clocks)
            at = int(rng.integers(len(rows)))
            match rng.choice(["flush", "flush twice", "flush and disable", "disable", "bounce", "power", "counters"]):
                case "flush":
                    put_write(rows, at, plan.params, "CTRL", plan.control | FLUSH)
                case "flush twice":
                    put_write(rows, at, plan.params, "CTRL", plan.control | FLUSH)
                    again = int(rng.integers(at, len(rows)))
                    put_write(rows, again, plan.params, "CTRL", plan.control | FLUSH | int(rng.integers(4)) << 2)
                case "flush and disable":
                    put_write(rows, at, plan.params, "CTRL", plan.control | FLUSH)
                    again = min(at + int(rng.integers(1, plan.flush_clocks())), len(rows) - 1)
                    put_write(rows, again, plan.params, "CTRL", plan.control & ~ENABLE)
                    yield rows
                    rows = plan.write("CTRL", plan.control)
                case "disable":
                    put_write(rows, at, plan.params, "CTRL", plan.control & ~ENABLE)
                    put_write(rows, len(rows) - 1, plan.params, "CTRL", plan.control)
                case "bounce":
                    put_write(rows, at, plan.params, "CTRL", plan.control & ~ENABLE)
                    put_write(rows, min(at + 1, len(rows) - 1), plan.params, "CTRL", plan.control)
                case "power":
                    rows["power_good"][at : at + int(rng.integers(1, 40))] = 0
                case "counters":
                    put_write(
                        rows,
                        at,
                        plan.params,
                        "CTRL",
                        plan.control | int(rng.choice([SNAPSHOT, CLEAR, SNAPSHOT | CLEAR])),
                    )
            for clock in np.flatnonzero((rng.random(len(rows)) < 0.1) & (rows["cfg_ext_write_received"] == 0)).tolist():
                put_read(rows, clock, plan.params, "STATUS")
            yield rows
        rows = plan.mixed(pool, 20)
        rows["rst"][int(rng.integers(18)) :] = 1
        yield rows


@_stream
def before_enable(plan: Plan) -> Iterator[Rows]:
    """Traffic on a core that was never enabled, or is being emptied: everything answered, nothing tracked."""
    while True:
        yield plan.reset()
        pool = plan.lines(8)
        yield plan.mixed(pool, 40)
        yield plan.write("CTRL", ENABLE)
        plan.control = ENABLE
        yield plan.mixed(pool, plan.flush_clocks() + 60)


# ---- everything at once ----
@_stream
def random_mix(plan: Plan) -> Iterator[Rows]:
    """Random settings, hot and cold lines, every port at every density."""
    while True:
        yield plan.random_start()
        hot = plan.lines(int(plan.rng.integers(1, 12)))
        cold = plan.lines(int(plan.rng.integers(2, 3 * plan.active)))
        pool = np.concatenate([np.repeat(hot, 1 + cold.size // hot.size), cold])
        for _ in range(8):
            yield plan.mixed(pool, int(plan.rng.integers(50, 500)))
            yield plan.idle(int(plan.rng.choice([0, 0, 10, 200])))
