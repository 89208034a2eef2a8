"""The page: one file of HTML with its data, its pictures and its script in it, which asks for nothing else."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vrex.registers import Register

_PAGE = Path(__file__).with_name("page.html")
_DATA = "{{data}}"

#: Of the pictures' JPEGs.
_QUALITY = 80


def page(data: dict[str, Any]) -> str:
    """Put data into the page.

    Parameters
    ----------
    data : dict
        What `page.html` reads, as `vrex.report.cli` makes it.
    """
    # A script ends at </script wherever it stands, and begins to count anew at <!--.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _PAGE.read_text(encoding="utf-8").replace(_DATA, text)


def pictures(frames: Iterable[npt.NDArray[np.uint8]]) -> list[str]:
    """Frames of shape (rows, columns, 3), RGB, as addresses that hold their JPEGs."""
    from PIL import Image

    addresses = []
    for frame in frames:
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "jpeg", quality=_QUALITY)
        addresses.append("data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode())
    return addresses


def histogram(times_ns: Iterable[int]) -> list[tuple[str, int]]:
    """How many times are up to each power of two of a microsecond: the bound's name, and their number."""
    bits = np.array([(max(ns, 1) - 1).bit_length() for ns in times_ns], np.int64)
    if not len(bits):
        return []
    counts = np.bincount(bits)
    first = int(np.flatnonzero(counts)[0])
    return [(f"{2**bit / 1000:.3g}", int(counts[bit])) for bit in range(first, len(counts))]


def register_rows(registers: dict[str, Register]) -> list[dict[str, Any]]:
    """Registers by name, offset, value and fields, with what each is."""
    return [
        {
            "name": name,
            "offset": f"{value.OFFSET:+#x}",
            "value": f"{int(value):#010x}",
            "fields": ", ".join(f"{field} {number:#x}" for field, number in value.fields().items()),
            "meaning": " ".join((value.__doc__ or "").split()).split(". ")[0].rstrip("."),
        }
        for name, value in registers.items()
    ]
