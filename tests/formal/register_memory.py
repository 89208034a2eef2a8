"""Memories as registers, so that a proof can speak of every word of them; the gateware itself is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from amaranth.hdl import Array, Elaboratable, Module, Shape, ShapeCastable, ShapeLike, Signal, Value, ValueCastable

#: The blocks that hold memories.
USERS = ("kv_asu.forwarding_memory", "kv_asu.lookup", "kv_asu.eviction")


@dataclass
class _Port:
    addr: Signal
    data: Value | ValueCastable
    en: Signal


class RegisterMemory(Elaboratable):
    """Stands in for :class:`amaranth.lib.memory.Memory` with one read and one write port.

    A read that meets a write to its address returns the old word, as the core takes for granted. The words are the
    registers ``row0``, ``row1`` and so on; like everything without a reset they start as anything.
    """

    def __init__(self, *, shape: ShapeLike, depth: int, init: list[object]) -> None:
        address = max(1, (depth - 1).bit_length())
        self._rows = [_signal(shape, f"row{row}") for row in range(depth)]
        self._read = _Port(Signal(address, name="r_addr"), _signal(shape, "r_data"), Signal(name="r_en"))
        self._write = _Port(Signal(address, name="w_addr"), _signal(shape, "w_data", reset=True), Signal(name="w_en"))

    def read_port(self) -> _Port:
        """The read port; it reads in every clock."""
        return self._read

    def write_port(self) -> _Port:
        """The write port."""
        return self._write

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = [Value.cast(row) for row in self._rows]
        m.d.sync += Value.cast(self._read.data).eq(Array(words)[self._read.addr])
        for number, word in enumerate(words):
            with m.If(self._write.en & (self._write.addr == number)):
                m.d.sync += word.eq(Value.cast(self._write.data))
        return m


def _signal(shape: ShapeLike, name: str, *, reset: bool = False) -> Value | ValueCastable:
    signal = Signal(Shape.cast(shape).width, name=name, reset_less=not reset)
    return shape(signal) if isinstance(shape, ShapeCastable) else signal


@contextmanager
def memories_as_registers() -> Iterator[None]:
    """Blocks elaborated within use :class:`RegisterMemory`."""
    with ExitStack() as stack:
        for user in USERS:
            stack.enter_context(patch(f"{user}.Memory", RegisterMemory))
        yield
