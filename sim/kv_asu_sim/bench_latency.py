"""The cocotb tests behind the latency page: streams measured, and a few clocks kept for the wave picture.

The runner passes build, streams, length and seed in ``KV_ASU_BENCH`` as JSON; what was measured is left in
``latency.json``.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from kv_asu.params import Params
from kv_asu_sim.bench import PERIOD_PS, Bench
from kv_asu_sim.drivers import RowDriver
from kv_asu_sim.latency import WAVE_SIGNALS, wave_rows
from kv_asu_sim.streams import play

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])
_PARAMS = Params(**_ASKED["params"])


def _rows() -> Iterator[np.ndarray]:
    return chain.from_iterable(
        play(stream, _PARAMS, _ASKED["seed"], _PARAMS.rows + _ASKED["clocks"], settle=False)
        for stream in _ASKED["streams"]
    )


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def measures(dut: Any) -> None:
    """Every answer comes L clocks after its operation."""
    random.seed(_ASKED["seed"])
    bench = Bench(dut, _PARAMS)
    idle = np.zeros(_PARAMS.latency + 1, next(_rows()).dtype)
    idle["power_good"] = 1
    await bench.run(chain(_rows(), [idle]))
    histogram = [[*key, count] for key, count in sorted(bench.latency.histogram.items())]
    Path("latency.json").write_text(json.dumps(histogram))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def waves(dut: Any) -> None:
    """A few clocks, every signal of the picture at every edge."""
    random.seed(_ASKED["seed"])
    rows, first = wave_rows(_PARAMS)
    dut.rst.value = 1
    Clock(dut.clk, PERIOD_PS, unit="ps").start(start_high=False)
    playing = cocotb.start_soon(RowDriver(dut).play(rows))
    samples: list[dict[str, int]] = []
    for number in range(len(rows)):
        await RisingEdge(dut.clk)
        await FallingEdge(dut.clk)
        if number >= first:
            values = {name: int(getattr(dut, name).value) for name in WAVE_SIGNALS}
            samples.append({"ps": int(get_sim_time("ps")) - PERIOD_PS // 2, **values})
    await playing
    Path("wave.json").write_text(json.dumps(samples))
