"""The core's registers in a copy of a PCI function's config space, found by walking the capability list."""

from __future__ import annotations

from dataclasses import dataclass

from vrex.registers import CTRL_OFFSET, MAGIC, WINDOW_BYTES, Ctrl, Id, Status, Vsec

_VENDOR_SPECIFIC = 0x000B
_EXTENDED = 0x100
_END = 0x1000
_ALL_ONES = 0xFFFF_FFFF
_OUR_VSEC_ID = 0x4B56
_POWER_MANAGEMENT = 0x01
_D3HOT = 3


class NoCore(Exception):
    """The registers are not to be found; the message says why."""


@dataclass(frozen=True)
class Core:
    """The core's capability and the registers that tell whether it is up."""

    base: int
    ctrl: Ctrl
    status: Status
    id: Id

    @property
    def ctrl_offset(self) -> int:
        """Where CTRL is, in bytes from the start of config space."""
        return self.base + CTRL_OFFSET


def vendor_and_device(config: bytes) -> tuple[int, int]:
    """The ids at the start of config space."""
    return int.from_bytes(config[0:2], "little"), int.from_bytes(config[2:4], "little")


def sleeps(config: bytes) -> bool:
    """Whether the function is in D3hot, by its power management capability."""
    offset = config[0x34] & ~3 if len(config) >= _EXTENDED else 0
    for _ in range(_EXTENDED // 4):  # a list in a circle ends too
        if offset < 0x40:
            return False
        if config[offset] == _POWER_MANAGEMENT:
            return config[offset + 4] & 3 == _D3HOT
        offset = config[offset + 1] & ~3
    return False


def find_core(config: bytes) -> Core:
    """Walk the list of extended capabilities to the core's.

    It is the vendor-specific one that carries our vendor-specific id, or whose ID register reads as ours does.

    Raises
    ------
    NoCore
        The list has no such capability, is broken, or lies outside of what was read.
    """
    offset = _EXTENDED
    seen: set[int] = set()
    while offset:
        if offset < _EXTENDED or offset % 4:
            raise NoCore(f"the capability list is broken: it leads to {offset:#x}")
        if offset in seen:
            raise NoCore(f"the capability list is broken: it comes back to {offset:#x}")
        if offset + 4 > min(len(config), _END):
            raise NoCore(f"the capability list leads to {offset:#x}, and only {len(config)} bytes are there")
        seen.add(offset)
        header = _word(config, offset)
        if header == _ALL_ONES:
            raise NoCore(f"the capability list is broken: {offset:#x} reads all ones")
        if header & 0xFFFF == _VENDOR_SPECIFIC and offset + WINDOW_BYTES <= _END:
            base = offset + CTRL_OFFSET
            vsec_id = Vsec(_word(config, base + Vsec.OFFSET)).vsec_id
            if vsec_id == _OUR_VSEC_ID or Id(_word(config, base + Id.OFFSET)).magic == MAGIC:
                return _core(config, offset)
        offset = header >> 20
    raise NoCore("no KV-ASU capability in the list of extended capabilities")


def _core(config: bytes, base: int) -> Core:
    ctrl = base + CTRL_OFFSET
    if len(config) < ctrl + Id.OFFSET + 4:
        raise NoCore(f"the capability at {base:#x} is cut off: only {len(config)} bytes are there")
    return Core(
        base,
        Ctrl(_word(config, ctrl + Ctrl.OFFSET)),
        Status(_word(config, ctrl + Status.OFFSET)),
        Id(_word(config, ctrl + Id.OFFSET)),
    )


def _word(config: bytes, offset: int) -> int:
    """The DWORD at an offset; 0 where nothing was read."""
    return int.from_bytes(config[offset : offset + 4], "little")
