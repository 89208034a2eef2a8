"""cocotb tests of the core on an AXI4 bus: masters, a RAM at the other end, and the lines that the core is asked for.

`kv_asu_sim.axi.run` passes what is asked for in ``KV_ASU_BENCH`` as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import random
from itertools import cycle
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, with_timeout
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiRam

from kv_asu.params import Params
from kv_asu_sim.axi import FIXED, INCR, WRAP, Burst, in_region, pins_of, served
from kv_asu_sim.bench import PERIOD_PS
from kv_asu_sim.drivers import ConfigMaster

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])
_PARAMS = Params(**_ASKED["params"])

#: Clocks from a handshake to the request, if nothing is before it.
_TO_CORE = 4

#: Clocks after which everything handed over has reached the core and is answered.
_DRAIN = 8 + _PARAMS.latency


class Watch:
    """What goes over the bus, and which lines the core answers for."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.groups: list[list[int]] = []
        self.seen: list[int] = []
        self.bursts = 0
        self._unserved = 0
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut = self._dut
        while True:
            await FallingEdge(dut.clk)
            if int(dut.rst.value):
                self.groups.clear()
                self.seen.clear()
                continue
            base, mask = int(dut.region_base.value), int(dut.region_mask.value)
            bursts = [burst for channel in ("ar", "aw") if (burst := pins_of(dut, channel))]
            self.bursts += len(bursts)
            group = [line for burst in bursts if in_region(burst.address, base, mask) for line in burst.lines()]
            if group:
                self.groups.append(group)
            if int(dut.tag_valid.value):
                self.seen.append(int(dut.tag_line.value))

    async def settle(self) -> None:
        """Wait until the queue is empty: for as long as it may take."""
        left = sum(map(len, self.groups)) - len(self.seen)
        for _ in range(left + _DRAIN):
            await RisingEdge(self._dut.clk)


async def _begin(dut: Any) -> Watch:
    logging.getLogger("cocotb.axi_bench").setLevel(logging.WARNING)
    random.seed(_ASKED["seed"])
    for name in ("query_valid", "query_addr", "query_min_tlevel", "query_boost", "evict_valid", "region_base"):
        getattr(dut, name).value = 0
    for channel in ("ar", "aw"):
        for name in ("valid", "ready", "addr", "len", "size", "burst"):
            getattr(dut, f"axi_{channel}{name}").value = 0
    dut.region_mask.value = 0
    dut.power_good.value = 1
    ConfigMaster(dut)
    dut.rst.value = 1
    Clock(dut.clk, PERIOD_PS, unit="ps").start()
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    return Watch(dut)


def _pauses(chance: float) -> Any:
    rng = random.Random(random.getrandbits(32))
    return (rng.random() < chance for _ in cycle([0]))


def _attach(dut: Any) -> AxiMaster:
    """A master and a RAM, both with pauses on the address channels."""
    bus = AxiBus.from_prefix(dut, "axi")
    master, ram = AxiMaster(bus, dut.clk, dut.rst), AxiRam(bus, dut.clk, dut.rst, size=1 << 20)
    for end in (master, ram):
        end.write_if.aw_channel.set_pause_generator(_pauses(0.2))
        end.read_if.ar_channel.set_pause_generator(_pauses(0.2))
    return master


def _random_access(master: AxiMaster) -> tuple[int, int, int, int]:
    """Address, bytes, size and type of a burst as the master takes it."""
    size = random.randint(0, master.write_if.max_burst_size)
    kind = random.choice((FIXED, INCR, INCR, WRAP))
    # Near the end of a page, of a line, anywhere.
    address = random.getrandbits(16) * 4096 + random.choice((4095, 255, random.getrandbits(12))) - random.randrange(40)
    if kind == INCR:
        return address, random.choice((1, random.randint(1, 64), random.randint(1, 1024))), size, kind
    beats = random.choice((2, 4, 8, 16))
    if kind == WRAP:
        address &= ~((1 << size) - 1)
        # The master goes straight on, so a page must not end behind the address; the RAM wraps.
        address -= max(0, (address & 0xFFF) + (beats << size) - 0x1000)
        return address, beats << size, size, kind
    address &= ~((1 << size) - 1)
    return address, beats << size, size, kind


async def _idle(master: AxiMaster) -> None:
    """Wait for both halves; the whole has no truth value on a bus of 64 bits of address."""
    for half in (master.read_if, master.write_if):
        await with_timeout(half.wait(), 1, "ms")


async def random_bursts(dut: Any) -> None:
    """What the core is asked for is what the bursts cover, in order, with nothing skipped."""
    watch = await _begin(dut)
    master = _attach(dut)
    kinds = set()
    for _ in range(_ASKED["bursts"]):
        address, length, size, kind = _random_access(master)
        kinds.add((kind, size))
        options = {"burst": AxiBurstType(kind), "size": size}
        if random.random() < 0.5:
            master.init_read(address, length, **options)
        else:
            master.init_write(address, random.randbytes(length), **options)
        if random.random() < 0.1:
            await _idle(master)
    await _idle(master)
    await watch.settle()
    assert int(dut.skipped.value) == 0, "the queue is too short for this master"
    assert watch.seen == [line for group in watch.groups for line in group]
    assert watch.bursts >= _ASKED["bursts"]
    assert len(kinds) > master.write_if.max_burst_size
    dut._log.info("%d bursts, %d lines", watch.bursts, len(watch.seen))


async def region(dut: Any) -> None:
    """Only bursts of the region are seen, whatever bits the mask has."""
    watch = await _begin(dut)
    pages = [random.getrandbits(20) for _ in range(8)]
    dut.region_base.value, dut.region_mask.value = pages[0], (1 << 20) - 1 & ~0b110
    inside = 0
    for index in range(_ASKED["bursts"]):
        page = random.choice(pages) if index % 2 else pages[0] ^ random.choice((0, 2, 4, 6, 1, 8))
        inside += (page ^ pages[0]) & ~0b110 == 0
        await _hand_over(dut, ar=Burst(page * 4096 + random.randrange(4096), 0, 0, INCR))
    await watch.settle()
    assert 0 < len(watch.seen) == inside < _ASKED["bursts"]
    assert watch.seen == [line for group in watch.groups for line in group]


async def _hand_over(dut: Any, **bursts: Burst) -> None:
    """Bursts on one channel or on both, in one clock."""
    for channel in ("ar", "aw"):
        burst = bursts.get(channel)
        for name in ("valid", "ready"):
            getattr(dut, f"axi_{channel}{name}").value = int(burst is not None)
        if burst is not None:
            for name, value in zip(("addr", "len", "size", "burst"),
                                   (burst.address, burst.length, burst.size, burst.kind), strict=True):  # fmt: skip
                getattr(dut, f"axi_{channel}{name}").value = value
    await RisingEdge(dut.clk)
    for channel in ("ar", "aw"):
        dut_valid = getattr(dut, f"axi_{channel}valid")
        dut_valid.value = 0


async def overload(dut: Any) -> None:
    """Two bursts a clock: the core is asked for one line every clock, and what is skipped is counted."""
    watch = await _begin(dut)
    page = 0
    clocks = _ASKED["bursts"]
    for _ in range(clocks):
        # No line twice, so that it is plain which were skipped.
        read, write = (Burst((page + i) * 4096 + 250, random.randrange(32), 3, INCR) for i in range(2))
        page += 2
        await _hand_over(dut, ar=read, aw=write)
    assert len(watch.seen) > clocks - 12, "one a clock while there is something to ask for"
    await watch.settle()
    missing = served(watch.groups, watch.seen)
    assert missing == int(dut.skipped.value) > 0
    began = len(watch.seen)
    for _ in range(_ASKED["queue_depth"]):  # as many as can wait, after the rush
        await _hand_over(dut, ar=Burst(page * 4096, 15, 4, INCR), aw=Burst((page + 1) * 4096, 15, 4, INCR))
        page += 2
    await watch.settle()
    assert len(watch.seen) - began == 2 * _ASKED["queue_depth"]
    assert int(dut.skipped.value) == missing


async def resets(dut: Any) -> None:
    """A reset in mid-stream leaves nothing to ask for, and nothing counted."""
    watch = await _begin(dut)
    for _ in range(6):
        for _ in range(random.randint(1, 2 * _ASKED["queue_depth"])):
            page = random.getrandbits(12)
            await _hand_over(dut, ar=Burst(page * 4096, 63, 3, INCR), aw=Burst(page * 4096 + 300, 7, 3, WRAP))
        dut.rst.value = 1
        for _ in range(random.randint(1, 3)):
            await RisingEdge(dut.clk)
        dut.rst.value = 0
        await FallingEdge(dut.clk)
        assert int(dut.skipped.value) == 0
        await RisingEdge(dut.clk)
        for _ in range(random.randrange(12)):
            await RisingEdge(dut.clk)
        assert watch.seen == []
    await watch.settle()
    for after in range(1, _DRAIN):
        if after == 1:
            await _hand_over(dut, aw=Burst(0x1_0100, 0, 0, INCR))
        await FallingEdge(dut.clk)
        if int(dut.tag_valid.value):
            break
        await RisingEdge(dut.clk)
    assert after == _TO_CORE + _PARAMS.latency, "clocks from a handshake to the answer"
    await watch.settle()
    assert watch.seen == [0x101]


@cocotb.test(timeout_time=20, timeout_unit="ms")
async def test(dut: Any) -> None:
    """The one that was asked for."""
    await {test.__name__: test for test in (random_bursts, region, overload, resets)}[_ASKED["test"]](dut)
