"""The home-slot hash: one description, computed in software and built in hardware.

``h = fmix32(lo32(line) ^ hi32(line) ^ seed)`` with MurmurHash3's 32-bit finalizer. Both multiplications are by
constants, so each is a sum of a few shifted copies of its operand (the constant's signed digits), added pairwise. The
hash is thereby a chain of short *steps*, and a pipeline register can stand after any of them.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

WIDTH = 32
MULTIPLIERS = (0x85EBCA6B, 0xC2B2AE35)

#: Terms of a sum not yet carried out: (negative, word). Words are ints in software, Values in hardware.
Terms = list[tuple[bool, Any]]


def _low(word: Any) -> Any:
    """The word modulo 2^32."""
    return word & ((1 << WIDTH) - 1) if isinstance(word, int) else Value.cast(word)[:WIDTH]


def signed_digits(constant: int) -> list[tuple[bool, int]]:
    """The constant as a sum of signed powers of two, no two of them adjacent: (negative, exponent)."""
    digits = []
    exponent = 0
    while constant:
        if constant & 1:
            negative = constant & 3 == 3
            constant += 1 if negative else -1
            if exponent < WIDTH:
                digits.append((negative, exponent))
        constant >>= 1
        exponent += 1
    return digits


def _only(terms: Terms) -> Any:
    ((negative, word),) = terms
    assert not negative
    return word


def _fold(line: Any, seed: Any) -> Terms:
    return [(False, _low(line) ^ (line >> WIDTH) ^ seed)]


def _xor_shift(terms: Terms, shift: int) -> Terms:
    word = _only(terms)
    return [(False, word ^ (word >> shift))]


def _spread(terms: Terms, constant: int) -> Terms:
    """The terms whose sum is the word times the constant."""
    word = _only(terms)
    return [(negative, _low(word << exponent)) for negative, exponent in signed_digits(constant)]


def _add_pairs(terms: Terms) -> Terms:
    """One level of the adder tree: half as many terms, the same sum."""
    ordered = sorted(terms, key=lambda term: term[0])  # positive first, so that the last sum is positive
    sums: Terms = []
    while len(ordered) > 1:
        (negative, a), (other, b) = ordered.pop(0), ordered.pop()
        if negative != other:
            sums.append((False, _low(a - b)))
        else:
            sums.append((negative, _low(a + b)))
    return sums + ordered


def _multiply_steps(constant: int) -> list[Any]:
    steps = [lambda terms: _add_pairs(_spread(terms, constant))]
    count = (len(signed_digits(constant)) + 1) // 2
    while count > 1:
        steps.append(_add_pairs)
        count = (count + 1) // 2
    return steps


def _steps() -> list[tuple[int, Any]]:
    """fmix32 in steps: (levels of adders, function from terms to terms)."""
    steps: list[tuple[int, Any]] = [(0, lambda terms: _xor_shift(terms, 16))]
    for constant, shift in zip(MULTIPLIERS, (13, 16), strict=True):
        steps += [(1, step) for step in _multiply_steps(constant)]
        steps.append((0, lambda terms, shift=shift: _xor_shift(terms, shift)))
    return steps


STEPS = _steps()


def register_places(stages: int) -> tuple[int, ...]:
    """After which steps the registers stand: the longest run of adders is as short as can be, then the fewest bits."""
    words = []
    terms: Terms = [(False, 0)]
    for _, step in STEPS:
        terms = step(terms)
        words.append(len(terms))

    def cost(places: tuple[int, ...]) -> tuple[int, int]:
        edges = (0, *(place + 1 for place in places), len(STEPS))
        runs = [sum(adders for adders, _ in STEPS[a:b]) for a, b in pairwise(edges)]
        # The steps after the last register share their clock with the row adder and the memory's address.
        runs[-1] += 1
        return max(runs), sum(words[place] for place in places)

    return min(combinations(range(len(STEPS) - 1), stages), key=cost)


class Murmur3:
    """The hash of ``line_width``-bit line numbers with ``stages`` pipeline registers."""

    def __init__(self, line_width: int, stages: int) -> None:
        self.line_width = line_width
        self.stages = stages

    @staticmethod
    def compute(line: int, seed: int) -> int:
        """The 32-bit hash of a line number."""
        terms = _fold(line, seed)
        for _, step in STEPS:
            terms = step(terms)
        return _only(terms)

    def create(self) -> HashPipeline:
        """The hardware: a hash of ``line`` every clock, ``stages`` clocks later."""
        return HashPipeline(self.line_width, self.stages)


class HashPipeline(wiring.Component):
    """Hardware of :class:`Murmur3`.

    Members
    -------
    line : In(line_width)
    seed : In(32)
    hash : Out(32)
        ``stages`` clocks later; combinational for no stages.
    """

    def __init__(self, line_width: int, stages: int) -> None:
        self._places = register_places(stages)
        super().__init__({"line": In(line_width), "seed": In(WIDTH), "hash": Out(WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        terms = _fold(self.line, self.seed)
        for index, (_, step) in enumerate(STEPS):
            registered = index in self._places
            domain = m.d.sync if registered else m.d.comb
            words: Terms = []
            for k, (negative, word) in enumerate(step(terms)):
                signal = Signal(WIDTH, name=f"step{index}_term{k}", reset_less=registered)
                domain += signal.eq(word)
                words.append((negative, signal))
            terms = words
        m.d.comb += self.hash.eq(_only(terms))
        return m
