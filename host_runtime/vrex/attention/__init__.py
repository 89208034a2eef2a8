"""Attention over a `DynamicRetrievalCache` in torch, and in unmodified models of `transformers` (extra `torch`).

    rewindable_cache.py    the cache, able to take tokens back
    stream.py              tensors of one stream into the cache and back; a step that fails has not happened
    selection.py           which tokens a tile of queries retrieves, and attention over those alone
    sdpa.py                the drop-in around `torch.nn.functional.scaled_dot_product_attention`
    transformers_cache.py  the `transformers` cache and attention function
    fidelity.py            error of the output against the bytes that are not read
    smollm2.py             a small language model whose weights come in a package

Each is imported from its own module; all but `rewindable_cache` import torch.
"""
