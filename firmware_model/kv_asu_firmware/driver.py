"""The kernel side of KV retrieval: ``open``, ``ioctl(NV_KV_RETRIEVE)``, ``close``, and the instruction a kernel uses.

A request names tokens of one (stream, layer, head). The driver asks the core about every line that holds them, one a
clock, at the query port; looks which lines are resident; and has the DMA engine bring the missing ones. The answer to
each line tells both notions of a hit apart: `Status.RESIDENT` is in fast memory (a hit, served whatever its T-level),
and the T-level is the core's opinion.

**What a request does.** A demand fetches every missing line into the demand bank, and each is touched (request port)
when it lands. A prefetch fetches the missing lines at or above `min_tlevel` (with 0, all of them) into the prefetch
bank, and touches nothing. A line that is on its way already is not fetched twice; when somebody demands a line that was
prefetched, its burst goes ahead of all that prefetch, also while it waits for a queue entry: it takes one of the demand
bank's then. The line moves to the demand bank as soon as there is room. Without `NO_WAIT` a call returns when all that
it fetches has landed.

**What is kept.** While a request runs, that is until it has answered and its fills have landed, its resident lines at
or above `min_tlevel` are not collected. A demand that waits has a reader behind it: none of its lines is collected, at
whatever T-level, so all of them are resident when it returns. Lines on their way are never collected.

**Making room.** Victims of the demand bank are the core's coldest lines (`evict`: least recently used first, all at
T-level 0), and when the core has none, the least recently used lines, by when they were last retrieved. A cold line
that is not resident, or held, only loses its slot in the core. The prefetch bank is collected by least recent use.

**Boost.** A patch row is *hot* in a frame when a request of the same stream that named this frame and patch row, in any
layer and head, met a line at T-level `HOT_TLEVEL` or above without its boost. The *neighbouring* frames are the one
before and the one after. So a request with `SPATIAL_BOOST` is boosted when an earlier request found the same patch row
hot in frame - 1 or frame + 1. Requests with patch row `NO_PATCH` (text) neither heat a row nor are boosted. Only frames
within one of the latest request's are remembered.

**Time.** The discrete-event clock counts nanoseconds, the core's clock is 2 ns. Device time runs from the call to its
answer: the clocks that the core takes for the queries (one each, and its latency), those for the evict commands that
make room for the fetch, and for requests that wait, until the last fill has landed. Touches use the request port, which
stalls nothing, so they cost no device time; the core's clock may therefore be ahead by them, and a call begins when
event time has caught up with it.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import simpy

from kv_asu.params import LINE_BITS
from kv_asu.register_map import VictimStatus
from kv_asu_firmware.dma import NS_PER_S, Burst, DmaEngine
from kv_asu_firmware.residency import Bank, Residency
from kv_asu_firmware.retrieve_abi import NO_PATCH, NV_KV_RETRIEVE, RETRIEVE, VERSION, Flag, Kind, Status
from vrex.trace.address_map import AddressMap, LineArray, each_once

#: The core's clock.
CLOCK_NS = 2

#: A line this warm makes its patch row hot: T2, from where on lines are taken to be worth keeping.
HOT_TLEVEL = 2

_ALL_FLAGS = sum(Flag)

#: After so many commands that only said RETRY, traffic must be touching the tail all the time: the other way is taken.
_MOST_RETRIES = 64

_Result = TypeVar("_Result")
#: A process of the discrete-event clock, or a part of one, that returns something.
Process = Generator[simpy.Event, Any, _Result]


class CoreBus(Protocol):
    """What the driver needs of the core. The hardware ports in bulk, one operation a clock, as `Device` has them."""

    @property
    def active(self) -> bool:
        """Whether the core is ACTIVE: enabled, powered, the boot chain whole."""

    @property
    def clock(self) -> int:
        """Clocks passed. Each method below advances it."""

    def query_lines(
        self, addresses: npt.NDArray[np.uint64], *, min_tlevel: int = 0, boost: bool = False
    ) -> npt.NDArray[np.void]:
        """Ask about lines; a record with `answer_tracked`, `answer_tlevel` and `answer_hit` for each address."""

    def observe(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
        """Requests on the memory bus."""

    def evict_lines(self, count: int) -> npt.NDArray[np.void]:
        """Evict commands; a record with `victim_status` and `victim_line` for each."""

    def idle(self, clocks: int) -> None:
        """Let clocks pass."""


@dataclass(frozen=True)
class Request:
    """What is asked for: the fields of the struct by the same names.

    Parameters
    ----------
    stream, layer, head : int
    first_token, token_count : int
    kind : int
        A `Kind`.
    min_tlevel : int
        0 to 3.
    flags : int
        A combination of `Flag`.
    frame, patch_row, patch_column : int
        Where the tokens come from; `NO_PATCH` for text.
    """

    stream: int = 0
    layer: int = 0
    head: int = 0
    first_token: int = 0
    token_count: int = 1
    kind: int = Kind.BOTH
    min_tlevel: int = 0
    flags: int = 0
    frame: int = 0
    patch_row: int = NO_PATCH
    patch_column: int = NO_PATCH


@dataclass
class Retrieval:
    """The answer to a request. A context manager: leaving it says that the kernel has read the lines.

    Attributes
    ----------
    lines : numpy.ndarray of uint64, shape (lines,)
        The line numbers, ascending.
    status : numpy.ndarray of uint8, shape (lines,)
        A `Status` for each, as of when it was asked for.
    device_time_ns : int
    """

    lines: npt.NDArray[np.uint64]
    status: npt.NDArray[np.uint8]
    device_time_ns: int
    _release: Callable[[], None] = field(repr=False, default=lambda: None)

    @property
    def hits(self) -> int:
        """Lines that were resident."""
        return int(np.count_nonzero(self.status & Status.RESIDENT))

    @property
    def queued(self) -> int:
        """Missing lines that were on their way when the request was answered, or had to be waited for."""
        return int(np.count_nonzero(self.status & Status.QUEUED))

    def release(self) -> None:
        """The lines have been read: they may be collected. Again does nothing."""
        self._release()
        self._release = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lines_of(
    kv: AddressMap, request: Request, scattered: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.uint64]:
    """The lines that hold what a request asks for, each once, ascending: one status byte each.

    At most ``token_count * kv.lines_per_token``. Small heads share lines, so it may be fewer.

    Parameters
    ----------
    kv : AddressMap
    request : Request
    scattered : numpy.ndarray of int, shape (n,), optional
        Tokens to ask for, instead of the request's run of them.

    Returns
    -------
    numpy.ndarray of uint64

    Raises
    ------
    ValueError
        The request is outside the layout.
    """
    tokens = scattered
    if tokens is None:
        tokens = request.first_token + np.arange(request.token_count, dtype=np.int64)
    starts = kv.address(request.layer, request.head, tokens, request.stream)
    size = kv.token_bytes if request.kind == Kind.BOTH else kv.token_bytes - kv.value_offset
    if request.kind == Kind.V:
        starts = starts + np.uint64(kv.value_offset)
    first = starts >> np.uint64(LINE_BITS)
    last = starts + np.uint64(size - 1) >> np.uint64(LINE_BITS)
    lines: LineArray = np.add(first[:, np.newaxis], np.arange(kv.lines_per_token, dtype=np.uint64), dtype=np.uint64)
    return each_once(lines[lines <= last[:, np.newaxis]])


class Driver:
    """One KV-ASU, the fast memory behind it, and the DMA engine that fills it.

    `open`, `ioctl` and `close` may be called from several threads. Everything else (processes of the event clock,
    `admit`, running the clock, driving the core) is for one thread, while no other calls `ioctl`.

    Parameters
    ----------
    core : CoreBus
    kv : AddressMap
        Where tokens live.
    residency : Residency
        Fast memory.
    dma : DmaEngine
        Its environment is the driver's clock.
    line_shift : int
        The core's GEOMETRY.LINE_SHIFT: one slot of its table stands for a block of ``2**line_shift`` bytes.
    timeout_ns : int
        The longest a call waits.
    """

    def __init__(
        self,
        core: CoreBus,
        kv: AddressMap,
        residency: Residency,
        dma: DmaEngine,
        *,
        line_shift: int = LINE_BITS,
        timeout_ns: int = NS_PER_S,
    ) -> None:
        self.core = core
        self.kv = kv
        self.residency = residency
        self.dma = dma
        self.env = dma.env
        self.timeout_ns = timeout_ns
        self._block_lines = 1 << line_shift - LINE_BITS
        self._origin_ns = self._now - core.clock * CLOCK_NS  # event time of the core's clock 0
        self._query_port = simpy.Resource(self.env)
        self._changed = self.env.event()  # a place may have become free
        self._feeds_at: simpy.Event | None = None  # the event at which what waits is looked at again
        self._waiting: dict[Bank, deque[Burst]] = {bank: deque() for bank in Bank}  # for an entry of that queue
        self._coming: dict[int, Burst] = {}  # by line, from when its place is reserved
        self._demanded: set[int] = set()  # lines to touch when they land
        self._hot_rows: dict[int, dict[int, set[int]]] = {}  # by stream and frame
        self._turns = threading.RLock()  # a call from inside a process is an error then, no deadlock
        self._open: set[int] = set()
        self._descriptors = count(3)  # never used twice: a stale one is an error, not somebody else's

    # The calls

    def open(self) -> int:
        """Open the device; works while the core is inactive too, as a descriptor outlives a power cycle.

        Returns
        -------
        int
            A file descriptor.
        """
        with self._turns:
            descriptor = next(self._descriptors)
            self._open.add(descriptor)
        return descriptor

    def close(self, fd: int) -> None:
        """Close a descriptor. What it has queued still lands.

        Raises
        ------
        OSError
            EBADF: it is not open.
        """
        with self._turns:
            self._check_open(fd)
            self._open.remove(fd)

    def ioctl(self, fd: int, request: int, buffer: Any) -> int:
        """Retrieve: returns when the answer stands in the buffer.

        Event time passes meanwhile, so inside a process of the event clock use `nv_kvmem_retrieve` instead. Threads
        take turns: a call begins, and its time and `timeout_ns` with it, when the one before has returned.

        Parameters
        ----------
        fd : int
            From `open`.
        request : int
            `NV_KV_RETRIEVE`.
        buffer : writable contiguous buffer
            A bytearray, memoryview, array, mmap, numpy array...: the struct and a status byte a line; see
            `kv_asu_firmware.retrieve_abi`. Room for more lines than the request covers is left as it is.

        Returns
        -------
        int
            0

        Raises
        ------
        OSError
            The first of these that applies; the buffer is then unchanged, to the byte:

            1. EBADF: `fd` is not open.
            2. ENOTTY: another request code.
            3. ENODEV: the core is not active.
            4. EFAULT: no writable contiguous buffer, or it is shorter than the struct or than the struct's `size`.
            5. EINVAL: `version` is not 1; `size` is not that of the buffer; reserved fields or flags are not 0; `kind`,
               `min_tlevel`, `stream`, `layer`, `head` or the tokens are out of range.
            6. EFAULT: no room for a status byte a line.
            7. ENOMEM: its bank can never hold the request. EAGAIN: with `NO_WAIT`, the DMA queue has too few entries
               left for it, or what others hold leaves no room. Nothing is queued.
            8. ETIMEDOUT: without `NO_WAIT`, `timeout_ns` have passed. What is queued still lands.
        RuntimeError
            Called inside a process of the event clock.
        """
        with self._turns:
            return self._ioctl(fd, request, buffer)

    def _ioctl(self, fd: int, request: int, buffer: Any) -> int:
        if self.env.active_process is not None:
            raise RuntimeError("ioctl lets event time pass: inside a process, use nv_kvmem_retrieve")
        self._check_open(fd)
        if request != NV_KV_RETRIEVE:
            raise OSError(errno.ENOTTY, f"request must be NV_KV_RETRIEVE, {NV_KV_RETRIEVE:#x}, not {request!r}")
        self._check_active()
        memory = _writable_bytes(buffer)
        asked = self._decode(memory)
        needed = RETRIEVE.itemsize + len(lines_of(self.kv, asked))
        if len(memory) < needed:
            raise OSError(errno.EFAULT, f"the buffer needs {needed} bytes, not {len(memory)}")
        self._catch_up()
        answer = self.env.run(until=self.env.process(self.nv_kvmem_retrieve(asked)))
        assert isinstance(answer, Retrieval)
        answer.release()
        # Nothing can fail from here on, so a call answers completely or not at all.
        struct = memory[: RETRIEVE.itemsize].view(RETRIEVE)
        struct["lines"], struct["hits"], struct["queued"] = len(answer.lines), answer.hits, answer.queued
        struct["device_time_ns"] = answer.device_time_ns
        memory[RETRIEVE.itemsize : needed] = answer.status
        return 0

    def nv_kvmem_retrieve(
        self, request: Request, scattered: npt.NDArray[np.int64] | None = None
    ) -> Process[Retrieval]:
        """What a kernel's tile does, as a process: ask; hit: go on; miss: wait for the fill, other tiles running on.

        ::

            with (yield from driver.nv_kvmem_retrieve(request)) as got:
                yield env.timeout(...)  # read the lines: they stay until the block is left

        Parameters
        ----------
        request : Request
        scattered : numpy.ndarray of int, shape (n,), optional
            The tokens that a tile gathers, at least one, instead of the request's run of them: asked for in one go.

        Returns
        -------
        Retrieval
            Release it when the lines have been read. A demand that waits returns with every line resident.

        Raises
        ------
        OSError
            ENODEV, EINVAL, ENOMEM, EAGAIN and ETIMEDOUT, as for `ioctl`.
        """
        self._check_active()
        self._check(request)
        start = self._now
        deadline = start + self.timeout_ns
        lines = lines_of(self.kv, request, scattered)
        tracked, tlevels = yield from self._ask(request, lines, deadline)
        resident = self.residency.are_resident(lines)
        coming = self._are_coming(lines)
        prefetch = bool(request.flags & Flag.PREFETCH)
        waits = not request.flags & Flag.NO_WAIT
        warm = tlevels >= request.min_tlevel
        fetch = warm if prefetch else np.ones_like(warm)
        status = (
            tlevels
            | Status.TRACKED * tracked
            | Status.RESIDENT * resident
            | Status.QUEUED * (~resident & (fetch | coming))
        )
        if not prefetch:
            self.residency.use_all(lines)
        # The caller of a demand that waits is about to read all its lines, and says itself when it has.
        reads = waits and not prefetch
        keep = lines if reads else lines[resident & warm]
        queued, fills = yield from self._start_fetch(lines[fetch], keep, Bank(prefetch), deadline if waits else None)
        release = partial(self._release, keep)
        if not prefetch:
            for line in lines[self.residency.are_in(Bank.PREFETCH, lines)].tolist():
                self._promote(line)
        if not reads:
            _when(fills, release)
        try:
            yield queued
            if waits:
                yield from self._wait(fills, deadline)
        except BaseException:  # timeout, or the kernel's process is interrupted
            if reads:
                release()
            raise
        return Retrieval(lines, status.astype(np.uint8), self._now - start, release if reads else _nothing)

    def admit(self, lines: Iterable[int] | LineArray) -> None:
        """Lines that a kernel has just written: new KV is resident at birth. Takes no event time.

        Parameters
        ----------
        lines : iterable of int, or numpy.ndarray of uint64
            Line numbers, in an array each once; those that have a place already keep it.

        Raises
        ------
        OSError
            ENOMEM: what is held leaves no room in the demand bank. None is admitted then.
        """
        # Each once, in order.
        given = lines if isinstance(lines, np.ndarray) else np.array(list(dict.fromkeys(lines)), np.uint64)
        new = given[~self.have_place(given)]
        room = self.residency.free(Bank.DEMAND) + self.residency.collectable(Bank.DEMAND)
        if len(new) > room:
            raise OSError(errno.ENOMEM, f"the demand bank has room for {room} lines, not {len(new)}")
        self._make_room(Bank.DEMAND, len(new))
        self.residency.bear(new)

    # Checks

    def _check_open(self, fd: int) -> None:
        if fd not in self._open:
            raise OSError(errno.EBADF, f"descriptor {fd!r} is not open")

    def _check_active(self) -> None:
        if not self.core.active:
            raise OSError(errno.ENODEV, "the KV-ASU is not active: `vrex doctor` finds the missing link")

    def _decode(self, memory: npt.NDArray[np.uint8]) -> Request:
        """The request in a buffer, checked."""
        if len(memory) < RETRIEVE.itemsize:
            raise OSError(errno.EFAULT, f"the buffer needs {RETRIEVE.itemsize} bytes or more, not {len(memory)}")
        struct = memory[: RETRIEVE.itemsize].view(RETRIEVE)[0]
        version, size = int(struct["version"]), int(struct["size"])
        if size > len(memory):
            raise OSError(errno.EFAULT, f"the buffer has {len(memory)} bytes, not the {size} its size field claims")
        if version != VERSION:
            raise OSError(errno.EINVAL, f"version must be {VERSION}, not {version}")
        if size < len(memory):
            raise OSError(errno.EINVAL, f"size must be the buffer's, {len(memory)}, not {size}")
        if struct["reserved"].any():
            raise OSError(errno.EINVAL, "reserved fields must be 0")
        request = Request(**{name: int(struct[name]) for name in Request.__dataclass_fields__})
        self._check(request)
        return request

    def _check(self, request: Request) -> None:
        if request.flags & ~_ALL_FLAGS:
            raise OSError(errno.EINVAL, f"flags must be within {_ALL_FLAGS:#x}, not {request.flags:#x}")
        kv = self.kv
        for name, least, most in (
            ("kind", min(Kind), max(Kind)),
            ("min_tlevel", 0, 3),
            ("stream", 0, len(kv.bases) - 1),
            ("layer", 0, kv.layers - 1),
            ("head", 0, kv.heads - 1),
            ("first_token", 0, kv.max_tokens - 1),
            ("token_count", 1, kv.max_tokens - request.first_token),
        ):
            value = getattr(request, name)
            if not least <= value <= most:
                raise OSError(errno.EINVAL, f"{name} must be {int(least)} to {int(most)}, not {value}")

    # The core

    @property
    def _now(self) -> int:
        return int(self.env.now)

    def _catch_up(self) -> None:
        """Let event time pass until it is the core's, which traffic or register accesses may have advanced."""
        core_ns = self._origin_ns + self.core.clock * CLOCK_NS
        if core_ns > self._now:
            self.env.run(until=core_ns)

    def advance_core(self) -> None:
        """Let clocks pass in the core until its time is that of the event clock."""
        behind = -(-(self._now - self._origin_ns) // CLOCK_NS) - self.core.clock
        if behind > 0:
            self.core.idle(behind)

    def _ask(
        self, request: Request, lines: npt.NDArray[np.uint64], deadline: int
    ) -> Process[tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8]]]:
        """Query lines, one a clock; tell which are tracked, and their T-levels."""
        with self._query_port.request() as turn:
            yield from self._wait(turn, deadline)
            self.advance_core()
            boost = self._is_boosted(request)
            asked_at = self.core.clock
            addresses = lines << np.uint64(LINE_BITS)
            answers = self.core.query_lines(addresses, min_tlevel=request.min_tlevel, boost=boost)
            yield self.env.timeout((self.core.clock - asked_at) * CLOCK_NS)
        tracked = answers["answer_tracked"].astype(bool)
        tlevels = answers["answer_tlevel"].astype(np.uint8)
        # A boost leaves nothing above 3, and lifts what is not tracked by nothing: 3 with it means 2 or 3 without.
        self._note_heat(request, bool((tlevels >= HOT_TLEVEL + boost).any()))
        return tracked, tlevels

    def _is_boosted(self, request: Request) -> bool:
        frames = self._hot_rows.get(request.stream, {})
        return bool(request.flags & Flag.SPATIAL_BOOST) and any(
            request.patch_row in frames.get(neighbour, ()) for neighbour in (request.frame - 1, request.frame + 1)
        )

    def _note_heat(self, request: Request, hot: bool) -> None:
        if request.patch_row == NO_PATCH:
            return
        frames = self._hot_rows.setdefault(request.stream, {})
        for frame in [frame for frame in frames if abs(frame - request.frame) > 1]:
            del frames[frame]
        if hot:
            frames.setdefault(request.frame, set()).add(request.patch_row)

    # Fast memory

    def _start_fetch(
        self, fetch: LineArray, keep: LineArray, bank: Bank, deadline: int | None
    ) -> Process[tuple[simpy.Event, simpy.Event]]:
        """Make room for the missing lines of a request, hold what it keeps, and queue the DMA.

        All or nothing, so that requests that wait for room hold none meanwhile and cannot wait for each other.

        Returns
        -------
        queued : simpy.Event
            Happens when room has been made, and the DMA is queued unless its queue is full.
        fills : simpy.Event
            Happens when everything the request fetches has landed, what earlier requests had queued with it.
        """
        while True:
            missing: list[int] = fetch[~self.have_place(fetch)].tolist()
            kept_here = int(self.are_in(bank, keep).sum())
            if len(missing) + kept_here > self.residency.capacity(bank):
                raise OSError(
                    errno.ENOMEM,
                    f"the {bank.name.lower()} bank has {self.residency.capacity(bank)} places, not the "
                    f"{len(missing)} to fetch and {kept_here} to keep",
                )
            bursts = self.dma.merge(missing, bank)
            entries = max(self.dma.free(bank) - len(self._waiting[bank]), 0)
            if deadline is None and entries < len(bursts):
                raise OSError(
                    errno.EAGAIN,
                    f"the DMA queue has {entries} of {self.dma.params.queue_bursts} entries left, not {len(bursts)}",
                )
            self.residency.hold(keep)
            if self.residency.free(bank) + self.residency.collectable(bank) >= len(missing):
                break
            self.residency.release(keep)
            if deadline is None:
                raise OSError(errno.EAGAIN, f"other requests hold the {bank.name.lower()} bank")
            yield from self._wait(self._changed, deadline)
        clocks = self._make_room(bank, len(missing))
        for burst in bursts:
            for line in burst.lines:
                self.residency.reserve(line, bank)
                self._coming[line] = burst
        awaited: list[int] = fetch[self._are_coming(fetch)].tolist()
        if bank is Bank.DEMAND:
            for line in awaited:
                self._demanded.add(line)
                self._hurry(self._coming[line])
        fills = {self._coming[line]: None for line in awaited}  # each once, in order
        queued = self.env.timeout(clocks * CLOCK_NS)
        _when(queued, partial(self._queue, bursts))
        return queued, simpy.AllOf(self.env, [burst.landed for burst in fills])

    def _queue(self, bursts: Sequence[Burst]) -> None:
        """Queue bursts, as many as there are entries for; the others follow in turn, as entries become free.

        They do so too when the call that wanted them has timed out.
        """
        for burst in bursts:
            self._waiting[burst.queue].append(burst)
        self._feed()

    def _hurry(self, burst: Burst) -> None:
        """Somebody waits for a burst: wherever it waits, it goes ahead of those that nobody waits for."""
        if burst.urgent:
            return
        waits = burst in self._waiting[burst.queue]
        if waits:
            self._waiting[burst.queue].remove(burst)
        self.dma.hurry(burst)
        if waits:
            self._queue([burst])

    def _feed(self) -> None:
        """Give the free entries to what waits for one, and look again when another is freed."""
        for queue, waiting in self._waiting.items():
            ready = [waiting.popleft() for _ in range(min(self.dma.free(queue), len(waiting)))]
            self.dma.submit(ready, self._land)
        if any(self._waiting.values()) and self._feeds_at is not self.dma.freed:
            self._feeds_at = self.dma.freed
            _when(self.dma.freed, self._feed)

    def have_place(self, lines: LineArray) -> npt.NDArray[np.bool_]:
        """Of each line, whether it has a place, resident or on its way: shape (lines,)."""
        return self.residency.are_resident(lines) | self._are_coming(lines)

    def are_in(self, bank: Bank, lines: LineArray) -> npt.NDArray[np.bool_]:
        """Of each line, whether it has a place in a bank, resident or on its way: shape (lines,)."""
        inside = self.residency.are_in(bank, lines)
        for index in np.flatnonzero(self._are_coming(lines)):
            inside[index] = self._coming[int(lines[index])].bank is bank
        return inside

    def _are_coming(self, lines: LineArray) -> npt.NDArray[np.bool_]:
        if not self._coming:
            return np.zeros(len(lines), bool)
        return np.array([line in self._coming for line in lines.tolist()], bool)

    def _make_room(self, bank: Bank, places: int) -> int:
        """Collect until places are free; returns the clocks that evict commands took.

        There must be as many free places and lines that nobody holds.
        """
        self.advance_core()
        started_at = self.core.clock
        if bank is Bank.DEMAND:
            retries = 0
            while (short := places - self.residency.free(bank)) > 0 and retries < _MOST_RETRIES:
                victims = self.core.evict_lines(short)
                found = victims["victim_line"][victims["victim_status"] == VictimStatus.FOUND].tolist()
                for block in found:
                    self._collect_block(block)
                if (victims["victim_status"] == VictimStatus.EMPTY).any():
                    break
                retries = 0 if found else retries + short
        for line in self.residency.least_recent(bank, max(places - self.residency.free(bank), 0)):
            self.residency.collect(line)
        return self.core.clock - started_at

    def _collect_block(self, block: int) -> None:
        """Collect what is resident of a block that the core has found cold; what was prefetched awaits its use."""
        lines = block + np.arange(self._block_lines, dtype=np.uint64)
        lines = lines[self.residency.are_in(Bank.DEMAND, lines)]
        self.residency.collect_all(lines[~self.residency.are_held(lines)])

    def _promote(self, line: int) -> None:
        """Give a prefetched line that is demanded a place in the demand bank, if there is one to be had."""
        if self.residency.bank(line) is Bank.PREFETCH and (
            self.residency.free(Bank.DEMAND) or self.residency.collectable(Bank.DEMAND)
        ):
            self._make_room(Bank.DEMAND, 1)
            self.residency.promote(line)

    def _land(self, burst: Burst) -> None:
        """A burst has landed: its lines are resident; those a demand misses are touched, at the request port."""
        touched = [line for line in burst.lines if line in self._demanded]
        for line in burst.lines:
            self.residency.land(line)
            del self._coming[line]
        self._demanded.difference_update(touched)
        for line in touched:
            self._promote(line)
        if touched:
            self.advance_core()
            self.core.observe(np.array(touched, np.uint64) << np.uint64(LINE_BITS))
        self._notify()

    def _release(self, lines: LineArray) -> None:
        """What a request held may be collected."""
        self.residency.release(lines)
        self._notify()

    def _notify(self) -> None:
        """Wake whoever waits for room."""
        self._changed.succeed()
        self._changed = self.env.event()

    def _wait(self, event: simpy.Event, deadline: int) -> Process[None]:
        """Wait for an event, but not beyond the deadline."""
        if event.triggered:
            return
        yield event | self.env.timeout(max(deadline - self._now, 0))
        if not event.triggered:
            raise OSError(errno.ETIMEDOUT, f"not done after {self.timeout_ns} ns of device time")


def _writable_bytes(buffer: Any) -> npt.NDArray[np.uint8]:
    """A buffer's memory."""
    try:
        memory = np.frombuffer(buffer, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise OSError(errno.EFAULT, f"no contiguous buffer: {type(buffer).__name__}") from None
    if not memory.flags.writeable:
        raise OSError(errno.EFAULT, f"the buffer is read-only: {type(buffer).__name__}")
    return memory


def _when(event: simpy.Event, action: Callable[[], None]) -> None:
    """Act when an event that has just been made happens."""
    assert event.callbacks is not None
    event.callbacks.append(lambda _: action())


def _nothing() -> None:
    """Release nothing."""
