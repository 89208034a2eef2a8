"""Fast memory's bookkeeping: places, order of use, holds; and its laws under any sequence of operations.

One contract, two implementations: the driver's, of any lines, and the runtime's, in arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kv_asu_firmware.residency import Bank, Residency
from vrex.runtime.near_memory import NearMemory

Make = Callable[..., Residency]


def near_memory(demand: int, prefetch: int = 0) -> NearMemory:
    return NearMemory(np.zeros((10, 256), np.uint8), 0, demand, prefetch)


@pytest.fixture(params=[Residency, near_memory], ids=["residency", "near_memory"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def filled(make: Make, demand: int, *lines: int, prefetch: int = 2) -> Residency:
    residency = make(demand, prefetch)
    for line in lines:
        residency.reserve(line, Bank.DEMAND)
        residency.land(line)
    return residency


def test_a_line_takes_its_place_when_it_is_queued_and_is_resident_when_it_lands(make: Make) -> None:
    residency = make(2)
    residency.reserve(7, Bank.DEMAND)
    assert (7 in residency, residency.free(Bank.DEMAND), residency.collectable(Bank.DEMAND)) == (False, 1, 0)
    residency.land(7)
    assert (7 in residency, residency.free(Bank.DEMAND), residency.collectable(Bank.DEMAND)) == (True, 1, 1)
    assert residency.bank(7) is Bank.DEMAND


def test_use_makes_a_line_the_last_to_go(make: Make) -> None:
    residency = filled(make, 3, 1, 2, 3)
    residency.use(1)
    assert residency.lines(Bank.DEMAND) == [2, 3, 1]
    assert residency.least_recent(Bank.DEMAND, 2) == [2, 3]


def test_a_held_line_is_passed_over_until_it_is_released_as_often(make: Make) -> None:
    residency = filled(make, 3, 1, 2, 3)
    residency.hold([1, 2])
    residency.hold([1])
    assert (residency.least_recent(Bank.DEMAND, 9), residency.collectable(Bank.DEMAND)) == ([3], 1)
    residency.release([1, 2])
    assert residency.least_recent(Bank.DEMAND, 9) == [2, 3]
    with pytest.raises(ValueError, match="line 0x1 is held"):
        residency.collect(1)
    residency.release([1])
    residency.collect(1)
    assert 1 not in residency


def test_promotion_frees_the_place_in_the_prefetch_bank(make: Make) -> None:
    residency = filled(make, 2, 1)
    residency.reserve(5, Bank.PREFETCH)
    residency.land(5)
    assert residency.bank(5) is Bank.PREFETCH
    residency.promote(5)
    assert residency.lines(Bank.DEMAND) == [1, 5]
    assert residency.free(Bank.PREFETCH) == 2


def test_what_cannot_be_is_refused(make: Make) -> None:
    residency = filled(make, 1, 1)
    with pytest.raises(ValueError, match="demand bank is full: all 1 places"):
        residency.reserve(2, Bank.DEMAND)
    with pytest.raises(ValueError, match="0x1 has a place already"):
        residency.reserve(1, Bank.PREFETCH)
    residency.reserve(3, Bank.PREFETCH)
    with pytest.raises(ValueError, match="0x3 has a place already"):
        residency.reserve(3, Bank.DEMAND)
    with pytest.raises(ValueError, match="0x3 is not resident"):
        residency.collect(3)
    residency.land(3)
    with pytest.raises(ValueError, match="demand bank is full"):
        residency.promote(3)
    with pytest.raises(ValueError, match="0x1 is not in the prefetch bank"):
        residency.promote(1)
    with pytest.raises(ValueError, match="0x9 was not on its way"):
        residency.land(9)
    with pytest.raises(ValueError, match="0x1 is not held"):
        residency.release([1])
    with pytest.raises(TypeError, match="demand_lines must be an integer, not 'x'"):
        Residency("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="demand_lines must be at least 1, not 0"):
        make(0)
    with pytest.raises(ValueError, match="prefetch_lines must be at least 0, not -1"):
        make(1, -1)


class Laws(RuleBasedStateMachine):
    """Against lists and sets that are searched from end to end."""

    LINES = st.integers(0, 9)
    RUNS = st.lists(LINES, unique=True, max_size=5).map(lambda lines: np.array(lines, np.uint64))
    make: Make = staticmethod(Residency)

    def __init__(self) -> None:
        super().__init__()
        self.residency = self.make(4, 2)
        self.order: dict[Bank, list[int]] = {bank: [] for bank in Bank}
        self.coming: dict[Bank, set[int]] = {bank: set() for bank in Bank}
        self.held: list[int] = []

    def has_place(self, line: int) -> bool:
        return any(line in self.order[bank] or line in self.coming[bank] for bank in Bank)

    def full(self, bank: Bank) -> bool:
        return len(self.order[bank]) + len(self.coming[bank]) == (4, 2)[bank]

    @rule(line=LINES, bank=st.sampled_from(Bank))
    def reserve(self, line: int, bank: Bank) -> None:
        if self.has_place(line) or self.full(bank):
            with pytest.raises(ValueError, match=r"place"):
                self.residency.reserve(line, bank)
        else:
            self.residency.reserve(line, bank)
            self.coming[bank].add(line)

    @rule(line=LINES)
    def land(self, line: int) -> None:
        for bank in Bank:
            if line in self.coming[bank]:
                self.residency.land(line)
                self.coming[bank].remove(line)
                self.order[bank].append(line)
                return
        with pytest.raises(ValueError, match="on its way"):
            self.residency.land(line)

    @rule(line=LINES)
    def use(self, line: int) -> None:
        self.residency.use(line)
        for order in self.order.values():
            if line in order:
                order.remove(line)
                order.append(line)

    @rule(line=LINES)
    def hold(self, line: int) -> None:
        self.residency.hold([line])
        self.held.append(line)

    @rule(line=LINES)
    def release(self, line: int) -> None:
        if line in self.held:
            self.residency.release([line])
            self.held.remove(line)

    @rule(line=LINES)
    def collect(self, line: int) -> None:
        bank = next((bank for bank in Bank if line in self.order[bank]), None)
        if bank is None or line in self.held:
            with pytest.raises(ValueError, match=r"resident|held"):
                self.residency.collect(line)
        else:
            self.residency.collect(line)
            self.order[bank].remove(line)

    @rule(lines=RUNS)
    def use_all(self, lines: np.ndarray) -> None:
        self.residency.use_all(lines)
        for line in lines.tolist():
            for order in self.order.values():
                if line in order:
                    order.remove(line)
                    order.append(line)

    @rule(lines=RUNS)
    def hold_and_release(self, lines: np.ndarray) -> None:
        self.residency.hold(lines)
        self.held += lines.tolist()
        self.agrees()
        self.residency.release(lines)
        for line in lines.tolist():
            self.held.remove(line)

    @rule(lines=RUNS)
    def bear(self, lines: np.ndarray) -> None:
        new = [line for line in lines.tolist() if not self.has_place(line)]
        free = 4 - len(self.order[Bank.DEMAND]) - len(self.coming[Bank.DEMAND])
        self.residency.bear(np.array(new[:free], np.uint64))
        self.order[Bank.DEMAND] += new[:free]

    @rule(lines=RUNS)
    def collect_all(self, lines: np.ndarray) -> None:
        resident = [line for order in self.order.values() for line in order]
        gone = [line for line in lines.tolist() if line in resident and line not in self.held]
        self.residency.collect_all(np.array(gone, np.uint64))
        for line in gone:
            for order in self.order.values():
                if line in order:
                    order.remove(line)

    @rule(line=LINES)
    def promote(self, line: int) -> None:
        if line in self.order[Bank.PREFETCH] and not self.full(Bank.DEMAND):
            self.residency.promote(line)
            self.order[Bank.PREFETCH].remove(line)
            self.order[Bank.DEMAND].append(line)

    @invariant()
    def agrees(self) -> None:
        every = np.arange(10, dtype=np.uint64)
        for bank in Bank:
            order = self.order[bank]
            assert self.residency.lines(bank) == order
            assert self.residency.free(bank) == (4, 2)[bank] - len(order) - len(self.coming[bank]) >= 0
            loose = [line for line in order if line not in self.held]
            assert self.residency.collectable(bank) == len(loose)
            assert self.residency.least_recent(bank, 3) == loose[:3]
            assert self.residency.loose_lines(bank).tolist() == loose
            assert self.residency.are_in(bank, every).tolist() == [line in order for line in range(10)]
        assert [line in self.residency for line in range(10)] == [
            any(line in order for order in self.order.values()) for line in range(10)
        ]
        assert self.residency.are_resident(every).tolist() == [line in self.residency for line in range(10)]
        assert self.residency.are_held(every).tolist() == [line in self.held for line in range(10)]
        assert [self.residency.is_held(line) for line in range(10)] == [line in self.held for line in range(10)]


class ArrayLaws(Laws):
    """The same of the runtime's."""

    make = staticmethod(near_memory)


TestLaws = Laws.TestCase
TestArrayLaws = ArrayLaws.TestCase
TestLaws.settings = TestArrayLaws.settings = settings(
    deadline=None, derandomize=True, max_examples=60, stateful_step_count=40
)
