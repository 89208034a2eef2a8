"""The hash: in software against independent code, in hardware against the software."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import mmh3
import pytest
from amaranth.hdl import Module, Signal

from config_port import Bench
from kv_asu.murmur3 import MULTIPLIERS, STEPS, Murmur3, register_places, signed_digits

MASK = 0xFFFF_FFFF
SEEDS = (0, 1, 0x5EED_0001, MASK)


def rotate(word: int, count: int) -> int:
    return (word << count | word >> 32 - count) & MASK


def mmh3_finalizer(word: int) -> int:
    """fmix32 out of mmh3's full hash: of four bytes it is fmix32(rotl(mixed ^ seed, 13) * 5 + 0xe6546b64 ^ 4).

    With the key 0 the mixed block is 0, so the seed that takes the hash to ``word`` can be worked backwards.
    """
    state = word ^ 4
    state = (state - 0xE6546B64) * pow(5, -1, 1 << 32) & MASK
    return mmh3.hash(bytes(4), rotate(state, 32 - 13), signed=False)


# Well-known values of MurmurHash3_x86_32 for the empty string, which is fmix32 of the seed.
PUBLISHED = {0: 0, 1: 0x514E28B7, MASK: 0x81F16F39}


@pytest.mark.parametrize("word", PUBLISHED)
def test_published_values(word: int) -> None:
    assert Murmur3.compute(word, 0) == PUBLISHED[word] == mmh3.hash(b"", word, signed=False)


def test_finalizer_equals_mmh3s() -> None:
    chance = random.Random(1)
    for word in [1 << bit for bit in range(32)] + [chance.getrandbits(32) for _ in range(500)]:
        assert Murmur3.compute(word, 0) == mmh3_finalizer(word)


def test_fold_and_seed() -> None:
    chance = random.Random(2)
    for _ in range(200):
        line, seed = chance.getrandbits(56), chance.choice(SEEDS)
        assert Murmur3.compute(line, seed) == mmh3_finalizer((line & MASK) ^ line >> 32 ^ seed)


@pytest.mark.parametrize("constant", [*MULTIPLIERS, 1, 3, 0xFFFF_FFFF, 0x8000_0000])
def test_signed_digits(constant: int) -> None:
    digits = signed_digits(constant)
    assert sum(-(1 << exponent) if negative else 1 << exponent for negative, exponent in digits) & MASK == constant
    assert all(later - earlier >= 2 for (_, earlier), (_, later) in pairwise(digits))


@pytest.mark.parametrize("stages", range(7))
def test_registers_shorten_the_longest_run_of_adders(stages: int) -> None:
    places = register_places(stages)
    assert len(set(places)) == stages
    assert list(places) == sorted(places)
    # the last step feeds the row adder combinationally
    assert all(0 <= place < len(STEPS) - 1 for place in places)

    def longest(places: tuple[int, ...]) -> int:
        edges = (0, *(place + 1 for place in places), len(STEPS))
        return max(sum(adders for adders, _ in STEPS[a:b]) for a, b in pairwise(edges))

    total = sum(adders for adders, _ in STEPS)
    assert longest(places) <= -(-(total + 1) // (stages + 1)) + 1
    assert longest(places) <= longest(register_places(stages - 1)) if stages else longest(places) == total


@pytest.mark.parametrize("stages", range(7))
@pytest.mark.parametrize("line_width", [24, 32, 56])
def test_hardware_equals_software(stages: int, line_width: int) -> None:
    chance = random.Random(stages)
    device = Murmur3(line_width, stages).create()
    seed = chance.getrandbits(32)
    lines = [0, (1 << line_width) - 1, *(chance.getrandbits(line_width) for _ in range(20))]
    m = Module()
    m.submodules.device = device
    m.d.sync += Signal().eq(1)  # a hash without stages has no clock of its own

    async def testbench(context: Any) -> None:
        context.set(device.seed, seed)
        for clock in range(len(lines) + stages):
            context.set(device.line, lines[clock] if clock < len(lines) else 0)
            if clock >= stages:
                assert context.get(device.hash) == Murmur3.compute(lines[clock - stages], seed)
            await context.tick()

    Bench(m).run(testbench)
