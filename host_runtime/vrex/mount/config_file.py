"""The ``config`` file: bytes of any number at any place, as accesses that a PCI function can take."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from vrex.mount.turns import Turns
from vrex.transports.base import CONFIG_BYTES, Bus, Transport


def accesses(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Offset and size of the accesses that Linux makes of one read or write (``drivers/pci/pci-sysfs.c``).

    Bytes and words up to the first whole DWORD, DWORDs, then what is left; each is aligned to its size of 1, 2 or 4
    bytes.
    """
    end = offset + size
    while offset < end:
        left = end - offset
        step = 1 if offset & 1 or left < 2 else 2 if offset & 2 or left < 4 else 4
        yield offset, step
        offset += step


class ConfigFile:
    """A function's config space as a file.

    What one call of a program reads or writes happens at once: nobody else's accesses, and no traffic, come between.

    Parameters
    ----------
    transport : Transport
        The function.
    turns : Turns
        Who else uses it.
    idle_clocks : int
        Clocks that a `Bus` lets pass before each call. Its time stands still by itself, and a program that has started
        something wants to find it done.
    """

    def __init__(self, transport: Transport, turns: Turns, idle_clocks: int = 0) -> None:
        self._transport = transport
        self._turns = turns
        self._idle_clocks = idle_clocks

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; there are none behind the end.

        Raises
        ------
        VrexError
            The device cannot be reached.
        """
        parts = []
        with self._turns.access():
            self._let_time_pass()
            for at, step in accesses(offset, min(size, CONFIG_BYTES - offset)):
                parts.append(self._transport.read(at, step).to_bytes(step, "little"))
        return b"".join(parts)

    def write(self, offset: int, data: bytes) -> int:
        """Write the bytes that have a place; how many.

        Raises
        ------
        OSError
            EFBIG: the first is behind the end.
        VrexError
            The device cannot be reached.
        """
        if offset >= CONFIG_BYTES and data:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        size = min(len(data), CONFIG_BYTES - offset)
        with self._turns.access():
            self._let_time_pass()
            for at, step in accesses(offset, size):
                value = int.from_bytes(data[at - offset : at - offset + step], "little")
                self._transport.write(at, value, step)
        return size

    def _let_time_pass(self) -> None:
        if self._idle_clocks and isinstance(self._transport, Bus):
            self._transport.idle(self._idle_clocks)
