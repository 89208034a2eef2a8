"""The page of FPGA figures: what is counted, what is kept, what is said to have changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kv_asu.timing import ecp5, fpga, tools
from kv_asu.timing.fpga import Point

SMALL = Point(3, 2, 8)
SLOW = Point(3, 2, 6)

MHZ = {(8, 1): 60.0, (8, 2): 70.0, (8, 3): 65.0, (6, 1): 50.0, (6, 2): 50.0, (6, 3): 50.0}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Tools that answer at once; the list says what was asked of them."""
    asked: list[str] = []

    def synthesize(_: str, folder: Path) -> ecp5.Ports:
        asked.append("synthesis")
        folder.mkdir(parents=True, exist_ok=True)
        return {"clk": ("input", 1)}

    def place_and_route(_: Path, speed: int, seed: int) -> ecp5.Route:
        asked.append(f"route {speed} {seed}")
        return ecp5.Route(seed, MHZ[speed, seed], f"  path of seed {seed}", 3.0, 13.0)

    monkeypatch.setattr(tools, "find", lambda name: name)
    monkeypatch.setattr(fpga, "BUILD", tmp_path)
    monkeypatch.setattr(ecp5, "synthesize", synthesize)
    monkeypatch.setattr(ecp5, "place_and_route", place_and_route)
    monkeypatch.setattr(
        ecp5, "use", lambda *_: {"TRELLIS_COMB": 2000, "TRELLIS_FF": 900, "DP16KD": 7, "wrapper_FF": 100}
    )
    monkeypatch.setattr(fpga, "DEFAULT", SMALL)
    monkeypatch.setattr(fpga, "version", lambda name: f"1.0 of {name}")
    monkeypatch.setattr(fpga, "_blocks", lambda *_: {"kv_asu": {"LUT": 3, "FF": 2, "DP16KD": 1}})
    monkeypatch.setattr(fpga, "_xilinx", lambda *_: dict.fromkeys(("LUT", "LUTRAM", "FF", "RAMB36", "RAMB18"), 5))
    return asked


def measured() -> dict[str, Any]:
    return fpga.measure((SMALL, SLOW), (1, 2, 3), 1, tools.silent)


def test_the_median_of_the_seeds_and_its_path(runs: list[str]) -> None:
    figures = measured()
    fast, slow = figures["points"]
    assert (fast["median"], fast["mhz"]) == (65.0, {"1": 60.0, "2": 70.0, "3": 65.0})
    assert fast["worst"] == {"seed": 3, "logic": 3.0, "routing": 13.0, "path": "  path of seed 3"}
    assert slow["median"] == 50.0
    text = fpga.page(figures)
    assert "| 8 slots, window 2, grade 8 | 8 | **65.0** | 60.0, 70.0, 65.0 | 2,000 | 800 | 7 |" in text
    assert "  path of seed 3" in text


def test_grades_share_a_synthesis_and_nothing_is_done_twice(runs: list[str]) -> None:
    first = measured()
    assert runs.count("synthesis") == 1
    assert sorted(runs)[:-1] == [f"route {speed} {seed}" for speed in (6, 8) for seed in (1, 2, 3)]
    del runs[:]
    assert measured() == first
    assert runs == []


def test_what_has_changed(runs: list[str]) -> None:
    old = measured()
    assert fpga.changes(old, old) == []
    new = measured()
    new["points"][0]["median"] = 61.5
    new["points"][1]["use"]["DP16KD"] = 8
    assert fpga.changes(old, new) == [
        "8 slots, window 2, grade 8: 65.0 -> 61.5 MHz",
        "8 slots, window 2, grade 6: DP16KD 7 -> 8",
    ]
    assert fpga.changes({}, new)[0] == "8 slots, window 2, grade 8: 61.5 MHz, new"


def test_resources() -> None:
    cells = {"LUT4": 10, "CCU2C": 2, "TRELLIS_DPR16X4": 3, "TRELLIS_FF": 9, "DP16KD": 1, "PFUMX": 4}
    assert fpga._resources(cells) == {"LUT": 26, "FF": 9, "DP16KD": 1}


def test_use_by_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The core and what it instantiates, each with all that is inside; nothing deeper has a row of its own."""
    cells = {
        "\\kv_asu": {"LUT4": 1, "\\kv_asu_counters": 1, "\\kv_asu_request_lookup": 2},
        "\\kv_asu_counters": {"TRELLIS_FF": 5},
        "\\kv_asu_request_lookup": {"DP16KD": 1, "\\kv_asu_request_lookup_hash": 1},
        "\\kv_asu_request_lookup_hash": {"LUT4": 10},
    }

    def yosys(_: str, folder: Path, name: str) -> str:
        modules = {module: {"num_cells_by_type": found} for module, found in cells.items()}
        (folder / f"{name}.json").write_text(json.dumps({"modules": modules}))
        return ""

    monkeypatch.setattr(fpga, "BUILD", tmp_path)
    monkeypatch.setattr(tools, "yosys", yosys)
    assert fpga._blocks("", tools.silent) == {
        "kv_asu": {"LUT": 21, "FF": 5, "DP16KD": 2},
        "counters": {"LUT": 0, "FF": 5, "DP16KD": 0},
        "request_lookup": {"LUT": 10, "FF": 0, "DP16KD": 1},
    }
