"""The examples: each is elaborated and simulated as its README says, and its checks can fail."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kv_asu.cli import main as kv_asu
from kv_asu.lint import WAIVERS, _verilator
from kv_asu.params import Params
from kv_asu_sim.build import verilog

EXAMPLES = Path(__file__).parents[1] / "examples"
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


#: The build that each README tells to generate.
BUILDS = {"verilog_project": Params.fpga(), "pcie_hard_block": Params.fpga(config_base=0x480)}


def copied(name: str, tmp_path: Path) -> Path:
    """An example with its core."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("build"))
    (folder / "build").mkdir()
    (folder / "build" / "kv_asu.sv").write_text(verilog(BUILDS[name]))
    return folder


def simulate(folder: Path) -> subprocess.CompletedProcess[str]:
    """Icarus, by the example's list of files."""
    compiled = folder / "build" / "tb"
    command = ["iverilog", "-g2012", "-s", "tb", "-o", str(compiled), "-f", "files.f"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return subprocess.run(["vvp", "-n", str(compiled)], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("name", BUILDS)
def test_the_readme_names_the_build(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"kv-asu verilog (.*) -o build/kv_asu.sv", (EXAMPLES / name / "README.md").read_text())
    assert found
    assert kv_asu(["info", *found[1].split(), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {field: record[field] for field in BUILDS[name].asdict()} == BUILDS[name].asdict()


@needs_icarus
@pytest.mark.parametrize("name", BUILDS)
def test_a_testbench_passes(name: str, tmp_path: Path) -> None:
    done = simulate(copied(name, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("passed: ")


@needs_icarus
@pytest.mark.parametrize(
    ("name", "file", "right", "wrong"),
    [
        ("verilog_project", "kv_asu_top.sv", "victim_status == FOUND", "victim_status == 2'd2"),
        ("verilog_project", "kv_asu_top.sv", "tag_after == 2'd3", "tag_after == 2'd2"),
        ("pcie_hard_block", "pcie_top.sv", ".req_valid                 (mem_valid)", ".req_valid (1'b0)"),
    ],
)
def test_a_testbench_fails(name: str, file: str, right: str, wrong: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    text = (folder / file).read_text()
    assert right in text
    (folder / file).write_text(text.replace(right, wrong))
    done = simulate(folder)
    assert done.returncode == 1, done.stdout + done.stderr


def test_verilator_takes_the_design(tmp_path: Path) -> None:
    """Lint with everything on, but for outputs that are left open on purpose."""
    folder = copied("verilog_project", tmp_path)
    command, environment = _verilator()
    options = ["--lint-only", "-Wall", "-Wno-PINCONNECTEMPTY", "--top-module", "kv_asu_top", str(WAIVERS)]
    done = subprocess.run(
        [*command, *options, "build/kv_asu.sv", "kv_asu_top.sv"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_amaranth_design(tmp_path: Path) -> None:
    """Simulated, and written as Verilog in the same run."""
    script, output = EXAMPLES / "amaranth_design" / "prefetcher.py", tmp_path / "prefetcher.v"
    command = [sys.executable, str(script), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "wanted: 0x80000100\n"), done.stderr
    assert re.search(r"^module top\(", output.read_text(), re.MULTILINE)
