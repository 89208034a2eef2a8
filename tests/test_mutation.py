"""The mutation run: what it plants, and that it tells a fault that shows from one that does not."""

from __future__ import annotations

import re

import pytest

from kv_asu.params import Params
from kv_asu.verilog import emit
from kv_asu_sim.mutation import _CLOCK, Mutant, Unsound, Verdict, _mutant, _selected, run

PARAMS = Params(log2_entries=3, window=2)

#: Number: what it does.
FAULTS = {
    1: ("victim_valid = evict_valid1", "victim_valid = evict_valid1 & (mutant != 1)"),
    2: ("tag_hit = heat_table_tag[1]", "tag_hit = heat_table_tag[1] ^ (mutant == 2)"),
    3: ("answer_hit = answer_valid", "answer_hit = answer_valid & (mutant < 4)"),
}


@pytest.fixture(scope="module")
def planted() -> str:
    core = emit(PARAMS)
    text = core.replace("module kv_asu (", "module mutated (\n  input wire [2:0] mutant,", 1)
    for sound, faulty in FAULTS.values():
        assert text.count(f"assign {sound}") == 1
        text = text.replace(f"assign {sound}", f"assign {faulty}")
    return text + _selected(core, 3)


def test_faults_are_told_from_what_changes_nothing(planted: str) -> None:
    mutants = [Mutant(number, "by hand", "kv_asu", "") for number in (1, 2, 3)]
    verdicts = list(run(planted, mutants, PARAMS, seed=1, clocks=200, jobs=1))
    assert [(verdict.mutant.number, verdict.stream is not None) for verdict in verdicts] == [
        (1, True),
        (2, True),
        (3, False),  # 3 < 4: the core as it is
    ]
    assert re.search("is 0x., expected 0x.|early, late or missing|no answer", verdicts[1].difference)
    assert verdicts[2] == Verdict(mutants[2], None)


def test_nothing_is_learnt_from_a_core_that_differs_by_itself(planted: str) -> None:
    broken = planted.replace("tag_hit = heat_table_tag[1] ^ (mutant == 2)", "tag_hit = ~heat_table_tag[1]")
    with pytest.raises(Unsound, match="the core as it is differs"):
        list(run(broken, [Mutant(1, "by hand", "kv_asu", "")], PARAMS, seed=1, clocks=200, jobs=1))


@pytest.mark.parametrize(
    ("command", "mutant"),
    [
        (
            r"mutate -mode const0 -module m -cell $flatten\retirement.$gt$3 -port A -portbit 5 -wire retirement.b",
            Mutant(7, "const0", "retirement", "retirement.$gt$3 A[5] retirement.b"),
        ),
        (
            r"mutate -mode inv -module mutated -cell recency_list.tail_cursor.memory -port WR_DATA -portbit 10",
            Mutant(7, "inv", "recency_list.tail_cursor", "recency_list.tail_cursor.memory WR_DATA[10]"),
        ),
        (
            r"mutate -mode inv -module mutated -cell $procdff$31 -port Q -portbit 0",
            Mutant(7, "inv", "kv_asu", "$procdff$31 Q[0]"),
        ),
    ],
)  # fmt: skip
def test_a_mutant_names_its_block(command: str, mutant: Mutant) -> None:
    assert _mutant(7, command) == mutant
    assert not _CLOCK.search(command)


@pytest.mark.parametrize("port", ["CLK", "WR_CLK", "RD_CLK"])
def test_clocks_are_left_alone(port: str) -> None:
    assert _CLOCK.search(rf"mutate -mode inv -module mutated -cell x -port {port} -portbit 0")
