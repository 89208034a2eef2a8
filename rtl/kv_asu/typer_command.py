"""What the commands made with typer share: errors that read as one line, and exit codes."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import typer

from kv_asu.command_line import USAGE, complain, empty, ending
from kv_asu.interrupts import INTERRUPTED

#: Wrong usage of any kind; typer has no public name for this base.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


def run(app: typer.Typer, name: str, arguments: Sequence[str] | None, *failures: type[Exception]) -> int:
    """Run a command line.

    Parameters
    ----------
    app : Typer
        The commands.
    name : str
        What starts them.
    arguments : sequence of str, optional
        Instead of the process's own.
    *failures : exception types
        What they may raise for the user to be told.

    Returns
    -------
    int
        The exit code: that of the command, 2 for wrong usage, and what `kv_asu.command_line.ending` gives for failures.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name may be no text
        sys.stdout.reconfigure(errors="backslashreplace")

    given = sys.argv[1:] if arguments is None else list(arguments)

    def job() -> int:
        if (what := empty(given)) is not None:
            complain(name, f"{what} is empty; see '{name} --help'")
            return USAGE
        try:
            code = app(args=given, prog_name=name, standalone_mode=False)
        except _UsageError as error:
            context = getattr(error, "ctx", None)
            way_out = f"; see '{context.command_path} --help'" if context else ""
            text = error.format_message().rstrip(".")
            if text:  # typer has already shown the help of a command called without arguments
                complain(name, f"{text}{way_out}")
            return USAGE
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # typer has taken it
                raise end.__context__ from None
            raise
        except typer.Abort:
            code = INTERRUPTED
        if code == INTERRUPTED:  # typer has taken it
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0

    return ending(name, job, *failures)
