"""Where a token's keys and values live: the one address map, and its inverse.

K and V of (stream, layer, head, token) sit side by side at::

    bases[stream] + ((layer * heads + head) * max_tokens + token) * bytes_per_token

Tracer, driver, cache and address templates all ask this module, so that they cannot disagree. The map is affine, which
is what lets a template describe a whole attention layer's reads by a base, strides and extents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kv_asu.params import LINE_BITS
from kv_asu_firmware.integers import setting

LINE_BYTES = 1 << LINE_BITS

#: Bytes of one element of the cache, by its type's name.
DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}

#: Where stream 0 lies unless told otherwise: the first DRAM address of NVIDIA's Tegra234 (the SoC of Jetson Orin); a
#: 32-bit request address still reaches the 2 GiB from here on.
DEFAULT_BASE = 0x8000_0000

IntArray = npt.NDArray[np.int64]
LineArray = npt.NDArray[np.uint64]
N = TypeVar("N", np.int64, np.uint64)


def each_once(numbers: npt.NDArray[N]) -> npt.NDArray[N]:
    """Numbers, each once and ascending: shape (n,). What is so already, as most are, is given back as it is."""
    flat = numbers.reshape(-1)
    return flat if (flat[1:] > flat[:-1]).all() else np.unique(flat)


class Place(NamedTuple):
    """Whose bytes an address holds: arrays of one shape, or scalars' 0-d arrays.

    `offset` counts bytes from the token's first (its keys; its values start at `AddressMap.value_offset`).
    """

    stream: IntArray
    layer: IntArray
    head: IntArray
    token: IntArray
    offset: IntArray


@dataclass(frozen=True)
class AddressMap:
    """The KV layout of one model in one memory.

    Parameters
    ----------
    layers, heads : int
        The model's layers, and KV heads a layer.
    head_size : int
        Elements of one key (and of one value) in one head.
    max_tokens : int
        Tokens a stream can hold.
    dtype : str
        "fp16", "bf16" or "fp32".
    bases : tuple of int
        Each stream's first byte address, a multiple of 256, each at least `stream_bytes` away from the next.

    Raises
    ------
    TypeError, ValueError
        A number is no integer; it is below 1, the type is unknown, or streams are unaligned, overlap or leave the
        64-bit address space.

    Examples
    --------
    >>> kv = AddressMap(layers=12, heads=6, head_size=64, max_tokens=12336)
    >>> kv.bytes_per_token, hex(int(kv.address(layer=0, head=1, token=2)))
    (256, '0x80303200')
    >>> kv.locate(kv.address(layer=11, head=5, token=12335)).token.item()
    12335
    """

    layers: int
    heads: int
    head_size: int
    max_tokens: int
    dtype: str = "fp16"
    bases: tuple[int, ...] = (DEFAULT_BASE,)

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "head_size", "max_tokens"):
            object.__setattr__(self, name, setting(name, getattr(self, name), 1))
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPE_BYTES)}, not {self.dtype!r}")
        if not self.bases:
            raise ValueError("bases must name at least one stream's address, not ()")
        object.__setattr__(self, "bases", tuple(setting("a stream's base", base, 0) for base in self.bases))
        end = 0
        for base in sorted(self.bases):
            if base % LINE_BYTES:
                raise ValueError(f"a stream's base must be a multiple of {LINE_BYTES}, not {base:#x}")
            if base < end:
                raise ValueError(f"streams overlap: {base:#x} lies before the end of the one below it, {end:#x}")
            end = base + self.stream_bytes
        if end > 1 << 64:
            raise ValueError(f"a stream ends at {end:#x}, beyond 64-bit addresses")

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's K and V in one head of one layer."""
        return 2 * self.head_size * DTYPE_BYTES[self.dtype]

    @property
    def bytes_per_token(self) -> int:
        """The stride between tokens: `token_bytes`, rounded so that no token straddles lines it need not.

        A token smaller than a line takes the next power of two, which divides the line; a larger one takes whole lines.
        """
        if self.token_bytes <= LINE_BYTES:
            return 1 << (self.token_bytes - 1).bit_length()
        return -(-self.token_bytes // LINE_BYTES) * LINE_BYTES

    @property
    def value_offset(self) -> int:
        """Bytes from a token's keys to its values."""
        return self.token_bytes // 2

    @property
    def lines_per_token(self) -> int:
        """Lines that hold one token of one head: at least 1."""
        return max(1, self.bytes_per_token // LINE_BYTES)

    @property
    def stream_bytes(self) -> int:
        """Bytes one stream takes."""
        return self.layers * self.heads * self.max_tokens * self.bytes_per_token

    def address(
        self, layer: npt.ArrayLike, head: npt.ArrayLike, token: npt.ArrayLike, stream: npt.ArrayLike = 0
    ) -> LineArray:
        """Byte addresses of tokens' keys; the arguments broadcast against each other.

        Returns
        -------
        numpy.ndarray of uint64

        Raises
        ------
        ValueError
            An index is outside the map; the message names it and its range.
        """
        layer, head, token, stream = (
            self._checked("layer", layer, self.layers),
            self._checked("head", head, self.heads),
            self._checked("token", token, self.max_tokens),
            self._checked("stream", stream, len(self.bases)),
        )
        slot = (layer * self.heads + head) * self.max_tokens + token
        start: LineArray = np.asarray(self.bases, np.uint64)[stream]
        return np.add(start, (slot * self.bytes_per_token).astype(np.uint64), dtype=np.uint64)

    def lines(
        self, layer: npt.ArrayLike, head: npt.ArrayLike, token: npt.ArrayLike, stream: npt.ArrayLike = 0
    ) -> LineArray:
        """Line numbers that hold tokens' K and V, ascending: shape (..., `lines_per_token`)."""
        first = np.asarray(self.address(layer, head, token, stream) >> np.uint64(LINE_BITS))
        return first[..., np.newaxis] + np.arange(self.lines_per_token, dtype=np.uint64)

    def locate(self, address: npt.ArrayLike) -> Place:
        """Whose bytes these addresses hold: the inverse of `address`.

        Raises
        ------
        ValueError
            An address belongs to no stream.
        """
        address = np.asarray(address, np.uint64)
        order = np.argsort(np.asarray(self.bases, np.uint64))
        sorted_bases = np.asarray(self.bases, np.uint64)[order]
        below = np.searchsorted(sorted_bases, address, side="right") - 1
        inside = (address - sorted_bases[below]).astype(np.uint64)  # wraps below the first base: refused next
        outside = (below < 0) | (inside >= np.uint64(self.stream_bytes))
        if outside.any():
            raise ValueError(f"address {int(address[outside].flat[0]):#x} is in no stream of this KV cache")
        slot, offset = np.divmod(inside.astype(np.int64), self.bytes_per_token)
        layer_head, token = np.divmod(slot, self.max_tokens)
        layer, head = np.divmod(layer_head, self.heads)
        return Place(order[below], layer, head, token, offset)

    def locate_line(self, line: npt.ArrayLike) -> Place:
        """Whose bytes these lines start with (`offset` 0 unless a token takes several lines)."""
        return self.locate(np.asarray(line, np.uint64) << np.uint64(LINE_BITS))

    @staticmethod
    def _checked(name: str, index: npt.ArrayLike, size: int) -> IntArray:
        index = np.asarray(index, np.int64)
        outside = (index < 0) | (index >= size)
        if outside.any():
            raise ValueError(f"{name} must be 0 to {size - 1}, not {int(index[outside].flat[0])}")
        return index


@dataclass(frozen=True)
class PatchGrid:
    """How a frame's tokens tile its picture: some leading tokens without a place, then patches row by row.

    Parameters
    ----------
    rows, columns : int
        Patches down and across.
    leading : int
        Tokens before the first patch (a vision transformer's class token).
    """

    rows: int
    columns: int
    leading: int = 0

    @property
    def tokens_per_frame(self) -> int:
        """Tokens of one frame."""
        return self.leading + self.rows * self.columns

    def patches(self, token: npt.ArrayLike) -> tuple[IntArray, IntArray, IntArray]:
        """Frame, patch row and patch column of a stream's tokens; row and column are -1 for a leading token."""
        frame, within = np.divmod(np.asarray(token, np.int64), self.tokens_per_frame)
        row, column = np.divmod(within - self.leading, self.columns)
        placeless = within < self.leading
        return frame, np.where(placeless, -1, row), np.where(placeless, -1, column)
