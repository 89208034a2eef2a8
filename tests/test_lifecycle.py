"""When the core is active, how the table is emptied, and the tick, against the contract's sentences and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from config_port import Bench
from kv_asu.lifecycle import Lifecycle
from kv_asu.params import Params

BUILDS = [
    Params(log2_entries=3, window=2),
    Params(log2_entries=5, window=4, hash_stages=2, table_stages=1),
    Params(log2_entries=4, window=8, hash_stages=6, table_stages=2, stamp_width=9),
]
each_build = pytest.mark.parametrize("params", BUILDS, ids=["smallest", "staged", "deepest"])


async def inputs(context: Any, device: Lifecycle, **pins: int) -> None:
    for pin, value in pins.items():
        context.set(getattr(device, pin), value)


async def until_active(context: Any, device: Lifecycle, limit: int) -> tuple[int, list[int]]:
    """Clocks until ``active``, and the rows cleared meanwhile."""
    rows: list[int] = []
    for clock in range(limit):
        if context.get(device.active):
            assert not context.get(device.clear)
            return clock, rows
        if context.get(device.clear):
            rows.append(context.get(device.clear_row))
        assert context.get(device.busy)
        await context.tick()
    raise AssertionError(f"not active after {limit} clocks")


def run(params: Params, body: Callable[[Any, Lifecycle], Any]) -> None:
    device = Lifecycle(params)

    async def testbench(context: Any) -> None:
        context.set(device.row_mask, params.rows - 1)
        await body(context, device)

    Bench(device).run(testbench)


@each_build
def test_becoming_active_clears_every_row_once_and_drains(params: Params) -> None:
    async def body(context: Any, device: Lifecycle) -> None:
        await context.tick().repeat(3)
        assert not context.get(device.active)
        assert not context.get(device.busy)
        context.set(device.run, 1)
        clocks, rows = await until_active(context, device, 100)
        assert rows == list(range(params.rows))
        # What read the table while its last row was being cleared is decided L clocks later, not yet active. The
        # contract allows entries / window + L + 8 from the register write on.
        assert clocks == params.rows + params.latency + 2

    run(params, body)


@each_build
def test_a_smaller_table_is_cleared_faster(params: Params) -> None:
    async def body(context: Any, device: Lifecycle) -> None:
        context.set(device.row_mask, params.rows // 2 - 1)
        context.set(device.run, 1)
        _, rows = await until_active(context, device, 100)
        assert rows == list(range(params.rows // 2))

    run(params, body)


@each_build
@pytest.mark.parametrize("stop", ["run", "flush"])
def test_stops_at_once_and_starts_over_at_any_point(params: Params, stop: str) -> None:
    async def body(context: Any, device: Lifecycle) -> None:
        for after in range(1, params.rows + params.latency + 6):
            await inputs(context, device, run=1)
            await context.tick().repeat(after)
            await inputs(context, device, run=stop != "run", flush=stop == "flush")
            assert not context.get(device.active)
            assert context.get(device.busy) == (stop == "flush")
            await context.tick()
            await inputs(context, device, run=1, flush=0)
            _, rows = await until_active(context, device, 100)
            assert rows == list(range(params.rows))
            await inputs(context, device, run=0)
            await context.tick().repeat(2)

    run(params, body)


@each_build
@pytest.mark.parametrize("tick_shift", [0, 1, 3])
def test_the_tick_starts_at_0_and_counts_and_wraps(params: Params, tick_shift: int) -> None:
    async def body(context: Any, device: Lifecycle) -> None:
        wraps = 1 << params.stamp_width
        await inputs(context, device, tick_shift=tick_shift)
        for _ in range(2):
            await inputs(context, device, run=1)
            await until_active(context, device, 100)
            for clock in range((wraps << tick_shift if tick_shift < 2 else 200) + 20):
                assert context.get(device.now) == (clock >> tick_shift) % wraps
                assert context.get(device.ahead) == (clock + 1 >> tick_shift) % wraps
                await context.tick()
            await inputs(context, device, run=0)
            await context.tick().repeat(random.Random(tick_shift).randrange(1, 5))

    run(params, body)


def test_flush_while_off_does_nothing() -> None:
    async def body(context: Any, device: Lifecycle) -> None:
        context.set(device.flush, 1)
        for _ in range(30):
            assert not context.get(device.active)
            assert not context.get(device.busy)
            assert not context.get(device.clear)
            await context.tick()

    run(BUILDS[0], body)
