"""The DMA engine that brings KV lines from far to fast memory, on a discrete-event clock in nanoseconds.

A burst goes through three stages:

- set-up: bursts are issued one after the other, `setup_ns` each; urgent ones (demanded) before the others;
- far memory's latency, `far_latency_ns` from issue to the first byte, which the bursts' latencies share;
- the transfer: data comes in the order of issue, one burst at a time, at the rate of the slower of far memory and what
  the CPU leaves of the DDR.

So bursts 0, 1, 2... queued together at a time `t` in an idle engine that is awake come in at::

    end[-1] = t
    end[k] = max(t + (k + 1) * setup_ns + far_latency_ns, end[k - 1]) + transfer_ns(burst k)

Every time is a whole number of nanoseconds and follows from `DmaParams` alone: modelled, not measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial

import simpy

from kv_asu_firmware.integers import setting
from kv_asu_firmware.residency import Bank
from kv_asu_sim.machine import ORIN_NX_NVME as ORIN_NX_TIERS
from vrex.trace.address_map import LINE_BYTES
from vrex.trace.timing import ORIN_NX

NS_PER_S = 10**9

#: A process of the discrete-event clock.
Process = Generator[simpy.Event, object, None]


@dataclass(frozen=True)
class DmaParams:
    """The engine and the memories it stands between. Times in nanoseconds, rates in bytes a second.

    Parameters
    ----------
    far_bytes_per_second : int
        Rate of the link to far memory.
    far_latency_ns : int
        From a burst's issue to its first byte.
    far_block_bytes : int
        What far memory reads at a time: a burst costs the whole blocks it touches. A multiple of 256.
    ddr_bytes_per_second : int
        Peak rate of the DDR that every byte goes through, and that the CPU uses too.
    cpu_percent : int
        Share of the DDR's rate that the CPU takes, 0 to 99.
    setup_ns : int
        From taking a burst from its queue to its issue.
    max_burst_bytes : int
        Adjacent lines merge into bursts of at most so many bytes. A multiple of 256.
    queue_bursts : int
        Bursts each bank's queue takes, from when they are queued until they have landed.
    sleep_after_ns : int
        The engine sleeps when it has had no work and no heartbeat for so long.
    heartbeat_ns : int
        Time between heartbeats; shorter than `sleep_after_ns`, so that they keep the engine awake.
    wake_up_ns : int
        From the first burst queued to a sleeping engine until it starts that burst's set-up.
    source : str
        Where the numbers come from.

    Raises
    ------
    TypeError, ValueError
        A number is no integer; it is out of its range.
    """

    far_bytes_per_second: int
    far_latency_ns: int
    far_block_bytes: int
    ddr_bytes_per_second: int
    cpu_percent: int
    setup_ns: int
    max_burst_bytes: int
    queue_bursts: int
    sleep_after_ns: int
    heartbeat_ns: int
    wake_up_ns: int
    source: str

    def __post_init__(self) -> None:
        positive = ("far_bytes_per_second", "ddr_bytes_per_second", "queue_bursts", "sleep_after_ns", "heartbeat_ns")
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if name == "source":
                continue
            most = 99 if name == "cpu_percent" else None
            object.__setattr__(self, name, setting(name, value, int(name in positive), most))
        for name in ("far_block_bytes", "max_burst_bytes"):
            value = getattr(self, name)
            if value < LINE_BYTES or value % LINE_BYTES:
                raise ValueError(f"{name} must be a multiple of {LINE_BYTES}, not {value!r}")
        if self.heartbeat_ns >= self.sleep_after_ns:
            raise ValueError(
                f"heartbeat_ns must be less than sleep_after_ns, {self.sleep_after_ns}, not {self.heartbeat_ns!r}"
            )

    def burst_bytes(self, first: int, count: int) -> int:
        """Bytes that far memory reads for `count` lines from line number `first` on: whole blocks."""
        block_lines = self.far_block_bytes // LINE_BYTES
        blocks = (first + count - 1) // block_lines - first // block_lines + 1
        return blocks * self.far_block_bytes

    def transfer_ns(self, size: int) -> int:
        """Nanoseconds, rounded up, that `size` bytes take at the slower of far memory and what is left of the DDR."""
        hundredfold = min(100 * self.far_bytes_per_second, (100 - self.cpu_percent) * self.ddr_bytes_per_second)
        return -(-100 * size * NS_PER_S // hundredfold)


#: Far memory is an NVMe drive, fast memory a pool in DRAM.
ORIN_NX_NVME = DmaParams(
    far_bytes_per_second=ORIN_NX_TIERS.far_bytes_per_second,
    far_latency_ns=ORIN_NX_TIERS.far_latency_ns,
    far_block_bytes=ORIN_NX_TIERS.far_block_bytes,
    ddr_bytes_per_second=ORIN_NX.bytes_per_second,
    cpu_percent=0,
    setup_ns=100,
    max_burst_bytes=4096,
    queue_bursts=64,
    sleep_after_ns=5 * NS_PER_S,
    heartbeat_ns=3 * NS_PER_S,
    wake_up_ns=100_000,
    source=(
        f"{ORIN_NX_TIERS.source}; sleep after 5 s, heartbeat every 3 s: the driver's contract; bursts of 4 KiB: AXI's "
        "limit; set-up of 50 clocks of 2 ns, 64 queue entries and a wake-up of 100 us are assumptions"
    ),
)

#: Far memory is the board's DRAM, fast memory on-chip.
ORIN_NX_DRAM = DmaParams(
    far_bytes_per_second=ORIN_NX.bytes_per_second,
    far_latency_ns=150,
    far_block_bytes=LINE_BYTES,
    ddr_bytes_per_second=ORIN_NX.bytes_per_second,
    cpu_percent=0,
    setup_ns=ORIN_NX_NVME.setup_ns,
    max_burst_bytes=ORIN_NX_NVME.max_burst_bytes,
    queue_bursts=ORIN_NX_NVME.queue_bursts,
    sleep_after_ns=ORIN_NX_NVME.sleep_after_ns,
    heartbeat_ns=ORIN_NX_NVME.heartbeat_ns,
    wake_up_ns=ORIN_NX_NVME.wake_up_ns,
    source=f"{ORIN_NX.source}; a DRAM latency of 150 ns is an assumption; the engine as with NVMe",
)


class QueueFullError(Exception):
    """A bank's queue has no entry left: wait until a burst has landed."""


@dataclass(eq=False)
class Burst:
    """Adjacent lines that come in one go.

    Parameters
    ----------
    first, count : int
        The first line number, and how many lines.
    bank : Bank
        Where they go.
    queue : Bank
        Whose queue it takes, or will take, an entry of: its bank's, unless it was hurried before it had one.
    landed : simpy.Event
        Happens when they are in fast memory.
    urgent : bool
        Somebody waits for them: they are issued before prefetched ones.
    """

    first: int
    count: int
    bank: Bank
    queue: Bank
    landed: simpy.Event
    urgent: bool

    @property
    def lines(self) -> range:
        """The line numbers."""
        return range(self.first, self.first + self.count)

    @property
    def done(self) -> bool:
        """Whether the lines are in fast memory: the poll."""
        return self.landed.triggered


class DmaEngine:
    """The engine: queue bursts, and be called back, wait for `Burst.landed`, or poll `Burst.done`.

    It is awake when it is made, as after a piece of work.

    Parameters
    ----------
    env : simpy.Environment
        The clock, in whole nanoseconds.
    params : DmaParams

    Attributes
    ----------
    freed : simpy.Event
        Happens when the next burst lands, which frees a queue entry; then replaced by a new one.
    bursts, bytes_moved, wake_ups : int
        Bursts landed, the bytes far memory has read for them, and how often the engine was found asleep.
    """

    def __init__(self, env: simpy.Environment, params: DmaParams = ORIN_NX_NVME) -> None:
        self.env = env
        self.params = params
        self.bursts = self.bytes_moved = self.wake_ups = 0
        self.freed = env.event()
        self._urgent: deque[Burst] = deque()
        self._others: deque[Burst] = deque()
        self._used = dict.fromkeys(Bank, 0)  # queue entries
        self._callbacks: dict[Burst, Callable[[Burst], None]] = {}
        self._idle_since = self._ready_at = self._link_free_at = self._now
        self._work = env.event()
        env.process(self._issue())

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def merge(self, lines: Iterable[int], bank: Bank) -> list[Burst]:
        """The bursts that bring these lines, ascending: adjacent lines merge, in whatever order they are given."""
        most = self.params.max_burst_bytes // LINE_BYTES
        runs: list[list[int]] = []
        for line in sorted(set(lines)):
            if runs and line == sum(runs[-1]) and runs[-1][1] < most:
                runs[-1][1] += 1
            else:
                runs.append([line, 1])
        return [Burst(first, count, bank, bank, self.env.event(), bank is Bank.DEMAND) for first, count in runs]

    def free(self, bank: Bank) -> int:
        """Entries free in a bank's queue."""
        return self.params.queue_bursts - self._used[bank]

    @property
    def depth(self) -> int:
        """Bursts queued or under way, of both banks."""
        return sum(self._used.values())

    @property
    def asleep(self) -> bool:
        """Whether the engine sleeps: the next burst pays the wake-up."""
        return not self.depth and self._now - self._idle_since >= self.params.sleep_after_ns

    def submit(self, bursts: Sequence[Burst], on_landed: Callable[[Burst], None]) -> None:
        """Queue bursts: all of them or none.

        Parameters
        ----------
        bursts : sequence of Burst
            From `merge`, of one queue.
        on_landed : callable
            Called with each burst as it lands, just before `Burst.landed` happens.

        Raises
        ------
        QueueFullError
            The queue has fewer entries left.
        """
        if not bursts:
            return
        queue = bursts[0].queue
        if self.free(queue) < len(bursts):
            raise QueueFullError(
                f"the {queue.name.lower()} queue has {self.free(queue)} of {self.params.queue_bursts} entries left, "
                f"not {len(bursts)}"
            )
        self.keep_awake()
        self._used[queue] += len(bursts)
        for burst in bursts:
            (self._urgent if burst.urgent else self._others).append(burst)
        self._callbacks.update(dict.fromkeys(bursts, on_landed))
        if not self._work.triggered:
            self._work.succeed()

    def hurry(self, burst: Burst) -> None:
        """Somebody waits for a burst now: if it has not been issued, it lines up behind the urgent ones.

        One that has no entry yet, because its queue is full, will take one of the demand bank's.
        """
        burst.urgent = True
        if burst not in self._callbacks:
            burst.queue = Bank.DEMAND
        elif burst in self._others:
            self._others.remove(burst)
            self._urgent.append(burst)

    def keep_awake(self) -> None:
        """One heartbeat: put off sleep; a sleeping engine begins to wake up."""
        if self.asleep:
            self.wake_ups += 1
            self._ready_at = self._now + self.params.wake_up_ns
        self._idle_since = self._now

    def heartbeat(self) -> Process:
        """A process that gives a heartbeat every `heartbeat_ns`, for ever: ``env.process(engine.heartbeat())``."""
        while True:
            yield self.env.timeout(self.params.heartbeat_ns)
            self.keep_awake()

    def _issue(self) -> Process:
        params = self.params
        while True:
            if not (self._urgent or self._others):
                self._work = self.env.event()
                yield self._work
            if self._ready_at > self._now:
                yield self.env.timeout(self._ready_at - self._now)
            burst = (self._urgent or self._others).popleft()
            yield self.env.timeout(params.setup_ns)
            size = params.burst_bytes(burst.first, burst.count)
            starts = max(self._now + params.far_latency_ns, self._link_free_at)
            self._link_free_at = starts + params.transfer_ns(size)
            arrival = self.env.timeout(self._link_free_at - self._now)
            assert arrival.callbacks is not None
            arrival.callbacks.append(partial(self._land, burst, size))

    def _land(self, burst: Burst, size: int, _arrival: simpy.Event) -> None:
        self._used[burst.queue] -= 1
        self._idle_since = self._now
        self.bursts += 1
        self.bytes_moved += size
        self._callbacks.pop(burst)(burst)
        burst.landed.succeed()
        self.freed.succeed()
        self.freed = self.env.event()
