"""A register's turn on a hardware port: it waits for an idle clock, once, and repeats what came to nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from config_port import Bench
from kv_asu.borrowed_port import BorrowedPort

LATENCIES = (1, 2, 4, 9)


@pytest.mark.parametrize("latency", LATENCIES)
def test_the_port_is_taken_in_the_first_idle_clock_and_answered_l_clocks_later(latency: int) -> None:
    device = BorrowedPort(latency)

    async def testbench(context: Any) -> None:
        context.set(device.start, 1)
        context.set(device.port_valid, 1)
        await context.tick()
        context.set(device.start, 0)
        for _ in range(5):  # the port's own user goes first, however long
            assert not context.get(device.issue)
            await context.tick()
        context.set(device.port_valid, 0)
        assert context.get(device.issue)
        for _ in range(latency):
            assert not context.get(device.done)
            await context.tick()
            assert not context.get(device.issue)
        assert context.get(device.mine)
        assert context.get(device.done)
        await context.tick()
        assert not context.get(device.mine)

    Bench(device).run(testbench)


@pytest.mark.parametrize("until_told", [0, 1])
@pytest.mark.parametrize("latency", LATENCIES)
def test_random_traffic_and_repeats(latency: int, until_told: int) -> None:
    """Each start is issued in idle clocks only, answered once, and never while another operation is being decided."""
    device = BorrowedPort(latency, until_told)
    chance = random.Random(latency)

    async def testbench(context: Any) -> None:
        issued: list[int] = []
        running, starts, dones = False, 0, 0
        waiting = False
        for clock in range(600):
            busy, start = chance.random() < 0.6, not running and chance.random() < 0.3
            mine = bool(issued) and issued[-1] == clock - latency
            told = bool(issued) and issued[0] == clock - latency - until_told
            again = chance.random() < 0.5
            context.set(device.port_valid, busy)
            context.set(device.start, start)
            context.set(device.again, again)
            assert context.get(device.issue) == (waiting and not busy)
            assert context.get(device.mine) == mine
            assert context.get(device.done) == (told and not again)
            if waiting and not busy:
                issued.append(clock)
                waiting = False
            if told:
                issued.pop(0)
                if again:
                    waiting = True
                else:
                    running, dones = False, dones + 1
            if start:
                running, waiting, starts = True, True, starts + 1
            await context.tick()
        assert starts - dones == running
        assert dones > 10

    Bench(device).run(testbench)
