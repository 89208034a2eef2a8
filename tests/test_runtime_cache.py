"""`DynamicRetrievalCache`: what comes back is what went in, however little memory is near; and who may be collected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_asu.params import Params
from kv_asu_firmware.dma import ORIN_NX_DRAM
from kv_asu_firmware.residency import Bank
from vrex.errors import DeviceGoneError, KvCacheFull
from vrex.runtime.cache import MIB, DynamicRetrievalCache
from vrex.runtime.core_watch import WatchSettings
from vrex.runtime.tokenizer import FrameAwareTokenizer, Patch
from vrex.trace.address_map import LINE_BYTES, AddressMap, PatchGrid
from vrex.transports import open_transport
from vrex.transports.model import ModelTransport

SMALL = Params(log2_entries=6, window=8)
BY_LINE = WatchSettings(line_shift=8, tick_shift=2, t3_count=5, t2_count=3, coarser=0)


def small_cache(lines: int, kv: AddressMap | None = None, **options: object) -> DynamicRetrievalCache:
    kv = kv or AddressMap(layers=2, heads=2, head_size=64, max_tokens=64)
    options = {"settings": BY_LINE, "dma": ORIN_NX_DRAM, "prefetch_share": 0, **options}
    return DynamicRetrievalCache(
        kv,
        bus=ModelTransport(SMALL),
        reserve_mb=lines * LINE_BYTES / MIB,
        **options,  # type: ignore[arg-type]
    )


def random_kv(rng: np.random.Generator, cache: DynamicRetrievalCache, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Any bits: infinities, subnormal numbers and NaNs with payloads too."""
    shape = (cache.kv.heads, count, cache.kv.head_size * cache.element.itemsize)
    keys, values = (rng.integers(0, 256, shape, np.uint8).view(cache.element) for _ in range(2))
    return keys, values


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), st.integers(0, 9)),
        st.tuples(st.just("read"), st.integers(0, 1), st.integers(0, 2**32)),
        st.tuples(st.just("prefetch"), st.integers(0, 1), st.integers(0, 2**32)),
        st.tuples(st.just("wait"), st.integers(0, 1), st.integers(0, 200_000)),
        st.tuples(st.just("frame"), st.integers(0, 1), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(["fp16", "bf16", "fp32"]),
    head_size=st.sampled_from([8, 24, 64, 128, 160]),
    places=st.integers(24, 90),
    ahead=st.sampled_from([0, 0.25]),
    steps=steps,
    seed=st.integers(0, 2**32),
)
def test_what_comes_back_is_what_went_in(
    dtype: str, head_size: int, places: int, ahead: float, steps: list[tuple[str, int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kv = AddressMap(layers=2, heads=2, head_size=head_size, max_tokens=48, dtype=dtype)
    cache = small_cache(places * kv.lines_per_token, kv, prefetch_share=ahead)
    empty = np.empty((2, 0, head_size), cache.element)
    kept = [[empty, empty], [empty, empty]]
    for what, layer, number in steps:
        held = cache.tokens(layer)
        if what == "append":
            count = min(number, kv.max_tokens - held)
            new = random_kv(rng, cache, count)
            cache.append(layer, *new)
            kept[layer] = [np.concatenate(pair, axis=1) for pair in zip(kept[layer], new, strict=True)]
        elif what == "wait":
            cache.pass_time(number)
        elif what == "frame":
            cache.end_frame()
        elif held:
            choice = np.random.default_rng(number)
            tokens = choice.permutation(held)[: choice.integers(1, 13)]
            head = int(choice.integers(2))
            if what == "prefetch":
                cache.prefetch(tokens, layer, head)
                continue
            got = cache.read(layer, head, tokens)
            for there, here in zip(got, kept[layer], strict=True):
                assert same_bits(there, np.ascontiguousarray(here[head, tokens]))
        assert cache.near.free(Bank.DEMAND) >= 0
    for layer in (0, 1):
        for head in (0, 1):
            for token in range(cache.tokens(layer)):
                got = cache.read(layer, head, [token])
                assert all(same_bits(a, b[head, [token]]) for a, b in zip(got, kept[layer], strict=True))


def test_new_kv_is_resident_and_only_what_is_missing_comes() -> None:
    rng = np.random.default_rng(1)
    cache = small_cache(16)
    cache.append(0, *random_kv(rng, cache, 8))  # 2 heads: 16 lines
    with cache.swap_in(range(8), 0, 0) as held:
        assert (held.lines, held.hits, held.moved) == (8, 8, 0)
    cache.append(1, *random_kv(rng, cache, 3))  # takes the places of six
    gone = [[t for t in range(8) if not cache.near.is_resident(np.array([64 * head + t]))[0]] for head in (0, 1)]
    assert len(gone[0]) + len(gone[1]) == 6
    head = int(len(gone[1]) > len(gone[0]))
    moved = cache.dma.bytes_moved
    with cache.swap_in(range(8), 0, head) as held:
        assert (held.hits, held.moved) == (8 - len(gone[head]), len(gone[head]))
    assert cache.dma.bytes_moved - moved == len(gone[head]) * LINE_BYTES


def test_what_is_asked_for_makes_no_room_for_the_rest() -> None:
    rng = np.random.default_rng(12)
    cache = small_cache(12, tiles=1)
    for _ in range(4):
        cache.append(0, *random_kv(rng, cache, 3))
    for head in (0, 1):
        cache.read(0, head, range(6))  # six of each are resident, and the next visit of head 0 is the farther one
    resident = cache.near.is_resident(np.arange(9))
    assert 0 < resident.sum() < 9
    with cache.swap_in(range(9), 0, 0) as held:
        assert held.moved == 9 - resident.sum()
    assert cache.frame.moved == cache.dma.bytes_moved // LINE_BYTES


def test_what_is_held_or_on_its_way_is_not_collected() -> None:
    rng = np.random.default_rng(2)
    cache = small_cache(12)
    for layer in (0, 0, 1, 1):
        cache.append(layer, *random_kv(rng, cache, 4))
    lines = np.arange(6)
    with cache.swap_in(range(6), 0, 0):
        assert cache.near.is_resident(lines).all()
        for token in range(8):
            with cache.swap_in([token], 1, 1):
                pass
            assert cache.near.is_resident(lines).all()
        cache.append(0, *random_kv(rng, cache, 3))
        assert cache.near.is_resident(lines).all()
    cache.append(1, *random_kv(rng, cache, 6))
    assert not cache.near.is_resident(lines).all()


def test_too_much_at_once_is_told_and_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    cache = small_cache(12)
    kv = random_kv(rng, cache, 20)
    with pytest.raises(KvCacheFull, match="40 lines are written at once, near memory has places for 12"):
        cache.append(0, *kv)
    assert cache.tokens(0) == 0
    for start in range(0, 20, 5):
        cache.append(0, *(array[:, start : start + 5] for array in kv))
    before = set(cache.near.lines(Bank.DEMAND))
    with pytest.raises(KvCacheFull, match="13 lines are to be read at once, near memory has places for 12"):
        cache.read(0, 0, range(13))
    held = cache.swap_in(range(10), 0, 0)
    with pytest.raises(KvCacheFull, match=r"5 lines need a place, . of 12 are free and . can be collected"):
        cache.swap_in(range(10, 15), 0, 0)
    held.release()
    held.release()
    keys, values = cache.read(0, 0, range(10, 15))
    assert same_bits(keys, np.ascontiguousarray(kv[0][0, 10:15]))
    assert same_bits(values, np.ascontiguousarray(kv[1][0, 10:15]))
    assert len(before) == 12
    with pytest.raises(KvCacheFull, match="layer 0 holds 20 tokens of at most 64, no room for 45 more"):
        cache.append(0, *random_kv(rng, cache, 45))


def test_changing_resolutions_leave_no_holes() -> None:
    rng = np.random.default_rng(4)
    cache = small_cache(30, AddressMap(layers=1, heads=2, head_size=64, max_tokens=400))
    for count in rng.integers(1, 15, 40):
        cache.append(0, *random_kv(rng, cache, int(count)))
        held = cache.tokens(0)
        cache.read(0, 1, rng.permutation(held)[:9])
        assert cache.near.free(Bank.DEMAND) + len(cache.near.lines(Bank.DEMAND)) == 30
    with cache.swap_in(range(100, 130), 0, 0) as got:  # every place, whatever was in it
        assert got.lines == 30
        assert cache.near.free(Bank.DEMAND) == 0


def test_cold_lines_are_collected_from_the_threshold_on() -> None:
    rng = np.random.default_rng(5)
    cache = small_cache(40, gc_threshold=0.5)
    cache.append(0, *random_kv(rng, cache, 10))
    cache.read(0, 0, range(10))  # the core has seen these
    cache.pass_time(10_000)  # and they grow cold: T1 is 1 us
    assert cache.frame.cold_evictions == 0
    cache.append(1, *random_kv(rng, cache, 2))
    assert cache.frame.cold_evictions == 10
    assert not cache.near.is_resident(np.arange(10)).any()
    assert cache.near.is_resident(np.arange(64, 74)).all()  # which nobody has read: not in the core's list


def test_prefetched_lines_are_hits() -> None:
    rng = np.random.default_rng(6)
    cache = small_cache(24, prefetch_share=0.25)
    for layer in (0, 1):
        cache.append(layer, *random_kv(rng, cache, 9))
    gone = [token for token in range(9) if not cache.near.is_resident(np.array([token]))[0]]
    assert gone
    assert cache.prefetch(gone[:4], 0, 0) == len(gone[:4])
    assert cache.prefetch(gone[:4], 0, 0) == 0  # they are on their way
    cache.pass_time(100_000)
    with cache.swap_in(gone[:4], 0, 0) as held:
        assert held.hits == len(gone[:4])
    frame = cache.end_frame()
    assert (frame.prefetched, frame.prefetch_hits, frame.hits, frame.moved) == (len(gone[:4]),) * 4
    assert (cache.frame.frame, cache.frame.lines) == (1, 0)


def test_likely_lines_are_brought_ahead() -> None:
    rng = np.random.default_rng(7)
    cache = small_cache(80, prefetch_share=0.5, tiles=1)
    for layer in (0, 1):
        cache.append(layer, *random_kv(rng, cache, 12))
    for _ in range(4):
        for layer in (0, 1):
            for head in (0, 1):
                cache.read(layer, head, [1, 2, 3, 11])
        cache.end_frame()
    likely = cache.policy.expected(0, 0.5)
    assert likely.tolist() == [1, 2, 3, 11]
    for line in cache.near.lines(Bank.DEMAND):
        cache.near.collect(line)
    assert cache.prefetch_likely(0, 0) == 4


def test_a_core_that_goes_away_and_comes_back() -> None:
    rng = np.random.default_rng(8)
    bus = ModelTransport(SMALL)
    kv = AddressMap(layers=1, heads=1, head_size=64, max_tokens=64)
    cache = DynamicRetrievalCache(kv, bus=bus, reserve_mb=8 * LINE_BYTES / MIB, settings=BY_LINE, prefetch_share=0)
    kept = random_kv(rng, cache, 8)
    cache.append(0, *kept)
    bus.power_good = False
    with pytest.raises(DeviceGoneError, match="not active: `vrex doctor`"):
        cache.read(0, 0, range(8))
    bus.power_good = True
    bus.idle(1000)
    keys, values = cache.read(0, 0, range(8))
    assert same_bits(keys, kept[0][0])
    assert same_bits(values, kept[1][0])
    cache.append(0, *random_kv(rng, cache, 8))  # nothing was left held


def test_warm_up_and_heartbeat() -> None:
    rng = np.random.default_rng(9)
    times = []
    for heartbeat, warm in ((False, False), (False, True), (True, False)):
        cache = small_cache(8, heartbeat=heartbeat)
        cache.append(0, *random_kv(rng, cache, 4))
        cache.append(1, *random_kv(rng, cache, 4))
        cache.pass_time(20_000_000_000)
        if warm:
            assert cache.warm_up() == cache.dma.params.wake_up_ns
            assert cache.warm_up() == 0
        with cache.swap_in([0], 0, 0) as held:
            assert held.moved == 1
            times.append(held.device_time_ns)
    cold, warmed, kept_awake = times
    assert cold == warmed + cache.dma.params.wake_up_ns
    assert kept_awake == warmed


def test_the_compiled_core_gives_the_same_figures() -> None:
    frames = []
    for transport in ("model", "rtl"):
        rng = np.random.default_rng(10)
        kv = AddressMap(layers=1, heads=2, head_size=64, max_tokens=64)
        cache = DynamicRetrievalCache(
            kv,
            bus=open_transport(transport, log2_entries=6),  # type: ignore[arg-type]
            reserve_mb=20 * LINE_BYTES / MIB,
            settings=BY_LINE,
        )
        for _ in range(5):
            cache.append(0, *random_kv(rng, cache, 6))
            for head in (0, 1):
                cache.read(0, head, rng.permutation(cache.tokens(0))[:6])
            cache.pass_time(500)
            frames.append(cache.end_frame().to_json())
    assert frames[:5] == frames[5:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gc_threshold": 0.0}, "gc_threshold must be over 0 and at most 1, not 0.0"),
        ({"gc_threshold": 1.1}, "gc_threshold must be over 0 and at most 1, not 1.1"),
        ({"prefetch_share": 1.0}, "prefetch_share must be 0 to below 1, not 1.0"),
        ({"lines": 0}, "reserve_mb must have room for a token, not 0.0"),
        ({"element": np.float32}, "element must have the size of fp16, 2 bytes, not float32"),
    ],
)
def test_numbers_out_of_range(options: dict[str, object], message: str) -> None:
    options = {"lines": 8, **options}
    with pytest.raises(ValueError, match=message):
        small_cache(**options)  # type: ignore[arg-type]


def test_wrong_arguments() -> None:
    rng = np.random.default_rng(11)
    cache = small_cache(16)
    keys, values = random_kv(rng, cache, 4)
    cache.append(0, keys, values)
    for call, error, message in (
        (lambda: cache.append(2, keys, values), ValueError, "layer must be 0 to 1, not 2"),
        (lambda: cache.append(0, keys[:1], values), ValueError, r"keys must have shape \(2 heads, tokens, 64\)"),
        (lambda: cache.append(0, keys, values[:, :2]), ValueError, "values must have the shape of keys"),
        (lambda: cache.append(0, keys.astype(np.float32), values), TypeError, "keys must be fp16, 2 bytes each"),
        (lambda: cache.read(0, 2, [0]), ValueError, "head must be 0 to 1, not 2"),
        (lambda: cache.read(0, 0, [4]), ValueError, "token must be 0 to 3, not 4"),
        (lambda: cache.read(0, 0, [-1]), ValueError, "token must be 0 to 3, not -1"),
        (lambda: cache.read(0, 0, [0.5]), ValueError, "tokens must be integers, not float64"),
        (lambda: cache.read(0, 0, [1, 1]), ValueError, "tokens must be named once each"),
        (lambda: cache.read(0, 0, [1], 4), ValueError, "min_tlevel must be 0 to 3, not 4"),
    ):
        with pytest.raises(error, match=message):
            call()
    empty_keys, _ = cache.read(0, 0, [])
    assert empty_keys.shape == (0, 64)
    assert (cache.tokens(0), cache.held_bytes) == (4, 4 * 2 * 256)


def test_regions_come_ahead_by_their_rows() -> None:
    """Two frames of 2 x 4 patches: what was hot in a row of one lifts the same row of the other, and no other row."""
    kv = AddressMap(layers=1, heads=1, head_size=64, max_tokens=24)
    cache = small_cache(12, kv, prefetch_share=0.5, settings=replace(BY_LINE, tick_shift=16))
    tagged = FrameAwareTokenizer(lambda ids: {"input_ids": ids}, 9)([9] * 16, grids=[(2, 4), (2, 4)])
    rng = np.random.default_rng(3)
    for _ in range(4):
        cache.append(0, *random_kv(rng, cache, 4))
    for token in range(16):  # everything is known to the core, at T-level 1
        cache.read(0, 0, [token])
    for _ in range(4):
        cache.read(0, 0, tagged.tokens_of(0, 1), patch=Patch(0, 1, 0))  # hot: row 1 of frame 0
    cold = [token for token in range(8, 16) if not cache.near.is_resident(np.array([token]))[0]]
    assert set(cold) & set(tagged.tokens_of(1, 0))
    assert set(cold) & set(tagged.tokens_of(1, 1))
    assert set(cache.tlevels(0, 0, 8, 8).tolist()) == {1}
    assert tagged.prefetch(cache, 1, patch_row=0, min_tlevel=2) == 0
    assert tagged.prefetch(cache, 1, min_tlevel=2) == len(set(cold) & set(tagged.tokens_of(1, 1)))
    cache.pass_time(1_000_000)
    assert cache.near.is_resident(np.array(tagged.tokens_of(1, 1))).all()
    assert tagged.prefetch(cache, 5) == 0  # there is no such frame


def test_tokens_that_are_not_written_yet_do_not_come_ahead() -> None:
    cache = small_cache(20, AddressMap(layers=1, heads=1, head_size=64, max_tokens=24), prefetch_share=0.5)
    tagged = FrameAwareTokenizer(lambda ids: {"input_ids": ids}, 9)([9] * 4, grids=[PatchGrid(1, 3, leading=1)])
    assert tagged.prefetch(cache, 0, min_tlevel=0) == 0
    cache.append(0, *random_kv(np.random.default_rng(4), cache, 2))
    assert tagged.prefetch(cache, 0, min_tlevel=0) == 0  # those that are written are near already
