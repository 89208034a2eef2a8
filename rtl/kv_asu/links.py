"""What the recency list's memories hold, and the records its parts exchange."""

from __future__ import annotations

from amaranth.lib import data

from kv_asu.params import Params


def line_layout(params: Params) -> data.StructLayout:
    """A line of the list: its slot, and what a demotion needs to know of it."""
    return data.StructLayout({"slot": params.log2_entries, "stamp": params.stamp_width, "cold_half": 1})


def newer_layout(params: Params) -> data.StructLayout:
    """A link to the neighbour touched later.

    ``parity``: this bank's half of which bank is live. ``back_parity``: the push bank's parity of the link back.
    """
    return data.StructLayout({"line": line_layout(params), "back_parity": 1, "parity": 1})


def older_layout(params: Params) -> data.StructLayout:
    """A link to the neighbour touched earlier; parities as in :func:`newer_layout`."""
    return data.StructLayout({"slot": params.log2_entries, "back_parity": 1, "parity": 1})


def newer_write_layout(params: Params) -> data.StructLayout:
    """A write of a newer link."""
    return data.StructLayout({"enable": 1, "address": params.log2_entries, "link": newer_layout(params)})


def moving_layout(params: Params) -> data.StructLayout:
    """A touch whose links are being rewritten."""
    return data.StructLayout({"valid": 1, "line": line_layout(params)})


def moved_layout(params: Params) -> data.StructLayout:
    """A touch: ``line`` went to the head from below ``newer``, or stayed at the head (``moves`` 0)."""
    return data.StructLayout({"valid": 1, "moves": 1, "line": line_layout(params), "newer": line_layout(params)})
