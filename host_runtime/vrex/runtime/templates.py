"""Address templates: the affine patterns of a kernel's KV reads, derived before anything has run.

A compiled attention kernel reads KV at addresses that are affine in its loop counters::

    for layer in range(12): for head in range(6): for token in ...:
        load(base + ((layer * heads + head) * max_tokens + token) * bytes_per_token)

From such an expression, and the loops around it, follow: a base, a stride and an extent per loop (`Template`); the
order in which the (layer, head)s are visited (`visit_order`), which tells how far away a line's next use is; and, for
tokens that are expected to be read, the bursts that bring them (`Template.bursts`).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vrex.errors import VrexError
from vrex.trace.address_map import LINE_BYTES, AddressMap

#: What a kernel for our own KV layout computes.
ATTENTION_READ = "base + ((layer * heads + head) * max_tokens + token) * bytes_per_token"

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub}


class TemplateError(VrexError):
    """An access expression has no template."""


@dataclass(frozen=True)
class Template:
    """The byte addresses ``base + sum(stride * counter)`` of a loop nest.

    Parameters
    ----------
    base : int
    loops : tuple of str
        The counters' names, the outermost loop first.
    strides, extents : tuple of int
        Bytes from one turn of a loop to the next, and its turns.
    """

    base: int
    loops: tuple[str, ...]
    strides: tuple[int, ...]
    extents: tuple[int, ...]

    @classmethod
    def of(cls, expression: str, loops: Mapping[str, int], constants: Mapping[str, int]) -> Template:
        """Derive it.

        Parameters
        ----------
        expression : str
            The address, in whole numbers, names, + - * and parentheses.
        loops : mapping of str to int
            Each counter's name and extent, the outermost loop first.
        constants : mapping of str to int
            What the other names stand for.

        Raises
        ------
        TemplateError
            It has another operator or an unknown name, or is not affine in the counters.
        """
        try:
            tree = ast.parse(expression, mode="eval").body
        except SyntaxError:
            raise TemplateError(f"access expression {expression!r} cannot be read") from None
        terms = _affine(tree, expression, loops, constants)
        strides = tuple(terms.get(name, 0) for name in loops)
        return cls(terms.get("", 0), tuple(loops), strides, tuple(loops.values()))

    @classmethod
    def of_attention(cls, kv: AddressMap) -> Template:
        """The reads of an attention kernel on our own layout, layer by layer, head by head."""
        constants = {
            "base": kv.bases[0],
            "heads": kv.heads,
            "max_tokens": kv.max_tokens,
            "bytes_per_token": kv.bytes_per_token,
        }
        loops = {"layer": kv.layers, "head": kv.heads, "token": kv.max_tokens}
        return cls.of(ATTENTION_READ, loops, constants)

    def address(self, **counters: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Addresses at given counters, which broadcast against each other; a counter left out is 0."""
        address = np.asarray(self.base, np.int64)
        for name, stride in zip(self.loops, self.strides, strict=True):
            address = address + stride * np.asarray(counters.get(name, 0), np.int64)
        return address

    def bursts(self, size: int, most_lines: int, **counters: npt.ArrayLike) -> list[tuple[int, int]]:
        """What brings the data at given counters: lines that follow each other come in one burst.

        Parameters
        ----------
        size : int
            Bytes read at each address.
        most_lines : int
            The longest burst.
        **counters
            As for `address`.

        Returns
        -------
        list of (first line number, lines)
            Ascending, each line once.
        """
        first = self.address(**counters).reshape(-1)
        spans = np.arange(-(-size // LINE_BYTES) + 1) + (first // LINE_BYTES)[:, np.newaxis]
        lines = np.unique(spans[spans <= (first + size - 1)[:, np.newaxis] // LINE_BYTES])
        if not len(lines):
            return []
        bursts = []
        cuts = [0, *(np.flatnonzero(np.diff(lines) != 1) + 1).tolist(), len(lines)]
        for start, end in zip(cuts, cuts[1:], strict=False):
            for part in range(start, end, most_lines):
                bursts.append((int(lines[part]), min(most_lines, end - part)))
        return bursts


def visit_order(template: Template, kv: AddressMap) -> npt.NDArray[np.int64]:
    """The place of each (layer, head), as layer * heads + head, in the order in which a kernel visits them.

    Raises
    ------
    TemplateError
        The kernel has no loops over layers and heads of the map's extents, or reads tokens outside of them.
    """
    loops = [name for name in template.loops if name in ("layer", "head")]
    extents = dict(zip(template.loops, template.extents, strict=True))
    if sorted(loops) != ["head", "layer"] or (extents["layer"], extents["head"]) != (kv.layers, kv.heads):
        raise TemplateError(f"a kernel for {kv.layers} layers and {kv.heads} heads loops over both, not {extents}")
    if "token" in template.loops and template.loops.index("token") < max(map(template.loops.index, loops)):
        raise TemplateError("tokens are read in the innermost loop: a visit is of one layer and head")
    layer, head = np.divmod(np.arange(kv.layers * kv.heads), kv.heads)
    return layer * kv.heads + head if loops == ["layer", "head"] else head * kv.layers + layer


def _affine(node: ast.expr, text: str, loops: Mapping[str, int], constants: Mapping[str, int]) -> dict[str, int]:
    """An expression's coefficients by counter; the constant term's name is empty."""
    match node:
        case ast.Constant(value=int(value)):
            return {"": value}
        case ast.Name(id=name) if name in loops:
            return {name: 1}
        case ast.Name(id=name) if name in constants:
            return {"": constants[name]}
        case ast.Name(id=name):
            raise TemplateError(f"access expression {text!r}: {name} is neither a loop's counter nor a constant")
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            a, b = _affine(left, text, loops, constants), _affine(right, text, loops, constants)
            return {name: _OPERATORS[type(sign)](a.get(name, 0), b.get(name, 0)) for name in a | b}
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = _affine(left, text, loops, constants), _affine(right, text, loops, constants)
            if a.keys() - {""} and b.keys() - {""}:
                raise TemplateError(f"access expression {text!r}: {ast.unparse(node)} is not affine")
            scale, terms = (a.get("", 0), b) if not a.keys() - {""} else (b.get("", 0), a)
            return {name: scale * value for name, value in terms.items()}
    raise TemplateError(f"access expression {text!r}: {ast.unparse(node)} is neither a number, a name, +, - nor *")
