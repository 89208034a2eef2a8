"""A cocotb test that plays streams and watches nothing: what is wrong, the assertions have to say."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from kv_asu.params import Params
from kv_asu_sim.bench import PERIOD_PS
from kv_asu_sim.drivers import RowDriver
from kv_asu_sim.streams import play

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])


def _segments() -> Iterator[np.ndarray]:
    """Each stream for equally many clocks."""
    for number, stream in enumerate(_ASKED["streams"]):
        seed = _ASKED["seed"] + number
        yield from play(stream, Params(**_ASKED["params"]), seed, _ASKED["clocks"], settle=False)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def plays(dut: Any) -> None:
    """The streams come to their end."""
    random.seed(_ASKED["seed"])
    dut.rst.value = 1
    dut.power_good.value = 1
    driver = RowDriver(dut)
    Clock(dut.clk, PERIOD_PS, unit="ps").start()
    for _ in range(2):
        await RisingEdge(dut.clk)
    for rows in _segments():
        await driver.play(rows)
    await RisingEdge(dut.clk)
