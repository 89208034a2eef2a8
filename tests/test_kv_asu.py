"""`KvAsu` where a device misbehaves, and its registers by name. What it does on a good one is the contract's test."""

from __future__ import annotations

import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vrex
from config_image import ConfigImage
from vrex.errors import ConfigRefusedError, DeviceGoneError, KvAsuTimeoutError, NoPowerError, VersionError, VrexError
from vrex.kv_asu import Counters, KvAsu
from vrex.register_access import field_value, find_register
from vrex.registers import REGISTERS, T1, T2, T3, Counter, Ctrl, Decay, Evict, IrqStatus, Query, Status
from vrex.transports.model import ModelTransport

BASE = 0x800
STATUS, IRQ_STATUS = BASE + Status.OFFSET, BASE + IrqStatus.OFFSET


class Pulled(ModelTransport):
    """A device that is pulled out after some accesses."""

    left = 1 << 20

    def _there(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def _read(self, offset: int, size: int) -> int:
        return super()._read(offset, size) if self._there() else (1 << 8 * size) - 1

    def _write(self, offset: int, value: int, size: int) -> None:
        if self._there():
            super()._write(offset, value, size)


def test_open_by_name() -> None:
    with vrex.open() as asu, KvAsu.open("model", log2_entries=4, window=2) as small:
        assert isinstance(asu, vrex.KvAsu)
        assert (asu.transport.name, asu.params.log2_entries, small.params.log2_entries) == ("model", 11, 4)
        assert "KvAsu" in dir(vrex)
    with pytest.raises(ValueError, match="transport must be one of model, rtl, sysfs, cocotb, uart, not 'Model'"):
        vrex.open("Model")
    with pytest.raises(AttributeError, match="module 'vrex' has no attribute 'close'"):
        vrex.close  # noqa: B018


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (lambda asu: setattr(asu, "tick_shfit", 3), "a KvAsu has nothing called tick_shfit; did you mean tick_shift?"),
        (lambda asu: setattr(asu, "time_out", 3), "a KvAsu has nothing called time_out; did you mean timeout?"),
        (lambda asu: setattr(asu, "nonexist", 3), "a KvAsu has nothing called nonexist$"),
        (lambda asu: setattr(asu, "cold", 3), "no setter"),
        (lambda asu: setattr(asu.regs, "ctrl", 3), r"write CTRL with regs.ctrl.write\(...\) or .modify\(...\)"),
        (lambda asu: setattr(asu.regs, "ctlr", 3), "there is no register CTLR; did you mean CTRL"),
        (lambda asu: setattr(asu.regs.ctrl, "enable", 1), "enable"),
    ],
)
def test_a_setting_mistyped_is_no_setting(setting: Callable[[KvAsu], object], message: str) -> None:
    with KvAsu.open("model", log2_entries=4, window=2) as asu:
        before = asu.registers()
        with pytest.raises(AttributeError, match=message):
            setting(asu)
        assert asu.registers() == before
        asu.timeout = 7
        asu.tick_shift = 3
        assert (weakref.ref(asu)(), asu.timeout, asu.tick_shift) == (asu, 7, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vrex.open(["model"]), r"transport must be one of model, .*, not \['model'\]"),
        (lambda: vrex.open("model", foo=1), "there is no option foo; a build has addr_width, log2_entries"),
        (lambda: vrex.open("rtl", foo=1), "there is no option foo; a build has addr_width"),
        (lambda: vrex.open("model", params=5), "params must be a kv_asu.params.Params, not 5"),
        (lambda: vrex.open("model", record=5), "record must be a path, not 5"),
        (lambda: vrex.open("model", vsec_id="x"), "vsec_id must be an integer, not 'x'"),
        (lambda: vrex.open("sysfs", foo=1), "the sysfs transport has no option foo; it takes device, root, clock"),
        (lambda: vrex.open("sysfs", device=5), "device must be a PCI address like 0000:00:02.0, not 5"),
        (lambda: vrex.open("sysfs", root=5), "root must be a path, not 5"),
        (lambda: vrex.open().assign(["CTRL.DECAY"]), "must be a pair like .*, not 'CTRL.DECAY'"),
        (lambda: vrex.open("model").assign(5), "must be a pair like .*, not 5"),
        (lambda: vrex.open("model").read_field(5), "a name must be a text like CTRL.DECAY, not 5"),
    ],
)
def test_what_is_mistaken_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, "1", []])
def test_every_timeout_is_a_time(timeout: Any) -> None:
    calls: list[Callable[[KvAsu], object]] = [
        lambda asu: KvAsu(asu.transport, timeout=timeout),
        lambda asu: setattr(asu, "timeout", timeout),
        lambda asu: asu.enable(timeout),
        lambda asu: asu.disable(timeout),
        lambda asu: asu.flush(timeout),
        lambda asu: asu.query(0, timeout),
        lambda asu: asu.evict(timeout),
    ]
    with KvAsu.open("model", log2_entries=4, window=2) as asu:
        before = asu.registers()
        for call in calls:
            with pytest.raises((TypeError, ValueError), match="timeout must be a finite number, 0 or more, not "):
                call(asu)
        assert asu.registers() == before
        assert asu.timeout == asu.transport.patience


def test_a_mapping_is_assigned() -> None:
    with KvAsu.open("model", log2_entries=4, window=2) as asu:
        asu.assign({"CTRL.DECAY": Decay.CLEAR, "COLD_WATERMARK": 3})
        assert (asu.decay, asu.cold_watermark) == (Decay.CLEAR, 3)


@pytest.mark.parametrize(("major", "minor"), [(1, 0), (1, 7), (1, 255)])
def test_a_newer_minor_version_is_fine(major: int, minor: int) -> None:
    image = ConfigImage.of()
    image.vsec(BASE - 8, major=major, minor=minor)
    assert KvAsu(image).base == BASE


@pytest.mark.parametrize(("major", "minor"), [(0, 9), (2, 0), (255, 255)])
def test_another_major_version_is_refused(major: int, minor: int) -> None:
    image = ConfigImage.of()
    image.vsec(BASE - 8, major=major, minor=minor)
    with pytest.raises(VersionError, match=rf"map is version {major}\.{minor}, this program's 1\.0; install the vrex"):
        KvAsu(image)


def test_what_cannot_be_used_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    image = ConfigImage()
    monkeypatch.setattr("vrex.kv_asu.open_transport", lambda name, **options: image)
    with pytest.raises(VrexError):
        KvAsu.open("model")
    assert image.closed


@pytest.mark.parametrize(
    "call",
    [
        lambda asu: asu.status,
        lambda asu: asu.enable(),
        lambda asu: asu.disable(),
        lambda asu: asu.flush(),
        lambda asu: asu.counters(),
        lambda asu: asu.query(0),
        lambda asu: asu.evict(),
        lambda asu: list(asu.cold_lines()),
        lambda asu: asu.registers(),
        lambda asu: asu.thresholds,
        lambda asu: asu.set_thresholds(t3_age=0),
        lambda asu: setattr(asu, "hash_seed", 1),
        lambda asu: asu.clear_irq(),
        lambda asu: asu.clear_counters(),
        lambda asu: setattr(asu, "irq_enable", 1),
    ],
    ids=[
        "status",
        "enable",
        "disable",
        "flush",
        "counters",
        "query",
        "evict",
        "cold_lines",
        "registers",
        "thresholds",
        "set_thresholds",
        "hash_seed",
        "clear_irq",
        "clear_counters",
        "irq_enable",
    ],
)
@pytest.mark.parametrize("accesses", [0, 1, 2, 3, 7])
def test_a_device_removed_in_mid_run(call: Callable[[KvAsu], object], accesses: int) -> None:
    """Whatever was being done, and however far it got."""
    transport = Pulled(log2_entries=4, window=2)
    asu = KvAsu(transport)
    transport.left = accesses
    with pytest.raises(DeviceGoneError, match="reads all ones: the device has gone"):  # noqa: PT012
        for _ in range(accesses + 1):
            call(asu)


def test_a_register_may_hold_all_ones() -> None:
    with vrex.open("model") as asu:
        asu.hash_seed = 0xFFFF_FFFF
        assert asu.hash_seed == 0xFFFF_FFFF


@pytest.mark.parametrize(
    ("call", "status", "message"),
    [
        (lambda asu: asu.enable(), Status.of(powered=1), "enable: no answer within 5 s"),
        (lambda asu: asu.enable(), Status.of(powered=1, active=1, busy=1), "enable: no answer within 5 s"),
        (lambda asu: asu.disable(), Status.of(active=1, powered=1), "disable: no answer within 5 s"),
        (lambda asu: asu.flush(), Status.of(powered=1, busy=1), "flush: no answer within 5 s"),
        (lambda asu: asu.query(0), Status.of(), "query: no answer within 5 s"),
        (lambda asu: asu.evict(), Status.of(), "evict: no answer within 5 s"),
        (lambda asu: asu.evict(timeout=2), Status.of(), "evict: no answer within 2 s"),
    ],
)
def test_every_wait_ends(call: Callable[[KvAsu], object], status: int, message: str) -> None:
    image = ConfigImage.of()
    asu = KvAsu(image, timeout=5)
    image.put(BASE, Ctrl.of(enable=1))
    image.put(STATUS, status)
    with pytest.raises(KvAsuTimeoutError, match=message):
        call(asu)
    assert image.now() <= 5


def test_without_power_there_is_nothing_to_wait_for() -> None:
    image = ConfigImage.of()
    asu = KvAsu(image)
    image.put(STATUS, 0)
    with pytest.raises(NoPowerError, match="the image: enable: the core has no power"):
        asu.enable()
    assert image.now() == 0


@pytest.mark.parametrize("register", [Query, Evict])
def test_an_answer_after_the_timeout_is_the_next_calls(register: type[Query] | type[Evict]) -> None:
    image = ConfigImage.of()
    asu = KvAsu(image, timeout=1)
    starts: list[int] = []
    write = image.put

    def put(offset: int, value: int, size: int = 4) -> None:
        if offset == BASE + register.OFFSET and value & 1:
            starts.append(value)
            value = 0  # it is begun, and takes its time
        write(offset, value, size)

    image.put = put  # type: ignore[method-assign]
    call = (lambda: asu.query(256)) if register is Query else asu.evict
    for _ in range(2):
        with pytest.raises(KvAsuTimeoutError):
            call()
    assert len(starts) == 1, "what is running is not started again"
    write(BASE + register.OFFSET, register.of(done=1))
    write(BASE + 0x4C, 0x900)
    if register is Evict:
        write(BASE + register.OFFSET, Evict.of(done=1, status=1))
        assert asu.evict() == 0x900
        assert len(starts) == 1
    else:  # the late answer is to another question: it is let pass, and the question put
        with pytest.raises(KvAsuTimeoutError):
            call()
        assert len(starts) == 2


@given(st.data())
def test_thresholds_may_go_from_anywhere_to_anywhere(data: st.DataObject) -> None:
    """In any order of ages, live or not, no write is refused on the way, and a refusal writes nothing."""
    asu = vrex.open("model", log2_entries=4, window=2)
    asu.tick_shift = 0
    ages = st.lists(st.integers(0, 245), min_size=3, max_size=3)
    for _ in range(3):
        before = asu.thresholds
        t3, t2, t1 = data.draw(ages)
        if t3 <= t2 <= t1 and 1 <= t1 <= 240:
            asu.set_thresholds(t3_age=t3, t2_age=t2, t1_age=t1, t3_count=t2, t2_count=t1)
            assert [(t.count, t.age) for t in (asu.thresholds.t3, asu.thresholds.t2)] == [(t2, t3), (t1, t2)]
            assert asu.thresholds.t1.age == t1
        else:
            with pytest.raises(ValueError, match="must be"):
                asu.set_thresholds(t3_age=t3, t2_age=t2, t1_age=t1)
            assert asu.thresholds == before
        assert asu.irq_status == 0


@given(st.data())
def test_the_nearest_age_is_one_that_is_taken(data: st.DataObject) -> None:
    """Of one argument, whatever the others are that were given or kept."""
    asu = vrex.open("model", log2_entries=4, window=2)
    clocks = st.one_of(st.integers(-8, 1000), st.integers(0, 1 << 40))
    given_ages = data.draw(st.dictionaries(st.sampled_from(["t3_age", "t2_age", "t1_age"]), clocks, min_size=1))
    before = asu.thresholds
    for _ in range(len(given_ages) + 1):
        try:
            asu.set_thresholds(**given_ages)
        except ValueError as error:
            name = str(error).split()[0]
            nearest = [int(word) for word in str(error).rpartition("nearest: ")[2].split(" and ")]
            assert asu.thresholds == before
            given_ages[name] = data.draw(st.sampled_from(nearest))
        else:
            break
    else:
        pytest.fail(f"{given_ages} is still refused")
    assert all(getattr(asu.thresholds, name[:2]).age == age for name, age in given_ages.items())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda asu: asu.set_thresholds(t3_age=100.0), "t3_age must be an integer, not 100.0"),
        (lambda asu: asu.set_thresholds(t1_age="100"), "t1_age must be an integer, not '100'"),
        (lambda asu: asu.set_thresholds(t3_count="5"), "t3_count must be an integer, not '5'"),
        (lambda asu: setattr(asu, "tick_shift", 2.5), "TIMEBASE.TICK_SHIFT must be an integer, not 2.5"),
        (lambda asu: setattr(asu, "entries", 8.0), "entries must be an integer, not 8.0"),
        (lambda asu: setattr(asu, "hash_seed", None), "HASH_SEED.SEED must be an integer, not None"),
        (lambda asu: asu.query(256.0), "address must be an integer, not 256.0"),
        (lambda asu: asu.clear_irq("7"), "IRQ_STATUS must be an integer, not '7'"),
        (lambda asu: setattr(asu, "irq_enable", 1.5), "IRQ_ENABLE must be an integer, not 1.5"),
        (lambda asu: asu.write_fields({"CTRL.ENABLE": 1, "T3.AGE": 5.5}), "T3.AGE must be an integer, not 5.5"),
    ],
)
def test_what_is_no_integer_is_named(call: Callable[[KvAsu], object], message: str) -> None:
    asu = vrex.open("model", log2_entries=4, window=2)
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call(asu)
    assert not asu.enabled


def test_numpys_integers_will_do() -> None:
    asu = vrex.open("model", log2_entries=4, window=2)
    asu.set_thresholds(t3_age=np.uint16(100), t3_count=np.int8(7))
    asu.entries = np.int64(8)
    assert (asu.thresholds.t3.count, asu.thresholds.t3.age, asu.entries) == (7, 100, 8)
    asu.enable()
    assert not asu.query(np.uint64(256)).tracked


def test_a_device_that_comes_back_is_asked_anew() -> None:
    image = ConfigImage.of()
    asu = KvAsu(image, timeout=1)
    with pytest.raises(KvAsuTimeoutError):
        asu.evict()
    there = bytes(image.data)
    image.vanish()
    with pytest.raises(DeviceGoneError):
        asu.evict()
    image.data[:] = there
    image.put(BASE + Evict.OFFSET, 0)
    with pytest.raises(KvAsuTimeoutError):
        asu.evict()
    assert image.data[BASE + Evict.OFFSET] == 1  # started


@given(shift=st.integers(0, 24), clocks=st.integers(0, 1 << 41))
def test_the_nearest_ages_are_named(shift: int, clocks: int) -> None:
    asu = _ticking(shift)
    try:
        asu.set_thresholds(t3_age=clocks)
    except ValueError as error:
        nearest = [int(word) for word in str(error).rpartition("nearest: ")[2].split(" and ")]
        representable = {0, 0xFFFF << shift, clocks >> shift << shift, (clocks >> shift) + 1 << shift}
        ranked = sorted(
            (age for age in representable if 0 <= age <= 0xFFFF << shift), key=lambda age: abs(age - clocks)
        )
        assert ranked[0] in nearest
        assert set(nearest) <= representable
    else:
        assert clocks % (1 << shift) == 0
        assert clocks <= 0xFFFF << shift


_RESET = bytes(ConfigImage.of().data)


def _ticking(shift: int) -> KvAsu:
    """One whose T2 and T1 leave T3 all room, as no build has it."""
    image = ConfigImage(_RESET)
    for register, value in ((T2, T2.of(age=0xFFFF)), (T1, T1.of(count=1, age=0xFFFF))):
        image.put(BASE + register.OFFSET, value)
    image.put(BASE + 0x14, shift)
    return KvAsu(image)


def test_a_refused_write_names_register_and_value() -> None:
    image = ConfigImage.of()
    asu = KvAsu(image)
    image.before_read = lambda offset: image.put(IRQ_STATUS, IrqStatus.of(config_error=1))
    image.put(IRQ_STATUS, IrqStatus.of(config_error=1))
    asu.hash_seed = 5  # kept in spite of an error that was there before
    image._write = lambda offset, value, size: None  # type: ignore[method-assign]
    with pytest.raises(ConfigRefusedError, match="the image: the core refused HASH_SEED 0x00000006"):
        asu.hash_seed = 6


def test_counters_have_the_registers_names() -> None:
    assert [field.name for field in fields(Counters)] == [counter.name.lower() for counter in Counter]


class TestRegistersByName:
    def test_ports(self) -> None:
        asu = vrex.open("model")
        assert asu.regs[T3].read().age == asu.regs.t3.read().age == asu.regs["T3"].read().age == 25
        asu.regs.t3.modify(count=7)
        assert asu.regs.t3.read() == T3.of(count=7, age=25)
        asu.regs.t3.write(T3.of(count=8, age=1))
        assert asu.read_field("T3.COUNT") == 8
        assert list(asu.regs) == list(REGISTERS)
        assert "t3" in dir(asu.regs)
        with pytest.raises(AttributeError, match="there is no register T4"):
            asu.regs.t4  # noqa: B018

    def test_only_what_is_named_is_cleared_or_done(self) -> None:
        transport = ModelTransport(log2_entries=4, window=2)
        asu = KvAsu(transport)
        asu.enable()
        transport.write(BASE + 0x14, 0, 4)  # CONFIG_ERROR
        transport.observe([line << 8 for line in range(200)])
        assert asu.irq_status == IrqStatus.of(untracked=1, config_error=1)
        asu.regs.irq_status.modify(untracked=1)
        assert asu.irq_status == IrqStatus.of(config_error=1)
        asu.decay = Decay.CLEAR
        assert asu.counters().requests == 200, "nor cleared with the write of DECAY"

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda asu: asu.regs.status.write(0), ValueError, "STATUS can only be read"),
            (lambda asu: asu.regs.t1.modify(count=2), ValueError, r"T1\.COUNT can only be read \(constant\)"),
            (lambda asu: asu.regs.t3.modify(cnt=2), TypeError, "T3 has no field 'cnt', only count, age"),
            (lambda asu: asu.regs.t3.write(1 << 32), ValueError, "T3 must be 0 to 0xffffffff, not 4294967296"),
            (lambda asu: asu.read_field("T3"), ValueError, r"'T3' is no field; T3 has T3\.COUNT, T3\.AGE"),
            (lambda asu: asu.read_field("CTLR.ENABLE"), ValueError, "no register CTLR; did you mean CTRL?"),
            (lambda asu: asu.write_fields({"T3.AGE": 1, "STATUS.BUSY": 0}), ValueError, r"STATUS\.BUSY can only be"),
            (lambda asu: asu.write_fields({"T3.AGE": 1, "CTRL.DECAY": 4}), ValueError, r"CTRL\.DECAY must be 0 to 3"),
        ],
    )
    def test_mistakes(self, call: Callable[[KvAsu], object], error: type[Exception], message: str) -> None:
        asu = vrex.open("model")
        before = asu.registers()
        with pytest.raises(error, match=message):
            call(asu)
        assert asu.registers() == before

    def test_values_as_text(self) -> None:
        assert [field_value("ctrl.decay", text) for text in ("clear", "CLEAR", "2", "0x2")] == [2] * 4
        assert field_value("COUNTER_SELECT.INDEX", "query_hits") == 14
        with pytest.raises(ValueError, match=r"ctrl\.decay: 'half' is not a number, or one of HOLD, HALVE, CLEAR"):
            field_value("ctrl.decay", "half")
        with pytest.raises(ValueError, match=r"T3\.AGE: 'x' is not a number$"):
            field_value("T3.AGE", "x")
        assert find_register("t3") is T3


def test_importing_costs_little() -> None:
    """What a script loads to talk to a board: no arrays, no gateware, no simulator, no command line."""
    code = (
        "import sys, vrex; light = set(sys.modules); vrex.KvAsu; import vrex.transports.sysfs; "
        "print(*light); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    light, all_of_it = (set(line.split()) for line in run.stdout.splitlines())
    assert not {"vrex.kv_asu", "dataclasses", "numpy"} & light
    assert not {"numpy", "amaranth", "cocotb", "torch", "typer", "rich", "pyarrow", "kv_asu_sim"} & all_of_it
