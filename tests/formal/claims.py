"""What a harness claims, sorted into groups that are proved one at a time.

A group is proved for a clock from all the claims of the clocks before: its own are the induction's hypothesis, those of
the other groups are assumed of the clock before. That is one induction over time, done in several runs. Where a group
leans on others of the same clock, these never lean back in that clock, so nothing is circular.
"""

from __future__ import annotations

from graphlib import TopologicalSorter

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, ResetSignal, Signal, Value, ValueLike
from amaranth.hdl._ast import AnyConst, Initial


def constant(m: Module, name: str, width: int) -> Signal:
    """Anything, but the same in all clocks."""
    signal = Signal(width, name=name)
    m.d.comb += signal.eq(AnyConst(width))
    return signal


class Claims:
    """Collects claims, assumptions and covers of one harness."""

    def __init__(self) -> None:
        self.groups: dict[str, list[tuple[str, Value]]] = {}
        self.assumptions: list[tuple[str | None, Value]] = []
        self.covers: dict[str, Value] = {}
        self._leans: dict[str, tuple[str, ...]] = {}
        self._now: dict[str, tuple[str, ...]] = {}

    def lean(self, group: str, *others: str, now: tuple[str, ...] = ()) -> None:
        """Spare the solver what the group has no need of.

        It relies on ``others`` only, of the clock before, and on ``now`` in the same clock: groups that do not
        themselves rely on this one but of the clock before.
        """
        self._leans[group] = others
        self._now[group] = now

    def claim(self, group: str, name: str, value: ValueLike) -> None:
        """``value`` holds in every clock after reset."""
        self.groups.setdefault(group, []).append((name, Value.cast(value)))

    def assume(self, value: ValueLike, *, group: str | None = None) -> None:
        """The environment keeps ``value``; only that group's proof, if one is named, relies on it."""
        self.assumptions.append((group, Value.cast(value)))

    def cover(self, name: str, value: ValueLike) -> None:
        """``value`` can happen."""
        self.covers[name] = Value.cast(value)

    def emit_proof(self, m: Module, group: str, part: int = 0, parts: int = 1) -> None:
        """Add to ``m`` what proves a group, or every ``parts``-th claim of it from ``part`` on."""
        self._emit_environment(m, group)
        asserted = self.groups[group][part::parts]
        for name, value in asserted:
            bit = Signal(name=f"{group}: {name}".replace(" ", "_"))
            m.d.comb += [bit.eq(ResetSignal() | value.bool()), Assert(bit, f"{group}: {name}")]
        leans = self._leans.get(group, tuple(self.groups))
        others = [value.bool() for name in leans if name != group for _, value in self.groups[name]]
        others += [value.bool() for index, (_, value) in enumerate(self.groups[group]) if index % parts != part]
        if others:
            held = Signal(init=1)
            m.d.sync += held.eq(Cat(others).all())
            m.d.comb += Assume(held)
        for name in self._now.get(group, ()):
            m.d.comb += [Assume(ResetSignal() | value.bool()) for _, value in self.groups[name]]

    def check_leans(self) -> None:
        """Make sure that groups relied on in the same clock do not rely back.

        Raises
        ------
        ValueError
            Some do.
        """
        TopologicalSorter(self._now).prepare()

    def emit_covers(self, m: Module) -> None:
        """Add to ``m`` what looks for a way to each cover."""
        self._emit_environment(m, None)
        m.d.comb += [Cover(~ResetSignal() & value.bool(), name) for name, value in self.covers.items()]

    def _emit_environment(self, m: Module, group: str | None) -> None:
        # Everything starts as anything, is reset in the first clock, and may be again.
        m.d.comb += Assume(ResetSignal() | ~Initial())
        m.d.comb += [
            Assume(ResetSignal() | value.bool()) for owner, value in self.assumptions if owner in (None, group)
        ]
