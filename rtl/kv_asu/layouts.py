"""Records that the blocks of the core exchange."""

from __future__ import annotations

from amaranth.hdl import Mux, Value
from amaranth.lib import data

from kv_asu.params import Params

COUNT_WIDTH = 16
MAX_COUNT = (1 << COUNT_WIDTH) - 1


def settings_layout(params: Params) -> data.StructLayout:
    """What the registers say, as the core uses it."""
    return data.StructLayout(
        {
            "enable": 1,
            "decay": 2,
            "reclaim_off": 1,
            "log2_active": 5,
            "line_shift": 5,
            "tick_shift": 5,
            "t3_count": COUNT_WIDTH,
            "t3_age": 16,
            "t2_count": COUNT_WIDTH,
            "t2_age": 16,
            "t1_age": 16,
            "hash_seed": 32,
        }
    )


def slot_layout(params: Params) -> data.StructLayout:
    """A slot of the table: a row of one of the interleaved banks. Flattened it is the slot's number."""
    return data.StructLayout({"bank": params.log2_window, "row": params.log2_entries - params.log2_window})


def place_layout(params: Params) -> data.StructLayout:
    """A window of the table: its home row, the row after it, and which banks it reaches in the latter."""
    row = params.log2_entries - params.log2_window
    return data.StructLayout({"row": row, "next_row": row, "wrapped": params.window})


def row_in_bank(place: data.View, bank: int) -> Value:
    """The row of ``bank`` that the window covers."""
    return Mux(place.wrapped[bank], place.next_row, place.row)


def where_in(place: data.View, slot: data.View) -> Value:
    """The bank of the slot, as one bit of the window; no bit if the window does not cover it."""
    bank = 1 << slot.bank
    wrapped = (bank & place.wrapped).any()
    return Mux(Mux(wrapped, slot.row == place.next_row, slot.row == place.row), bank, 0)


# Three parties change a slot, each in its own memory, for a memory has one write port. What two of them share is the
# XOR of a bit from each: a writer that has read the other's half can set the whole to what it likes.
#
#   tracked = touch half ^ evict half        cold mark = touch half ^ demote half


def heat_layout(params: Params) -> data.StructLayout:
    """What the table keeps of a line beside its number."""
    return data.StructLayout({"count": COUNT_WIDTH, "stamp": params.stamp_width, "tracked_half": 1, "cold_half": 1})


def touch_layout(params: Params) -> data.StructLayout:
    """What a request writes to its slot."""
    return data.StructLayout({"line": params.line_width, "heat": heat_layout(params)})


def touch_write_layout(params: Params) -> data.StructLayout:
    """A request's write: into one of the banks of its window, or into none."""
    return data.StructLayout({"banks": params.window, "place": place_layout(params), "touch": touch_layout(params)})


def listed_layout(params: Params) -> data.StructLayout:
    """A touch, as the recency list takes it.

    ``linked``: its slot is in the list already. ``left``: the tail steps off it in the clock of the decision.
    """
    slot = params.log2_entries
    return data.StructLayout({"valid": 1, "linked": 1, "left": 1, "slot": slot, "touch": touch_layout(params)})


def victim_layout(params: Params) -> data.StructLayout:
    """The answer to an evict command."""
    return data.StructLayout({"status": 2, "line": params.line_width})


def collisions_layout(params: Params) -> data.StructLayout:
    """Where a request would write in an operation's window, by bank, and whether its line is the operation's."""
    return data.StructLayout({"touched": params.window, "line": 1})


def rows_meet(place: data.View, other: data.View) -> Value:
    """The banks in which two windows cover the same row."""

    def covered(row: Value) -> Value:
        """The banks in which ``other`` covers this row."""
        return Mux(other.next_row == row, other.wrapped, 0) | Mux(other.row == row, ~other.wrapped, 0)

    return (place.wrapped & covered(place.next_row)) | (~place.wrapped & covered(place.row))


def half_write_layout(params: Params) -> data.StructLayout:
    """What an eviction or a demotion writes to its slot: its half of the bit."""
    return data.StructLayout({"enable": 1, "slot": slot_layout(params), "half": 1})


def banks_of(write: data.View, window: int) -> Value:
    """The bank that an eviction or a demotion writes, as one bit of ``window``."""
    return Mux(write.enable, 1 << write.slot.bank, 0)[:window]


def banks_met(place: data.View, write: data.View) -> Value:
    """The bank of a window that an eviction or a demotion writes, as one bit of the window, or none."""
    return Mux(write.enable, where_in(place, write.slot), 0)


def replaced(halves: Value, banks: Value, half: Value) -> Value:
    """The halves of a window's slots, with ``half`` at ``banks``."""
    return Mux(half, halves | banks, halves & ~banks)


def slots_layout(params: Params) -> data.StructLayout:
    """What the slots of a window hold; by bank."""
    touches = data.ArrayLayout(touch_layout(params), params.window)
    return data.StructLayout({"touches": touches, "evict_halves": params.window, "demote_halves": params.window})


def ways_layout(params: Params) -> data.StructLayout:
    """The slots of a window, and what they are to the operation that looks at them."""
    each = params.window
    return data.StructLayout(
        {
            **slots_layout(params).members,
            "hits": each,  # which of them hold the operation's line
            "free": each,  # ... no line
            "cold": each,  # ... a line at T-level 0
            "marked": each,  # ... a line with a cold mark
            "levels": data.ArrayLayout(2, each),  # the lines' T-levels
            "next_counts": data.ArrayLayout(COUNT_WIDTH, each),  # their counters if touched now
            "next_levels": data.ArrayLayout(2, each),  # and their T-levels then
        }
    )
