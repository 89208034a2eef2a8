"""The assertions that go out beside the Verilog: each is seen failing on its own fault, and none without one.

Streams play on the core, and between its pins and the assertions sits a fault that changes from one stretch of clocks
to the next. That the core as it is keeps them all, bound to it, is what `test_cocotb_bench.py` shows with every stream.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

import kv_asu.cli
import kv_asu.verilog
from kv_asu import assertions
from kv_asu.cli import main
from kv_asu.lint import lint
from kv_asu.params import Params
from kv_asu.tops import Top
from kv_asu_sim import runner
from kv_asu_sim.build import verilog
from kv_asu_sim.pins import INPUTS, OUTPUTS
from kv_asu_sim.runner import BenchFailed

PARAMS = Params(log2_entries=4, window=4, hash_stages=1, addr_width=40, function=8)
CLOCKS = {"verilator": 400, "icarus": 160}
SEED = 3
PINS = ["clk", *(INPUTS.names or ()), *(OUTPUTS.names or ())]


class Fault(NamedTuple):
    """What the assertions see at a pin instead of what is there, and the stream in which that must be found out."""

    pin: str
    value: str
    stream: str = "one_bucket"


#: The fault that each assertion is there for.
FAULTS = {
    "none": Fault("irq", "irq"),
    "a_request_answered": Fault("tag_valid", "tag_valid && !(clocks[3:0] == 0)"),
    "a_query_answered": Fault("answer_valid", "was_answered"),
    "a_evict_answered": Fault("victim_valid", "1'b1"),
    "a_tag_line": Fault("tag_line", "tag_line ^ 32'h10"),
    "a_untracked_zero": Fault("tag_count", "tag_count | 16'd1"),
    "a_new_line": Fault("tag_before", "2'd1"),
    "a_count": Fault("tag_count", "16'd0"),
    "a_after": Fault("tag_after", "2'd0"),
    "a_level_rises": Fault("tag_before", "{2{tag_hit}}"),
    "a_spill": Fault("spill_valid", "1'b1"),
    "a_spill_other": Fault("spill_line", "tag_line"),
    "a_no_spill_zero": Fault("spill_line", "32'd1"),
    "a_answer_zero": Fault("answer_tlevel", "answer_tlevel | 2'd1"),
    "a_answer_hit": Fault("answer_hit", "answer_tracked && !answer_hit"),
    "a_answer_boost": Fault("answer_tlevel", "2'd0"),
    "a_victim_status": Fault("victim_status", "2'd3"),
    "a_no_victim_zero": Fault("victim_line", "32'd1"),
    "a_victim_cold": Fault("victim_line", "tag_line"),
    "a_victim_not_spilled": Fault("victim_line", "spill_line", "spill_and_evict"),
    "a_retry_rate": Fault("victim_status", "2'd2", "evict_every_clock"),
    "a_touch_again_hits": Fault("tag_slot", "tag_slot ^ clocks[3:0]", "one_line"),
    "a_touch_again_counts": Fault("tag_count", "was_counted", "one_line"),
    "a_victim_is_gone": Fault("victim_line", "was_touched", "churn"),
    "a_victim_once": Fault("victim_line", "32'd7", "evict_every_clock"),
    "a_read_answered": Fault("cfg_ext_read_data_valid", "cfg_ext_read_received", "register_ports"),
}
UNKNOWN = {
    "none": Fault("irq", "irq"),
    "a_tag_known": Fault("tag_stamp", "{8{1'bx}}"),
    "a_answer_known": Fault("answer_tlevel", "2'bx"),
    "a_victim_known": Fault("victim_line", "{32{1'bx}}"),
    "a_config_known": Fault("cfg_ext_read_data", "{32{1'bx}}"),
    "a_irq_known": Fault("irq", "1'bx"),
    "s_valids_known": Fault("power_good", "1'bx"),
    "s_request_known": Fault("req_addr", "{40{1'bx}}"),
    "s_query_known": Fault("query_boost", "1'bx"),
    "s_access_known": Fault("cfg_ext_function_number", "8'bx", "register_ports"),
    "s_write_known": Fault("cfg_ext_write_data", "32'bx", "register_ports"),
}

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


def faulty(faults: dict[str, Fault], clocks: int) -> str:
    """The core, and the assertions looking at its pins through one fault after the other."""
    core = verilog(PARAMS)
    header = re.search(r"^module kv_asu \((.*?)^\);", core, re.MULTILINE | re.DOTALL)
    assert header
    ports = re.sub(r" reg (.*?) = \S+?(?=[,\n])", r" wire \1", header[1])
    widths = {name: top or "0" for top, name in re.findall(r" wire (?:\[(\d+):0\] )?(\w+)", ports)}
    seen = []
    for pin in PINS:
        value = pin
        for number, fault in enumerate(faults.values()):
            if fault.pin == pin:
                value = f"fault == {number} ? {fault.value} : {value}"
        seen.append(f"  wire [{widths[pin]}:0] seen_{pin} = {value};")
    connections = ", ".join(f".{pin}(seen_{pin})" for pin in PINS)
    lines = [
        f"module kv_asu ({ports});",
        "  reg [31:0] clocks = 0;",
        "  reg was_answered; reg [15:0] was_counted; reg [31:0] was_touched = 0;",
        "  always @(posedge clk) begin",
        "    clocks <= clocks + 1; was_answered <= answer_valid; was_counted <= tag_count;",
        "    if (tag_tracked) was_touched <= tag_line;",
        "  end",
        f"  wire [31:0] fault = (clocks - 2) / {clocks};",
        f"  kv_asu_core core ({', '.join(f'.{pin}({pin})' for pin in PINS)});",
        *seen,
        "  " + assertions.instance(PARAMS).replace("(.*)", f"({connections})"),
        "endmodule",
    ]
    renamed = re.sub(r"^module kv_asu \(", "module kv_asu_core (", core, count=1, flags=re.MULTILINE)
    return "\n".join([*lines, renamed, assertions.SOURCE.read_text()])


def failures(faults: dict[str, Fault], simulator: str) -> dict[str, set[str]]:
    """The assertions that failed, by the fault under which they did."""
    clocks = CLOCKS[simulator]
    asked = {
        "params": PARAMS.asdict(),
        "streams": [fault.stream for fault in faults.values()],
        "clocks": clocks,
        "seed": SEED,
    }
    limit = ["+verilator+error+limit+1000000"] if simulator == "verilator" else []
    try:
        log = runner.run_module(faulty(faults, clocks), simulator, "unwatched_bench", asked, plusargs=limit) / "run.log"
    except BenchFailed as failure:  # Icarus goes on, and the runner tells afterwards
        log = Path(str(failure).partition("see ")[2].splitlines()[0])
    text = log.read_text()
    failed: dict[str, set[str]] = {name: set() for name in faults}
    where = list(faults)
    if simulator == "verilator":
        for time, name in re.findall(r"\[(\d+)\] %Error: .*Assertion failed in .*\.(\w+):", text):
            failed[where[(int(time) // 2000 - 2) // clocks]].add(name)
    else:
        for name, time in re.findall(r"Assertion failed in .*\.(\w+):.*\n.*Time: +(\d+)", text):
            failed[where[(int(time) // 2000 - 2) // clocks]].add(name)
    return failed


def check(failed: dict[str, set[str]]) -> None:
    assert failed.pop("none") == set()
    missed = {name: found for name, found in failed.items() if name not in found}
    assert not missed, f"assertions that did not fail on their fault, and what failed there: {missed}"


def test_each_has_its_fault() -> None:
    assert [name for name in (*FAULTS, *UNKNOWN) if name != "none"] == assertions.names()


def test_faults_fail_under_verilator() -> None:
    check(failures(FAULTS, "verilator"))


@needs_icarus
def test_unknown_values_fail_under_icarus() -> None:
    check(failures(UNKNOWN, "icarus"))


def test_bound_they_stop_the_simulation() -> None:
    """A fault at a pin of the core itself, with what ``kv-asu verilog --assertions`` writes compiled beside it."""
    core = re.sub(r"^module kv_asu \(", "module kv_asu_core (", verilog(PARAMS), count=1, flags=re.MULTILINE)
    header = re.search(r"^module kv_asu_core \((.*?)^\);", core, re.MULTILINE | re.DOTALL)
    assert header
    ports = re.sub(r" reg (.*?) = \S+?(?=[,\n])", r" wire \1", header[1])
    connections = ", ".join(f".{pin}({pin})" for pin in PINS if pin != "tag_after")
    top = f"module kv_asu ({ports});\n  kv_asu_core core ({connections});\n  assign tag_after = 0;\nendmodule\n"
    asked = {"params": PARAMS.asdict(), "streams": ["one_line"], "clocks": 60, "seed": SEED}
    with pytest.raises(BenchFailed, match=r"Assertion failed in .*assertions\.a_after: a line just touched is at"):
        runner.run_module("\n".join([top, core, assertions.emit(PARAMS)]), "verilator", "unwatched_bench", asked)


@pytest.mark.parametrize("params", [Params(log2_entries=3, window=2), PARAMS], ids=["8 slots", "16 slots"])
def test_lint_has_no_complaint(params: Params, tmp_path: Path) -> None:
    path = tmp_path / "kv_asu.sv"
    path.write_text(verilog(params) + assertions.emit(params))
    assert lint(path) == []


def test_the_command_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kv_asu.cli, "_record", lambda *build: {})
    monkeypatch.setattr(Top, "verilog", lambda top, params: "")
    output = tmp_path / "core.v"
    arguments = ["verilog", "--log2-entries", "3", "--window", "2", "--config-base", "0x480", "--assertions"]
    assert main([*arguments, "-o", str(output)]) == 0
    assert "assertions in" in capsys.readouterr().out
    params = Params(log2_entries=3, window=2, config_base=0x480)
    written = (tmp_path / "core_assertions.sv").read_text()
    assert written == assertions.emit(params)
    assert ".CONFIG_FIRST(10'h120), .CONFIG_LAST(10'h13f)" in written
    assert main([*arguments, "--full-config-space", "-o", str(output)]) == 0
    assert ".CONFIG_FIRST(10'h000), .CONFIG_LAST(10'h3ff)" in (tmp_path / "core_assertions.sv").read_text()
