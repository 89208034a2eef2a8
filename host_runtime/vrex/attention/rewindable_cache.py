"""What attention needs of a `DynamicRetrievalCache` beside reading: to take tokens back, and to see far memory."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from vrex.runtime.cache import DynamicRetrievalCache


class RewindableCache(DynamicRetrievalCache):
    """A `DynamicRetrievalCache` that can take a layer's last tokens back, and shows what far memory holds."""

    def rewind(self, layer: int, tokens: int) -> None:
        """Take back all but the first tokens of a layer: a step that failed, or a guess that was not accepted.

        Their lines keep their places until they are written again, or collected.
        """
        if not 0 <= tokens <= self.tokens(layer):
            raise ValueError(f"tokens must be 0 to {self.tokens(layer)}, not {tokens!r}")
        self._tokens[layer] = tokens

    def far(self, layer: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Keys and values of a layer in far memory, not retrieved: views of shape (heads, tokens, head size)."""
        kv = self.kv
        every = self._far.reshape(-1)[: kv.stream_bytes]
        tokens = every.reshape(kv.layers, kv.heads, kv.max_tokens, kv.bytes_per_token)[layer, :, : self.tokens(layer)]
        keys, values = tokens[..., : kv.value_offset], tokens[..., kv.value_offset : kv.token_bytes]
        return keys.view(self.element), values.view(self.element)
