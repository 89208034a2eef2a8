"""What a ``/sys/bus/pci`` with one device has in it."""

from __future__ import annotations

import errno
import os
import posixpath

from vrex.mount.config_file import ConfigFile
from vrex.transports.base import CONFIG_BYTES, Transport

#: Lines of ``resource``: six BARs and the expansion ROM.
_RESOURCES = 7


class PciTree:
    """Folders and files by their paths from the top, as Linux has them; all but ``config`` never change.

    Parameters
    ----------
    transport : Transport
        The function: its header fills the files that describe it.
    config : ConfigFile
        The same function, as a file.
    device : str
        Its address, like ``0000:00:02.0``.

    Attributes
    ----------
    config_path : str

    Raises
    ------
    VrexError
        The device cannot be reached.
    """

    def __init__(self, transport: Transport, config: ConfigFile, device: str) -> None:
        self.config = config
        folder = f"/devices/{device}"
        self.config_path = f"{folder}/config"
        self._texts = {f"{folder}/{name}": f"{text}\n".encode() for name, text in _attributes(transport).items()}
        self._folders: dict[str, set[str]] = {"/slots": set()}  # none of the machine's slots is known
        for path in (*self._texts, self.config_path, "/slots"):
            while path != "/":
                above, name = posixpath.split(path)
                self._folders.setdefault(above, set()).add(name)
                path = above

    def names(self, path: str) -> list[str] | None:
        """What is in a folder; None where there is no folder."""
        names = self._folders.get(path)
        return None if names is None else sorted(names)

    def size(self, path: str) -> int:
        """A file's bytes.

        Raises
        ------
        OSError
            ENOENT: there is no such file.
        """
        return CONFIG_BYTES if path == self.config_path else len(self._text(path))

    def read(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a file.

        Raises
        ------
        OSError
            ENOENT: there is no such file.
        VrexError
            The device cannot be reached.
        """
        if path == self.config_path:
            return self.config.read(offset, size)
        return self._text(path)[offset : offset + size]

    def _text(self, path: str) -> bytes:
        if path not in self._texts:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._texts[path]


def _attributes(transport: Transport) -> dict[str, str]:
    """The files that describe a function, by their names, from its header."""
    vendor, device = transport.read(0x00, 2), transport.read(0x02, 2)
    subsystem_vendor, subsystem_device = transport.read(0x2C, 2), transport.read(0x2E, 2)
    revision, interface = transport.read(0x08, 1), transport.read(0x09, 1)
    subclass, base = transport.read(0x0A, 1), transport.read(0x0B, 1)
    alias = (
        f"pci:v{vendor:08X}d{device:08X}sv{subsystem_vendor:08X}sd{subsystem_device:08X}"
        f"bc{base:02X}sc{subclass:02X}i{interface:02X}"
    )
    return {
        "vendor": f"{vendor:#06x}",
        "device": f"{device:#06x}",
        "subsystem_vendor": f"{subsystem_vendor:#06x}",
        "subsystem_device": f"{subsystem_device:#06x}",
        "class": f"0x{base:02x}{subclass:02x}{interface:02x}",
        "revision": f"{revision:#04x}",
        "irq": str(transport.read(0x3C, 1)),
        "resource": "\n".join([" ".join([f"{0:#018x}"] * 3)] * _RESOURCES),  # it decodes no memory
        "numa_node": "-1",
        "modalias": alias,
    }
