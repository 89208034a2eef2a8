"""The register map as data. Generated from registers.rdl by `python -m kv_asu.registers_gen`; do not edit."""

from enum import IntEnum

from kv_asu.register_types import Access, Field, Register

#: Bytes of the capability, headers included.
WINDOW_BYTES = 0x80

#: Where CTRL sits in the capability.
CTRL_OFFSET = 0x08


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


#: Every register by its name, by rising offset.
REGISTERS = {
    register.name: register
    for register in (
        Register("CAPABILITY", 0x00, fields=(
            Field("CAPABILITY_ID", 0, 16, Access.CONSTANT, reset=0x0B),
            Field("VERSION", 16, 4, Access.CONSTANT, reset=0x01),
            Field("NEXT", 20, 12, Access.CONSTANT, build="config_next"),
        )),
        Register("VSEC", 0x04, fields=(
            Field("VSEC_ID", 0, 16, Access.CONSTANT, reset=0x4B56, build="vsec_id"),
            Field("REVISION", 16, 4, Access.CONSTANT, reset=0x01),
            Field("LENGTH", 20, 12, Access.CONSTANT, reset=0x80),
        )),
        Register("CTRL", 0x08, fields=(
            Field("ENABLE", 0, 1, Access.READ_WRITE),
            Field("FLUSH", 1, 1, Access.WRITE_ONE_TO_DO),
            Field("SNAPSHOT", 2, 1, Access.WRITE_ONE_TO_DO),
            Field("CLEAR", 3, 1, Access.WRITE_ONE_TO_DO),
            Field("DECAY", 4, 2, Access.READ_WRITE, allowed=(0, 2)),
            Field("RECLAIM_OFF", 6, 1, Access.READ_WRITE),
        )),
        Register("STATUS", 0x0C, fields=(
            Field("ACTIVE", 0, 1, Access.STATUS),
            Field("BUSY", 1, 1, Access.STATUS),
            Field("COLD_AVAILABLE", 2, 1, Access.STATUS),
            Field("POWERED", 3, 1, Access.STATUS),
        )),
        Register("ID", 0x10, fields=(
            Field("MINOR", 0, 8, Access.CONSTANT),
            Field("MAJOR", 8, 8, Access.CONSTANT, reset=0x01),
            Field("MAGIC", 16, 16, Access.CONSTANT, reset=0x4B56),
        )),
        Register("PARAMS", 0x14, fields=(
            Field("LOG2_ENTRIES", 0, 5, Access.CONSTANT, reset=0x0B, build="log2_entries"),
            Field("WINDOW", 5, 5, Access.CONSTANT, reset=0x08, build="window"),
            Field("LATENCY", 10, 4, Access.CONSTANT, reset=0x01, build="latency"),
            Field("STAMP_WIDTH", 14, 5, Access.CONSTANT, reset=0x08, build="stamp_width"),
            Field("ADDR_WIDTH", 19, 7, Access.CONSTANT, reset=0x40, build="addr_width"),
        )),
        Register("GEOMETRY", 0x18, structural=True, fields=(
            Field("LOG2_ACTIVE", 0, 5, Access.READ_WRITE, reset=0x0B, build="log2_entries", allowed=("min_log2_active",
                "log2_entries")),
            Field("LINE_SHIFT", 8, 5, Access.READ_WRITE, reset=0x08, allowed=(8, 24)),
        )),
        Register("TIMEBASE", 0x1C, structural=True, fields=(
            Field("TICK_SHIFT", 0, 5, Access.READ_WRITE, reset=0x02, allowed=(0, 24)),
        )),
        Register("T3", 0x20, fields=(
            Field("COUNT", 0, 16, Access.READ_WRITE, reset=0x05),
            Field("AGE", 16, 16, Access.READ_WRITE, reset=0x19, at_most="T2.AGE"),
        )),
        Register("T2", 0x24, fields=(
            Field("COUNT", 0, 16, Access.READ_WRITE, reset=0x03),
            Field("AGE", 16, 16, Access.READ_WRITE, reset=0x32, at_least="T3.AGE", at_most="T1.AGE"),
        )),
        Register("T1", 0x28, structural=True, fields=(
            Field("COUNT", 0, 16, Access.CONSTANT, reset=0x01),
            Field("AGE", 16, 16, Access.READ_WRITE, reset=0x7D, allowed=(1, "t1_limit"), at_least="T2.AGE"),
        )),
        Register("IRQ_STATUS", 0x2C, fields=(
            Field("UNTRACKED", 0, 1, Access.WRITE_ONE_TO_CLEAR),
            Field("COLD_HIGH", 1, 1, Access.WRITE_ONE_TO_CLEAR),
            Field("CONFIG_ERROR", 2, 1, Access.WRITE_ONE_TO_CLEAR),
        )),
        Register("IRQ_ENABLE", 0x30, fields=(
            Field("UNTRACKED", 0, 1, Access.READ_WRITE),
            Field("COLD_HIGH", 1, 1, Access.READ_WRITE),
            Field("CONFIG_ERROR", 2, 1, Access.READ_WRITE),
        )),
        Register("COLD_WATERMARK", 0x34, fields=(
            Field("LINES", 0, 32, Access.READ_WRITE),
        )),
        Register("HASH_SEED", 0x38, structural=True, fields=(
            Field("SEED", 0, 32, Access.READ_WRITE),
        )),
        Register("TRACKED", 0x3C, fields=(
            Field("LINES", 0, 32, Access.STATUS),
        )),
        Register("COLD", 0x40, fields=(
            Field("LINES", 0, 32, Access.STATUS),
        )),
        Register("QUERY_LO", 0x44, fields=(
            Field("ADDRESS", 0, 32, Access.READ_WRITE),
        )),
        Register("QUERY_HI", 0x48, fields=(
            Field("ADDRESS", 0, 32, Access.READ_WRITE),
        )),
        Register("QUERY", 0x4C, fields=(
            Field("START", 0, 1, Access.WRITE_ONE_TO_DO),
            Field("DONE", 1, 1, Access.STATUS),
            Field("TRACKED", 2, 1, Access.STATUS),
            Field("TLEVEL", 4, 2, Access.STATUS),
            Field("COUNT", 16, 16, Access.STATUS),
        )),
        Register("EVICT", 0x50, fields=(
            Field("START", 0, 1, Access.WRITE_ONE_TO_DO),
            Field("DONE", 1, 1, Access.STATUS),
            Field("STATUS", 2, 2, Access.STATUS),
        )),
        Register("VICTIM_LO", 0x54, fields=(
            Field("ADDRESS", 0, 32, Access.STATUS),
        )),
        Register("VICTIM_HI", 0x58, fields=(
            Field("ADDRESS", 0, 32, Access.STATUS),
        )),
        Register("COUNTER_SELECT", 0x5C, fields=(
            Field("INDEX", 0, 32, Access.READ_WRITE, allowed=(0, 14)),
        )),
        Register("COUNTER_LO", 0x60, fields=(
            Field("VALUE", 0, 32, Access.STATUS),
        )),
        Register("COUNTER_HI", 0x64, fields=(
            Field("VALUE", 0, 32, Access.STATUS),
        )),
        Register("LIMITS", 0x68, fields=(
            Field("T1_AGE", 0, 16, Access.CONSTANT, reset=0xF0, build="t1_limit"),
        )),
    )
}
