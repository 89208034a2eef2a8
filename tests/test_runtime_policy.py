"""The retrieval policy: counts that learn, worth by likelihood over distance, victims."""

from __future__ import annotations

import numpy as np
import pytest

from vrex.runtime.policy import Predictors, RetrievalPolicy, ReuseTable
from vrex.trace.address_map import AddressMap

KV = AddressMap(layers=2, heads=2, head_size=64, max_tokens=100)
ALONE = Predictors(tlevels=False, lstm=False)


def policy(predictors: Predictors = ALONE, tiles: int = 2) -> RetrievalPolicy:
    """Every group has its 100 lines; nothing is read yet."""
    made = RetrievalPolicy(KV, tiles, predictors)
    for group in range(4):
        made.write(group, 100 * group + np.arange(100))
    return made


def visit(made: RetrievalPolicy, frame: int, group: int, *tiles: range | list[int]) -> None:
    for tile, tokens in enumerate(tiles):
        made.read(frame, group, tile, 100 * group + np.array(tokens, np.int64))


def test_an_empty_table_says_one_half() -> None:
    assert ReuseTable(1, (2, 1), keep=0.9).probability(0) == pytest.approx([0.5] * 8)


def test_a_table_converges_to_the_share_and_forgets() -> None:
    table = ReuseTable(2, (1,), keep=0.5)
    zero = np.zeros(400, np.int64)
    for _ in range(20):
        table.learn(0, zero, np.arange(400) < 100)
    assert table.probability(0)[0] == pytest.approx(0.25, abs=0.01)
    assert table.probability(1) == pytest.approx([0.5, 0.5])  # the other group's own matter
    for _ in range(20):
        table.learn(0, zero, np.ones(400, bool))
    assert table.probability(0)[0] == pytest.approx(1, abs=0.02)


def test_what_is_rare_is_judged_by_the_coarse_part() -> None:
    table = ReuseTable(1, (1, 1), keep=0.9)
    table.learn(0, np.array([2] * 1000), np.ones(1000, bool))  # coarse 1, fine 0
    table.learn(0, np.array([0] * 1000), np.zeros(1000, bool))
    _, _, _, never_met = table.probability(0)
    assert never_met > 0.9


def test_lines_read_in_every_frame_are_worth_more() -> None:
    made = policy()
    for frame in range(6):
        for group in range(4):
            visit(made, frame, group, range(0, 50), range(0, 50))
    made.end_visit()
    assert made.likely[:50].min() > 0.8
    assert made.likely[50:100].max() < 0.2
    victims = made.victims(np.arange(100), 50)
    assert set(victims.tolist()) == set(range(50, 100))


def test_a_line_of_the_next_visit_is_worth_more_than_one_of_the_last() -> None:
    made = policy()
    for frame in range(3):
        for group in range(4):
            visit(made, frame, group, range(100), range(100))
    visit(made, 3, 0, range(100), range(100))
    worth = made.worth.reshape(4, 100).mean(axis=1)
    assert worth[1] > worth[2] > worth[3] > worth[0]
    assert set(made.victims(np.arange(400), 100).tolist()) == set(range(100))


def test_without_templates_every_visit_is_as_far() -> None:
    made = policy(Predictors(tlevels=False, lstm=False, templates=False))
    for frame in range(3):
        for group in range(4):
            visit(made, frame, group, range(100), range(100))
    made.end_visit()
    assert made.worth == pytest.approx(made.worth[0], rel=0.2)


def test_a_later_tile_is_near() -> None:
    made = policy()
    for frame in range(6):
        for group in range(4):
            visit(made, frame, group, range(0, 20), range(20, 40))  # each line by one tile, always the same
    visit(made, 6, 0, range(0, 20))
    assert made.worth[20:40].min() > made.worth[0:20].max()
    assert made.worth[20:40].min() > made.worth[40:100].max()  # which no tile reads


def test_tlevels_are_asked_for_when_a_visit_ends_and_matter() -> None:
    asked = []

    def tlevels(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        asked.append((first, count))
        return np.where(np.arange(first, first + count) % 100 < 30, 3, 0).astype(np.uint8)

    made = RetrievalPolicy(KV, 2, Predictors(history=False, lstm=False), tlevels)
    for group in range(4):
        made.write(group, 100 * group + np.arange(100))
    for frame in range(4):
        for group in range(4):
            visit(made, frame, group, range(30), range(30))
    made.end_visit()
    assert asked[:2] == [(0, 100), (100, 100)]
    assert made.likely[:30].min() > 0.8
    assert made.likely[30:100].max() < 0.2


def test_a_line_born_later_begins_with_what_new_lines_are_worth() -> None:
    made = RetrievalPolicy(KV, 1, ALONE)
    for frame in range(6):  # new lines are read in their own frame, and never again
        made.write(0, np.arange(10 * frame, 10 * frame + 10))
        visit(made, frame, 0, range(10 * frame, 10 * frame + 10))
    made.write(0, np.arange(60, 70))
    assert made.likely[60:70].min() > 0.8
    assert made.likely[:40].max() < 0.3


def test_more_victims_than_lines() -> None:
    assert policy().victims(np.arange(5), 9).tolist() == [0, 1, 2, 3, 4]


def test_small_heads_share_lines() -> None:
    kv = AddressMap(layers=1, heads=2, head_size=16, max_tokens=7)  # 64 bytes a token: 448 a head, 1.75 lines
    made = RetrievalPolicy(kv, 1, ALONE)
    assert made.starts.tolist() == [0, 2, 4]
