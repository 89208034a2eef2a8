"""What the commands share in talking to a person: progress bars and tables on the terminal."""

from __future__ import annotations

import contextlib
import sys
import time
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


#: Seconds between two lines about a job where no bar can be drawn; what is quicker is silent.
_SILENCE = 30


class _Lines:
    """What a bar would show, for a file or a pipe, now and then."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._told = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._told >= _SILENCE:
            self._told = now
            tell(f"{self._what}: {done:,}{'' if total is None else f' of {total:,}'} {self._unit}")


@contextlib.contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar with rate and time left on standard error; where that is no terminal, a line twice a minute.

    What is printed meanwhile goes above the bar; `print` only, for `typer.echo` writes past it.

    Yields
    ------
    callable
        To be told the units done so far, and how many there are (None: unknown).
    """
    if not stderr.is_terminal:
        yield _Lines(what, unit)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(),
    )
    # Results that go to the same terminal are passed through, so that the bar makes way; those for a file are not.
    with Progress(*columns, console=stderr, redirect_stdout=sys.stdout.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
