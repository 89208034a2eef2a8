"""The examples: each is elaborated and simulated as its README says, and its checks can fail."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kv_asu import assertions
from kv_asu.cli import main as kv_asu
from kv_asu.lint import WAIVERS, _verilator
from kv_asu.params import Params
from kv_asu_sim.build import verilog

EXAMPLES = Path(__file__).parents[1] / "examples"
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
needs_perl = pytest.mark.skipif(shutil.which("perl") is None, reason="Verilator's wrapper is a Perl script")


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
    said = f"wanted: 0x80000100\nwriting the Verilog, some seconds ...\n{output}\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert re.search(r"^module top\(", output.read_text(), re.MULTILINE)


PAGE = (EXAMPLES.parent / "docs" / "assertions.md").read_text()

#: Drives nothing but a request, which is unknown when asked for.
_TB = """
module tb;
  reg clk = 0, rst = 1, read_valid = 0;
  always #1 clk = !clk;
  snooper dut (
    .clk(clk), .rst(rst), .read_valid(read_valid), .read_address(64'd0), .write_valid(1'b0), .write_address(64'd0),
    .write_ready(), .query_valid(1'b0), .query_addr(64'd0), .query_min_tlevel(2'd0), .query_boost(1'b0),
    .evict_valid(1'b0), .cfg_ext_read_received(1'b0), .cfg_ext_write_received(1'b0), .cfg_ext_register_number(10'd0),
    .cfg_ext_function_number(8'd0), .cfg_ext_write_data(32'd0), .cfg_ext_write_byte_enable(4'd0));
  initial begin
    #10 rst = 0;
    #10 read_valid = $test$plusargs("unknown") ? 1'bx : 1'b1;
    #10 $finish;
  end
endmodule
"""


@pytest.fixture(scope="module")
def asserted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what docs/assertions.md begins from: the two files, and a design around the core."""
    folder = tmp_path_factory.mktemp("asserted")
    params = Params(log2_entries=4, window=4)
    (folder / "build").mkdir()
    (folder / "build" / "kv_asu.sv").write_text(verilog(params))
    (folder / "build" / "kv_asu_assertions.sv").write_text(assertions.emit(params))
    shutil.copy(EXAMPLES / "own_bench" / "snooper.sv", folder)
    (folder / "tb.sv").write_text(_TB)
    return folder


def page_command(program: str) -> list[str]:
    (line,) = re.findall(rf"^{program}\b.*", PAGE, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize(
    "what", ["--lint-only", pytest.param("--binary", marks=[pytest.mark.slow, needs_perl])], ids=["bind", "run"]
)
def test_assertions_as_the_page_says(what: str, asserted: Path) -> None:
    """By the Verilator of the set-up: the bind finds its module and its pins, and what it makes runs."""
    program, *words = page_command(r"\.venv/bin/verilator-cli")
    assert words[0] == "--binary"
    if what == "--binary":
        command, environment = [str(Path(sys.executable).with_name(Path(program).name))], dict(os.environ)
    else:
        command, environment = _verilator()  # without its wrapper, which needs Perl
    done = subprocess.run(
        [*command, what, *words[1:], "snooper.sv"],
        cwd=asserted, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if what == "--binary":
        assert subprocess.run(page_command("build/verilated/Vtb"), cwd=asserted, check=False).returncode == 0


@needs_icarus
def test_assertions_in_icarus_as_the_page_says(asserted: Path) -> None:
    found = subprocess.run(page_command("sed"), cwd=asserted, capture_output=True, text=True, check=True).stdout
    assert found.startswith("kv_asu_assertions #(")
    top = asserted / "snooper.sv"
    top.write_text(top.read_text().replace("kv_asu asu (.*);", f"kv_asu asu (.*);\n{found}"))
    subprocess.run(page_command("iverilog"), cwd=asserted, check=True, capture_output=True, timeout=300)
    for plus, failed in (([], False), (["+unknown"], True)):
        done = subprocess.run([*page_command("vvp"), *plus], cwd=asserted, capture_output=True, text=True, check=True)
        assert ("Assertion failed in tb" in done.stdout + done.stderr) == failed, done.stdout
