"""The worked example of a bench of one's own: it passes, and it fails when the core does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_bench"


def run(script: Path, build: Path, simulator: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), "--simulator", simulator, "--build", str(build), "--seed", "7"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param(
            "icarus", marks=pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
        ),
        pytest.param("verilator", marks=pytest.mark.slow),
    ],
)
def test_the_example_passes(tmp_path: Path, simulator: str) -> None:
    done = run(EXAMPLE / "run.py", tmp_path / "build", simulator)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 tests passed" in done.stdout
    assert "compared {'clocks':" in (tmp_path / "build" / "run.log").read_text()


@pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
def test_it_fails_with_the_core(tmp_path: Path) -> None:
    """An answer of the core is forced to another value."""
    shutil.copytree(EXAMPLE, tmp_path / "own")
    top = tmp_path / "own" / "snooper.sv"
    text = top.read_text()
    faulty = text.replace("kv_asu asu (.*);", "kv_asu asu (.*);\n  initial #300 force asu.tag_count = 16'd2;")
    assert faulty != text
    top.write_text(faulty)
    done = run(tmp_path / "own" / "run.py", tmp_path / "build", "icarus")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "count is 0x2, expected" in (tmp_path / "build" / "run.log").read_text()
