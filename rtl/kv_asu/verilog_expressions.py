"""Expressions the way one writes them: operators inside one another, and no wire where a name exists.

Amaranth gives every operator a wire, ``expr7``, and every operand the width its operator works in, so that an unsigned
one computes the same wherever it stands.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from functools import partial
from itertools import groupby

#: An operator stays on a wire of its own where it would make a statement longer than this.
_STATEMENT = 240
_LINE = 120

_OPERATOR = re.compile(r"  assign (expr\d+) = ((?!.*\$signed).*);")
_VECTOR = re.compile(r"  assign ((?!expr)\w+) = \{ (expr\d+(?:, expr\d+)+) \};")
_DECLARATION = re.compile(r"  (?:reg|wire) (?:\[\d+:0\] )?(expr\d+);")
_EXPR = re.compile(r"\bexpr\d+\b")
_CONCATENATION = re.compile(r"\{ ([^{}]*) \}")
_UNARY = re.compile(r"(?<= = )([~&|^]) (?=[\w{])")

_NAME = re.compile(r"\w+(\[[\d:]+\])?")
_NEGATION = re.compile(r"~\w+(\[[\d:]+\])?")
_OPERAND = re.compile(r"~?\w+(\[[\d:]+\])?|\d+'[hd][0-9a-f]+|\{[^{}]*\}")
_GROUP = re.compile(r"\([^()]*\)|\{[^{}]*\}")
#: What stands before the whole right-hand side of an assignment.
_TARGET = re.compile(r"(?:  assign | +(?:.*\) |else |\S+: )?)\w+(?:\[[\d:]+\])? <?= ")


def with_expressions(lines: Sequence[str]) -> list[str]:
    """A module's lines, with the operators that are read once where they are read; long lines are broken."""
    result = [_UNARY.sub(r"\1", _CONCATENATION.sub(_repeated, line)) for line in _with_named_bits(lines)]
    for number, line in enumerate(result):
        if not (operator := _OPERATOR.fullmatch(line)):
            continue
        name, text = operator.groups()
        # An expression's low bits can be taken, by a cast; others cannot.
        read = re.compile(rf"\b{name}\b(?:\[(?:(\d+):)?0\])?(\[)?")
        reads = [
            (index, match)
            for index, other in enumerate(result)
            if name in other and index != number and not _DECLARATION.fullmatch(other)
            for match in read.finditer(other)
        ]
        if any(match[2] for _, match in reads) or (len(reads) > 1 and not _NEGATION.fullmatch(text)):
            continue
        readers = {index: read.sub(partial(_fitted, text), result[index]) for index, _ in reads}
        if all(len(reader) <= _STATEMENT for reader in readers.values()):
            result[number] = ""
            for index, reader in readers.items():
                result[index] = reader
    left = {name for line in result if not _DECLARATION.fullmatch(line) for name in _EXPR.findall(line)}
    return [
        part
        for line in result
        if not ((wire := _DECLARATION.fullmatch(line)) and wire[1] not in left)
        for part in _broken(line)
    ]


def _with_named_bits(lines: Sequence[str]) -> list[str]:
    """The bits of a vector under its name, driven one by one, instead of a wire for each that becomes one of them."""
    single = {wire[1] for line in lines if (wire := _DECLARATION.fullmatch(line)) and "[" not in line}
    operators = {operator[1] for line in lines if (operator := _OPERATOR.fullmatch(line))}
    bits: dict[str, str] = {}
    result = []
    for line in lines:
        vector = _VECTOR.fullmatch(line)
        wires = vector[2].split(", ") if vector else []
        if vector and set(wires) <= single & operators - bits.keys() and len(set(wires)) == len(wires):
            bits |= {wire: f"{vector[1]}[{bit}]" for bit, wire in enumerate(reversed(wires))}
        else:
            result.append(line)
    return [
        line if _DECLARATION.fullmatch(line) else _EXPR.sub(lambda match: bits.get(match[0], match[0]), line)
        for line in result
    ]


def _fitted(text: str, place: re.Match[str]) -> str:
    """The expression with the brackets it needs there."""
    before, after = place.string[: place.start()], place.string[place.end() :]
    unary = before.endswith(("~", "|", "&", "^"))
    if place[0].endswith("]"):
        cast = f"{int(place[1] or 0) + 1}'({text})"
        return f"({cast})" if unary else cast  # yosys reads ~4'(a) as (~4)'(a)
    first = bool(before.endswith(("(", "{", "{ ", ", ")) or _TARGET.fullmatch(before))
    last = after.startswith((")", "}", " }", ",", ";"))
    if unary:
        bare = _NAME.fullmatch(text) is not None
    elif first and last:
        bare = True
    else:
        bare = _OPERAND.fullmatch(text) is not None or any(
            (first or before.endswith(operator))
            and (last or after.startswith(operator))
            and all(_OPERAND.fullmatch(operand) for operand in _GROUP.sub("group", text).split(operator))
            for operator in (" & ", " | ", " ^ ")
        )
    return text if bare else f"({text})"


def _repeated(concatenation: re.Match[str]) -> str:
    """``{ a, a, a, b }`` is ``{ {3{a}}, b }``."""
    runs = [(text, len(list(same))) for text, same in groupby(concatenation[1].split(", "))]
    parts = [text if count == 1 else f"{{{count}{{{text}}}}}" for text, count in runs]
    return parts[0] if len(parts) == 1 else "{ " + ", ".join(parts) + " }"


def _broken(line: str) -> list[str]:
    """The line in pieces; none of an empty one."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, _LINE, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
