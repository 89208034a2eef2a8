"""What options of several commands have in common."""

from __future__ import annotations

from collections.abc import Callable

import typer


def one_of(*names: str) -> Callable[[str], str]:
    """A parser for an option that takes one of these names."""

    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}")
        return text

    return parse
