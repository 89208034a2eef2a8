"""An unmodified transformers model on a `RetrievalCache`: the stock cache's outputs to the bit, whatever its kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install -e '.[torch]'")
pytest.importorskip("transformers", reason="needs transformers: pip install -e '.[torch]'")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the import below reads it

from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, MistralConfig  # noqa: E402

from kv_asu.params import Params  # noqa: E402
from kv_asu_firmware.dma import ORIN_NX_DRAM  # noqa: E402
from vrex.attention.fidelity import fidelity_curve, record_attention  # noqa: E402
from vrex.attention.selection import AttentionShare, TokenBudget  # noqa: E402
from vrex.attention.stream import AttentionError  # noqa: E402
from vrex.attention.transformers_cache import RetrievalCache, address_map_of  # noqa: E402
from vrex.errors import KvCacheFull  # noqa: E402
from vrex.runtime.cache import MIB  # noqa: E402
from vrex.trace.address_map import LINE_BYTES  # noqa: E402
from vrex.transports.model import ModelTransport  # noqa: E402

WORDS = 97


def tiny(**others: Any) -> LlamaForCausalLM:
    torch.manual_seed(1)
    sizes = {
        "vocab_size": WORDS, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **others})).eval()


def cache_for(model: LlamaForCausalLM, lines: int = 2000, **options: Any) -> RetrievalCache:
    options = {"bus": ModelTransport(Params(log2_entries=6, window=8)), "dma": ORIN_NX_DRAM, **options}
    return RetrievalCache(model.config, reserve_mb=lines * LINE_BYTES / MIB, **options)


def words(rng: np.random.Generator, count: int) -> Any:
    return torch.from_numpy(rng.integers(0, WORDS, (1, count)))


@pytest.fixture(autouse=True)
def _one_thread_without_gradients() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a small model waits for its threads only
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("dtype", "kv_heads", "attention"),
    [
        ("float32", 2, "vrex"),
        ("bfloat16", 2, "vrex"),
        ("float16", 2, "vrex"),
        ("float32", 1, "sdpa"),
        ("bfloat16", 6, "sdpa"),
        ("float16", 2, "eager"),
    ],
)
def test_with_everything_retrieved_it_is_the_stock_caches(dtype: str, kv_heads: int, attention: str) -> None:
    model = tiny(num_key_value_heads=kv_heads, dtype=dtype).to(getattr(torch, dtype))
    half = (
        28 * model.config.num_hidden_layers * address_map_of(model.config).bytes_per_token * kv_heads // LINE_BYTES // 2
    )
    caches = {"stock": DynamicCache(config=model.config), "ours": cache_for(model, lines=half)}
    for count in (19, 1, 1, 6, 1):  # a prefill, decoding, left-over lengths
        logits = []
        ids = words(np.random.default_rng(count), count)
        for which, cache in caches.items():
            stock = "eager" if attention == "eager" else "sdpa"
            model.set_attn_implementation(stock if which == "stock" else attention)
            logits.append(model(ids, cache=cache).logits)
        assert torch.equal(*logits)
    ours = caches["ours"]
    assert ours.get_seq_length() == 28
    assert ours.stream.cache.totals.frames == 4
    assert ours.stream.cache.totals.counted["moved"] > 0


def test_it_generates_the_same_text() -> None:
    model = tiny()
    ids = words(np.random.default_rng(2), 9)
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    stock = model.generate(ids, **options)
    model.set_attn_implementation("vrex")
    assert torch.equal(model.generate(ids, cache=cache_for(model), **options), stock)
    assert torch.equal(model.generate(ids, **options), stock)  # and without a cache of ours


def test_all_of_the_attention_selected_is_nearly_the_same() -> None:
    model = tiny()
    rng = np.random.default_rng(3)
    parts = [words(rng, count) for count in (21, 1, 7, 1)]
    reference = [model(torch.cat(parts[: n + 1], dim=1)).logits[:, -len(part[0]) :] for n, part in enumerate(parts)]
    model.set_attn_implementation("vrex")
    lines = {}
    for share in (1.0, 0.5):
        cache = cache_for(model, select=AttentionShare(share), tile=4)
        got = [model(part, cache=cache).logits for part in parts]
        close = [torch.allclose(a, b, atol=1e-4) for a, b in zip(got, reference, strict=True)]
        assert all(close) if share == 1 else not any(close)
        cache.stream.cache.end_frame()
        lines[share] = cache.stream.cache.totals.counted["lines"]
    assert lines[0.5] < 0.8 * lines[1.0]


def test_a_padded_prompt() -> None:
    model = tiny()
    rng = np.random.default_rng(4)
    ids, mask = words(rng, 12), torch.ones(1, 12, dtype=torch.long)
    mask[0, :3] = 0
    model.set_attn_implementation("vrex")
    wanted = model(ids, attention_mask=mask, cache=DynamicCache(config=model.config)).logits
    assert torch.equal(model(ids, attention_mask=mask, cache=cache_for(model)).logits, wanted)
    got = model(ids, attention_mask=mask, cache=cache_for(model, select=AttentionShare(1.0))).logits
    assert torch.allclose(got[:, 3:], wanted[:, 3:], atol=1e-4)


def test_a_step_that_fails_has_not_happened() -> None:
    model = tiny()
    model.set_attn_implementation("vrex")
    rng = np.random.default_rng(5)
    first, second, long = words(rng, 10), words(rng, 4), words(rng, 60)
    for select in (None, TokenBudget(4)):
        wanted_cache, cache = (cache_for(model, lines=60, select=select) for _ in range(2))
        model(first, cache=wanted_cache)
        wanted = model(second, cache=wanted_cache).logits
        model(first, cache=cache)
        weights = model.model.layers[1].self_attn.q_proj.weight
        kept = weights[17, 0].item()
        weights[17, 0] = torch.nan  # a NaN in every query of head 1
        with pytest.raises(AttentionError, match=r"(query|attention) is NaN in layer 1, head 1, token 10"):
            model(second, cache=cache)
        weights[17, 0] = kept
        assert cache.get_seq_length() == 10
        with pytest.raises(KvCacheFull, match=r"lines need a place|lines are to be read at once"):
            model(long, cache=cache)
        assert cache.get_seq_length() == 10
        assert torch.equal(model(second, cache=cache).logits, wanted)


def test_crop_reset_and_what_a_cache_says_of_itself() -> None:
    model = tiny()
    rng = np.random.default_rng(6)
    cache = cache_for(model)
    ids, more = words(rng, 8), words(rng, 3)
    wanted = model(ids, cache=cache).logits
    wanted_more = model(more, cache=cache).logits
    cache.crop(-3)
    assert cache.get_seq_length() == 8
    assert torch.equal(model(more, cache=cache).logits, wanted_more)
    cache.reset()
    assert cache.get_seq_length() == 0
    assert torch.equal(model(ids, cache=cache).logits, wanted)
    assert len(cache) == 3
    assert cache.get_max_length() == 128
    assert cache.get_mask_sizes(5, 1) == (13, 0)
    assert cache.is_croppable
    assert not any(cache.is_sliding)
    with pytest.raises(ValueError, match="tokens_to_remove must be at most 0, not 3"):
        cache.crop(3)


def test_what_cannot_run_is_told_in_a_line() -> None:
    model = tiny()
    ids = words(np.random.default_rng(7), 4)
    cache = cache_for(model, select=AttentionShare(0.5))
    with pytest.raises(ValueError, match=r"a selection needs attention function 'vrex', not 'sdpa'"):
        model(ids, cache=cache)
    with pytest.raises(ValueError, match="keys must be of batch 1, not 2: a cache holds one stream"):
        model(ids.repeat(2, 1), cache=cache_for(model))
    with pytest.raises(TypeError, match="keys must be fp16, as the cache is, not float32"):
        model(ids, cache=cache_for(model, dtype=torch.float16))
    with torch.inference_mode(False), pytest.raises(ValueError, match="must carry no gradients"):
        tiny()(torch.zeros(1, 2, dtype=torch.long), cache=cache_for(model))
    with pytest.raises(ValueError, match="dtype must be float16, bfloat16 or float32, not float64"):
        cache_for(model, dtype=torch.float64)
    with pytest.raises(ValueError, match="layer 0 is 'sliding_attention': only layers of full_attention can run"):
        RetrievalCache(MistralConfig(sliding_window=8, num_hidden_layers=2))
    with pytest.raises(ValueError, match="a cache holds one stream, not 3 beams: generate with num_beams=1"):
        cache_for(model).reorder_cache(torch.tensor([0, 0, 1]))


def test_recorded_calls_give_a_curve() -> None:
    model = tiny()
    ids = words(np.random.default_rng(8), 30)
    wanted = model(ids).logits
    with record_attention(model) as calls:
        assert torch.equal(model(ids).logits, wanted)
    assert model.config._attn_implementation == "sdpa"
    assert [call.layer for call in calls] == [0, 1, 2]
    few, many = fidelity_curve(calls, (0.3, 0.95), tile=8)
    assert few.error > many.error > 0
    assert few.saved > many.saved > 0
