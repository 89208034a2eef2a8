"""A cursor on links written by hand: where it stands, when it may step, and what it does about a touch in its way."""

from __future__ import annotations

import random
from typing import Any

import pytest

import kv_asu.forwarding_memory
from config_port import Bench
from kv_asu.cursor import Cursor
from kv_asu.params import Params
from random_memories import random_memories

SLOTS = 8
Line = dict[str, int]


def line(slot: int) -> Line:
    """A line whose other fields follow from its slot, so that mixing two up shows."""
    return {"slot": slot, "stamp": 0xA0 + slot, "cold_half": slot & 1}


class Driver:
    """Sets what the recency list would tell the cursor."""

    def __init__(self, context: Any, device: Cursor) -> None:
        self.context = context
        self.device = device
        self.moved: dict[str, Any] = {"valid": 0}

    @property
    def stands_on(self) -> Line | None:
        if not self.context.get(self.device.valid):
            return None
        value = self.context.get(self.device.line)
        return {name: value[name] for name in ("slot", "stamp", "cold_half")}

    @property
    def ready(self) -> int:
        return self.context.get(self.device.ready)

    async def link(self, older: int, newer: int, *, live: str) -> None:
        """Make ``newer`` the newer neighbour of ``older``: in both banks, the stale one with a false neighbour."""
        push_parity = random.Random(older).getrandbits(1)
        for bank in ("push", "unlink"):
            # the unlink bank is live where the parities differ
            parity = push_parity ^ (bank == "unlink" and live == "unlink")
            neighbour = newer if bank == live else newer ^ 1
            write = {"line": line(neighbour), "back_parity": 0, "parity": parity}
            self.context.set(getattr(self.device, f"{bank}_write"), {"enable": 1, "address": older, "link": write})
        await self.context.tick()
        for bank in ("push", "unlink"):
            self.context.set(getattr(self.device, f"{bank}_write").enable, 0)

    def touch(self, slot: int, *, newer: int = 0, moves: bool = True) -> None:
        """In this clock ``slot`` is relinked: to the head from below ``newer``, or staying at the head."""
        self.context.set(self.device.moving, {"valid": 1, "line": line(slot)})
        self.moved = {"valid": 1, "moves": moves, "line": line(slot), "newer": line(newer)}

    async def tick(self) -> None:
        await self.context.tick()
        self.context.set(self.device.last_moved, self.moved)
        self.context.set(self.device.moving.valid, 0)
        self.moved = {"valid": 0}


def run(body: Any) -> None:
    for table_stages in (0, 2):  # where the list is told at once, and where it follows
        device = Cursor(Params(log2_entries=3, window=2, table_stages=table_stages))
        with random_memories(random.Random(1), kv_asu.forwarding_memory):
            bench = Bench(device)

        async def testbench(context: Any, device: Cursor = device) -> None:
            await body(Driver(context, device))

        bench.run(testbench)


def test_a_touch_on_its_way_to_the_list_holds_the_cursor() -> None:
    device = Cursor(Params(log2_entries=3, window=2, table_stages=2))
    bench = Bench(device)

    async def testbench(context: Any) -> None:
        driver = Driver(context, device)
        await chain(driver, [4, 2, 7])
        context.set(device.touch, 1)
        context.set(device.touched_slot, 2)
        assert driver.ready
        context.set(device.touched_slot, 4)
        assert not driver.ready
        context.set(device.touch, 0)
        assert driver.ready

    bench.run(testbench)


async def chain(driver: Driver, order: list[int]) -> None:
    """Link ``order``, oldest first, and put the cursor on the oldest."""
    chance = random.Random(sum(order))
    for older, newer in zip(order, order[1:], strict=False):
        await driver.link(older, newer, live=chance.choice(["push", "unlink"]))
    driver.context.set(driver.device.head, order[-1])
    assert driver.stands_on is None
    driver.touch(order[0])
    await driver.tick()
    await driver.tick()
    assert driver.stands_on == line(order[0])


def test_steps_along_a_chain_one_a_clock_and_off_at_the_head() -> None:
    async def body(driver: Driver) -> None:
        order = random.Random(3).sample(range(SLOTS), SLOTS)
        await chain(driver, order)
        driver.context.set(driver.device.step, 1)
        for slot in order:
            assert driver.stands_on == line(slot)
            assert driver.ready
            await driver.tick()
        assert driver.stands_on is None
        assert not driver.ready

    run(body)


def test_stays_where_it_is_without_a_step() -> None:
    async def body(driver: Driver) -> None:
        await chain(driver, [4, 2, 7])
        for _ in range(5):
            driver.touch(7, moves=False)
            assert driver.stands_on == line(4)
            assert driver.ready
            await driver.tick()

    run(body)


@pytest.mark.parametrize("only", [False, True])
def test_a_touch_of_its_line_moves_it_on_unless_the_line_stays_at_the_head(only: bool) -> None:
    async def body(driver: Driver) -> None:
        await chain(driver, [4] if only else [4, 2, 7])
        driver.touch(4, newer=2, moves=not only)
        assert not driver.ready
        await driver.tick()
        assert driver.stands_on == line(4 if only else 2)
        assert driver.ready

    run(body)


def test_a_touch_that_takes_the_line_stepped_on_is_seen_a_clock_later() -> None:
    async def body(driver: Driver) -> None:
        await chain(driver, [4, 2, 7])
        driver.context.set(driver.device.step, 1)
        driver.touch(2, newer=7)  # the link of 4 still says 2 when the cursor follows it
        assert driver.ready
        await driver.tick()
        driver.context.set(driver.device.step, 0)
        assert not driver.ready
        await driver.tick()
        assert driver.stands_on == line(7)
        assert driver.ready

    run(body)


def test_a_touch_that_takes_the_line_it_is_set_right_to() -> None:
    async def body(driver: Driver) -> None:
        await chain(driver, [4, 2, 7, 5])
        driver.context.set(driver.device.step, 1)
        driver.touch(2, newer=7)
        await driver.tick()
        driver.context.set(driver.device.step, 0)
        driver.touch(7, newer=5)  # where the cursor is about to be put
        assert driver.context.get(driver.device.taken)
        await driver.tick()
        assert not driver.ready
        await driver.tick()
        assert driver.stands_on == line(5)
        assert driver.ready

    run(body)


def test_clear_takes_it_off_the_list() -> None:
    async def body(driver: Driver) -> None:
        await chain(driver, [4, 2])
        driver.context.set(driver.device.clear, 1)
        await driver.tick()
        assert driver.stands_on is None

    run(body)
