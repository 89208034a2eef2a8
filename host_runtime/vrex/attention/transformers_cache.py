"""A `transformers` cache and attention function, with which an unmodified model runs on a `DynamicRetrievalCache`.

    model.set_attn_implementation("vrex")
    cache = RetrievalCache(model.config, max_tokens=2048, select=AttentionShare(0.9), reserve_mb=4)
    model.generate(**inputs, cache=cache)

Importing this module registers the attention function. It is transformers' own over torch's
`scaled_dot_product_attention`, except where a selection says what is read; keys of no `RetrievalCache`, such as a
vision tower's, are attended to as ever.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedConfig
from transformers.cache_utils import CacheLayerMixin, get_layer_types_and_kwargs
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from vrex.attention.selection import TILE, Attend, Select
from vrex.attention.stream import DTYPES, LIKELY, AttentionStream
from vrex.trace.address_map import AddressMap

#: The attention function's name, for `attn_implementation`.
NAME = "vrex"

#: Where the keys of a layer carry whose they are.
_LAYER = "_vrex_layer"


class RetrievalCache(Cache):
    """The cache of one stream, for a model's argument `cache`. Batch 1, on the CPU, without gradients.

    Parameters
    ----------
    config : PreTrainedConfig
        Of the model; its layers must attend to the whole past.
    max_tokens : int, optional
        The longest the stream gets; the model's longest unless given.
    dtype : torch.dtype, optional
        Of keys and values; `config.dtype` unless given.
    select : Select, optional
        What a tile of queries retrieves; everything unless given. Needs the attention function "vrex".
    tile : int
        Queries that read together.
    likely : float
        Lines of the next head are brought ahead when they are at least so likely to be read.
    **options
        Of the `DynamicRetrievalCache`, `reserve_mb` before all.

    Attributes
    ----------
    stream : AttentionStream
        `stream.cache.frame` and `stream.cache.totals` tell what was asked for, missing and moved; a forward pass is a
        frame.

    Raises
    ------
    ValueError
        The model has layers of another kind, or a number is out of its range.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        *,
        max_tokens: int | None = None,
        dtype: torch.dtype | None = None,
        select: Select | None = None,
        tile: int = TILE,
        likely: float = LIKELY,
        **options: Any,
    ) -> None:
        text = config.get_text_config(decoder=True)
        self._config = text
        kv = address_map_of(text, max_tokens, dtype)
        self.stream = AttentionStream(kv, select, tile=tile, likely=likely, **options)
        super().__init__(layers=[RetrievalLayer(self.stream, layer, text) for layer in range(kv.layers)])

    def crop(self, tokens_to_remove: int) -> None:
        """Take the last tokens back; as in transformers, a number of at most 0."""
        if tokens_to_remove > 0:
            raise ValueError(f"tokens_to_remove must be at most 0, not {tokens_to_remove!r}")
        if tokens_to_remove:
            self.stream.rewind(max(0, self.get_seq_length() + tokens_to_remove))

    def reset(self) -> None:
        """Take everything back."""
        self.stream.rewind(0)


class RetrievalLayer(CacheLayerMixin):
    """One layer of a `RetrievalCache`."""

    is_croppable = True
    supports_early_init = False

    def __init__(self, stream: AttentionStream, layer: int, config: PreTrainedConfig) -> None:
        super().__init__()
        self.stream = stream
        self.layer = layer
        self._config = config

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new KV; give all there is: retrieved, or with a selection as far memory holds it, to choose from."""
        stream = self.stream
        with stream.step(self.layer):
            if stream.select is not None and self._config._attn_implementation != NAME:
                raise ValueError(
                    f"a selection needs attention function {NAME!r}, not {self._config._attn_implementation!r}: "
                    f"model.set_attn_implementation({NAME!r})"
                )
            stream.write(self.layer, key_states, value_states)
            keys, values = stream.read_all(self.layer) if stream.select is None else stream.far(self.layer)
        setattr(keys, _LAYER, self)
        return keys, values

    def get_seq_length(self) -> int:
        """Tokens so far."""
        return self.stream.tokens(self.layer)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns a mask has for so many queries, and the first one's token."""
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        """The longest the stream gets."""
        return self.stream.cache.kv.max_tokens

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: memory is taken when the cache is made."""

    def offload(self) -> None:
        """Nothing to do: what is near and what is far is the runtime's business."""

    def prefetch(self) -> None:
        """Nothing to do, as for `offload`."""

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Beams are several streams.

        Raises
        ------
        ValueError
            Unless there is one beam.
        """
        if beam_idx.tolist() != [0]:
            raise ValueError(f"a cache holds one stream, not {len(beam_idx)} beams: generate with num_beams=1")


def address_map_of(
    config: PreTrainedConfig, max_tokens: int | None = None, dtype: torch.dtype | None = None
) -> AddressMap:
    """The KV layout of a model.

    Parameters
    ----------
    config, max_tokens, dtype
        As of `RetrievalCache`.

    Raises
    ------
    ValueError
        A layer does not attend to the whole past, or keys have a type that no cache has.
    """
    kinds, _ = get_layer_types_and_kwargs(config)
    for layer, kind in enumerate(kinds):
        if kind != "full_attention":
            raise ValueError(f"layer {layer} is {kind!r}: only layers of full_attention can run on this cache")
    given = dtype or config.dtype or torch.get_default_dtype()
    names = {theirs: ours for ours, theirs in DTYPES.items()}
    if given not in names:
        raise ValueError(f"dtype must be float16, bfloat16 or float32, not {str(given).removeprefix('torch.')}")
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return AddressMap(len(kinds), heads, head_size, max_tokens or config.max_position_embeddings, names[given])


def retrieved_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function, as transformers calls it; `key` and `value` are what `RetrievalLayer.update` gave."""
    layer = getattr(key, _LAYER, None)

    def as_ever() -> torch.Tensor:
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **kwargs
        )
        return output

    if layer is None:
        return as_ever(), None
    stream = layer.stream
    with stream.step(layer.layer, writes=False):
        stream.check_query(query)
        if stream.select is None:
            output = as_ever()
            stream.check_output(layer.layer, output.transpose(1, 2))
            return output, None
        for name in ("position_bias", "softcap", "s_aux"):
            if kwargs.get(name) is not None:
                raise ValueError(
                    f"layer {layer.layer} uses {name}, with which nothing can be selected; leave select out"
                )
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and query.shape[2] > 1 and attention_mask is None
        output = stream.attend(layer.layer, Attend(query, key, attention_mask, causal, scaling, dropout))
        return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, retrieved_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
