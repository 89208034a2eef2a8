"""The bytes behind residency: a pool of lines in near memory, and the page table that says where each line lies.

Far memory holds every line, always. Near memory holds copies: a line is copied when it lands and forgotten when it is
collected, so nothing that is collected is ever lost, and what is read is what was written.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kv_asu_firmware.residency import Residency
from vrex.trace.address_map import LINE_BYTES

Bytes = npt.NDArray[np.uint8]


class NearMemory(Residency):
    """Residency with the data.

    Any line goes to any place, so streams of changing resolution leave no holes.

    Parameters
    ----------
    far : numpy.ndarray of uint8, shape (lines, 256)
        All lines of the stream.
    first_line : int
        The line number of the first.
    demand_lines, prefetch_lines : int
        Places of each bank. All of them are taken from the system now.

    Raises
    ------
    MemoryError
        The system has no room for them.
    """

    def __init__(self, far: Bytes, first_line: int, demand_lines: int, prefetch_lines: int = 0) -> None:
        super().__init__(demand_lines, prefetch_lines)
        self._far = far
        self._first_line = first_line
        self._near = np.empty((demand_lines + prefetch_lines, LINE_BYTES), np.uint8)
        self._near.fill(0)  # the system gives memory when it is written, not when it is asked for
        self._free = list(range(len(self._near) - 1, -1, -1))
        self._place = np.full(len(far), -1, np.int64)

    def land(self, line: int) -> None:
        """Copy a line that was on its way; see `Residency.land`."""
        super().land(line)
        place = self._place[line - self._first_line] = self._free.pop()
        self._near[place] = self._far[line - self._first_line]

    def collect(self, line: int) -> None:
        """Forget the copy of a line; see `Residency.collect`."""
        super().collect(line)
        self._free.append(int(self._place[line - self._first_line]))
        self._place[line - self._first_line] = -1

    def is_resident(self, lines: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Of each line, whether it is resident; lines by their place in the stream, as below."""
        return self._place[lines] >= 0

    def refresh(self, lines: npt.NDArray[np.int64]) -> None:
        """Far memory was written to: copy what is resident of these lines."""
        here = lines[self.is_resident(lines)]
        self._near[self._place[here]] = self._far[here]

    def gather(self, lines: npt.NDArray[np.int64]) -> Bytes:
        """Read resident lines: shape (n, 256).

        Raises
        ------
        ValueError
            A line is not resident.
        """
        places = self._place[lines]
        if (places < 0).any():
            raise ValueError(f"line {self._first_line + int(lines[places < 0][0]):#x} is not resident")
        return self._near[places]
