"""The cocotb test of host code: a function that is called with a transport to the core in the simulator.

:func:`kv_asu_sim.runner.run_host` passes build, function and seed in ``KV_ASU_BENCH`` as JSON.
"""

from __future__ import annotations

import json
import os
import random
from importlib import import_module
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.task import bridge
from cocotb.triggers import RisingEdge

from kv_asu.params import Params
from kv_asu_sim.bench import PERIOD_PS
from vrex.transports.cocotb import CocotbTransport

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def host(dut: Any) -> None:
    """The function returns."""
    random.seed(_ASKED["seed"])
    module, _, name = _ASKED["function"].partition(":")
    function = getattr(import_module(module), name)
    transport = CocotbTransport(dut, Params(**_ASKED["params"]))
    dut.rst.value = 1
    Clock(dut.clk, PERIOD_PS, unit="ps").start()
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await bridge(function)(transport)
