"""The walk to the core's capability, on lists as devices have them and as none should."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config_image import ConfigImage
from kv_asu.params import Params
from vrex.capabilities import find_kv_asu
from vrex.errors import DeviceGoneError, DeviceNotFoundError

SERIAL_NUMBER = 0x0003 | 1 << 16


@pytest.mark.parametrize("base", [0x10C, 0x480, 0x7F8, 0xE80, 0xF80])
def test_wherever_it_is(base: int) -> None:
    assert find_kv_asu(ConfigImage.of(Params(config_base=base))) == base + 8


def test_others_are_passed() -> None:
    image = ConfigImage()
    image.put(0x100, SERIAL_NUMBER | 0x200 << 20)
    image.vsec(0x200, vsec_id=0x0001, following=0x300)
    image.vsec(0x300, magic=0x1234, following=0xFFC)  # somebody else's use of the same id
    image.put(0xFFC, 0x000B | 1 << 16 | 0x403 << 20)  # too near the end to be ours; reserved bits in the link
    image.vsec(0x400)
    assert find_kv_asu(image) == 0x408
    assert find_kv_asu(image, vsec_id=0x4B56) == 0x408
    with pytest.raises(DeviceNotFoundError, match=r"others: 0x0001 at 0x200, 0x4b56 at 0x300, 0x4b56 at 0x400"):
        find_kv_asu(image, vsec_id=2)


def test_none_is_there() -> None:
    with pytest.raises(DeviceNotFoundError, match="the image: has no KV-ASU capability; choose the right device"):
        find_kv_asu(ConfigImage())
    image = ConfigImage()
    image.put(0x100, SERIAL_NUMBER)
    with pytest.raises(DeviceNotFoundError, match="has no KV-ASU capability"):
        find_kv_asu(image)
    image.put(0x100, 0xFFFFFFFF)
    with pytest.raises(DeviceNotFoundError, match="has no KV-ASU capability"):
        find_kv_asu(image)


@pytest.mark.parametrize(("following", "what"), [(0x100, "loops at 0x100"), (0x040, "is broken at 0x40")])
def test_broken_lists(following: int, what: str) -> None:
    image = ConfigImage()
    image.put(0x100, SERIAL_NUMBER | 0x200 << 20)
    image.put(0x200, SERIAL_NUMBER | following << 20)
    with pytest.raises(DeviceNotFoundError, match=f"the list of extended capabilities {what}"):
        find_kv_asu(image)


def test_nobody_answers() -> None:
    image = ConfigImage()
    image.vanish()
    with pytest.raises(DeviceGoneError, match="the image: reads all ones: nobody answers"):
        find_kv_asu(image)


@given(st.integers(0, 1 << 32))
def test_any_garbage_comes_to_an_end(seed: int) -> None:
    chance = random.Random(seed)
    image = ConfigImage(chance.randbytes(0x1000))
    for offset in range(0x100, 0x1000, 4):  # links that lead on
        image.put(offset + 2, chance.randrange(0x100, 0x1000, 4) << 4 | 1, 2)
    with pytest.raises(DeviceNotFoundError) as caught:
        find_kv_asu(image)
    assert "\n" not in str(caught.value)
