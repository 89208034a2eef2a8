"""The core's ports in bulk: addresses in, and for each operation a numpy record of the payload pins that answer it."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kv_asu.params import Params

#: Answer to a request: ``tag_*`` and ``spill_*``.
TAG = np.dtype(
    [
        ("tag_line", "u8"),
        ("tag_tracked", "u1"),
        ("tag_hit", "u1"),
        ("tag_before", "u1"),
        ("tag_after", "u1"),
        ("tag_count", "u2"),
        ("tag_slot", "u2"),
        ("tag_stamp", "u2"),
        ("spill_valid", "u1"),
        ("spill_line", "u8"),
    ]
)

#: Answer to a query: ``answer_*``.
ANSWER = np.dtype([("answer_tracked", "u1"), ("answer_tlevel", "u1"), ("answer_hit", "u1")])

#: Answer to an evict command: ``victim_*``.
VICTIM = np.dtype([("victim_status", "u1"), ("victim_line", "u8")])


def _wide(numbers: list[object]) -> NDArray[np.generic]:
    """Integers of 64 bits, or what numpy makes of them where they are none."""
    try:
        return np.array([index(number) for number in numbers], np.uint64)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return np.asarray(numbers)


def address_array(addresses: ArrayLike, params: Params) -> NDArray[np.uint64]:
    """Byte addresses for a port, shape (n,).

    Raises
    ------
    TypeError
        They are not a one-dimensional array of unsigned integers.
    ValueError
        One has more bits than the build.
    """
    array = np.asarray(addresses)
    if array.dtype.kind in "fO" and array.ndim == 1 and not isinstance(addresses, np.ndarray):
        # Integers beyond 63 bits beside others: numpy has no type of its own for them, and rounds.
        array = _wide(list(addresses)) if isinstance(addresses, Iterable) else array
    if array.size == 0:
        array = array.astype(np.uint64)
    if array.ndim != 1 or array.dtype.kind not in "ui" or (array.dtype.kind == "i" and (array < 0).any()):
        raise TypeError("addresses must be a one-dimensional array of unsigned integers")
    lines = np.ascontiguousarray(array, np.uint64)
    if params.addr_width < 64 and lines.size and int(lines.max()) >> params.addr_width:
        raise ValueError(f"addresses must fit {params.addr_width} bits, not {int(lines.max()):#x}")
    return lines
