"""`RewindableCache`: tokens that were taken back are as if never written; and attention's packages are not needed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_asu.params import Params
from kv_asu_firmware.dma import ORIN_NX_DRAM
from vrex.attention.rewindable_cache import RewindableCache
from vrex.runtime.cache import MIB
from vrex.trace.address_map import LINE_BYTES, AddressMap
from vrex.transports.model import ModelTransport

steps = st.lists(st.tuples(st.sampled_from(["append", "rewind", "read", "prefetch"]), st.integers(0, 12)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(
    dtype=st.sampled_from(["fp16", "bf16", "fp32"]),
    head_size=st.sampled_from([8, 64, 96]),
    steps=steps,
    seed=st.integers(0, 2**32),
)
def test_what_is_left_is_what_went_in(dtype: str, head_size: int, steps: list[tuple[str, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kv = AddressMap(1, 2, head_size, 40, dtype)
    cache = RewindableCache(
        kv,
        bus=ModelTransport(Params(log2_entries=6, window=8)),
        reserve_mb=40 * kv.lines_per_token * LINE_BYTES / MIB,
        prefetch_share=0.25,
        dma=ORIN_NX_DRAM,
    )
    kept = np.empty((2, 2, 0, head_size), cache.element)
    for what, number in steps:
        held = cache.tokens(0)
        if what == "append":
            shape = (2, 2, min(number, kv.max_tokens - held), head_size * cache.element.itemsize)
            new = rng.integers(0, 256, shape, np.uint8).view(cache.element)
            cache.append(0, *new)
            kept = np.concatenate([kept, new], axis=2)
        elif what == "rewind":
            cache.rewind(0, max(0, held - number))
            kept = kept[:, :, : max(0, held - number)]
        elif held:
            tokens = rng.permutation(held)[: number + 1]
            if what == "prefetch":
                cache.prefetch(tokens, 0, number % 2)
                continue
            got = cache.read(0, number % 2, tokens)
            for there, here in zip(got, kept, strict=True):
                assert there.tobytes() == here[number % 2, tokens].tobytes()
        assert cache.tokens(0) == kept.shape[2]
        for there, here in zip(cache.far(0), kept, strict=True):
            assert there.tobytes() == here.tobytes()


def test_no_more_can_be_taken_back_than_there_is() -> None:
    cache = RewindableCache(AddressMap(1, 1, 64, 8), reserve_mb=1)
    kv = np.zeros((1, 3, 64), np.float16)
    cache.append(0, kv, kv)
    for tokens in (-1, 4):
        with pytest.raises(ValueError, match=f"tokens must be 0 to 3, not {tokens}"):
            cache.rewind(0, tokens)
    assert cache.tokens(0) == 3


def test_without_torch_the_runtime_imports_and_a_model_says_what_it_needs() -> None:
    program = """
import sys
for name in ("torch", "transformers", "gguf"):
    sys.modules[name] = None
import vrex, vrex.attention, vrex.attention.rewindable_cache, vrex.runtime.tokenizer
from vrex.attention.smollm2 import load
try:
    load()
except vrex.errors.VrexError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "this needs Python package gguf: run `pip install -e '.[torch]'` in V-Rex's folder\n"
