"""The behavioural model against the contract's sentences, and against a second model too simple to be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_asu.params import Params
from kv_asu.register_map import Decay, VictimStatus
from kv_asu_firmware.golden import (
    COUNT_MAX,
    COUNTERS,
    Answer,
    Clock,
    KvAsuGolden,
    Query,
    Settings,
    Tag,
    Victim,
    fmix32,
    home_slot,
)

EMPTY = Victim(VictimStatus.EMPTY, 0)
NOT_TRACKED = Answer(tracked=False, tlevel=0, hit=False, count=0)


def found(line: int) -> Victim:
    return Victim(VictimStatus.FOUND, line)


class Core:
    """A golden model spoken to in line numbers, one operation a clock."""

    def __init__(self, log2_entries: int = 3, window: int = 4, stamp_width: int = 8, **settings: int) -> None:
        self.model = KvAsuGolden(Params(log2_entries=log2_entries, window=window, stamp_width=stamp_width))
        for name, value in settings.items():
            setattr(self.model.settings, name, value)
        self.model.activate()

    def touch(self, line: int) -> Tag:
        tag = self.model.clock(request=line << 8).tag
        assert tag is not None
        return tag

    def ask(self, line: int, min_tlevel: int = 0, boost: bool = False) -> Answer:
        answer = self.model.clock(query=Query(line << 8, min_tlevel, boost)).answer
        assert answer is not None
        return answer

    def evict(self) -> Victim:
        victim = self.model.clock(evict=True).victim
        assert victim is not None
        return victim

    def idle(self, clocks: int) -> None:
        self.model.idle(clocks)


def lines_of_home(home: int, count: int, log2_entries: int = 3) -> list[int]:
    """Lines whose window starts at ``home``."""
    return [line for line in range(4000) if home_slot(line, log2_entries) == home][:count]


# Hash


@pytest.mark.parametrize(
    ("seed", "hashed"), [(0x00000000, 0x00000000), (0x00000001, 0x514E28B7), (0xFFFFFFFF, 0x81F16F39)]
)
def test_fmix32_published_vectors_of_the_empty_key(seed: int, hashed: int) -> None:
    """MurmurHash3_x86_32 of no bytes is fmix32(seed ^ 0)."""
    assert fmix32(seed) == hashed


@pytest.mark.parametrize(
    ("key", "seed", "hashed"),
    [
        ("21 43 65 87", 0x00000000, 0xF55B516B),
        ("21 43 65 87", 0x5082EDEE, 0x2362F9DE),
        ("00 00 00 00", 0x00000000, 0x2362F9DE),
        ("ff ff ff ff", 0x00000000, 0x76293B50),
    ],
)
def test_fmix32_published_vectors_of_four_bytes(key: str, seed: int, hashed: int) -> None:
    """The rest of MurmurHash3_x86_32, written out, around our finalizer."""

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> 32 - by) & 0xFFFFFFFF

    block = int.from_bytes(bytes.fromhex(key), "little")
    mixed = seed ^ rotate(block * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    assert fmix32((rotate(mixed, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF) ^ 4) == hashed


@given(st.integers(0, 0xFFFFFFFF))
def test_fmix32_is_the_finalizer_of_mmh3(value: int) -> None:
    assert fmix32(value) == mmh3.hash(b"", value, signed=False)


@given(st.integers(0, (1 << 56) - 1), st.integers(0, 0xFFFFFFFF), st.integers(3, 16))
def test_home_slot_folds_the_line_with_the_seed(line: int, seed: int, log2_active: int) -> None:
    halves = line.to_bytes(8, "little")
    folded = int.from_bytes(halves[:4], "little") ^ int.from_bytes(halves[4:], "little") ^ seed
    assert home_slot(line, log2_active, seed) == mmh3.hash(b"", folded, signed=False) % (1 << log2_active)


# Line numbers and time


@pytest.mark.parametrize(
    ("addr_width", "line_shift", "address", "line"),
    [
        (64, 8, 0xFEDC_BA98_7654_3210, 0xFE_DCBA_9876_5432),
        (64, 12, 0xFEDC_BA98_7654_3210, 0xFE_DCBA_9876_5430),
        (64, 24, 0xFEDC_BA98_7654_3210, 0xFE_DCBA_9876_0000),
        (32, 8, 0xFFFF_FFFF, 0xFF_FFFF),
        (32, 9, 0xFFFF_FFFF, 0xFF_FFFE),
    ],
)
def test_line_number(addr_width: int, line_shift: int, address: int, line: int) -> None:
    model = KvAsuGolden(Params(addr_width=addr_width))
    model.settings.line_shift = line_shift
    assert model.line(address) == line
    assert model.clock(request=address).tag == Tag(line, False, False, 0, 0, 0, 0, 0, False, 0)
    model.activate()
    assert model.clock(request=address).tag == Tag(line, True, False, 0, 1, 1, model.window(line)[0], 0, False, 0)


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda core: core.clock(request=-1), ValueError, "address must be 0 to 0xffffffff, not -0x1"),
        (lambda core: core.clock(request=-1 << 80), ValueError, "address must be 0 to 0xffffffff, not -0x1000"),
        (lambda core: core.clock(request=1 << 32), ValueError, "address must be 0 to 0xffffffff, not 0x100000000"),
        (lambda core: core.clock(request=np.int8(-3)), ValueError, "address must be 0 to 0xffffffff, not -0x3"),
        (lambda core: core.clock(request=256.0), TypeError, "address must be an integer, not 256.0"),
        (lambda core: core.clock(request="0x100"), TypeError, "address must be an integer, not '0x100'"),
        (lambda core: core.clock(query=Query(1 << 33)), ValueError, "address must be 0 to 0xffffffff, not 0x200000000"),
        (lambda core: core.clock(query=Query(-256)), ValueError, "address must be 0 to 0xffffffff, not -0x100"),
        (lambda core: core.clock(query=Query(0, 4)), ValueError, "min_tlevel must be 0 to 3, not 4"),
        (lambda core: core.clock(query=Query(0, -1)), ValueError, "min_tlevel must be 0 to 3, not -1"),
        (lambda core: core.clock(query=Query(0, "1")), ValueError, "min_tlevel must be 0 to 3, not '1'"),  # type: ignore[arg-type]
        (lambda core: core.line(1 << 32), ValueError, "address must be 0 to 0xffffffff"),
        (lambda core: core.idle(-5), ValueError, "clocks must not be negative, not -5"),
        (lambda core: core.idle(2.0), TypeError, "clocks must be an integer, not 2.0"),
    ],
)
def test_what_no_pin_can_carry_is_refused(
    call: Callable[[KvAsuGolden], object], error: type[Exception], message: str, active: bool
) -> None:
    """And no clock passes."""
    model = KvAsuGolden(Params(addr_width=32))
    if active:
        model.activate()
        model.clock(request=0x100)
    counters, tick = model.counters, model.tick
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        call(model)
    assert (model.counters, model.tick) == (counters, tick)


@pytest.mark.parametrize("kind", [np.uint64, np.int64, np.uint32, np.int32])
def test_numpys_integers_are_addresses(kind: type[np.integer]) -> None:
    """Also those whose width the arithmetic would exceed; the answers are plain numbers."""
    ours, numpys = KvAsuGolden(Params()), KvAsuGolden(Params())
    for model in (ours, numpys):
        model.settings.line_shift = 12
        model.activate()
    for address in (0x7FFF_FF00, 0x100, 0x7FFF_FF00):
        query = Query(kind(address), kind(1), np.bool_(True))  # type: ignore[arg-type]
        answers = numpys.clock(request=kind(address), query=query)  # type: ignore[arg-type]
        assert answers == ours.clock(request=address, query=Query(address, 1, True))
        assert {type(value) for value in (*answers.tag, *answers.answer)} == {int, bool}  # type: ignore[misc]
    numpys.idle(kind(9))  # type: ignore[arg-type]
    ours.idle(9)
    assert (numpys.counters, numpys.tick) == (ours.counters, ours.tick)


def test_addresses_of_one_granule_are_one_line() -> None:
    core = Core(line_shift=12)
    assert not core.model.clock(request=0x5000).tag.hit  # type: ignore[union-attr]
    assert core.model.clock(request=0x5FFF).tag.hit  # type: ignore[union-attr]
    assert not core.model.clock(request=0x6000).tag.hit  # type: ignore[union-attr]


@pytest.mark.parametrize("tick_shift", [0, 1, 2, 5])
def test_tick_starts_at_zero_and_advances_every_power_of_two_clocks(tick_shift: int) -> None:
    core = Core(tick_shift=tick_shift)
    stamps = [core.touch(1).stamp for _ in range(3 << tick_shift)]
    assert stamps == [0] * (1 << tick_shift) + [1] * (1 << tick_shift) + [2] * (1 << tick_shift)


@pytest.mark.parametrize("stamp_width", [8, 12])
def test_stamp_is_the_tick_in_stamp_width_bits(stamp_width: int) -> None:
    core = Core(stamp_width=stamp_width, tick_shift=0)
    core.idle((1 << stamp_width) - 1)
    assert core.touch(1).stamp == (1 << stamp_width) - 1
    assert core.touch(1).stamp == 0


def test_activation_restarts_the_tick() -> None:
    core = Core(tick_shift=0)
    core.idle(17)
    core.model.activate()
    assert core.touch(1).stamp == 0


# Table


def test_free_slots_are_taken_in_probe_order_around_the_end_of_the_table() -> None:
    core = Core(window=4)
    assert [core.touch(line).slot for line in lines_of_home(6, 4)] == [6, 7, 0, 1]


def test_a_smaller_active_table_wraps_at_its_own_end() -> None:
    core = Core(log2_entries=6, window=4, log2_active=3)
    assert [core.touch(line).slot for line in lines_of_home(6, 4)] == [6, 7, 0, 1]


def test_removal_frees_the_slot_and_hides_nothing_behind_it() -> None:
    core = Core(window=4, tick_shift=0, t1_age=1, t2_age=1, t3_age=1, reclaim_off=True)
    first, second, third = lines_of_home(2, 3)
    core.touch(first)
    core.idle(1)
    core.touch(second)
    assert core.evict() == found(first)
    tag = core.touch(second)
    assert (tag.hit, tag.slot) == (True, 3)
    assert core.touch(third).slot == 2


def test_a_free_slot_goes_before_a_cold_line() -> None:
    core = Core(window=4, tick_shift=0, t1_age=1, t2_age=1, t3_age=1)
    *three, fourth = lines_of_home(0, 4)
    for line in three:
        core.touch(line)
    core.idle(10)
    tag = core.touch(fourth)
    assert (tag.slot, tag.spill_valid) == (3, False)


def test_the_first_cold_line_in_probe_order_is_spilled_not_the_coldest() -> None:
    core = Core(window=4, tick_shift=0, t1_age=10, t2_age=10, t3_age=10)
    a, b, c, d, newcomer = lines_of_home(5, 5)
    for line in (a, b, c, d, b, a):  # the coldest is c, then d, b, a
        core.touch(line)
    core.idle(7)
    core.touch(a)
    core.idle(2)  # c, d and b are at T-level 0, a is not
    tag = core.touch(newcomer)
    assert tag == Tag(newcomer, True, False, 0, 1, 1, 6, 16, True, b)
    assert core.ask(b) == NOT_TRACKED
    assert core.evict() == found(c)


def test_a_full_window_of_live_lines_leaves_a_line_untracked() -> None:
    core = Core(window=2)
    *live, newcomer = lines_of_home(3, 3)
    for line in live:
        core.touch(line)
    assert core.touch(newcomer) == Tag(newcomer, False, False, 0, 0, 0, 0, 0, False, 0)
    assert core.model.counters["untracked"] == 1
    assert core.ask(newcomer) == NOT_TRACKED


def test_reclaim_off_leaves_cold_lines_their_slots() -> None:
    core = Core(window=2, reclaim_off=True, tick_shift=0, t1_age=1, t2_age=1, t3_age=1)
    *cold, newcomer = lines_of_home(3, 3)
    for line in cold:
        core.touch(line)
    core.idle(9)
    assert not core.touch(newcomer).tracked
    core.model.settings.reclaim_off = False
    assert core.touch(newcomer).spill_line == cold[0]


# Requests, counters and T-levels


@pytest.mark.parametrize(
    ("touches", "age", "tlevel"),
    [
        *((5, age, level) for age, level in ((0, 3), (25, 3), (26, 2), (50, 2), (51, 1), (125, 1), (126, 0), (999, 0))),
        *((4, age, level) for age, level in ((0, 2), (50, 2), (51, 1), (125, 1), (126, 0))),
        *((3, age, level) for age, level in ((0, 2), (50, 2), (51, 1), (125, 1), (126, 0))),
        *((2, age, level) for age, level in ((0, 1), (125, 1), (126, 0))),
        *((1, age, level) for age, level in ((0, 1), (125, 1), (126, 0), (1 << 40, 0))),
    ],
)
@pytest.mark.parametrize("tick_shift", [0, 2])
def test_tlevel_of_count_and_age_with_the_default_thresholds(
    touches: int, age: int, tlevel: int, tick_shift: int
) -> None:
    core = Core(tick_shift=tick_shift)
    core.idle((-touches) % (1 << tick_shift))  # so that the last touch falls on the last clock of a tick
    for _ in range(touches):
        tag = core.touch(7)
    assert tag.count == touches
    assert tag.after == {1: 1, 2: 1, 3: 2, 4: 2, 5: 3}[touches]
    if age:
        core.idle((age - 1) << tick_shift)
        clock = core.model.clock(request=7 << 8, query=Query(7 << 8))
        assert clock.answer == Answer(True, tlevel, True, touches)
        assert clock.tag is not None
        assert clock.tag.before == tlevel
    else:
        assert core.model.tlevel(next(core.model.lines())) == tlevel


def test_before_is_by_the_age_since_the_previous_touch_after_is_at_age_zero() -> None:
    core = Core(tick_shift=0)
    tags = [core.touch(9) for _ in range(6)]
    assert [(tag.before, tag.after, tag.count) for tag in tags] == [
        (0, 1, 1),
        (1, 1, 2),
        (1, 2, 3),
        (2, 2, 4),
        (2, 3, 5),
        (3, 3, 6),
    ]
    assert [tag.hit for tag in tags] == [False] + [True] * 5


@pytest.mark.parametrize(("decay", "count"), [(Decay.HOLD, 8), (Decay.HALVE, 4), (Decay.CLEAR, 1)])
def test_the_counter_decays_when_a_cold_line_is_touched(decay: Decay, count: int) -> None:
    core = Core(tick_shift=0, decay=decay)
    for _ in range(7):
        core.touch(3)
    core.idle(125)
    assert core.model.clock(request=3 << 8, query=Query(3 << 8)).answer == Answer(True, 0, True, 7)
    tag = core.touch(3)
    assert (tag.before, tag.count) == ({8: 3, 4: 2, 1: 1}[count], count + 1)


def test_the_counter_does_not_decay_at_tlevel_one() -> None:
    core = Core(tick_shift=0, decay=Decay.CLEAR)
    for _ in range(7):
        core.touch(3)
    core.idle(124)
    tag = core.touch(3)
    assert (tag.before, tag.count) == (1, 8)


def test_the_counter_saturates() -> None:
    core = Core(tick_shift=0, decay=Decay.HALVE)
    for _ in range(COUNT_MAX - 1):
        core.touch(3)
    assert [core.touch(3).count for _ in range(3)] == [COUNT_MAX] * 3
    core.idle(126)
    assert core.touch(3).count == COUNT_MAX // 2 + 1


def test_a_new_line_is_classified_by_the_thresholds_too() -> None:
    assert Core(t3_count=1).touch(1).after == 3
    assert Core(t3_count=0, t2_count=0).touch(1).after == 3
    assert Core(t2_count=1).touch(1).after == 2


def test_thresholds_and_modes_change_live() -> None:
    core = Core(tick_shift=0)
    core.touch(1)
    core.model.settings.t2_count = 1
    assert core.ask(1).tlevel == 2
    core.model.settings.t2_age = core.model.settings.t3_age = 1
    assert core.ask(1).tlevel == 1
    assert core.touch(1).before == 1


# Cold list


def cold_core(*lines: int) -> Core:
    """Lines at T-level 0, touched in this order, in a table with room for more."""
    core = Core(log2_entries=6, tick_shift=0, t1_age=20, t2_age=20, t3_age=20)
    for line in lines:
        core.touch(line)
    core.idle(21)
    assert core.model.cold == len(lines)
    return core


@pytest.mark.parametrize(
    ("touched", "victims"),
    [((), [1, 2, 3, 4]), ((1,), [2, 3, 4]), ((2, 3), [1, 4]), ((4,), [1, 2, 3]), ((1, 2, 3, 4), [])],
)
def test_evict_takes_the_least_recently_used_and_a_touch_takes_a_line_out(
    touched: tuple[int, ...], victims: list[int]
) -> None:
    core = cold_core(1, 2, 3, 4)
    for line in touched:
        assert core.touch(line).before == 0
    assert [core.evict() for _ in range(len(victims) + 1)] == [*map(found, victims), EMPTY]


def test_a_touched_line_becomes_the_most_recently_used() -> None:
    core = cold_core(1, 2, 3)
    core.touch(1)
    core.idle(21)
    assert [core.evict() for _ in range(4)] == [found(2), found(3), found(1), EMPTY]


def test_a_live_line_is_never_a_victim() -> None:
    core = Core(tick_shift=0)
    core.touch(1)
    core.idle(124)
    assert core.evict() == EMPTY
    assert core.evict() == found(1)
    assert core.model.tracked == 0


def test_an_evicted_line_starts_anew() -> None:
    core = cold_core(1)
    core.evict()
    tag = core.touch(1)
    assert (tag.hit, tag.before, tag.count) == (False, 0, 1)


# Order within a clock


def test_a_query_does_not_see_the_request_of_its_clock() -> None:
    core = Core()
    clock = core.model.clock(request=1 << 8, query=Query(1 << 8))
    assert clock.answer == NOT_TRACKED
    assert clock.tag is not None
    assert clock.tag.tracked
    assert core.ask(1).tracked


def test_an_evict_sees_the_request_of_its_clock() -> None:
    core = cold_core(1)
    clock = core.model.clock(request=1 << 8, evict=True)
    assert clock.tag is not None
    assert (clock.tag.hit, clock.tag.before) == (True, 0)
    assert clock.victim == EMPTY
    assert core.ask(1).tlevel == 1


def test_an_evict_does_not_take_the_line_spilled_in_its_clock() -> None:
    core = Core(window=2, tick_shift=0, t1_age=5, t2_age=5, t3_age=5)
    first, second, newcomer = lines_of_home(3, 3)
    core.touch(first)
    core.touch(second)
    core.idle(9)
    clock = core.model.clock(request=newcomer << 8, evict=True)
    assert clock.tag is not None
    assert clock.tag.spill_line == first
    assert clock.victim == found(second)


def test_a_query_sees_the_line_evicted_in_its_clock() -> None:
    core = cold_core(1)
    clock = core.model.clock(query=Query(1 << 8), evict=True)
    assert clock == Clock(None, Answer(True, 0, True, 1), found(1))
    assert core.ask(1) == NOT_TRACKED


# Queries


def test_a_query_touches_nothing() -> None:
    core = Core(tick_shift=0)
    core.touch(1)
    core.idle(100)
    for _ in range(25):
        assert core.ask(1).tlevel == 1
    assert core.touch(1).before == 0


@pytest.mark.parametrize(
    ("touches", "minimum", "boost", "tlevel", "hit"),
    [
        (0, 0, False, 0, False),
        (0, 0, True, 0, False),
        (1, 1, False, 1, True),
        (1, 2, False, 1, False),
        (1, 2, True, 2, True),
        (1, 3, True, 2, False),
        (3, 3, True, 3, True),
        (5, 3, True, 3, True),
    ],
)
def test_answer(touches: int, minimum: int, boost: bool, tlevel: int, hit: bool) -> None:
    core = Core()
    for _ in range(touches):
        core.touch(1)
    assert core.ask(1, minimum, boost) == Answer(touches > 0, tlevel, hit, touches)
    assert core.model.counters["query_hits"] == hit


def test_boost_lifts_a_cold_line() -> None:
    assert cold_core(1).ask(1, min_tlevel=1, boost=True) == Answer(True, 1, True, 1)


# RETRY


def retry(core: Core, request: int | None = None) -> bool:
    """Let the core answer RETRY to an evict; tell whether the contract allows it."""
    clock = core.model.clock(None if request is None else request << 8, evict=True, evict_retry=True)
    assert clock.victim == Victim(VictimStatus.RETRY, 0)
    return core.model.retry_allowed()


def test_retry_takes_nothing() -> None:
    core = cold_core(1, 2)
    retry(core)
    assert core.evict() == found(1)


def test_retry_is_allowed_for_a_while_after_a_touch_of_the_tail() -> None:
    core = cold_core(1, 2, 3)
    core.idle(99)
    latency = core.model.params.latency
    assert retry(core, request=1)
    assert [retry(core) for _ in range(latency + 8)] == [True] * (latency + 4) + [False] * 4


def test_retry_after_a_touch_elsewhere_is_not_allowed() -> None:
    core = cold_core(1, 2, 3)
    core.idle(99)
    assert not retry(core, request=2)
    assert not retry(core)


def test_retry_while_the_next_tail_is_fetched_is_allowed_four_times() -> None:
    core = cold_core(0, 1, 2, 3)
    core.idle(99)
    assert core.evict() == found(0)
    assert [retry(core) for _ in range(6)] == [True] * 4 + [False] * 2
    assert core.evict() == found(1)
    assert retry(core)


def test_retry_is_not_allowed_when_nothing_is_cold_or_was_lately() -> None:
    core = cold_core(1)
    assert core.evict() == found(1)
    assert [retry(core) for _ in range(5)] == [True] * 4 + [False]


def test_with_nothing_cold_a_touch_of_the_least_recently_used_line_excuses_retries() -> None:
    for touched, excused in ((1, True), (2, False)):
        core = Core(t1_age=100)
        core.touch(1)
        core.touch(2)
        core.idle(20)
        assert not retry(core)
        core.touch(touched)
        assert retry(core) == excused


def test_retry_is_allowed_when_the_first_line_has_just_gone_cold() -> None:
    core = Core(tick_shift=0, t1_age=20, t2_age=20, t3_age=20)
    core.touch(1)
    core.idle(19)
    assert core.evict() == EMPTY
    assert [retry(core) for _ in range(5)] == [True] * 4 + [False]


def test_a_spill_of_the_tail_excuses_retries_like_a_touch_of_it() -> None:
    core = Core(log2_entries=6, window=2, tick_shift=0, t1_age=40, t2_age=40, t3_age=40)
    firsts, seconds, newcomers = zip(*(lines_of_home(home, 3, log2_entries=6) for home in range(0, 16, 2)), strict=True)
    for line in (*firsts, *seconds):
        core.touch(line)
    core.idle(99)
    assert [retry(core, request=line) for line in newcomers] == [True] * 8
    latency = core.model.params.latency
    assert [retry(core) for _ in range(latency + 5)] == [True] * (latency + 4) + [False]


# Not active


def test_not_active_answers_everything_and_counts_nothing() -> None:
    model = KvAsuGolden(Params())
    clock = model.clock(request=0x1234, query=Query(0x1234, 0, True), evict=True)
    assert clock == Clock(Tag(0x12, False, False, 0, 0, 0, 0, 0, False, 0), NOT_TRACKED, EMPTY)
    model.idle(100)
    assert model.clock() == Clock(None, None, None)
    assert set(model.counters.values()) == {0}


def test_activation_starts_from_an_empty_table_and_the_counters_go_on() -> None:
    core = cold_core(1, 2)
    core.touch(1)
    core.model.deactivate()
    assert (core.model.tracked, core.model.cold) == (0, 0)
    counters = core.model.counters
    assert not core.touch(1).tracked
    assert core.model.counters == counters
    core.model.activate()
    assert core.evict() == EMPTY
    assert not core.touch(1).hit
    assert core.model.counters["requests"] == 4


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("t1_age", 0, "t1_age must be 1 to 240, not 0"),
        ("t1_age", 241, "t1_age must be 1 to 240, not 241"),
        ("t2_age", 126, "t2_age must be 0 to 125, not 126"),
        ("t3_age", 51, "t3_age must be 0 to 50, not 51"),
        ("log2_active", 2, "log2_active must be 3 to 3, not 2"),
        ("line_shift", 25, "line_shift must be 8 to 24, not 25"),
        ("tick_shift", 25, "tick_shift must be 0 to 24, not 25"),
        ("decay", 3, "decay must be 0 to 2, not 3"),
        ("hash_seed", 1 << 32, "hash_seed must be 0 to 4294967295, not 4294967296"),
    ],
)
def test_activation_refuses_settings_the_build_cannot_keep(name: str, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Core(**{name: value})


# Counters


def test_counters_are_in_the_order_of_the_register_map() -> None:
    names = "cycles requests hits level0 level1 level2 level3 inserts untracked spills rescues demotions evictions"
    assert [*names.split(), "queries", "query_hits"] == list(COUNTERS)


def test_every_counter_counts_what_it_says() -> None:
    core = Core(window=2, tick_shift=0, t1_age=10, t2_age=10, t3_age=10)
    a, b, c, d = lines_of_home(3, 4)
    for _ in range(6):
        core.touch(a)  # levels 0 1 1 2 2 3
    core.touch(b)
    core.touch(c)  # untracked: a and b are live
    core.idle(10)  # a and b expire
    core.touch(a)  # a rescue
    core.touch(d)  # spills b
    core.ask(d)
    core.ask(d, min_tlevel=3)
    core.ask(b)
    core.idle(11)
    core.evict()
    core.evict()
    core.evict()
    assert core.model.counters == {
        "cycles": 8 + 10 + 2 + 3 + 11 + 3,
        "requests": 10,
        "hits": 6,
        "level0": 5,
        "level1": 2,
        "level2": 2,
        "level3": 1,
        "inserts": 3,
        "untracked": 1,
        "spills": 1,
        "rescues": 1,
        "demotions": 4,
        "evictions": 2,
        "queries": 3,
        "query_hits": 1,
    }
    core.model.clear_counters()
    assert set(core.model.counters.values()) == {0}


@pytest.mark.parametrize("operation", ["touch", "evict", "idle"])
def test_a_line_is_demoted_also_in_the_clock_that_takes_it_away(operation: str) -> None:
    core = Core(tick_shift=0)
    core.touch(1)
    core.idle(125)
    assert core.model.counters["demotions"] == 0
    core.model.clock(request=1 << 8 if operation == "touch" else None, evict=operation == "evict")
    assert core.model.counters["demotions"] == 1


# A second model: a plain list of slots, scanned; times of touch in clocks, never wrapping


@dataclass
class Slot:
    line: int = -1
    count: int = 0
    touched: int = 0  # in clocks
    order: int = 0  # of all touches


class Naive:
    def __init__(self, window: int, settings: Settings) -> None:
        self.window = window
        self.settings = settings
        self.slots = [Slot() for _ in range(2**settings.log2_active)]
        self.now = -1
        self.touches = 0
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.levels: dict[int, int] = {}

    def line(self, address: int) -> int:
        granule = 2**self.settings.line_shift
        return address // granule * granule // 256

    def probe(self, line: int) -> list[Slot]:
        folded = line % 2**32 ^ line // 2**32 ^ self.settings.hash_seed
        home = mmh3.hash(b"", folded, signed=False) % len(self.slots)
        return [self.slots[(home + i) % len(self.slots)] for i in range(self.window)]

    def level(self, slot: Slot) -> int:
        tick = 2**self.settings.tick_shift
        age = self.now // tick - slot.touched // tick
        s = self.settings
        for level, count, limit in ((3, s.t3_count, s.t3_age), (2, s.t2_count, s.t2_age), (1, 0, s.t1_age)):
            if slot.count >= count and age <= limit:
                return level
        return 0

    def cold(self) -> list[Slot]:
        return sorted((s for s in self.slots if s.line >= 0 and self.level(s) == 0), key=lambda s: s.order)

    def clock(self, request: int | None, query: Query | None, evict: bool, retry: bool) -> tuple[Any, Any, Any]:
        self.now += 1
        self.counters["cycles"] += 1
        for slot in self.slots:
            if slot.line >= 0:
                level = self.level(slot)
                self.counters["demotions"] += level == 0 and self.levels.get(slot.line) != 0
                self.levels[slot.line] = level
        answer = self.query(query) if query else None
        tag = self.request(request) if request is not None else None
        victim = self.evict(retry) if evict else None
        return tag, answer, victim

    def query(self, query: Query) -> tuple[Any, ...]:
        self.counters["queries"] += 1
        for slot in self.slots:
            if slot.line == self.line(query.addr):
                level = self.level(slot) + query.boost
                level = 3 if level > 3 else level
                self.counters["query_hits"] += level >= query.min_tlevel
                return (True, level, level >= query.min_tlevel, slot.count)
        return (False, 0, False, 0)

    def request(self, address: int) -> tuple[Any, ...]:
        line = self.line(address)
        stamp = self.now // 2**self.settings.tick_shift % 256
        window = self.probe(line)
        before, hit, spill = 0, False, (False, 0)
        chosen = None
        for slot in window:
            if slot.line == line:
                chosen, hit, before = slot, True, self.level(slot)
        self.counters["requests"] += 1
        self.counters["hits"] += hit
        self.counters[f"level{before}"] += 1
        if hit and before == 0 and chosen:
            self.counters["rescues"] += 1
            chosen.count = {0: chosen.count, 1: chosen.count // 2, 2: 0}[self.settings.decay]
        if chosen is None:
            free = [slot for slot in window if slot.line < 0]
            cold = [slot for slot in window if slot.line >= 0 and self.level(slot) == 0]
            if free:
                chosen = free[0]
            elif cold and not self.settings.reclaim_off:
                chosen = cold[0]
                spill = (True, chosen.line)
                self.counters["spills"] += 1
                self.levels.pop(chosen.line)
            else:
                self.counters["untracked"] += 1
                return (line, False, False, 0, 0, 0, 0, stamp, False, 0)
            self.counters["inserts"] += 1
            chosen.line, chosen.count = line, 0
        chosen.count = min(chosen.count + 1, 65535)
        chosen.touched = self.now
        self.touches += 1
        chosen.order = self.touches
        after = self.levels[line] = self.level(chosen)
        place = next(i for i, slot in enumerate(self.slots) if slot is chosen)
        return (line, True, hit, before, after, chosen.count, place, stamp, *spill)

    def evict(self, retry: bool) -> tuple[int, int]:
        if retry:
            return (2, 0)
        cold = self.cold()
        if not cold:
            return (0, 0)
        line = cold[0].line
        cold[0].line = -1
        self.levels.pop(line)
        self.counters["evictions"] += 1
        return (1, line)


ADDRESS = st.builds(
    lambda line, byte: line << 8 | byte, st.sampled_from([*range(12), 1 << 33, 3 << 40]), st.integers(0, 255)
)
OPERATIONS = st.tuples(
    st.one_of(st.none(), ADDRESS),
    st.one_of(st.none(), st.builds(Query, ADDRESS, st.integers(0, 3), st.booleans())),
    st.sampled_from([(False, False), (False, False), (True, False), (True, True)]),
    st.sampled_from([0, 0, 0, 0, 1, 2, 9, 300]),  # idle clocks afterwards
)


@st.composite
def settings_in(draw: st.DrawFn, params: Params) -> Settings:
    t1_age = draw(st.one_of(st.integers(1, 6), st.just(params.t1_limit)))
    t2_age = draw(st.integers(0, min(t1_age, 6)))
    return Settings(
        log2_active=draw(st.integers(params.min_log2_active, params.log2_entries)),
        decay=draw(st.sampled_from(Decay)),
        reclaim_off=draw(st.booleans()),
        line_shift=draw(st.sampled_from([8, 8, 9, 10])),
        tick_shift=draw(st.integers(0, 2)),
        t3_count=draw(st.integers(0, 6)),
        t3_age=draw(st.integers(0, t2_age)),
        t2_count=draw(st.integers(0, 4)),
        t2_age=t2_age,
        t1_age=t1_age,
        hash_seed=draw(st.sampled_from([0, 1, 0xDEADBEEF])),
    )


def change_live(settings: Settings, random: Random) -> None:
    """Another value for everything that may change while the core is active."""
    settings.decay = random.choice(list(Decay))
    settings.reclaim_off = random.random() < 0.3
    settings.t2_age = random.randint(0, settings.t1_age)
    settings.t3_age = random.randint(0, settings.t2_age)
    settings.t2_count = random.randint(0, 4)
    settings.t3_count = random.randint(0, 6)


def assert_same_state(model: KvAsuGolden, naive: Naive) -> None:
    assert model.counters == naive.counters
    held = {slot.line: (place, slot.count) for place, slot in enumerate(naive.slots) if slot.line >= 0}
    assert {entry.line: (entry.slot, entry.count) for entry in model.lines()} == held
    cold = naive.cold()
    assert model.cold == len(cold)
    assert [entry.line for entry in model.lines()][: len(cold)] == [slot.line for slot in cold]
    assert all(model.at(place) is entry for entry in model.lines() for place in [entry.slot])
    counts = model.counters
    assert model.cold == counts["demotions"] - counts["rescues"] - counts["evictions"] - counts["spills"]


@given(st.data(), st.sampled_from([2, 4]))
def test_the_models_agree(data: st.DataObject, window: int) -> None:
    params = Params(log2_entries=3, window=window)
    model = KvAsuGolden(params)
    model.settings = data.draw(settings_in(params))
    model.activate()
    naive = Naive(window, model.settings)
    for request, query, (evict, retried), idle in data.draw(st.lists(OPERATIONS, max_size=40)):
        assert model.clock(request, query, evict, retried) == naive.clock(request, query, evict, retried)
        model.idle(idle)
        for _ in range(idle):
            naive.clock(None, None, False, False)
    assert_same_state(model, naive)


@pytest.mark.parametrize("seed", range(40))
def test_the_models_agree_over_long_streams(seed: int) -> None:
    """Thousands of clocks with live changes of the settings: every kind of eviction, spill, rescue and refusal."""
    random = Random(seed)
    window = random.choice([2, 4])
    params = Params(log2_entries=random.choice([3, 4]), window=window)
    settings = Settings(log2_active=random.randint(params.min_log2_active, params.log2_entries))
    settings.tick_shift = random.choice([0, 0, 1, 2])
    settings.t1_age = random.choice([1, 2, 5, 12])
    settings.line_shift = random.choice([8, 8, 10])
    settings.hash_seed = random.getrandbits(32)
    change_live(settings, random)
    model = KvAsuGolden(params)
    model.settings = settings
    model.activate()
    naive = Naive(window, settings)
    lines = [random.getrandbits(56) for _ in range(random.choice([3, 12, 24]))]
    busy = random.choice([0.2, 0.6, 1.0])
    evicting = random.choice([0.0, 0.1, 1.0])
    for step in range(1500):
        request = random.choice(lines) << 8 | random.getrandbits(8) if random.random() < busy else None
        query = None
        if random.random() < 0.5:
            query = Query(random.choice(lines) << 8, random.randrange(4), random.random() < 0.5)
        evict = random.random() < evicting
        retried = evict and random.random() < 0.2
        assert model.clock(request, query, evict, retried) == naive.clock(request, query, evict, retried)
        if step % 100 == 99:
            assert_same_state(model, naive)
            change_live(settings, random)


@given(st.data())
def test_idle_is_as_many_clocks(data: st.DataObject) -> None:
    params = Params(log2_entries=3, window=2)
    fast, slow = KvAsuGolden(params), KvAsuGolden(params)
    fast.settings = slow.settings = data.draw(settings_in(params))
    if data.draw(st.booleans()):
        fast.activate()
        slow.activate()
    for request, query, (evict, retried), idle in data.draw(st.lists(OPERATIONS, max_size=20)):
        assert fast.clock(request, query, evict, retried) == slow.clock(request, query, evict, retried)
        fast.idle(idle)
        for _ in range(idle):
            slow.clock()
        assert fast.counters == slow.counters
        assert (fast.tick, fast.cold, fast.tracked) == (slow.tick, slow.cold, slow.tracked)
        assert fast.retry_allowed() == slow.retry_allowed()


def test_idle_does_not_take_longer_for_more_clocks() -> None:
    core = Core(tick_shift=0)
    core.touch(1)
    core.idle(10**18)
    assert core.model.counters["cycles"] == 10**18 + 1
    assert core.touch(1).before == 0
