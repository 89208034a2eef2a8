"""The cocotb test of host code: a function that is called with a transport to the core in the simulator.

:func:`kv_asu_sim.runner.run_host` passes build, function, way and seed in ``KV_ASU_BENCH`` as JSON.
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
_PARAMS = Params(**_ASKED["params"])


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def host(dut: Any) -> None:
    """The function returns."""
    random.seed(_ASKED["seed"])
    module, _, name = _ASKED["function"].partition(":")
    function = getattr(import_module(module), name)
    if _ASKED["way"] == "pins":
        transport = CocotbTransport(dut, _PARAMS)
        await _reset(dut)
    else:
        transport = await _behind_root_complex(dut)
    await bridge(function)(transport)


async def _behind_root_complex(dut: Any) -> CocotbTransport:
    from kv_asu_sim.pcie import BehindHardBlock, ConfigTlpTransport, WholeFunction

    endpoint = (WholeFunction if _ASKED["way"] == "root complex" else BehindHardBlock)(dut, _PARAMS)
    transport = ConfigTlpTransport(dut, endpoint, _PARAMS)
    await _reset(dut)
    await transport.enumerate()
    return transport


async def _reset(dut: Any) -> None:
    dut.rst.value = 1
    Clock(dut.clk, PERIOD_PS, unit="ps").start()
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
