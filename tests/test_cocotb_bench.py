"""The cocotb bench on two simulators, over the builds that tell most: both profiles and tables small enough to fill.

``make sim`` runs every stream of the bench; here a few hundred clocks of the most telling ones keep it short.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu_sim import build, runner
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.coverage import Coverage
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.runner import BenchFailed, SimulatorMissing, run
from kv_asu_sim.streams import play

BUILDS = {
    "asic": Params.asic(),
    "fpga": Params.fpga(),
    "8 slots": Params(log2_entries=3, window=2),
    "16 slots": Params(log2_entries=4, window=4),
    "64 slots": Params(log2_entries=6, window=16, hash_stages=1, table_stages=1, stamp_width=9, addr_width=40),
}

STREAMS = {
    "verilator": [
        *("one_line", "two_lines", "one_bucket", "window_wrap", "scan_table", "list_ends", "touch_and_evict", "churn"),
        *("evict_every_clock", "mass_expiry", "query_just_touched", "level_edges", "thresholds_live", "stamp_wrap"),
        *("table_full", "spill_and_evict", "geometry", "register_ports", "life_cycle", "before_enable", "random_mix"),
    ],
    "icarus": ["churn", "life_cycle", "register_ports"],
}
CLOCKS = {"verilator": 600, "icarus": 150}

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")

# Icarus runs a few hundred clocks a second of the full-size core: those two have their place in `make test-slow`.
RUNS = [
    *(pytest.param(which, "verilator", id=f"{which}-verilator") for which in BUILDS),
    *(
        pytest.param(
            which,
            "icarus",
            id=f"{which}-icarus",
            marks=[needs_icarus, pytest.mark.slow] if which in ("asic", "fpga") else needs_icarus,
        )
        for which in BUILDS
    ),
]


@pytest.mark.parametrize(("which", "simulator"), RUNS)
def test_streams(which: str, simulator: str) -> None:
    params, seed = BUILDS[which], runner.seed_from_environment()
    clocks, latency = params.rows + CLOCKS[simulator], params.latency
    folder = run(params, simulator, STREAMS[simulator], clocks=clocks, seed=seed)
    measured = re.findall(r"answered after (\d+) clocks, (\d+) ps: (\d+) times", (folder / "run.log").read_text())
    assert {(int(clocks), int(time)) for clocks, time, _ in measured} == {(latency, 2000 * latency)}
    assert sum(int(times) for *_, times in measured) > 300
    compiled = Coverage(params)
    lockstep(CompiledCore(params), play("churn", params, seed, clocks), np.random.default_rng(seed), compiled)
    assert met(Coverage.load(folder / "coverage-churn.json")) == met(compiled), "the bench meets what lockstep meets"


def met(coverage: Coverage) -> dict[tuple[str, str], int]:
    """What a stream has met; the bench's own reset before it is not the stream's."""
    return {bin_: count for bin_, count in coverage.hits.items() if count and bin_ != ("cp_life_cycle", "reset, idle")}


def edited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edit: Callable[[str], str]) -> None:
    """Let the runner build an edited core."""
    whole = build.verilog

    def verilog(params: Params) -> str:
        text = whole(params)
        faulty = edit(text)
        assert faulty != text, "the fault found no place in the Verilog"
        return faulty

    monkeypatch.setattr(runner, "verilog", verilog)
    monkeypatch.setattr(runner, "BUILD", tmp_path)


@needs_icarus
@pytest.mark.parametrize(
    ("pin", "value", "message"),
    [
        ("tag_valid", "1'b0", "no answer came"),
        ("tag_count", "16'd9", "count is 0x9, expected 0x"),
        ("answer_tlevel", "2'bx", "UnknownValue: answer_tlevel is XX"),
        ("irq", "1'bx", "UnknownValue: irq is X"),
    ],
)
def test_planted_faults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pin: str, value: str, message: str) -> None:
    """A pin forced at the core's output fails the bench, with a message that names it."""

    def edit(text: str) -> str:
        forced = f"  initial begin #101; force {pin} = {value}; end\nendmodule"
        return text.replace("endmodule", forced, 1)

    edited(monkeypatch, tmp_path, edit)
    with pytest.raises(BenchFailed, match=re.escape(message)):
        run(BUILDS["16 slots"], "icarus", ["churn"], clocks=100, seed=1)


@needs_icarus
def test_planted_delay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An answer one clock late is seen by the latency meter."""

    def edit(text: str) -> str:
        late = "  initial begin #61; forever begin force answer_valid = query_valid; #2; end end\nendmodule"
        return text.replace("endmodule", late, 1)

    edited(monkeypatch, tmp_path, edit)
    with pytest.raises(BenchFailed, match=r"an answer to no query|took 0 clocks"):
        run(BUILDS["16 slots"], "icarus", ["churn"], clocks=100, seed=1)


@needs_icarus
def test_waves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    folder = run(BUILDS["8 slots"], "icarus", ["before_enable"], clocks=30, waves=True)
    assert (folder / "kv_asu.fst").stat().st_size > 1000


@needs_icarus
def test_standstill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A simulation whose time stands still is stopped by the wall clock."""
    loop = "  reg spin = 0; initial begin #21; forever begin #0 spin = ~spin; end end\nendmodule"
    edited(monkeypatch, tmp_path, lambda text: text.replace("endmodule", loop, 1))
    monkeypatch.setattr(runner, "WALL_SECONDS", 10)
    with pytest.raises(BenchFailed, match="icarus"):
        run(BUILDS["8 slots"], "icarus", ["before_enable"], clocks=30)


def test_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KV_ASU_SEED", "0x2a")
    assert runner.seed_from_environment() == 42
    monkeypatch.delenv("KV_ASU_SEED")
    assert runner.seed_from_environment() != runner.seed_from_environment()


def test_missing_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimulatorMissing, match="iverilog is not installed"):
        run(BUILDS["8 slots"], "icarus", ["churn"])
