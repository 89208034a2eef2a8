"""Writing files, as `kv_asu.files` does it, with errors that a user may be told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import kv_asu.files
from vrex.errors import VrexError


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VrexError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from None


def check_file(*paths: Path) -> None:
    """See before the work that files can be put there.

    Raises
    ------
    VrexError
        One cannot; the text says why.
    """
    for path in paths:
        with _told(path):
            kv_asu.files.check_file(path)


def check_not_source(path: Path, *sources: Path) -> None:
    """See before the work that its result does not take the place of what it is made from.

    Raises
    ------
    VrexError
        It would, by whatever name or link.
    """
    for source in sources:
        with contextlib.suppress(OSError):  # a file that is not there is no source, or its reader says so
            if os.path.samefile(path, source):
                raise VrexError(f"{path}: is what it would be made from; name another file to write")


def check_outputs(*outputs: Path, sources: Iterable[Path] = ()) -> None:
    """See before the work that each of a command's results has a place of its own.

    Parameters
    ----------
    *outputs : Path
        The files that the command writes.
    sources : iterable of Path
        What it reads.

    Raises
    ------
    VrexError
        A result cannot be put there, or would take the place of a source or of another result.
    """
    given = list(sources)
    for number, path in enumerate(outputs):
        check_not_source(path, *given)
        check_file(path)
        if any(_are_one(path, other) for other in outputs[:number]):
            raise VrexError(f"{path}: would be written twice; give each result a file of its own")


def _are_one(path: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):  # one of them is not there yet
        return os.path.samefile(path, other)
    return kv_asu.files.place_of(path) == kv_asu.files.place_of(other)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside a file: it takes the file's place on a clean end, and vanishes on any other.

    A symbolic link stays, and the file it leads to is replaced.

    Yields
    ------
    Path
        An empty file to write to; no other writer has the same.

    Raises
    ------
    VrexError
        The place cannot be written to, or is a folder, a pipe or a device; or writing failed inside the block.
    """
    with _told(path), kv_asu.files.whole_file(path) as temporary:
        yield temporary
