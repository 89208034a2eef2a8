"""Lines chosen for their home slot do start there."""

import numpy as np
import pytest

from kv_asu.murmur3 import Murmur3
from kv_asu.params import Params
from kv_asu_sim.hash_inverse import fmix32_inverse, lines_with_home


def test_inverse_undoes_the_finalizer() -> None:
    hashed = np.random.default_rng(1).integers(0, 1 << 32, 2000, dtype=np.uint32)
    assert [Murmur3.compute(int(word), 0) for word in fmix32_inverse(hashed)] == hashed.tolist()


@pytest.mark.parametrize(
    ("params", "line_shift"),
    [
        (Params(), 8),
        (Params(), 20),
        (Params(log2_entries=3, window=2), 8),
        (Params(addr_width=40, log2_entries=6, window=16), 12),
        (Params(addr_width=32), 8),
    ],
)
def test_lines_have_their_home(params: Params, line_shift: int) -> None:
    rng = np.random.default_rng(2)
    homes = rng.integers(0, params.entries, 64)
    lines = lines_with_home(params, homes, rng, line_shift=line_shift, hash_seed=0xDEADBEEF)
    assert [Murmur3.compute(int(line), 0xDEADBEEF) % params.entries for line in lines] == homes.tolist()
    assert not (lines & np.uint64((1 << line_shift - 8) - 1)).any()
    assert not (lines >> np.uint64(params.line_width)).any()


def test_smaller_active_table() -> None:
    params = Params()
    rng = np.random.default_rng(3)
    lines = lines_with_home(params, np.full(20, 13), rng, log2_active=4)
    assert {Murmur3.compute(int(line), 0) % 16 for line in lines} == {13}
    assert len(set(lines.tolist())) == 20
