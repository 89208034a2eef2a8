"""The `sysfs` transport: the ``config`` file that Linux has for each PCI function, or a tree of the same shape."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vrex.errors import DeviceAccessError, DeviceBusyError, DeviceGoneError, DeviceNotFoundError
from vrex.transports.base import CONFIG_BYTES, Transport

ROOT = Path("/sys/bus/pci")

#: Where the core appears unless a platform says otherwise.
DEVICE = "0000:00:02.0"

_BDF = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])", re.IGNORECASE)

#: What the kernel answers for a device, or a mount, that has gone.
_GONE = {errno.ENODEV, errno.ENXIO, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ECONNABORTED}

#: Bytes of config space without PCI Express.
_CONVENTIONAL_BYTES = 0x100

_PAUSE_SECONDS = 50e-6


class SysfsTransport(Transport):
    """The ``config`` file of one PCI function.

    The first write takes an exclusive lock (``flock``) on the file and keeps it until `close`, so that two programs
    that go through here never write to one device at once. Reading needs no lock.

    Parameters
    ----------
    device : str
        Its address, like ``0000:00:02.0`` or ``00:02.0``.
    root : path
        What stands for ``/sys/bus/pci``. A folder that stands for ``/``, for ``devices`` in it, or for the device
        itself does as well.
    clock : callable
        The time in seconds, for timeouts.
    sleep : callable
        Called with seconds to let pass.

    Raises
    ------
    TypeError, ValueError
        ``root`` is no path; ``device`` is not a PCI address.
    DeviceNotFoundError
        There is no such device under ``root``.
    DeviceAccessError
        Its file may not be read.
    """

    name = "sysfs"

    def __init__(
        self,
        device: str = DEVICE,
        root: str | Path = ROOT,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.device = full_address(device)
        if not isinstance(root, str | os.PathLike):
            raise TypeError(f"root must be a path, not {root!r}")
        try:
            self.path = _find(Path(root), self.device)
        except PermissionError as error:
            raise DeviceAccessError(f"{error.filename}: may not be looked into by this user; run as root") from None
        if not self.path.is_file():  # opening a pipe would wait for somebody at its other end
            raise DeviceAccessError(f"{self.path}: no regular file; --root names what stands for {ROOT}")
        self._clock = clock
        self._sleep = sleep
        self._reader = self._open(os.O_RDONLY)
        self._writer: int | None = None

    def __str__(self) -> str:
        return str(self.path)

    def now(self) -> float:
        return self._clock()

    def pause(self) -> None:
        self._sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        for file in (self._reader, self._writer):
            if file is not None and file >= 0:
                with suppress(OSError):  # a mount that has gone says so here too
                    os.close(file)
        self._reader, self._writer = -1, None

    def _read(self, offset: int, size: int) -> int:
        with self._errors("read"):
            self._check_present()
            data = os.pread(self._reader, size, offset)
            if len(data) < size:
                self._explain_short(offset)
        return int.from_bytes(data, "little")

    def _write(self, offset: int, value: int, size: int) -> None:
        if self._writer is None:
            self._writer = self._lock()
        with self._errors("written"):
            self._check_present()
            written = os.pwrite(self._writer, value.to_bytes(size, "little"), offset)
            if written < size:
                self._explain_short(offset)

    def _open(self, mode: int) -> int:
        what = "read" if mode == os.O_RDONLY else "written"
        try:
            return os.open(self.path, mode | os.O_CLOEXEC)
        except FileNotFoundError:
            raise DeviceGoneError(f"{self.path}: the device has gone; look for it with lspci") from None
        except PermissionError:
            raise DeviceAccessError(f"{self.path}: may not be {what} by this user; run as root") from None
        except OSError as error:
            raise self._failure(error, what) from None

    def _lock(self) -> int:
        """Open the file for writing, as the only one to do so."""
        file = self._open(os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _lock_holder(file)
            os.close(file)
            who = "another process" if holder is None else f"process {holder}"
            raise DeviceBusyError(f"{self.path}: {who} is writing to this device; wait until it has ended") from None
        except OSError as error:
            os.close(file)
            raise DeviceAccessError(
                f"{self.path}: cannot be locked for writing ({error.strerror}); use a file system with locks"
            ) from None
        return file

    def _check_present(self) -> None:
        if self._reader < 0:
            raise ValueError(f"{self.path}: this transport is closed")
        if os.fstat(self._reader).st_nlink == 0:  # an open file outlives its name
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(error, what) from None

    def _failure(self, error: OSError, what: str) -> Exception:
        if error.errno in _GONE or error.errno == errno.ENOENT:
            return DeviceGoneError(f"{self.path}: the device has gone ({error.strerror}); look for it with lspci")
        if error.errno in (errno.EPERM, errno.EACCES):
            return DeviceAccessError(f"{self.path}: may not be {what} by this user; run as root")
        return DeviceAccessError(f"{self.path}: cannot be {what} ({error.strerror})")

    def _explain_short(self, offset: int) -> None:
        """Say why the file ends before ``offset``."""
        size = os.fstat(self._reader).st_size
        if size == _CONVENTIONAL_BYTES:
            raise DeviceAccessError(
                f"{self.path}: has {size} bytes, so no extended config space, where the KV-ASU is; "
                "choose the right device, or boot with MMCONFIG (no pci=nommconf)"
            )
        if size >= CONFIG_BYTES:
            raise DeviceAccessError(
                f"{self.path}: the kernel shows this user only the beginning, not {offset:#x}; run as root"
            )
        raise DeviceAccessError(f"{self.path}: has {size} bytes of {CONFIG_BYTES}: not the whole config space")


def full_address(device: str) -> str:
    """A PCI address with its domain, in lower case.

    Raises
    ------
    ValueError
        It is none.
    """
    match = _BDF.fullmatch(device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"device must be a PCI address like 0000:00:02.0, not {device!r}")
    domain, bus, slot, function = match.groups()
    return f"{domain or '0000'}:{bus}:{slot}.{function}".lower()


def _find(root: Path, device: str) -> Path:
    """The device's config file under what may stand for several folders."""
    for folder in ("devices", "sys/bus/pci/devices", "."):
        path = root / folder / device / "config"
        if path.exists():
            return path
    if (root / "config").is_file():
        return root / "config"
    if root.exists() and not root.is_dir():
        raise DeviceNotFoundError(f"{root}: not a folder; --root names what stands for {ROOT}")
    if not root.is_dir():
        raise DeviceNotFoundError(f"{root}: no such folder; --root names what stands for {ROOT}")
    there = next((folder for folder in (root / "devices", root / "sys/bus/pci/devices") if folder.is_dir()), root)
    present = sorted(path.parent.name for path in there.glob("*/config"))
    if not present:
        raise DeviceNotFoundError(f"{there}: there is no PCI device; choose the tree with --root")
    known = ", ".join(present[:8]) + (f" and {len(present) - 8} more" if len(present) > 8 else "")
    raise DeviceNotFoundError(f"{there}: there is no device {device}, only {known}; choose it with --device")


def _lock_holder(file: int) -> int | None:
    """The process that holds the lock on an open file, as far as the kernel tells."""
    status = os.fstat(file)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = Path("/proc/locks").read_text()
    except OSError:
        return None
    for line in locks.splitlines():
        fields = line.split()
        if fields[1:2] == ["FLOCK"] and place in fields:
            process = int(fields[4])
            return process if process > 0 else None
    return None
