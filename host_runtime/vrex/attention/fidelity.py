"""What selective retrieval costs in accuracy, against the bytes it does not read.

    with record_attention(model) as calls: model(ids)      a model's own queries, keys and values
    fidelity_curve(calls, (0.5, 0.9, 0.99))                error and bytes, by attention share kept

Anything else that may happen to a cache, such as quantising its keys, is measured alike: `relative_error` of the
`exact` attention over what it leaves against that over the call as recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from vrex.attention.selection import TILE, Attend, AttentionShare, Select, attend_selected


@dataclass(frozen=True)
class Call:
    """One call of attention in a model.

    Parameters
    ----------
    layer : int
    attend : Attend
    values : torch.Tensor, shape (1, KV heads, tokens, head size)
    """

    layer: int
    attend: Attend
    values: torch.Tensor


@dataclass(frozen=True)
class FidelityPoint:
    """One point of a curve.

    Parameters
    ----------
    error : float
        Relative error of the output, mean over the calls.
    layer_errors : dict
        By layer.
    read_bytes : int
        Keys and values that the tiles read.
    whole_bytes : int
        Those that they read with nothing left out: all that a tile may see.
    """

    error: float
    layer_errors: dict[int, float]
    read_bytes: int
    whole_bytes: int

    @property
    def saved(self) -> float:
        """Share of the bytes that are not read."""
        return 1 - self.read_bytes / self.whole_bytes if self.whole_bytes else 0.0


def relative_error(output: torch.Tensor, reference: torch.Tensor) -> float:
    """Euclidean norm of the difference over that of the reference; 0 where both are 0."""
    difference = torch.linalg.vector_norm(output.double() - reference.double()).item()
    size = torch.linalg.vector_norm(reference.double()).item()
    return difference / size if size else (0.0 if not difference else float("inf"))


def exact(call: Call) -> torch.Tensor:
    """Attention over everything, in float32: shape (1, heads, queries, head size)."""
    attend = call.attend
    mask = attend.mask
    return functional.scaled_dot_product_attention(
        attend.query.float(),
        attend.keys.float(),
        call.values.float(),
        mask if mask is None or mask.dtype == torch.bool else mask.float(),
        is_causal=attend.is_causal,
        scale=attend.scale,
        enable_gqa=True,
    )


def fidelity(calls: Iterable[Call], select: Select, tile: int = TILE) -> FidelityPoint:
    """Error and bytes of a selection, over the calls; computed in float32, so the error is the selection's alone."""
    errors: dict[int, list[float]] = {}
    read_bytes = whole_bytes = 0
    for call in calls:
        attend = call.attend
        token_bytes = 2 * attend.keys.shape[-1] * attend.keys.element_size()
        reads = 0

        def read(head: int, tokens: npt.NDArray[np.int64], call: Call = call) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal reads
            reads += len(tokens)
            return call.attend.keys[0, head, tokens].float(), call.values[0, head, tokens].float()

        single = Attend(attend.query.float(), attend.keys.float(), attend.mask, attend.is_causal, attend.scale)
        output = attend_selected(single, select, call.layer, read, tile)
        errors.setdefault(call.layer, []).append(relative_error(output, exact(call)))
        read_bytes += reads * token_bytes
        whole_bytes += _visible(single, tile) * token_bytes
    layer_errors = {layer: float(np.mean(found)) for layer, found in sorted(errors.items())}
    every = [error for found in errors.values() for error in found]
    return FidelityPoint(float(np.mean(every)) if every else 0.0, layer_errors, read_bytes, whole_bytes)


def fidelity_curve(calls: Sequence[Call], shares: Iterable[float], tile: int = TILE) -> list[FidelityPoint]:
    """A point for each share of attention kept, over 0 to 1."""
    return [fidelity(calls, AttentionShare(share), tile) for share in shares]


@contextlib.contextmanager
def record_attention(model: Any) -> Iterator[list[Call]]:
    """Record a transformers model's calls of attention; its outputs are as ever.

    Yields
    ------
    list of Call
        Grows with each.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    calls: list[Call] = []

    def record(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = bool(causal) and query.shape[2] > 1 and attention_mask is None
        attend = Attend(query.detach(), key.detach(), attention_mask, causal, scaling)
        calls.append(Call(module.layer_idx, attend, value.detach()))
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, is_causal, **kwargs)

    name, before = "vrex-record", model.config._attn_implementation
    AttentionInterface.register(name, record)
    AttentionMaskInterface.register(name, sdpa_mask)
    model.set_attn_implementation(name)
    try:
        yield calls
    finally:
        model.set_attn_implementation(before)


def _visible(attend: Attend, tile: int) -> int:
    """Tokens that tiles read with nothing left out, summed over heads and tiles."""
    shares = attend.query.shape[1] // attend.kv_heads
    count = 0
    for rows in attend.tiles(tile):
        mask = attend.mask_of(rows)
        if mask is None:
            count += attend.kv_heads * attend.tokens
            continue
        sees = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min
        sees = sees.expand(attend.kv_heads, shares, -1, -1)
        count += int(sees.any(dim=2).any(dim=1).sum())
    return count
