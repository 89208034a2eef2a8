"""The other end of the configuration-extend port, for Amaranth's simulator."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from amaranth.hdl import Module
from amaranth.sim import Simulator

from kv_asu.cfg_ext import PINS

Testbench = Callable[[Any], Coroutine[Any, Any, None]]


class Bench:
    """A design on a 2 ns clock that runs one testbench after another, each from reset."""

    def __init__(self, design: Any) -> None:
        async def current(context: Any) -> None:
            await self._testbench(context)

        self._simulator = Simulator(design)
        self._simulator.add_clock(2e-9)
        self._simulator.add_testbench(current)
        self._fresh = True

    def run(self, testbench: Testbench) -> None:
        """Run ``testbench`` until it returns."""
        self._testbench = testbench
        if not self._fresh:
            self._simulator.reset()
        self._fresh = False
        self._simulator.run()


class ConfigPort:
    """Reads and writes DWORDs by their byte offset from ``base``, the fastest way the port allows.

    Parameters
    ----------
    context : SimulatorContext
        The testbench's.
    device : Component
        Has the pins.
    base : int
        What offsets count from, in bytes.
    function : int
        The function that is addressed.
    """

    def __init__(self, context: Any, device: Any, base: int = 0, function: int = 0) -> None:
        self.context = context
        self.device = device
        self.base = base
        self.function = function

    def get(self, pin: str) -> int:
        return self.context.get(getattr(self.device, pin))

    def set(self, **pins: int) -> None:
        for pin, value in pins.items():
            self.context.set(getattr(self.device, pin), value)

    def ask(self, offset: int) -> None:
        """Put a read on the pins."""
        self.set(
            cfg_ext_read_received=1,
            cfg_ext_register_number=(self.base + offset) // 4,
            cfg_ext_function_number=self.function,
        )

    def answer(self) -> int | None:
        """What the pins answer in this clock; checks that a silent port shows 0."""
        data = self.get("cfg_ext_read_data")
        if self.get("cfg_ext_read_data_valid"):
            return data
        assert data == 0
        return None

    async def read(self, offset: int) -> int | None:
        """Read a DWORD; returns in the clock of the answer, None if there is none."""
        again = self.get("cfg_ext_register_number") == (self.base + offset) // 4
        if again and self.get("cfg_ext_read_data_valid"):
            await self.context.tick()  # or it would be taken for the last read, held until its answer
        self.ask(offset)
        await self.context.tick()
        self.set(cfg_ext_read_received=0)
        return self.answer()

    def offer(self, offset: int, data: int, byte_enable: int = 0xF) -> None:
        """Put a write on the pins."""
        self.set(
            cfg_ext_write_received=1,
            cfg_ext_register_number=(self.base + offset) // 4,
            cfg_ext_function_number=self.function,
            cfg_ext_write_data=data,
            cfg_ext_write_byte_enable=byte_enable,
        )

    async def write(self, offset: int, data: int, byte_enable: int = 0xF) -> None:
        """Write a DWORD; returns in the clock in which it acts."""
        self.offer(offset, data, byte_enable)
        await self.context.tick()
        self.set(cfg_ext_write_received=0)


def joined(outer: Any, core: Any) -> Module:
    """A full config space with the core's capability behind it."""
    m = Module()
    m.submodules.outer = outer
    m.submodules.core = core
    for name, _, _ in PINS:
        behind, pin = getattr(outer, f"core_cfg_ext_{name}"), getattr(core, f"cfg_ext_{name}")
        m.d.comb += behind.eq(pin) if name.startswith("read_data") else pin.eq(behind)
    return m
