"""Expressions the way one writes them: operators inside one another, repetitions as such.

Amaranth gives every operator a wire, ``expr7``, and all operands the width that the operator works in: where it stands
changes nothing. Only signed ones stay where they are.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import groupby

#: Lines grow no longer than this before they are broken.
_STATEMENT = 240
_LINE = 120

_OPERATOR = re.compile(r"  assign (expr\d+) = ((?!.*\$signed).*);")
_DECLARATION = re.compile(r"  (?:reg|wire) .*?(\w+);")
_CONCATENATION = re.compile(r"\{ ([^{}]*) \}")
_VECTOR = re.compile(r"  assign ((?!expr)\w+) = \{ (expr\d+(?:, expr\d+)+) \};")
_UNARY = re.compile(r"(?<= = )([~&|^]) (?=[\w{])")
_WORD = re.compile(r"~?\w+(\[[\d:]+\])?|\d+'h[0-9a-f]+|\{[^{}]*\}")
_NEGATION = re.compile(r"~\w+(\[[\d:]+\])?")
_NAME = re.compile(r"\w+(\[[\d:]+\])?")
_GROUP = re.compile(r"\([^()]*\)|\{[^{}]*\}")
#: What stands before a whole right-hand side.
_TARGET = re.compile(r"  assign \w+(?:\[[\d:]+\])? = | +(?:.*\) |else |\S+: )?\w+(?:\[[\d:]+\])? <?= ")


def with_expressions(lines: Sequence[str]) -> list[str]:
    """A module's lines, with the operators that are read once, or are but a word, where they are read."""
    result = [_UNARY.sub(r"\1", _CONCATENATION.sub(_repeated, line)) for line in _with_named_bits(lines)]
    moved = set()
    for number, line in enumerate(result):
        if not (operator := _OPERATOR.fullmatch(line)):
            continue
        name, text = operator.groups()
        # Its low bits are read by way of a cast, others not.
        read = re.compile(rf"\b{name}\b(?:\[(?:(\d+):)?0\])?(\[)?")
        reads = [(index, match) for index, other in enumerate(result) if name in other and index != number
                 and not _DECLARATION.fullmatch(other) for match in read.finditer(other)]  # fmt: skip
        if any(match[2] for _, match in reads) or (len(reads) > 1 and not _NEGATION.fullmatch(text)):
            continue
        changed = {index: read.sub(lambda match: _fitting(text, match), result[index]) for index, _ in reads}
        if any(len(other) > _STATEMENT for other in changed.values()):
            continue
        for index, other in changed.items():
            result[index] = other
        moved.add(name)
        result[number] = ""
    result = [line for line in result
              if line and not ((match := _DECLARATION.fullmatch(line)) and match[1] in moved)]  # fmt: skip
    return [part for line in result for part in _broken(line)]


def _broken(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, _LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _with_named_bits(lines: Sequence[str]) -> list[str]:
    """A vector's bits driven one by one instead of by way of a wire for each."""
    single = {match[1] for line in lines if (match := re.fullmatch(r"  wire (expr\d+);", line))}
    driven = {match[1] for line in lines if (match := _OPERATOR.fullmatch(line))}
    bits: dict[str, str] = {}
    result = []
    for line in lines:
        if vector := _VECTOR.fullmatch(line):
            items = vector[2].split(", ")
            if single & driven >= set(items) and len(set(items)) == len(items) and not bits.keys() & set(items):
                bits |= {item: f"{vector[1]}[{len(items) - 1 - index}]" for index, item in enumerate(items)}
                continue
        result.append(line)
    return [re.sub(r"\bexpr\d+\b", lambda match: bits.get(match[0], match[0]), line) for line in result
            if not ((match := _DECLARATION.fullmatch(line)) and match[1] in bits)]  # fmt: skip


def _fitting(text: str, place: re.Match[str]) -> str:
    """The expression with the brackets it needs there."""
    if place[0].endswith("]"):
        return f"{int(place[1] or 0) + 1}'({text})"
    before, after = place.string[: place.start()], place.string[place.end() :]
    first = before.endswith(("(", "{", ", ", "{ ")) or _TARGET.fullmatch(before)
    last = after.startswith((")", "}", " }", ",", ";"))
    if before.endswith(("~", "|", "&", "^")):
        return text if _NAME.fullmatch(text) else f"({text})"
    if (first and last) or _WORD.fullmatch(text):
        return text
    for operator in " & ", " | ", " ^ ":
        if (first or before.endswith(operator)) and (last or after.startswith(operator)):
            if all(_WORD.fullmatch(operand) for operand in _GROUP.sub("group", text).split(operator)):
                return text
    return f"({text})"


def _repeated(concatenation: re.Match[str]) -> str:
    """``{ a, a, a, b }`` is ``{ {3{a}}, b }``."""
    runs = [(text, len(list(same))) for text, same in groupby(concatenation[1].split(", "))]
    parts = [text if count == 1 else f"{{{count}{{{text}}}}}" for text, count in runs]
    return parts[0] if len(parts) == 1 else "{ " + ", ".join(parts) + " }"
