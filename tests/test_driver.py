"""NV_KV_RETRIEVE: errors and their order, what each kind of request does and takes, and what no buffer may cause."""

from __future__ import annotations

import array
import errno
import mmap
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from golden_bus import GoldenBus
from kv_asu.params import Params
from kv_asu_firmware.dma import DmaEngine, DmaParams
from kv_asu_firmware.driver import CLOCK_NS, Driver, Request, Retrieval, lines_of
from kv_asu_firmware.residency import Bank, Residency
from kv_asu_firmware.retrieve_abi import (
    NO_PATCH,
    NV_KV_RETRIEVE,
    RETRIEVE,
    Flag,
    Kind,
    Status,
    new_buffer,
    read_reply,
)
from round_numbers import ROUND, S
from vrex.trace.address_map import AddressMap

anytime = settings(deadline=None, derandomize=True)


#: Two layers, three heads, one line a token.
KV = AddressMap(layers=2, heads=3, head_size=64, max_tokens=64, bases=(0x8000_0000, 0x9000_0000))

#: One line alone takes 10 + 1000 + 256 ns, each that follows on the link 256 ns more.
ONE_FILL = 10 + 1000 + 256


def line(token: int, layer: int = 0, head: int = 0, stream: int = 0, kv: AddressMap = KV) -> int:
    return int(kv.address(layer, head, token, stream)) >> 8


def asking(lines: int) -> int:
    """Nanoseconds that questions take: one a clock, and the latency, 1."""
    return (lines + 1) * CLOCK_NS


evicting = asking


class Board:
    """A driver over the golden model, and short ways to use it."""

    def __init__(
        self,
        kv: AddressMap = KV,
        demand: int = 16,
        prefetch: int = 4,
        core: Params | None = None,
        line_shift: int = 8,
        timeout_ns: int = S,
        dma: DmaParams = ROUND,
        **core_settings: int,
    ) -> None:
        # A tick of 1024 clocks: nothing expires in a test that does not wait for it.
        core_settings = {"tick_shift": 10, "line_shift": line_shift} | core_settings
        self.core = GoldenBus(core or Params(log2_entries=6, window=8), **core_settings)
        self.env = simpy.Environment()
        self.dma = DmaEngine(self.env, dma)
        self.residency = Residency(demand, prefetch)
        self.driver = Driver(self.core, kv, self.residency, self.dma, line_shift=line_shift, timeout_ns=timeout_ns)
        self.fd = self.driver.open()

    def retrieve(self, room: int = 64, **fields: int) -> tuple[np.void, list[int]]:
        buffer = new_buffer(room, **fields)
        assert self.driver.ioctl(self.fd, NV_KV_RETRIEVE, buffer) == 0
        struct, status = read_reply(buffer)
        assert struct["lines"] == len(status)
        assert struct["hits"] == sum(bool(byte & Status.RESIDENT) for byte in status)
        assert struct["queued"] == sum(bool(byte & Status.QUEUED) for byte in status)
        return struct, status.tolist()

    def fails(self, code: int, buffer: Any = None, request: int = NV_KV_RETRIEVE, **fields: int) -> str:
        """Check that a call fails, with the buffer as it was; returns what it says."""
        buffer = new_buffer(64, **fields) if buffer is None else buffer
        before = bytes(buffer) if isinstance(buffer, (bytearray, bytes)) else None
        with pytest.raises(OSError, match=r".+") as caught:
            self.driver.ioctl(self.fd, request, buffer)
        assert caught.value.errno == code, caught.value
        assert before is None or bytes(buffer) == before
        return str(caught.value)

    def touch(self, lines: Iterable[int], times: int = 1) -> None:
        """Traffic of the GPU."""
        for _ in range(times):
            self.core.observe(np.array(list(lines), np.uint64) << np.uint64(8))

    def settle(self, ns: int = 100_000) -> None:
        """Let time pass, with nothing going on but what is queued."""
        self.env.run(until=int(self.env.now) + ns)

    @property
    def idle(self) -> bool:
        """Nothing is queued, on its way or held."""
        return not self.dma.depth and all(
            self.residency.collectable(bank) == len(self.residency.lines(bank)) for bank in Bank
        )


TRACKED, RESIDENT, QUEUED = int(Status.TRACKED), int(Status.RESIDENT), int(Status.QUEUED)


def calls_in_threads(calls: list[Callable[[], object]]) -> list[object]:
    """What each call returns, or the errors it ends in; threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(calls)) as threads:
            return [done.exception() or done.result() for done in [threads.submit(call) for call in calls]]
    finally:
        sys.setswitchinterval(before)


# Descriptors


def test_descriptors_are_never_used_twice() -> None:
    board = Board()
    first, second = board.driver.open(), board.driver.open()
    board.driver.close(first)
    assert board.driver.open() not in (board.fd, first, second)
    for call in (lambda: board.driver.close(first), lambda: board.driver.ioctl(first, NV_KV_RETRIEVE, new_buffer(1))):
        with pytest.raises(OSError, match="not open") as caught:
            call()
        assert caught.value.errno == errno.EBADF


# Errors


def test_threads_take_turns() -> None:
    """Each its own descriptor, and lines that are fetched, shared and collected meanwhile."""
    board = Board(demand=8)

    def run(seed: int) -> int:
        descriptor = board.driver.open()
        for call in range(60):
            buffer = new_buffer(64, first_token=(7 * call + seed) % 60, token_count=3, flags=call % 2)
            try:
                board.driver.ioctl(descriptor, NV_KV_RETRIEVE, buffer)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    raise
        board.driver.close(descriptor)
        return descriptor

    results = calls_in_threads([partial(run, seed) for seed in range(4)])
    assert sorted(map(str, results)) == ["4", "5", "6", "7"]
    board.settle()
    assert board.idle


def test_a_wrong_request_code() -> None:
    board = Board()
    for request in (0, NV_KV_RETRIEVE + 1, NV_KV_RETRIEVE ^ 1 << 30, -1):
        assert "0xc0484b01" in board.fails(errno.ENOTTY, request=request)


def test_an_inactive_core() -> None:
    board = Board()
    board.core.enable(False)
    assert "not active" in board.fails(errno.ENODEV)
    assert board.driver.open() > board.fd  # opens all the same
    board.core.enable(True)
    board.retrieve()
    board.core.model.power_good = False
    board.fails(errno.ENODEV)


@pytest.mark.parametrize("size", [0, 1, 71])
def test_a_buffer_shorter_than_the_struct(size: int) -> None:
    assert "72 bytes or more" in Board().fails(errno.EFAULT, bytearray(size))


def test_a_buffer_without_room_for_every_status_byte() -> None:
    board = Board()
    assert "needs 76 bytes, not 75" in board.fails(errno.EFAULT, new_buffer(3, token_count=4))
    board.retrieve(room=4, token_count=4)


@pytest.mark.parametrize(
    "buffer",
    [
        bytes(new_buffer(1)),
        memoryview(new_buffer(1)).toreadonly(),
        memoryview(bytearray(300))[::2],
        None,
        7,
        "text" * 40,
        [0] * 100,
    ],
    ids=["bytes", "read-only view", "every other byte", "None", "int", "str", "list"],
)
def test_what_is_no_writable_buffer(buffer: Any) -> None:
    board = Board()
    with pytest.raises(OSError, match="buffer") as caught:
        board.driver.ioctl(board.fd, NV_KV_RETRIEVE, buffer)
    assert caught.value.errno == errno.EFAULT


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"version": 0}, "version must be 1, not 0"),
        ({"version": 2}, "version must be 1, not 2"),
        ({"size": 135}, "size must be the buffer's, 136, not 135"),
        ({"kind": 0}, "kind must be 1 to 3, not 0"),
        ({"kind": 4}, "kind must be 1 to 3, not 4"),
        ({"min_tlevel": 4}, "min_tlevel must be 0 to 3, not 4"),
        ({"flags": 8}, "flags must be within 0x7, not 0x8"),
        ({"flags": 0x8001}, "flags must be within 0x7, not 0x8001"),
        ({"stream": 2}, "stream must be 0 to 1, not 2"),
        ({"layer": 2}, "layer must be 0 to 1, not 2"),
        ({"head": 3}, "head must be 0 to 2, not 3"),
        ({"first_token": 64}, "first_token must be 0 to 63, not 64"),
        ({"token_count": 0}, "token_count must be 1 to 64, not 0"),
        ({"first_token": 60, "token_count": 5}, "token_count must be 1 to 4, not 5"),
        ({"first_token": 1, "token_count": 0xFFFFFFFF}, "token_count must be 1 to 63, not 4294967295"),
        ({"reserved": 1}, "reserved fields must be 0"),
    ],
)
def test_what_is_out_of_range(fields: dict[str, int], message: str) -> None:
    buffer = new_buffer(64, token_count=1)
    struct = np.frombuffer(buffer, RETRIEVE, count=1)
    for name, value in fields.items():
        struct[name] = [0, value] if name == "reserved" else value
    assert message in Board().fails(errno.EINVAL, buffer)


def test_a_size_beyond_the_buffer() -> None:
    assert "136 bytes, not the 137" in Board().fails(errno.EFAULT, size=137)
    assert "136 bytes, not the 137" in Board().fails(errno.EFAULT, size=137, version=2)


def test_the_first_error_in_the_documented_order_is_told() -> None:
    """Everything is wrong at once; putting it right from the front lets each error show in turn."""
    board = Board(demand=2, timeout_ns=5)
    board.core.enable(False)
    buffer: Any = bytes(10)
    seen: list[str] = []

    def call(fd: int, request: int) -> None:
        with pytest.raises(OSError, match=r".+") as caught:
            board.driver.ioctl(fd, request, buffer)
        seen.append(errno.errorcode[caught.value.errno or 0])

    call(99, 0)
    call(board.fd, 0)
    call(board.fd, NV_KV_RETRIEVE)
    board.core.enable(True)
    call(board.fd, NV_KV_RETRIEVE)
    buffer = new_buffer(1, token_count=3, head=9)
    call(board.fd, NV_KV_RETRIEVE)
    buffer = new_buffer(1, token_count=3)
    call(board.fd, NV_KV_RETRIEVE)
    buffer = new_buffer(3, token_count=3)
    call(board.fd, NV_KV_RETRIEVE)
    buffer = new_buffer(1, token_count=1)
    call(board.fd, NV_KV_RETRIEVE)
    assert seen == [
        "EBADF",
        "ENOTTY",
        "ENODEV",
        "EFAULT",
        "EINVAL",
        "EFAULT",
        "ENOMEM",
        "ETIMEDOUT",
    ]


def test_no_wait_with_too_few_queue_entries() -> None:
    board = Board(dma=replace(ROUND, queue_bursts=2))
    every_other = [line(token) for token in range(0, 8, 2)]
    board.driver.admit(every_other)  # so that the missing ones do not merge
    assert "2 of 2 entries left, not 4" in board.fails(errno.EAGAIN, token_count=8, flags=Flag.NO_WAIT)
    assert board.idle
    struct, _ = board.retrieve(token_count=4, flags=Flag.NO_WAIT)
    assert struct["queued"] == 2
    board.fails(errno.EAGAIN, first_token=5, flags=Flag.NO_WAIT)
    # What is on its way needs no entry, and what is resident neither.
    struct, _ = board.retrieve(token_count=5, flags=Flag.NO_WAIT)
    assert (struct["hits"], struct["queued"]) == (3, 2)
    # Waiting for entries is what a call without NO_WAIT does, however many it needs.
    struct, _ = board.retrieve(token_count=8)
    assert struct["queued"] == 4
    assert board.idle


def test_a_request_that_no_bank_can_hold() -> None:
    board = Board(demand=4, prefetch=2)
    assert "4 places, not the 5 to fetch and 0 to keep" in board.fails(errno.ENOMEM, token_count=5)
    board.driver.admit([line(0), line(1)])
    assert "not the 3 to fetch and 2 to keep" in board.fails(errno.ENOMEM, token_count=5)
    assert "prefetch bank has 2 places" in board.fails(errno.ENOMEM, token_count=5, flags=Flag.PREFETCH)
    assert board.idle
    board.retrieve(token_count=4)


def test_a_wait_ends_at_the_timeout_and_the_fill_lands_all_the_same() -> None:
    board = Board(timeout_ns=1000)
    board.touch([line(1)])
    message = board.fails(errno.ETIMEDOUT, token_count=2)
    assert "1000 ns" in message
    assert line(0) not in board.residency
    board.settle()
    assert line(0) in board.residency
    assert board.core.touches[-2:] == [line(0), line(1)]
    assert board.idle


def test_the_timeout_is_exact() -> None:
    needed = asking(1) + ONE_FILL
    Board(timeout_ns=needed + 1).retrieve()
    Board(timeout_ns=needed).fails(errno.ETIMEDOUT)


# Which lines


@pytest.mark.parametrize(
    ("head_size", "kind", "expected"),
    [
        (64, Kind.K, [0, 1, 2]),  # 256 B a token: K and V share its line
        (64, Kind.V, [0, 1, 2]),
        (16, Kind.BOTH, [0]),  # 64 B a token: four tokens a line; tokens 0 to 2
        (128, Kind.K, [0, 2, 4]),  # 512 B a token: a line of K, a line of V
        (128, Kind.V, [1, 3, 5]),
        (128, Kind.BOTH, [0, 1, 2, 3, 4, 5]),
        (100, Kind.K, [0, 2, 4]),  # 200 B of K, 200 B of V in 512: V begins in the first line
        (100, Kind.V, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_the_lines_of_a_request(head_size: int, kind: Kind, expected: list[int]) -> None:
    kv = AddressMap(layers=1, heads=1, head_size=head_size, max_tokens=8, bases=(0,))
    assert lines_of(kv, Request(token_count=3, kind=kind)).tolist() == expected


@anytime
@given(
    st.integers(1, 300),
    st.sampled_from(["fp16", "fp32"]),
    st.sampled_from(Kind),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_lines_are_those_of_every_byte(head_size: int, dtype: str, kind: Kind, first: int, tokens: int) -> None:
    kv = AddressMap(layers=2, heads=2, head_size=head_size, max_tokens=40, dtype=dtype)
    size = kv.token_bytes
    part = {Kind.K: range(size // 2), Kind.V: range(size // 2, size), Kind.BOTH: range(size)}[kind]
    starts = kv.address(1, 1, np.arange(first, first + tokens)).tolist()
    lines_read = {start + at >> 8 for start in starts for at in part}
    request = Request(layer=1, head=1, first_token=first, token_count=tokens, kind=kind)
    assert lines_of(kv, request).tolist() == sorted(lines_read)


# What a request does


def test_hits_cost_one_clock_each_and_touch_nothing() -> None:
    board = Board()
    lines = [line(token, layer=1, head=2, stream=1) for token in range(5)]
    board.driver.admit(lines)
    struct, status = board.retrieve(stream=1, layer=1, head=2, token_count=5)
    assert struct["device_time_ns"] == asking(5) == 12
    assert status == [RESIDENT] * 5
    assert board.core.touches == []
    assert board.core.model.golden.counters["queries"] == 5


def test_a_hit_is_a_resident_line_at_whatever_tlevel() -> None:
    board = Board()
    for token, touches in enumerate([0, 1, 3, 5]):
        board.touch([line(token), line(token + 4)], touches)
    board.driver.admit(line(token) for token in range(4))
    struct, status = board.retrieve(token_count=8, min_tlevel=3, flags=Flag.NO_WAIT)
    levels = [0, TRACKED | 1, TRACKED | 2, TRACKED | 3]
    assert status == [level | RESIDENT for level in levels] + [level | QUEUED for level in levels]
    assert (struct["hits"], struct["queued"]) == (4, 4)


def test_a_demand_waits_for_the_last_fill_and_touches_each_line_as_it_lands() -> None:
    board = Board()
    board.driver.admit([line(2)])
    struct, status = board.retrieve(token_count=4)
    # Two bursts: tokens 0 and 1, then 3, on the link one after the other.
    assert struct["device_time_ns"] == asking(4) + 10 + 1000 + 2 * 256 + 256
    assert status == [QUEUED, QUEUED, RESIDENT, QUEUED]
    assert board.core.touches == [line(0), line(1), line(3)]
    assert all(line(token) in board.residency for token in range(4))
    assert board.idle
    _, status = board.retrieve(token_count=4)
    assert status == [TRACKED | 1 | RESIDENT] * 2 + [RESIDENT] + [TRACKED | 1 | RESIDENT]


def test_no_wait_returns_when_the_fills_are_queued() -> None:
    board = Board()
    struct, status = board.retrieve(token_count=2, flags=Flag.NO_WAIT)
    assert struct["device_time_ns"] == asking(2)
    assert status == [QUEUED, QUEUED]
    assert board.core.touches == []
    # Asked for again meanwhile: not fetched twice.
    struct, status = board.retrieve(token_count=2, flags=Flag.NO_WAIT)
    assert status == [QUEUED, QUEUED]
    board.settle()
    assert board.core.touches == [line(0), line(1)]
    assert (board.dma.bursts, board.dma.bytes_moved) == (1, 512)
    assert board.idle


def test_a_demand_waits_for_what_is_on_its_way_already() -> None:
    board = Board()
    board.retrieve(token_count=1, flags=Flag.NO_WAIT)
    struct, _ = board.retrieve(token_count=1)
    # The second question is asked right behind the first; the fill was queued when that was answered.
    assert struct["device_time_ns"] == ONE_FILL
    assert board.core.touches == [line(0)]


def test_a_prefetch_fetches_what_is_warm_enough_and_touches_nothing() -> None:
    board = Board()
    board.touch([line(1), line(3)], 3)  # T-level 2
    board.touch([line(2)])  # T-level 1
    touches = list(board.core.touches)
    struct, status = board.retrieve(token_count=4, min_tlevel=2, flags=Flag.PREFETCH)
    assert status == [0, TRACKED | 2 | QUEUED, TRACKED | 1, TRACKED | 2 | QUEUED]
    assert struct["device_time_ns"] == asking(4) + ONE_FILL + 256
    assert board.residency.lines(Bank.PREFETCH) == [line(1), line(3)]
    assert board.residency.lines(Bank.DEMAND) == []
    assert board.core.touches == touches
    assert board.idle
    # With 0, all of them.
    board.retrieve(token_count=4, flags=Flag.PREFETCH)
    assert board.residency.lines(Bank.PREFETCH) == [line(token) for token in (1, 3, 0, 2)]
    assert board.core.touches == touches


def test_a_line_once_demanded_is_not_touched_when_a_prefetch_brings_it_back() -> None:
    board = Board()
    board.retrieve()
    board.residency.collect(line(0))
    board.retrieve(flags=Flag.PREFETCH)
    assert line(0) in board.residency
    assert board.core.touches == [line(0)]


def test_a_line_that_a_prefetch_leaves_out_is_told_as_queued_when_another_call_has() -> None:
    board = Board()
    board.retrieve(flags=Flag.NO_WAIT)
    _, status = board.retrieve(token_count=2, min_tlevel=1, flags=Flag.PREFETCH | Flag.NO_WAIT)
    assert status == [QUEUED, 0]


def test_a_demand_never_leaves_a_cold_line_out() -> None:
    board = Board()
    _, status = board.retrieve(token_count=2, min_tlevel=3)
    assert status == [QUEUED, QUEUED]
    assert line(0) in board.residency


def test_a_demanded_line_leaves_the_prefetch_bank() -> None:
    board = Board()
    board.retrieve(token_count=2, flags=Flag.PREFETCH)
    _, status = board.retrieve(token_count=1)
    assert status == [RESIDENT]
    assert (board.residency.lines(Bank.DEMAND), board.residency.lines(Bank.PREFETCH)) == ([line(0)], [line(1)])
    assert board.core.touches == []  # a hit


def test_demanding_a_line_on_its_way_to_the_prefetch_bank_hurries_and_touches_it() -> None:
    board = Board()
    board.driver.admit([line(1), line(3)])
    board.retrieve(token_count=5, flags=Flag.PREFETCH | Flag.NO_WAIT)  # tokens 0, 2, 4; 0 is in its set-up
    struct, status = board.retrieve(first_token=4)
    assert status == [QUEUED]
    assert struct["device_time_ns"] == 10 + 1000 + 2 * 256  # behind token 0 on the link, not behind token 2
    assert board.residency.bank(line(4)) is Bank.DEMAND
    assert board.core.touches == [line(4)]
    board.settle()
    assert board.residency.lines(Bank.PREFETCH) == [line(0), line(2)]


def test_a_demanded_line_goes_ahead_of_a_prefetch_also_while_it_waits_for_a_queue_entry() -> None:
    """16 bursts of 4 lines, 8 entries: the last burst has none when its line is demanded."""
    board = Board(prefetch=64)
    board.env.process(board.driver.nv_kvmem_retrieve(Request(token_count=64, flags=Flag.PREFETCH)))
    board.env.run(until=asking(64) + 5)  # the first is in its set-up
    assert (board.dma.depth, board.dma.free(Bank.PREFETCH)) == (8, 0)
    struct, status = board.retrieve(first_token=63)
    assert status == [QUEUED]
    assert struct["device_time_ns"] == 10 + 1000 + 2 * 1024 - 5  # behind the first on the link, and nothing else
    assert board.dma.bursts == 2
    assert board.core.touches == [line(63)]
    assert board.residency.bank(line(63)) is Bank.DEMAND
    board.settle()
    assert sorted(board.residency.lines(Bank.PREFETCH)) == [line(token) for token in range(63)]
    assert board.dma.free(Bank.DEMAND) == board.dma.free(Bank.PREFETCH) == ROUND.queue_bursts


def test_what_waits_for_an_entry_is_queued_in_turn() -> None:
    """The demanded ones first; a request without wait does not get in between."""
    board = Board(prefetch=64, demand=64, dma=replace(ROUND, queue_bursts=2))
    for first, count, flags in ((0, 24, Flag.PREFETCH), (32, 8, Flag.PREFETCH), (48, 16, 0)):
        board.env.process(board.driver.nv_kvmem_retrieve(Request(first_token=first, token_count=count, flags=flags)))
    board.env.run(until=asking(24) + asking(8) + asking(16) + 1)
    for first in (23, 35, 20):
        board.retrieve(first_token=first, flags=Flag.NO_WAIT)
    assert "has 0 of 2 entries left, not 1" in board.fails(
        errno.EAGAIN, first_token=40, flags=Flag.NO_WAIT | Flag.PREFETCH
    )
    board.settle()
    landed = board.core.touches
    assert landed == [line(token) for token in (*range(48, 64), 20, 23, 35)]
    assert board.dma.free(Bank.DEMAND) == board.dma.free(Bank.PREFETCH) == 2


# Room


def test_room_is_made_of_the_cores_coldest_lines() -> None:
    # Without ticks that last: T1.AGE is 125 ticks of 1 clock.
    board = Board(demand=3, tick_shift=0)
    board.touch([line(10), line(11), line(12)])
    board.driver.admit([line(12), line(11), line(10)])  # the driver's own order would take 12 first
    board.core.idle(200)
    struct, _ = board.retrieve(token_count=2)
    assert sorted(board.residency.lines(Bank.DEMAND)) == [line(0), line(1), line(12)]
    assert board.core.model.golden.counters["evictions"] == 2
    assert struct["device_time_ns"] == asking(2) + evicting(2) + 10 + 1000 + 512


def test_room_is_made_of_the_least_recently_used_when_no_line_is_cold() -> None:
    board = Board(demand=3)
    board.touch([line(10), line(11), line(12)])
    board.driver.admit([line(10), line(11), line(12)])
    board.retrieve(first_token=10)
    struct, _ = board.retrieve(token_count=2)
    assert board.residency.lines(Bank.DEMAND) == [line(10), line(0), line(1)]
    assert board.core.model.golden.counters["evictions"] == 0
    assert struct["device_time_ns"] == asking(2) + evicting(2) + 10 + 1000 + 512  # both answered EMPTY


def test_a_cold_line_that_is_not_resident_only_loses_its_slot() -> None:
    board = Board(demand=2, tick_shift=0)
    board.touch([line(20), line(21), line(10), line(11)])
    board.driver.admit([line(10), line(11)])
    board.core.idle(200)
    struct, _ = board.retrieve()
    # 20, 21 and 10 are taken from the table, one command each.
    assert board.core.model.golden.counters["evictions"] == 3
    assert struct["device_time_ns"] == asking(1) + 3 * evicting(1) + ONE_FILL
    assert board.residency.lines(Bank.DEMAND) == [line(11), line(0)]


def test_a_cold_block_is_collected_whole() -> None:
    board = Board(demand=4, line_shift=10, tick_shift=0)  # blocks of four lines
    board.touch([line(8)])
    board.driver.admit([line(8), line(9), line(12), line(11)])
    board.core.idle(200)
    board.retrieve()
    assert board.residency.lines(Bank.DEMAND) == [line(12), line(0)]


class Retrying(GoldenBus):
    """Answers RETRY to every evict command but each third, as a deep pipeline may for a while."""

    commands = 0

    def evict_lines(self, count: int) -> np.ndarray:
        answers = []
        for _ in range(count):
            self.commands += 1
            retry = self.commands % 3 != 0 or self.commands > 1000
            answers.append(np.array([(2, 0)], "u1,u8") if retry else super().evict_lines(1))
        self.idle(count)
        return np.concatenate([answer.astype([("victim_status", "u1"), ("victim_line", "u8")]) for answer in answers])


@pytest.mark.parametrize("for_ever", [False, True])
def test_an_evict_that_answers_retry_is_asked_again(for_ever: bool) -> None:
    board = Board(demand=2, tick_shift=0)
    core = Retrying(Params(log2_entries=6, window=8), tick_shift=0)
    board.core = board.driver.core = core
    board.touch([line(10), line(11)])
    board.driver.admit([line(11), line(10)])
    core.idle(200)
    core.commands = 1000 if for_ever else 0
    board.retrieve()
    # Least recently touched goes first; when the core has only RETRY to say, least recently retrieved.
    assert board.residency.lines(Bank.DEMAND) == [line(10 if for_ever else 11), line(0)]
    assert core.commands < 1100


def test_a_prefetch_never_displaces_a_demanded_line() -> None:
    board = Board(demand=2, prefetch=2)
    board.retrieve(token_count=2)
    board.retrieve(first_token=10, token_count=2, flags=Flag.PREFETCH)
    board.retrieve(first_token=20, token_count=1, flags=Flag.PREFETCH)
    assert board.residency.lines(Bank.DEMAND) == [line(0), line(1)]
    assert board.residency.lines(Bank.PREFETCH) == [line(11), line(20)]


def test_while_a_request_runs_its_lines_at_the_minimum_are_kept() -> None:
    board = Board(demand=3)
    board.driver.admit([line(0), line(1)])
    board.touch([line(1)], 3)  # T-level 2; token 0 is not even tracked
    board.retrieve(token_count=3, min_tlevel=2, flags=Flag.NO_WAIT)  # token 2 is on its way: the request runs
    assert "2 to fetch" not in board.fails(errno.EAGAIN, first_token=20, token_count=2, flags=Flag.NO_WAIT)
    board.retrieve(first_token=10, flags=Flag.NO_WAIT)
    assert line(0) not in board.residency  # below the minimum: collected
    assert line(1) in board.residency
    assert "hold the demand bank" in board.fails(errno.EAGAIN, first_token=11, flags=Flag.NO_WAIT)
    board.settle()
    board.retrieve(first_token=11)  # over: it may go now
    assert line(1) not in board.residency


def test_a_request_that_waits_for_room_gets_it_when_the_other_ends() -> None:
    board = Board(demand=2)
    board.retrieve(token_count=2, flags=Flag.NO_WAIT)
    struct, _ = board.retrieve(first_token=10, token_count=2)
    # Asked right behind the first, whose two lines land in one burst; then one evict each (none is cold), and its own.
    assert struct["device_time_ns"] == (10 + 1000 + 512) + evicting(2) + (10 + 1000 + 512)
    assert board.residency.lines(Bank.DEMAND) == [line(10), line(11)]


def test_waiting_for_room_ends_at_the_timeout() -> None:
    board = Board(demand=2, timeout_ns=5000)
    reading = board.env.run(until=board.env.process(board.driver.nv_kvmem_retrieve(Request(token_count=2))))
    assert isinstance(reading, Retrieval)
    began = int(board.env.now)
    board.fails(errno.ETIMEDOUT, first_token=10)
    assert 5000 <= int(board.env.now) - began <= 5000 + 10  # and what event time had to catch up
    reading.release()
    board.retrieve(first_token=10)
    assert board.idle


def test_admitting_more_than_there_is_room_for() -> None:
    board = Board(demand=3)
    board.driver.admit([line(0), line(1), line(1)])
    with pytest.raises(OSError, match="room for 3 lines, not 4") as caught:
        board.driver.admit(line(token) for token in range(10, 14))
    assert caught.value.errno == errno.ENOMEM
    assert board.residency.lines(Bank.DEMAND) == [line(0), line(1)]


# Boost

HOT = {"frame": 7, "patch_row": 4}


def heated(tlevel: int, **fields: int) -> Board:
    """Token 0 at a T-level and asked about, token 1 at T-level 1."""
    board = Board()
    board.driver.admit([line(0), line(1)])
    board.touch([line(0)], {1: 1, 2: 3, 3: 5}[tlevel])
    board.touch([line(1)])
    board.retrieve(**(HOT | fields))
    return board


@pytest.mark.parametrize("tlevel", [1, 2, 3])
@pytest.mark.parametrize("frame", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("patch_row", [3, 4])
def test_a_row_hot_in_the_frame_before_or_after_boosts(tlevel: int, frame: int, patch_row: int) -> None:
    _, status = heated(tlevel).retrieve(
        first_token=1, frame=frame, patch_row=patch_row, patch_column=9, flags=Flag.SPATIAL_BOOST
    )
    boosted = tlevel >= 2 and frame in (6, 8) and patch_row == 4
    assert status == [RESIDENT | TRACKED | 1 + boosted]


def test_without_the_flag_nothing_is_boosted() -> None:
    _, status = heated(3).retrieve(first_token=1, frame=8, patch_row=4)
    assert status == [RESIDENT | TRACKED | 1]


def test_rows_are_a_streams_own_and_shared_by_its_layers_and_heads() -> None:
    board = heated(3)
    for elsewhere in (line(0, stream=1), line(0, layer=1, head=2)):
        board.touch([elsewhere])
        board.driver.admit([elsewhere])
    _, other = board.retrieve(stream=1, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    _, same = board.retrieve(layer=1, head=2, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert (other, same) == ([RESIDENT | TRACKED | 1], [RESIDENT | TRACKED | 2])


def test_another_streams_heat_is_its_own() -> None:
    board = Board()
    there = line(0, stream=1)
    board.driver.admit([there])
    board.touch([there], 3)
    board.retrieve(stream=1, **HOT)
    _, status = board.retrieve(stream=1, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 3]


def test_heat_is_forgotten_when_the_stream_has_moved_on() -> None:
    board = heated(3)
    board.retrieve(frame=9, patch_row=0)
    _, status = board.retrieve(first_token=1, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 1]


def test_a_boost_does_not_heat_its_own_row() -> None:
    board = heated(2)
    # Token 1 is at T-level 1: boosted to 2 in frame 8, which must not make the row hot for frame 9.
    _, status = board.retrieve(first_token=1, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 2]
    _, status = board.retrieve(first_token=1, frame=9, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 1]
    # Token 0 is at T-level 2: that is hot, with the boost in the way or without.
    board.retrieve(frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    _, status = board.retrieve(first_token=1, frame=9, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 2]


def test_a_boost_lifts_no_line_that_is_not_tracked_and_none_above_3() -> None:
    board = heated(3)
    board.driver.admit([line(2)])
    _, status = board.retrieve(token_count=3, frame=8, patch_row=4, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 3, RESIDENT | TRACKED | 2, RESIDENT]


def test_text_has_no_row() -> None:
    board = heated(3, patch_row=NO_PATCH)
    _, status = board.retrieve(first_token=1, frame=8, patch_row=NO_PATCH, flags=Flag.SPATIAL_BOOST)
    assert status == [RESIDENT | TRACKED | 1]


def test_a_boost_counts_for_what_a_prefetch_fetches() -> None:
    board = Board()
    board.touch([line(0)], 3)
    board.touch([line(1)])
    board.driver.admit([line(0)])
    board.retrieve(**HOT)
    fields = {"first_token": 1, "patch_row": 4, "min_tlevel": 2}
    assert board.retrieve(frame=8, flags=Flag.PREFETCH, **fields)[1] == [TRACKED | 1]
    assert board.retrieve(frame=8, flags=Flag.PREFETCH | Flag.SPATIAL_BOOST, **fields)[1] == [TRACKED | 2 | QUEUED]


# Time


def test_a_sleeping_engine_adds_its_wake_up() -> None:
    board = Board()
    board.core.idle(5 * S // CLOCK_NS)
    struct, _ = board.retrieve()
    assert struct["device_time_ns"] == asking(1) + 7000 + ONE_FILL
    struct, _ = board.retrieve(first_token=9)
    assert struct["device_time_ns"] == asking(1) + ONE_FILL


def test_event_time_and_the_cores_clock_go_together() -> None:
    board = Board()
    start = board.core.clock
    board.retrieve(flags=Flag.NO_WAIT)
    board.core.idle(ONE_FILL // CLOCK_NS + 1)  # traffic elsewhere: meanwhile the fill lands
    _, status = board.retrieve()
    assert status == [TRACKED | 1 | RESIDENT]
    board.retrieve(first_token=30)
    behind = int(board.env.now) - (board.core.clock - start) * CLOCK_NS
    assert -20 <= behind <= 1  # ahead by the touch at the end, at most


def test_tlevels_fade_while_a_call_waits() -> None:
    # T1.AGE is 125 ticks of 1 clock, 250 ns: gone when the fill has come.
    board = Board(tick_shift=0)
    board.driver.admit([line(1)])
    board.touch([line(1)])
    _, before = board.retrieve(token_count=2)
    _, after = board.retrieve(first_token=1)
    assert (before, after) == ([QUEUED, RESIDENT | TRACKED | 1], [RESIDENT | TRACKED])


# Buffers


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        lambda content: memoryview(bytearray(content)),
        lambda content: array.array("B", content),
        lambda content: np.frombuffer(bytearray(content), np.uint8),
        lambda content: np.frombuffer(bytearray(content), np.dtype([("a", "<u4"), ("b", "<u8", (9,))])),
        lambda content: np.frombuffer(bytearray(content), np.uint16).reshape(2, -1),
    ],
    ids=["bytearray", "memoryview", "array", "ndarray", "structured", "2-d"],
)
def test_any_writable_buffer_will_do(make: Any) -> None:
    board = Board()
    board.driver.admit([line(token) for token in range(4)])
    buffer = make(new_buffer(4, token_count=4))
    assert board.driver.ioctl(board.fd, NV_KV_RETRIEVE, buffer) == 0
    struct, status = read_reply(memoryview(buffer).tobytes())
    assert struct["hits"] == 4
    assert status.tolist() == [RESIDENT] * 4


def test_a_mapped_file_will_do() -> None:
    board = Board()
    board.driver.admit([line(0)])
    with mmap.mmap(-1, 4096) as page:
        page[:] = bytes(new_buffer(4096 - 72, token_count=1))
        board.driver.ioctl(board.fd, NV_KV_RETRIEVE, page)
        assert page[72] == RESIDENT


def test_room_beyond_the_last_status_byte_is_left_alone() -> None:
    board = Board()
    buffer = new_buffer(8, token_count=3)
    buffer[72:] = b"\xaa" * 8
    buffer[36:56] = b"\xbb" * 20  # what is in the answer's fields is no concern of the driver's
    inputs = buffer[:36] + buffer[56:72]
    board.driver.ioctl(board.fd, NV_KV_RETRIEVE, buffer)
    assert buffer[72:] == bytes([QUEUED] * 3) + b"\xaa" * 5
    assert buffer[:36] + buffer[56:72] == inputs
    assert read_reply(buffer)[0]["lines"] == 3


FIELD = st.one_of(st.integers(0, 4), st.sampled_from([63, 64, 65, 0xFF, 0xFFFF, 0xFFFFFFFF]), st.integers(0, 1 << 64))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.integers(0, 150), st.dictionaries(st.sampled_from(RETRIEVE.names or ()), FIELD), st.binary(max_size=150))
def test_no_struct_causes_anything_but_an_answer_or_an_error(room: int, fields: dict[str, int], noise: bytes) -> None:
    """Wrong sizes, wrong values, noise: OSError with the buffer as it was, or a whole answer."""
    board = Board(demand=4, timeout_ns=3000)
    board.driver.admit([line(0)])
    buffer = new_buffer(room, token_count=1)
    struct = np.frombuffer(buffer, RETRIEVE, count=1)
    for name, value in fields.items():
        struct[name] = value & int(np.iinfo(RETRIEVE[name].base).max)
    for attempt in (buffer, bytearray(noise), buffer[: len(noise)]):
        before = bytes(attempt)
        code = 0
        try:
            board.driver.ioctl(board.fd, NV_KV_RETRIEVE, attempt)
        except OSError as error:
            code = error.errno or -1
        if code:
            assert code in (errno.EINVAL, errno.EFAULT, errno.ENOMEM, errno.EAGAIN, errno.ETIMEDOUT)
            assert bytes(attempt) == before
            continue
        reply, status = read_reply(attempt)
        asked = Request(**{name: int(reply[name]) for name in Request.__dataclass_fields__})
        assert len(status) == len(lines_of(KV, asked))
        assert bytes(attempt[72 + len(status) :]) == before[72 + len(status) :]
    board.settle()
    assert board.idle


# Kernels

Kernel = Generator[simpy.Event, Any, None]


def test_a_kernels_tile_goes_on_at_a_hit_while_another_waits() -> None:
    board = Board()
    board.driver.admit([line(1)])
    told: dict[str, int] = {}

    def tile(name: str, token: int) -> Kernel:
        with (yield from board.driver.nv_kvmem_retrieve(Request(first_token=token))) as got:
            told[name] = int(board.env.now)
            assert got.lines.tolist() == [line(token)]

    board.env.process(tile("miss", 0))
    board.env.process(tile("hit", 1))
    board.settle()
    # One question after the other at the query port; the fill starts when the first is answered.
    assert told == {"hit": 2 * asking(1), "miss": asking(1) + ONE_FILL}


def test_lines_stay_while_a_kernel_reads_them() -> None:
    board = Board(demand=2)
    told = []

    def reader() -> Kernel:
        with (yield from board.driver.nv_kvmem_retrieve(Request(token_count=2))):
            yield board.env.timeout(50_000)
            assert line(0) in board.residency

    def other() -> Kernel:
        yield board.env.timeout(10_000)
        with (yield from board.driver.nv_kvmem_retrieve(Request(first_token=9))) as got:
            told.append(got.device_time_ns)
            assert (got.hits, got.queued) == (0, 1)

    board.env.process(reader())
    board.env.process(other())
    board.settle()
    start = asking(2) + 10 + 1000 + 512  # when the reader has its lines
    assert told == [start + 50_000 - 10_000 + evicting(1) + ONE_FILL]


def test_ioctl_inside_a_process_is_a_mistake() -> None:
    board = Board()

    def kernel() -> Kernel:
        yield board.env.timeout(1)
        board.driver.ioctl(board.fd, NV_KV_RETRIEVE, new_buffer(1))

    with pytest.raises(RuntimeError, match="use nv_kvmem_retrieve"):
        board.env.run(until=board.env.process(kernel()))


def test_a_kernel_is_told_of_errors() -> None:
    board = Board(demand=2)
    for request, code in ((Request(head=9), errno.EINVAL), (Request(token_count=3), errno.ENOMEM)):
        with pytest.raises(OSError, match=r".+") as caught:
            board.env.run(until=board.env.process(board.driver.nv_kvmem_retrieve(request)))
        assert caught.value.errno == code


@pytest.mark.parametrize("when", [1, 10, 20, 500])
def test_an_interrupted_kernel_holds_nothing(when: int) -> None:
    """At the query port, while room is made, and while the fill is on its way."""
    board = Board(demand=2, tick_shift=0)
    board.touch([line(10), line(11)])
    board.driver.admit([line(10), line(11)])
    board.core.idle(200)

    def kernel() -> Kernel:
        try:
            yield from board.driver.nv_kvmem_retrieve(Request(token_count=2))
        except simpy.Interrupt:
            return
        pytest.fail("it was not interrupted")

    process = board.env.process(kernel())
    board.settle(when)
    process.interrupt()
    board.settle()
    assert board.idle
    board.retrieve(token_count=2)
    assert board.residency.lines(Bank.DEMAND) == [line(0), line(1)]


def test_releasing_twice_is_once() -> None:
    board = Board()
    got = board.env.run(until=board.env.process(board.driver.nv_kvmem_retrieve(Request())))
    assert isinstance(got, Retrieval)
    assert not board.idle
    got.release()
    got.release()
    assert board.idle


def test_the_documented_call() -> None:
    text = (Path(__file__).parents[1] / "docs" / "driver.md").read_text()
    snippet = text.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(snippet, names)
    names["asu"].close()
    assert names["status"].tolist() == [QUEUED] * 64


REQUESTS = st.builds(
    Request,
    head=st.integers(0, 1),
    first_token=st.integers(0, 12),
    token_count=st.integers(1, 5),
    min_tlevel=st.integers(0, 3),
    flags=st.integers(0, 7),
    frame=st.integers(0, 2),
    patch_row=st.integers(0, 1),
)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(st.lists(st.lists(st.tuples(st.integers(0, 3000), REQUESTS), max_size=6), max_size=6), st.integers(5, 9))
def test_tiles_at_odds_for_little_memory_all_come_through(tiles: list[list[tuple[int, Request]]], places: int) -> None:
    """Whatever runs at once: what waited is resident while it is read, all requests end, and nothing stays held."""
    board = Board(demand=places, prefetch=3, dma=replace(ROUND, queue_bursts=2), tick_shift=3)
    finished = []

    def tile(requests: list[tuple[int, Request]]) -> Kernel:
        for pause, request in requests:
            yield board.env.timeout(pause)
            may_fail = set()
            if request.flags & Flag.NO_WAIT:
                may_fail.add(errno.EAGAIN)
            if request.flags & Flag.PREFETCH:
                may_fail.add(errno.ENOMEM)  # its bank has but 3 places; a demand fits
            try:
                got = yield from board.driver.nv_kvmem_retrieve(request)
            except OSError as error:
                if error.errno not in may_fail:
                    raise
                continue
            reads = not request.flags & (Flag.NO_WAIT | Flag.PREFETCH)
            for _ in range(3):
                assert not reads or all(number in board.residency for number in got.lines.tolist())
                yield board.env.timeout(100)
            got.release()
        finished.append(requests)

    for requests in tiles:
        board.env.process(tile(requests))
    board.settle(10**7)
    assert len(finished) == len(tiles)
    assert board.idle
    assert board.dma.free(Bank.DEMAND) == board.dma.free(Bank.PREFETCH) == 2
