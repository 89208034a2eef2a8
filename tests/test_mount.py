"""`vrex mount`: its parts by themselves, then all of it under unmodified lspci, setpci, libpci and system calls."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from config_image import ConfigImage
from kv_asu.installing import way_out
from kv_asu.params import Params
from live_mount import (
    PATIENCE,
    SMALL,
    lspci,
    mounted,
    setpci,
    skip_without_fuse,
    start,
    stop,
    wait_until_ready,
)
from vrex.cli import main
from vrex.errors import DeviceBusyError, DeviceGoneError, VrexError
from vrex.kv_asu import KvAsu, Threshold
from vrex.mount.config_file import ConfigFile, accesses
from vrex.mount.serving import check_folder, check_fuse
from vrex.mount.traffic import Traffic
from vrex.mount.tree import PciTree
from vrex.mount.turns import Turns
from vrex.trace.format import TraceMetadata, write_trace
from vrex.transports.model import ModelTransport
from vrex.transports.sysfs import SysfsTransport

PARAMS = Params(log2_entries=4, window=2)
LOADED_NS = time.time_ns()
CTRL = 0x800
T3, HASH_SEED, COLD_WATERMARK = CTRL + 0x18, CTRL + 0x30, CTRL + 0x2C

needs_pciutils = pytest.mark.skipif(shutil.which("setpci") is None, reason="pciutils is not installed")


@pytest.fixture(autouse=True)
def nothing_is_served_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that should have refused would keep this process for ever."""

    def serve(*_: object, **options: object) -> None:
        raise AssertionError("it would be served")

    monkeypatch.setattr("vrex.mount.serving.serve", serve)


# The config file


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, 0, []),
        (0, 4, [(0, 4)]),
        (2, 2, [(2, 2)]),
        (3, 1, [(3, 1)]),
        (0, 3, [(0, 2), (2, 1)]),
        (1, 3, [(1, 1), (2, 2)]),
        (2, 3, [(2, 2), (4, 1)]),
        (1, 8, [(1, 1), (2, 2), (4, 4), (8, 1)]),
        (3, 8, [(3, 1), (4, 4), (8, 2), (10, 1)]),
        (0, 8, [(0, 4), (4, 4)]),
        (2, 8, [(2, 2), (4, 4), (8, 2)]),
    ],
)
def test_accesses_are_those_of_linux(offset: int, size: int, expected: list[tuple[int, int]]) -> None:
    assert list(accesses(offset, size)) == expected


def test_every_split_is_whole_and_aligned() -> None:
    for offset in range(0x800, 0x808):
        for size in range(20):
            parts = list(accesses(offset, size))
            assert [byte for at, step in parts for byte in range(at, at + step)] == list(range(offset, offset + size))
            assert all(step in (1, 2, 4) and at % step == 0 for at, step in parts)


def test_config_file_reads_and_writes_any_bytes() -> None:
    image = ConfigImage(bytes(range(256)) * 16)
    file = ConfigFile(image, Turns())
    expected = bytearray(image.data)
    chance = random.Random(7)
    for _ in range(300):
        offset, size = chance.randrange(0x1000), chance.randrange(12)
        assert file.read(offset, size) == expected[offset : offset + size]
        data = chance.randbytes(size)[: 0x1000 - offset]
        assert file.write(offset, data) == len(data)
        expected[offset : offset + len(data)] = data
    assert file.read(0, 5000) == expected
    assert (file.read(0x1000, 4), file.read(0x2000, 4)) == (b"", b"")
    assert file.write(0xFFE, b"abcd") == 2
    assert file.read(0xFFC, 8)[2:] == b"ab"
    with pytest.raises(OSError, match="too large") as told:
        file.write(0x1000, b"a")
    assert told.value.errno == errno.EFBIG
    assert file.write(0x1000, b"") == 0


def test_time_passes_between_calls_where_nothing_else_makes_it() -> None:
    bus = ModelTransport(PARAMS)
    file = ConfigFile(bus, Turns(), idle_clocks=1000)
    file.read(0, 8)
    assert bus.clock == 1000 + 2 * 2
    file.write(CTRL, b"\x01")
    file.read(CTRL, 1)
    assert KvAsu(bus).status.active
    ConfigFile(ConfigImage(), Turns(), idle_clocks=1000).read(0, 4)  # has a time of its own


def test_tree_is_as_linux_has_it() -> None:
    bus = ModelTransport(PARAMS)
    tree = PciTree(bus, ConfigFile(bus, Turns()), "0000:00:02.0")
    assert tree.names("/") == ["devices", "slots"]
    assert tree.names("/slots") == []
    assert tree.names("/devices") == ["0000:00:02.0"]
    folder = "/devices/0000:00:02.0"
    names = tree.names(folder)
    assert names is not None
    assert tree.names(f"{folder}/vendor") is None
    texts = {name: tree.read(f"{folder}/{name}", 0, 1000).decode() for name in names if name != "config"}
    assert texts.pop("resource") == "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 7
    assert texts == {
        "vendor": "0x4b56\n", "device": "0x0001\n", "subsystem_vendor": "0x4b56\n", "subsystem_device": "0x0001\n",
        "class": "0x058000\n", "revision": "0x10\n", "irq": "0\n", "numa_node": "-1\n",
        "modalias": "pci:v00004B56d00000001sv00004B56sd00000001bc05sc80i00\n",
    }  # fmt: skip
    assert tree.size(f"{folder}/config") == 4096
    assert tree.size(f"{folder}/vendor") == 7
    assert tree.read(f"{folder}/vendor", 2, 4) == b"4b56"
    with pytest.raises(FileNotFoundError):
        tree.read(f"{folder}/driver", 0, 1)


def test_an_access_comes_before_traffic() -> None:
    turns = Turns()
    order: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def traffic(name: str) -> None:
        with turns.traffic():
            order.append(name)
            inside.set()
            assert go_on.wait(PATIENCE)

    def access() -> None:
        with turns.access():
            order.append("access")

    threads = [threading.Thread(target=traffic, args=("first",), daemon=True)]
    threads[0].start()
    assert inside.wait(PATIENCE)
    threads += [
        threading.Thread(target=traffic, args=("second",), daemon=True),
        threading.Thread(target=access, daemon=True),
    ]
    threads[2].start()
    while not turns._accesses_waiting:
        time.sleep(0.001)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["first", "access", "second"]


# Traffic


def trace_of(path: Path, lines: list[int], gap_ns: int = 400_000) -> Path:
    """A trace of bursts, ``gap_ns`` apart, of four reads each."""
    with write_trace(path, TraceMetadata("made for a test")) as writer:
        for burst, line in enumerate(lines):
            times = np.arange(4, dtype=np.uint64) * 2 + np.uint64(burst * gap_ns)
            writer.append(burst, 0, 0, 0, np.arange(line, line + 4, dtype=np.uint64), times)
    return path


def test_traffic_comes_at_the_traces_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = ModelTransport(PARAMS)
    seen: list[tuple[int, list[int]]] = []
    observe = bus.observe

    def watched(addresses: Any) -> Any:
        seen.append((bus.clock, addresses.tolist()))
        if len(seen) == 5:
            traffic._stopped.set()
        return observe(addresses)

    monkeypatch.setattr(bus, "observe", watched)
    traffic = Traffic(bus, trace_of(tmp_path / "t.parquet", [8, 16, 8]), Turns(), pytest.fail)
    traffic.start()
    traffic._thread.join(PATIENCE)
    assert not traffic._thread.is_alive()
    first, second = ([line * 256 for line in range(base, base + 4)] for base in (8, 16))
    lap = 400_000 + 4 + PARAMS.latency + 2  # the last burst's requests, answers and links
    assert seen == [(0, first), (200_000, second), (400_000, first), (lap, first), (lap + 200_000, second)]


def test_a_device_slower_than_its_trace_has_its_pauses_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of trace between bursts, and a device that takes a second for 16384 clocks."""
    bus = ModelTransport(PARAMS)
    wall = [0.0]
    seen: list[tuple[float, int]] = []
    told: list[tuple[int, int]] = []
    idle, observe = bus.idle, bus.observe

    def slowly(clocks: int) -> None:
        wall[0] += clocks / 16384
        idle(clocks)

    def watched(addresses: Any) -> Any:
        seen.append((wall[0], bus.clock))
        if len(seen) == 4:
            traffic._stopped.set()
        return observe(addresses)

    monkeypatch.setattr("time.monotonic", lambda: wall[0])
    monkeypatch.setattr(bus, "idle", slowly)
    monkeypatch.setattr(bus, "observe", watched)
    trace = trace_of(tmp_path / "t.parquet", [8, 16, 8, 16], gap_ns=1_000_000_000)
    traffic = Traffic(bus, trace, Turns(), pytest.fail)
    monkeypatch.setattr(traffic, "_progress", lambda done, total: told.append((done, total)))
    monkeypatch.setattr(traffic._stopped, "wait", lambda seconds: wall.__setitem__(0, wall[0] + seconds))
    traffic._lap()
    times, clocks = zip(*seen, strict=True)
    assert np.diff(times) == pytest.approx([1, 1, 1], abs=0.01)
    assert (np.diff(clocks) < 20 * 16384).all()
    assert (np.diff(clocks) >= 16384).all()
    assert told == [(4, 16), (8, 16), (12, 16), (16, 16)]


def test_traffic_that_cannot_be_made_says_so_and_stops(tmp_path: Path) -> None:
    said: list[str] = []
    bus = ModelTransport(Params(log2_entries=4, window=2, addr_width=32))
    traffic = Traffic(bus, trace_of(tmp_path / "t.parquet", [1 << 30]), Turns(), said.append)
    traffic.start()
    traffic._thread.join(PATIENCE)
    traffic.stop()
    assert len(said) == 1
    assert said[0].startswith("no more traffic: ")


# Folders that will not do


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("vrex: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_folders_that_will_not_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_folder(tmp_path)
    (tmp_path / "file").write_text("")
    for folder, message in (
        (tmp_path / "none", "no such folder; make it with mkdir"),
        (tmp_path / "file", "not a folder; choose an empty one"),
        (tmp_path, "not empty, and what is in it would be hidden; choose an empty folder"),
    ):
        assert main(["mount", str(folder)]) == 1
        assert f"{folder}: {message}" in one_line(capsys)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--transport", "sysfs"], 2, "'sysfs' is not one of model, rtl"),
        (["--window", "5"], 2, "window must be one of 2, 4, 8, 16, not 5"),
        (["--config-base", "0x104"], 2, "config_base must be at least 0x10c in a full config space"),
        (["--trace", "none.parquet"], 1, "none.parquet: no such file; make one with 'vrex trace make'"),
    ],
)
def test_what_cannot_be_served(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("vrex.mount.serving.check_fuse", lambda: None)
    assert main(["mount", *arguments, str(tmp_path)]) == code
    assert message in one_line(capsys)


def test_a_machine_without_fuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = os.open
    monkeypatch.setitem(sys.modules, "mfusepy", None)
    assert main(["mount", str(tmp_path)]) == 1
    assert f"mount needs mfusepy, which is not installed: {way_out('mfusepy')}" in one_line(capsys)

    class WithoutLibrary:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "mfusepy":
                raise OSError("Unable to find libfuse")

    monkeypatch.delitem(sys.modules, "mfusepy")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [WithoutLibrary(), *sys.meta_path])
        assert main(["mount", str(tmp_path)]) == 1
    assert "mount needs libfuse, which was not found: apt-get install fuse3" in one_line(capsys)

    def refused(path: object, *rest: int, **options: int) -> int:
        if path == "/dev/fuse":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return whole(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setitem(sys.modules, "mfusepy", os)  # anything that can be imported
    monkeypatch.setattr(os, "open", refused)
    assert main(["mount", str(tmp_path)]) == 1
    said = one_line(capsys)
    assert "mount needs /dev/fuse (Operation not permitted): " in said
    assert "--device /dev/fuse --cap-add SYS_ADMIN" in said


@pytest.mark.parametrize(
    ("device", "program", "advice"),
    [(True, True, False), (True, False, True), (False, True, True), (False, False, True)],
)
def test_what_is_there_need_not_be_installed(
    device: bool, program: bool, advice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is there and of no use is a matter of rights."""
    exists, opened = Path.exists, os.open

    def refused(path: object, *rest: int, **options: int) -> int:
        if path == "/dev/fuse":
            raise OSError(errno.EPERM if device else errno.ENOENT, "no")
        return opened(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setitem(sys.modules, "mfusepy", os)
    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(Path, "exists", lambda self: device if self == Path("/dev/fuse") else exists(self))
    monkeypatch.setattr("shutil.which", lambda name: "/bin/fusermount3" if program else None)
    with pytest.raises(VrexError, match=r"^mount needs /dev/fuse \(no\): ") as caught:
        check_fuse()
    assert ("apt-get install fuse3" in str(caught.value)) is advice
    assert "--cap-add SYS_ADMIN" in str(caught.value)


def test_the_folder_one_stands_in_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Path] = []
    monkeypatch.setattr("vrex.mount.serving.check_fuse", lambda: None)
    monkeypatch.setattr("vrex.mount.serving.serve", lambda bus, folder, **_: served.append(folder))
    monkeypatch.chdir(tmp_path)
    assert main(["mount", *SMALL, "."]) == 0
    assert served == [tmp_path]
    assert capsys.readouterr().err == f"{tmp_path}: unmounted\n"
    (tmp_path / "file").write_text("")
    assert main(["mount", *SMALL, "."]) == 1
    assert f"{tmp_path}: not empty" in one_line(capsys)
    with pytest.raises(VrexError, match=r"something is mounted there"):
        check_folder(Path("/"))


CONFIG_FILE = Path("devices", "0000:00:02.0", "config")

# The real thing. One small device for all of these; each begins with what it needs.


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mnt")
    with mounted(folder, *SMALL) as record:
        assert record == {
            "folder": str(folder), "device": "0000:00:02.0", "transport": "model", "trace": None,
            "params": PARAMS.asdict(),
        }  # fmt: skip
        yield folder


@pytest.fixture
def config(mount: Path) -> Iterator[int]:
    """The config file of the device with its registers as after reset, open for reading and writing."""
    file = os.open(mount / "devices/0000:00:02.0/config", os.O_RDWR)
    os.pwrite(file, b"\0", CTRL)
    os.pwrite(file, (25 << 16 | 5).to_bytes(4, "little"), T3)
    for register in (HASH_SEED, COLD_WATERMARK):
        os.pwrite(file, bytes(4), register)
    os.pwrite(file, b"\7", CTRL + 0x24)
    yield file
    os.close(file)


def dword(file: int, offset: int) -> int:
    return int.from_bytes(os.pread(file, 4, offset), "little")


COMPLAINTS = ("!!!", "unknown", "Unknown", "chain looped", "<access denied>", "broken", "overlap", "unassigned")


@needs_pciutils
def test_lspci_decodes_it_cleanly(mount: Path, config: int) -> None:
    text = lspci(mount, "-vvv")
    for expected in (
        "00:02.0 Memory controller: Device 4b56:0001 (rev 10)",
        "Subsystem: Device 4b56:0001",
        "Capabilities: [40] Power Management version 3",
        "Capabilities: [50] MSI: Enable- Count=1/1 Maskable- 64bit+",
        "Capabilities: [70] Express (v2) Root Complex Integrated Endpoint",
        "Capabilities: [100 v1] Device Serial Number 4b-56-00-00-00-00-00-01",
        "Capabilities: [7f8 v1] Vendor Specific Information: ID=4b56 Rev=1 Len=080",
    ):
        assert expected in text
    assert [complaint for complaint in COMPLAINTS if complaint in text] == []
    assert "4b56" in lspci(mount, "-n", "-d", "4b56:0001:0580")


@needs_pciutils
def test_lspci_reads_everything_and_changes_nothing(mount: Path, config: int) -> None:
    os.pwrite(config, b"\1", CTRL)
    os.pwrite(config, b"\1", CTRL + 0x44)  # a query, so that there is an answer to be lost
    os.pwrite(config, b"\0", CTRL + 0x10)  # refused, so that there is an event to be lost
    os.pwrite(config, b"\5", CTRL)
    before = os.pread(config, 4096, 0)
    assert before[CTRL + 0x44] & 2
    assert before[CTRL + 0x24] == 4
    first, second = (lspci(mount, "-xxxx") for _ in range(2))
    assert first == second
    shown = [line.split(": ")[1] for line in first.splitlines() if line[:1] in "0123456789abcdef" and ": " in line]
    assert bytes.fromhex("".join(shown[1:])) == before
    assert os.pread(config, 4096, 0) == before


@needs_pciutils
def test_setpci(mount: Path, config: int) -> None:
    assert setpci(mount, "0x800.w") == ["0000"]
    setpci(mount, "0x800.w=1")
    assert setpci(mount, "0x800.w") == ["0001"], "the check the specification names"
    assert setpci(mount, "ECAP_VNDR+8.w") == ["0001"]
    assert setpci(mount, "0x804.l") == ["00000009"], "active, and powered, by the next command"
    setpci(mount, "0x81a.b=14")
    assert setpci(mount, "0x818.l") == ["00140005"]
    setpci(mount, "ECAP_VNDR+20.w=9")
    assert setpci(mount, "ECAP_VNDR+20.l", "ECAP_VNDR+22.w", "ECAP_VNDR+22.b") == ["00140009", "0014", "14"]
    setpci(mount, "ECAP_VNDR+20.l=0x00080007")
    assert setpci(mount, "0x818.w", "0x81a.w") == ["0007", "0008"]
    setpci(mount, "0x818.l=00ff0000:ffff0000")  # bits under a mask; T3.age over T2.age is refused
    assert setpci(mount, "0x818.l", "0x824.b") == ["00080007", "04"]
    setpci(mount, "0x824.b=4")
    assert setpci(mount, "0x824.b") == ["00"]
    assert setpci(mount, "VENDOR_ID.w", "CAP_MSI+2.w", "CAP_PM+4.w") == ["4b56", "0080", "0008"]


LIBPCI = r"""
#include <stdio.h>
#include <pci/pci.h>

int main(int argc, char **argv) {
  struct pci_access *access = pci_alloc();
  access->method = PCI_ACCESS_SYS_BUS_PCI;
  pci_set_param(access, "sysfs.path", argv[argc - 1]);
  pci_init(access);
  pci_scan_bus(access);
  int devices = 0;
  for (struct pci_dev *device = access->devices; device; device = device->next, devices++) {
    pci_fill_info(device, PCI_FILL_IDENT | PCI_FILL_CLASS | PCI_FILL_EXT_CAPS | PCI_FILL_BASES | PCI_FILL_IRQ);
    struct pci_cap *vendor = pci_find_cap(device, PCI_EXT_CAP_ID_VNDR, PCI_CAP_EXTENDED);
    if (!vendor) return 3;
    int t3 = vendor->addr + 8 + 0x18;
    if (!pci_write_long(device, t3, 0x00110003)) return 4;
    if (!pci_write_byte(device, t3, 4) || !pci_write_word(device, t3 + 2, 16)) return 5;
    printf("%02x:%02x.%d %04x:%04x %04x %03x %08x %04x\n", device->bus, device->dev, device->func, device->vendor_id,
           device->device_id, device->device_class, vendor->addr, pci_read_long(device, t3), pci_read_word(device, t3));
  }
  pci_cleanup(access);
  return devices != 1;
}
"""


def test_a_c_program_through_libpci(mount: Path, config: int, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "look.c").write_text(LIBPCI)
    includes = subprocess.run(
        [compiler, "-E", "-include", "pci/pci.h", "-x", "c", os.devnull],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=PATIENCE,
    )  # fmt: skip
    if includes.returncode:
        pytest.skip("libpci-dev is not installed")
    subprocess.run([compiler, "look.c", "-o", "look", "-lpci"], cwd=tmp_path, check=True, timeout=PATIENCE)
    done = subprocess.run([tmp_path / "look", mount], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "00:02.0 4b56:0001 0580 7f8 00100004 0004\n"


def test_reads_of_any_size_anywhere(mount: Path, config: int) -> None:
    whole = os.pread(config, 4096, 0)
    assert len(whole) == 4096
    chance = random.Random(3)
    for _ in range(200):
        offset, size = chance.randrange(4100), chance.choice([1, 2, 3, 4, 5, 7, 8, 16, 100])
        assert os.pread(config, size, offset) == whole[offset : offset + size]
    assert os.pread(config, 10000, 0) == whole
    assert os.pread(config, 4, 4094) == whole[4094:]
    assert os.pread(config, 4, 4096) == os.pread(config, 4, 1 << 20) == b""
    with open(mount / "devices/0000:00:02.0/config", "rb", buffering=0) as file:
        assert file.read() == whole
        assert file.seek(0, os.SEEK_END) == 4096


def test_writes_of_any_size_anywhere(mount: Path, config: int) -> None:
    assert os.pwrite(config, b"\x11\x22\x33", HASH_SEED + 1) == 3
    assert dword(config, HASH_SEED) == 0x33221100
    assert os.pwrite(config, b"\x44\x55\x66", HASH_SEED) == 3
    assert dword(config, HASH_SEED) == 0x33665544
    lo, hi = CTRL + 0x3C, CTRL + 0x40
    assert os.pwrite(config, bytes(range(1, 9)), lo) == 8
    assert (dword(config, lo), dword(config, hi)) == (0x04030201, 0x08070605)
    assert os.pwrite(config, b"\xaa\xbb\xcc\xdd\xee", lo + 2) == 5
    assert (dword(config, lo), dword(config, hi)) == (0xBBAA0201, 0x08EEDDCC)
    before = os.pread(config, 4096, 0)
    assert os.pwrite(config, b"12345678", 4092) == 4
    with pytest.raises(OSError, match="too large"):
        os.pwrite(config, b"1", 4096)
    assert os.pread(config, 4096, 0) == before


def test_flags_that_would_harm_a_real_file(mount: Path, config: int) -> None:
    path = mount / "devices/0000:00:02.0/config"
    os.pwrite(config, b"\x77", HASH_SEED)
    before = os.pread(config, 4096, 0)
    os.close(os.open(path, os.O_RDWR | os.O_TRUNC))
    os.truncate(path, 100)
    with open(path, "w"):
        pass
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    with pytest.raises(OSError, match="too large"):
        os.write(file, b"\xff")
    os.close(file)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT))
    assert os.stat(path).st_size == 4096
    assert os.pread(config, 4096, 0) == before
    for call in (
        lambda: os.open(path.with_name("vendor"), os.O_WRONLY),
        lambda: os.truncate(path.with_name("vendor"), 0),
        lambda: os.unlink(path),
        lambda: os.rename(path, path.with_name("gone")),
        lambda: os.mkdir(mount / "devices/0000:00:03.0"),
        lambda: os.open(path.with_name("new"), os.O_WRONLY | os.O_CREAT),
        lambda: os.rmdir(path.parent),
    ):
        with pytest.raises(OSError, match=r"\[Errno (13|38|1)\]"):
            call()
    assert os.listdir(mount / "devices") == ["0000:00:02.0"]


HAMMER = """
import os, random, sys
file = os.open(sys.argv[1], os.O_RDWR)
offset, chance = int(sys.argv[2]), random.Random(int(sys.argv[2]))
for _ in range(300):
    data = chance.randbytes(2)
    assert os.pwrite(file, data, offset) == 2
    assert os.pread(file, 2, offset) == data, "somebody else's bytes"
"""


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda mount: os.open(mount / "new", os.O_CREAT | os.O_WRONLY), errno.EACCES),
        (lambda mount: (mount / "new").mkdir(), errno.EPERM),
        (lambda mount: os.mkfifo(mount / "new"), errno.EPERM),
        (lambda mount: (mount / "new").symlink_to("devices"), errno.EPERM),
        (lambda mount: (mount / CONFIG_FILE).unlink(), errno.EPERM),
        (lambda mount: (mount / "slots").rmdir(), errno.EPERM),
        (lambda mount: (mount / CONFIG_FILE).rename(mount / "new"), errno.EPERM),
        (lambda mount: (mount / "new").hardlink_to(mount / CONFIG_FILE), errno.EPERM),
        (lambda mount: (mount / CONFIG_FILE).chmod(0o600), errno.EPERM),
        (lambda mount: os.chown(mount / CONFIG_FILE, 1, 1), errno.EPERM),
        (lambda mount: os.utime(mount / CONFIG_FILE), errno.EPERM),
    ],
    ids=["create", "mkdir", "mknod", "symlink", "unlink", "rmdir", "rename", "link", "chmod", "chown", "utime"],
)
def test_the_tree_stays_as_it_is(change: Callable[[Path], object], code: int, mount: Path) -> None:
    """Refused as sysfs refuses it, not as a call that does not exist."""
    with pytest.raises(OSError, match=r".+") as caught:
        change(mount)
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[code]
    assert (mount / CONFIG_FILE).is_file()
    assert not (mount / "new").exists()


def test_times_are_those_of_the_mount(mount: Path) -> None:
    times = {
        time_ns
        for path in (mount, mount / "devices", mount / CONFIG_FILE)
        for status in [path.stat()]
        for time_ns in (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    }
    assert len(times) == 1
    assert LOADED_NS <= times.pop() <= time.time_ns()


def test_two_processes_at_once(mount: Path, config: int) -> None:
    """Both write to the same register, each its own half: no write is lost, and none reaches the other half."""
    path = mount / "devices/0000:00:02.0/config"
    processes = [
        subprocess.Popen([sys.executable, "-c", HAMMER, path, str(offset)], stderr=subprocess.PIPE, text=True)
        for offset in (HASH_SEED, HASH_SEED + 2)
    ]
    ends = [(process.communicate(timeout=PATIENCE)[1], process.returncode) for process in processes]
    assert ends == [("", 0)] * 2


def test_one_writer_of_ours_keeps_the_other_out(mount: Path, config: int) -> None:
    with SysfsTransport(root=mount) as first, SysfsTransport(root=mount) as second:
        first.write(HASH_SEED, 1, 4)
        with pytest.raises(DeviceBusyError, match=f"process {os.getpid()} is writing to this device"):
            second.write(HASH_SEED, 2, 4)
        assert second.read(HASH_SEED, 4) == 1
    fcntl.flock(config, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_second_server_is_refused(mount: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mount", str(mount)]) == 1
    assert f"{mount}: something is mounted there; fusermount3 -u {mount} or choose another" in one_line(capsys)


# How it ends


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skip_without_fuse()
    folder = tmp_path / "a folder"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_unmounted(number: signal.Signals, folder: Path) -> None:
    """Even if somebody has the device open, who then finds it gone."""
    server = start(folder, *SMALL)
    try:
        wait_until_ready(server)
        with SysfsTransport(root=folder) as transport:
            assert KvAsu(transport).base == CTRL
            server.send_signal(number)
            assert server.communicate(timeout=PATIENCE) == ("", f"{folder}: unmounted\n")
            assert server.returncode == 0
            with pytest.raises(DeviceGoneError, match="the device has gone"):
                transport.read(CTRL, 4)
        check_folder(folder)
    finally:
        stop(server, folder)


def test_killed_it_is_unmounted_too(folder: Path) -> None:
    server = start(folder, *SMALL)
    try:
        wait_until_ready(server)
        server.kill()
        assert server.communicate(timeout=PATIENCE) == ("", "")
        for _ in range(100):  # fusermount cleans up, in its own time
            if not is_mounted(folder):
                break
            time.sleep(PATIENCE / 100)
        check_folder(folder)
    finally:
        stop(server, folder)


def test_unmounting_ends_it(folder: Path) -> None:
    server = start(folder, *SMALL)
    try:
        wait_until_ready(server)
        subprocess.run(["fusermount3", "-u", str(folder)], check=True, timeout=PATIENCE)
        assert server.communicate(timeout=PATIENCE) == ("", f"{folder}: unmounted\n")
        assert server.returncode == 0
    finally:
        stop(server, folder)


def is_mounted(folder: Path) -> bool:
    return str(folder).replace(" ", r"\040") in Path("/proc/mounts").read_text()


def test_what_a_killed_server_leaves_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fusermount could not clean up."""

    def left_over(self: Path, **_: object) -> os.stat_result:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    monkeypatch.setattr(Path, "exists", left_over)
    with pytest.raises(VrexError, match=r"not connected; after a server that was killed: fusermount3 -u "):
        check_folder(tmp_path)


def test_fuse_that_is_not_allowed(tmp_path: Path) -> None:
    skip_without_fuse()
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to give a right away")
    command = ["setpriv", "--bounding-set", "-sys_admin", sys.executable, "-m", "vrex", "mount", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"vrex: {tmp_path}: cannot be mounted: ")
    assert "not permitted" in done.stderr
    assert "--cap-add SYS_ADMIN" in done.stderr
    assert done.stderr.count("\n") == 1


# Under traffic


@needs_pciutils
@pytest.mark.parametrize("transport", ["model", "rtl"])
def test_counters_move_while_pciutils_look(transport: str, tmp_path: Path) -> None:
    folder = tmp_path / "mnt"
    folder.mkdir()
    trace = trace_of(tmp_path / "t.parquet", [8, 12, 8, 16, 8], gap_ns=4_000)
    with mounted(folder, *SMALL, "--transport", transport, "--trace", trace) as record:
        assert (record["transport"], record["trace"]) == (transport, str(trace))
        asked = ["ECAP_VNDR+5c.w=1"]  # COUNTER_SELECT: requests
        setpci(folder, "ECAP_VNDR+8.l=1", *asked)
        looks: list[int] = []
        while len(looks) < 200 and len(set(looks)) < 3:
            setpci(folder, "ECAP_VNDR+8.l=5")
            looks.append(int(setpci(folder, "ECAP_VNDR+60.l")[0], 16))
            assert [complaint for complaint in COMPLAINTS if complaint in lspci(folder, "-vvv")] == []
        assert len(set(looks)) == 3, f"stands still: {looks}"
        assert looks == sorted(looks)
        setpci(folder, "ECAP_VNDR+20.l=00080007")
        assert setpci(folder, "0x818.l", "0x800.w") == ["00080007", "0001"]
        assert lspci(folder, "-xxxx").splitlines()[0] == "00:02.0 Memory controller: Device 4b56:0001 (rev 10)"
        with SysfsTransport(root=folder) as sysfs:
            asu = KvAsu(sysfs)
            asu.disable()
            asu.enable()
            counters = asu.counters()
            assert counters.requests == counters.hits + counters.inserts + counters.untracked


@needs_pciutils
def test_the_programmers_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its setpci commands do on a served device what it says that they do."""
    guide = (Path(__file__).parents[1] / "docs" / "programmers_guide.md").read_text()
    commands = re.findall(r"^setpci .*$", guide, flags=re.M)
    assert len(commands) >= 8
    (tmp_path / "mnt").mkdir()
    monkeypatch.chdir(tmp_path)
    with mounted(tmp_path / "mnt"):
        shown = []
        for command in commands:
            done = subprocess.run(
                shlex.split(command, comments=True), capture_output=True, text=True, check=True, timeout=PATIENCE
            )
            shown += done.stdout.split()
        with SysfsTransport(root=tmp_path / "mnt") as sysfs:
            asu = KvAsu(sysfs)
            assert (asu.enabled, asu.thresholds.t3) == (True, Threshold(4, 80))
    # STATUS: active and powered. Counter 2: no hits. EVICT: done, nothing found.
    assert shown == ["00000009", "00000000", "00000000", "00000002", "00000000", "00000000"]


# What it says


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mount", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "vrex mount mnt" in shown
    assert "fusermount3 -u" in shown


def test_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vrex.mount.serving.check_fuse", lambda: None)
    monkeypatch.setattr("vrex.mount.serving.serve", lambda *_, mounted, **options: mounted())
    folder = tmp_path / "a folder"
    folder.mkdir()
    assert main(["mount", *SMALL, str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == (
        f"{folder}: the device model as 0000:00:02.0, 16 slots, window 2, latency 1"
    )
    assert f"setpci -A linux-sysfs -O sysfs.path='{folder}' -s 00:02.0 ECAP_VNDR+8.l=1" in captured.out
    assert captured.err == f"{folder}: unmounted\n"
    assert main(["mount", *SMALL, "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out)["params"]["log2_entries"] == 4


def test_help_does_not_load_what_is_heavy() -> None:
    program = (
        "import sys; from vrex.cli import main; main(['mount', '--help']); "
        "sys.exit(bool({'amaranth', 'mfusepy', 'numpy', 'cocotb', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False, timeout=PATIENCE)
    assert done.returncode == 0
