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


# Three parties change a slot, each in its own memory, for a memory has one write port. What two of them share is the
# XOR of a bit from each: a writer that has read the other's half can set the whole to what it likes.
#
#   tracked = touch half ^ evict half        cold mark = touch half ^ demote half


def touch_layout(params: Params) -> data.StructLayout:
    """What a request writes to its slot."""
    return data.StructLayout(
        {
            "line": params.line_width,
            "count": COUNT_WIDTH,
            "stamp": params.stamp_width,
            "tracked_half": 1,
            "cold_half": 1,
        }
    )


def half_write_layout(params: Params) -> data.StructLayout:
    """What an eviction or a demotion writes to its slot: its half of the bit."""
    return data.StructLayout({"enable": 1, "slot": slot_layout(params), "half": 1})


def touch_write_layout(params: Params) -> data.StructLayout:
    """A request's write: into one of the banks of its window."""
    return data.StructLayout(
        {"banks": params.window, "place": place_layout(params), "touch": touch_layout(params)}
    )
