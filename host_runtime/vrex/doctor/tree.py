"""The files of the machine that is looked at: this one, or a folder that stands for its ``/``.

Everything is read through `Tree`, so that a check does not know which of the two it looks at. In a copy, symbolic links
lead where they would lead on the machine they come from: an absolute one starts at the folder, and none leaves it.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: More than any file that is looked at holds; what comes after is left out.
MOST_BYTES = 64 << 20

#: What drivers, device trees and copies put around a value, in any mixture.
PADDING = "\0 \t\r\n\v\f"

_MOST_LINKS = 40  # as the kernel has it
_COMMAND_SECONDS = 20
_MOST_QUOTED = 60
#: Administrator's commands are not on everybody's PATH.
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
#: Where people put a command's output before they pack a machine's files.
_SAVED_IN = ("/", "/root", "/tmp", "/var/log", "/etc", "/boot")
_SAVED_AS = (".txt", ".log", ".out")


class Undecided(Exception):
    """What was found does not tell; the message says why.

    Parameters
    ----------
    saw : str
    source : str
        The file or command.
    repair : str, optional
        How to find out.
    """

    def __init__(self, saw: str, source: str, repair: str | None = None) -> None:
        super().__init__(saw)
        self.saw = saw
        self.source = source
        self.repair = repair


class Missing(Undecided):
    """Neither a file, folder or command is there, nor another that would tell the same."""

    def __init__(self, *sources: str) -> None:
        super().__init__(f"{', '.join(sources)}: not found", ", ".join(sources))
        self.sources = sources


class Unreadable(Undecided):
    """Something is there and cannot be read."""

    def __init__(self, source: str, error: OSError) -> None:
        if isinstance(error, PermissionError):
            super().__init__(
                f"{source}: cannot be read: permission denied", source, "run vrex doctor with sudo, as root can read it"
            )
        else:
            super().__init__(f"{source}: cannot be read: {(error.strerror or str(error)).lower()}", source)


class Malformed(Undecided):
    """Something is there and readable, and is not what it ought to be."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"{source}: malformed: {why}", source)


class Empty(Malformed):
    """Nothing is in it, as in the copies that tar makes of procfs and sysfs."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "it is empty")


@dataclass(frozen=True)
class Output:
    """What a command has said, and where that was read."""

    text: str
    source: str


def printable(text: str) -> str:
    """Text of unknown origin as something to print: ASCII, without control characters but tabs."""
    ascii = text.encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() or letter == "\t" else f"\\x{ord(letter):02x}" for letter in ascii)


def quoted(text: str) -> str:
    """The beginning of such text between quotes."""
    text = text.strip()
    return f"'{printable(text)}'" if len(text) <= _MOST_QUOTED else f"'{printable(text[:_MOST_QUOTED])}...'"


def _steps(path: str) -> list[str]:
    """The steps of a path, the last one first."""
    return [step for step in reversed(path.split("/")) if step not in ("", ".")]


class Tree:
    """Reads the machine's files by the paths they have on it.

    Parameters
    ----------
    root : Path
        The folder that stands for ``/``; ``/`` itself is the running machine, where commands are run too.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.live = self.root == Path("/")

    def resolve(self, path: str) -> str:
        """The place of a path, every symbolic link followed inside the root.

        Raises
        ------
        Missing, Unreadable
            Nothing is there, or a folder on the way cannot be entered.
        """
        root = str(self.root).rstrip("/")
        left = _steps(path)
        done: list[str] = []
        links = 0
        while left:
            step = left.pop()
            if step == "..":
                del done[-1:]
                continue
            place = "/".join([root, *done, step])
            try:
                is_link = stat.S_ISLNK(os.lstat(place).st_mode)
                target = os.readlink(place) if is_link else ""
            except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: no file can have such a name
                raise Missing(path) from None
            except OSError as error:
                raise Unreadable(path, error) from None
            if not is_link:
                done.append(step)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise Unreadable(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
            if target.startswith("/"):
                done.clear()
            left.extend(_steps(target))
        return "/".join([root, *done]) or "/"

    def exists(self, path: str) -> bool:
        """Whether something is there; what cannot be entered counts as there."""
        try:
            self.resolve(path)
        except Missing:
            return False
        except Unreadable:
            return True
        return True

    def read(self, path: str, offset: int = 0, size: int = MOST_BYTES) -> bytes:
        """Read a file.

        Parameters
        ----------
        path : str
        offset, size : int
            From which byte on (below 0: from the file's end), and how many bytes at most.

        Raises
        ------
        Missing, Unreadable
            It is not there; it may not be read, or is no file. Devices are read on the running machine only.
        """
        place = self.resolve(path)
        try:
            # A pipe in a stranger's tree must not make us wait.
            handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:
                mode = os.fstat(handle).st_mode
                if not (stat.S_ISREG(mode) or (self.live and (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)))):
                    kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
                    raise OSError(kind, os.strerror(kind))
                if offset:
                    file.seek(offset, os.SEEK_SET if offset > 0 else os.SEEK_END)
                pieces = []
                while size > 0 and (piece := file.read(size)):
                    pieces.append(piece)
                    size -= len(piece)
                return b"".join(pieces)
        except OSError as error:
            raise Unreadable(path, error) from None

    def text(self, path: str) -> str:
        """Read a file as text; bytes that are none become replacement characters. Raises as `read` does."""
        return self.read(path).decode("utf-8", "replace")

    def line(self, path: str) -> str:
        """Read a file of one value, as those of sysfs and procfs are.

        Raises
        ------
        Missing, Unreadable
            As for `read`.
        Malformed
            It is empty (`Empty`), or longer than a line.
        """
        lines = [line.strip(PADDING) for line in self.text(path).strip(PADDING).split("\n")]
        if len(lines) > 1:
            raise Malformed(path, f"one line expected, not {len(lines)}")
        if not lines[0]:
            raise Empty(path)
        return lines[0]

    def entries(self, folder: str) -> list[str]:
        """The names in a folder, in order. Raises as `read` does."""
        try:
            return sorted(os.listdir(self.resolve(folder)))
        except OSError as error:
            raise Unreadable(folder, error) from None

    def folders(self, folder: str) -> Iterator[str]:
        """The paths of all folders under a folder, at any depth; symbolic links are not followed, so it ends."""
        try:
            top = self.resolve(folder)
        except Undecided:
            return
        for place, names, _ in os.walk(top):
            names.sort()
            yield from (f"{folder}/{Path(place, name).relative_to(top)}" for name in names)

    def glob(self, folder: str, pattern: str) -> Iterator[str]:
        """The paths in a folder whose names fit; none when the folder is not there."""
        try:
            names = self.entries(folder)
        except Missing:
            return
        yield from (f"{folder.rstrip('/')}/{name}" for name in fnmatch.filter(names, pattern))

    def output(self, *command: str) -> Output:
        """What a command says: run on this machine, or saved in a copy as ``COMMAND.txt`` beside other files.

        Raises
        ------
        Missing
            The command is not installed, or the copy holds no output of it.
        Unreadable
            It failed for want of permission.
        """
        if self.live:
            return self._run(command)
        for folder in _SAVED_IN:
            for suffix in _SAVED_AS:
                path = f"{folder.rstrip('/')}/{command[0]}{suffix}"
                if self.exists(path):
                    return Output(self.text(path), path)
        raise Missing(f"{command[0]}.txt, the saved output of {' '.join(command)}")

    def _run(self, command: tuple[str, ...]) -> Output:
        program = shutil.which(command[0], path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
        name = " ".join(command)
        if program is None:
            raise Missing(name)
        try:
            done = subprocess.run(
                [program, *command[1:]],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_COMMAND_SECONDS,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise Undecided(f"{name}: no answer within {_COMMAND_SECONDS} s", name) from None
        except OSError as error:
            raise Unreadable(name, error) from None
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode and "ermission denied" in text:
            raise Unreadable(name, PermissionError(errno.EACCES, "permission denied"))
        return Output(text, name)
