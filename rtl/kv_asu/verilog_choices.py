"""From statements that override one another to one choice, in which every path gives a signal its value once.

::

    write = 4'h0;
    if (valid) begin                          if (rst) write = 4'h0;
      write[3:1] = row;               ─►      else if (valid) write = { row, 1'h0 };
    end                                       else write = 4'h0;
    if (rst) write = 4'h0;
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_CONSTANT = re.compile(r"\d+'([hdb])([0-9a-f]+)")
_BITS = re.compile(r"(\w+)(?:\[(\d+)(?::(\d+))?\])?")
_BASES = {"b": 2, "d": 10, "h": 16}


@dataclass(frozen=True)
class Part:
    """What the bits ``high`` to ``low`` of the signal get; None: what they hold."""

    high: int
    low: int
    text: str | None

    def cut(self, high: int, low: int) -> Part:
        """The same for some of the bits."""
        if self.text is None or (high, low) == (self.high, self.low):
            return Part(high, low, self.text)
        if constant := _CONSTANT.fullmatch(self.text):
            width = high - low + 1
            number = int(constant[2], _BASES[constant[1]]) >> (low - self.low) & (1 << width) - 1
            return Part(high, low, f"{width}'h{number:0{(width + 3) // 4}x}")
        bits = _BITS.fullmatch(self.text)
        if not bits:
            raise Tangled(self.text)
        offset = int(bits[3] or bits[2] or 0) - self.low
        selected = f"{high + offset}" if high == low else f"{high + offset}:{low + offset}"
        return Part(high, low, f"{bits[1]}[{selected}]")


@dataclass(frozen=True)
class Value:
    """What the signal gets, its highest bits first."""

    parts: tuple[Part, ...]

    @property
    def held(self) -> bool:
        """Nothing changes."""
        return all(part.text is None for part in self.parts)

    def overridden(self, new: Part) -> Value:
        """This value, but for some bits."""
        parts = [new]
        for part in self.parts:
            if part.high > new.high:
                parts.append(part.cut(part.high, max(part.low, new.high + 1)))
            if part.low < new.low:
                parts.append(part.cut(min(part.high, new.low - 1), part.low))
        return Value(tuple(sorted(parts, key=lambda part: -part.low)))


@dataclass(frozen=True)
class Switch:
    """A choice between statements, as it is read. Without a selector, labels are conditions; an empty one is "else"."""

    selector: str
    branches: Sequence[tuple[str, Sequence[Part | Switch]]]


@dataclass(frozen=True)
class Choice:
    """A choice between values, as it is written; the last branch is for all the rest."""

    selector: str
    branches: tuple[tuple[str, Value | Choice], ...]


class Tangled(Exception):
    """No such choice says what the statements do."""


def settled(statements: Iterable[Part | Switch], value: Value | Choice) -> Value | Choice:
    """What a signal gets that had ``value`` before these statements.

    Raises
    ------
    Tangled
        It depends on two things independently, or on bits of an expression.
    """
    for statement in statements:
        if isinstance(statement, Switch):
            branches = [(label, settled(body, value)) for label, body in statement.branches]
            if branches[-1][0]:
                branches.append(("", value))
            choice = _simplified(statement.selector, branches)
            if isinstance(value, Choice) and _count(choice, value) > 1:
                raise Tangled
            value = choice
        elif (statement.high, statement.low) == (_highest(value), 0):
            value = Value((statement,))
        elif isinstance(value, Choice):
            raise Tangled
        else:
            value = value.overridden(statement)
    return value


def _highest(value: Value | Choice) -> int:
    return value.parts[0].high if isinstance(value, Value) else _highest(value.branches[-1][1])


def _simplified(selector: str, branches: list[tuple[str, Value | Choice]]) -> Value | Choice:
    """Without branches that do what is done in all the rest, and with neighbours that do the same in one."""
    *named, (_, rest) = branches
    if selector:
        named = [(label, body) for label, body in named if body != rest]
        return Choice(selector, (*named, ("", rest))) if named else rest
    chain: list[tuple[str, Value | Choice]] = []
    for label, body in named:
        if chain and chain[-1][1] == body:
            label = f"{chain.pop()[0]} || {label}"
        chain.append((label, body))
    if chain and chain[-1][1] == rest:
        chain.pop()
    if not chain:
        return rest
    return Choice("", (*chain, *(rest.branches if isinstance(rest, Choice) and not rest.selector else [("", rest)])))


def _count(choice: Value | Choice, wanted: Choice) -> int:
    if choice is wanted:
        return 1
    return sum(_count(body, wanted) for _, body in choice.branches) if isinstance(choice, Choice) else 0
