"""A compiled core whose answers are held against the golden model as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from kv_asu.params import Params
from kv_asu.register_map import VictimStatus
from kv_asu_firmware.golden import Answer, KvAsuGolden, Query, Settings, Tag, Victim
from kv_asu_sim.compiled import CompiledCore


class Mismatch(Exception):
    """Core and golden model differ; the text is one line that names the operation, the field and both values."""


class CheckedCore:
    """A core and, until enough requests are checked, the golden model in step with it.

    The model is given each operation L clocks after the core, as the contract has it, so time itself is checked too: a
    line that is older by a tick on one side shows as another T-level.

    Parameters
    ----------
    params : Params
        The build.
    check : int
        Requests to check; then the model is left behind and the core runs alone.

    Attributes
    ----------
    core : CompiledCore
        For register accesses.
    checked : int
        Requests checked so far.
    core_seconds, golden_seconds : float
        Time spent in each; they overlap.
    """

    def __init__(self, params: Params, check: int) -> None:
        self.core = CompiledCore(params)
        self.checked = 0
        self.core_seconds = self.golden_seconds = 0.0
        self._check = check
        self._golden: KvAsuGolden | None = None
        self._checker = ThreadPoolExecutor(1)
        self._checking: Future[None] | None = None
        self._next = 0  # the clock that the model takes next, counted as the core's

    @property
    def golden(self) -> KvAsuGolden | None:
        """The model as of the core's last clock; None when it is not in step any more."""
        self._settle()
        if self._golden is not None:
            self._golden.idle(self.core.clock - self._next)
            self._next = self.core.clock
        return self._golden

    def activate(self, settings: Settings, enabled_at: int) -> int:
        """Start the model; tell the first clock in which operations are decided.

        Parameters
        ----------
        settings : Settings
            What the registers were set to.
        enabled_at : int
            The clock in which CTRL.ENABLE was written; emptying the table takes a clock a row, and L + 3.
        """
        params = self.core.params
        self._golden = KvAsuGolden(params)
        self._golden.settings = settings
        self._golden.activate()
        rows = (1 << settings.log2_active) // params.window
        self._next = enabled_at + rows + params.latency + 3
        return self._next

    def request(self, addresses: NDArray[np.uint64], at: NDArray[np.uint64]) -> NDArray[np.void]:
        """As `CompiledCore.request`.

        The answers are checked while the core, which leaves the interpreter free, runs on: one that differs raises
        Mismatch in the next call of any kind.
        """
        with self._timed():
            tags = self.core.request(addresses, at)
        self._settle()
        if self._golden is not None:
            decided = at.astype(np.int64) + self.core.params.latency
            self._checking = self._checker.submit(self._check_requests, self._golden, addresses, decided, tags)
        return tags

    def _check_requests(
        self, golden: KvAsuGolden, addresses: NDArray[np.uint64], decided: NDArray[np.int64], tags: NDArray[np.void]
    ) -> None:
        started = time.perf_counter()
        count = min(len(addresses), self._check - self.checked)
        due = self._next
        rows = zip(addresses[:count].tolist(), decided[:count].tolist(), tags[:count].tolist(), strict=True)
        for number, (address, clock, got) in enumerate(rows):
            if clock != due:
                golden.idle(clock - due)
            wanted = golden.clock(address).tag
            if wanted != got:
                raise _mismatch(f"request {self.checked + number + 1} to {address:#x}", Tag, got, wanted)
            due = clock + 1
        self._next = due
        self.checked += count
        self.golden_seconds += time.perf_counter() - started

    def _settle(self) -> None:
        """Wait until what was answered so far is checked; leave the model behind when that is enough."""
        if self._checking is not None:
            checking, self._checking = self._checking, None
            checking.result()
            if self.checked >= self._check:
                self._golden = None

    def query_lines(self, addresses: NDArray[np.uint64]) -> NDArray[np.void]:
        """As `CompiledCore.query_lines`; raises Mismatch at the first answer that differs."""
        first = self.core.clock
        with self._timed():
            answers = self.core.query_lines(addresses)
        golden = self._golden_at(first)
        if golden is not None:
            for address, got in zip(addresses.tolist(), answers.tolist(), strict=True):
                wanted = golden.clock(query=Query(address)).answer
                if wanted is None or wanted[: len(got)] != got:
                    raise _mismatch(f"query of {address:#x}", Answer, got, wanted)
            self._next += len(addresses)
        return answers

    def evict(self, count: int) -> NDArray[np.void]:
        """As `CompiledCore.evict`; raises Mismatch at the first victim that differs or RETRY that may not be."""
        first = self.core.clock
        with self._timed():
            victims = self.core.evict(count)
        golden = self._golden_at(first)
        if golden is not None:
            for got in victims.tolist():
                retry = got[0] == VictimStatus.RETRY
                wanted = golden.clock(evict=True, evict_retry=retry).victim
                if wanted != got:
                    raise _mismatch("evict", Victim, got, wanted)
                if retry and not golden.retry_allowed():
                    raise Mismatch("evict: victim_status is RETRY, but the tail was not touched lately")
            self._next += count
        return victims

    def _golden_at(self, accepted: int) -> KvAsuGolden | None:
        """The model just before the clock in which an operation is decided that the core took in clock ``accepted``."""
        self._settle()
        if self._golden is not None:
            decided = accepted + self.core.params.latency
            self._golden.idle(decided - self._next)
            self._next = decided
        return self._golden

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.core_seconds += time.perf_counter() - started


def _mismatch(operation: str, kind: type[Tag | Answer | Victim], got: tuple, wanted: tuple | None) -> Mismatch:
    wrong = [
        f"{field} is {int(is_):#x}, expected {int(should):#x}"
        for field, is_, should in zip(kind._fields, got, wanted or (), strict=False)
        if is_ != should
    ]
    return Mismatch(f"{operation}: {', '.join(wrong)}")
