"""The address map: its inverse, no needless straddling, alignment, bounds; patches of a frame."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vrex.trace.address_map
from vrex.trace.address_map import DTYPE_BYTES, LINE_BYTES, AddressMap, PatchGrid

anytime = settings(deadline=None)  # correctness, not this machine's load


@st.composite
def maps(draw: st.DrawFn) -> AddressMap:
    """Any model's shape, with up to three streams anywhere in 64 bits, in any order."""
    one = AddressMap(
        layers=draw(st.integers(1, 40)),
        heads=draw(st.integers(1, 16)),
        head_size=draw(st.integers(1, 300)),
        max_tokens=draw(st.integers(1, 5000)),
        dtype=draw(st.sampled_from(list(DTYPE_BYTES))),
    )
    lines = -(-one.stream_bytes // LINE_BYTES)
    start = draw(st.integers(0, (1 << 56) - 3 * lines - 30))
    gaps = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    bases = [(start + index * lines + sum(gaps[: index + 1])) * LINE_BYTES for index in range(len(gaps))]
    return replace(one, bases=tuple(draw(st.permutations(bases))))


@st.composite
def maps_and_tokens(draw: st.DrawFn) -> tuple[AddressMap, tuple[int, int, int, int]]:
    kv = draw(maps())
    sizes = (kv.layers, kv.heads, kv.max_tokens, len(kv.bases))
    layer, head, token, stream = (draw(st.integers(0, size - 1)) for size in sizes)
    return kv, (layer, head, token, stream)


@anytime
@given(maps_and_tokens(), st.data())
def test_every_byte_of_a_token_is_located_in_it(case: tuple[AddressMap, tuple[int, ...]], data: st.DataObject) -> None:
    kv, (layer, head, token, stream) = case
    offset = data.draw(st.integers(0, kv.token_bytes - 1))
    address = int(kv.address(layer, head, token, stream)) + offset
    assert tuple(map(int, kv.locate(address))) == (stream, layer, head, token, offset)


@anytime
@given(maps_and_tokens())
def test_a_token_touches_no_more_lines_than_its_bytes_need(case: tuple[AddressMap, tuple[int, ...]]) -> None:
    kv, where = case
    first = int(kv.address(*where))
    touched = (first + kv.token_bytes - 1) // LINE_BYTES - first // LINE_BYTES + 1
    assert touched == -(-kv.token_bytes // LINE_BYTES)


@anytime
@given(maps_and_tokens())
def test_lines_are_the_tokens_lines(case: tuple[AddressMap, tuple[int, ...]]) -> None:
    kv, where = case
    first = int(kv.address(*where))
    lines = kv.lines(*where)
    assert lines.dtype == np.uint64
    assert lines.tolist() == list(range(first // LINE_BYTES, (first + kv.token_bytes - 1) // LINE_BYTES + 1))
    stream, layer, head, token, offset = map(int, kv.locate_line(lines[-1]))
    assert int(kv.address(layer, head, token, stream)) + offset == int(lines[-1]) * LINE_BYTES


@anytime
@given(maps())
def test_tokens_do_not_overlap_and_stay_in_their_stream(kv: AddressMap) -> None:
    assert kv.bytes_per_token >= kv.token_bytes
    last = int(kv.address(kv.layers - 1, kv.heads - 1, kv.max_tokens - 1))
    assert last + kv.bytes_per_token == kv.bases[0] + kv.stream_bytes


@anytime
@given(maps())
def test_addresses_outside_every_stream_are_refused(kv: AddressMap) -> None:
    for outside in (min(kv.bases) - 1, max(kv.bases) + kv.stream_bytes):
        if 0 <= outside < 1 << 64:
            with pytest.raises(ValueError, match=f"{outside:#x} is in no stream"):
                kv.locate(outside)


def test_one_token_of_vit_is_one_line_and_worked_by_hand() -> None:
    kv = AddressMap(layers=12, heads=6, head_size=64, max_tokens=1000, bases=(0x8000_0000, 0x9000_0000))
    assert (kv.token_bytes, kv.bytes_per_token, kv.lines_per_token, kv.value_offset) == (256, 256, 1, 128)
    assert kv.address(2, 3, 7, 1) == 0x9000_0000 + ((2 * 6 + 3) * 1000 + 7) * 256
    assert kv.lines([0, 1], 0, 0).tolist() == [[0x80_0000], [0x80_0000 + 6000]]


@pytest.mark.parametrize(
    ("head_size", "dtype", "stride", "lines"),
    [(32, "fp16", 128, 1), (48, "fp16", 256, 1), (80, "fp16", 512, 2), (128, "bf16", 512, 2), (64, "fp32", 512, 2)],
)
def test_strides_of_common_heads(head_size: int, dtype: str, stride: int, lines: int) -> None:
    kv = AddressMap(layers=1, heads=1, head_size=head_size, max_tokens=10, dtype=dtype)
    assert (kv.bytes_per_token, kv.lines_per_token) == (stride, lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"layers": 1.5}, "layers must be an integer, not 1.5"),
        ({"bases": (256.0,)}, "a stream's base must be an integer, not 256.0"),
        ({"bases": (-256,)}, "a stream's base must be at least 0, not -256"),
        ({"dtype": "int4"}, "dtype must be one of fp16, bf16, fp32, not 'int4'"),
        ({"bases": (128,)}, "multiple of 256, not 0x80"),
        ({"bases": (0, 256)}, "streams overlap: 0x100"),
        ({"bases": (2 * 2 * 10 * 256 - 256, 0)}, "streams overlap: 0x2700"),
        ({"bases": ((1 << 64) - 256,)}, "beyond 64-bit"),
        ({"bases": ()}, "bases must name"),
    ],
)
def test_bad_maps_are_refused(change: dict[str, object], message: str) -> None:
    good = AddressMap(layers=2, heads=2, head_size=64, max_tokens=10)
    with pytest.raises((TypeError, ValueError), match=message):
        replace(good, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", [(2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 10, 0), (0, 0, 0, 1), (0, 0, -1, 0)])
def test_indices_outside_the_map_are_refused(where: tuple[int, int, int, int]) -> None:
    name = ("layer", "head", "token", "stream")[[bool(index) for index in where].index(True)]
    with pytest.raises(ValueError, match=f"{name} must be 0 to"):
        AddressMap(layers=2, heads=2, head_size=64, max_tokens=10).address(*where)


def test_patches_of_a_frame() -> None:
    grid = PatchGrid(rows=16, columns=16, leading=1)
    assert grid.tokens_per_frame == 257
    frame, row, column = grid.patches([0, 1, 16, 17, 256, 257, 257 + 18])
    assert frame.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert row.tolist() == [-1, 0, 0, 1, 15, -1, 1]
    assert column.tolist() == [-1, 0, 15, 0, 15, -1, 1]


def test_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(vrex.trace.address_map)
    assert result.attempted > 0
    assert result.failed == 0
