"""Which KV lines are in fast memory, and which of them may be collected.

Fast memory has two banks: one for lines that were asked for, and one for lines that were prefetched, so that a wrong
guess never displaces a line somebody reads. Places are counted in lines. A line takes its place when its transfer is
queued, is resident from when it lands, and cannot be collected while it is on its way or held.

A tile asks for hundreds of lines at a time, so what is asked and done for each of them has a plural: a subclass that
knows the range of its lines may answer for all of them at once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from kv_asu_firmware.integers import setting

#: Line numbers, each once.
Lines = npt.NDArray[np.integer[Any]]


class Bank(IntEnum):
    """The two banks of fast memory."""

    DEMAND = 0
    PREFETCH = 1


class Residency:
    """The lines in fast memory, each bank in the order of last use.

    Parameters
    ----------
    demand_lines : int
        Places in the demand bank, at least 1.
    prefetch_lines : int
        Places in the prefetch bank; 0 leaves prefetching out.

    Raises
    ------
    TypeError, ValueError
        A bank's size is no integer; it is out of range.
    """

    def __init__(self, demand_lines: int, prefetch_lines: int = 0) -> None:
        self._capacity = (setting("demand_lines", demand_lines, 1), setting("prefetch_lines", prefetch_lines, 0))
        # The least recently used line first.
        self._resident: tuple[OrderedDict[int, None], ...] = (OrderedDict(), OrderedDict())
        self._coming: tuple[set[int], ...] = (set(), set())
        self._holds: Counter[int] = Counter()

    def __contains__(self, line: int) -> bool:
        """Whether a line is resident."""
        return any(line in bank for bank in self._resident)

    def bank(self, line: int) -> Bank | None:
        """The bank a resident line is in."""
        return next((bank for bank in Bank if line in self._resident[bank]), None)

    def lines(self, bank: Bank) -> list[int]:
        """The resident lines of a bank, the least recently used first."""
        return list(self._resident[bank])

    def capacity(self, bank: Bank) -> int:
        """Places in a bank."""
        return self._capacity[bank]

    def free(self, bank: Bank) -> int:
        """Places that neither a resident line nor one on its way takes."""
        return self._capacity[bank] - len(self._resident[bank]) - len(self._coming[bank])

    def collectable(self, bank: Bank) -> int:
        """Resident lines that nobody holds."""
        return len(self._resident[bank]) - sum(line in self._resident[bank] for line in self._holds)

    def least_recent(self, bank: Bank, count: int) -> list[int]:
        """The `count` least recently used lines that nobody holds, or as many as there are."""
        return list(islice((line for line in self._resident[bank] if line not in self._holds), count))

    def is_held(self, line: int) -> bool:
        """Whether somebody reads the line, or protects it."""
        return line in self._holds

    def are_resident(self, lines: Lines) -> npt.NDArray[np.bool_]:
        """Of each line, whether it is resident: shape (lines,)."""
        return np.array([line in self for line in lines.tolist()], bool)

    def are_in(self, bank: Bank, lines: Lines) -> npt.NDArray[np.bool_]:
        """Of each line, whether it is resident in a bank: shape (lines,)."""
        return np.array([line in self._resident[bank] for line in lines.tolist()], bool)

    def loose_lines(self, bank: Bank) -> npt.NDArray[np.int64]:
        """The resident lines of a bank that nobody holds, the least recently used first."""
        return np.array([line for line in self._resident[bank] if line not in self._holds], np.int64)

    def are_held(self, lines: Lines) -> npt.NDArray[np.bool_]:
        """Of each line, whether somebody holds it: shape (lines,)."""
        return np.array([line in self._holds for line in lines.tolist()], bool)

    def hold(self, lines: Iterable[int] | Lines) -> None:
        """Keep lines from being collected until they are released as often as they were held."""
        self._holds.update(_plain(lines))

    def release(self, lines: Iterable[int] | Lines) -> None:
        """Take back a `hold`.

        Raises
        ------
        ValueError
            A line is not held.
        """
        for line in _plain(lines):
            if line not in self._holds:
                raise ValueError(f"line {line:#x} is not held")
            self._holds[line] -= 1
            if not self._holds[line]:
                del self._holds[line]

    def reserve(self, line: int, bank: Bank) -> None:
        """Take a place for a line that will come.

        Raises
        ------
        ValueError
            The line has a place already, or the bank has none free.
        """
        if line in self or any(line in coming for coming in self._coming):
            raise ValueError(f"line {line:#x} has a place already")
        if not self.free(bank):
            raise ValueError(f"the {bank.name.lower()} bank is full: all {self._capacity[bank]} places are taken")
        self._coming[bank].add(line)

    def land(self, line: int) -> None:
        """A line on its way has come: it is resident, and the most recently used of its bank.

        Raises
        ------
        ValueError
            The line was not on its way.
        """
        for coming, resident in zip(self._coming, self._resident, strict=True):
            if line in coming:
                coming.remove(line)
                resident[line] = None
                return
        raise ValueError(f"line {line:#x} was not on its way")

    def use(self, line: int) -> None:
        """A resident line is asked for: it becomes the most recently used of its bank."""
        for resident in self._resident:
            if line in resident:
                resident.move_to_end(line)

    def use_all(self, lines: Lines) -> None:
        """As `use` for each line, in their order; those that are not resident are passed over."""
        for line in lines.tolist():
            self.use(line)

    def bear(self, lines: Lines) -> None:
        """As `reserve` and `land` for each line, in their order, in the demand bank: lines that have just been written.

        Raises
        ------
        ValueError
            As `reserve`.
        """
        for line in lines.tolist():
            self.reserve(line, Bank.DEMAND)
            self.land(line)

    def collect_all(self, lines: Lines) -> None:
        """As `collect` for each line.

        Raises
        ------
        ValueError
            As `collect`.
        """
        for line in lines.tolist():
            self.collect(line)

    def promote(self, line: int) -> None:
        """Move a line of the prefetch bank to a free place of the demand bank, where it is the most recently used.

        The kernel reads the line in that moment, so the move is not charged with time.

        Raises
        ------
        ValueError
            The line is not in the prefetch bank, or the demand bank is full.
        """
        if line not in self._resident[Bank.PREFETCH]:
            raise ValueError(f"line {line:#x} is not in the prefetch bank")
        if not self.free(Bank.DEMAND):
            raise ValueError(f"the demand bank is full: all {self._capacity[Bank.DEMAND]} places are taken")
        del self._resident[Bank.PREFETCH][line]
        self._resident[Bank.DEMAND][line] = None

    def collect(self, line: int) -> None:
        """Drop a resident line: from now on it is in far memory only.

        Raises
        ------
        ValueError
            The line is not resident, or somebody holds it.
        """
        bank = self.bank(line)
        if bank is None:
            raise ValueError(f"line {line:#x} is not resident")
        if line in self._holds:
            raise ValueError(f"line {line:#x} is held")
        del self._resident[bank][line]


def _plain(lines: Iterable[int] | Lines) -> Iterable[int]:
    return lines.tolist() if isinstance(lines, np.ndarray) else lines
