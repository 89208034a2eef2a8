"""When a kernel asks for each line: the `paced` time model, every number named.

A memory-bound kernel asks for one line per line-time of the memory it reads; when a tile's lines are in, the tile's
arithmetic follows, then the next tile; a layer's dense products (QKV, output, MLP) run before its attention tiles are
read; frames start at the frame rate, or when the frame before is done. All modelled, in whole picoseconds, so that the
same trace has the same times everywhere.

Layers and heads that a trace leaves out cost their dense products and no reads, and the trace's metadata says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from vrex.trace.address_map import LINE_BYTES

PS_PER_NS = 1000
PS_PER_S = 10**12


@dataclass(frozen=True)
class Platform:
    """The rates of the machine a trace is timed for.

    Parameters
    ----------
    name : str
    bytes_per_second : int
        Peak rate of the memory the kernel reads its KV lines from.
    flops_per_second : int
        Arithmetic rate; a multiply and an add count as two.
    source : str
        Where the numbers come from.
    """

    name: str
    bytes_per_second: int
    flops_per_second: int
    source: str

    @property
    def line_ps(self) -> int:
        """Picoseconds the memory takes for one line."""
        return round(Fraction(LINE_BYTES * PS_PER_S, self.bytes_per_second))

    def compute_ps(self, flops: int) -> int:
        """Picoseconds the arithmetic takes."""
        return round(Fraction(flops * PS_PER_S, self.flops_per_second))


ORIN_NX = Platform(
    name="orin-nx",
    bytes_per_second=102_400_000_000,
    flops_per_second=20_000_000_000_000,
    source="Jetson Orin NX 8 GB class: 128-bit LPDDR5 at 6400 MT/s, peak; 20 dense TOPS, taken as sustained",
)


@dataclass(frozen=True)
class Transformer:
    """The shape of the model whose attention is traced.

    Parameters
    ----------
    layers, heads, head_size : int
        The hidden size is heads * head_size.
    mlp_size : int
        Width of the MLP's hidden layer.
    """

    layers: int
    heads: int
    head_size: int
    mlp_size: int

    def dense_flops(self, tokens: int) -> int:
        """Operations of one layer besides attention: QKV, output projection and the two products of the MLP."""
        hidden = self.heads * self.head_size
        return 2 * tokens * hidden * (4 * hidden + 2 * self.mlp_size)

    def tile_flops(self, queries: int, keys: int) -> int:
        """Operations of one tile of one head: scores and the weighted sum of values, over the keys read."""
        return 4 * queries * keys * self.head_size


class PacedClock:
    """Walks through a stream's frames, layers and tiles, and says when each line is asked for.

    Parameters
    ----------
    platform : Platform
    model : Transformer
    frame_rate : fractions.Fraction
        Frames a second.
    """

    def __init__(self, platform: Platform, model: Transformer, frame_rate: Fraction) -> None:
        self._platform = platform
        self._model = model
        self._frame_rate = frame_rate
        self._now_ps = 0
        self.late_frames = 0

    @property
    def now_ns(self) -> int:
        """The present nanosecond, rounded down."""
        return self._now_ps // PS_PER_NS

    def start_frame(self, frame: int) -> None:
        """Begin a frame when it arrives, or at once if it arrived while the one before was still running."""
        arrives_ps = int(frame * PS_PER_S / self._frame_rate)
        self.late_frames += arrives_ps < self._now_ps
        self._now_ps = max(self._now_ps, arrives_ps)

    def run_dense(self, tokens: int) -> None:
        """Pass the time of one layer's dense products."""
        self._now_ps += self._platform.compute_ps(self._model.dense_flops(tokens))

    def read_tile(self, queries: int, keys: int, lines: int) -> npt.NDArray[np.uint64]:
        """Read a tile's lines and pass the time of its arithmetic.

        Parameters
        ----------
        queries, keys : int
            The tile's queries, and the tokens it reads for them.
        lines : int
            The lines that hold these tokens.

        Returns
        -------
        numpy.ndarray of uint64, shape (lines,)
            The nanosecond, rounded down, at which each line is asked for.
        """
        asked_ps = self._now_ps + np.arange(lines, dtype=np.int64) * self._platform.line_ps
        self._now_ps += lines * self._platform.line_ps
        self._now_ps += self._platform.compute_ps(self._model.tile_flops(queries, keys))
        return (asked_ps // PS_PER_NS).astype(np.uint64)
