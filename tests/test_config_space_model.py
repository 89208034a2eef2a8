"""The register file of the device model against the register specification, and its config space against lspci."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu.register_types import Access
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_firmware.golden import Query, home_slot

UNTRACKED, COLD_HIGH, CONFIG_ERROR = 1, 2, 4
ENABLE, FLUSH, SNAPSHOT, CLEAR = 1, 2, 4, 8
ACTIVE, BUSY, COLD_AVAILABLE, POWERED = 1, 2, 4, 8

#: Reset values of the default build, from the specification's own table, by offset from CTRL.
RESET = {
    0x00: ("CTRL", 0),
    0x04: ("STATUS", POWERED),
    0x08: ("ID", 0x4B56_0100),
    0x0C: ("PARAMS", 11 | 8 << 5 | 1 << 10 | 8 << 14 | 64 << 19),
    0x10: ("GEOMETRY", 11 | 8 << 8),
    0x14: ("TIMEBASE", 2),
    0x18: ("T3", 5 | 25 << 16),
    0x1C: ("T2", 3 | 50 << 16),
    0x20: ("T1", 1 | 125 << 16),
    0x24: ("IRQ_STATUS", 0),
    0x28: ("IRQ_ENABLE", 0),
    0x2C: ("COLD_WATERMARK", 0),
    0x30: ("HASH_SEED", 0),
    0x34: ("TRACKED", 0),
    0x38: ("COLD", 0),
    0x3C: ("QUERY_LO", 0),
    0x40: ("QUERY_HI", 0),
    0x44: ("QUERY", 0),
    0x48: ("EVICT", 0),
    0x4C: ("VICTIM_LO", 0),
    0x50: ("VICTIM_HI", 0),
    0x54: ("COUNTER_SELECT", 0),
    0x58: ("COUNTER_LO", 0),
    0x5C: ("COUNTER_HI", 0),
    0x60: ("LIMITS", 240),
}
OFFSET = {name: offset for offset, (name, _) in RESET.items()}

SMALL = Params(log2_entries=4, window=4)


class Device:
    """A device whose registers go by name, with one clock after every access."""

    def __init__(self, params: Params = SMALL, full: bool = False) -> None:
        self.model = ConfigSpaceModel(params, full)
        self.ctrl = params.config_base + 8

    def __getitem__(self, name: str) -> int:
        value = self.model.read(self.ctrl + OFFSET[name], 4)
        self.model.clock()
        assert value is not None
        return value

    def __setitem__(self, name: str, value: int) -> None:
        self.model.write(self.ctrl + OFFSET[name], value, 4)
        self.model.clock()

    def dump(self) -> dict[str, int | None]:
        """Every register, in one clock."""
        return {name: self.model.read(self.ctrl + offset, 4) for name, offset in OFFSET.items()}

    def enable(self, ctrl: int = ENABLE) -> None:
        self["CTRL"] = ctrl
        while not self["STATUS"] & ACTIVE:
            pass

    def refuses(self, name: str, value: int) -> bool:
        """Write; tell whether it was refused, in which case nothing may have changed."""
        self["IRQ_STATUS"] = CONFIG_ERROR
        before = self.dump()
        self[name] = value
        refused = bool(self["IRQ_STATUS"] & CONFIG_ERROR)
        if refused:
            assert self.dump() == before | {"IRQ_STATUS": CONFIG_ERROR | (before["IRQ_STATUS"] or 0)}
        return refused


# The window


@pytest.mark.parametrize("offset", range(0, 0x78, 4))
def test_reset_values(offset: int) -> None:
    model = ConfigSpaceModel(Params())
    assert model.read(0x800 + offset, 4) == RESET.get(offset, ("", 0))[1]


def test_build_parameters_show() -> None:
    params = Params.fpga(log2_entries=5, window=16, stamp_width=12, addr_width=40, config_base=0x480)
    device = Device(params)
    assert device["PARAMS"] == 5 | 16 << 5 | 8 << 10 | 12 << 14 | 40 << 19
    assert device["GEOMETRY"] == 5 | 8 << 8
    assert device["LIMITS"] == (1 << 12) - 16


def test_the_headers_name_the_capability() -> None:
    model = ConfigSpaceModel(Params(config_next=0x900, vsec_id=0x1234))
    assert model.read(0x7F8, 4) == 0x900 << 20 | 1 << 16 | 0x000B
    assert model.read(0x7FC, 4) == 0x80 << 20 | 1 << 16 | 0x1234
    model.write(0x7F8, 0xFFFFFFFF, 4)
    model.write(0x7FC, 0xFFFFFFFF, 4)
    assert model.read(0x7FC, 4) == 0x80 << 20 | 1 << 16 | 0x1234
    assert model.read(0x800 + OFFSET["IRQ_STATUS"], 4) == 0


def test_outside_the_window_nobody_answers() -> None:
    model = ConfigSpaceModel(Params())
    assert [model.read(offset, 4) for offset in (0x000, 0x7F4, 0x878, 0xFFC)] == [None] * 4
    model.write(0x878, 0xFFFFFFFF, 4)
    assert model.read(0x874, 4) == 0


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0x800, 3, "size must be 1, 2 or 4 bytes, not 3"),
        (0x802, 4, "offset must be a multiple of 4 below 0x1000, not 0x802"),
        (0x1000, 4, "offset must be a multiple of 4 below 0x1000, not 0x1000"),
    ],
)
def test_impossible_accesses(offset: int, size: int, message: str) -> None:
    model = ConfigSpaceModel(Params())
    with pytest.raises(ValueError, match=message):
        model.read(offset, size)
    with pytest.raises(ValueError, match=message):
        model.write(offset, 0, size)


def test_the_check_of_the_specification() -> None:
    """``setpci -s 00:02.0 0x800.w`` prints 0001 when the core is enabled with default settings."""
    device = Device(Params())
    device.enable()
    assert f"{device.model.read(0x800, 2):04x}" == "0001"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_byte_enables(size: int) -> None:
    model = ConfigSpaceModel(Params())
    address = 0x800 + OFFSET["HASH_SEED"]
    model.write(address, 0x11223344, 4)
    model.write(address + 4 - size, 0xAABBCCDD, size)
    expected = {1: 0xDD223344, 2: 0xCCDD3344, 4: 0xAABBCCDD}[size]
    assert model.read(address, 4) == expected
    assert model.read(address + 4 - size, size) == 0xAABBCCDD & (1 << 8 * size) - 1


def test_no_byte_enabled_has_no_effect() -> None:
    device = Device()
    device.model.write_dword(device.ctrl // 4, ENABLE, byte_enable=0)
    assert device["CTRL"] == 0
    device.enable()
    device.model.write_dword((device.ctrl + OFFSET["TIMEBASE"]) // 4, 31, byte_enable=0)
    assert device["IRQ_STATUS"] == 0


def test_an_action_needs_its_byte() -> None:
    device = Device()
    device["IRQ_STATUS"] = 0
    device["TIMEBASE"] = 31
    device.model.write(device.ctrl + OFFSET["IRQ_STATUS"] + 1, 0xFF, 1)
    assert device["IRQ_STATUS"] == CONFIG_ERROR


@pytest.mark.parametrize("name", OFFSET)
def test_bits_written_with_ones_and_zeros(name: str) -> None:
    """Read-only and reserved bits keep their value; the others take what is legal."""
    device = Device()
    register = REGISTERS[name]
    writable = sum(field.mask for field in register.fields if field.access is Access.READ_WRITE)
    before = device[name]
    for value in (0xFFFFFFFF, 0, before ^ 0xFFFFFFFF):
        device[name] = value & ~writable | before & writable
        if name not in ("QUERY", "EVICT"):  # they have been started
            assert device[name] == before
    legal = before & writable if name in ("GEOMETRY", "T1", "T2", "T3") else 5 & writable
    device[name] = legal
    assert device[name] & writable == legal


def test_reads_have_no_side_effects() -> None:
    device = Device()
    device.enable()
    for line in range(40):
        device.model.clock(request=line << 8)
    before = [device.model.read(offset, 1) for offset in range(SMALL.config_base, SMALL.config_base + 0x80)]
    assert [device.model.read(offset, 1) for offset in range(SMALL.config_base, SMALL.config_base + 0x80)] == before


# Refusals


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CTRL", 3 << 4),
        ("GEOMETRY", 2 | 8 << 8),  # below twice the window
        ("GEOMETRY", 5 | 8 << 8),  # above the built size
        ("GEOMETRY", 4 | 7 << 8),
        ("GEOMETRY", 4 | 25 << 8),
        ("TIMEBASE", 25),
        ("T3", 5 | 51 << 16),
        ("T2", 3 | 24 << 16),
        ("T2", 3 | 126 << 16),
        ("T1", 49 << 16),
        ("T1", 241 << 16),
        ("COUNTER_SELECT", 15),
        ("COUNTER_SELECT", 1 << 31),
    ],
)
def test_a_value_out_of_range_or_order_is_refused(name: str, value: int) -> None:
    assert Device().refuses(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CTRL", 2 << 4),
        ("GEOMETRY", 3 | 8 << 8),
        ("GEOMETRY", 4 | 24 << 8),
        ("TIMEBASE", 24),
        ("T3", 0xFFFF | 50 << 16),
        ("T2", 25 << 16),
        ("T2", 125 << 16),
        ("T1", 50 << 16),
        ("T1", 240 << 16),
        ("COUNTER_SELECT", 14),
    ],
)
def test_a_value_at_its_limit_is_taken(name: str, value: int) -> None:
    device = Device()
    assert not device.refuses(name, value)
    assert device[name] == value | (1 if name == "T1" else 0)


def test_t1_age_has_a_least_value_of_its_own() -> None:
    device = Device()
    device["T3"] = device["T2"] = 0
    assert device.refuses("T1", 0)
    assert not device.refuses("T1", 1 << 16)


@pytest.mark.parametrize("name", ["GEOMETRY", "TIMEBASE", "T1", "HASH_SEED"])
def test_structural_registers_are_closed_while_enabled(name: str) -> None:
    device = Device()
    value = device[name]
    device["CTRL"] = ENABLE
    assert device.refuses(name, value)
    device["CTRL"] = 0
    assert not device.refuses(name, value)


def test_other_settings_change_live() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device["T2"] = 1 | 60 << 16
    assert device.model.clock(query=Query(0x100)).answer is not None
    answer = device.model.clock(query=Query(0x100)).answer
    assert answer is not None
    assert answer.tlevel == 2


def test_a_refused_ctrl_write_does_nothing_at_all() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device["CTRL"] = 3 << 4 | FLUSH | CLEAR
    assert device["STATUS"] == ACTIVE | POWERED
    assert device["TRACKED"] == 1
    assert device["IRQ_STATUS"] == CONFIG_ERROR


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["CTRL", "GEOMETRY", "TIMEBASE", "T3", "T2", "T1", "HASH_SEED"]),
            st.one_of(
                st.integers(0, 0xFFFFFFFF), st.builds(lambda c, a: c | a << 16, st.integers(0, 40), st.integers(0, 260))
            ),
            st.integers(0, 15),
        ),
        max_size=30,
    )
)
def test_no_sequence_of_writes_leaves_illegal_settings(writes: list[tuple[str, int, int]]) -> None:
    device = Device()
    for name, value, byte_enable in writes:
        device.model.write_dword((device.ctrl + OFFSET[name]) // 4, value, byte_enable)
        device.model.golden.settings.check(SMALL)
        device.model.clock(request=value)


# Life cycle


@pytest.mark.parametrize("params", [SMALL, Params(), Params.fpga(log2_entries=6, window=2)])
@pytest.mark.parametrize("cause", ["enable", "flush", "power"])
def test_the_table_is_emptied_a_row_a_clock(params: Params, cause: str) -> None:
    device = Device(params)
    model = device.model
    if cause == "enable":
        model.write(device.ctrl, ENABLE, 4)
    else:
        device.enable()
        model.clock(request=0x100)
        if cause == "flush":
            model.write(device.ctrl, ENABLE | FLUSH, 4)
        else:
            model.power_good = False
            model.idle(5)
            assert device["STATUS"] == 0
            model.power_good = True
    for _ in range(params.entries // params.window + params.latency + 2):
        clock = model.clock(request=0x100)
        assert clock.tag is not None
        assert not clock.tag.tracked
        assert model.read(device.ctrl + OFFSET["STATUS"], 4) == BUSY | POWERED
    clock = model.clock(request=0x100)
    assert clock.tag is not None
    assert (clock.tag.tracked, clock.tag.hit, clock.tag.stamp) == (True, False, 0)
    assert model.read(device.ctrl + OFFSET["STATUS"], 4) == ACTIVE | POWERED


def test_a_smaller_table_is_emptied_sooner() -> None:
    device = Device(Params())
    device["GEOMETRY"] = 4 | 8 << 8
    device["CTRL"] = ENABLE
    device.model.idle(16 // 8 + 1 + 2)
    assert device["STATUS"] & ACTIVE


def test_a_flush_in_a_flush_starts_over() -> None:
    device = Device()
    device["CTRL"] = ENABLE
    device["CTRL"] = ENABLE | FLUSH
    device.model.idle(SMALL.rows + SMALL.latency + 1)
    assert device["STATUS"] == BUSY | POWERED
    assert device["STATUS"] == ACTIVE | POWERED


def test_a_flush_while_disabled_does_nothing() -> None:
    device = Device()
    device["CTRL"] = FLUSH
    assert device["STATUS"] == POWERED
    assert device["CTRL"] == 0


def test_writing_enable_again_keeps_the_table() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device["CTRL"] = ENABLE | 1 << 4
    assert device["TRACKED"] == 1


def test_disable_acts_on_the_next_clock() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device.model.write(device.ctrl, 0, 4)
    clock = device.model.clock(request=0x100)
    assert clock.tag is not None
    assert not clock.tag.tracked
    assert (device["STATUS"], device["TRACKED"]) == (POWERED, 0)


def test_without_power_enabling_waits() -> None:
    device = Device()
    device.model.power_good = False
    device["CTRL"] = ENABLE
    device.model.idle(100)
    assert (device["STATUS"], device["CTRL"]) == (0, ENABLE)
    device.model.power_good = True
    device.model.idle(100)
    assert device["STATUS"] == ACTIVE | POWERED


# Status, interrupts, counters


def test_tracked_and_cold() -> None:
    device = Device()
    device["TIMEBASE"] = 0
    device.enable()
    for line in (1, 2, 3):
        device.model.clock(request=line << 8)
    assert (device["TRACKED"], device["COLD"], device["STATUS"]) == (3, 0, ACTIVE | POWERED)
    device.model.idle(200)
    assert (device["TRACKED"], device["COLD"], device["STATUS"]) == (3, 3, ACTIVE | COLD_AVAILABLE | POWERED)


def overflow(device: Device) -> None:
    """One request more for one window than it has slots."""
    lines = [line for line in range(1000) if home_slot(line, SMALL.log2_entries) == 3]
    for line in lines[: SMALL.window + 1]:
        device.model.clock(request=line << 8)


def test_untracked_interrupts() -> None:
    device = Device()
    device.model.clock(request=0x100)
    device.enable()
    assert device["IRQ_STATUS"] == 0
    overflow(device)
    assert (device["IRQ_STATUS"], device.model.irq) == (UNTRACKED, False)
    device["IRQ_ENABLE"] = UNTRACKED
    assert device.model.irq
    device["IRQ_STATUS"] = COLD_HIGH | CONFIG_ERROR
    assert device["IRQ_STATUS"] == UNTRACKED
    device["IRQ_STATUS"] = UNTRACKED
    assert (device["IRQ_STATUS"], device.model.irq) == (0, False)


def test_set_wins_over_clear_in_one_clock() -> None:
    device = Device()
    device.enable()
    overflow(device)
    device.model.write(device.ctrl + OFFSET["IRQ_STATUS"], UNTRACKED, 4)
    assert device["IRQ_STATUS"] == UNTRACKED
    device["IRQ_STATUS"] = UNTRACKED
    assert device["IRQ_STATUS"] == 0


@pytest.mark.parametrize("step_by_step", [False, True])
def test_cold_high_is_set_when_cold_rises_to_the_watermark(step_by_step: bool) -> None:
    device = Device()
    device["TIMEBASE"] = 0
    device.enable()

    def idle(clocks: int) -> None:
        if step_by_step:
            for _ in range(clocks):
                device.model.clock()
        else:
            device.model.idle(clocks)

    for line in (1, 2, 3):
        device.model.clock(request=line << 8)
    idle(200)
    assert device["IRQ_STATUS"] == 0
    device["COLD_WATERMARK"] = 2  # there are more already: nothing rises
    assert device["IRQ_STATUS"] == 0
    for _ in range(2):
        device.model.clock(evict=True)
    for line in (1, 2):
        device.model.clock(request=line << 8)
    idle(130)
    assert device["IRQ_STATUS"] == COLD_HIGH
    device["IRQ_STATUS"] = COLD_HIGH
    idle(130)
    assert device["IRQ_STATUS"] == 0


def counter(device: Device, index: int) -> int:
    device["COUNTER_SELECT"] = index
    return device["COUNTER_HI"] << 32 | device["COUNTER_LO"]


def test_counters_show_the_last_snapshot() -> None:
    device = Device()
    device.enable()
    for _ in range(3):
        device.model.clock(request=0x100)
    assert counter(device, 1) == 0
    device["CTRL"] = ENABLE | SNAPSHOT
    device.model.clock(request=0x100)
    assert (counter(device, 1), counter(device, 2), counter(device, 7)) == (3, 2, 1)


def test_snapshot_and_clear_in_one_write() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device["CTRL"] = ENABLE | SNAPSHOT | CLEAR
    assert counter(device, 1) == 1
    device["CTRL"] = ENABLE | SNAPSHOT
    assert (counter(device, 1), counter(device, 13)) == (0, 0)
    assert device["TRACKED"] == 1


def test_counters_have_64_bits() -> None:
    device = Device()
    device.enable()
    device["CTRL"] = ENABLE | CLEAR
    device.model.idle(5 << 32)
    device["CTRL"] = ENABLE | SNAPSHOT
    assert counter(device, 0) == (5 << 32) + 1


def test_flush_keeps_the_counters() -> None:
    device = Device()
    device.enable()
    device.model.clock(request=0x100)
    device.enable(ENABLE | FLUSH)
    device["CTRL"] = ENABLE | SNAPSHOT
    assert counter(device, 1) == 1
    assert device["TRACKED"] == 0


# Operations by register


def wait(device: Device, name: str) -> int:
    for _ in range(20):
        value = device[name]
        if value & 2:
            return value
    raise TimeoutError(name)


def test_query_by_register() -> None:
    device = Device()
    device.enable()
    address = 0x12_3456_7800
    for _ in range(3):
        device.model.clock(request=address)
    device["QUERY_LO"], device["QUERY_HI"] = address & 0xFFFFFFFF, address >> 32
    device["QUERY"] = 1
    assert wait(device, "QUERY") == 2 | 1 << 2 | 2 << 4 | 3 << 16
    device["QUERY_HI"] = 0
    device["QUERY"] = 1
    assert wait(device, "QUERY") == 2
    assert device.model.golden.counters["queries"] == 2
    assert device.model.golden.counters["query_hits"] == 1


def test_evict_by_register() -> None:
    device = Device()
    device["TIMEBASE"] = 0
    device.enable()
    device.model.clock(request=0x12_3456_78FF)
    device.model.idle(200)
    device["EVICT"] = 1
    assert wait(device, "EVICT") == 2 | 1 << 2
    assert (device["VICTIM_LO"], device["VICTIM_HI"]) == (0x3456_7800, 0x12)
    device["EVICT"] = 1
    assert wait(device, "EVICT") == 2
    assert (device["VICTIM_LO"], device["VICTIM_HI"]) == (0, 0)
    assert device.model.golden.counters["evictions"] == 1


def test_operations_answer_also_when_not_active() -> None:
    device = Device()
    device["QUERY"] = 1
    device["EVICT"] = 1
    assert (wait(device, "QUERY"), wait(device, "EVICT")) == (2, 2)


@pytest.mark.parametrize("params", [SMALL, Params.fpga(log2_entries=4, window=4)])
@pytest.mark.parametrize("name", ["QUERY", "EVICT"])
def test_an_operation_takes_the_first_idle_clock_of_its_port(params: Params, name: str) -> None:
    """Given to the port two clocks after the write at the earliest, decided L clocks later; DONE falls and rises."""
    device = Device(params)
    device.enable()
    model = device.model
    query, evict = (Query(0x200), False) if name == "QUERY" else (None, True)

    def done() -> bool:
        value = model.read(device.ctrl + OFFSET[name], 4)
        assert value is not None
        return bool(value & 2)

    model.write(device.ctrl + OFFSET[name], 1, 4)
    for _ in range(1 + params.latency):
        model.clock()
        assert not done()
    for _ in range(5):
        clock = model.clock(query=query, evict=evict)
        assert (clock.answer is None, clock.victim is None) == (query is None, not evict)
        assert not done()
    assert model.clock() == (None, None, None)
    if name == "EVICT" and params.list_follows:  # such a build tells the register a clock later
        assert not done()
        model.clock()
    assert done()
    model.write(device.ctrl + OFFSET[name], 0, 4)
    assert done()
    model.write(device.ctrl + OFFSET[name], 1, 4)
    assert not done()


def test_a_start_while_one_is_running_is_ignored() -> None:
    device = Device()
    device.enable()
    for _ in range(3):
        device.model.clock(request=0x100)
    device["QUERY_LO"] = 0x100
    device.model.write(device.ctrl + OFFSET["QUERY"], 1, 4)
    device.model.write(device.ctrl + OFFSET["QUERY_LO"], 0x900, 4)
    device.model.write(device.ctrl + OFFSET["QUERY"], 1, 4)
    device.model.idle(20)
    assert device["QUERY"] >> 16 == 3
    assert device.model.golden.counters["queries"] == 1


@given(st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["request", "QUERY", "EVICT", "FLUSH"])), max_size=12))
def test_idle_is_as_many_clocks(steps: list[tuple[int, str]]) -> None:
    fast, slow = Device(), Device()
    for device in (fast, slow):
        device["TIMEBASE"] = 0
        device["T3"] = device["T2"] = 0
        device["T1"] = 3 << 16
        device["COLD_WATERMARK"] = 2
        device["CTRL"] = ENABLE
    for number, (idle, action) in enumerate(steps):
        for device in (fast, slow):
            if action == "request":
                device.model.clock(request=number << 8)
            elif action == "FLUSH":
                device["CTRL"] = ENABLE | FLUSH
            else:
                device.model.write(device.ctrl + OFFSET[action], 1, 4)
            device.model.write(device.ctrl + OFFSET["IRQ_STATUS"], 7, 4)
        fast.model.idle(idle)
        for _ in range(idle):
            slow.model.clock()
        assert fast.dump() == slow.dump()
        assert fast.model.golden.counters == slow.model.golden.counters


# The full config space


def test_the_capability_list_leads_to_the_core() -> None:
    model = ConfigSpaceModel(Params(), full=True)
    pointer = model.read(0x34, 1)
    capabilities = []
    while pointer:
        capabilities.append(model.read(pointer, 1))
        pointer = model.read(pointer + 1, 1)
    assert capabilities == [0x01, 0x05, 0x10]
    assert (model.read(0x06, 2) or 0) & 1 << 4
    header = model.read(0x100, 4) or 0
    assert header & 0xFFFF == 0x0003
    assert header >> 20 == 0x7F8
    assert (model.read(header >> 20, 4) or 0) & 0xFFFF == 0x000B


def test_every_dword_answers() -> None:
    model = ConfigSpaceModel(Params(), full=True)
    assert None not in [model.read(offset, 4) for offset in range(0, 0x1000, 4)]


def test_a_host_finds_no_bars() -> None:
    model = ConfigSpaceModel(Params(), full=True)
    for offset in (*range(0x10, 0x28, 4), 0x30):
        model.write(offset, 0xFFFFFFFF, 4)
        assert model.read(offset, 4) == 0


def test_ids_cannot_be_written_and_command_keeps_what_it_has() -> None:
    model = ConfigSpaceModel(Params(), full=True)
    before = model.read(0x00, 4)
    model.write(0x00, 0, 4)
    model.write(0x04, 0xFFFFFFFF, 4)
    assert model.read(0x00, 4) == before
    assert model.read(0x04, 4) == 1 << 20 | 0x0544


def test_power_states_that_are_not_there_are_discarded() -> None:
    model = ConfigSpaceModel(Params(), full=True)
    for state, kept in ((3, 3), (1, 3), (2, 3), (0, 0), (2, 0)):
        model.write(0x44, state, 2)
        assert model.read(0x44, 2) == 1 << 3 | kept


def test_irq_sends_one_message_each_time_it_rises() -> None:
    device = Device(full=True)
    model = device.model
    device.enable()
    device["IRQ_ENABLE"] = CONFIG_ERROR
    device["TIMEBASE"] = 31
    assert model.messages == []  # MSI is off
    model.write(0x54, 0xFEE0_0000, 4)
    model.write(0x58, 0x1, 4)
    model.write(0x5C, 0x4021, 2)
    model.write(0x52, 1, 2)
    assert model.messages == []  # not a bus master
    model.write(0x04, 1 << 2, 2)
    assert model.messages == [(0x1_FEE0_0000, 0x4021)]  # still pending
    model.idle(10)
    device["TIMEBASE"] = 31
    assert len(model.messages) == 1
    device["IRQ_STATUS"] = CONFIG_ERROR
    device["TIMEBASE"] = 31
    assert len(model.messages) == 2
    device["IRQ_STATUS"] = CONFIG_ERROR
    model.write(0x44, 3, 2)
    device["TIMEBASE"] = 31
    assert len(model.messages) == 2  # D3hot


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (Params(config_base=0x100), "config_base must be at least 0x10c in a full config space, not 0x100"),
        (Params(config_next=0x900), "config_next must be 0 in a full config space, not 0x900"),
    ],
)
def test_a_full_config_space_has_no_room_for(params: Params, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConfigSpaceModel(params, full=True)


def test_lspci_decodes_it(tmp_path: Path) -> None:
    lspci = shutil.which("lspci", path="/usr/bin:/usr/sbin:/bin:/sbin")
    if lspci is None:
        pytest.skip("lspci (pciutils) is not installed")
    model = ConfigSpaceModel(Params(), full=True)
    rows = [
        f"{row:02x}: " + " ".join(f"{model.read(offset, 1):02x}" for offset in range(row, row + 16))
        for row in range(0, 0x1000, 16)
    ]
    dump = tmp_path / "lspci.txt"
    dump.write_text("\n".join(["00:02.0 Memory controller", *rows, ""]))
    run = subprocess.run([lspci, "-n", "-vvv", "-F", str(dump)], capture_output=True, text=True, timeout=60, check=True)
    for expected in (
        "00:02.0 0580: 4b56:0001 (rev 10)",
        "Capabilities: [40] Power Management version 3",
        "Capabilities: [50] MSI: Enable- Count=1/1 Maskable- 64bit+",
        "Capabilities: [70] Express (v2) Root Complex Integrated Endpoint",
        "Capabilities: [100 v1] Device Serial Number 4b-56-00-00-00-00-00-01",
        "Capabilities: [7f8 v1] Vendor Specific Information: ID=4b56 Rev=1 Len=080",
    ):
        assert expected in run.stdout
    for complaint in ("unknown", "looped", "broken", "access denied"):
        assert complaint not in run.stdout.lower()
