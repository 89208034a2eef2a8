"""Streams: legal pins, reproducible, and each with what it is there for."""

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu_sim.pins import INPUTS
from kv_asu_sim.streams import STREAMS, play

SMALL = Params(log2_entries=4, window=4)


def rows_of(name: str, params: Params = SMALL, seed: int = 1, clocks: int = 3000) -> np.ndarray:
    return np.concatenate(list(play(name, params, seed, clocks)))


@pytest.mark.parametrize("name", STREAMS)
def test_rows_are_legal_and_reproducible(name: str) -> None:
    for params in (SMALL, Params(addr_width=40, log2_entries=6, window=16, hash_stages=1, function=8)):
        rows = rows_of(name, params)
        assert rows.dtype == INPUTS
        assert len(rows) >= 3000
        assert rows["rst"][0]
        assert (rows == rows_of(name, params)).all()
        assert not (rows["req_addr"].astype(object) >> params.addr_width).any()
        assert not (rows["query_addr"].astype(object) >> params.addr_width).any()
        access = (rows["cfg_ext_read_received"] | rows["cfg_ext_write_received"]) != 0
        stray = rows["cfg_ext_function_number"][access] != params.function
        assert stray.any() == (name == "stray_accesses")
        assert not (rows["cfg_ext_read_received"] & rows["cfg_ext_write_received"]).any()


@pytest.mark.parametrize("name", STREAMS)
def test_seeds_differ(name: str) -> None:
    one, other = rows_of(name, seed=1), rows_of(name, seed=2)
    assert len(one) != len(other) or (one != other).any()


def test_cut_anywhere() -> None:
    whole = np.concatenate(list(play("churn", SMALL, 5, 2000, settle=False)))
    cut = np.concatenate(list(play("churn", SMALL, 5, 777, settle=False)))
    assert len(cut) == 777
    assert (whole[:777] == cut).all()


def test_unknown_stream() -> None:
    with pytest.raises(KeyError, match="no_such"):
        next(play("no_such", SMALL, 1, 10))


@pytest.mark.parametrize("name", ["one_line", "two_lines", "scan_400", "evict_every_clock", "query_just_touched"])
def test_full_rate(name: str) -> None:
    """The streams that claim a port in every clock do use it in long runs."""
    rows = rows_of(name, clocks=6000)
    port = {"evict_every_clock": "evict_valid", "query_just_touched": "query_valid"}.get(name, "req_valid")
    busy = np.flatnonzero(rows[port] == 0)
    assert np.diff(busy).max() > 30
