"""The KV-ASU's registers, for host code.

Generated from registers.rdl by `python -m kv_asu.registers_gen`; do not edit.
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False  # what typing says to a type checker; importing that takes longer than all of this
if TYPE_CHECKING:
    from typing import Self

#: Bytes of the capability, headers included.
WINDOW_BYTES = 0x80

#: Where CTRL sits in the capability.
CTRL_OFFSET = 0x08

#: What ID.MAGIC reads, and the versions of the register map that this file describes.
MAGIC = 0x4B56
MAJOR = 1
MINOR = 0


class Decay(IntEnum):
    """Values of CTRL.DECAY."""

    HOLD = 0
    """The counter goes on from where it stood."""
    HALVE = 1
    """The counter is halved, rounding down."""
    CLEAR = 2
    """The counter starts again from 0."""


class VictimStatus(IntEnum):
    """Values of EVICT.STATUS."""

    EMPTY = 0
    """No line is at T-level 0."""
    FOUND = 1
    """A line was taken out of the table."""
    RETRY = 2
    """The tail is being moved or fetched: ask again. Seen at the hardware port only; the EVICT register retries by
    itself."""


class Counter(IntEnum):
    """Values of COUNTER_SELECT.INDEX."""

    CYCLES = 0
    """Clocks in which the core was active."""
    REQUESTS = 1
    """Requests taken while active."""
    HITS = 2
    """Requests whose line had a slot already."""
    LEVEL0 = 3
    """Requests whose line was at T-level 0, or had no slot, just before."""
    LEVEL1 = 4
    """Requests whose line was at T-level 1 just before."""
    LEVEL2 = 5
    """Requests whose line was at T-level 2 just before."""
    LEVEL3 = 6
    """Requests whose line was at T-level 3 just before."""
    INSERTS = 7
    """Lines given a slot, spills included."""
    UNTRACKED = 8
    """Requests that got no slot: their whole window was live."""
    SPILLS = 9
    """Cold lines that lost their slot to a new line."""
    RESCUES = 10
    """Touches of a cold line that still had its slot."""
    DEMOTIONS = 11
    """Lines that fell to T-level 0."""
    EVICTIONS = 12
    """Lines taken out by evict commands and the EVICT register."""
    QUERIES = 13
    """Queries answered while active, from the port and the QUERY register."""
    QUERY_HITS = 14
    """Queries whose line was tracked at or above the level asked for."""


class Field:
    """Where a field sits in its register, and how it is accessed."""

    __slots__ = ("access", "low", "name", "reset", "width")

    def __init__(self, name: str, low: int, width: int, access: str, reset: int) -> None:
        self.name = name
        self.low = low
        self.width = width
        self.access = access
        self.reset = reset


class Register(int):
    """A register's value: an integer whose fields are attributes."""

    NAME: str
    #: Bytes from CTRL, which sits 8 bytes above the capability's header.
    OFFSET: int
    #: Writable only while CTRL.ENABLE is 0.
    STRUCTURAL = False
    #: By their names in lower case, which are the attributes' names.
    FIELDS: dict[str, Field]

    @classmethod
    def of(cls, **fields: int) -> Self:
        """The register with ``fields`` as given and every other bit 0.

        Raises
        ------
        TypeError
            There is no such field.
        ValueError
            A value does not fit its field.
        """
        return cls(0).replace(**fields)

    def replace(self, **fields: int) -> Self:
        """This value with ``fields`` changed; raises as :meth:`of` does."""
        word = int(self)
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise TypeError(f"{self.NAME} has no field {name!r}, only {', '.join(self.FIELDS)}")
            field = self.FIELDS[name]
            most = (1 << field.width) - 1
            if not 0 <= value <= most:
                raise ValueError(f"{self.NAME}.{field.name} must be 0 to {most}, not {value!r}")
            word = word & ~(most << field.low) | value << field.low
        return type(self)(word)

    def fields(self) -> dict[str, int]:
        """Every field's value by its name, from the least significant on."""
        return {field.name: self >> field.low & (1 << field.width) - 1 for field in self.FIELDS.values()}

    def __repr__(self) -> str:
        return f"{self.NAME} {self:#010x} ({', '.join(f'{name} {value:#x}' for name, value in self.fields().items())})"


class Capability(Register):
    """Extended capability header. PCI Express Base Specification, vendor-specific extended capability."""

    NAME = "CAPABILITY"
    OFFSET = -0x08
    FIELDS = {
        "capability_id": Field("CAPABILITY_ID", 0, 16, "constant", 0x0B),
        "version": Field("VERSION", 16, 4, "constant", 0x01),
        "next": Field("NEXT", 20, 12, "constant", 0x00),
    }

    @property
    def capability_id(self) -> int:
        """0x000B: vendor-specific."""
        return int(self & 0xFFFF)

    @property
    def version(self) -> int:
        """Capability version."""
        return int(self >> 16 & 0xF)

    @property
    def next(self) -> int:
        """Offset of the next capability; 0 ends the list. Reads the build's config_next; 0 by default."""
        return int(self >> 20 & 0xFFF)


class Vsec(Register):
    """Vendor-specific header. Tells this capability from others of the same vendor."""

    NAME = "VSEC"
    OFFSET = -0x04
    FIELDS = {
        "vsec_id": Field("VSEC_ID", 0, 16, "constant", 0x4B56),
        "revision": Field("REVISION", 16, 4, "constant", 0x01),
        "length": Field("LENGTH", 20, 12, "constant", 0x80),
    }

    @property
    def vsec_id(self) -> int:
        """The vendor's id of this capability. Reads the build's vsec_id; 19286 by default."""
        return int(self & 0xFFFF)

    @property
    def revision(self) -> int:
        """Revision of the layout."""
        return int(self >> 16 & 0xF)

    @property
    def length(self) -> int:
        """Bytes of the whole capability, headers included."""
        return int(self >> 20 & 0xFFF)


class Ctrl(Register):
    """Control. Enables the core and starts its one-shot actions. Actions written together all happen; SNAPSHOT takes
    the values that CLEAR is about to zero."""

    NAME = "CTRL"
    OFFSET = 0x00
    FIELDS = {
        "enable": Field("ENABLE", 0, 1, "read-write", 0x00),
        "flush": Field("FLUSH", 1, 1, "write 1 to do", 0x00),
        "snapshot": Field("SNAPSHOT", 2, 1, "write 1 to do", 0x00),
        "clear": Field("CLEAR", 3, 1, "write 1 to do", 0x00),
        "decay": Field("DECAY", 4, 2, "read-write", 0x00),
        "reclaim_off": Field("RECLAIM_OFF", 6, 1, "read-write", 0x00),
    }

    @property
    def enable(self) -> bool:
        """1: the core tracks requests, once STATUS.ACTIVE says so. Enabling always starts from an empty table."""
        return bool(self & 0x1)

    @property
    def flush(self) -> bool:
        """Write 1: empty the table and restart the tick; the counters go on. Nothing happens while ENABLE is 0. Reads
        0."""
        return bool(self >> 1 & 0x1)

    @property
    def snapshot(self) -> bool:
        """Write 1: latch all the counters at once, for COUNTER_LO and COUNTER_HI to show. Reads 0."""
        return bool(self >> 2 & 0x1)

    @property
    def clear(self) -> bool:
        """Write 1: zero the counters; what SNAPSHOT latched stays. Reads 0."""
        return bool(self >> 3 & 0x1)

    @property
    def decay(self) -> Decay:
        """What becomes of a cold line's access counter when the line is touched again, before the touch is counted.
        Allowed: 0 to 2; a write of any other value is refused."""
        return Decay(self >> 4 & 0x3)

    @property
    def reclaim_off(self) -> bool:
        """1: a new line never takes the slot of a cold one; with its window full it is not tracked."""
        return bool(self >> 6 & 0x1)


class Status(Register):
    """Status. What the core is doing."""

    NAME = "STATUS"
    OFFSET = 0x04
    FIELDS = {
        "active": Field("ACTIVE", 0, 1, "status", 0x00),
        "busy": Field("BUSY", 1, 1, "status", 0x00),
        "cold_available": Field("COLD_AVAILABLE", 2, 1, "status", 0x00),
        "powered": Field("POWERED", 3, 1, "status", 0x00),
    }

    @property
    def active(self) -> bool:
        """Requests are tracked."""
        return bool(self & 0x1)

    @property
    def busy(self) -> bool:
        """The table is being emptied: after ENABLE, FLUSH or the return of power."""
        return bool(self >> 1 & 0x1)

    @property
    def cold_available(self) -> bool:
        """At least one line is at T-level 0. May lag by 2^TICK_SHIFT + 8 clocks."""
        return bool(self >> 2 & 0x1)

    @property
    def powered(self) -> bool:
        """Power is good. Without it the core is not active."""
        return bool(self >> 3 & 0x1)


class Id(Register):
    """Identity. Host and hardware agree by it: the major version must be the same, a newer minor version is fine."""

    NAME = "ID"
    OFFSET = 0x08
    FIELDS = {
        "minor": Field("MINOR", 0, 8, "constant", 0x00),
        "major": Field("MAJOR", 8, 8, "constant", 0x01),
        "magic": Field("MAGIC", 16, 16, "constant", 0x4B56),
    }

    @property
    def minor(self) -> int:
        """Minor version of the register map."""
        return int(self & 0xFF)

    @property
    def major(self) -> int:
        """Major version of the register map."""
        return int(self >> 8 & 0xFF)

    @property
    def magic(self) -> int:
        """0x4B56, 'KV'."""
        return int(self >> 16 & 0xFFFF)


class Params(Register):
    """Build parameters. How this core was built."""

    NAME = "PARAMS"
    OFFSET = 0x0C
    FIELDS = {
        "log2_entries": Field("LOG2_ENTRIES", 0, 5, "constant", 0x0B),
        "window": Field("WINDOW", 5, 5, "constant", 0x08),
        "latency": Field("LATENCY", 10, 4, "constant", 0x01),
        "stamp_width": Field("STAMP_WIDTH", 14, 5, "constant", 0x08),
        "addr_width": Field("ADDR_WIDTH", 19, 7, "constant", 0x40),
    }

    @property
    def log2_entries(self) -> int:
        """log2 of the table's slots. Reads the build's log2_entries; 11 by default."""
        return int(self & 0x1F)

    @property
    def window(self) -> int:
        """Slots probed in parallel. Reads the build's window; 8 by default."""
        return int(self >> 5 & 0x1F)

    @property
    def latency(self) -> int:
        """L: clocks from an operation to its answer. Reads the build's latency; 1 by default."""
        return int(self >> 10 & 0xF)

    @property
    def stamp_width(self) -> int:
        """Bits of a time stamp. Reads the build's stamp_width; 8 by default."""
        return int(self >> 14 & 0x1F)

    @property
    def addr_width(self) -> int:
        """Bits of a request address. Reads the build's addr_width; 64 by default."""
        return int(self >> 19 & 0x7F)


class Geometry(Register):
    """Table geometry. How much of the table is used, and what one slot stands for. Writable only while CTRL.ENABLE is
    0; at other times the write is refused."""

    NAME = "GEOMETRY"
    OFFSET = 0x10
    STRUCTURAL = True
    FIELDS = {
        "log2_active": Field("LOG2_ACTIVE", 0, 5, "read-write", 0x0B),
        "line_shift": Field("LINE_SHIFT", 8, 5, "read-write", 0x08),
    }

    @property
    def log2_active(self) -> int:
        """log2 of the slots in use: from twice the window to the built size. Resets to the build's log2_entries; 11 by
        default. Allowed: min_log2_active to log2_entries; a write of any other value is refused."""
        return int(self & 0x1F)

    @property
    def line_shift(self) -> int:
        """log2 of the granule in bytes: 8 is a 256-byte line, more is a block of lines. Allowed: 8 to 24; a write of
        any other value is refused."""
        return int(self >> 8 & 0x1F)


class Timebase(Register):
    """Time base. The unit of all ages. Writable only while CTRL.ENABLE is 0; at other times the write is refused."""

    NAME = "TIMEBASE"
    OFFSET = 0x14
    STRUCTURAL = True
    FIELDS = {
        "tick_shift": Field("TICK_SHIFT", 0, 5, "read-write", 0x02),
    }

    @property
    def tick_shift(self) -> int:
        """A tick lasts 2^TICK_SHIFT clocks. Allowed: 0 to 24; a write of any other value is refused."""
        return int(self & 0x1F)


class T3(Register):
    """T-level 3 thresholds. A line is at T-level 3 when its counter is at least COUNT and its age at most AGE. Changes
    live."""

    NAME = "T3"
    OFFSET = 0x18
    FIELDS = {
        "count": Field("COUNT", 0, 16, "read-write", 0x05),
        "age": Field("AGE", 16, 16, "read-write", 0x19),
    }

    @property
    def count(self) -> int:
        """Least access count."""
        return int(self & 0xFFFF)

    @property
    def age(self) -> int:
        """Greatest age in ticks. A write of more than T2.AGE is refused."""
        return int(self >> 16 & 0xFFFF)


class T2(Register):
    """T-level 2 thresholds. A line below T-level 3 is at 2 when its counter is at least COUNT and its age at most AGE.
    Changes live."""

    NAME = "T2"
    OFFSET = 0x1C
    FIELDS = {
        "count": Field("COUNT", 0, 16, "read-write", 0x03),
        "age": Field("AGE", 16, 16, "read-write", 0x32),
    }

    @property
    def count(self) -> int:
        """Least access count."""
        return int(self & 0xFFFF)

    @property
    def age(self) -> int:
        """Greatest age in ticks. A write of less than T3.AGE is refused. A write of more than T1.AGE is refused."""
        return int(self >> 16 & 0xFFFF)


class T1(Register):
    """T-level 1 thresholds. A line below T-level 2 is at 1 when its age is at most AGE, and cold, at T-level 0, when it
    is older. Writable only while CTRL.ENABLE is 0; at other times the write is refused."""

    NAME = "T1"
    OFFSET = 0x20
    STRUCTURAL = True
    FIELDS = {
        "count": Field("COUNT", 0, 16, "constant", 0x01),
        "age": Field("AGE", 16, 16, "read-write", 0x7D),
    }

    @property
    def count(self) -> int:
        """Always 1: every tracked line has been touched once."""
        return int(self & 0xFFFF)

    @property
    def age(self) -> int:
        """Greatest age in ticks; LIMITS.T1_AGE gives the most. Allowed: 1 to t1_limit; a write of any other value is
        refused. A write of less than T2.AGE is refused."""
        return int(self >> 16 & 0xFFFF)


class IrqStatus(Register):
    """Interrupt status. What happened since each bit was last cleared. A bit that is set and cleared in one clock stays
    set."""

    NAME = "IRQ_STATUS"
    OFFSET = 0x24
    FIELDS = {
        "untracked": Field("UNTRACKED", 0, 1, "write 1 to clear", 0x00),
        "cold_high": Field("COLD_HIGH", 1, 1, "write 1 to clear", 0x00),
        "config_error": Field("CONFIG_ERROR", 2, 1, "write 1 to clear", 0x00),
    }

    @property
    def untracked(self) -> bool:
        """A request got no slot."""
        return bool(self & 0x1)

    @property
    def cold_high(self) -> bool:
        """The number of cold lines rose to COLD_WATERMARK."""
        return bool(self >> 1 & 0x1)

    @property
    def config_error(self) -> bool:
        """A register write was refused."""
        return bool(self >> 2 & 0x1)


class IrqEnable(Register):
    """Interrupt enable. Which bits of IRQ_STATUS raise the interrupt."""

    NAME = "IRQ_ENABLE"
    OFFSET = 0x28
    FIELDS = {
        "untracked": Field("UNTRACKED", 0, 1, "read-write", 0x00),
        "cold_high": Field("COLD_HIGH", 1, 1, "read-write", 0x00),
        "config_error": Field("CONFIG_ERROR", 2, 1, "read-write", 0x00),
    }

    @property
    def untracked(self) -> bool:
        """Interrupt on UNTRACKED."""
        return bool(self & 0x1)

    @property
    def cold_high(self) -> bool:
        """Interrupt on COLD_HIGH."""
        return bool(self >> 1 & 0x1)

    @property
    def config_error(self) -> bool:
        """Interrupt on CONFIG_ERROR."""
        return bool(self >> 2 & 0x1)


class ColdWatermark(Register):
    """Cold watermark. When IRQ_STATUS.COLD_HIGH is set."""

    NAME = "COLD_WATERMARK"
    OFFSET = 0x2C
    FIELDS = {
        "lines": Field("LINES", 0, 32, "read-write", 0x00),
    }

    @property
    def lines(self) -> int:
        """COLD_HIGH is set when COLD rises to this many lines; 0 turns it off."""
        return int(self & 0xFFFFFFFF)


class HashSeed(Register):
    """Hash seed. Makes bucket collisions unpredictable to whoever chooses the addresses. Writable only while
    CTRL.ENABLE is 0; at other times the write is refused."""

    NAME = "HASH_SEED"
    OFFSET = 0x30
    STRUCTURAL = True
    FIELDS = {
        "seed": Field("SEED", 0, 32, "read-write", 0x00),
    }

    @property
    def seed(self) -> int:
        """XORed into the folded line number before it is mixed."""
        return int(self & 0xFFFFFFFF)


class Tracked(Register):
    """Tracked lines. How full the table is."""

    NAME = "TRACKED"
    OFFSET = 0x34
    FIELDS = {
        "lines": Field("LINES", 0, 32, "status", 0x00),
    }

    @property
    def lines(self) -> int:
        """Lines that have a slot."""
        return int(self & 0xFFFFFFFF)


class Cold(Register):
    """Cold lines. How many lines can be evicted."""

    NAME = "COLD"
    OFFSET = 0x38
    FIELDS = {
        "lines": Field("LINES", 0, 32, "status", 0x00),
    }

    @property
    def lines(self) -> int:
        """Lines at T-level 0. May lag by 2^TICK_SHIFT + 8 clocks."""
        return int(self & 0xFFFFFFFF)


class QueryLo(Register):
    """Query address, low. The address that QUERY asks about."""

    NAME = "QUERY_LO"
    OFFSET = 0x3C
    FIELDS = {
        "address": Field("ADDRESS", 0, 32, "read-write", 0x00),
    }

    @property
    def address(self) -> int:
        """Address bits 31 to 0."""
        return int(self & 0xFFFFFFFF)


class QueryHi(Register):
    """Query address, high. The address that QUERY asks about."""

    NAME = "QUERY_HI"
    OFFSET = 0x40
    FIELDS = {
        "address": Field("ADDRESS", 0, 32, "read-write", 0x00),
    }

    @property
    def address(self) -> int:
        """Address bits 63 to 32. Those beyond PARAMS.ADDR_WIDTH are kept and mean nothing."""
        return int(self & 0xFFFFFFFF)


class Query(Register):
    """Query. Asks for a line's T-level without touching it, in the first clock in which the query port is idle. The
    result holds until the next answer."""

    NAME = "QUERY"
    OFFSET = 0x44
    FIELDS = {
        "start": Field("START", 0, 1, "write 1 to do", 0x00),
        "done": Field("DONE", 1, 1, "status", 0x00),
        "tracked": Field("TRACKED", 2, 1, "status", 0x00),
        "tlevel": Field("TLEVEL", 4, 2, "status", 0x00),
        "count": Field("COUNT", 16, 16, "status", 0x00),
    }

    @property
    def start(self) -> bool:
        """Write 1: ask about the line at QUERY_LO and QUERY_HI. Ignored while a query is running. Reads 0."""
        return bool(self & 0x1)

    @property
    def done(self) -> bool:
        """The answer is there. Falls at the write that asks."""
        return bool(self >> 1 & 0x1)

    @property
    def tracked(self) -> bool:
        """The line has a slot."""
        return bool(self >> 2 & 0x1)

    @property
    def tlevel(self) -> int:
        """Its T-level; 0 when it has no slot."""
        return int(self >> 4 & 0x3)

    @property
    def count(self) -> int:
        """Its access counter; 0 when it has no slot."""
        return int(self >> 16 & 0xFFFF)


class Evict(Register):
    """Evict. Takes the coldest line out of the table, in the first clock in which the evict port is idle."""

    NAME = "EVICT"
    OFFSET = 0x48
    FIELDS = {
        "start": Field("START", 0, 1, "write 1 to do", 0x00),
        "done": Field("DONE", 1, 1, "status", 0x00),
        "status": Field("STATUS", 2, 2, "status", 0x00),
    }

    @property
    def start(self) -> bool:
        """Write 1: evict. Ignored while an eviction is running. Reads 0."""
        return bool(self & 0x1)

    @property
    def done(self) -> bool:
        """The answer is there. Falls at the write that evicts."""
        return bool(self >> 1 & 0x1)

    @property
    def status(self) -> VictimStatus:
        """What came of it: EMPTY or FOUND."""
        return VictimStatus(self >> 2 & 0x3)


class VictimLo(Register):
    """Victim address, low. The line that EVICT took; 0 when it found none."""

    NAME = "VICTIM_LO"
    OFFSET = 0x4C
    FIELDS = {
        "address": Field("ADDRESS", 0, 32, "status", 0x00),
    }

    @property
    def address(self) -> int:
        """Address bits 31 to 0."""
        return int(self & 0xFFFFFFFF)


class VictimHi(Register):
    """Victim address, high. The line that EVICT took; 0 when it found none."""

    NAME = "VICTIM_HI"
    OFFSET = 0x50
    FIELDS = {
        "address": Field("ADDRESS", 0, 32, "status", 0x00),
    }

    @property
    def address(self) -> int:
        """Address bits 63 to 32."""
        return int(self & 0xFFFFFFFF)


class CounterSelect(Register):
    """Counter select. Which counter COUNTER_LO and COUNTER_HI show."""

    NAME = "COUNTER_SELECT"
    OFFSET = 0x54
    FIELDS = {
        "index": Field("INDEX", 0, 32, "read-write", 0x00),
    }

    @property
    def index(self) -> Counter:
        """The counter's index. Allowed: 0 to 14; a write of any other value is refused."""
        return Counter(self & 0xFFFFFFFF)


class CounterLo(Register):
    """Counter, low. The selected counter at the last SNAPSHOT."""

    NAME = "COUNTER_LO"
    OFFSET = 0x58
    FIELDS = {
        "value": Field("VALUE", 0, 32, "status", 0x00),
    }

    @property
    def value(self) -> int:
        """Bits 31 to 0."""
        return int(self & 0xFFFFFFFF)


class CounterHi(Register):
    """Counter, high. The selected counter at the last SNAPSHOT."""

    NAME = "COUNTER_HI"
    OFFSET = 0x5C
    FIELDS = {
        "value": Field("VALUE", 0, 32, "status", 0x00),
    }

    @property
    def value(self) -> int:
        """Bits 63 to 32."""
        return int(self & 0xFFFFFFFF)


class Limits(Register):
    """Limits. What this build can keep."""

    NAME = "LIMITS"
    OFFSET = 0x60
    FIELDS = {
        "t1_age": Field("T1_AGE", 0, 16, "constant", 0xF0),
    }

    @property
    def t1_age(self) -> int:
        """Greatest T1.AGE: an older line's stamp could alias. Reads the build's t1_limit; 240 by default."""
        return int(self & 0xFFFF)


#: Every register by its name, by rising offset.
REGISTERS: dict[str, type[Register]] = {
    register.NAME: register
    for register in (
        Capability, Vsec, Ctrl, Status, Id, Params, Geometry, Timebase, T3, T2, T1, IrqStatus, IrqEnable, ColdWatermark,
        HashSeed, Tracked, Cold, QueryLo, QueryHi, Query, Evict, VictimLo, VictimHi, CounterSelect, CounterLo,
        CounterHi, Limits,
    )
}
