"""Which tokens of the past a tile of queries retrieves, and attention over those alone.

    queries, all keys -> each token's attention weight -> select -> read what is selected -> attention over it

The weights are the exact attention's: a selection says what would have to be read, not how a kernel finds it out
beforehand. That needs the keys of all tokens, which are not counted as retrieved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from kv_asu_firmware.integers import setting

#: Queries a kernel works on at a time.
TILE = 64

#: Reads tokens, ascending, of a head: their keys and values, each of shape (n, head size).
ReadTokens = Callable[[int, npt.NDArray[np.int64]], tuple[torch.Tensor, torch.Tensor]]


class Select(Protocol):
    """Chooses the tokens that a tile retrieves."""

    def __call__(self, layer: int, weights: torch.Tensor) -> torch.Tensor:
        """Choose.

        Parameters
        ----------
        layer : int
        weights : torch.Tensor of float32, shape (KV heads, queries, tokens)
            The exact attention's, of all query heads that share a KV head; a query's sum to 1, or to 0 if it may see
            nothing.

        Returns
        -------
        torch.Tensor of bool, shape (KV heads, tokens)
        """


@dataclass(frozen=True)
class AttentionShare:
    """The fewest tokens that hold a share of a tile's attention mass; of equally heavy ones the earlier.

    Parameters
    ----------
    share : float
        Over 0, at most 1.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be over 0 and at most 1, not {self.share!r}")

    def __call__(self, layer: int, weights: torch.Tensor) -> torch.Tensor:
        mass = weights.sum(dim=1, dtype=torch.float64)
        if self.share == 1:
            return mass > 0
        heaviest, order = mass.sort(dim=-1, descending=True, stable=True)
        before = heaviest.cumsum(-1) - heaviest
        enough = (before < self.share * heaviest.sum(-1, keepdim=True)) & (heaviest > 0)
        return torch.zeros_like(enough).scatter_(-1, order, enough)


@dataclass(frozen=True)
class TokenBudget:
    """The heaviest tokens of a tile, so many of each head; of equally heavy ones the earlier.

    Parameters
    ----------
    tokens : int
        At least 1.
    """

    tokens: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", setting("tokens", self.tokens, 1))

    def __call__(self, layer: int, weights: torch.Tensor) -> torch.Tensor:
        mass = weights.sum(dim=1, dtype=torch.float64)
        heaviest, order = mass.sort(dim=-1, descending=True, stable=True)
        enough = heaviest > 0
        enough[:, self.tokens :] = False
        return torch.zeros_like(enough).scatter_(-1, order, enough)


@dataclass(frozen=True)
class Attend:
    """One call of attention, in the words of `torch.nn.functional.scaled_dot_product_attention`, of batch 1.

    Parameters
    ----------
    query : torch.Tensor, shape (1, heads, queries, head size)
        Heads are a multiple of the KV heads; those that follow each other share one.
    keys : torch.Tensor, shape (1, KV heads, tokens, head size)
        Of all tokens.
    mask : torch.Tensor, optional
        Of bool or float, to be broadcast to (1, heads, queries, tokens).
    is_causal : bool
        Query i sees tokens 0 to i, as in torch.
    scale : float, optional
        1 / sqrt(head size) unless given.
    dropout : float
    """

    query: torch.Tensor
    keys: torch.Tensor
    mask: torch.Tensor | None = None
    is_causal: bool = False
    scale: float | None = None
    dropout: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens there are."""
        return self.keys.shape[2]

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.keys.shape[1]

    def tiles(self, tile: int) -> Iterator[slice]:
        """The queries of each tile."""
        queries = self.query.shape[2]
        return (slice(first, min(first + tile, queries)) for first in range(0, queries, tile))

    def mask_of(self, rows: slice) -> torch.Tensor | None:
        """The mask of some queries: shape (KV heads or 1, query heads of each or 1, queries, tokens)."""
        mask = self.mask
        if self.is_causal:
            token, query = torch.arange(self.tokens), torch.arange(rows.start, rows.stop)
            mask = (token <= query[:, None])[None, None]
        elif mask is None:
            return None
        else:
            mask = mask.reshape((1,) * (4 - mask.dim()) + tuple(mask.shape))
            mask = mask.expand(-1, -1, self.query.shape[2], self.tokens)[:, :, rows]
        heads = self.kv_heads if mask.shape[1] > 1 else 1
        return mask.reshape(heads, -1, *mask.shape[2:])

    def weights(self, rows: slice) -> torch.Tensor:
        """The exact attention of some queries: shape (KV heads, query heads of each, queries, tokens), float32."""
        query = self.query[0, :, rows].float().unflatten(0, (self.kv_heads, -1))
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        logits = query @ self.keys[0].float().transpose(-1, -2)[:, None] * scale
        mask = self.mask_of(rows)
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else logits + mask
        sees_nothing = (logits == -torch.inf).all(-1, keepdim=True)
        return logits.softmax(-1).masked_fill(sees_nothing, 0)


def choose(attend: Attend, select: Select, layer: int, rows: slice) -> torch.Tensor:
    """What a tile retrieves: the selection, and for a query that it leaves with nothing the token that is its heaviest.

    Returns
    -------
    torch.Tensor of bool, shape (KV heads, tokens)
    """
    weights = attend.weights(rows).flatten(1, 2)
    chosen = select(layer, weights)
    if chosen.shape != (attend.kv_heads, attend.tokens) or chosen.dtype != torch.bool:
        raise ValueError(
            f"a selection must be bool of shape {(attend.kv_heads, attend.tokens)}, "
            f"not {str(chosen.dtype).removeprefix('torch.')} of {tuple(chosen.shape)}"
        )
    heaviest, where = weights.max(-1)
    left = ((weights * chosen[:, None]).sum(-1) == 0) & (heaviest > 0)
    added = torch.zeros_like(weights[:, 0]).scatter_add_(-1, where, left.float())
    return chosen | (added > 0)


def attend_selected(attend: Attend, select: Select, layer: int, read: ReadTokens, tile: int = TILE) -> torch.Tensor:
    """Attention in which only the tokens take part that a tile retrieves.

    Heads and tiles follow each other as in the kernel that makes traces: head by head, tile by tile.

    Parameters
    ----------
    attend : Attend
    select : Select
    layer : int
    read : callable
    tile : int
        Queries that read together.

    Returns
    -------
    torch.Tensor, shape (1, heads, queries, head size)
        A query that may see nothing gives zeros.
    """
    query = attend.query[0].unflatten(0, (attend.kv_heads, -1))
    chosen = [choose(attend, select, layer, rows) for rows in attend.tiles(tile)]
    output = torch.zeros_like(query)
    for head in range(attend.kv_heads):
        for rows, tokens_of in zip(attend.tiles(tile), chosen, strict=True):
            tokens = tokens_of[head].nonzero()[:, 0]
            if not len(tokens):
                continue
            keys, values = read(head, tokens.numpy())
            asking = query[head, :, rows]
            mask = attend.mask_of(rows)
            if mask is not None:
                mask = mask[head if mask.shape[0] > 1 else 0][..., tokens]
            output[head, :, rows] = functional.scaled_dot_product_attention(
                asking,
                keys.expand(len(asking), -1, -1),
                values.expand(len(asking), -1, -1),
                attn_mask=mask,
                dropout_p=attend.dropout,
                scale=attend.scale,
            )
    return output.flatten(0, 1)[None]
