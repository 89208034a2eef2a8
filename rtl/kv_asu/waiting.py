"""What is being done while a person waits: a spinner on a terminal, a line on standard error elsewhere."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class Show(Protocol):
    """To be told what is being done now, and whether that is on standard error already."""

    def __call__(self, text: str, *, told: bool = False) -> None:
        """Show it."""


#: Seconds that something may take, where there is no terminal, before it is told.
PATIENCE = 2.0

#: The display of whoever waits already, and what it shows: what is waited for inside is shown there.
_outer: tuple[Show, list[str]] | None = None


@contextlib.contextmanager
def waiting(what: str) -> Iterator[Show]:
    """Say what is being done: on a terminal with a clock for as long as it lasts, elsewhere once it takes its time.

    Parameters
    ----------
    what : str
        What is being done, and about how long it takes if that is more than some seconds.

    Yields
    ------
    Show
    """
    global _outer
    if _outer is not None:
        show, shown = _outer
        before = shown[0]
        try:
            show(what)
            yield show
        finally:
            show(before)
        return
    shown = [what]
    on_terminal = sys.stderr.isatty() and multiprocessing.parent_process() is None  # one of several would draw over it
    with _spinner(what) if on_terminal else _lines(what) as now:

        def show(text: str, *, told: bool = False) -> None:
            if text != shown[0]:
                shown[0] = text
                now(text, told)

        _outer = show, shown
        try:
            yield show
        finally:
            _outer = None


@contextlib.contextmanager
def _spinner(what: str) -> Iterator[Callable[[str, bool], None]]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # Twice a second: what is measured meanwhile shares the processor. What is printed for a file does not pass here.
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=2,
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda now, told: progress.update(task, description=now)


@contextlib.contextmanager
def _lines(what: str) -> Iterator[Callable[[str, bool], None]]:
    timer: threading.Timer | None = None

    def now(text: str, told: bool) -> None:
        nonlocal timer
        if timer is not None:
            timer.cancel()
        if told:
            return
        timer = threading.Timer(PATIENCE, functools.partial(print, f"{text} ...", file=sys.stderr, flush=True))
        timer.daemon = True
        timer.start()

    now(what, False)
    try:
        yield now
    finally:
        if timer is not None:
            timer.cancel()
