"""What every transport must do, as functions that take one: plain Python, so that they also run inside a simulator.

`READS` holds for any config space of a KV-ASU, also a file that nobody stands behind. `LIVE` needs a device that acts,
of a small build, with nobody else at it; each function begins with a reset of its registers. `BUS` needs the memory
bus too, `CLOCKED` also the number of clocks that an access to it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bus_script import play, script
from kv_asu.params import Params
from vrex.errors import ConfigRefusedError, KvAsuTimeoutError, NoPowerError
from vrex.kv_asu import KvAsu, Threshold
from vrex.registers import (
    REGISTERS,
    Ctrl,
    Decay,
    Evict,
    Geometry,
    HashSeed,
    Id,
    IrqEnable,
    IrqStatus,
    Register,
    Timebase,
)
from vrex.transports.base import Bus, Transport
from vrex.transports.model import ModelTransport

Check = Callable[[Transport], None]

#: What the transports under test drive.
PARAMS = Params(log2_entries=4, window=2)


def raises(error: type[Exception], text: str, call: Callable[[], object]) -> None:
    """Like pytest's, which a simulator is not to need."""
    told = None
    try:
        call()
    except error as caught:
        told = str(caught)
    assert told is not None, f"no {error.__name__}"
    assert text in told, told
    assert "\n" not in told


def fresh(transport: Transport) -> KvAsu:
    """The device with its registers as after reset."""
    asu = KvAsu(transport)
    asu.disable()
    base = asu.base
    for register in (Ctrl, Timebase):
        transport.write(base + register.OFFSET, register.of(**_resets(register)), 4)
    asu.entries = PARAMS.entries
    asu.granule = 256
    asu.hash_seed = 0
    asu.set_thresholds(t3_count=5, t3_age=100, t2_count=3, t2_age=200, t1_age=500)
    asu.cold_watermark = 0
    asu.irq_enable = 0
    asu.clear_irq()
    asu.clear_counters()
    return asu


def _resets(register: type[Register]) -> dict[str, int]:
    return {name: field.reset for name, field in register.FIELDS.items()}


# Any config space of a KV-ASU


def finds_the_capability(transport: Transport) -> None:
    asu = KvAsu(transport)
    assert transport.read(asu.base + Id.OFFSET, 4) >> 16 == 0x4B56
    params = asu.params
    assert (params.log2_entries, params.window, params.addr_width) == (4, 2, 64)
    assert (params.latency, params.stamp_width) == (PARAMS.latency, PARAMS.stamp_width)
    assert asu.limits.t1_age == PARAMS.t1_limit


def reads_bytes_words_and_dwords(transport: Transport) -> None:
    for offset in range(0x7E0, 0x880, 4):
        dword = transport.read(offset, 4)
        words = [transport.read(offset + 2 * i, 2) for i in range(2)]
        data = [transport.read(offset + i, 1) for i in range(4)]
        assert dword == words[0] | words[1] << 16 == int.from_bytes(data, "little")
    assert transport.read(0, 4) == 0x0001_4B56
    assert transport.read(0xFFC, 4) == 0
    assert transport.read(0xFFF, 1) == 0


def reading_changes_nothing(transport: Transport) -> None:
    asu = KvAsu(transport)
    first = asu.registers()
    for offset in range(0, 0x1000, 4):
        transport.read(offset, 4)
    assert asu.registers() == first
    assert list(first) == list(REGISTERS)


def refuses_what_is_no_access(transport: Transport) -> None:
    for offset, size in ((0x802, 4), (0x801, 2), (0x1000, 1), (-4, 4), (0x800, 3), (0x800, 0), (0x800, 8)):
        raises(ValueError, "must be", lambda o=offset, s=size: transport.read(o, s))  # type: ignore[misc]
        raises(ValueError, "must be", lambda o=offset, s=size: transport.write(o, 0, s))  # type: ignore[misc]
    for value, size in ((256, 1), (-1, 1), (1 << 16, 2), (1 << 32, 4)):
        raises(ValueError, "value must fit", lambda v=value, s=size: transport.write(0x800, v, s))  # type: ignore[misc]


def names_itself(transport: Transport) -> None:
    assert str(transport)
    assert transport.time_unit in ("clocks", "s")
    before = transport.now()
    transport.pause()
    assert transport.now() > before


# A device that acts


def writes_bytes_words_and_dwords(transport: Transport) -> None:
    seed = fresh(transport).base + REGISTERS["HASH_SEED"].OFFSET
    transport.write(seed, 0x1234_5678, 4)
    transport.write(seed + 1, 0xAB, 1)
    transport.write(seed + 2, 0xCDEF, 2)
    assert transport.read(seed, 4) == 0xCDEF_AB78


def starts_and_stops(transport: Transport) -> None:
    asu = fresh(transport)
    assert (asu.enabled, asu.status.active) == (False, False)
    asu.enable()
    assert (asu.enabled, asu.status.active) == (True, True)
    asu.enable()  # goes on
    asu.flush()
    assert (asu.status.active, asu.status.busy) == (True, False)
    asu.disable()
    assert (asu.enabled, asu.status.active) == (False, False)
    asu.flush()  # nothing to do
    assert (asu.enabled, asu.status.busy) == (False, False)
    raises(KvAsuTimeoutError, "no answer within 0", lambda: asu._wait("never", lambda: False, 0))


def sets_thresholds_in_clocks(transport: Transport) -> None:
    asu = fresh(transport)
    assert asu.thresholds.t3 == Threshold(5, 100)
    assert asu.thresholds.t1 == Threshold(1, 500)
    asu.set_thresholds(t3_age=800, t2_age=840, t1_age=960)  # all longer than every old one below
    assert [asu.thresholds.t3.age, asu.thresholds.t2.age, asu.thresholds.t1.age] == [800, 840, 960]
    asu.set_thresholds(t3_count=9, t3_age=0, t2_count=7, t2_age=4, t1_age=8)
    assert (asu.thresholds.t3, asu.thresholds.t2) == (Threshold(9, 0), Threshold(7, 4))
    raises(ValueError, "t3_age must be 0 to 4 clocks (T3.AGE <= T2.AGE <= T1.AGE <= LIMITS.T1_AGE) in steps of 4 "
           "(TICK_SHIFT is 2), not 6; nearest: 4",
           lambda: asu.set_thresholds(t3_age=6))  # fmt: skip
    raises(ValueError, "nearest: 960", lambda: asu.set_thresholds(t1_age=961))
    raises(ValueError, "nearest: 4", lambda: asu.set_thresholds(t1_age=0))
    raises(ValueError, "t2_age must be 0 to 8 clocks", lambda: asu.set_thresholds(t2_age=12))
    raises(ValueError, "T3.COUNT must be 0 to 65535", lambda: asu.set_thresholds(t3_count=1 << 16))
    asu.enable()
    asu.set_thresholds(t3_age=4)
    raises(ConfigRefusedError, "T1 can only be written while the core is disabled",
           lambda: asu.set_thresholds(t1_age=4, t3_age=0))  # fmt: skip
    assert asu.thresholds.t3.age == 4, "nothing of it was written"
    assert asu.irq_status == 0


def settings_are_kept(transport: Transport) -> None:
    asu = fresh(transport)
    asu.decay, asu.reclaim_off = Decay.HALVE, True
    asu.entries, asu.granule, asu.tick_shift, asu.hash_seed = 8, 1024, 5, 0xFFFF_FFFF
    assert (asu.decay, asu.reclaim_off) == (Decay.HALVE, True)
    assert (asu.entries, asu.granule, asu.tick_shift, asu.hash_seed) == (8, 1024, 5, 0xFFFF_FFFF)
    assert asu.thresholds.t3.age == 25 << 5
    asu.cold_watermark = 7
    asu.irq_enable = IrqEnable.of(untracked=1)
    assert (asu.cold_watermark, asu.irq_enable) == (7, 1)
    assert asu.read_field("ctrl.decay") is Decay.HALVE
    asu.write_fields({"CTRL.DECAY": 2, "CTRL.RECLAIM_OFF": 0})
    assert (asu.decay, asu.reclaim_off, asu.enabled) == (Decay.CLEAR, False, False)
    raises(ValueError, "entries must be a power of two, not 9", lambda: setattr(asu, "entries", 9))


def refused_writes_are_told(transport: Transport) -> None:
    asu = fresh(transport)
    raises(ConfigRefusedError, "the core refused GEOMETRY 0x00000805", lambda: setattr(asu, "entries", 32))
    raises(ConfigRefusedError, "DECAY 0x3", lambda: asu.regs.ctrl.modify(decay=3))
    assert asu.irq_status == 0, "what was told is cleared"
    transport.write(asu.base + Geometry.OFFSET, 0, 4)
    assert asu.irq_status == IrqStatus.of(config_error=1)
    asu.entries = 8  # somebody else's error is not taken for ours,
    raises(ConfigRefusedError, "GEOMETRY", lambda: setattr(asu, "entries", 32))  # nor ours for somebody else's
    assert asu.irq_status == IrqStatus.of(config_error=1)
    asu.clear_irq()
    asu.enable()
    raises(ConfigRefusedError, "TIMEBASE can only be written while the core is disabled; disable it first",
           lambda: setattr(asu, "tick_shift", 3))  # fmt: skip
    assert asu.irq_status == 0, "not even tried"


def takes_any_integer_and_nothing_else(transport: Any) -> None:
    asu = fresh(transport)
    transport.write(np.int16(asu.base + HashSeed.OFFSET), np.uint8(0xA5), np.int8(4))
    assert transport.read(np.uint64(asu.base + HashSeed.OFFSET), np.uint8(4)) == 0xA5
    raises(TypeError, "offset must be an integer, not 4.0", lambda: transport.read(4.0, 4))
    raises(TypeError, "size must be an integer, not 4.0", lambda: transport.read(4, 4.0))
    raises(TypeError, "value must be an integer, not 1.5", lambda: transport.write(asu.base, 1.5, 4))
    if hasattr(transport, "idle"):  # a bus
        clock = transport.clock
        transport.idle(np.uint8(200))
        assert transport.clock == clock + 200
        assert len(transport.evict_lines(np.int8(3))) == 3
        clock = transport.clock
        raises(TypeError, "clocks must be an integer, not 2.5", lambda: transport.idle(2.5))
        raises(TypeError, "count must be an integer, not 1.0", lambda: transport.evict_lines(1.0))
        raises(ValueError, "clocks must not be negative, not -1", lambda: transport.idle(-1))
        raises(ValueError, "count must not be negative, not -1", lambda: transport.evict_lines(-1))
        assert transport.clock == clock


def asks_and_evicts_without_traffic(transport: Transport) -> None:
    asu = fresh(transport)
    asu.enable()
    assert not asu.query(0x1234_5678_9ABC_DE00).tracked
    assert asu.evict() is None
    assert list(asu.cold_lines()) == []
    counters = asu.counters()
    assert (counters.requests, counters.queries, counters.evictions) == (0, 1, 0)
    assert asu.counters().cycles > counters.cycles > 0
    raises(ValueError, "address must be 0 to 2^64-1, not 0x10000000000000000", lambda: asu.query(1 << 64))
    raises(ValueError, "address must be 0 to 2^64-1, not -0x1", lambda: asu.query(-1))


# With the memory bus


def a_day_in_the_life(transport: Transport) -> None:
    asu = fresh(transport)
    bus = asu.bus
    asu.enable()
    lines = np.arange(6, dtype=np.uint64) * 256 + (1 << 40)
    for _ in range(5):
        bus.observe(lines)
    address = int(lines[0])
    assert asu.query(address + 17).tlevel == 3
    assert asu.query(address).count == 5
    assert (asu.tracked, asu.cold) == (6, 0)
    bus.idle(600)
    assert (asu.query(address).tlevel, asu.cold) == (0, 6)
    assert asu.evict() == address
    rest = asu.cold_lines()
    assert [next(rest), next(rest)] == lines[1:3].tolist()
    assert list(asu.cold_lines()) == lines[3:].tolist()
    assert asu.evict() is None
    counters = asu.counters()
    assert (counters.requests, counters.hits, counters.inserts, counters.evictions) == (30, 24, 6, 6)
    assert (counters.level0, counters.level1 + counters.level2 + counters.level3) == (6, 24)
    assert (counters.demotions, counters.queries, counters.query_hits) == (6, 3, 3)


def the_interrupt_rises(transport: Transport) -> None:
    asu = fresh(transport)
    bus = asu.bus
    asu.cold_watermark, asu.irq_enable = 2, IrqEnable.of(cold_high=1)
    asu.enable()
    bus.observe(np.array([256, 512], np.uint64))
    levels = [bus.irq]
    bus.idle(600)
    levels.append(bus.irq)
    asu.clear_irq(IrqStatus.of(cold_high=1))
    levels.append(bus.irq)
    assert levels == [False, True, False]
    bus.power_good = False
    raises(NoPowerError, "no power", lambda: asu.enable(timeout=100))
    bus.power_good = True
    asu.enable()


def a_victim_that_comes_late_is_not_lost(transport: Transport) -> None:
    asu = fresh(transport)
    asu.enable()
    asu.bus.observe(np.array([256, 512], np.uint64))
    asu.bus.idle(600)
    asu._write(Evict, 1)
    asu._unanswered.add(Evict)  # as if the time had been up before its answer
    asu.bus.idle(50)
    assert [asu.evict(), asu.evict(), asu.evict()] == [256, 512, None]


# With the memory bus, and a clock count for each access


def is_active_by_a_register_read(transport: Transport) -> None:
    asu = fresh(transport)
    bus = asu.bus
    before = bus.clock
    seen = [bus.active]
    assert bus.clock - before == 2
    asu.enable()
    assert [*seen, bus.active] == [False, True]


def gives_the_models_numbers(transport: Transport) -> None:
    """A random script gives what a device model gives; whatever happened on this transport before."""
    assert isinstance(transport, Bus)
    model = ModelTransport(PARAMS)
    fresh(transport)
    fresh(model)
    for bus in (transport, model):  # what a reset of the registers leaves behind
        asu = KvAsu(bus)
        for name in ("QUERY_LO", "QUERY_HI", "COUNTER_SELECT"):
            asu.regs[name].write(0)
        asu.enable()
        asu.query(0)
        asu.evict()
        asu.counters()
        asu.disable()
        asu.clear_counters()
        for offset in (0x04, 0x0C, 0x3C, 0x50, 0x54, 0x58, 0x5C, 0x78):
            bus.write(offset, 0, 4)
        bus.write(0x44, 0, 1)
    ahead = transport.clock - model.clock
    for number, step in enumerate(script(1, PARAMS, 80)):
        result, clock, irq = play(transport, step)
        assert (result, clock - ahead, irq) == play(model, step), f"step {number}: {step}"


# Behind a root complex


def the_interrupt_is_a_message(transport: Transport) -> None:
    asu = fresh(transport)
    asu.cold_watermark, asu.irq_enable = 2, IrqEnable.of(cold_high=1)
    asu.enable()
    before = transport.messages  # type: ignore[attr-defined]
    asu.bus.observe(np.array([256, 512], np.uint64))
    asu.bus.idle(600)
    assert transport.messages == before + 1  # type: ignore[attr-defined]
    asu.clear_irq()
    asu.bus.idle(20)
    assert transport.messages == before + 1, "it tells of a rise, not of a fall"  # type: ignore[attr-defined]
    asu.irq_enable = 0
    list(asu.cold_lines())
    asu.bus.observe(np.array([256, 512], np.uint64))
    asu.bus.idle(600)
    assert asu.irq_status == IrqStatus.of(cold_high=1)
    assert transport.messages == before + 1, "it is not enabled"  # type: ignore[attr-defined]


READS: tuple[Check, ...] = (
    finds_the_capability,
    reads_bytes_words_and_dwords,
    reading_changes_nothing,
    refuses_what_is_no_access,
    names_itself,
)
LIVE: tuple[Check, ...] = (
    writes_bytes_words_and_dwords,
    starts_and_stops,
    sets_thresholds_in_clocks,
    settings_are_kept,
    refused_writes_are_told,
    takes_any_integer_and_nothing_else,
    asks_and_evicts_without_traffic,
)
BUS: tuple[Check, ...] = (
    a_day_in_the_life,
    the_interrupt_rises,
    a_victim_that_comes_late_is_not_lost,
)
CLOCKED: tuple[Check, ...] = (
    is_active_by_a_register_read,
    gives_the_models_numbers,
)


def everything(transport: Transport) -> None:
    """All of it, one after the other: what a bench runs."""
    _hold(transport, (*READS, *LIVE, *BUS, *CLOCKED))


def by_tlps(transport: Transport) -> None:
    """What holds however long an access takes, and that interrupts are messages."""
    _hold(transport, (*READS, *LIVE, *BUS, the_interrupt_is_a_message))


def _hold(transport: Transport, checks: tuple[Check, ...]) -> None:
    for check in checks:
        check(transport)
        print(f"held: {check.__name__}")
