"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from vrex.errors import VrexError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`: it takes `path`'s place on a clean end, and vanishes on any other.

    Yields
    ------
    Path
        An empty file to write to.

    Raises
    ------
    VrexError
        The place cannot be written to, or writing failed inside the block.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.touch()
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise VrexError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
