"""A drop-in around `torch.nn.functional.scaled_dot_product_attention`; the past is in a stream's cache."""

from __future__ import annotations

import torch
from torch.nn import functional

from vrex.attention.selection import Attend
from vrex.attention.stream import AttentionStream


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    stream: AttentionStream,
    layer: int,
) -> torch.Tensor:
    """Torch's function, of which `key` and `value` are the new tokens' only: those before come from the stream.

    With retrieval of everything the result is, to the bit, what torch's function gives for all keys and values so far,
    concatenated; so `is_causal` aligns to the upper left, as in torch, and a mask has a column for each token so far.

    Parameters
    ----------
    query : torch.Tensor, shape (1, heads, queries, head size)
    key, value : torch.Tensor, shape (1, KV heads, new tokens, head size)
    attn_mask, dropout_p, is_causal, scale, enable_gqa
        As of torch.
    stream : AttentionStream
    layer : int

    Returns
    -------
    torch.Tensor, shape (1, heads, queries, head size)

    Raises
    ------
    ValueError, TypeError
        Another shape, type or device. As by any error, the present step is taken back.
    AttentionError
        There is a NaN in it, or comes out of it.
    KvCacheFull
        The stream is at its longest, or near memory has no room for what is read at once.
    DeviceGoneError
        The core is not active.
    """
    with stream.step(layer):
        stream.check_query(query)
        kv_heads = stream.cache.kv.heads
        if query.shape[1] != kv_heads and not enable_gqa:
            raise ValueError(
                f"query must have {kv_heads} heads, not {query.shape[1]}: set enable_gqa if they share keys"
            )
        if attn_mask is not None and is_causal:
            raise ValueError("attn_mask and is_causal exclude each other: give one of them")
        stream.write(layer, key, value)
        tokens = stream.tokens(layer)
        if attn_mask is not None and attn_mask.shape[-1] not in (1, tokens):
            raise ValueError(f"attn_mask must have a column for each of {tokens} tokens, not {attn_mask.shape[-1]}")
        if stream.select is not None:
            keys, _ = stream.far(layer)
            return stream.attend(layer, Attend(query, keys, attn_mask, is_causal, scale, dropout_p))
        keys, values = stream.read_all(layer)
        output = functional.scaled_dot_product_attention(
            query, keys, values, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        stream.check_output(layer, output)
        return output
