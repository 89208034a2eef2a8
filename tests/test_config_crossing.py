"""Config space in a clock of its own: odd clocks, jitter, resets of either side, faults, and its constraints."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kv_asu import cli, crossing_constraints
from kv_asu.lint import lint
from kv_asu.params import Params
from kv_asu.tops import Top

pytest.importorskip("cocotb", reason="cocotb is not installed")

from kv_asu_sim import crossing, runner
from kv_asu_sim.crossing import TOP

PARAMS = Params(log2_entries=4, window=2)

#: Periods of cfg_clk and clk in ps, and jitter in percent of a period.
CLOCKS = [
    ("250 and 62.5 MHz", 4000, 16000, 0),
    ("500 and 250 MHz", 2000, 4000, 0),
    ("100 and 99.7 MHz", 10000, 10030, 0),
    ("62.5 and 500 MHz", 16000, 2000, 0),
    ("equal", 4000, 4000, 0),
    ("jittered", 4000, 4400, 30),
]
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


def test_every_pair_of_clocks() -> None:
    crossing.run(PARAMS, "verilator", clocks=CLOCKS, accesses=40, resets=30)


@needs_icarus
def test_in_icarus() -> None:
    """Where what is not driven is X."""
    crossing.run(PARAMS, "icarus", clocks=CLOCKS[1:2], accesses=4, resets=4)


FAULTS = {
    "twice": ("assign new_ = (toggle_seen != done) & ~given & ~ends;", "assign new_ = (toggle_seen != done) & ~given;"),
    "toggle reset alone": ("if (hand_over) toggle <=", "if (cfg_rst) toggle <= 1'h0; else if (hand_over) toggle <="),
    "not waiting": ("assign busy = toggle != done_seen;", "assign busy = 1'h0;"),
    "writes answered": ("assign answered = was_busy & ~busy & awaited;", "assign answered = was_busy & ~busy;"),
    "answer survives a reset": ("if (cfg_rst) awaited <= 1'h0;\n    else if", "if"),
    "silent in reset": ("    if (absent) answer <= 32'd4294967295;\n    else if (ends)", "    if (ends)"),
}
_QUICK = 2


@needs_icarus
@pytest.mark.parametrize(
    ("place", "fault"),
    [
        pytest.param(*edit, id=name, marks=[] if index < _QUICK else pytest.mark.slow)
        for index, (name, edit) in enumerate(FAULTS.items())
    ],
)
def test_planted_faults(place: str, fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = crossing.wrapped(PARAMS)
    assert place in text, "the fault found no place in the Verilog"
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    with pytest.raises(runner.BenchFailed, match=r"[1-9]\d* of 5 tests failed"):
        crossing.run(
            PARAMS, "icarus", clocks=CLOCKS[1:2], accesses=10, resets=60, seed=1, text=text.replace(place, fault)
        )


def test_lint_clean(tmp_path: Path) -> None:
    for top in (TOP, Top(axi=True, config_clock=True)):
        path = tmp_path / f"{top.name}.v"
        path.write_text(top.verilog(PARAMS))
        assert [finding.headline for finding in lint(path)] == []


def test_constraints_name_registers_that_are_there() -> None:
    text = TOP.verilog(PARAMS)
    modules = dict(re.findall(r"^module (\w+) \((.*?)^endmodule$", text, re.MULTILINE | re.DOTALL))
    for constraints in (crossing_constraints.sdc(TOP.name), crossing_constraints.xdc(TOP.name)):
        names = set(re.findall(r"crossing/([\w/]+?)_reg", constraints))
        assert len(names) >= 10
        for name in names:
            *blocks, register = name.split("/")
            module = "_".join((TOP.name, "crossing", *blocks))
            assert re.search(rf"\breg (?:\[\d+:0\] )?{register} ?[=;]", modules[module]), name
        crossings = re.findall(r"set_max_delay.*crossing/(\w+)_reg\S* .*crossing/([\w/]+)_reg", constraints)
        assert len(crossings) == 5
    found = re.findall(r"@\(posedge (\w+)\)\n +(?:if \(.*?\) )?(\w+) <=", modules[f"{TOP.name}_crossing"])
    clocked = {register: clock for clock, register in found}
    assert clocked["held"] == clocked["toggle"] == clocked["cfg_ext_read_data"] == "cfg_clk"
    assert clocked["request"] == clocked["answer"] == clocked["done"] == "clk"


def test_constraints_are_tcl_and_bound_each_crossing_by_its_own_clock() -> None:
    """In an interpreter in which the tools' commands only note what they are given."""
    tkinter = pytest.importorskip("tkinter", reason="Python has no Tcl here")
    for text in (crossing_constraints.sdc("kv_asu_cdc"), crossing_constraints.xdc("kv_asu_cdc")):
        tcl = tkinter.Tcl()
        tcl.eval("set delays {}; set kv_asu top/; set kv_asu_period 3.0; set kv_asu_cfg_period 5.0")
        tcl.eval("proc get_cells {args} { join $args }; proc get_ports {name} { return $name }")
        tcl.eval("proc get_clocks {args} { lindex $args end }; proc set_false_path {args} {}")
        tcl.eval("proc get_property {args} { expr {[lindex $args end] eq {clk} ? 3.0 : 5.0} }")
        tcl.eval("proc set_property {name value cells} { if {[llength $cells] != 2} { error $cells } }")
        tcl.eval("proc set_max_delay {args} { global delays; lappend delays $args }")
        tcl.eval(text)
        bounds = {}
        for arguments in tcl.splitlist(tcl.eval("set delays")):
            words = tcl.splitlist(arguments)
            (period,) = [word for word in words if word in ("3.0", "5.0")]
            source = words[words.index("-from") + 1].removeprefix("top/")
            bounds[source.removeprefix("crossing/").removesuffix("_reg*")] = float(period)
        assert bounds == {"held": 3.0, "toggle": 3.0, "answer": 5.0, "done": 5.0, "interrupt": 5.0}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.v"
    assert cli.main(["verilog", "--config-clock", "--log2-entries", "4", "--window", "2", "--assertions",
                     "-o", str(path)]) == 0  # fmt: skip
    record = json.loads(path.with_suffix(".json").read_text())
    assert record["name"] == "kv_asu_cdc"
    assert [pin["name"] for pin in record["pins"][:4]] == ["clk", "rst", "cfg_clk", "cfg_rst"]
    assert path.with_suffix(".sdc").read_text() == crossing_constraints.sdc("kv_asu_cdc")
    assert "read_xdc -ref kv_asu_cdc" in path.with_suffix(".xdc").read_text()
    assert "bind kv_asu_cdc " in (tmp_path / "c_assertions.sv").read_text()
    assert "constraints in" in capsys.readouterr().out
    assert cli.main(["verilog", "--config-clock", "--full-config-space", "-o", str(path)]) == 2
    assert "not with full_config_space" in capsys.readouterr().err
