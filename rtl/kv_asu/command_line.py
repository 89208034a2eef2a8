"""What the commands started with ``python -m`` share: options, help, and errors that read as one line."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from kv_asu import __version__
from kv_asu.installing import not_installed
from kv_asu.interrupts import INTERRUPTED, unwinding

#: From so many characters in a row on, only their ends are shown; hardly any path has as many.
_LONGEST_WORD = 1000

FAILURE = 1
USAGE = 2
OUTPUT_CLOSED = 128 + signal.SIGPIPE  # what shells show of a program that a closed pipe ended, as `| head` does


class Parser(argparse.ArgumentParser):
    """A command's options; wrong usage is one line.

    Parameters
    ----------
    command : str
        How it is started: ``python -m kv_asu_sim.demo``.
    description : str
        What it does, in a sentence.
    examples : sequence of str
        What follows ``command`` in the examples of its help.
    """

    def __init__(self, command: str, description: str, examples: Sequence[str] = ()) -> None:
        shown = "\n".join(f"  {command} {example}".rstrip() for example in examples)
        super().__init__(
            prog=command,
            description=description,
            epilog=f"examples:\n{shown}" if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # an option that comes later may not change what a script means
        )
        self.name = command.replace("/", ".").removesuffix(".py").rsplit(".", 1)[-1]
        self.add_argument("--version", action="version", version=f"{self.name} {__version__}")

    def error(self, message: str) -> NoReturn:
        """End with one line, and the exit code of wrong usage."""
        self.exit(USAGE, f"{self.name}: {message}; see --help\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End; what cannot be written of a help or a list is told by `parse_args`, not on the way out."""
        print(end="", flush=True)
        super().exit(status, message)

    def parse_args(  # type: ignore[override]  # nobody brings a namespace
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """Parse; whatever ends it is one line and an exit code."""
        options = argparse.Namespace()

        def job() -> int:
            super(Parser, self).parse_args(args, options)
            return 0

        if code := ending(self.name, job):
            raise SystemExit(code)
        return options

    def complain(self, text: str) -> None:
        """Say on standard error what went wrong."""
        complain(self.name, text)

    def run(self, job: Callable[[], int], *failures: type[Exception]) -> int:
        """Do the command's job, as `ending` does."""
        return ending(self.name, job, *failures)


def complain(name: str, text: str) -> None:
    """Say on standard error what went wrong: one line that can be read, whatever is in what it quotes."""
    text = re.sub(rf"\S{{{_LONGEST_WORD},}}", lambda word: f"{word[0][:100]}...{word[0][-20:]}", text)
    print(f"{name}:", text.replace("\r", "\\r").replace("\n", "\\n"), file=sys.stderr)


def empty(arguments: Sequence[str]) -> str | None:
    """The first argument that is empty, by its option where it has one: what an unset variable leaves in a script."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        option, equals, value = word.partition("=")
        if not word:
            return before if before.startswith("-") else "an argument"
        if equals and not value and option.startswith("--"):
            return option
    return None


def ending(name: str, job: Callable[[], int], *failures: type[Exception]) -> int:
    """Do a command's job; whatever ends it is one line and an exit code.

    Parameters
    ----------
    name : str
        The command, in front of the line.
    job : callable
        Returns the exit code.
    *failures : exception types
        What it may raise for the user to be told.

    Returns
    -------
    int
        The exit code: that of the job, 1 for a failure, 130 when interrupted, 141 when whoever read the output has
        seen enough.
    """
    _fill_streams()
    try:
        code = unwinding(job)
        print(end="", flush=True)  # what cannot be written is told here, not on the way out
        return code
    except failures as error:
        complain(name, str(error))
    except ModuleNotFoundError as error:
        complain(name, not_installed(error))
    except BrokenPipeError:
        _drop_output()
        return int(OUTPUT_CLOSED)
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        if error.filename is None:
            _drop_output()
        complain(name, f"{error.filename or 'standard output'}: {error.strerror}")
    except KeyboardInterrupt:
        complain(name, "interrupted")
        return INTERRUPTED
    return FAILURE


def _fill_streams() -> None:
    """Have a standard stream that was closed lead nowhere: Python has None for it, and the next file its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # for as long as the process lives


def _drop_output() -> None:
    """Nobody takes our output any more: what is left of it must not be tried again on the way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def whole_number(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    """The type of an option that takes a whole number from ``least`` to ``most``; 0x starts a hexadecimal one."""
    wanted = f"a number of {least} or more" if most is None else f"a number from {least} to {most}"

    def parse(text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            value = None
        if value is None or value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
        return value

    return parse


def amount(text: str) -> float:
    """The type of an option that takes a finite number of 0 or more."""
    with contextlib.suppress(ValueError):
        if 0 <= (value := float(text)) < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
