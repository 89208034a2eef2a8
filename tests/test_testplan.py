"""The testplan against the test suite: what it names is there and runs, and it leaves nothing of the contract out."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kv_asu.metadata import MEANINGS
from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, Counter

ROOT = Path(__file__).parents[1]
PLAN = (ROOT / "docs" / "testplan.md").read_text(encoding="utf-8")
CHECKLIST = (ROOT / "docs" / "checklist.md").read_text(encoding="utf-8")

# Of the full config space around the core, not of the core's own pins.
_MESSAGE_PINS = {"msi_valid", "msi_address", "msi_data"}


class Row(NamedTuple):
    number: str
    requirement: str
    tests: list[str]


def rows(plan: str) -> list[Row]:
    """The requirements, with the node ids of their tests."""
    found = []
    for line in plan.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"[A-Z]\d+", cells[0]):
            tests = [f"tests/test_{name}" for name in re.findall(r"`(\w+::[\w:]+)`", cells[2])]
            found.append(Row(cells[0], cells[1], [test.replace("::", ".py::", 1) for test in tests]))
    return found


def problems(plan: str, collected: dict[str, bool]) -> list[str]:
    """What is wrong with a plan, given the tests that there are and whether each of them is skipped."""
    found = []
    numbers = [row.number for row in rows(plan)]
    found += [f"{number} is there twice" for number in sorted(set(numbers)) if numbers.count(number) > 1]
    for row in rows(plan):
        if not row.tests:
            found.append(f"{row.number} names no test")
        for test in row.tests:
            if test not in collected:
                found.append(f"{row.number}: there is no {test}")
            elif collected[test]:
                found.append(f"{row.number}: {test} is skipped")
    return found


@pytest.fixture(scope="module")
def collected() -> dict[str, bool]:
    """Every test of the files that the plan names, parameters left out: whether all of it is marked to be skipped."""
    files = sorted({test.partition("::")[0] for row in rows(PLAN) for test in row.tests})
    missing = [file for file in files if not (ROOT / file).is_file()]
    assert not missing, f"the plan names files that are not there: {missing}"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "collected_tests",
        "-p",
        "no:cacheprovider",
    ]
    run = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    tests: dict[str, bool] = {}
    for skipped, name in re.findall(r"^collected (run|skip) (\S+?)(?:\[.*)?$", run.stdout, re.MULTILINE):
        tests[name] = tests.get(name, True) and skipped == "skip"
    return tests


def test_every_requirement_is_tested(collected: dict[str, bool]) -> None:
    assert problems(PLAN, collected) == []
    assert len(rows(PLAN)) > 80


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda plan: plan.replace("`golden::test_answer`", "`golden::test_answers`"), "there is no tests/test_golden"),
        (lambda plan: plan.replace("| P1 |", "| P2 |"), "P2 is there twice"),
        (lambda plan: re.sub(r"(\| H4 .*\| ).*\|", r"\1 by inspection |", plan), "H4 names no test"),
    ],
)
def test_what_is_wrong_is_told(edit: Callable[[str], str], problem: str, collected: dict[str, bool]) -> None:
    assert [problem in found for found in problems(edit(PLAN), collected)].count(True) >= 1


def test_a_skipped_test_is_told(collected: dict[str, bool]) -> None:
    found = problems(PLAN, {**collected, "tests/test_golden.py::test_answer": True})
    assert found == ["P8: tests/test_golden.py::test_answer is skipped"]


def test_nothing_is_left_out() -> None:
    names = [
        *(name for name in MEANINGS if name not in _MESSAGE_PINS),
        *Params().asdict(),
        *REGISTERS,
        *(counter.name for counter in Counter),
    ]
    words = set(re.findall(r"\w+", PLAN))
    assert [name for name in names if name not in words] == []


def test_checklist_says_of_each_item_what_and_why() -> None:
    items = [line for line in CHECKLIST.splitlines() if re.match(r"\| [A-Z0-9_]+ \|", line)]
    assert len(items) > 20
    for item in items:
        name, status, note = [cell.strip() for cell in item.strip("|").split("|")]
        assert status in ("Done", "N/A", "Waived", "Open"), f"{name}: {status}"
        assert len(note) > 10, f"{name}: a reason, a page or a command"


@pytest.mark.parametrize("page", [PLAN, CHECKLIST], ids=["testplan", "checklist"])
def test_what_the_pages_point_to_is_there(page: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page)) <= targets
    links = set(re.findall(r"\]\(([^)#:]+)\)", page))
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
