"""Integers of any type, numpy's too, as plain ones: those of numpy have a width, at which arithmetic would overflow."""

from __future__ import annotations

from operator import index


def integer(name: str, value: object) -> int:
    """An integer of any type as an int.

    Raises
    ------
    TypeError
        It is none; the text begins with the name.
    """
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None


def count(name: str, value: object) -> int:
    """How many: an integer of any type that is not negative.

    Raises
    ------
    TypeError, ValueError
        It is no integer; it is negative.
    """
    number = integer(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, not {number!r}")
    return number
