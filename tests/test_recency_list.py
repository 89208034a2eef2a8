"""The recency list against a plain Python list, on 8 slots, with memories that start from anything."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import kv_asu.forwarding_memory
from config_port import Bench
from kv_asu.params import Params
from kv_asu.recency_list import RecencyList
from random_memories import random_memories

SLOTS = 8
BUILDS = [Params(log2_entries=3, window=2, table_stages=stages) for stages in (0, 2)]


@dataclass
class Model:
    """The list as it stands after every touch, demotion and eviction of earlier clocks; head first."""

    order: list[int] = field(default_factory=list)
    lines: dict[int, tuple[int, int]] = field(default_factory=dict)  # slot: stamp, cold half
    marked: set[int] = field(default_factory=set)

    @property
    def candidate(self) -> int | None:
        """The oldest line without a mark."""
        return next((slot for slot in reversed(self.order) if slot not in self.marked), None)

    def touch(self, slot: int, stamp: int, half: int) -> None:
        if slot in self.order:
            self.order.remove(slot)
        self.order.insert(0, slot)
        self.lines[slot] = stamp, half
        self.marked.discard(slot)

    def pop(self) -> None:
        self.marked.remove(self.order.pop())


class Driver:
    """One clock after another of the list and its model side by side, every answer checked."""

    def __init__(self, context: Any, device: RecencyList) -> None:
        self.context = context
        self.device = device
        self.model = Model()
        self.stamp = 0
        self.quiet = 0
        self.oldest: int | None = None
        self.decided: dict[str, Any] = {"touch": 0}

    def get(self, pin: str) -> Any:
        value = self.context.get(getattr(self.device, pin))
        return value if isinstance(value, int) else {name: value[name] for name in ("slot", "stamp", "cold_half")}

    def check(self) -> None:
        model = self.model
        for pin, ready, slot in (
            ("tail", self.get("tail_ready"), model.order[-1] if model.order else None),
            ("candidate", self.get("candidate_ready"), model.candidate),
        ):
            if ready:
                assert slot is not None
                stamp, half = model.lines[slot]
                assert self.get(pin) == {"slot": slot, "stamp": stamp, "cold_half": half}
            elif self.quiet >= 3:  # nothing in flight can be in the way
                assert slot is None
        if self.get("candidate_ready") and not self.device.params.list_follows:
            assert self.get("candidate")["stamp"] == self.oldest

    def take(self, decided: dict[str, Any]) -> None:
        """Let the list take a touch."""
        for pin, value in decided.items():
            self.context.set(getattr(self.device, pin), value)

    async def clock(self, touch: int | None = None, *, demote: bool = False, pop: bool = False) -> tuple[bool, bool]:
        """One clock; a demotion or pop that is not legal in it is left out. Returns which were done."""
        context, device, model = self.context, self.device, self.model
        follows = device.params.list_follows
        if follows:
            self.take(self.decided)
        self.check()
        demote = demote and self.get("candidate_ready")
        steps = pop and bool(model.marked or demote) and self.get("tail_ready")
        left = steps and model.order[-1] == touch
        pop = steps and not left
        self.stamp = (self.stamp + 1) % 256
        half = random.Random(self.stamp).getrandbits(1)
        decided = {
            "touch": touch is not None,
            "line": {"slot": touch or 0, "stamp": self.stamp, "cold_half": half},
            "linked": touch in model.order,
            "left": left,
        }
        if not follows:
            self.take(decided)
        self.decided = decided
        context.set(device.demote, demote)
        context.set(device.pop, steps)
        if demote:
            assert model.candidate is not None
            model.marked.add(model.candidate)
        if touch is not None:
            model.touch(touch, self.stamp, half)
        if pop:
            model.pop()
        self.quiet = 0 if touch is not None else self.quiet + 1
        self.oldest = self.get("oldest_stamp") if self.get("oldest_valid") else None
        await context.tick()
        return bool(demote), bool(pop)

    async def clear(self) -> None:
        self.context.set(self.device.touch, 1)  # to no avail
        self.context.set(self.device.demote, 0)
        self.context.set(self.device.pop, 0)
        self.context.set(self.device.clear, 1)
        await self.context.tick().repeat(2)
        self.context.set(self.device.clear, 0)
        self.context.set(self.device.touch, 0)
        self.model = Model()
        self.decided = {"touch": 0}
        self.quiet = 3

    async def drain(self) -> None:
        """Evict everything, one a clock once it is marked."""
        await self.clock()
        await self.clock()
        await self.clock()
        expected = list(reversed(self.model.order))
        taken = []
        for _ in range(4 * SLOTS):
            tail = self.get("tail")["slot"]
            _, popped = await self.clock(demote=True, pop=True)
            if popped:
                taken.append(tail)
        assert taken == expected
        assert not self.model.order


def run(body: Any, seed: int = 0) -> None:
    for params in BUILDS:
        device = RecencyList(params)
        with random_memories(random.Random(seed), kv_asu.forwarding_memory):
            bench = Bench(device)

        async def testbench(context: Any, device: RecencyList = device) -> None:
            await body(Driver(context, device))

        bench.run(testbench)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("touches", "demotes", "pops"), [(1, 1, 1), (0.9, 0.5, 0.5), (0.4, 0.9, 0.9), (0.5, 0.5, 0.1)])
def test_random_touches_demotions_and_evictions(seed: int, touches: float, demotes: float, pops: float) -> None:
    async def body(driver: Driver) -> None:
        chance = random.Random(seed)
        done = [0, 0]
        for _ in range(2):
            for _ in range(250):
                touch = chance.randrange(SLOTS) if chance.random() < touches else None
                demoted, popped = await driver.clock(
                    touch, demote=chance.random() < demotes, pop=chance.random() < pops
                )
                done[0] += demoted
                done[1] += popped
            await driver.clear() if chance.getrandbits(1) else await driver.drain()
        assert min(done) > 10

    run(body, seed)


@pytest.mark.parametrize("where", ["head", "middle", "tail", "only"])
def test_touches_at_every_place_again_and_again(where: str) -> None:
    async def body(driver: Driver) -> None:
        for slot in range(1 if where == "only" else SLOTS):
            await driver.clock(slot)
        for _ in range(40):
            order = driver.model.order
            place = {"head": 0, "middle": len(order) // 2, "tail": -1, "only": 0}[where]
            await driver.clock(order[place])
        await driver.drain()

    run(body)


@pytest.mark.parametrize("period", [2, 3, 5, SLOTS])
def test_cyclic_scans_with_demotion_every_clock(period: int) -> None:
    async def body(driver: Driver) -> None:
        for clock in range(60):
            await driver.clock(clock % period, demote=clock > 2 * period)
        await driver.drain()

    run(body)


def test_a_line_is_evicted_every_clock() -> None:
    async def body(driver: Driver) -> None:
        for slot in range(SLOTS):
            await driver.clock(slot)
        await driver.clock()
        await driver.clock()
        for _ in range(SLOTS):
            demoted, _ = await driver.clock(demote=True)
            assert demoted
        for _ in range(SLOTS):
            _, popped = await driver.clock(pop=True)
            assert popped

    run(body)


def test_clear_in_the_middle_of_anything() -> None:
    async def body(driver: Driver) -> None:
        chance = random.Random(5)
        for _ in range(25):
            for _ in range(chance.randrange(1, 20)):
                await driver.clock(chance.randrange(SLOTS), demote=chance.getrandbits(1) == 1, pop=True)
            await driver.clear()
            assert not driver.get("tail_ready")
            assert not driver.get("candidate_ready")

    run(body)
