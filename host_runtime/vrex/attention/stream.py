"""Tensors of one stream into a `DynamicRetrievalCache` and back, to the bit; a step that fails has not happened."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kv_asu_firmware.residency import Bank
from vrex.attention.rewindable_cache import RewindableCache
from vrex.attention.selection import TILE, Attend, Select, attend_selected
from vrex.errors import VrexError
from vrex.trace.address_map import AddressMap

#: Torch's types, by the address map's names of them.
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}

#: Lines of the next visit are brought ahead when they are at least so likely to be read by it.
LIKELY = 0.9


class AttentionError(VrexError):
    """Attention, or what goes into it, is not a number."""


class AttentionStream:
    """The KV of one stream behind torch's attention: layers write their new KV, then attend.

    A *step* is a model's forward pass: it begins when a layer writes that has written in the present one. A step is a
    frame of the cache's figures. An error in here takes the whole step back: the stream is as it was before it. After
    one elsewhere in the model, `rewind` does.

    Parameters
    ----------
    kv : AddressMap
        The layout, of one stream.
    select : Select, optional
        What a tile of queries retrieves; everything unless given.
    tile : int
        Queries that read together, at least 1.
    likely : float
        Lines of the next head are brought ahead when they are at least so likely to be read.
    frame_ns : int
        Device time from one step to the next; more, if retrieval takes longer.
    **options
        Of the `DynamicRetrievalCache`, `reserve_mb` before all.

    Attributes
    ----------
    cache : RewindableCache
        Its `frame` and `totals` tell what was asked for, missing and moved.
    """

    def __init__(
        self,
        kv: AddressMap,
        select: Select | None = None,
        *,
        tile: int = TILE,
        likely: float = LIKELY,
        frame_ns: int = 33_333_333,
        **options: Any,
    ) -> None:
        if tile < 1:
            raise ValueError(f"tile must be at least 1, not {tile!r}")
        self.cache = RewindableCache(kv, frame_ns=frame_ns, **options)
        self.select = select
        self._dtype = DTYPES[kv.dtype]
        self._tile = tile
        self._likely = likely
        self._frame_ns = frame_ns
        self._step: dict[int, int] = {}  # layers that have written in the present step: tokens before it
        self._began_ns = 0

    def tokens(self, layer: int = 0) -> int:
        """Tokens a layer holds."""
        return self.cache.tokens(layer)

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """New KV of a layer.

        Parameters
        ----------
        layer : int
        keys, values : torch.Tensor, shape (1, KV heads, new tokens, head size)

        Raises
        ------
        ValueError, TypeError
            Another shape, type or device.
        AttentionError
            There is a NaN in it.
        KvCacheFull
            The stream is at its longest, or near memory has no room.
        """
        with self.step(layer):
            before = self.cache.tokens(layer)
            for name, tensor in (("keys", keys), ("values", values)):
                self._check(name, tensor)
                self._check_numbers(name[:-1], layer, tensor, before)
            self.cache.append(layer, self._array(keys[0]), self._array(values[0]))
            self._step[layer] = before

    def read_all(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Retrieve all of a layer: keys and values, each of shape (1, KV heads, tokens, head size)."""
        kv = self.cache.kv
        tokens = np.arange(self.cache.tokens(layer))
        keys, values = (np.empty((kv.heads, len(tokens), kv.head_size), self.cache.element) for _ in range(2))
        with self.step(layer, writes=False):
            for head in range(kv.heads):
                keys[head], values[head] = self._read(layer, head, tokens, first=True)
        return self._tensor(keys)[None], self._tensor(values)[None]

    def far(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values of a layer as far memory holds them, not retrieved: shapes as of `read_all`."""
        keys, values = (self._tensor(array)[None] for array in self.cache.far(layer))
        return keys, values

    def attend(self, layer: int, attend: Attend) -> torch.Tensor:
        """Attention over what `select` chooses, and retrieves: shape (1, heads, queries, head size)."""
        assert self.select is not None
        visited: set[int] = set()

        def read(head: int, tokens: npt.NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
            first = head not in visited
            visited.add(head)
            keys, values = self._read(layer, head, tokens, first)
            return self._tensor(keys), self._tensor(values)

        with self.step(layer, writes=False):
            self._check_numbers("query", layer, attend.query, attend.tokens - attend.query.shape[2])
            output = attend_selected(attend, self.select, layer, read, self._tile)
            self.check_output(layer, output)
        return output

    def rewind(self, tokens: int | None = None) -> None:
        """Take back the present step, finished or not; or all but the first tokens of every layer."""
        if tokens is None:
            for layer, before in self._step.items():
                self.cache.rewind(layer, before)
        else:
            for layer in range(self.cache.kv.layers):
                self.cache.rewind(layer, min(tokens, self.cache.tokens(layer)))
        self._step = {}

    @contextlib.contextmanager
    def step(self, layer: int, writes: bool = True) -> Iterator[None]:
        """A layer's part of a step: an error takes the whole step back.

        Parameters
        ----------
        layer : int
        writes : bool
            Whether the layer is about to write, which begins a step if it has done so in the present one.
        """
        if not 0 <= layer < self.cache.kv.layers:
            raise ValueError(f"layer must be 0 to {self.cache.kv.layers - 1}, not {layer!r}")
        if writes and layer in self._step:
            self._begin_step()
        try:
            yield
        except BaseException:
            self.rewind()
            raise

    def check_query(self, query: torch.Tensor) -> None:
        """See that queries fit the keys.

        Raises
        ------
        ValueError, TypeError
            They do not; one line says how.
        """
        self._check("query", query)

    def check_output(self, layer: int, output: torch.Tensor) -> None:
        """See that an output, shape (1, heads, queries, head size), has no NaN; or raise `AttentionError`."""
        self._check_numbers("attention", layer, output, self.tokens(layer) - output.shape[2])

    def _check_numbers(self, what: str, layer: int, tensor: torch.Tensor, first: int) -> None:
        """See that a tensor of shape (1, heads, tokens, head size) has no NaN.

        Parameters
        ----------
        what : str
        layer : int
        tensor : torch.Tensor
        first : int
            The place of its first token in the stream.

        Raises
        ------
        AttentionError
            There is one.
        """
        bad = tensor[0].isnan().any(-1)
        if bad.any():
            head, token = (int(index) for index in bad.nonzero()[0])
            raise AttentionError(
                f"{what} is NaN in layer {layer}, head {head}, token {first + token}: the step is taken back; "
                "look at its input, or use bf16 or fp32 if fp16 overflows"
            )

    def _begin_step(self) -> None:
        self._step = {}
        cache = self.cache
        if cache.frame.lines or cache.frame.written:
            cache.end_frame()
        cache.pass_time(self._began_ns + self._frame_ns - cache.now_ns)
        self._began_ns = cache.now_ns

    def _read(
        self, layer: int, head: int, tokens: npt.NDArray[np.int64], first: bool
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Retrieve; before a head's first tile, what the next head is likely to read is on its way."""
        cache = self.cache
        if first and cache.near.capacity(Bank.PREFETCH):
            following = cache.policy.following(layer * cache.kv.heads + head)
            cache.prefetch_likely(*divmod(following, cache.kv.heads), self._likely)
        return cache.read(layer, head, tokens)

    def _check(self, name: str, tensor: torch.Tensor) -> None:
        kv = self.cache.kv
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
        if tensor.dim() != 4 or tensor.shape[3] != kv.head_size:
            raise ValueError(f"{name} must have shape (1, heads, tokens, {kv.head_size}), not {tuple(tensor.shape)}")
        if tensor.shape[0] != 1:
            raise ValueError(f"{name} must be of batch 1, not {tensor.shape[0]}: a cache holds one stream")
        heads = tensor.shape[1]
        if name != "query" and heads != kv.heads:
            raise ValueError(f"{name} must have {kv.heads} heads, not {heads}")
        if name == "query" and (not heads or heads % kv.heads):
            raise ValueError(f"query must have a multiple of {kv.heads} heads, not {heads}")
        if tensor.dtype != self._dtype:
            given = str(tensor.dtype).removeprefix("torch.")
            raise TypeError(f"{name} must be {kv.dtype}, as the cache is, not {given}")
        if tensor.device.type != "cpu":
            raise ValueError(f"{name} must be on the cpu, as the cache is, not on {tensor.device}")
        if tensor.requires_grad:
            raise ValueError(f"{name} must carry no gradients: run the model under torch.inference_mode()")

    def _array(self, tensor: torch.Tensor) -> npt.NDArray[Any]:
        """The bits of a tensor."""
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.int16)
        return tensor.numpy().view(self.cache.element)

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """The tensor of bits."""
        if self._dtype == torch.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
