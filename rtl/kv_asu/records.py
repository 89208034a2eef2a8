"""Records of which every field is a signal of its own, as narrow as it is and under its own name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.lib import data


def record(layout: data.Layout, name: str, *, reset_less: bool = False) -> data.View:
    """A record of new signals, ``name_field``."""
    parts = [Signal(width, name=join((name, field)), reset_less=reset_less) for field, _, width in _fields(layout)]
    return data.View(layout, Cat(parts))


def mux(select: Value, when_set: data.View, otherwise: data.View) -> data.View:
    """``when_set`` where ``select`` is 1, else ``otherwise``."""
    layout = when_set.shape()
    a, b = when_set.as_value(), otherwise.as_value()
    parts = [Mux(select, a[start : start + width], b[start : start + width]) for _, start, width in _fields(layout)]
    return data.View(layout, Cat(parts))


def _fields(layout: data.Layout) -> Iterator[tuple[str, int, int]]:
    """Name, first bit and width of each field, those of inner records included."""
    for key, field in layout:
        if isinstance(field.shape, data.Layout):
            for name, start, width in _fields(field.shape):
                yield join((key, name)), field.offset + start, width
        else:
            yield str(key), field.offset, field.width


def join(path: Iterable[str | int]) -> str:
    """A field's name from its path: ``ways_touches0_line``."""
    return re.sub(r"_(\d)", r"\1", "_".join(map(str, path)))
