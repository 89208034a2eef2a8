"""Functional coverage: the streams meet every case of the contract, and a case that is not met is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.coverage import POINTS, Coverage, IllegalBin
from kv_asu_sim.coverage_report import SMALL, collect, judge, table, waivers
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.scoreboard import Scoreboard
from kv_asu_sim.streams import STREAMS, play

SIXTEEN = SMALL["16 slots"]


def test_streams_meet_every_case() -> None:
    """On the compiled RTL, in step with the model, in tables that are soon full; ``make cov`` adds the profiles."""
    total = Coverage()
    for name, params in SMALL.items():
        total.add(collect(name, params, list(STREAMS), clocks=1500, seed=1).hits)
    verdict = judge(total, waivers())
    assert not any(verdict), f"{verdict}\n{table(total, waivers())}"
    assert set(total.hits) <= {(point, name) for point, names in POINTS.items() for name in names}


def test_what_is_left_out_is_told() -> None:
    """Without the streams that are there for them, cases are missing."""
    coverage = collect("8 slots", SMALL["8 slots"], ["one_line"], clocks=300, seed=1)
    verdict = judge(coverage, {})
    assert ("cp_list_place", "cold middle") in verdict.missed
    assert ("cp_tlevel", "3 to 3") not in verdict.missed
    assert "never met: cp_list_place: cold middle" in str(verdict)


def test_a_waiver_must_be_needed(tmp_path: Path) -> None:
    coverage = collect("8 slots", SMALL["8 slots"], ["one_line"], clocks=300, seed=1)
    verdict = judge(coverage, {("cp_tlevel", "3 to 3"): "never", ("cp_tlevel", "4 to 4"): "there is no such level"})
    assert verdict.needless == [("cp_tlevel", "3 to 3")]
    assert verdict.unknown == [("cp_tlevel", "4 to 4")]
    file = tmp_path / "waivers.toml"
    file.write_text('[[waiver]]\npoint = "cp_count"\nbins = ["1"]\nreason = " "\n')
    with pytest.raises(ValueError, match="the waiver of cp_count has no reason"):
        waivers(file)


def test_what_must_never_be() -> None:
    with pytest.raises(IllegalBin, match="cp_tlevel: 3 to 1"):
        Coverage(SIXTEEN).hit("cp_tlevel", "3 to 1")


def test_it_only_watches() -> None:
    """With and without coverage the same is compared."""
    boards: list[Scoreboard] = [
        lockstep(CompiledCore(SIXTEEN), play("churn", SIXTEEN, 3, 500), np.random.default_rng(1), coverage)
        for coverage in (None, Coverage(SIXTEEN))
    ]
    assert boards[0].compared == boards[1].compared


def test_saved_and_added_up(tmp_path: Path) -> None:
    coverage = Coverage(SIXTEEN)
    lockstep(CompiledCore(SIXTEEN), play("churn", SIXTEEN, 3, 500), np.random.default_rng(1), coverage)
    coverage.save(tmp_path / "coverage.json")
    total = Coverage()
    for _ in range(2):
        total.add(Coverage.load(tmp_path / "coverage.json").hits)
    assert {key: 2 * count for key, count in coverage.hits.items()} == {k: c for k, c in total.hits.items() if c}
