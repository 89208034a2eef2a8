"""What a block keeps to itself, by name: the signals it drives, and those of the blocks in it."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Fragment, Signal
from amaranth.lib import data


class Internals:
    """An elaborated block, for a proof to look into.

    Parameters
    ----------
    fragment : Fragment
        The block; it must still be made a submodule of the proof's own module.
    """

    def __init__(self, fragment: Fragment) -> None:
        self._fragment = fragment

    def block(self, path: str) -> Internals:
        """The block at a dotted path below this one."""
        fragment = self._fragment
        for name in path.split("."):
            fragment = next(part for part, part_name, _ in fragment.subfragments if part_name == name)
        return Internals(fragment)

    def signal(self, name: str) -> Signal:
        """The one signal of that name that the block drives; registers come before others.

        Raises
        ------
        LookupError
            There is none, or more than one.
        """
        found = self._driven(name, ("sync",)) or self._driven(name, ("sync", "comb"))
        if len(found) != 1:
            raise LookupError(f"{len(found)} driven signals are called {name!r}")
        return found[0]

    def _driven(self, name: str, domains: tuple[str, ...]) -> list[Signal]:
        driven = {
            id(signal): signal
            for domain in domains
            for statement in self._fragment.statements.get(domain, ())
            for signal in statement._lhs_signals()
            if signal.name == name
        }
        return list(driven.values())

    def record(self, name: str, layout: data.Layout) -> data.View:
        """The signal of that name under its layout."""
        return data.View(layout, self.signal(name))

    def rows(self, layout: data.Layout | None = None) -> list[Any]:
        """The words of a memory held in registers."""
        rows: list[Any] = []
        while True:
            try:
                row = self.signal(f"row{len(rows)}")
            except LookupError:
                return rows
            rows.append(row if layout is None else data.View(layout, row))
