"""The core's registers in a copy of a PCI function's config space, found by walking the capability list."""

from __future__ import annotations

from dataclasses import dataclass

from vrex.capabilities import VSEC_ID
from vrex.registers import CTRL_OFFSET, MAGIC, WINDOW_BYTES, Ctrl, Id, Status, Vsec

_VENDOR_SPECIFIC = 0x000B
_EXTENDED = 0x100
_END = 0x1000
ALL_ONES = 0xFFFF_FFFF
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
    """Walk the list of extended capabilities to the core's, as `vrex.capabilities.find_kv_asu` does.

    It is the vendor-specific one with our vendor-specific id whose ID register reads as ours does. Without such a one,
    it is the first with our id: what its ID register reads instead is a check's matter.

    Raises
    ------
    NoCore
        The list has no such capability, is broken, or lies outside of what was read.
    """
    offset = _EXTENDED
    seen: set[int] = set()
    ours: list[int] = []
    others: list[str] = []
    while offset:
        if offset < _EXTENDED:
            raise NoCore(f"the capability list is broken: it leads to {offset:#x}")
        if offset in seen:
            raise NoCore(f"the capability list is broken: it comes back to {offset:#x}")
        if offset + 4 > min(len(config), _END):
            raise NoCore(f"the capability list leads to {offset:#x}, and only {len(config)} bytes are there")
        seen.add(offset)
        header = _word(config, offset)
        if header == ALL_ONES:
            raise NoCore(f"the capability list is broken: {offset:#x} reads all ones")
        if header & 0xFFFF == _VENDOR_SPECIFIC and offset + WINDOW_BYTES <= _END:
            base = offset + CTRL_OFFSET
            vsec_id = Vsec(_word(config, base + Vsec.OFFSET)).vsec_id
            if vsec_id != VSEC_ID:
                others.append(f"{vsec_id:#06x} at {offset:#x}")
            elif Id(_word(config, base + Id.OFFSET)).magic == MAGIC:
                return _core(config, offset)
            else:
                ours.append(offset)
        offset = header >> 20 & ~3  # the low bits are reserved
    if ours:
        return _core(config, ours[0])
    passed = f" (vendor-specific ones of others: {', '.join(others)})" if others else ""
    raise NoCore(f"no KV-ASU capability in the list of extended capabilities{passed}")


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
