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


def setting(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number that sets something: an integer of any type but bool, of a range.

    Raises
    ------
    TypeError, ValueError
        It is none; it is out of its range.
    """
    if isinstance(value, bool):  # one is an integer to Python, and no number to who writes it
        raise TypeError(f"{name} must be an integer, not {value!r}")
    number = integer(name, value)
    if number < least or (most is not None and number > most):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name} must be {wanted}, not {number!r}")
    return number
