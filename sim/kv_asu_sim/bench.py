"""The cocotb bench: clock, drivers, monitors and scoreboard around one core, joined here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotb.utils import get_sim_time

from kv_asu.params import Params
from kv_asu_sim.coverage import Coverage
from kv_asu_sim.drivers import TWO_STATE, RowDriver
from kv_asu_sim.monitors import InputMonitor, LatencyMeter, OutputMonitor
from kv_asu_sim.scoreboard import Scoreboard

#: The clock the contract names.
PERIOD_PS = 2000


class Bench:
    """A core under a 2 ns clock, watched from the first clock on.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    params : Params
        What it was built with.

    Attributes
    ----------
    scoreboard : Scoreboard
    coverage : Coverage
    latency : LatencyMeter
    """

    def __init__(self, dut: Any, params: Params) -> None:
        self.dut = dut
        self.coverage = Coverage(params)
        self.scoreboard = Scoreboard(params, self.coverage)
        self.latency = LatencyMeter(params.latency, PERIOD_PS)
        self._inputs = InputMonitor(dut)
        self._outputs = OutputMonitor(dut, always=cocotb.SIM_NAME not in TWO_STATE)
        self._driver = RowDriver(dut)

    async def run(self, rows: Iterable[np.ndarray]) -> None:
        """Play blocks of rows, the first under reset, and compare every clock of them.

        Raises
        ------
        Difference
            The core and the reference differ, or something is owed at the end.
        UnknownValue
            A pin is X after reset.
        """
        dut = self.dut
        dut.rst.value = 1
        dut.power_good.value = 1
        Clock(dut.clk, PERIOD_PS, unit="ps").start()
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        watching = cocotb.start_soon(self._watch())
        for block in rows:
            await self._driver.play(block)
            if watching.done():
                break
        await RisingEdge(dut.clk)
        if watching.done():
            watching.result()  # raises what stopped it
        watching.cancel()
        self.scoreboard.finish()
        self.latency.finish()
        log = self.dut._log
        log.info("compared %s", dict(self.scoreboard.compared))
        for (port, clocks, time_ps), count in sorted(self.latency.histogram.items()):
            log.info("%s answered after %d clocks, %d ps: %d times", port, clocks, time_ps, count)

    async def _watch(self) -> None:
        clk = self.dut.clk
        while True:
            await FallingEdge(clk)
            taken = self._inputs.sample()
            seen = self._outputs.sample()
            self.latency.sample(self.scoreboard.clock_number + 1, get_sim_time("ps"), taken, seen)  # type: ignore[arg-type]
            self.scoreboard.clock(taken, seen)
