"""Build parameters of the KV-ASU: what a generated core may look like, checked once, derived once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from operator import attrgetter

#: The bits that name a byte inside a 256-byte line.
LINE_BITS = 8

#: The largest granule: 2^24 bytes.
MAX_LINE_SHIFT = 24

#: The capability in config space, with its header.
CAPABILITY_BYTES = 0x80

_RANGES: dict[str, range | tuple[int, ...]] = {
    "addr_width": range(32, 65),
    "log2_entries": range(3, 17),
    "window": (2, 4, 8, 16),
    "hash_stages": range(0, 7),
    "table_stages": range(0, 3),
    "stamp_width": range(8, 17),
    "config_base": range(0x100, 0x1000 - CAPABILITY_BYTES + 1, 4),
    "config_next": range(0, 0x1000, 4),
    "vendor_id": range(0, 0x10000),
    "vsec_id": range(0, 0x10000),
    "function": range(0, 256),
}

#: What a profile sets.
_of_a_profile = attrgetter("hash_stages", "table_stages", "stamp_width")

#: Those that are written in hexadecimal.
_HEXADECIMAL = frozenset({"config_base", "config_next", "vendor_id", "vsec_id"})


def shown(name: str, value: int) -> str:
    """A parameter's value as people write it."""
    return f"{value:#x}" if name in _HEXADECIMAL else f"{value}"


def _describe(name: str) -> str:
    allowed = _RANGES[name]
    if isinstance(allowed, tuple):
        return "one of " + ", ".join(map(str, allowed))
    step = f" in steps of {allowed.step}" if allowed.step > 1 else ""
    return f"{shown(name, allowed[0])} to {shown(name, allowed[-1])}{step}"


@dataclass(frozen=True)
class Params:
    """One build of the core.

    Parameters
    ----------
    addr_width : int
        Bits of a request address, 32 to 64.
    log2_entries : int
        log2 of the table's slots, 3 to 16.
    window : int
        Slots probed in parallel: 2, 4, 8 or 16, and at most half the entries.
    hash_stages : int
        Pipeline registers inside the hash, 0 to 6.
    table_stages : int
        Pipeline registers behind the table memories, 0 to 2.
    stamp_width : int
        Bits of a time stamp, 8 to 16.
    config_base : int
        Where the capability's header sits in config space; DWORD aligned; CTRL is 8 bytes above.
    config_next : int
        The next capability's offset, outside this one; 0 at the end of the list.
    vendor_id, vsec_id : int
        The ids in the capability's vendor-specific header.
    function : int
        The PCI function number (device and function byte) the core answers to.

    Raises
    ------
    TypeError
        A parameter is not an integer.
    ValueError
        A parameter is out of its range, or does not fit another.
    """

    addr_width: int = 64
    log2_entries: int = 11
    window: int = 8
    hash_stages: int = 0
    table_stages: int = 0
    stamp_width: int = 8
    config_base: int = 0x7F8
    config_next: int = 0
    vendor_id: int = 0x4B56
    vsec_id: int = 0x4B56
    function: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{field.name} must be an integer, not {value!r}")
            if value not in _RANGES[field.name]:
                raise ValueError(f"{field.name} must be {_describe(field.name)}, not {shown(field.name, value)}")
        if 2 * self.window > self.entries:
            raise ValueError(
                f"window must be at most half the {self.entries} entries (log2_entries={self.log2_entries}), "
                f"not {self.window!r}"
            )
        if self.config_next and self.config_next < 0x100:
            raise ValueError(f"config_next must be 0 or at least 0x100, not {self.config_next:#x}")
        end = self.config_base + CAPABILITY_BYTES
        if self.config_base <= self.config_next < end:  # a list that goes round in a circle
            raise ValueError(
                f"config_next must be outside this capability, {self.config_base:#x} to {end - 4:#x}, "
                f"not {self.config_next:#x}"
            )

    @classmethod
    def asic(cls, **changes: int) -> Params:
        """The asic profile: no pipeline registers, L = 1."""
        return cls(**{"hash_stages": 0, "table_stages": 0, **changes})

    @classmethod
    def fpga(cls, **changes: int) -> Params:
        """The fpga profile: enough stages for the best clock on an ECP5."""
        return cls(**{"hash_stages": 5, "table_stages": 2, **changes})

    @property
    def entries(self) -> int:
        """Slots of the table."""
        return 1 << self.log2_entries

    @property
    def rows(self) -> int:
        """Rows of each of the ``window`` banks."""
        return self.entries // self.window

    @property
    def log2_window(self) -> int:
        return self.window.bit_length() - 1

    @property
    def line_width(self) -> int:
        """Bits of a line number."""
        return self.addr_width - LINE_BITS

    @property
    def latency(self) -> int:
        """L: clocks from an operation to its answer."""
        return 1 + self.hash_stages + self.table_stages

    @property
    def list_follows(self) -> bool:
        """The recency list takes a touch in the clock after its decision, not in the same."""
        return self.table_stages == 2

    @property
    def t1_limit(self) -> int:
        """The largest T1.age in ticks that never lets a stamp alias."""
        return (1 << self.stamp_width) - 16

    @property
    def min_log2_active(self) -> int:
        """The smallest active table, as log2 of its entries: twice the window."""
        return self.log2_window + 1

    @property
    def profile(self) -> str:
        """The profile whose stages and stamp width these are, ``custom`` where it is none's."""
        return next((name for name, of in PROFILES.items() if _of_a_profile(of()) == _of_a_profile(self)), "custom")

    def asdict(self) -> dict[str, int]:
        """Every build parameter by its name."""
        return asdict(self)


PROFILES = {"asic": Params.asic, "fpga": Params.fpga}
