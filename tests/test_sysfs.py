"""The `sysfs` transport: where it looks, what it says of files that are not what they should be, and its lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kv_asu.params import Params
from kv_asu_firmware.device import Device
from served_config import serve, tree
from vrex.errors import DeviceAccessError, DeviceBusyError, DeviceGoneError, DeviceNotFoundError, VrexError
from vrex.kv_asu import KvAsu
from vrex.transports import sysfs
from vrex.transports.sysfs import SysfsTransport, full_address

SMALL = Params(log2_entries=4, window=2)
BDF = "0000:00:02.0"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The config file of a tree's only device; the tree is its grandparent's parent."""
    return tree(tmp_path, SMALL)


def one_line(error: pytest.ExceptionInfo[VrexError]) -> None:
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("inside", ["devices", "sys/bus/pci/devices", ".", f"devices/{BDF}"])
def test_a_root_stands_for_several_folders(config: Path, tmp_path: Path, inside: str) -> None:
    """For /sys/bus/pci; for / (here made by a link), for devices, and for the device itself."""
    root = {
        "devices": tmp_path,
        "sys/bus/pci/devices": tmp_path / "slash",
        ".": tmp_path / "devices",
        f"devices/{BDF}": config.parent,
    }[inside]
    (tmp_path / "slash/sys/bus").mkdir(parents=True)
    (tmp_path / "slash/sys/bus/pci").symlink_to(tmp_path)
    with SysfsTransport(root=root) as transport:
        assert transport.read(0, 2) == 0x4B56
        assert transport.path.samefile(config)
        assert str(transport) == str(transport.path)


@pytest.mark.parametrize(
    ("given", "full"),
    [("00:02.0", BDF), (BDF, BDF), ("0001:AB:1f.7", "0001:ab:1f.7"), ("10000:e1:00.0", "10000:e1:00.0")],
)
def test_addresses(given: str, full: str) -> None:
    assert full_address(given) == full


@pytest.mark.parametrize(
    "given", ["", "2", "00:02", "00:20.0", "00:02.8", "0:2.0", "00:02.0/..", "../00:02.0", "00:02.0\n"]
)
def test_no_addresses(given: str) -> None:
    with pytest.raises(ValueError, match=r"device must be a PCI address like 0000:00:02\.0, not"):
        SysfsTransport(given)


def test_a_wrong_address_names_those_there_are(config: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DeviceNotFoundError, match=f"no device 0000:00:03.0, only {BDF}; choose it with --device"
    ) as error:
        SysfsTransport("00:03.0", tmp_path)
    one_line(error)
    for slot in range(4, 20):
        tree(tmp_path, SMALL, f"0000:00:{slot:02x}.0")
    with pytest.raises(DeviceNotFoundError, match=r"0000:00:0a\.0 and 9 more; choose"):
        SysfsTransport("00:03.0", tmp_path)


def test_no_tree(tmp_path: Path) -> None:
    with pytest.raises(DeviceNotFoundError, match="nowhere: no such folder; --root names what stands for /sys/bus/pci"):
        SysfsTransport(root=tmp_path / "nowhere")
    with pytest.raises(DeviceNotFoundError, match="there is no PCI device; choose the tree with --root"):
        SysfsTransport(root=tmp_path)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (256, "has 256 bytes, so no extended config space, where the KV-ASU is; choose the right device, or boot"),
        (64, "has 64 bytes of 4096: not the whole config space"),
        (0, "has 0 bytes of 4096"),
        (0x7FA, "has 2042 bytes of 4096"),
    ],
)
def test_files_that_are_too_short(config: Path, tmp_path: Path, size: int, message: str) -> None:
    os.truncate(config, size)
    with pytest.raises(DeviceAccessError, match=message) as error:
        KvAsu.open("sysfs", root=tmp_path)
    one_line(error)


def test_a_user_who_sees_only_the_header(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives others than root the first 64 bytes of a file that says it has 4096."""

    class Unprivileged(Replaced):
        def pread(self, file: int, size: int, offset: int) -> bytes:
            return os.pread(file, max(0, min(size, 64 - offset)), offset)

    monkeypatch.setattr(sysfs, "os", Unprivileged())
    with SysfsTransport(root=tmp_path) as transport:
        assert transport.read(0, 2) == 0x4B56
        with pytest.raises(
            DeviceAccessError, match="shows this user only the beginning, not 0x100; run as root"
        ) as error:
            KvAsu(transport)
    one_line(error)


class Replaced:
    """`os`, of which a test replaces what it needs."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


@pytest.mark.parametrize(("mode", "what"), [(os.O_RDONLY, "read"), (os.O_RDWR, "written")])
def test_permission_denied(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, what: str) -> None:
    """Tests may run as root, whom no mode of a file stops: so the answer is made up, at the call that would get it."""

    class Forbidding(Replaced):
        def open(self, path: Path, flags: int) -> int:
            if flags & os.O_ACCMODE == mode:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return os.open(path, flags)

    monkeypatch.setattr(sysfs, "os", Forbidding())

    def read_and_write() -> None:
        with SysfsTransport(root=tmp_path) as transport:
            assert KvAsu(transport).thresholds.t3.count == 5, "reading is allowed"
            transport.write(0x800, 1, 4)

    with pytest.raises(DeviceAccessError, match=f"may not be {what} by this user; run as root") as error:
        read_and_write()
    one_line(error)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Root becomes nobody for a while; others are ordinary already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("locked", "mode", "message"),
    [
        ("config", 0o000, "config: may not be read by this user; run as root"),
        ("config", 0o444, "config: may not be written by this user; run as root"),
        (".", 0o000, "may not be looked into by this user; run as root"),
    ],
)
def test_permission_denied_by_the_kernel(open_folder: Path, locked: str, mode: int, message: str) -> None:
    config = tree(open_folder, SMALL)
    place = config.parent / locked
    place.chmod(mode)

    def read_and_write() -> None:
        with SysfsTransport(root=open_folder) as transport:
            assert transport.read(0, 2) == 0x4B56
            transport.write(0x800, 1, 4)

    try:
        with an_ordinary_user(), pytest.raises(DeviceAccessError, match=message) as error:
            read_and_write()
    finally:
        place.chmod(0o755)
    one_line(error)


@pytest.mark.parametrize("code", [errno.ENODEV, errno.EIO, errno.ENOTCONN])
@pytest.mark.parametrize("call", ["pread", "pwrite"])
def test_the_kernel_says_that_it_has_gone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    def gone(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with SysfsTransport(root=tmp_path) as transport:
        replaced = Replaced()
        setattr(replaced, call, gone)
        monkeypatch.setattr(sysfs, "os", replaced)
        with pytest.raises(DeviceGoneError, match=f"config: the device has gone .{os.strerror(code)}.; look") as error:
            transport.read(0, 4) if call == "pread" else transport.write(0x800, 0, 4)
    one_line(error)


def test_its_file_vanishes_in_mid_run(config: Path, tmp_path: Path) -> None:
    with KvAsu.open("sysfs", root=tmp_path) as asu:
        assert asu.thresholds.t3.count == 5
        config.unlink()
        for call in (lambda: asu.status, lambda: asu.enable(), lambda: asu.transport.write(0x800, 1, 1)):
            with pytest.raises(DeviceGoneError, match="the device has gone"):
                call()


def test_all_ones(config: Path, tmp_path: Path) -> None:
    config.write_bytes(b"\xff" * 4096)
    with pytest.raises(DeviceGoneError, match="reads all ones: nobody answers; is the device there"):
        KvAsu.open("sysfs", root=tmp_path)


def test_time_comes_from_outside(config: Path, tmp_path: Path) -> None:
    slept: list[float] = []
    transport = SysfsTransport(root=tmp_path, clock=lambda: sum(slept), sleep=slept.append)
    with transport, pytest.raises(VrexError, match=r"enable: no answer within 0\.01 s"):
        KvAsu(transport, timeout=0.01).enable()
    assert sum(slept) < 0.02


def test_closed_files_are_not_used(config: Path, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    transport = SysfsTransport(root=tmp_path)
    transport.write(0x834, 1, 4)
    transport.close()
    transport.close()
    with pytest.raises(ValueError, match="this transport is closed"):
        transport.read(0, 4)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_pipe_is_not_waited_for(config: Path, tmp_path: Path) -> None:
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(DeviceAccessError, match="config: no regular file; --root names what stands for"):
        SysfsTransport(root=tmp_path)


class TestTwoWriters:
    def test_in_two_processes(self, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        serve(monkeypatch, config, Device(SMALL))
        code = """
            import sys
            from vrex.transports.sysfs import SysfsTransport
            transport = SysfsTransport(root=sys.argv[1])
            transport.write(0x830, 7, 4)
            print("writing", flush=True)
            sys.stdin.read()
        """
        command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert other.stdin is not None
        assert other.stdout is not None
        with other, KvAsu.open("sysfs", root=tmp_path) as asu:
            assert other.stdout.readline() == "writing\n"
            assert not asu.status.active, "reading needs no lock"
            with pytest.raises(DeviceBusyError, match=f"process {other.pid} is writing to this device; wait") as error:
                asu.enable()
            one_line(error)
            assert not asu.enabled
            other.stdin.close()
            other.wait(timeout=30)
            asu.enable()
            assert asu.status.active

    def test_a_killed_one_leaves_no_lock(self, config: Path, tmp_path: Path) -> None:
        code = f"""
            import os, signal
            from vrex.transports.sysfs import SysfsTransport
            SysfsTransport(root={str(tmp_path)!r}).write(0x830, 7, 4)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)
        with SysfsTransport(root=tmp_path) as transport:
            assert transport.read(0x830, 4) == 7
            transport.write(0x830, 8, 4)

    def test_in_one_process(self, config: Path, tmp_path: Path) -> None:
        with SysfsTransport(root=tmp_path) as first, SysfsTransport(root=tmp_path) as second:
            first.write(0x830, 1, 4)
            with pytest.raises(DeviceBusyError, match=f"process {os.getpid()} is writing"):
                second.write(0x830, 2, 4)
            assert second.read(0x830, 4) == 1
            first.close()
            second.write(0x830, 2, 4)

    def test_where_the_kernel_does_not_tell_who(
        self, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sysfs, "_lock_holder", lambda file: None)
        with SysfsTransport(root=tmp_path) as first, SysfsTransport(root=tmp_path) as second:
            first.write(0x830, 1, 4)
            with pytest.raises(DeviceBusyError, match="another process is writing"):
                second.write(0x830, 2, 4)
