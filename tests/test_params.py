"""Build parameters: every edge of every range, types, and what follows from them."""

from __future__ import annotations

import dataclasses

import pytest

from kv_asu import PROFILES, Params
from kv_asu.params import shown
from kv_asu.register_map import WINDOW_BYTES

# Legal edges and the nearest illegal values, from kv-asu.md section 1, and what else fits them.
EDGES = {
    "addr_width": ((32, 64), (31, 65), {}),
    "log2_entries": ((3, 16), (2, 17), {"window": 2}),
    "window": ((2, 4, 8, 16), (0, 1, 3, 15, 17, 32), {}),
    "hash_stages": ((0, 6), (-1, 7), {}),
    "table_stages": ((0, 2), (-1, 3), {}),
    "stamp_width": ((8, 16), (7, 17), {}),
    "config_base": ((0x100, 0x7F8, 0xF80), (0xFC, 0x7F9, 0x7FA, 0xF84), {}),
    "config_next": ((0, 0x100, 0x7F4, 0x878, 0xFFC), (1, 0x40, 0xFE, 0x1000), {}),
    "vendor_id": ((0, 0xFFFF), (-1, 0x10000), {}),
    "vsec_id": ((0, 0xFFFF), (-1, 0x10000), {}),
    "function": ((0, 255), (-1, 256), {}),
}


def test_every_parameter_is_covered() -> None:
    assert list(EDGES) == [field.name for field in dataclasses.fields(Params)]


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_legal_and_their_neighbours_are_not(name: str) -> None:
    legal, illegal, others = EDGES[name]
    for value in legal:
        assert getattr(Params(**{**others, name: value}), name) == value
    for value in illegal:
        with pytest.raises(ValueError, match=f"^{name} must be .*not {shown(name, value)}$"):
            Params(**{**others, name: value})


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("value", [8.0, "8", None, True])
def test_only_integers(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"^{name} must be an integer, not {value!r}$"):
        Params(**{name: value})  # type: ignore[arg-type]


def test_messages_give_the_range() -> None:
    with pytest.raises(ValueError, match=r"^log2_entries must be 3 to 16, not 2$"):
        Params(log2_entries=2)
    with pytest.raises(ValueError, match=r"^window must be one of 2, 4, 8, 16, not 5$"):
        Params(window=5)
    with pytest.raises(ValueError, match=r"^config_base must be 0x100 to 0xf80 in steps of 4, not 0x101$"):
        Params(config_base=257)


@pytest.mark.parametrize("base", [0x7F8, 0x100])
def test_the_list_of_capabilities_does_not_come_back_to_this_one(base: int) -> None:
    end = base + WINDOW_BYTES
    for inside in (base, base + 4, base + 8, end - 4):
        with pytest.raises(
            ValueError, match=rf"^config_next must be outside .* {base:#x} to {end - 4:#x}, not {inside:#x}$"
        ):
            Params(config_base=base, config_next=inside)
    for outside in {max(base - 4, 0x100), end} - {base}:
        assert Params(config_base=base, config_next=outside).config_next == outside


@pytest.mark.parametrize("window", [2, 4, 8, 16])
def test_a_window_is_at_most_half_the_table(window: int) -> None:
    log2_smallest = (2 * window).bit_length() - 1
    assert Params(log2_entries=max(log2_smallest, 3), window=window).min_log2_active == log2_smallest
    if log2_smallest > 3:
        with pytest.raises(ValueError, match=rf"window must be at most half .*not {window}$"):
            Params(log2_entries=log2_smallest - 1, window=window)


def test_what_follows() -> None:
    params = Params(addr_width=40, log2_entries=6, window=4, hash_stages=3, table_stages=2, stamp_width=10)
    assert params.latency == 6
    assert (params.entries, params.rows, params.log2_window, params.line_width) == (64, 16, 2, 32)
    assert params.t1_limit == 1024 - 16


def test_profiles() -> None:
    assert PROFILES["asic"]() == Params()
    assert Params().latency == 1
    fpga = PROFILES["fpga"](log2_entries=5)
    assert fpga.log2_entries == 5
    assert fpga.latency > 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        fpga.window = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("params", "profile"),
    [
        (Params(), "asic"),
        (Params(log2_entries=5, addr_width=40, config_base=0x480), "asic"),
        (Params.fpga(window=2), "fpga"),
        (Params.fpga(hash_stages=0, table_stages=0), "asic"),
        (Params.asic(hash_stages=5, table_stages=2), "fpga"),
        (Params.asic(hash_stages=6, table_stages=2), "custom"),
        (Params(stamp_width=9), "custom"),
        (Params.fpga(stamp_width=9), "custom"),
    ],
)
def test_a_build_is_of_the_profile_whose_stages_and_stamps_it_has(params: Params, profile: str) -> None:
    assert params.profile == profile


def test_a_profile_checks_too() -> None:
    with pytest.raises(ValueError, match="window"):
        PROFILES["fpga"](window=5)
