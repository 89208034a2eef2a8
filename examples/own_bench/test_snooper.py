"""A cocotb bench of one's own: our drivers, monitors and scoreboard around a top that is not ours.

The drivers reach pins of the top. The monitors watch the core inside it, so the scoreboard sees the requests that
really reach the core, and says whether each answer is right. The two channels, which are the bench's own, are driven as
you like.
"""

from __future__ import annotations

import json
import os
import random
from collections import deque
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu_sim.drivers import TWO_STATE, ConfigMaster, EvictDriver, InputPort, QueryDriver
from kv_asu_sim.monitors import InputMonitor, OutputMonitor
from kv_asu_sim.scoreboard import Scoreboard

PARAMS = Params(**json.loads(os.environ["KV_ASU_PARAMS"]))
PERIOD_NS = 2
CLOCKS = 2000


async def watch(core: Any, scoreboard: Scoreboard) -> None:
    """Compare every clock, for ever."""
    inputs = InputMonitor(core)
    outputs = OutputMonitor(core, always=cocotb.SIM_NAME not in TWO_STATE)
    while True:
        await FallingEdge(core.clk)
        scoreboard.clock(inputs.sample(), outputs.sample())


async def write_register(config: ConfigMaster, name: str, value: int) -> None:
    """Write a register by its name."""
    await config.write((PARAMS.config_base + REGISTERS[name].offset) >> 2, value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def reads_and_writes(dut: Any) -> None:
    """Random reads and writes of a few lines, queries and evictions beside them."""
    rng = random.Random(int(os.environ["KV_ASU_SEED"]))
    scoreboard = Scoreboard(PARAMS)
    reads, writes = (InputPort(dut, f"{channel}_valid", [f"{channel}_address"]) for channel in ("read", "write"))
    queries, evicts, config = QueryDriver(dut), EvictDriver(dut), ConfigMaster(dut, PARAMS.function)

    dut.rst.value = 1
    Clock(dut.clk, PERIOD_NS, unit="ns").start()
    for _ in range(2):
        await RisingEdge(dut.clk)
    watching = cocotb.start_soon(watch(dut.asu, scoreboard))
    await RisingEdge(dut.clk)
    dut.rst.value = 0

    await write_register(config, "T3", 5 | 4 << 16)  # ages in ticks: short ones, so that lines grow cold soon
    await write_register(config, "T2", 3 | 8 << 16)
    await write_register(config, "T1", 1 | 20 << 16)
    await write_register(config, "CTRL", 1)
    for _ in range(PARAMS.rows + PARAMS.latency + 8):
        await RisingEdge(dut.clk)

    lines = [rng.getrandbits(40) << 8 for _ in range(24)]
    waiting: deque[int] = deque()
    for _ in range(CLOCKS):
        if len(waiting) < 4 and rng.random() < 0.5:
            waiting.append(rng.choice(lines))
        reads.clear()
        writes.clear()
        if reading := rng.random() < 0.4:
            reads.put(rng.choice(lines[:6]))
        if waiting:
            writes.put(waiting[0])
            if not reading:
                waiting.popleft()
        queries.clear()
        if rng.random() < 0.5:
            queries.put(rng.choice(lines), rng.randrange(4), rng.randrange(2))
        evicts.clear()
        if rng.random() < 0.05:
            evicts.put()
        await RisingEdge(dut.clk)
        if watching.done():
            break
    for port in (reads, writes, queries, evicts):
        port.clear()
    for _ in range(PARAMS.latency + 2):
        await RisingEdge(dut.clk)
    if watching.done():
        watching.result()  # raises what the scoreboard found
    watching.cancel()
    scoreboard.finish()
    dut._log.info("compared %s", dict(scoreboard.compared))
    assert scoreboard.compared["requests"] > CLOCKS // 2
