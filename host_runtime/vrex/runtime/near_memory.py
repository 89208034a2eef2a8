"""The bytes behind residency: a pool of lines in near memory, and the page table that says where each line lies.

Far memory holds every line, always. Near memory holds copies: a line is copied when it lands and forgotten when it is
collected, so nothing that is collected is ever lost, and what is read is what was written.

A stream's lines are a run of numbers, so that everything about a line stands in arrays, by its place in the run, and
what a tile asks and does is done for all of its lines at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from kv_asu_firmware.residency import Bank, Lines, Residency
from vrex.trace.address_map import LINE_BYTES

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# What a line is, by its place: in far memory only; on its way to a bank, or resident in it.
_FAR = 0
_COMING = {Bank.DEMAND: 1, Bank.PREFETCH: 2}
_RESIDENT = {Bank.DEMAND: 3, Bank.PREFETCH: 4}
_FIRST_RESIDENT = 3


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
        self._unused = np.arange(len(self._near), dtype=np.int64)  # places of near memory; the first `_free` are free
        self._free = len(self._near)
        self._place = np.full(len(far), -1, np.int64)  # where each line lies in near memory
        self._state = np.zeros(len(far), np.int8)
        self._held = np.zeros(len(far), np.int32)
        self._used = np.zeros(len(far), np.int64)  # when each line was last used, in uses
        self._uses = 0
        self._taken = dict.fromkeys(Bank, 0)  # places of resident lines, and of those on their way
        self._loose = dict.fromkeys(Bank, 0)  # resident lines that nobody holds

    # What is asked

    def __contains__(self, line: int) -> bool:
        return bool(self._state[line - self._first_line] >= _FIRST_RESIDENT)

    def bank(self, line: int) -> Bank | None:
        state = int(self._state[line - self._first_line])
        return next((bank for bank in Bank if state == _RESIDENT[bank]), None)

    def lines(self, bank: Bank) -> list[int]:
        found: list[int] = (self._by_use(np.flatnonzero(self._state == _RESIDENT[bank])) + self._first_line).tolist()
        return found

    def free(self, bank: Bank) -> int:
        return self.capacity(bank) - self._taken[bank]

    def collectable(self, bank: Bank) -> int:
        return self._loose[bank]

    def least_recent(self, bank: Bank, count: int) -> list[int]:
        found: list[int] = self.loose_lines(bank)[:count].tolist() if count else []
        return found

    def is_held(self, line: int) -> bool:
        return bool(self._held[line - self._first_line])

    def are_resident(self, lines: Lines) -> npt.NDArray[np.bool_]:
        return np.asarray(self._state[self._places(lines)] >= _FIRST_RESIDENT)

    def are_in(self, bank: Bank, lines: Lines) -> npt.NDArray[np.bool_]:
        return np.asarray(self._state[self._places(lines)] == _RESIDENT[bank])

    def are_held(self, lines: Lines) -> npt.NDArray[np.bool_]:
        return self._held[self._places(lines)] > 0

    def loose_lines(self, bank: Bank) -> npt.NDArray[np.int64]:
        loose = np.flatnonzero((self._state == _RESIDENT[bank]) & (self._held == 0))
        return self._by_use(loose) + self._first_line

    # What happens

    def hold(self, lines: Iterable[int] | Lines) -> None:
        places = self._places(lines)
        self._count_loose(places[self._held[places] == 0], -1)
        self._held[places] += 1

    def release(self, lines: Iterable[int] | Lines) -> None:
        places = self._places(lines)
        if not (self._held[places] > 0).all():
            line = self._first_line + int(places[self._held[places] == 0][0])
            raise ValueError(f"line {line:#x} is not held")
        self._held[places] -= 1
        self._count_loose(places[self._held[places] == 0], 1)

    def reserve(self, line: int, bank: Bank) -> None:
        place = line - self._first_line
        if self._state[place] != _FAR:
            raise ValueError(f"line {line:#x} has a place already")
        if not self.free(bank):
            raise ValueError(f"the {bank.name.lower()} bank is full: all {self.capacity(bank)} places are taken")
        self._state[place] = _COMING[bank]
        self._taken[bank] += 1

    def land(self, line: int) -> None:
        """Copy a line that was on its way; see `Residency.land`."""
        place = line - self._first_line
        bank = next((bank for bank in Bank if self._state[place] == _COMING[bank]), None)
        if bank is None:
            raise ValueError(f"line {line:#x} was not on its way")
        self._free -= 1
        self._place[place] = here = self._unused[self._free]
        self._near[here] = self._far[place]
        self._state[place] = _RESIDENT[bank]
        self._loose[bank] += not self._held[place]
        self._used[place] = self._uses
        self._uses += 1

    def bear(self, lines: Lines) -> None:
        """Copy lines that have just been written; see `Residency.bear`. None is taken in unless all can be."""
        places = self._places(lines)
        if (self._state[places] != _FAR).any():
            line = self._first_line + int(places[self._state[places] != _FAR][0])
            raise ValueError(f"line {line:#x} has a place already")
        if len(places) > self.free(Bank.DEMAND):
            raise ValueError(f"the demand bank is full: all {self.capacity(Bank.DEMAND)} places are taken")
        self._taken[Bank.DEMAND] += len(places)
        self._free -= len(places)
        self._place[places] = self._unused[self._free : self._free + len(places)]
        self._near[self._place[places]] = self._far[places]
        self._state[places] = _RESIDENT[Bank.DEMAND]
        self._count_loose(places[self._held[places] == 0], 1)
        self._note_use(places)

    def use(self, line: int) -> None:
        self.use_all(np.array([line]))

    def use_all(self, lines: Lines) -> None:
        places = self._places(lines)
        self._note_use(places[self._state[places] >= _FIRST_RESIDENT])

    def promote(self, line: int) -> None:
        places = np.array([line - self._first_line])
        if self._state[places[0]] != _RESIDENT[Bank.PREFETCH]:
            raise ValueError(f"line {line:#x} is not in the prefetch bank")
        if not self.free(Bank.DEMAND):
            raise ValueError(f"the demand bank is full: all {self.capacity(Bank.DEMAND)} places are taken")
        loose = places[self._held[places] == 0]
        self._count_loose(loose, -1)
        self._state[places] = _RESIDENT[Bank.DEMAND]
        self._count_loose(loose, 1)
        self._taken[Bank.PREFETCH] -= 1
        self._taken[Bank.DEMAND] += 1
        self._note_use(places)

    def collect(self, line: int) -> None:
        """Forget the copy of a line; see `Residency.collect`."""
        self.collect_all(np.array([line]))

    def collect_all(self, lines: Lines) -> None:
        """Forget the copies of lines; see `Residency.collect`. None is forgotten unless all can be."""
        places = self._places(lines)
        for fault, wrong in (("not resident", self._state[places] < _FIRST_RESIDENT), ("held", self._held[places] > 0)):
            if wrong.any():
                raise ValueError(f"line {self._first_line + int(places[wrong][0]):#x} is {fault}")
        self._count_loose(places, -1)
        for bank in Bank:
            self._taken[bank] -= int((self._state[places] == _RESIDENT[bank]).sum())
        self._state[places] = _FAR
        self._unused[self._free : self._free + len(places)] = self._place[places]
        self._free += len(places)
        self._place[places] = -1

    # The data

    def is_resident(self, lines: Places) -> npt.NDArray[np.bool_]:
        """Of each line, whether it is resident; lines by their place in the stream, as below."""
        return self._place[lines] >= 0

    def refresh(self, lines: Places) -> None:
        """Far memory was written to: copy what is resident of these lines."""
        here = lines[self.is_resident(lines)]
        self._near[self._place[here]] = self._far[here]

    def gather(self, lines: Places) -> Bytes:
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

    # The machinery

    def _places(self, lines: Iterable[int] | Lines) -> Places:
        given = lines if isinstance(lines, np.ndarray) else np.array(list(lines), np.int64)
        return given.astype(np.int64) - self._first_line

    def _by_use(self, places: Places) -> Places:
        return places[np.argsort(self._used[places])]

    def _note_use(self, places: Places) -> None:
        self._used[places] = self._uses + np.arange(len(places))
        self._uses += len(places)

    def _count_loose(self, places: Places, by: int) -> None:
        """Count lines in or out that nobody holds; those that are not resident are none of these."""
        states = self._state[places]
        for bank in Bank:
            self._loose[bank] += by * int(np.count_nonzero(states == _RESIDENT[bank]))
