"""The capability at its pins: protocol, access kinds, refusals, actions, interrupts."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import pytest

from config_port import Bench, ConfigPort
from kv_asu.config_space import ConfigSpace
from kv_asu.params import Params

# The map as registers.md has it, written down here once more so that a slip in registers.rdl shows.
CTRL, STATUS, ID, PARAMS, GEOMETRY, TIMEBASE, T3, T2, T1 = range(0x00, 0x24, 4)
IRQ_STATUS, IRQ_ENABLE, COLD_WATERMARK, HASH_SEED, TRACKED, COLD = range(0x24, 0x3C, 4)
QUERY_LO, QUERY_HI, QUERY, EVICT, VICTIM_LO, VICTIM_HI = range(0x3C, 0x54, 4)
COUNTER_SELECT, COUNTER_LO, COUNTER_HI, LIMITS = range(0x54, 0x64, 4)
WINDOW = range(-8, 0x78, 4)

UNTRACKED, COLD_HIGH, CONFIG_ERROR = 1, 2, 4
EMPTY, FOUND = 0, 1

DEFAULT = Params()
SMALL = Params(
    addr_width=40,
    log2_entries=5,
    window=4,
    hash_stages=2,
    table_stages=1,
    stamp_width=12,
    config_base=0xF80,
    vsec_id=0x1234,
    function=0x10,
)

Body = Callable[[ConfigPort], Awaitable[None]]


@cache
def bench(params: Params) -> tuple[ConfigSpace, Bench]:
    device = ConfigSpace(params)
    return device, Bench(device)


def run(body: Body, params: Params = DEFAULT) -> None:
    """Run ``body`` on a capability that was just reset."""
    device, simulation = bench(params)

    async def testbench(context: Any) -> None:
        await body(ConfigPort(context, device, base=params.config_base + 8, function=params.function))

    simulation.run(testbench)


def reset_values(params: Params) -> dict[int, int]:
    """Every DWORD that is not 0 after reset, by hand from registers.md."""
    return {
        -8: 0x0001_000B | params.config_next << 20,
        -4: 0x0801_0000 | params.vsec_id,
        ID: 0x4B56_0100,
        PARAMS: params.log2_entries
        | params.window << 5
        | (1 + params.hash_stages + params.table_stages) << 10
        | params.stamp_width << 14
        | params.addr_width << 19,
        GEOMETRY: params.log2_entries | 8 << 8,
        TIMEBASE: 2,
        T3: 5 | 25 << 16,
        T2: 3 | 50 << 16,
        T1: 1 | 125 << 16,
        LIMITS: 2**params.stamp_width - 16,
    }


@pytest.mark.parametrize(
    "params",
    [DEFAULT, SMALL, Params(config_base=0x480, config_next=0x500)],
    ids=["default", "small", "moved"],
)
def test_every_dword_after_reset(params: Params) -> None:
    async def body(port: ConfigPort) -> None:
        expected = reset_values(params)
        for offset in WINDOW:
            assert await port.read(offset) == expected.get(offset, 0), hex(offset)

    run(body, params)


def test_silent_outside_the_window() -> None:
    async def body(port: ConfigPort) -> None:
        for offset in (-0x800, -0x10, -0xC, 0x78, 0x7C, 0x7FC - 8):
            assert await port.read(offset) is None, hex(offset)
            await port.write(offset, 0xFFFF_FFFF)
        assert await port.read(IRQ_STATUS) == 0

    run(body)


@pytest.mark.parametrize("params", [DEFAULT, SMALL], ids=["default", "small"])
def test_silent_for_other_functions(params: Params) -> None:
    async def body(port: ConfigPort) -> None:
        for function in (params.function ^ 1, params.function ^ 0x80):
            port.function = function
            assert await port.read(ID) is None
            await port.write(IRQ_ENABLE, 7)
        port.function = params.function
        assert await port.read(IRQ_ENABLE) == 0

    run(body, params)


def test_read_is_answered_in_the_next_clock_only() -> None:
    async def body(port: ConfigPort) -> None:
        for _ in range(3):
            assert port.answer() is None
            assert await port.read(ID) == 0x4B56_0100
            await port.context.tick()
            assert port.answer() is None
            await port.context.tick()

    run(body)


def test_held_read_counts_once() -> None:
    async def body(port: ConfigPort) -> None:
        port.ask(ID)
        await port.context.tick()
        assert port.answer() == 0x4B56_0100
        await port.context.tick()  # the master has seen the answer and takes the read away
        port.set(cfg_ext_read_received=0)
        for _ in range(3):
            assert port.answer() is None
            await port.context.tick()

    run(body)


def test_same_register_read_again_after_a_held_read() -> None:
    async def body(port: ConfigPort) -> None:
        port.ask(ID)
        answers = []
        for _ in range(6):
            await port.context.tick()
            answers.append(port.answer())
        assert answers == [0x4B56_0100, None] * 3

    run(body)


def test_reads_of_different_registers_back_to_back() -> None:
    async def body(port: ConfigPort) -> None:
        expected = reset_values(DEFAULT)
        order = [ID, PARAMS, ID, -8, -4, T1, LIMITS, T1]
        answers = [await port.read(offset) for offset in order]
        assert answers == [expected[offset] for offset in order]

    run(body)


def test_read_and_write_in_one_clock() -> None:
    async def body(port: ConfigPort) -> None:
        port.offer(HASH_SEED, 0x1234_5678)
        assert await port.read(HASH_SEED) == 0, "a read returns what was there before the write of the same clock"
        port.set(cfg_ext_write_received=0)
        await port.context.tick()
        assert await port.read(HASH_SEED) == 0x1234_5678

    run(body)


def test_reads_change_nothing() -> None:
    async def body(port: ConfigPort) -> None:
        await port.write(IRQ_ENABLE, 7)
        await port.write(T3, 7)  # sets nothing but the counts
        port.set(untracked_event=1)
        await port.context.tick()
        port.set(untracked_event=0)
        before = [await port.read(offset) for offset in WINDOW]
        assert [await port.read(offset) for offset in WINDOW] == before
        assert port.get("irq") == 1

    run(body)


class Reference:
    """registers.md's rules for writes, over the registers that software writes."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self.words = dict.fromkeys(WINDOW, 0) | reset_values(params)
        self.error = False

    def legal(self, offset: int, word: int) -> bool:
        if offset in (GEOMETRY, TIMEBASE, T1, HASH_SEED) and self.words[CTRL] & 1:
            return False
        age = {level: self.words[level] >> 16 for level in (T3, T2, T1)} | {offset: word >> 16}
        match offset:
            case 0x00:
                return word >> 4 & 3 <= 2
            case 0x10:
                lowest = 2 * self.params.window
                return lowest <= 1 << (word & 31) <= self.params.entries and 8 <= word >> 8 & 31 <= 24
            case 0x14:
                return word & 31 <= 24
            case 0x18 | 0x1C | 0x20:
                return age[T3] <= age[T2] <= age[T1] and 1 <= age[T1] <= 2**self.params.stamp_width - 16
            case 0x54:
                return word <= 14
        return True

    def write(self, offset: int, data: int, byte_enable: int) -> None:
        kept = {
            CTRL: 0x71,
            GEOMETRY: 0x1F1F,
            TIMEBASE: 0x1F,
            T3: 0xFFFF_FFFF,
            T2: 0xFFFF_FFFF,
            T1: 0xFFFF_0000,
            IRQ_ENABLE: 7,
            COLD_WATERMARK: 0xFFFF_FFFF,
            HASH_SEED: 0xFFFF_FFFF,
            QUERY_LO: 0xFFFF_FFFF,
            QUERY_HI: 0xFFFF_FFFF,
            COUNTER_SELECT: 0xFFFF_FFFF,
        }.get(offset, 0)
        if byte_enable == 0 or (kept == 0 and offset != IRQ_STATUS):
            return
        mask = sum(0xFF << 8 * byte for byte in range(4) if byte_enable >> byte & 1)
        if offset == IRQ_STATUS:
            self.error = self.error and not data & mask & CONFIG_ERROR
            return
        word = self.words[offset] & ~(mask & kept) | data & mask & kept
        if self.legal(offset, word):
            self.words[offset] = word
        else:
            self.error = True

    def read(self, offset: int) -> int:
        return CONFIG_ERROR * self.error if offset == IRQ_STATUS else self.words[offset]


@pytest.mark.parametrize("params", [DEFAULT, SMALL], ids=["default", "small"])
def test_each_bit_alone(params: Params) -> None:
    async def body(port: ConfigPort) -> None:
        reference = Reference(params)
        for offset in WINDOW:
            for bit in range(32):
                if offset in (QUERY, EVICT) and bit == 0:
                    continue
                data = reference.read(offset) ^ 1 << bit
                reference.write(offset, data, 0xF)
                await port.write(offset, data)
                assert await port.read(offset) == reference.read(offset), (hex(offset), bit)
                assert await port.read(IRQ_STATUS) == reference.read(IRQ_STATUS), (hex(offset), bit)
            # Back to something from which every register can be reached.
            for register in (CTRL, T3, T2, T1):
                value = {T3: 0, T2: 0, T1: 125 << 16}.get(register, 0)
                reference.write(register, value, 0xF)
                await port.write(register, value)
            reference.write(IRQ_STATUS, 7, 0xF)
            await port.write(IRQ_STATUS, 7)
        for offset in WINDOW:
            assert await port.read(offset) == reference.read(offset), hex(offset)

    run(body, params)


@pytest.mark.parametrize("params", [DEFAULT, SMALL], ids=["default", "small"])
def test_random_writes(params: Params) -> None:
    async def body(port: ConfigPort) -> None:
        chance = random.Random(7)
        reference = Reference(params)
        accepted = refused = 0
        for step in range(1000):
            offset = chance.choice(WINDOW)
            byte_enable = chance.choice((0xF, 0xF, 0, 0x3, 0xC, *range(16)))
            data = chance.choice(
                (
                    chance.getrandbits(32),
                    chance.randrange(32),
                    chance.randrange(300) << 16 | chance.randrange(8),
                    chance.randrange(32) << 8 | chance.randrange(16),
                    reference.read(offset),
                )
            )
            if offset in (QUERY, EVICT):
                data &= ~1
            if offset == CTRL and chance.random() < 0.5:
                data &= ~1  # otherwise most structural writes would find it enabled
            before = dict(reference.words)
            reference.write(offset, data, byte_enable)
            refused += reference.error
            accepted += before != reference.words
            await port.write(offset, data, byte_enable)
            where = (step, hex(offset), hex(data), bin(byte_enable))
            assert await port.read(IRQ_STATUS) == reference.read(IRQ_STATUS), where
            assert await port.read(offset) == reference.read(offset), where
            if reference.error:
                reference.write(IRQ_STATUS, CONFIG_ERROR, 0xF)
                await port.write(IRQ_STATUS, CONFIG_ERROR)
            if step % 50 == 0:
                for other in WINDOW:
                    assert await port.read(other) == reference.read(other), (where, hex(other))
        assert accepted > 50
        assert refused > 50

    run(body, params)


REFUSALS = {
    "decay 3": ([], CTRL, 0x30, 0xF),
    "decay 3 with enable and flush": ([], CTRL, 0x33, 0xF),
    "geometry below twice the window": ([], GEOMETRY, 0x0803, 0xF),
    "geometry above the built size": ([], GEOMETRY, 0x080C, 0xF),
    "granule below a line": ([], GEOMETRY, 0x070B, 0xF),
    "granule above 16 MiB": ([], GEOMETRY, 0x190B, 0xF),
    "granule alone": ([], GEOMETRY, 0xFF07_FF, 0x2),
    "geometry while enabled": ([(CTRL, 1)], GEOMETRY, 0x080A, 0xF),
    "geometry unchanged while enabled": ([(CTRL, 1)], GEOMETRY, 0x080B, 0xF),
    "reserved byte of geometry while enabled": ([(CTRL, 1)], GEOMETRY, 0, 0x8),
    "tick shift 25": ([], TIMEBASE, 25, 0xF),
    "tick shift while enabled": ([(CTRL, 1)], TIMEBASE, 3, 0xF),
    "T3 over T2": ([], T3, 51 << 16 | 9, 0xF),
    "T3 over T2 by its high byte": ([], T3, 0xFFFF_FFFF, 0x8),
    "T2 below T3": ([], T2, 24 << 16, 0xF),
    "T2 over T1": ([], T2, 126 << 16, 0xF),
    "T1 below T2": ([], T1, 49 << 16, 0xF),
    "T1 over the limit": ([], T1, 241 << 16, 0xF),
    "T1 at 0": ([(T3, 0), (T2, 0)], T1, 0, 0xF),
    "T1 while enabled": ([(CTRL, 1)], T1, 130 << 16, 0xF),
    "seed while enabled": ([(CTRL, 1)], HASH_SEED, 1, 0xF),
    "counter 15": ([], COUNTER_SELECT, 15, 0xF),
    "counter 256": ([], COUNTER_SELECT, 256, 0xF),
    "counter 256 by its second byte": ([], COUNTER_SELECT, 0xFFFF_01FF, 0x2),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name: str) -> None:
    before, offset, data, byte_enable = REFUSALS[name]

    async def body(port: ConfigPort) -> None:
        for setting in before:
            await port.write(*setting)
        assert await port.read(IRQ_STATUS) == 0
        kept = await port.read(offset)
        await port.write(offset, data, byte_enable)
        assert [port.get(action) for action in ("flush", "snapshot", "clear")] == [0, 0, 0]
        assert await port.read(IRQ_STATUS) == CONFIG_ERROR
        assert await port.read(offset) == kept

    run(body)


ACCEPTED = {
    "decay 2": ([], CTRL, 0x20),
    "smallest geometry, largest granule": ([], GEOMETRY, 0x1804),
    "tick shift 24": ([], TIMEBASE, 24),
    "tick shift 0": ([], TIMEBASE, 0),
    "T3 at T2": ([], T3, 50 << 16 | 65535),
    "T2 at T3": ([], T2, 25 << 16),
    "T2 at T1": ([], T2, 125 << 16),
    "T1 at T2": ([], T1, 50 << 16 | 1),
    "T1 at the limit": ([], T1, 240 << 16 | 1),
    "T1 at 1": ([(T3, 0), (T2, 0)], T1, 1 << 16 | 1),
    "T3 while enabled": ([(CTRL, 1)], T3, 9 << 16 | 9),
    "T2 while enabled": ([(CTRL, 1)], T2, 60 << 16 | 9),
    "decay while enabled": ([(CTRL, 1)], CTRL, 0x11),
    "reclaim off while enabled": ([(CTRL, 1)], CTRL, 0x41),
    "geometry after disabling": ([(CTRL, 1), (CTRL, 0)], GEOMETRY, 0x080A),
    "counter 14": ([], COUNTER_SELECT, 14),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_at_the_edge_of_legal(name: str) -> None:
    before, offset, data = ACCEPTED[name]

    async def body(port: ConfigPort) -> None:
        for setting in before:
            await port.write(*setting)
        await port.write(offset, data)
        assert await port.read(offset) == data
        assert await port.read(IRQ_STATUS) == 0

    run(body)


def test_settings_act_in_the_clock_after_the_write() -> None:
    async def body(port: ConfigPort) -> None:
        settings = port.device.settings

        def get(name: str) -> int:
            return port.context.get(settings[name])

        assert {name: get(name) for name in settings.shape().members} == {
            "enable": 0,
            "decay": 0,
            "reclaim_off": 0,
            "log2_active": 11,
            "line_shift": 8,
            "tick_shift": 2,
            "t3_count": 5,
            "t3_age": 25,
            "t2_count": 3,
            "t2_age": 50,
            "t1_age": 125,
            "hash_seed": 0,
        }
        for offset, data, expected in (
            (GEOMETRY, 0x0906, {"log2_active": 6, "line_shift": 9}),
            (TIMEBASE, 7, {"tick_shift": 7}),
            (T1, 0x00F0_0000, {"t1_age": 240}),
            (T2, 0x00EF_0102, {"t2_age": 239, "t2_count": 0x102}),
            (T3, 0x00EE_0304, {"t3_age": 238, "t3_count": 0x304}),
            (HASH_SEED, 0x89AB_CDEF, {"hash_seed": 0x89AB_CDEF}),
            (CTRL, 0x61, {"enable": 1, "decay": 2, "reclaim_off": 1}),
        ):
            port.offer(offset, data)
            assert {name: get(name) for name in expected} != expected
            await port.write(offset, data)
            assert {name: get(name) for name in expected} == expected

    run(body)


@pytest.mark.parametrize(("bit", "action"), [(1, "flush"), (2, "snapshot"), (3, "clear")])
def test_action_lasts_one_clock(bit: int, action: str) -> None:
    async def body(port: ConfigPort) -> None:
        others = {"flush", "snapshot", "clear"} - {action}
        port.offer(CTRL, 1 << bit)
        assert port.get(action) == 0
        await port.write(CTRL, 1 << bit)
        assert port.get(action) == 1
        assert not any(port.get(other) for other in others)
        assert await port.read(CTRL) == 0
        assert port.get(action) == 0
        await port.write(CTRL, 1 << bit, 0xE)
        assert port.get(action) == 0
        await port.write(CTRL, 0xE)
        assert all(port.get(each) for each in ("flush", "snapshot", "clear"))

    run(body)


def test_status_shows_the_core() -> None:
    async def body(port: ConfigPort) -> None:
        for bit, pin in enumerate(("active", "busy", "cold", "powered")):
            port.set(**{pin: 1})
            assert await port.read(STATUS) == 1 << bit
            port.set(**{pin: 0})
        port.set(tracked=2048, cold=1234, counter_value=0x0123_4567_89AB_CDEF)
        assert await port.read(TRACKED) == 2048
        assert await port.read(COLD) == 1234
        assert await port.read(COUNTER_LO) == 0x89AB_CDEF
        assert await port.read(COUNTER_HI) == 0x0123_4567
        await port.write(COUNTER_SELECT, 11)
        assert port.get("counter_select") == 11

    run(body)


def test_irq_follows_status_and_enable() -> None:
    async def body(port: ConfigPort) -> None:
        port.set(untracked_event=1)
        await port.context.tick()
        port.set(untracked_event=0)
        assert port.get("irq") == 0
        await port.write(IRQ_ENABLE, COLD_HIGH | CONFIG_ERROR)
        assert port.get("irq") == 0
        await port.write(IRQ_ENABLE, UNTRACKED)
        assert port.get("irq") == 1
        await port.write(IRQ_STATUS, COLD_HIGH | CONFIG_ERROR)
        assert port.get("irq") == 1
        await port.write(IRQ_STATUS, UNTRACKED, 0xE)
        assert port.get("irq") == 1, "the byte was not enabled"
        await port.write(IRQ_STATUS, UNTRACKED)
        assert port.get("irq") == 0
        await port.write(IRQ_ENABLE, CONFIG_ERROR)
        await port.write(TIMEBASE, 31)
        assert port.get("irq") == 1

    run(body)


def test_set_wins_over_clear() -> None:
    async def body(port: ConfigPort) -> None:
        port.set(untracked_event=1)
        await port.write(IRQ_STATUS, UNTRACKED)
        port.set(untracked_event=0)
        assert await port.read(IRQ_STATUS) == UNTRACKED
        port.set(untracked_event=1)
        await port.write(IRQ_STATUS, UNTRACKED)
        port.set(untracked_event=0)
        assert await port.read(IRQ_STATUS) == UNTRACKED
        await port.write(IRQ_STATUS, UNTRACKED)
        assert await port.read(IRQ_STATUS) == 0

    run(body)


def test_cold_high_is_set_when_the_count_rises_to_the_watermark() -> None:
    async def body(port: ConfigPort) -> None:
        async def colder(lines: int) -> bool:
            """Let the count reach ``lines``; whether that set COLD_HIGH, which is cleared again."""
            port.set(cold=lines)
            await port.context.tick()
            high = await port.read(IRQ_STATUS)
            await port.write(IRQ_STATUS, 7)
            assert high in (0, COLD_HIGH)
            return high == COLD_HIGH

        assert not await colder(5), "0 is off"
        await port.write(COLD_WATERMARK, 10)
        assert not await colder(9)
        assert await colder(10)
        assert not await colder(10)
        assert not await colder(11)
        assert not await colder(10)
        assert not await colder(9)
        assert await colder(2048)
        await port.write(COLD_WATERMARK, 2048)
        assert not await colder(2048), "the watermark moved, the count did not rise"
        await port.write(COLD_WATERMARK, 0x0001_0000)
        assert not await colder(0)
        assert not await colder(2048)

    run(body)


def test_query() -> None:
    async def body(port: ConfigPort) -> None:
        await port.write(QUERY_LO, 0x89AB_CDEF)
        await port.write(QUERY_HI, 0x0123_4567)
        await port.write(QUERY, 1, 0xE)
        assert port.get("query_start") == 0, "the byte was not enabled"
        await port.write(QUERY, 0xFFFF_FFFE)
        assert port.get("query_start") == 0
        await port.write(QUERY, 1)
        assert port.get("query_start") == 1
        assert port.get("query_addr") == 0x0123_4567_89AB_CDEF
        assert await port.read(QUERY) == 0
        assert port.get("query_start") == 0

        await port.write(QUERY_LO, 1)
        await port.write(QUERY, 1)
        assert port.get("query_start") == 0, "one is running"
        assert port.get("query_addr") == 0x0123_4567_89AB_CDEF, "it asks about the address it was started with"

        port.set(query_done=1, query_tracked=1, query_tlevel=2, query_count=0xBEEF)
        await port.context.tick()
        port.set(query_done=0, query_tracked=0, query_tlevel=0, query_count=0)
        assert await port.read(QUERY) == 0xBEEF_0026

        await port.write(QUERY, 1)
        assert port.get("query_start") == 1
        assert port.get("query_addr") == 0x0123_4567_0000_0001
        assert (await port.read(QUERY) or 0) & 2 == 0, "DONE falls at the write"
        port.set(query_done=1)
        await port.write(QUERY, 1)
        port.set(query_done=0)
        assert port.get("query_start") == 1, "a new one may start in the clock in which the last is done"
        assert await port.read(QUERY) == 0
        port.set(query_done=1)
        await port.context.tick()
        port.set(query_done=0)
        await port.context.tick()
        assert await port.read(QUERY) == 2

    run(body)


def test_evict() -> None:
    async def body(port: ConfigPort) -> None:
        async def done(status: int, line: int) -> None:
            port.set(evict_done=1, evict_status=status, evict_line=line)
            await port.context.tick()
            port.set(evict_done=0, evict_status=0, evict_line=0)

        await port.write(EVICT, 1)
        assert port.get("evict_start") == 1
        assert port.get("query_start") == 0
        await port.write(EVICT, 1)
        assert port.get("evict_start") == 0, "one is running"
        assert await port.read(EVICT) == 0
        await done(FOUND, 0x0012_3456_789A_BCDE)
        assert await port.read(EVICT) == 2 | FOUND << 2
        assert await port.read(VICTIM_LO) == 0x9ABC_DE00
        assert await port.read(VICTIM_HI) == 0x1234_5678
        await port.write(VICTIM_LO, 0)
        await port.context.tick()
        assert await port.read(VICTIM_LO) == 0x9ABC_DE00
        await port.write(EVICT, 1)
        assert (await port.read(EVICT) or 0) & 2 == 0, "DONE falls at the write"
        await done(EMPTY, 0x77)
        assert await port.read(EVICT) == 2 | EMPTY << 2
        assert await port.read(VICTIM_LO) == 0
        assert await port.read(VICTIM_HI) == 0

    run(body)


def test_narrow_addresses() -> None:
    async def body(port: ConfigPort) -> None:
        await port.write(QUERY_LO, 0xFFFF_FF00)
        await port.write(QUERY_HI, 0xFFFF_FFFF)
        assert await port.read(QUERY_HI) == 0xFFFF_FFFF
        await port.write(QUERY, 1)
        assert port.get("query_addr") == 0xFF_FFFF_FF00
        await port.write(EVICT, 1)
        port.set(evict_done=1, evict_status=FOUND, evict_line=0xFFFF_FFFF)
        await port.context.tick()
        port.set(evict_done=0)
        assert await port.read(VICTIM_LO) == 0xFFFF_FF00
        assert await port.read(VICTIM_HI) == 0xFF

    run(body, SMALL)
