"""What reads cost in the modelled machine: KV lines that are near, and lines that have to come from far.

Near is a pool reserved in the board's DRAM; far is an NVMe drive that holds the whole KV cache. Every number is
modelled and named with its source; nothing here is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vrex.trace.address_map import LINE_BYTES
from vrex.trace.format import Chunk
from vrex.trace.timing import ORIN_NX


@dataclass(frozen=True)
class Tiers:
    """Speeds of near and far memory.

    Parameters
    ----------
    near_bytes_per_second : int
        Rate at which attention streams near lines.
    far_bytes_per_second : int
        Rate of the link to far memory.
    far_latency_ns : int
        From asking far memory to its first byte.
    far_block_bytes : int
        What far memory reads at a time; lines of one block that are asked for in a row come together.
    source : str
        Where the numbers come from.
    """

    near_bytes_per_second: int
    far_bytes_per_second: int
    far_latency_ns: int
    far_block_bytes: int
    source: str

    def read_ns(self, near_lines: int, far_blocks: int, far_waits: int) -> float:
        """Nanoseconds that reads take one after the other, with one latency for each wait on far memory."""
        near = near_lines * LINE_BYTES / self.near_bytes_per_second
        far = far_blocks * self.far_block_bytes / self.far_bytes_per_second
        return (near + far) * 1e9 + far_waits * self.far_latency_ns


ORIN_NX_NVME = Tiers(
    near_bytes_per_second=ORIN_NX.bytes_per_second,
    far_bytes_per_second=4 * 16_000_000_000 * 128 // 130 // 8,
    far_latency_ns=45_000,
    far_block_bytes=4096,
    source=(
        "near: LPDDR5 of a Jetson Orin NX at its peak, 102.4 GB/s; far: NVMe on PCIe 4.0 x4 (16 GT/s, 128b/130b), "
        "4 KiB blocks, 45 us = 1 / 22,000 reads a second at queue depth 1 (data sheet of a Samsung 980 PRO)"
    ),
)


class ReadTime:
    """Adds up the modelled time of a frame's reads, piece by piece in kernel order.

    A tile asks for all its missing lines at once, so it waits for far memory once; missing lines that follow each other
    in one far block come as one transfer.

    Parameters
    ----------
    tiers : Tiers
    """

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers
        self._near_lines = self._far_blocks = self._far_waits = 0
        self._last_miss: NDArray[np.uint64] | None = None

    def add(self, reads: Chunk, near: NDArray[np.bool_]) -> None:
        """Count reads.

        Parameters
        ----------
        reads : Chunk
        near : ndarray of bool, shape (reads,)
            Which of them are served near.
        """
        self._near_lines += int(near.sum())
        far = ~near
        if not far.any():
            return
        block = reads.line[far] // np.uint64(self._tiers.far_block_bytes // LINE_BYTES)
        # One row a miss: whose tile, and which block. Where it differs from the row before, a transfer begins.
        misses = np.stack([reads.frame[far], reads.layer[far], reads.head[far], reads.tile[far], block], axis=1)
        before = misses[:1] + np.uint64(1) if self._last_miss is None else self._last_miss
        changed = misses != np.concatenate([before, misses[:-1]])
        self._far_blocks += int(changed.any(axis=1).sum())
        self._far_waits += int(changed[:, :4].any(axis=1).sum())
        self._last_miss = misses[-1:]

    @property
    def ms(self) -> float:
        """Milliseconds so far."""
        return self._tiers.read_ns(self._near_lines, self._far_blocks, self._far_waits) / 1e6
