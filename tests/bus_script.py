"""Random scripts for a bus: register accesses of every kind between traffic, queries, evictions and pauses.

They are made to disturb: small ages so that lines grow cold all the time, watermarks at the counts that occur, writes
that are refused, flushes and power cuts in the middle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from vrex.transports.base import Bus

Step = tuple[str, tuple[Any, ...]]

#: Builds with tables small enough to fill, and every kind of pipeline.
BUILDS = {
    "L=1": Params(log2_entries=4, window=2),
    "L=4": Params(log2_entries=5, window=4, hash_stages=2, table_stages=1, addr_width=40),
    "a list that follows": Params(log2_entries=4, window=2, hash_stages=1, table_stages=2),
    "two table stages, narrow stamps": Params(log2_entries=6, window=4, table_stages=2),
}

_READ = ("STATUS", "COLD", "TRACKED", "IRQ_STATUS", "QUERY", "EVICT", "VICTIM_LO", "COUNTER_LO", "COUNTER_HI")
_COLD_COUNTERS = (8, 9, 10, 11, 11, 12)
_PM_CONTROL = 0x44


def script(seed: int, params: Params, steps: int) -> list[Step]:
    """The script of a seed."""
    return list(_Script(random.Random(seed), params).steps(steps))


def play(bus: Bus, step: Step) -> tuple[Any, int, bool]:
    """Do one step; its result, and clock and irq after it."""
    kind, arguments = step
    if kind == "power_good":
        bus.power_good, result = arguments[0], None
    elif kind == "query_lines":
        addresses, min_tlevel, boost = arguments
        result = bus.query_lines(addresses, min_tlevel=min_tlevel, boost=boost)
    else:
        result = getattr(bus, kind)(*arguments)
    if isinstance(result, np.ndarray):
        result = result.tolist()
    return result, bus.clock, bus.irq


class _Script:
    def __init__(self, chance: random.Random, params: Params) -> None:
        self.chance = chance
        self.params = params
        self.lines = chance.choice([4, 10, 30, 80, 400])

    def steps(self, count: int) -> Iterator[Step]:
        yield from self.settings()
        kinds = {
            self.traffic: 30,
            self.queries: 8,
            self.evicts: 8,
            self.pause: 12,
            self.read: 26,
            self.register_operation: 6,
            self.control: 3,
            self.settings: 1,
            self.interrupts: 3,
            self.counter: 2,
            self.power: 1,
            self.anything: 1,
        }
        for kind in self.chance.choices(list(kinds), list(kinds.values()), k=count):
            yield from kind()

    def register(self, name: str, value: int, size: int = 4) -> Step:
        return "write", (self.params.config_base + REGISTERS[name].offset, value, size)

    def addresses(self, count: int) -> Any:
        chance, lines = self.chance, self.lines
        first = chance.randrange(lines)
        scan = chance.random() < 0.5
        numbers = [(first + i) % lines if scan else chance.randrange(lines) for i in range(count)]
        return np.array(numbers, np.uint64) << np.uint64(8)

    def settings(self) -> Iterator[Step]:
        chance, register = self.chance, self.register
        t1 = chance.choice([1, 2, 3, 5, 9, 30, 125])
        t2 = chance.randint(0, t1)
        t3 = chance.randint(0, t2)
        yield register("CTRL", 0)
        yield register("T3", chance.randint(0, 6))
        yield register("T2", chance.randint(0, 4))
        yield register("T1", t1 << 16)
        yield register("T2", chance.randint(0, 4) | t2 << 16)
        yield register("T3", chance.randint(0, 6) | t3 << 16)
        yield register("TIMEBASE", chance.choice([0, 0, 1, 2, 3]))
        if chance.random() < 0.3:
            log2_active = chance.randint(self.params.min_log2_active - 1, self.params.log2_entries + 1)
            yield register("GEOMETRY", log2_active | chance.choice([7, 8, 9, 10]) << 8)
        if chance.random() < 0.3:
            yield register("HASH_SEED", chance.getrandbits(32))
        yield register("CTRL", 1 | chance.randint(0, 3) << 4 | chance.randint(0, 1) << 6)

    def traffic(self) -> Iterator[Step]:
        yield "observe", (self.addresses(self.chance.choice([0, 1, 2, 3, 5, 20, 100])),)

    def queries(self) -> Iterator[Step]:
        addresses = self.addresses(self.chance.randint(0, 6))
        yield "query_lines", (addresses, self.chance.randint(0, 3), self.chance.random() < 0.5)

    def evicts(self) -> Iterator[Step]:
        yield "evict_lines", (self.chance.choice([0, 1, 1, 2, 5, 30]),)

    def pause(self) -> Iterator[Step]:
        yield "idle", (self.chance.choice([0, 1, 2, 3, 4, 5, 7, 11, 40, 300]),)

    def read(self) -> Iterator[Step]:
        if self.chance.random() < 0.85:
            yield "read", (self.params.config_base + REGISTERS[self.chance.choice(_READ)].offset, 4)
        else:
            size = self.chance.choice([1, 2, 4])
            yield "read", (self.chance.randrange(0, 0x1000, size), size)

    def register_operation(self) -> Iterator[Step]:
        if self.chance.random() < 0.5:
            yield self.register("EVICT", 1)
        else:
            yield self.register("QUERY_LO", self.chance.randrange(self.lines) << 8)
            yield self.register("QUERY", 1)

    def control(self) -> Iterator[Step]:
        actions = self.chance.choice([0, 1, 3, 4, 5, 7, 8, 9, 13, 15])
        yield self.register("CTRL", actions | self.chance.choice([0, 0x10, 0x20, 0x40]))

    def interrupts(self) -> Iterator[Step]:
        if self.chance.random() < 0.6:
            yield self.register("COLD_WATERMARK", self.chance.choice([0, 1, 2, 3, 8]))
            yield self.register("IRQ_ENABLE", self.chance.randint(0, 7))
        else:
            yield self.register("IRQ_STATUS", self.chance.randint(0, 7), 1)

    def counter(self) -> Iterator[Step]:
        yield self.register("COUNTER_SELECT", self.chance.choice([0, 15, *_COLD_COUNTERS]))

    def power(self) -> Iterator[Step]:
        if self.chance.random() < 0.5:
            yield "power_good", (self.chance.random() < 0.3,)
            yield from self.read()
            yield "power_good", (True,)
        else:
            yield "write", (_PM_CONTROL, self.chance.choice([0, 1, 3]), 1)
            yield from self.pause()
            yield "write", (_PM_CONTROL, 0, 1)

    def anything(self) -> Iterator[Step]:
        yield "write", (self.chance.randrange(0, 0x1000, 2), self.chance.getrandbits(16), 2)
        yield "write", (_PM_CONTROL, 0, 1)
