"""The boot chain of the device model: what must hold before the core has power, and so before it can be active.

Four links, in order: the boot loader's variable, the kernel's parameter, the driver's power state, and CTRL.ENABLE. The
first two are what the last boot has found; the third can be written at any time; the fourth is the device's own
register. The chain drives the device's ``power_good`` from the first three. The device then does the rest by itself:
without power it is inactive whatever ENABLE says, and it starts from an empty table when power comes back.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from kv_asu.register_map import CTRL_OFFSET
from kv_asu_firmware.pci_function import CONFIG_BYTES

#: What has to be set for the first two links.
VARIABLE = "gmc_kvasu"
PARAMETER = "gmc.kvasu"

#: Where the machine shows the links; `BootChain.write_tree` writes these files.
ENVIRONMENT_CONFIG = "etc/fw_env.config"
ENVIRONMENT = "boot/uboot.env"
COMMAND_LINE = "proc/cmdline"
POWER_STATE = "sys/bus/platform/drivers/gmc/kvasu_power_state"
CONFIG = "sys/bus/pci/devices/0000:00:02.0/config"

_ENVIRONMENT_BYTES = 0x2000


class Link(IntEnum):
    """The links of the boot chain, in the order in which they must hold."""

    BOOT_LOADER_VARIABLE = 1
    KERNEL_COMMAND_LINE = 2
    POWER_STATE = 3
    ENABLE = 4


class Device(Protocol):
    """What the chain needs of a device: the power pin, and its config space."""

    power_good: bool

    def read(self, offset: int, size: int) -> int | None: ...


class BootChain:
    """The machine around a device, as far as it decides about the device's power.

    Parameters
    ----------
    device : ConfigSpaceModel or alike
        Loses its power with the call, since a boot leaves the power state OFF. Looking at the fourth link is an
        access to its config space, with whatever time that takes.
    config_base : int
        Where the device's capability is.
    variables : mapping of str to str
        The boot loader's variables.
    command_line : str
        The kernel's.
    """

    def __init__(self, device: Device, config_base: int, variables: Mapping[str, str], command_line: str) -> None:
        self._device = device
        self._config_base = config_base
        self._power_on = False
        self.boot(variables, command_line)

    def boot(self, variables: Mapping[str, str], command_line: str) -> None:
        """Boot again, with these variables and this command line; the power state is OFF after a boot."""
        self._variables = dict(variables)
        self._command_line = command_line
        self.write_power_state("0")

    def write_power_state(self, value: str) -> None:
        """What writing to ``kvasu_power_state`` does: ``1`` switches the core's power on, ``0`` off.

        Without the first two links the driver notes what was written, and the core stays without power.

        Raises
        ------
        ValueError
            The value is another, as the driver's EINVAL.
        """
        if value.strip() not in ("0", "1"):
            raise ValueError(f"kvasu_power_state takes 0 or 1, not {value!r}")
        self._power_on = value.strip() == "1"
        self._device.power_good = self.power_good

    def read_power_state(self) -> str:
        """What reading ``kvasu_power_state`` gives."""
        return "ON" if self._power_on else "OFF"

    @property
    def power_good(self) -> bool:
        """Whether the first three links hold, so that the core has power."""
        return not self.missing - {Link.ENABLE}

    @property
    def missing(self) -> set[Link]:
        """The links that do not hold."""
        holds = {
            Link.BOOT_LOADER_VARIABLE: self._variables.get(VARIABLE) == "1",
            Link.KERNEL_COMMAND_LINE: _parameter(self._command_line, PARAMETER) == "1",
            Link.POWER_STATE: self._power_on,
            Link.ENABLE: bool(self._dword(self._config_base + CTRL_OFFSET) & 1),
        }
        return {link for link, held in holds.items() if not held}

    @property
    def status(self) -> str:
        """``ACTIVE`` when all links hold, else ``INACTIVE``. The core empties its table before it takes requests."""
        return "INACTIVE" if self.missing else "ACTIVE"

    def _dword(self, offset: int) -> int:
        value = self._device.read(offset, 4)
        return 0xFFFF_FFFF if value is None else value  # what a host reads where nobody answers

    def write_tree(self, root: Path) -> None:
        """Write the files in which the machine shows its links, under a folder that stands for its ``/``.

        The boot loader's variables are stored as U-Boot stores them, the config space as sysfs shows it.
        """
        strings = b"".join(f"{name}={value}".encode() + b"\0" for name, value in self._variables.items()) + b"\0"
        strings = strings.ljust(_ENVIRONMENT_BYTES - 4, b"\xff")
        config = b"".join(self._dword(offset).to_bytes(4, "little") for offset in range(0, CONFIG_BYTES, 4))
        for path, content in {
            ENVIRONMENT_CONFIG: f"/{ENVIRONMENT} 0x0 {_ENVIRONMENT_BYTES:#x}\n".encode(),
            ENVIRONMENT: zlib.crc32(strings).to_bytes(4, "little") + strings,
            COMMAND_LINE: f"{self._command_line}\n".encode(),
            POWER_STATE: f"{self.read_power_state()}\n".encode(),
            CONFIG: config,
        }.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def _parameter(command_line: str, name: str) -> str | None:
    """The last value of a kernel parameter; what follows ``--`` goes to the first process."""
    value = None
    for word in command_line.split():
        if word == "--":
            break
        key, _, text = word.replace('"', "").partition("=")
        if key.replace("-", "_") == name:
            value = text
    return value
