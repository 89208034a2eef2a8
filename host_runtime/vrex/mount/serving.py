"""Mounting a tree, until a signal or ``fusermount3 -u`` ends it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from kv_asu.installing import way_out
from vrex.errors import VrexError
from vrex.mount.config_file import ConfigFile
from vrex.mount.tree import PciTree
from vrex.mount.turns import Turns
from vrex.transports.base import Transport
from vrex.transports.sysfs import DEVICE

#: Clocks between two calls of the programs that look, where no traffic makes time pass: 8 us at 2 ns, about what the
#: way through a kernel to a device and back takes.
IDLE_CLOCKS = 4096

_INSTALL = "apt-get install fuse3, modprobe fuse"
_CONTAINER = "a container needs --device /dev/fuse --cap-add SYS_ADMIN (docker: --security-opt apparmor:unconfined too)"


def check_folder(folder: Path) -> None:
    """See that a tree can be mounted there.

    Raises
    ------
    VrexError
        It is no empty folder, or something is mounted there.
    """
    try:
        if not folder.exists():
            raise VrexError(f"{folder}: no such folder; make it with mkdir")
        if not folder.is_dir():
            raise VrexError(f"{folder}: not a folder; choose an empty one")
        if os.path.ismount(folder.resolve()):
            raise VrexError(f"{folder}: something is mounted there; {_unmount(folder)} or choose another folder")
        if any(folder.iterdir()):
            raise VrexError(f"{folder}: not empty, and what is in it would be hidden; choose an empty folder")
    except OSError as error:  # what a server that was killed leaves behind cannot even be looked at
        raise VrexError(f"{folder}: {error.strerror}; after a server that was killed: {_unmount(folder)}") from None


def check_fuse() -> None:
    """See that this machine has FUSE.

    Raises
    ------
    VrexError
        It has not; the text says how to get it.
    """
    try:
        import mfusepy  # noqa: F401
    except ModuleNotFoundError:
        raise VrexError(f"mount needs mfusepy, which is not installed: {way_out('mfusepy')}") from None
    except (OSError, AttributeError):
        raise VrexError(f"mount needs libfuse, which was not found: {_INSTALL}") from None
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise VrexError(f"mount needs /dev/fuse ({error.strerror}): {_way_out()}") from None


def serve(
    transport: Transport,
    folder: Path,
    *,
    turns: Turns | None = None,
    idle_clocks: int = 0,
    mounted: Callable[[], None] = lambda: None,
) -> None:
    """Serve a device in a folder until it is unmounted, or until SIGINT, SIGTERM or SIGHUP; it is unmounted then.

    If the process is killed, ``fusermount3`` unmounts, unless a program has a file open. The calls to the transport
    come from this thread.

    Parameters
    ----------
    transport : Transport
        The device.
    folder : Path
        An empty folder.
    turns : Turns, optional
        Who else uses the device.
    idle_clocks : int
        As for `ConfigFile`.
    mounted : callable
        Called, by this thread, when the tree is there; it must not touch it.

    Raises
    ------
    VrexError
        The folder will not do, or FUSE is not allowed here.
    """
    check_folder(folder)
    check_fuse()
    from mfusepy import FUSE

    from vrex.mount.filesystem import PciFilesystem

    tree = PciTree(transport, ConfigFile(transport, turns or Turns(), idle_clocks), DEVICE)
    told = False
    with _held_stderr() as complaints, _signals_for_libfuse():

        def begin() -> None:
            nonlocal told
            complaints.release()
            told = True
            mounted()

        # One thread, so that whoever calls decides which thread the device is used from. direct_io: every read
        # reaches the device, in its own size. auto_unmount: fusermount outlives us and cleans up.
        options = {"foreground": True, "nothreads": True, "direct_io": True, "auto_unmount": True}
        try:
            FUSE(PciFilesystem(tree, begin), str(folder), fsname="vrex", **options)
        except RuntimeError:  # libfuse's exit code: also for an end by signal
            if not told:
                why = complaints.text() or "libfuse does not say why"
                raise VrexError(f"{folder}: cannot be mounted: {why}; {_way_out()}") from None


def _way_out() -> str:
    """What is installed need not be installed: then it is a matter of what this process may do."""
    missing = not Path("/dev/fuse").exists() or shutil.which("fusermount3") is None
    return f"{_INSTALL}; {_CONTAINER}" if missing else _CONTAINER


def _unmount(folder: Path) -> str:
    return f"fusermount3 -u {shlex.quote(str(folder))}"


class _Complaints:
    """What libfuse writes to standard error, instead of it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stderr: int | None = os.dup(2)
        os.dup2(file.fileno(), 2)

    def release(self) -> None:
        """Let standard error be what it was."""
        if self._stderr is not None:
            os.dup2(self._stderr, 2)
            os.close(self._stderr)
            self._stderr = None

    def text(self) -> str:
        """In one line."""
        self._file.seek(0)
        return "; ".join(self._file.read().decode(errors="replace").split("\n")).strip("; ")


@contextlib.contextmanager
def _held_stderr() -> Iterator[_Complaints]:
    with tempfile.TemporaryFile() as file:
        complaints = _Complaints(file)
        try:
            yield complaints
        finally:
            complaints.release()


@contextlib.contextmanager
def _signals_for_libfuse() -> Iterator[None]:
    """Let libfuse see the signals that end it: it leaves those alone that have a handler already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
