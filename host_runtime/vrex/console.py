"""What the commands share in talking to a person: progress bars and tables on the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

#: Results go to standard output, everything about the way there to standard error.
stderr = Console(stderr=True)


def tell(text: str) -> None:
    """A line on standard error, as it is."""
    stderr.print(text, markup=False, highlight=False, soft_wrap=True)


class _RateColumn(ProgressColumn):
    """Units done a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("")
        return Text(f"{speed:,.1f} {self._unit}/s" if speed < 100 else f"{speed:,.0f} {self._unit}/s")


@contextlib.contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar with rate and time left on standard error; it is silent where that is no terminal.

    What is printed meanwhile goes above the bar; `print` only, for `typer.echo` writes past it.

    Yields
    ------
    callable
        To be told the units done so far, and how many there are (None: unknown).
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(),
    )
    # Results that go to the same terminal are passed through, so that the bar makes way; those for a file are not.
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, redirect_stdout=sys.stdout.isatty()
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
