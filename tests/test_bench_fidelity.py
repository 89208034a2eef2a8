"""Fidelity at equal bytes: who keeps which tokens, what INT4 leaves, and errors on attention made to order."""

from __future__ import annotations

import numpy as np
import pytest

from vrex.bench.fidelity import (
    INT4_SHARE,
    Error,
    HeavyHitters,
    attend,
    even_sample,
    heaviest,
    heaviest_and_sample,
    int4,
    spread_patches,
    whole_frames,
    window,
)
from vrex.bench.fidelity_table import Heads, merged


def test_attention_by_hand() -> None:
    queries, keys = np.array([[1.0, 0.0]], np.float32), np.array([[np.log(3), 5], [0, 7]], np.float32)
    values = np.array([[4.0, 0.0], [0.0, 8.0]], np.float32)
    assert attend(queries, keys, values)[0].tolist() == pytest.approx([3.0, 2.0])


def test_int4_has_sixteen_steps_a_group() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 64)).astype(np.float32)
    left = int4(values)
    for row in left.reshape(10, 32):
        assert len(np.unique(row)) <= 16
    spread = values.reshape(10, 32).max(axis=1) - values.reshape(10, 32).min(axis=1)
    assert (np.abs(left - values).reshape(10, 32).max(axis=1) <= spread / 15 * 0.51 + 2e-3).all()
    assert int4(np.full((1, 32), 2.5, np.float32)).tolist() == [[2.5] * 32]
    assert INT4_SHARE == 0.3125


def test_who_keeps_which() -> None:
    assert heaviest(np.array([1, 5, 3, 5]), 2).tolist() == [1, 3]
    assert window(100, 7).tolist() == [0, 1, 2, 3, 97, 98, 99]
    assert window(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert whole_frames(50, 10, 25).tolist() == [*range(10), *range(40, 50)]
    assert whole_frames(50, 10, 5).tolist() == [*range(40, 50)]
    assert spread_patches(30, 10, 9).tolist() == [0, 4, 9, 10, 14, 19, 20, 24, 29]


def test_a_sample_stands_for_the_others() -> None:
    tokens, each = heaviest_and_sample(np.array([0, 9, 0, 0, 0, 0, 8, 0, 0, 0]), 4)
    assert tokens.tolist() == [1, 3, 6, 8]  # of 0, 2, 3, 4, 5, 7, 8, 9, the third and the seventh
    assert each.tolist() == [1, 4, 1, 4]
    assert even_sample(np.arange(5), 9).tolist() == [0, 1, 2, 3, 4]
    assert even_sample(np.arange(5), 0).tolist() == []
    keys, values = np.zeros((4, 2), np.float32), np.array([[6, 0], [0, 6], [0, 6], [0, 6]], np.float32)
    told = attend(np.ones((1, 2), np.float32), keys[:2], values[:2], np.array([1, 3], np.float32))
    assert told.tolist() == attend(np.ones((1, 2), np.float32), keys, values).tolist() == [[1.5, 4.5]]


def test_what_is_pruned_is_gone() -> None:
    hitters = HeavyHitters(0.5)
    assert hitters.grow(4).tolist() == [0, 3]  # none is heavier than another yet: the first, and the latest
    hitters.see(np.array([9.0, 1.0]))
    assert hitters.grow(8).tolist() == [0, 3, 6, 7]
    hitters.see(np.array([0.0, 9.0, 1.0, 1.0]))
    for tokens in (12, 16):
        assert set(hitters.grow(tokens).tolist()) & {1, 2, 4, 5} == set()
        assert {0, 3} <= set(hitters.kept.tolist())
    assert len(hitters.kept) == 8


def test_errors_add_up() -> None:
    one, other = Error(), Error()
    one.add(np.array([[1.0, 0.0]], np.float32), np.array([[1.0, 2.0]], np.float32))
    other.add(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32))
    assert one.relative == pytest.approx(np.sqrt(4 / 5))
    assert other.relative == 0
    (total,) = merged([{"a": [one]}, {"a": [one]}], 1)["a"]
    assert total.relative == pytest.approx(np.sqrt(4 / 5))


def test_methods_on_a_stream() -> None:
    """Queries that look for a few far tokens: only who retrieves them loses little; with all bytes, nobody loses."""
    rng = np.random.default_rng(2)
    heads = Heads([0.2, 1.0], tile=8)
    wanted = rng.normal(size=(2, 3, 32)).astype(np.float32) * 3
    for frame in range(6):
        keys = rng.normal(size=(2, 20, 32)).astype(np.float32) * 0.3
        if frame == 1:
            keys[:, 5:8] = wanted
        queries = np.repeat(wanted.mean(axis=1, keepdims=True), 20, axis=1)
        heads.add(queries, keys, rng.normal(size=(2, 20, 32)).astype(np.float32), measured=frame >= 4)
    errors = {name: [error.relative for error in row] for name, row in heads.errors.items()}
    few = {name: row[0] for name, row in errors.items()}
    assert few["retrieval and sample, exact"] < 0.1
    assert few["retrieval, exact"] < 0.05 > few["retrieval, by the frame before"]
    assert min(few["window with sinks"], few["frame sampling"]) > 0.3
    for name, row in errors.items():
        if name != "INT4":
            assert row[1] == pytest.approx(0, abs=1e-5), name
    assert errors["INT4"][0] == errors["INT4"][1] > 0
