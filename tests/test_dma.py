"""The DMA engine: every time worked out by hand from its parameters; merging, queues, sleep, contention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from kv_asu_firmware.dma import ORIN_NX_DRAM, ORIN_NX_NVME, Burst, DmaEngine, DmaParams, QueueFullError
from kv_asu_firmware.residency import Bank
from kv_asu_sim.machine import ORIN_NX_NVME as TIERS
from round_numbers import ROUND, S
from vrex.trace.timing import ORIN_NX

anytime = settings(deadline=None, derandomize=True)


class Run:
    """An engine, and when each line came."""

    def __init__(self, params: DmaParams = ROUND) -> None:
        self.env = simpy.Environment()
        self.engine = DmaEngine(self.env, params)
        self.came: dict[int, int] = {}
        self.order: list[tuple[int, int]] = []

    def fetch(self, *lines: int, bank: Bank = Bank.DEMAND) -> list[Burst]:
        bursts = self.engine.merge(lines, bank)
        self.engine.submit(bursts, self.landed)
        return bursts

    def landed(self, burst: Burst) -> None:
        assert not burst.done  # the callback comes first
        self.order.append((burst.first, burst.count))
        self.came.update(dict.fromkeys(burst.lines, int(self.env.now)))

    def until(self, time: int) -> None:
        self.env.run(until=time)


def spans(bursts: list[Burst]) -> list[tuple[int, int]]:
    return [(burst.first, burst.count) for burst in bursts]


# Merging


def test_adjacent_lines_merge_in_whatever_order_they_are_given() -> None:
    engine = Run().engine
    assert spans(engine.merge([5, 9, 4, 3, 4], Bank.DEMAND)) == [(3, 3), (9, 1)]
    assert engine.merge([], Bank.DEMAND) == []


def test_a_burst_ends_at_its_longest() -> None:
    engine = Run().engine  # 1024 bytes: four lines
    assert spans(engine.merge(range(10, 20), Bank.PREFETCH)) == [(10, 4), (14, 4), (18, 2)]


@anytime
@given(st.lists(st.integers(0, 60)), st.integers(1, 9))
def test_merged_bursts_hold_each_line_once_and_could_not_be_fewer(lines: list[int], most: int) -> None:
    bursts = Run(replace(ROUND, max_burst_bytes=256 * most)).engine.merge(lines, Bank.DEMAND)
    assert [line for burst in bursts for line in burst.lines] == sorted(set(lines))
    for before, after in zip(bursts, bursts[1:], strict=False):
        assert before.count == most or before.first + before.count < after.first


# Time


def test_one_line() -> None:
    run = Run()
    (burst,) = run.fetch(3)
    end = 10 + 1000 + 256  # set-up, latency, transfer
    run.until(end)
    before = burst.done
    run.until(end + 1)
    assert (before, burst.done) == (False, True)
    assert run.came == {3: end}
    assert (run.engine.bursts, run.engine.bytes_moved) == (1, 256)


def test_bursts_share_latency_and_queue_for_the_link() -> None:
    run = Run()
    run.fetch(0, 1, 2, 10, 20)
    run.until(10_000)
    first = 10 + 1000 + 3 * 256  # 1778: the other two wait for the link behind it
    second = max(2 * 10 + 1000, first) + 256
    third = max(3 * 10 + 1000, second) + 256
    assert (
        run.came
        == {0: first, 1: first, 2: first, 10: second, 20: third}
        == {
            0: 1778,
            1: 1778,
            2: 1778,
            10: 2034,
            20: 2290,
        }
    )


def test_slow_set_up_leaves_the_link_idle() -> None:
    run = Run(replace(ROUND, setup_ns=400))
    run.fetch(0, 10)
    run.until(10_000)
    assert run.came == {0: 400 + 1000 + 256, 10: 800 + 1000 + 256}


def test_far_memory_reads_whole_blocks() -> None:
    # Blocks of 4 lines: lines 3 and 4 are in two of them, line 8 in one.
    run = Run(replace(ROUND, far_block_bytes=1024))
    run.fetch(3, 4, 8)
    run.until(10_000)
    first = 10 + 1000 + 2 * 1024
    assert run.came == {3: first, 4: first, 8: first + 1024}
    assert run.engine.bytes_moved == 3 * 1024


@pytest.mark.parametrize(
    ("cpu_percent", "transfer"),
    [
        (0, 256),  # 10 GB/s of DDR: the far link's 1 GB/s is slower
        (90, 256),  # 1 GB/s each
        (95, 512),  # 0.5 GB/s are left
        (99, 2560),  # 0.1 GB/s are left
    ],
)
def test_the_cpu_takes_its_share_of_the_ddr(cpu_percent: int, transfer: int) -> None:
    run = Run(replace(ROUND, cpu_percent=cpu_percent))
    run.fetch(1)
    run.until(20_000)
    assert run.came == {1: 10 + 1000 + transfer}


def test_a_transfer_is_rounded_up_to_whole_nanoseconds() -> None:
    assert replace(ROUND, far_bytes_per_second=3 * S).transfer_ns(256) == 86  # 85.33
    assert replace(ROUND, far_bytes_per_second=2 * S).transfer_ns(256) == 128


@anytime
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=30, unique=True),
    st.integers(0, 500),
    st.integers(0, 3000),
    st.integers(0, 99),
    st.integers(1, 5),
)
def test_arrivals_follow_the_published_recurrence(
    lines: list[int], setup: int, latency: int, cpu: int, block: int
) -> None:
    params = replace(
        ROUND,
        setup_ns=setup,
        far_latency_ns=latency,
        cpu_percent=cpu,
        far_block_bytes=256 * block,
        queue_bursts=30,
    )
    run = Run(params)
    bursts = run.fetch(*lines)
    run.until(10**8)
    end = 0
    for index, burst in enumerate(bursts):
        touched = {line // block for line in burst.lines}
        # bytes / (bytes a ns), rounded up; 1 B/ns of far memory or 10 B/ns of DDR less the CPU's share.
        size = len(touched) * block * 256
        transfer = max(size, -(-size * 100 // (10 * (100 - cpu))))
        end = max((index + 1) * setup + latency, end) + transfer
        assert run.came[burst.first] == end
    assert list(run.came) == sorted(lines)


def test_the_default_numbers_are_the_machine_models() -> None:
    nvme, dram = ORIN_NX_NVME, ORIN_NX_DRAM
    assert nvme.far_bytes_per_second == TIERS.far_bytes_per_second
    assert (nvme.far_latency_ns, nvme.far_block_bytes) == (TIERS.far_latency_ns, TIERS.far_block_bytes)
    assert nvme.ddr_bytes_per_second == dram.far_bytes_per_second == ORIN_NX.bytes_per_second
    # One line alone. NVMe: a 4096-byte block at 7876923076 B/s is 520.0 ns. DRAM: 256 B at 102.4 GB/s is 2.5 ns.
    run = Run(nvme)
    run.fetch(1)
    run.until(S)
    assert run.came == {1: 100 + 45_000 + 521}
    run = Run(dram)
    run.fetch(1)
    run.until(S)
    assert run.came == {1: 100 + 150 + 3}


# Queues


def test_a_full_queue_takes_nothing() -> None:
    run = Run(replace(ROUND, queue_bursts=3))
    run.fetch(0, 10)
    with pytest.raises(QueueFullError, match="1 of 3 entries left, not 2"):
        run.fetch(20, 30)
    run.fetch(40)
    assert (run.engine.free(Bank.DEMAND), run.engine.depth) == (0, 3)
    run.fetch(50, bank=Bank.PREFETCH)  # a queue of its own
    run.until(10_000)
    assert set(run.came) == {0, 10, 40, 50}
    assert (run.engine.free(Bank.DEMAND), run.engine.depth) == (3, 0)


def test_an_entry_is_free_when_its_burst_has_landed() -> None:
    run = Run(replace(ROUND, queue_bursts=1))
    run.fetch(0)
    freed = run.engine.freed
    run.until(1266)
    assert (run.engine.free(Bank.DEMAND), freed.triggered) == (0, False)
    run.until(1267)
    assert (run.engine.free(Bank.DEMAND), freed.triggered) == (1, True)
    assert run.engine.freed is not freed


def test_demanded_bursts_are_issued_first() -> None:
    run = Run()
    run.fetch(0, 10, 20, bank=Bank.PREFETCH)
    run.until(5)  # the first is in its set-up
    run.fetch(90, 95)
    run.until(10_000)
    assert run.order == [(0, 1), (90, 1), (95, 1), (10, 1), (20, 1)]
    # Issued at 10, 20, 30, 40, 50; then the link is the limit.
    assert list(run.came.values()) == [1266 + 256 * place for place in range(5)]


def test_a_prefetched_burst_can_be_hurried() -> None:
    run = Run()
    _first, _second, third = run.fetch(0, 10, 20, bank=Bank.PREFETCH)
    run.until(5)
    run.fetch(90)
    run.engine.hurry(third)
    run.engine.hurry(third)  # once is enough
    run.until(10_000)
    assert run.order == [(0, 1), (90, 1), (20, 1), (10, 1)]
    assert third.bank is Bank.PREFETCH


def test_a_burst_hurried_before_it_is_queued_goes_first_too() -> None:
    run = Run()
    run.fetch(0, 10, bank=Bank.PREFETCH)
    late = run.engine.merge([20], Bank.PREFETCH)
    run.engine.hurry(late[0])
    run.engine.submit(late, run.landed)
    run.until(10_000)
    assert run.order == [(20, 1), (0, 1), (10, 1)]
    assert (late[0].bank, late[0].queue) == (Bank.PREFETCH, Bank.DEMAND)


def test_a_burst_hurried_before_it_is_queued_needs_no_entry_of_its_own_bank() -> None:
    run = Run(replace(ROUND, queue_bursts=1))
    run.fetch(0, bank=Bank.PREFETCH)
    late = run.engine.merge([20], Bank.PREFETCH)
    with pytest.raises(QueueFullError, match="the prefetch queue has 0 of 1"):
        run.engine.submit(late, run.landed)
    run.engine.hurry(late[0])
    run.engine.submit(late, run.landed)
    assert (run.engine.free(Bank.DEMAND), run.engine.free(Bank.PREFETCH)) == (0, 0)
    run.until(10_000)
    assert run.order == [(20, 1), (0, 1)]
    assert (run.engine.free(Bank.DEMAND), run.engine.free(Bank.PREFETCH)) == (1, 1)


# Sleep


@pytest.mark.parametrize(("idle", "wake_up"), [(5 * S - 1, 0), (5 * S, 7000)])
def test_it_sleeps_after_five_seconds_and_the_next_request_pays(idle: int, wake_up: int) -> None:
    run = Run()
    run.fetch(1)
    run.until(1266 + idle)
    assert run.engine.asleep == bool(wake_up)
    run.fetch(2, 9)
    run.until(20 * S)
    start = 1266 + idle + wake_up
    assert run.came == {1: 1266, 2: start + 10 + 1000 + 256, 9: start + 10 + 1000 + 256 + 256}
    assert run.engine.wake_ups == bool(wake_up)


def test_work_in_flight_keeps_it_awake() -> None:
    run = Run(replace(ROUND, far_latency_ns=6 * S))
    run.fetch(1)
    run.until(5 * S + 1)
    assert not run.engine.asleep


def test_a_request_during_the_wake_up_waits_for_the_rest_of_it() -> None:
    run = Run()
    run.until(5 * S)
    run.fetch(1)
    run.until(5 * S + 6999)
    run.fetch(9)
    run.until(6 * S)
    assert run.came == {1: 5 * S + 7000 + 1266, 9: 5 * S + 7000 + 1266 + 256}
    assert run.engine.wake_ups == 1


def test_heartbeats_keep_it_awake() -> None:
    run = Run()
    run.env.process(run.engine.heartbeat())
    run.until(60 * S)
    assert not run.engine.asleep
    run.fetch(1)
    run.until(61 * S)
    assert run.came == {1: 60 * S + 1266}
    assert run.engine.wake_ups == 0


def test_a_heartbeat_wakes_a_sleeping_engine_ahead_of_the_request() -> None:
    run = Run()
    run.until(9 * S)
    run.engine.keep_awake()
    run.until(9 * S + 4000)
    run.fetch(1)  # pays what is left of the wake-up
    run.until(10 * S)
    assert run.came == {1: 9 * S + 7000 + 1266}
    assert run.engine.wake_ups == 1


# Arguments


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("far_bytes_per_second", 0, "far_bytes_per_second must be at least 1, not 0"),
        ("setup_ns", -1, "setup_ns must be at least 0, not -1"),
        ("queue_bursts", 0, "queue_bursts must be at least 1, not 0"),
        ("max_burst_bytes", 300, "max_burst_bytes must be a multiple of 256, not 300"),
        ("far_block_bytes", 0, "far_block_bytes must be a multiple of 256, not 0"),
        ("far_latency_ns", 1.5, "far_latency_ns must be an integer, not 1.5"),
        ("wake_up_ns", float("nan"), "wake_up_ns must be an integer, not nan"),
        ("cpu_percent", True, "cpu_percent must be an integer, not True"),
        ("far_bytes_per_second", "x", "far_bytes_per_second must be an integer, not 'x'"),
        ("far_block_bytes", 256.0, "far_block_bytes must be an integer, not 256.0"),
        ("queue_bursts", None, "queue_bursts must be an integer, not None"),
        ("cpu_percent", 100, "cpu_percent must be 0 to 99, not 100"),
        ("heartbeat_ns", 5 * S, "heartbeat_ns must be less than sleep_after_ns, 5000000000, not 5000000000"),
    ],
)
def test_a_wrong_parameter_is_named(field: str, value: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        replace(ROUND, **{field: value})  # type: ignore[arg-type]  # one of them is a str
