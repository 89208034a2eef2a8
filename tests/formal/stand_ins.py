"""What takes the place of blocks of the core that a proof is not about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Array, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.config_space import ConfigSpace
from kv_asu.counters import Counters
from kv_asu.geometry import Geometry
from kv_asu.recency_list import RecencyList

#: Counters this wide are enough to tell all T-levels apart.
COUNT_WIDTH = 2


class _Free:
    """A block whose outputs are anything: ``free`` are the signals that drive them."""

    signature: wiring.Signature

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.free: list[Signal] = []
        for path, member, value in self.signature.flatten(self):
            if member.flow is Out:
                name = "_".join((type(self).__name__.lower(), *map(str, path)))
                free = Signal(Value.cast(value).shape(), name=name)
                self.free.append(free)
                m.d.comb += Value.cast(value).eq(free)
        return m


class FreeList(_Free, RecencyList):
    """A recency list of which nothing is known yet."""


class FreeConfig(_Free, ConfigSpace):
    """Registers that say anything and start anything."""


class NoCounters(Counters):
    """Counters tell nothing to the rest of the core."""

    def elaborate(self, platform: object) -> Module:
        return Module()


class FullGeometry(Geometry):
    """The whole table, lines of 256 bytes."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.row_mask.eq(Const(-1, len(self.row_mask))), self.granule_mask.eq(-1)]
        return m


class FreeHash:
    """Any function of the line, the same at both ports: ``homes`` are its values."""

    def __init__(self, homes: list[Signal]) -> None:
        self._homes = homes

    def __call__(self, line_width: int, stages: int) -> FreeHash:
        """As :class:`kv_asu.murmur3.Murmur3` is made."""
        if stages:
            raise ValueError(f"a free home slot takes no time: hash_stages must be 0, not {stages}")
        self._line_width = line_width
        return self

    def create(self) -> _Function:
        """The hardware."""
        return _Function(self._line_width, self._homes)


class _Function(wiring.Component):
    def __init__(self, line_width: int, homes: list[Signal]) -> None:
        self._homes = homes
        super().__init__({"line": In(line_width), "seed": In(32), "hash": Out(len(homes[0]))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.hash.eq(Array(self._homes)[self.line])
        return m


@contextmanager
def small_counters() -> Iterator[None]:
    """Access counters of :data:`COUNT_WIDTH` bits, in blocks made and elaborated within."""
    with ExitStack() as stack:
        for module in ("layouts", "overlays", "heat_table", "query", "core", "config_space"):
            stack.enter_context(patch(f"kv_asu.{module}.COUNT_WIDTH", COUNT_WIDTH))
        stack.enter_context(patch("kv_asu.t_level.MAX_COUNT", (1 << COUNT_WIDTH) - 1))
        yield


@contextmanager
def watched(module: str, **stand_ins: type) -> Iterator[dict[str, Any]]:
    """Blocks that ``module`` makes, by the name of their class; what is made instead is given by that name."""
    made: dict[str, Any] = {}
    with ExitStack() as stack:
        for name, stand_in in stand_ins.items():

            def make(*arguments: Any, _name: str = name, _class: type = stand_in) -> Any:
                made[_name] = _class(*arguments)
                return made[_name]

            stack.enter_context(patch(f"{module}.{name}", make))
        yield made
