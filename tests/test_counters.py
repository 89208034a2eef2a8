"""The event counters against a list of integers."""

from __future__ import annotations

import random
from typing import Any

from config_port import Bench
from kv_asu.counters import Counters, events_layout
from kv_asu.register_map import Counter


async def advance(context: Any, device: Counters, events: dict[Counter, int], **controls: int) -> None:
    """One clock with ``events``, and nothing else happening than ``controls``."""
    for counter in Counter:
        pin = device.active if counter is Counter.CYCLES else device.events[counter.name.lower()]
        context.set(pin, events.get(counter, 0))
    context.set(device.snapshot, controls.get("snapshot", 0))
    context.set(device.clear, controls.get("clear", 0))
    await context.tick()


async def shown(context: Any, device: Counters) -> list[int]:
    """Every counter's snapshot, while nothing happens."""
    await advance(context, device, {})
    values = []
    for counter in Counter:
        context.set(device.select, counter)
        await advance(context, device, {})
        values.append(context.get(device.value))
    return values


def test_all_counters_have_an_event_but_cycles() -> None:
    assert list(events_layout().members) == [counter.name.lower() for counter in Counter][1:]
    assert len(Counter) == 15


def test_each_event_advances_its_own_counter() -> None:
    device = Counters()

    async def testbench(context: Any) -> None:
        expected = [0] * len(Counter)
        for counter in Counter:
            for _ in range(counter + 1):
                await advance(context, device, {counter: 1})
            expected[counter] = counter + 1
        await advance(context, device, {}, snapshot=1)
        assert await shown(context, device) == expected

    Bench(device).run(testbench)


def test_random_events_snapshots_and_clears() -> None:
    device = Counters()

    async def testbench(context: Any) -> None:
        chance = random.Random(3)
        live = [0] * len(Counter)
        latched = list(live)
        for _ in range(60):
            for _ in range(chance.randrange(40)):
                snapshot, clear = chance.random() < 0.1, chance.random() < 0.1
                events = {
                    counter: chance.randrange(4 if counter is Counter.DEMOTIONS else 2) for counter in Counter
                }
                await advance(context, device, events, snapshot=snapshot, clear=clear)
                if snapshot:  # takes what earlier clocks counted, also when a clear comes with it
                    latched = list(live)
                if clear:  # forgets earlier clocks, not this one
                    live = [0] * len(Counter)
                live = [value + events[counter] for counter, value in zip(Counter, live, strict=True)]
            assert await shown(context, device) == latched

    Bench(device).run(testbench)


def test_every_counter_carries_into_every_bit() -> None:
    device = Counters()

    async def testbench(context: Any) -> None:
        for bit in range(64):
            for counter in Counter:
                context.set(device.live[counter], (1 << bit) - 1 - (counter & 1))
            await advance(context, device, dict.fromkeys(Counter, 1))
            await advance(context, device, {})
            await advance(context, device, {}, snapshot=1)
            assert await shown(context, device) == [(1 << bit) - (counter & 1) for counter in Counter], f"bit {bit}"

    Bench(device).run(testbench)


def test_a_counter_goes_on_at_0_after_its_last_value() -> None:
    device = Counters()

    async def testbench(context: Any) -> None:
        for counter in Counter:
            context.set(device.live[counter], (1 << 64) - 1)
        await advance(context, device, dict.fromkeys(Counter, 1))
        await advance(context, device, {})
        await advance(context, device, {}, snapshot=1)
        assert await shown(context, device) == [0] * len(Counter)

    Bench(device).run(testbench)


def test_value_settles_one_clock_after_select() -> None:
    device = Counters()

    async def testbench(context: Any) -> None:
        await advance(context, device, {Counter.HITS: 1})
        await advance(context, device, {}, snapshot=1)
        await advance(context, device, {})
        context.set(device.select, Counter.HITS)
        await context.tick()
        assert context.get(device.value) == 1
        context.set(device.select, Counter.REQUESTS)
        await context.tick()
        assert context.get(device.value) == 0

    Bench(device).run(testbench)
