"""The device model: its own clocks and calls, and that the compiled gateware gives the same numbers for any script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from bus_script import BUILDS, Step, play, script
from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu_firmware.device import LINK_CLOCKS, READ_CLOCKS, WRITE_CLOCKS, Device
from kv_asu_firmware.golden import Entry
from kv_asu_firmware.ports import ANSWER, TAG, VICTIM, address_array
from vrex.transports.model import ModelTransport
from vrex.transports.rtl import RtlTransport

SMALL = BUILDS["L=1"]
CTRL = SMALL.config_base + REGISTERS["CTRL"].offset
STATUS = SMALL.config_base + REGISTERS["STATUS"].offset
COLD = SMALL.config_base + REGISTERS["COLD"].offset
ACTIVE, POWERED = 1, 8

#: Scripts for each build, and the steps of each.
SCRIPTS, STEPS = 15, 150


@pytest.mark.parametrize("build", BUILDS)
def test_model_and_gateware_give_the_same_numbers(build: str) -> None:
    params = BUILDS[build]
    for seed in range(SCRIPTS):
        steps = script(seed, params, STEPS)
        model, rtl = ModelTransport(params), RtlTransport(params, seed=seed)
        for number, step in enumerate(steps):
            expected, seen = play(model, step), play(rtl, step)
            assert seen == expected, f"seed {seed}, step {number}: {step}"


#: Requests for lines of a scan over lines 0 to 7, as they meet retirement on its way along them.
PATTERNS = (
    [0, 1, 2, 3],
    [1, 2, 3, 4],
    [1, 0, 2],
    [2, 1, 3, 0],
    [0, 2, 4, 6],
    [1, 3, 5, 7],
    [9, 1, 2],
    [1, 1, 1],
    [7, 6, 5],
)


@pytest.mark.parametrize("build", BUILDS)
def test_touches_while_a_burst_of_lines_grows_cold(build: str) -> None:
    """Retirement marks one line a clock and rests where a request has taken the line it stands on or steps onto."""
    params = BUILDS[build]
    setup = [
        register("T3", 0),
        register("T2", 0),
        register("T1", 3 << 16),
        register("TIMEBASE", 3),
        register("CTRL", 1),
    ]
    burst = [("idle", (60,)), ("observe", (_lines(*range(8)),))]
    for pattern in PATTERNS:
        for pause in range(16, 32):
            meeting = [("idle", (pause,)), ("observe", (_lines(*pattern),))]
            counts = [
                read("COLD"),
                register("CTRL", 5),
                register("COUNTER_SELECT", 11),
                read("COUNTER_LO"),
                read("COLD"),
            ]
            both_play(params, [*setup, *burst, *meeting, *counts], f"{pattern} after {pause}")


@pytest.mark.parametrize("build", BUILDS)
def test_lines_that_are_cold_after_two_clocks(build: str) -> None:
    """The shortest life there is ends before the line is in the recency list of some builds."""
    setup = [
        register("T3", 0),
        register("T2", 0),
        register("T1", 1 << 16),
        register("TIMEBASE", 0),
        register("CTRL", 1),
    ]
    for numbers in ([1], [1, 2], [1, 2, 3], [1, 1], [1, 2, 1]):
        steps = [*setup, ("idle", (40,)), ("observe", (_lines(*numbers),)), read("COLD"), read("COLD")]
        both_play(BUILDS[build], steps, f"{numbers}")


@pytest.mark.parametrize("build", BUILDS)
def test_the_watermark_between_two_lines_that_grow_cold(build: str) -> None:
    """The count may fall below the watermark for a few clocks only, by the EVICT register."""
    params = BUILDS[build]
    setup = [register("T3", 0), register("T2", 0), register("T1", 60 << 16), register("TIMEBASE", 0)]
    lines = [
        register("CTRL", 1),
        ("idle", (40,)),
        ("observe", (_lines(1),)),
        ("idle", (20,)),
        ("observe", (_lines(2),)),
    ]
    for pause in range(16, 46):
        evict = [
            ("idle", (pause,)),
            register("IRQ_STATUS", 7),
            register("EVICT", 1),
            ("idle", (40,)),
            read("IRQ_STATUS"),
        ]
        both_play(params, [*setup, register("COLD_WATERMARK", 1), *lines, *evict], f"after {pause}")


def both_play(params: Params, steps: list[Step], what: str) -> None:
    model, rtl = ModelTransport(params), RtlTransport(params)
    for number, step in enumerate(steps):
        assert play(rtl, step) == play(model, step), f"{what}, step {number}: {step}"


def register(name: str, value: int) -> Step:
    return "write", (SMALL.config_base + REGISTERS[name].offset, value, 4)


def read(name: str) -> Step:
    return "read", (SMALL.config_base + REGISTERS[name].offset, 4)


def _lines(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64) << np.uint64(8)


def test_the_default_build_too() -> None:
    """One pass of what the small builds do, where lines of thousands of ticks grow cold at once."""
    addresses = np.random.default_rng(3).integers(0, 4000, 6000, np.uint64) << np.uint64(8)
    model, rtl = ModelTransport(), RtlTransport()
    steps = [
        ("write", (CTRL, 1, 4)),
        ("idle", (300,)),
        ("observe", (addresses,)),
        *[("read", (COLD, 4))] * 200,
        ("evict_lines", (300,)),
        ("idle", (5000,)),
        ("read", (COLD, 4)),
    ]
    results = [play(model, step) for step in steps]
    assert [play(rtl, step) for step in steps] == results
    assert len({result for result, _, _ in results[3:203]}) > 20, "lines grew cold while we looked"


@pytest.mark.parametrize("build", BUILDS)
def test_pauses_over_slow_ticks(build: str) -> None:
    """The clock of each expiry lies in the middle of a long pause, or at its edge."""
    params = BUILDS[build]
    lifetime, shift = 3, 10
    setup = [
        *(register(name, 0) for name in ("T3", "T2")),
        register("T1", lifetime - 1 << 16),
        register("TIMEBASE", shift),
        register("COLD_WATERMARK", 2),
        register("IRQ_ENABLE", 7),
        register("CTRL", 1),
        ("idle", (40,)),
    ]
    looks = [read("COLD"), read("IRQ_STATUS"), ("evict_lines", (3,)), register("IRQ_STATUS", 7)]
    for edge in range(-12, 8):
        pause = ("idle", ((lifetime << shift) + edge,))
        lines = [("observe", (_lines(*numbers),)) for numbers in ([1, 2, 3], [2, 4])]
        both_play(params, [*setup, *lines, pause, *looks, *lines, pause, *looks], f"{edge} clocks from the expiry")


@pytest.mark.parametrize("build", BUILDS)
@settings(deadline=None, derandomize=True, max_examples=40)
@given(data=st.data())
def test_idle_is_as_many_clocks_one_by_one(build: str, data: st.DataObject) -> None:
    """All of what is inside, its past as far as a later answer depends on it included."""
    jumps, walks = Device(BUILDS[build]), Device(BUILDS[build])
    shift, lifetime = data.draw(st.sampled_from([0, 1, 3, 7, 9])), data.draw(st.sampled_from([2, 3, 7]))
    setup = {"T3": 0, "T2": 0, "T1": lifetime - 1 << 16, "TIMEBASE": shift, "COLD_WATERMARK": 2, "IRQ_ENABLE": 7}
    for device in (jumps, walks):
        for name, value in setup.items():
            device.write(*register(name, value)[1])
        device.write(CTRL, 1, 4)
    for kind, arguments in data.draw(st.lists(_STEPS, max_size=8)):
        idle = data.draw(st.integers(0, 20) | st.integers(-9, 9).map(lambda edge: max(0, (lifetime << shift) + edge)))
        for device in (jumps, walks):
            getattr(device, kind)(*arguments)
        jumps.idle(idle)
        for _ in range(idle):
            walks.idle(1)
        assert everything(jumps) == everything(walks)


_STEPS: st.SearchStrategy[Step] = st.one_of(
    st.lists(st.integers(0, 9), max_size=6).map(lambda numbers: ("observe", (_lines(*numbers),))),
    st.integers(1, 3).map(lambda count: ("evict_lines", (count,))),
    st.sampled_from([("EVICT", 1), ("IRQ_STATUS", 7), ("COLD_WATERMARK", 1), ("CTRL", 3)]).map(
        lambda write: register(*write)
    ),
)


def everything(thing: Any) -> Any:
    """A device's state, but for the tick before which the model need not look for an expiry: it may look in vain."""
    if isinstance(thing, Entry):
        return thing.line, thing.slot, thing.count, thing.touched
    if isinstance(thing, dict):
        return [(key, everything(value)) for key, value in thing.items() if key != "_next_expiry"]
    if isinstance(thing, list):
        return [everything(each) for each in thing]
    return everything(vars(thing)) if hasattr(thing, "__dict__") else thing


def test_a_pause_costs_by_the_lines_that_grow_cold_in_it() -> None:
    """With the slowest tick, where stepping to the expiry would take days; at the very clock."""
    device = Device(SMALL)
    for name, value in {"TIMEBASE": 24, "COLD_WATERMARK": 2, "IRQ_ENABLE": 7, "CTRL": 1}.items():
        device.write(*register(name, value)[1])
    device.idle(40)
    device.observe([0x100, 0x200])
    core = device.model.golden
    device.idle((125 + 1 << 24) - core.counters["cycles"])
    assert (core.tick, core.cold, core.marked) == (125, 0, 0), "the coming clock begins the tick in which both are cold"
    assert (device.read(COLD, 4), core.cold, core.marked, device.irq) == (0, 2, 2, False)
    assert (device.read(COLD, 4), device.irq) == (1, False), "what shows is two clocks behind, one mark a clock"
    assert (device.read(COLD, 4), device.irq) == (2, True)
    device.observe([0x300])
    device.idle(10**18)
    assert device.evict_lines(4).tolist() == [(1, 1), (1, 2), (1, 3), (0, 0)]


def test_what_each_call_takes() -> None:
    device = Device(SMALL)

    def taken(call: Callable[[], object]) -> int:
        before = device.clock
        call()
        return device.clock - before

    latency = SMALL.latency
    assert device.clock == 0
    assert taken(lambda: device.read(STATUS, 4)) == READ_CLOCKS == 2
    assert taken(lambda: device.active) == READ_CLOCKS
    assert taken(lambda: device.write(CTRL, 1, 4)) == WRITE_CLOCKS == 8
    assert taken(lambda: device.observe([256, 512])) == 2 + latency + LINK_CLOCKS
    assert taken(lambda: device.query_lines([256])) == 1 + latency
    assert taken(lambda: device.evict_lines(3)) == 3 + latency
    assert taken(lambda: device.idle(70)) == 70
    assert taken(lambda: setattr(device, "power_good", False)) == WRITE_CLOCKS


def test_answers_are_arrays_of_the_ports() -> None:
    device = Device(SMALL)
    device.write(CTRL, 1, 4)
    device.idle(40)
    tags = device.observe([0x100, 0x100])
    assert (tags.dtype, tags["tag_hit"].tolist()) == (TAG, [0, 1])
    answers = device.query_lines([0x100, 0x900], boost=True, min_tlevel=2)
    assert (answers.dtype, answers.tolist()) == (ANSWER, [(1, 2, 1), (0, 0, 0)])
    device.idle(600)
    victims = device.evict_lines(2)
    assert (victims.dtype, victims.tolist()) == (VICTIM, [(1, 1), (0, 0)])
    for empty, dtype in ((device.observe([]), TAG), (device.query_lines([]), ANSWER), (device.evict_lines(0), VICTIM)):
        assert (empty.dtype, empty.shape) == (dtype, (0,))


@pytest.mark.parametrize("off", ["power_good", "D3hot"])
def test_without_power_it_is_not_active(off: str) -> None:
    device = Device(SMALL)
    device.write(CTRL, 1, 4)
    device.idle(40)
    assert device.read(STATUS, 4) == ACTIVE | POWERED

    def power(on: bool) -> None:
        if off == "power_good":
            device.power_good = on
        else:
            device.write(0x44, 0 if on else 3, 1)

    power(False)
    assert device.read(STATUS, 4) == 0
    assert not device.active
    assert not device.observe([256])["tag_tracked"].any()
    power(True)
    device.idle(40)
    assert device.read(STATUS, 4) == ACTIVE | POWERED
    assert device.read(CTRL, 4) == 1, "the settings are kept"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda device: device.idle(-1), ValueError, "clocks must not be negative, not -1"),
        (lambda device: device.evict_lines(-1), ValueError, "count must not be negative, not -1"),
        (lambda device: device.read(0x802, 4), ValueError, "multiple of 4"),
        (lambda device: device.read(0x800, 3), ValueError, "1, 2 or 4 bytes, not 3"),
        (lambda device: device.write(0x1000, 1, 1), ValueError, "below 0x1000"),
        (lambda device: device.write(0x800, 256, 1), ValueError, "value must fit 1 bytes, not 256"),
        (lambda device: device.observe([-1]), TypeError, "unsigned integers"),
        (lambda device: device.observe([1.5]), TypeError, "array of unsigned integers"),
        (lambda device: device.observe([[1]]), TypeError, "one-dimensional"),
        (lambda device: device.query_lines([1 << 40]), ValueError, "fit 40 bits"),
        (lambda device: device.query_lines([1], min_tlevel=4), ValueError, "0 to 3, not 4"),
    ],
)
def test_refused_and_no_time_passes(call: Callable[[Device], object], error: type[Exception], message: str) -> None:
    device = Device(Params(log2_entries=4, window=2, addr_width=40))
    with pytest.raises(error, match=message):
        call(device)
    assert device.clock == 0


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ([2**64 - 1, 1], [2**64 - 1, 1]),
        ((1, 2**63), [1, 2**63]),
        ([1, np.uint64(2**64 - 1), np.int8(3)], [1, 2**64 - 1, 3]),
        ([], []),
        (range(3), [0, 1, 2]),
    ],
)
def test_addresses_are_taken_to_the_last_bit(given: ArrayLike, lines: list[int]) -> None:
    """Of what mixes them with small ones, numpy makes floats by itself."""
    assert address_array(given, Params(addr_width=64)).tolist() == lines


@pytest.mark.parametrize(
    "given", [[2**64 - 1, -1], [2**64, 1], [2**64 - 1, 1.0], [1.0], [None], "1", 5, [[1]], np.array([1.0])]
)
def test_what_is_no_address(given: ArrayLike) -> None:
    with pytest.raises(TypeError, match="addresses must be a one-dimensional array of unsigned integers"):
        address_array(given, Params(addr_width=64))
