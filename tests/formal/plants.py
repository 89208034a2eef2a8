"""Faults that are planted in the gateware, or in the model that it is held against, to see each proof fail.

A fault is a change to the text of one module, in effect while the harness is elaborated.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from unittest.mock import patch

LIST = ("recency list, L = 1", "recency list, list follows")
CORE = "core, window 2, L = 1"
DEEP = "core, window 2, table_stages = 2"
PORT = "config port"


@dataclass(frozen=True)
class Plant:
    """One fault.

    Parameters
    ----------
    name : str
        What it breaks.
    module : str
        The module.
    old, new : str
        Its text, found once, and what stands there instead.
    build : str
        The build that must notice.
    group : str
        The claims of it that must fail, whatever the part.
    """

    name: str
    module: str
    old: str
    new: str
    build: str
    group: str


PLANTS: tuple[Plant, ...] = ()


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The fault is there for what is elaborated within.

    Raises
    ------
    LookupError
        The text is not found exactly once: the module has moved on, and the plant must follow.
    """
    module = importlib.import_module(plant.module)
    path = Path(str(module.__file__))
    text = path.read_text()
    if text.count(plant.old) != 1:
        raise LookupError(f"{plant.name}: found {text.count(plant.old)} times in {plant.module}: {plant.old!r}")
    changed: dict[str, object] = {"__name__": plant.module}
    exec(compile(text.replace(plant.old, plant.new), str(path), "exec"), changed)

    def at_home(function: FunctionType) -> FunctionType:
        """The changed function among the names of the real module."""
        return FunctionType(
            function.__code__, module.__dict__, function.__name__, function.__defaults__, function.__closure__
        )

    with ExitStack() as stack:
        for name, value in changed.items():
            if getattr(value, "__module__", None) != plant.module:
                continue
            if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
                stack.enter_context(patch.object(module, name, at_home(value)))
            elif isinstance(value, type):
                for attribute, function in vars(value).items():
                    if isinstance(function, FunctionType) and not attribute.startswith("__"):
                        stack.enter_context(patch.object(getattr(module, name), attribute, at_home(function)))
        yield
