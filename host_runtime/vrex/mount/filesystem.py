"""A `PciTree` as FUSE asks for it. Imports libfuse, so only `vrex.mount.serving` imports this, late."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mfusepy

from vrex.errors import VrexError
from vrex.mount.tree import PciTree


class PciFilesystem(mfusepy.Operations):
    """A tree whose ``config`` can be written, and nothing else; it belongs to who serves it.

    Parameters
    ----------
    tree : PciTree
    mounted : callable
        Called once, when it is mounted.
    """

    use_ns = True

    def __init__(self, tree: PciTree, mounted: Callable[[], None]) -> None:
        self._tree = tree
        self._mounted = mounted
        self._since = time.time_ns()

    def init(self, path: str) -> None:
        self._mounted()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        owner |= dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self._since)
        names = self._tree.names(path)
        if names is not None:
            return {**owner, "st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        mode = 0o644 if path == self._tree.config_path else 0o444
        return {**owner, "st_mode": stat.S_IFREG | mode, "st_nlink": 1, "st_size": self._tree.size(path)}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *(self._tree.names(path) or ())]

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._check_writable(path)
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Leave a file as long as it is: what opening it to be overwritten asks for does nothing in sysfs either."""
        self._check_writable(path)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        with _told():
            return self._tree.read(path, offset, size)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with _told():
            return self._tree.config.write(offset, data)

    # What sysfs refuses; without these, the kernel would say that the call does not exist.

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def mknod(self, path: str, mode: int, dev: int) -> int:
        raise _not_permitted()

    def mkdir(self, path: str, mode: int) -> int:
        raise _not_permitted()

    def unlink(self, path: str) -> int:
        raise _not_permitted()

    def rmdir(self, path: str) -> int:
        raise _not_permitted()

    def rename(self, old: str, new: str) -> int:
        raise _not_permitted()

    def link(self, target: str, source: str) -> int:
        raise _not_permitted()

    def symlink(self, target: str, source: str) -> int:
        raise _not_permitted()

    def chmod(self, path: str, mode: int) -> int:
        raise _not_permitted()

    def chown(self, path: str, uid: int, gid: int) -> int:
        raise _not_permitted()

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        raise _not_permitted()

    def _check_writable(self, path: str) -> None:
        if path != self._tree.config_path:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def _not_permitted() -> OSError:
    return OSError(errno.EPERM, os.strerror(errno.EPERM))


@contextmanager
def _told() -> Iterator[None]:
    """What a device in trouble is to the kernel."""
    try:
        yield
    except VrexError:
        raise OSError(errno.EIO, os.strerror(errno.EIO)) from None
