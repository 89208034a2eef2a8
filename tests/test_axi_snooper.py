"""The AXI4 snooper: which lines a burst covers, in simulation of the block and on a bus of cocotbext-axi."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator

from kv_asu import cli
from kv_asu.axi_snooper import BurstLines
from kv_asu.lint import lint
from kv_asu.params import Params
from kv_asu.tops import Top

pytest.importorskip("cocotb", reason="cocotb is not installed")
pytest.importorskip("cocotbext.axi", reason="cocotbext-axi is not installed")

from kv_asu_sim import axi, runner
from kv_asu_sim.axi import FIXED, INCR, WRAP, Burst

SMALL = Params(log2_entries=4, window=2)
BUILDS = {
    "small": (SMALL, Top(axi=True, queue_depth=8), 64),
    "fpga": (Params.fpga(log2_entries=4, window=2, addr_width=40), Top(axi=True, queue_depth=100), 256),
    "whole function": (SMALL, Top(axi=True, full_config_space=True), 1024),
}

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


def lawful(rng: random.Random) -> Burst:
    """Any burst that the AXI specification allows."""
    kind, size = rng.choice((FIXED, INCR, WRAP)), rng.randrange(8)
    address = rng.getrandbits(20) << 12
    offset = rng.choice(
        (0, 255, 256, 4095, rng.getrandbits(12), 256 * rng.randrange(16) + rng.randrange(-3, 3) & 0xFFF)
    )
    if kind == WRAP:
        beats = rng.choice((2, 4, 8, 16))
        return Burst(address | offset >> size << size, beats - 1, size, WRAP)
    if kind == FIXED:
        return Burst(address | offset, rng.randrange(16), size, FIXED)
    most = min(256, 4096 - (offset >> size << size) >> size)
    return Burst(address | offset, rng.choice((0, most - 1, rng.randrange(most))), size, INCR)


def covered(bursts: list[Burst]) -> list[list[int]]:
    """The gateware's lines of each."""
    dut = BurstLines(32)
    found: list[list[int]] = []

    async def testbench(context: Any) -> None:
        for burst in bursts:
            context.set(dut.addr, burst.address)
            context.set(dut.len, burst.length)
            context.set(dut.size, burst.size)
            context.set(dut.burst, burst.kind)
            lines = context.get(dut.lines)
            found.append([
                lines.page << 4 | lines.first & ~lines.ring | lines.first + step & lines.ring
                for step in range(lines.more + 1)
            ])  # fmt: skip

    simulator = Simulator(dut)
    simulator.add_testbench(testbench)
    simulator.run()
    return found


@pytest.mark.parametrize(
    ("burst", "lines"),
    [
        (Burst(0x10FF, 0, 0, INCR), [0x10]),
        (Burst(0x10FF, 1, 0, INCR), [0x10, 0x11]),
        (Burst(0x10FD, 0, 3, INCR), [0x10]),  # unaligned: only up to the end of the beat
        (Burst(0x10FD, 1, 3, INCR), [0x10, 0x11]),
        (Burst(0x1000, 31, 7, INCR), list(range(0x10, 0x20))),
        (Burst(0x1FFF, 0, 7, INCR), [0x1F]),
        (Burst(0x10C0, 3, 6, WRAP), [0x10]),
        (Burst(0x1180, 15, 7, WRAP), [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x10]),
        (Burst(0x1980, 7, 7, WRAP), [0x19, 0x1A, 0x1B, 0x18]),
        (Burst(0x10FC, 15, 5, FIXED), [0x10]),
        (Burst(0x1F80, 255, 7, INCR), [0x1F]),  # unlawful: goes on in the next page
        (Burst(0x10FF, 1, 0, 3), [0x10, 0x11]),  # reserved
    ],
)
def test_lines_of_a_burst(burst: Burst, lines: list[int]) -> None:
    assert covered([burst]) == [lines]
    assert burst.lines() == lines


def test_lines_of_any_burst() -> None:
    seed = runner.seed_from_environment()
    print(f"KV_ASU_SEED={seed}")
    rng = random.Random(seed)
    bursts = [lawful(rng) for _ in range(1500)]
    assert covered(bursts) == [burst.lines() for burst in bursts]
    assert {(burst.kind, burst.size) for burst in bursts} == {(kind, size) for kind in range(3) for size in range(8)}


@pytest.mark.parametrize(
    ("which", "simulator"),
    [
        ("small", "verilator"),
        pytest.param("small", "icarus", marks=needs_icarus),
        pytest.param("fpga", "icarus", marks=needs_icarus),
        pytest.param("whole function", "verilator", marks=pytest.mark.slow),
    ],
)
def test_random_bursts(which: str, simulator: str) -> None:
    params, top, data_width = BUILDS[which]
    axi.run(params, simulator, "random_bursts", top=top, data_width=data_width, bursts=60)


@pytest.mark.parametrize("test", ["region", "overload", "resets"])
@pytest.mark.parametrize("simulator", ["verilator", pytest.param("icarus", marks=needs_icarus)])
def test_on_the_bus(test: str, simulator: str) -> None:
    params, top, data_width = BUILDS["small"]
    axi.run(params, simulator, test, top=top, data_width=data_width, bursts=80)


@needs_icarus
@pytest.mark.parametrize(
    ("test", "place", "fault"),
    [
        ("random_bursts", "{ 1'h0, done } + 5'h01", "{ 1'h0, done } + 5'h02"),
        ("region", "& region_mask)", "& 52'h1)"),
        ("overload", "lost <= w_rdy ? 6'h00", "lost <= 1'h1 ? 6'h00"),
        ("resets", "if (rst) inner_level <= 5'h00;", "if (0) inner_level <= 5'h00;"),
    ],
)
def test_planted_faults(test: str, place: str, fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    params, top, data_width = SMALL, Top(axi=True), 64
    text = axi.wrapped(params, top, data_width, 4)
    assert place in text, "the fault found no place in the Verilog"
    monkeypatch.setattr(axi, "wrapped", lambda *_, **__: text.replace(place, fault))
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    with pytest.raises(runner.BenchFailed, match="1 of 1 tests failed"):
        axi.run(params, "icarus", test, top=top, data_width=data_width, bursts=80, seed=1)


def test_queue_depth_is_checked() -> None:
    with pytest.raises(ValueError, match="queue_depth must be 4 to 1024, not 3"):
        Top(axi=True, queue_depth=3)
    with pytest.raises(TypeError, match=r"queue_depth must be an integer, not 8\.0"):
        Top(axi=True, queue_depth=8.0)  # type: ignore[arg-type]


def test_lint_clean(tmp_path: Path) -> None:
    path = tmp_path / "kv_asu_axi.v"
    path.write_text(Top(axi=True).verilog(SMALL))
    assert [finding.headline for finding in lint(path)] == []


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.v"
    assert cli.main(["verilog", "--top", "axi", "--log2-entries", "4", "--window", "2", "--queue-depth", "9",
                     "--addr-width", "40", "--assertions", "-o", str(path)]) == 0  # fmt: skip
    record = json.loads(path.with_suffix(".json").read_text())
    assert (record["name"], record["queue_depth"]) == ("kv_asu_axi", 9)
    pins = {pin["name"]: (pin["direction"], pin["width"]) for pin in record["pins"]}
    assert pins["axi_araddr"] == ("in", 40)
    assert pins["region_mask"] == ("in", 28)
    assert pins["skipped"] == ("out", 32)
    assert not {"req_valid", "req_addr"} & set(pins)
    assert "module kv_asu_axi (" in path.read_text()
    assert "bind kv_asu_axi " in (tmp_path / "a_assertions.sv").read_text()
    assert "AXI4 snooper (queue_depth=9)" in capsys.readouterr().out
    for arguments, message in (
        (["--queue-depth", "9"], "the core has no queue; say --top axi"),
        (["--top", "axi", "--queue-depth", "2000"], "queue_depth must be 4 to 1024, not 2000"),
        (["--top", "chi"], "'chi' is not one of core, axi"),
    ):
        assert cli.main(["info", *arguments]) == 2
        assert message in capsys.readouterr().err
