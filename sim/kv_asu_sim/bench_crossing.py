"""cocotb tests of the core with its config space in a clock of its own: ``kv_asu_cdc`` against the device model.

``KV_ASU_BENCH`` says as JSON what is wanted: the build, and pairs of clocks, each a name, the periods of ``cfg_clk``
and ``clk`` in ps, and the percent of a period by which it may be longer or shorter.
"""

from __future__ import annotations

import json
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, WINDOW_BYTES, Counter
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_sim.drivers import junk

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])
_PARAMS = Params(**_ASKED["params"])
_CLOCKS = {name: numbers for name, *numbers in _ASKED["clocks"]}
_ACCESSES = _ASKED["accesses"]

#: As many accesses as may wait in the crossing, and one on its way.
_BURST = 8

ALL_ONES = (1 << 32) - 1
_FIRST = _PARAMS.config_base >> 2


def _number(name: str) -> int:
    return _FIRST + REGISTERS[name].offset // 4


_CTRL = _number("CTRL")


def _is_mine(number: int) -> bool:
    return _FIRST <= number < _FIRST + WINDOW_BYTES // 4


async def _clock(pin: Any, period: int, jitter: int) -> None:
    await Timer(random.randint(1, period), "ps")
    while True:
        for level in (1, 0):
            pin.value = level
            await Timer(max(1, period // 2 + random.randint(-jitter, jitter)), "ps")


class Master:
    """The hard block's side: pulses and held reads, and what is answered."""

    def __init__(self, dut: Any, periods: tuple[int, int]) -> None:
        self.dut = dut
        # A round trip takes five clocks of each and the core's answer; reads may wait behind a full queue.
        self._patience = (_BURST + 2) * (5 + 6 * periods[1] // periods[0])
        self._pins = [getattr(dut, f"cfg_ext_{name}") for name in
                      ("register_number", "function_number", "write_data", "write_byte_enable")]  # fmt: skip
        self._junk = [junk(pin) for pin in self._pins]
        self._waiting: deque[Callable[[int], bool]] = deque()
        self.answers: list[int] = []
        self.writes = 0
        self.reads = 0
        self._clear()
        cocotb.start_soon(self._watch())

    def _clear(self) -> None:
        self.dut.cfg_ext_read_received.value = self.dut.cfg_ext_write_received.value = 0
        for pin, value in zip(self._pins, self._junk, strict=True):
            pin.value = value()

    def _put(self, *values: int) -> None:
        for pin, value in zip(self._pins, values, strict=True):
            pin.value = value

    async def _watch(self) -> None:
        while True:
            await FallingEdge(self.dut.cfg_clk)
            data = int(self.dut.cfg_ext_read_data.value)
            if int(self.dut.cfg_ext_read_data_valid.value):
                self.answers.append(data)
            else:
                assert data == 0

    async def tick(self, clocks: int = 1) -> None:
        for _ in range(clocks):
            await RisingEdge(self.dut.cfg_clk)

    async def write(self, number: int, value: int, byte_enable: int = 0xF, function: int = 0) -> None:
        """One clock."""
        self.writes += _is_mine(number) and function == 0
        self.dut.cfg_ext_write_received.value = 1
        self._put(number, function, value, byte_enable)
        await self.tick()
        self._clear()

    async def ask(self, number: int) -> None:
        """A read of one clock, its answer left to `answers`."""
        self.reads += _is_mine(number)
        self.dut.cfg_ext_read_received.value = 1
        self._put(number, 0, 0, 0)
        await self.tick()
        self._clear()

    async def read(self, number: int, *, held: bool = False) -> int:
        """A read of one clock, or one held until it is answered."""
        before = len(self.answers)
        self.reads += 1
        self.dut.cfg_ext_read_received.value = 1
        self._put(number, 0, 0, 0)
        for _ in range(self._patience):
            await self.tick()
            if not held:
                self._clear()
            if int(self.dut.cfg_ext_read_data_valid.value):
                self._clear()
                await self.tick()
                assert len(self.answers) == before + 1, "one answer for a read"
                return self.answers[-1]
        raise AssertionError(f"no answer to a read of {number:#x} within {self._patience} clocks")

    async def settle(self) -> None:
        """Wait until everything is over."""
        self._clear()
        await self.tick(self._patience)


async def _begin(dut: Any, name: str) -> Master:
    cfg, core, jitter = _CLOCKS[name]
    random.seed(f"{_ASKED['seed']} {name}")
    for pin in ("req_valid", "req_addr", "query_valid", "query_addr", "query_min_tlevel", "query_boost", "evict_valid"):
        getattr(dut, pin).value = 0
    dut.power_good.value = dut.rst.value = dut.cfg_rst.value = 1
    master = Master(dut, (cfg, core))
    cocotb.start_soon(_clock(dut.cfg_clk, cfg, cfg * jitter // 200))
    cocotb.start_soon(_clock(dut.clk, core, core * jitter // 200))
    for _ in range(6):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await master.tick(4)
    dut.cfg_rst.value = 0
    await master.settle()
    master.reads, master.writes = int(dut.given_reads.value), int(dut.given_writes.value)  # by the tests before
    return master


def _writes(model: ConfigSpaceModel | None) -> Iterator[tuple[int, int, int]]:
    """Random ones; those that start something are left to `counted`."""
    numbers = [number for number in range(_FIRST, _FIRST + WINDOW_BYTES // 4)
               if number not in (_number("QUERY"), _number("EVICT"))]  # fmt: skip
    while True:
        number, value, enable = random.choice(numbers), random.getrandbits(32), random.randrange(16)
        if random.random() < 0.5:
            value &= 0x0101_0101
        if number == _CTRL:
            value &= ~1  # inactive, nothing depends on time
        if model is not None:
            model.write_dword(number, value, enable)
        yield number, value, enable


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pair=list(_CLOCKS))
async def accesses(dut: Any, pair: str) -> None:
    """Every read is answered once with what the device model has, whatever was written just before."""
    master = await _begin(dut, pair)
    model = ConfigSpaceModel(_PARAMS)
    model.idle(40)
    writes = _writes(model)
    for _ in range(_ACCESSES):
        for _ in range(random.choice((0, 1, 2, _BURST))):
            await master.write(*next(writes))
            if random.random() < 0.1:  # for another function, for another block
                await master.write(_number("HASH_SEED"), 7, function=1)
                await master.write(_FIRST - 1, 7)
        number = random.randrange(_FIRST, _FIRST + WINDOW_BYTES // 4)
        model.idle(4)
        assert await master.read(number, held=random.random() < 0.5) == model.read_dword(number), hex(number)
        if random.random() < 0.2:
            await master.settle()
            assert bool(int(dut.irq.value)) == model.irq
    answered = len(master.answers)
    await master.ask(_FIRST - 1)  # somebody else's
    await master.settle()
    assert len(master.answers) == answered
    for number in range(_FIRST, _FIRST + 4):  # other registers while one is awaited, as the core itself takes them
        await master.ask(number)
    await master.settle()
    assert master.answers[answered:] == [model.read_dword(number) for number in range(_FIRST, _FIRST + 4)]
    assert int(dut.cfg_dropped.value) == 0
    assert (int(dut.given_reads.value), int(dut.given_writes.value)) == (master.reads, master.writes)


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pair=list(_CLOCKS))
async def counted(dut: Any, pair: str) -> None:
    """No write is lost or done twice: queries by register are counted by the core."""
    master = await _begin(dut, pair)
    await master.write(_CTRL, 1)
    while not await master.read(_number("STATUS")) & 1:
        pass
    started = 0
    while started < _ACCESSES:
        await master.write(_number("QUERY"), 1)
        started += 1
        while not await master.read(_number("QUERY")) & 2:
            pass
    await master.write(_number("COUNTER_SELECT"), Counter.QUERIES)
    await master.write(_CTRL, 1 | 4)
    await master.settle()
    assert await master.read(_number("COUNTER_LO")) == started
    assert int(dut.cfg_dropped.value) == 0


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pair=list(_CLOCKS))
async def interrupts(dut: Any, pair: str) -> None:
    """``irq`` follows the core's, both ways."""
    master = await _begin(dut, pair)
    for _ in range(4):
        await master.write(_number("IRQ_ENABLE"), 4)
        await master.write(_number("T1"), 0)  # refused
        await master.settle()
        assert int(dut.irq.value) == 1
        await master.write(_number("IRQ_STATUS"), 4)
        await master.settle()
        assert int(dut.irq.value) == 0


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pair=list(_CLOCKS))
async def overrun(dut: Any, pair: str) -> None:
    """What is too much is told, and what was taken is done."""
    master = await _begin(dut, pair)
    seed = _number("HASH_SEED")
    for value in range(40):
        await master.write(seed, value)
    await master.settle()
    kept = await master.read(seed)
    assert kept == 39 if int(dut.cfg_dropped.value) == 0 else 8 <= kept <= 39
    dut.cfg_rst.value = 1
    await master.tick()
    dut.cfg_rst.value = 0
    await master.tick()
    assert int(dut.cfg_dropped.value) == 0


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(pair=list(_CLOCKS))
async def resets(dut: Any, pair: str) -> None:
    """Either side alone, at any moment, with accesses under way."""
    master = await _begin(dut, pair)
    seed = _number("HASH_SEED")
    for round_ in range(_ASKED["resets"]):
        base = (round_ + 1) << 8
        asked_for, given = (master.reads, master.writes), (int(dut.given_reads.value), int(dut.given_writes.value))
        await master.write(seed, base)
        await master.settle()
        issued = random.randrange(_BURST)
        for step in range(issued):
            await master.write(seed, base + 1 + step)
        asked = random.random() < 0.7
        if not asked:
            await master.read(seed)
        before = len(master.answers)
        if asked:
            await master.ask(seed)
        # Until about everything is done: an access takes some five clocks of each.
        await Timer(random.randint(1, (issued + 2) * 5 * sum(_CLOCKS[pair][:2])), "ps")
        if random.random() < 0.5:
            await RisingEdge(dut.clk)
            dut.rst.value = 1
            for _ in range(random.randint(1, 6)):
                await RisingEdge(dut.clk)
            if not asked:
                assert await master.read(seed) == ALL_ONES, "while it is reset"
                before += 1
                await RisingEdge(dut.clk)
            dut.rst.value = 0
            allowed = {0, *range(base + 1, base + issued + 1)}
            await master.settle()
            assert len(master.answers) == before + asked, "a read is answered whatever is reset behind it"
            assert all(answer in (0, ALL_ONES, *range(base, base + issued + 1)) for answer in master.answers[before:])
        else:
            await RisingEdge(dut.cfg_clk)
            dut.cfg_rst.value = 1
            await master.tick(random.randint(1, 6))
            before = len(master.answers)
            dut.cfg_rst.value = 0
            if random.random() < 0.5:  # at once
                await master.write(seed, base + 0x80)
                allowed = {base + 0x80}
            else:
                allowed = set(range(base, base + issued + 1))
                await master.settle()
                assert len(master.answers) == before, "what was asked before a reset is not answered after it"
        assert await master.read(seed) in allowed
        await master.settle()
        assert int(dut.given_reads.value) - given[0] <= master.reads - asked_for[0], "no read is done twice"
        assert int(dut.given_writes.value) - given[1] <= master.writes - asked_for[1], "no write is done twice"
        await master.write(seed, base + 0x81)
        assert await master.read(seed, held=True) == base + 0x81
