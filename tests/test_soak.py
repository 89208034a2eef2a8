"""The soak and the seeds: short runs of both, and what they say of a core that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kv_asu_sim import regression, soak
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.coverage_report import BUILDS
from kv_asu_sim.runner import BenchFailed


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "CHUNK", 4096)


class Faulty(CompiledCore):
    """One bit of one answer is wrong, late in each run."""

    pin, valid = "tag_count", "tag_tracked"

    def run(self, operations: np.ndarray) -> np.ndarray:
        outputs = super().run(operations)
        places = np.flatnonzero(outputs[self.valid])
        if len(places) > 1000:
            outputs[self.pin][places[-100]] ^= 1
        return outputs


@pytest.mark.parametrize("name", ["8 slots", "32 slots, L = 8"])
def test_soak(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    total = soak.soak(name, BUILDS[name], 10_000, seed=1)
    assert total["requests"] >= 10_000
    assert min(total["queries"], total["evicts"]) > 1_000
    assert re.search(r"requests, .* evicts equal in 1 epochs", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("pin", "valid", "message"),
    [
        ("tag_count", "tag_tracked", "request to 0x.*tag_count 0x"),
        ("answer_tlevel", "answer_tracked", "query of 0x.*answer_tlevel 0x"),
        ("victim_line", "victim_valid", "evict: victim_status 0x"),
    ],
)
def test_soak_tells_a_fault(pin: str, valid: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "pin", pin)
    monkeypatch.setattr(Faulty, "valid", valid)
    monkeypatch.setattr(soak, "CompiledCore", Faulty)
    with pytest.raises(soak.Difference, match=f"8 slots, epoch 2, .*{message}[^$]*again: python -m kv_asu_sim.soak"):
        soak.soak("8 slots", BUILDS["8 slots"], 30_000, seed=1, first=2)


def test_soak_tells_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = soak.Epoch(CompiledCore(BUILDS["8 slots"]), np.random.default_rng(1))
    epoch.run_chunk(3000)
    epoch.compare_counters()
    epoch._golden._counts[1] += 1
    with pytest.raises(soak.Difference, match=r"counter requests reads [\d,]+, expected"):
        epoch.compare_counters()


def test_a_failing_seed_is_told_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: object, seed: int, **options: object) -> Path:
        if seed == 8:
            raise BenchFailed("1 of 30 tests failed")
        return Path()

    monkeypatch.setattr(regression, "run", run)
    failed = regression.run_seeds("64 slots", "verilator", [7, 8, 9])
    out = capsys.readouterr().out
    assert "64 slots, verilator: seed 7 (1 of 3) passed" in out
    assert "seed 8 (2 of 3) FAILED" in out
    assert "seed 9 (3 of 3) passed" in out
    (told,) = failed
    assert "1 of 30 tests failed" in told
    assert "--log2-entries 6 --window 16 --stages 1 1 --stamp-width 9 --addr-width 40 --simulator verilator" in told
    assert "--seed 8 --stream one_line " in told
