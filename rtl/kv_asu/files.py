"""Writing files so that nobody ever sees half of one, and that nothing but a file is ever replaced by one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40  # as the kernel has it
_NAME_KEPT = 40  # of a file's name in that of its unfinished self, which must not become too long

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "an open file's name",
}


def place_of(path: Path) -> Path:
    """Where writing to a path ends: symbolic links are followed, also to what is not there yet.

    The links in ``/proc`` that stand for open files, where ``/dev/stdout`` leads, are no way to another name: followed
    they would lose what has been opened.

    Raises
    ------
    OSError
        ELOOP: the links go round in a circle. EACCES: a folder cannot be entered.
    """
    place = os.fspath(path)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(place)
        if name in ("", ".", ".."):
            return Path(os.path.realpath(place))
        folder = os.path.realpath(folder)
        place = os.path.join(folder, name)
        if folder.startswith("/proc/") or not os.path.islink(place):
            return Path(place)
        place = os.path.join(folder, os.readlink(place))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def is_stream(path: Path) -> bool:
    """Whether what has this name is written to as it stands: a pipe, a device, ``/dev/stdout``."""
    kind = _kind(place_of(path))
    return kind is not None and kind not in (stat.S_IFREG, stat.S_IFDIR)


def check_file(path: Path) -> Path:
    """See that a file can be put there, or take the place of the one that is; `whole_file` makes missing folders.

    Returns
    -------
    Path
        The place, as `place_of` finds it.

    Raises
    ------
    OSError
        EISDIR: it is a folder. EEXIST: it is something else that is no file. ENOTDIR: what should be a folder on the
        way is none. EACCES: its folder, or the one that a missing folder would be made in, may not be written. Others:
        no file can be made there.
    """
    place = place_of(path)
    kind = _kind(place)
    if kind == stat.S_IFDIR:
        raise OSError(errno.EISDIR, "it is a folder")
    if kind not in (None, stat.S_IFREG):
        raise OSError(errno.EEXIST, f"it is {_KINDS.get(kind, 'no file')}, which no file may replace")
    there = next(folder for folder in place.parents if os.path.lexists(folder))
    if not there.is_dir():
        raise OSError(errno.ENOTDIR, f"{there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, f"{there} may not be written")
    try:
        tempfile.TemporaryFile(dir=there).close()  # /proc, for one, lets root write to it and takes no files
    except OSError as error:
        raise OSError(error.errno, f"{there} takes no files") from None
    return place


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside a file: it takes the file's place on a clean end, and vanishes on any other.

    A symbolic link stays, and the file it leads to is replaced. Folders that are missing are made, and vanish with it.

    Yields
    ------
    Path
        An empty file to write to; no other writer, of this process or another, has the same.

    Raises
    ------
    OSError
        As `check_file`, at the beginning and at the end.
    """
    place = check_file(path)
    temporary = place.with_name(f".{place.name[:_NAME_KEPT]}.{secrets.token_hex(6)}.part")
    made = [folder for folder in place.parents if not folder.exists()]
    process = os.getpid()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        yield temporary
        temporary.replace(check_file(place))
    finally:
        if os.getpid() == process:  # a child made by fork leaves its parent's file alone
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # a folder that holds something, the file above all, stays
                for folder in made:
                    folder.rmdir()


def write_stream(path: Path, text: str) -> None:
    """Write to what `is_stream`, behind what is there already; raises OSError."""
    place = place_of(path)
    ours = str(place.parent) == f"/proc/{os.getpid()}/fd" and place.name.isdecimal()
    # Opened anew, a file that is standard output would be written from its own beginning on, and a socket not at all.
    with open(os.dup(int(place.name)) if ours else place, "w" if ours else "a", encoding="utf-8") as stream:
        stream.write(text)


def _kind(place: Path) -> int | None:
    """The kind of what is there, as ``st_mode`` has it; None where nothing is."""
    try:
        mode = os.lstat(place).st_mode
        if stat.S_ISLNK(mode) and stat.S_ISDIR(os.stat(place).st_mode):  # an open folder's name
            return stat.S_IFDIR
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None  # `check_file` says which folder is none
    return stat.S_IFMT(mode)
