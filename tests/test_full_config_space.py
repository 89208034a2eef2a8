"""A whole function's config space: header, capability lists, power, messages, and what real lspci says of it."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from config_port import Bench, ConfigPort, joined
from kv_asu.config_space import ConfigSpace
from kv_asu.full_config_space import FullConfigSpace
from kv_asu.params import Params
from kv_asu.pci_header import CONFIG_SPACE_BYTES, pci_header
from kv_asu.register_types import Access

COMMAND, PM_CONTROL = 0x04, 0x44
MSI, MSI_ADDRESS_LO, MSI_ADDRESS_HI, MSI_DATA = range(0x50, 0x60, 4)
CTRL = 0x800
BUS_MASTER, MSI_ENABLE, D3HOT = 1 << 2, 1 << 16, 3

Body = Callable[[ConfigPort], Awaitable[None]]


@cache
def bench() -> tuple[FullConfigSpace, Bench]:
    outer = FullConfigSpace(Params())
    return outer, Bench(joined(outer, ConfigSpace(Params())))


def run(body: Body) -> None:
    """Run ``body`` on a config space that was just reset."""
    outer, simulation = bench()

    async def testbench(context: Any) -> None:
        await body(ConfigPort(context, outer))

    simulation.run(testbench)


async def dump(port: ConfigPort) -> bytes:
    """All 4096 bytes."""
    words = []
    for offset in range(0, CONFIG_SPACE_BYTES, 4):
        word = await port.read(offset)
        assert word is not None, hex(offset)
        words.append(word.to_bytes(4, "little"))
    return b"".join(words)


def test_both_capability_lists_end() -> None:
    async def body(port: ConfigPort) -> None:
        config = await dump(port)
        seen = []
        pointer = config[0x34]
        while pointer:
            seen.append(config[pointer])
            pointer = config[pointer + 1]
        assert seen == [0x01, 0x05, 0x10]
        extended = []
        pointer = 0x100
        while pointer:
            header = int.from_bytes(config[pointer : pointer + 4], "little")
            extended.append((pointer, header & 0xFFFF))
            pointer = header >> 20
        assert extended == [(0x100, 0x0003), (0x7F8, 0x000B)]
        assert config[0x0B] == 0x05
        assert config[0x0A] == 0x80
        assert config[0x06] & 0x10, "Status says that there is a list"
        assert config[0x10:0x28] == bytes(24), "no BAR"

    run(body)


def test_other_functions_are_silent() -> None:
    async def body(port: ConfigPort) -> None:
        port.function = 1
        assert await port.read(0) is None
        assert await port.read(CTRL) is None
        await port.write(COMMAND, BUS_MASTER)
        port.function = 0
        assert await port.read(COMMAND) == 1 << 20

    run(body)


def test_held_reads_count_once_everywhere() -> None:
    async def body(port: ConfigPort) -> None:
        for offset in (0x00, CTRL + 8, 0xFFC):
            expected = await port.read(offset)
            await port.context.tick()
            port.ask(offset)
            answers = []
            for _ in range(2):
                await port.context.tick()
                answers.append(port.answer())
            port.set(cfg_ext_read_received=0)
            await port.context.tick()
            assert answers == [expected, None]

    run(body)


def test_only_writable_bits_change() -> None:
    writable = {COMMAND: 0x0544, 0x0C: 0xFF, 0x3C: 0xFF, MSI: MSI_ENABLE, MSI_ADDRESS_LO: 0xFFFF_FFFC}
    writable |= {MSI_ADDRESS_HI: 0xFFFF_FFFF, MSI_DATA: 0xFFFF, PM_CONTROL: 3, 0x78: 0xF}

    async def body(port: ConfigPort) -> None:
        before = await dump(port)
        for offset in (*range(0, 0x7F8, 4), *range(0x878, CONFIG_SPACE_BYTES, 4)):
            await port.write(offset, 0xFFFF_FFFF)
        after = await dump(port)
        for offset in range(0, CONFIG_SPACE_BYTES, 4):
            was, now = (int.from_bytes(config[offset : offset + 4], "little") for config in (before, after))
            assert now == was | writable.get(offset, 0), hex(offset)
        for offset in writable:
            await port.write(offset, 0, 0x2)
        after_bytes = await dump(port)
        for offset in range(0, CONFIG_SPACE_BYTES, 4):
            was, now = (int.from_bytes(config[offset : offset + 4], "little") for config in (after, after_bytes))
            assert now == was & ~(writable.get(offset, 0) & 0xFF00), hex(offset)

    run(body)


def test_the_core_is_reached() -> None:
    async def body(port: ConfigPort) -> None:
        await port.write(CTRL, 1)
        await port.write(CTRL + 0x14, 4)
        assert await port.read(CTRL) == 1
        assert await port.read(CTRL + 0x24) == 4, "the time base is locked while enabled"
        assert await port.read(0x7F8) == 0x0001_000B

    run(body)


def test_power_states() -> None:
    async def body(port: ConfigPort) -> None:
        assert port.get("sleeping") == 0
        for state in (1, 2):
            await port.write(PM_CONTROL, state)
            assert await port.read(PM_CONTROL) == 1 << 3, "no such state: discarded"
        await port.write(CTRL + 0x30, 77)
        await port.write(PM_CONTROL, D3HOT)
        assert port.get("sleeping") == 1
        assert await port.read(PM_CONTROL) == 1 << 3 | D3HOT
        await port.write(PM_CONTROL, 1)
        assert port.get("sleeping") == 1
        await port.write(PM_CONTROL, 0)
        assert port.get("sleeping") == 0
        assert await port.read(CTRL + 0x30) == 77, "no soft reset"

    run(body)


def test_messages() -> None:
    address, data = 0x0000_0012_FEE0_1004, 0x4321

    async def body(port: ConfigPort) -> None:
        async def tick(clocks: int = 4, **pins: int) -> list[tuple[int, int]]:
            """Some clocks with ``pins`` set; the messages sent meanwhile."""
            messages = []
            port.set(**pins)
            for _ in range(clocks):
                if port.get("msi_valid"):
                    messages.append((port.get("msi_address"), port.get("msi_data")))
                else:
                    assert (port.get("msi_address"), port.get("msi_data")) == (0, 0)
                await port.context.tick()
            return messages

        message = [(address, data)]
        await port.write(MSI_ADDRESS_LO, address & 0xFFFF_FFFF)
        await port.write(MSI_ADDRESS_HI, address >> 32)
        await port.write(MSI_DATA, data)
        assert await tick(irq=1) == [], "neither enabled nor master"
        await port.write(MSI, MSI_ENABLE)
        assert await tick() == [], "not master"
        await port.write(COMMAND, BUS_MASTER)
        assert await tick() == message, "told late, but told"
        assert await tick() == [], "told once"
        assert await tick(irq=0) == []
        assert await tick(irq=1, clocks=1) == message, "in the very clock"
        assert await tick(irq=0) == []
        await port.write(PM_CONTROL, D3HOT)
        assert await tick(irq=1) == [], "asleep"
        await port.write(PM_CONTROL, 0)
        assert await tick() == message
        await tick(irq=0)
        await port.write(MSI, 0)
        assert await tick(irq=1) == [], "disabled"
        assert await tick(irq=0) == []
        await port.write(MSI, MSI_ENABLE)
        assert await tick() == [], "over before it could be told"

    run(body)


def test_the_device_model_has_the_same_header() -> None:
    """Gateware and device model, which has its own description of the header, agree on every byte."""
    from kv_asu_firmware.config_space import ConfigSpaceModel

    async def body(port: ConfigPort) -> None:
        model = ConfigSpaceModel(Params(), full=True)
        chance = random.Random(11)
        offsets = [register.offset for register in pci_header(Params(), 0)] + [0x10, 0x48, 0xFC, 0x200, 0xFFC]
        port.set(cfg_ext_read_received=0)
        for _ in range(500):
            offset = chance.choice(offsets)
            data, byte_enable = chance.getrandbits(32), chance.randrange(16)
            model.clock()
            model.write_dword(offset // 4, data, byte_enable)
            await port.write(offset, data, byte_enable)
            assert await port.read(offset) == model.read_dword(offset // 4), (hex(offset), hex(data), byte_enable)
        config = await dump(port)
        for offset in range(0, CONFIG_SPACE_BYTES, 4):
            word = int.from_bytes(config[offset : offset + 4], "little")
            if offset != CTRL + 4:  # STATUS: there is no core here
                assert word == model.read_dword(offset // 4), hex(offset)

    run(body)


@pytest.mark.skipif(shutil.which("lspci") is None, reason="pciutils is not installed")
def test_lspci_decodes_it_cleanly(tmp_path: Path) -> None:
    device = tmp_path / "devices" / "0000:00:02.0"
    device.mkdir(parents=True)

    async def body(port: ConfigPort) -> None:
        await port.write(COMMAND, BUS_MASTER)
        await port.write(MSI, MSI_ENABLE)
        await port.write(MSI_ADDRESS_LO, 0xFEE0_1004)
        (device / "config").write_bytes(await dump(port))

    run(body)
    files = {"vendor": "0x4b56", "device": "0x0001", "class": "0x058000", "irq": "0"}
    for name, text in files.items():
        (device / name).write_text(f"{text}\n")
    (device / "resource").write_text("0x0 0x0 0x0\n" * 7)
    command = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={tmp_path}", "-vvv"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    # Where no kernel modules are installed, lspci cannot name drivers.
    assert [line for line in result.stderr.splitlines() if "libkmod" not in line] == []
    text = result.stdout
    for expected in (
        "00:02.0 Memory controller: Device 4b56:0001 (rev 10)",
        "BusMaster+",
        "Capabilities: [40] Power Management version 3",
        "Status: D0 NoSoftRst+",
        "Capabilities: [50] MSI: Enable+ Count=1/1 Maskable- 64bit+",
        "Address: 00000000fee01004  Data: 0000",
        "Capabilities: [70] Express (v2) Root Complex Integrated Endpoint",
        "Capabilities: [100 v1] Device Serial Number 4b-56-00-00-00-00-00-01",
        "Capabilities: [7f8 v1] Vendor Specific Information: ID=4b56 Rev=1 Len=080",
    ):
        assert expected in text
    for complaint in ("!!!", "unknown", "Unknown", "chain looped", "<access denied>", "broken", "overlap"):
        assert complaint not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config_base": 0x108}, "config_base must be at least 0x10c in a full config space, not 0x108"),
        ({"config_next": 0x200}, "config_next must be 0 in a full config space, not 0x200"),
    ],
)
def test_impossible_places(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pci_header(Params(**arguments), 0)


def test_serial_number() -> None:
    with pytest.raises(ValueError, match=r"serial_number must be 0 to 2\*\*64 - 1, not -1"):
        pci_header(Params(), -1)
    registers = {register.name: register for register in pci_header(Params(), 0x0123_4567_89AB_CDEF)}
    assert registers["SERIAL_NUMBER_LO"].reset_value(Params()) == 0x89AB_CDEF
    assert registers["SERIAL_NUMBER_HI"].reset_value(Params()) == 0x0123_4567


def test_header_registers_do_not_overlap() -> None:
    offsets = [register.offset for register in pci_header(Params(), 0)]
    assert len(set(offsets)) == len(offsets)
    for register in pci_header(Params(), 0):
        used = 0
        for field in register.fields:
            assert not used & field.mask, (register.name, field.name)
            used |= field.mask
            assert field.access is not Access.CONSTANT or field.reset_value(Params()) < 1 << field.width
        assert used < 1 << 32
