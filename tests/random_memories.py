"""Memories that hold anything at power-up, in Amaranth's simulator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

from amaranth.hdl import Shape, ShapeCastable
from amaranth.lib.memory import Memory


@contextmanager
def random_memories(chance: random.Random, *modules: ModuleType) -> Iterator[None]:
    """Every memory that code of ``modules`` makes meanwhile starts with random contents, each its own."""

    def make(*, shape: Any, depth: int, init: list[int]) -> Memory:
        assert not list(init)
        words = [chance.getrandbits(Shape.cast(shape).width) for _ in range(depth)]
        contents = [shape.from_bits(word) for word in words] if isinstance(shape, ShapeCastable) else words
        return Memory(shape=shape, depth=depth, init=contents)

    patches = [patch.object(module, "Memory", make) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
