"""The abstract recency list: which of two slots was touched later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from amaranth.hdl import Cat, Module, Signal, Value, ValueLike


class Order:
    """A total order of all slots, one bit for each pair.

    Parameters
    ----------
    m : Module
        Keeps the bits.
    slots : int
        How many there are.
    """

    def __init__(self, m: Module, slots: int) -> None:
        self._slots = range(slots)
        self._m = m
        self._bits = {pair: Signal(name="order{}_{}".format(*pair), init=1) for pair in combinations(self._slots, 2)}

    def newer(self, a: int, b: int) -> Value:
        """Whether slot ``a`` is the newer of the two."""
        return self._bits[a, b] if a < b else ~self._bits[b, a]

    def touch(self, enable: ValueLike, slot: Value) -> None:
        """Make ``slot`` the newest of all."""
        for (a, b), bit in self._bits.items():
            with self._m.If(Value.cast(enable) & ((slot == a) | (slot == b))):
                self._m.d.sync += bit.eq(slot == a)

    def cycles(self) -> Iterator[Value]:
        """For each three slots, that they are newer than one another in a circle."""
        for a, b, c in combinations(self._slots, 3):
            ab, bc, ca = self.newer(a, b), self.newer(b, c), self.newer(c, a)
            yield (ab & bc & ca) | (~ab & ~bc & ~ca)

    def newest(self, members: list[Value]) -> list[Value]:
        """For each slot, that it is the newest of ``members``."""
        return [
            members[a] & ~Cat(members[b] & self.newer(b, a) for b in self._slots if b != a).any() for a in self._slots
        ]

    def oldest(self, members: list[Value]) -> list[Value]:
        """For each slot, that it is the oldest of ``members``."""
        return [
            members[a] & ~Cat(members[b] & self.newer(a, b) for b in self._slots if b != a).any() for a in self._slots
        ]
