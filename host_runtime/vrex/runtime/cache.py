"""`DynamicRetrievalCache`: the KV of one stream, of which the part that attention is about to read is near.

    append -> far memory, and resident at birth
    read   -> swap_in: policy and garbage collection -> driver -> DMA -> near memory -> the tokens' bytes, as written

The driver, its DMA engine and the residency are the firmware's; what is here decides what to keep, and holds the data.
Nothing is ever dropped or changed: collecting a line forgets a copy.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import simpy

from kv_asu_firmware.dma import ORIN_NX_NVME, DmaEngine, DmaParams
from kv_asu_firmware.driver import Driver, Request, Retrieval
from kv_asu_firmware.residency import Bank
from kv_asu_firmware.retrieve_abi import Flag, Status
from vrex.errors import DeviceGoneError, KvAsuTimeoutError, KvCacheFull
from vrex.runtime.core_watch import CoreWatch, WatchSettings
from vrex.runtime.lstm import Regions
from vrex.runtime.metrics import FrameMetrics, Totals
from vrex.runtime.near_memory import Bytes, NearMemory
from vrex.runtime.policy import ALL, Lines, Predictors, RetrievalPolicy
from vrex.runtime.templates import Template, visit_order
from vrex.runtime.tokenizer import Patch
from vrex.trace.address_map import LINE_BYTES, AddressMap, LineArray, PatchGrid, each_once

if TYPE_CHECKING:
    from vrex.registers import Register
    from vrex.transports.base import Bus

MIB = 1 << 20

#: Lines that one round of garbage collection asks the core's cold list for.
COLD_BATCH = 64

#: Rounds that may end with RETRY only: traffic keeps touching the list's tail then, and the policy takes over.
_COLD_ROUNDS = 64


@dataclass
class SwapIn:
    """What a retrieval found. While it is held, its lines are not collected; leaving it as a context releases them.

    Attributes
    ----------
    lines, hits, moved : int
        Lines asked for; those that were resident; those that had to come, of which some may have been on their way.
    device_time_ns : int
        Until the last of them was there.
    hit_lines : numpy.ndarray of uint64, shape (hits,)
        The line numbers of those that were resident.
    """

    lines: int
    hits: int
    moved: int
    device_time_ns: int
    hit_lines: LineArray
    _retrieval: Retrieval | None = None

    def release(self) -> None:
        """The lines have been read. Again does nothing."""
        if self._retrieval is not None:
            self._retrieval.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class DynamicRetrievalCache:
    """The cache of one stream. For one thread.

    Parameters
    ----------
    kv : AddressMap
        The stream's layout, of one stream. Its `max_tokens` is the longest the stream gets.
    bus : Bus, optional
        The KV-ASU; a device model of its own unless given.
    reserve_mb : float
        MiB of near memory, taken from the system at once.
    gc_threshold : float
        Share of the places taken from which on the core's cold lines are collected, over 0 to 1.
    prefetch_share : float
        Share of near memory for lines that are brought ahead, 0 to below 1.
    predictors : Predictors
        What may say how likely a line is read.
    tiles : int
        Tiles into which the kernel cuts a visit of a (layer, head).
    frame_ns : int
        From one frame to the next, by which the core's tick is chosen.
    grid : PatchGrid, optional
        How a frame's tokens tile its picture; without, the LSTM has nothing to say.
    settings : WatchSettings, optional
        How the core is programmed; by the stream's longest length and the core's table unless given.
    dma : DmaParams
    heartbeat : bool
        Keep the DMA engine awake.
    element : numpy.dtype, optional
        What `read` gives, of the size that `kv.dtype` has. float16 and float32 unless given, and for bf16 uint16: the
        bits.

    Attributes
    ----------
    settings : WatchSettings
        How the core is programmed.
    frame : FrameMetrics
        Of the present frame.
    totals : Totals
        Of the frames that are over.
    env : simpy.Environment
        The clock, in nanoseconds.

    Raises
    ------
    ValueError
        A number is out of its range.
    VrexError
        There is no such core, or it cannot become active.
    """

    def __init__(
        self,
        kv: AddressMap,
        *,
        bus: Bus | None = None,
        reserve_mb: float = 2048,
        gc_threshold: float = 0.85,
        prefetch_share: float = 0.125,
        predictors: Predictors = ALL,
        tiles: int = 16,
        frame_ns: int = 33_333_333,
        grid: PatchGrid | None = None,
        settings: WatchSettings | None = None,
        dma: DmaParams = ORIN_NX_NVME,
        heartbeat: bool = False,
        element: npt.DTypeLike | None = None,
    ) -> None:
        if len(kv.bases) != 1:
            raise ValueError(f"kv must lay out one stream, not {len(kv.bases)}: a cache holds one")
        if not 0 < gc_threshold <= 1:
            raise ValueError(f"gc_threshold must be over 0 and at most 1, not {gc_threshold!r}")
        if not 0 <= prefetch_share < 1:
            raise ValueError(f"prefetch_share must be 0 to below 1, not {prefetch_share!r}")
        places = int(reserve_mb * MIB) // LINE_BYTES
        ahead = int(places * prefetch_share)
        if places - ahead < kv.lines_per_token:
            raise ValueError(f"reserve_mb must have room for a token, not {reserve_mb!r}")
        if bus is None:
            from vrex.transports.model import ModelTransport

            bus = ModelTransport()
        self.kv = kv
        self.element = _element(kv, element)
        lines = -(-kv.stream_bytes // LINE_BYTES)
        self._first_line = kv.bases[0] // LINE_BYTES
        # The system gives memory for the pages that are written to, so a long stream costs what it holds.
        self._far: Bytes = np.zeros((lines, LINE_BYTES), np.uint8)
        self.near = NearMemory(self._far, self._first_line, places - ahead, ahead)
        self.settings = settings or WatchSettings.of_stream(lines, lines, frame_ns, 1 << bus.params.log2_entries)
        self._watch = CoreWatch(bus, self.settings)
        self.env = simpy.Environment()
        self.dma = DmaEngine(self.env, dma)
        if heartbeat:
            self.env.process(self.dma.heartbeat())
        self._driver = Driver(self._watch.bus, kv, self.near, self.dma, line_shift=self.settings.line_shift)
        order = visit_order(Template.of_attention(kv), kv)
        regions = Regions(kv, grid) if grid is not None and predictors.lstm else None
        self.policy = RetrievalPolicy(kv, tiles, predictors, self._tlevels, order, regions)
        self._gc_threshold = gc_threshold
        self._tokens = [0] * kv.layers
        self._visit: tuple[int, int] | None = None
        self._tile = 0
        self._ahead: set[int] = set()  # lines brought ahead that nobody has asked for yet
        self._bytes_before = 0
        self._began_ns: int | None = None  # the frame's first KV, or retrieval
        self.frame = FrameMetrics(0)
        self.totals = Totals()

    # The stream

    def tokens(self, layer: int) -> int:
        """Tokens a layer holds."""
        return self._tokens[layer]

    @property
    def held_bytes(self) -> int:
        """Bytes of KV written so far, near or not."""
        return sum(self._tokens) * self.kv.heads * self.kv.token_bytes

    def append(self, layer: int, keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """New KV of a layer: it is kept for ever, and resident now.

        Parameters
        ----------
        layer : int
        keys, values : numpy.ndarray, shape (heads, tokens, head size)
            Of the cache's element size.

        Raises
        ------
        ValueError, TypeError
            Another shape or element size, or no such layer.
        KvCacheFull
            The stream is at its longest, or what is being read leaves no room. Nothing has changed.
        """
        kv = self.kv
        if not 0 <= layer < kv.layers:
            raise ValueError(f"layer must be 0 to {kv.layers - 1}, not {layer!r}")
        given = [self._checked(name, array) for name, array in (("keys", keys), ("values", values))]
        count = given[0].shape[1]
        if given[1].shape != given[0].shape:
            raise ValueError(f"values must have the shape of keys, {given[0].shape}, not {given[1].shape}")
        if not count:
            return
        first = self._tokens[layer]
        if first + count > kv.max_tokens:
            raise KvCacheFull(
                f"layer {layer} holds {first} tokens of at most {kv.max_tokens}, no room for {count} more: "
                "a longer --max-model-len makes room"
            )
        self._begin()
        tokens = first + np.arange(count)
        lines = [self._lines(layer, head, tokens) for head in range(kv.heads)]
        new = each_once(np.concatenate(lines))
        self._check_room(coming := new[~self._driver.have_place(self._numbers(new))])
        self._make_room(coming)
        for head in range(kv.heads):
            self._write(layer, head, tokens, *(array[head] for array in given))
        self._tokens[layer] = first + count
        self._driver.admit(self._numbers(new))
        self.near.refresh(new)
        for head in range(kv.heads):
            self.policy.write(layer * kv.heads + head, lines[head])
        self.frame.written += len(new)

    def swap_in(
        self,
        tokens: npt.ArrayLike,
        layer: int,
        head: int,
        min_tlevel: int = 0,
        *,
        frame: int | None = None,
        patch: Patch | None = None,
    ) -> SwapIn:
        """Make tokens' lines resident: those that are missing come, and no others.

        Parameters
        ----------
        tokens : array of int, shape (n,)
            Each once, in any order.
        layer, head : int
        min_tlevel : int
            0 to 3: resident lines of lower T-levels may be collected as soon as they have been read.
        frame : int, optional
            The frame whose queries ask; the present one unless given.
        patch : Patch, optional
            Whose tokens they are, if of one row of patches: the driver notes that row as hot when one of them is.

        Returns
        -------
        SwapIn
            To be released when the tokens have been read.

        Raises
        ------
        ValueError
            There are no such tokens, layer or head.
        KvCacheFull
            Near memory has no room for them beside what else is being read. Nothing has changed.
        DeviceGoneError
            The core is not active. Resident lines stay, and the cache goes on when the core does.
        """
        wanted = self._checked_tokens(tokens, layer, head)
        if min_tlevel not in range(4):
            raise ValueError(f"min_tlevel must be 0 to 3, not {min_tlevel!r}")
        places = self._lines(layer, head, wanted)
        asked_by = self.frame.frame if frame is None else frame
        if not len(wanted):
            return SwapIn(0, 0, 0, 0, np.zeros(0, np.uint64))
        self._begin()
        kept = self._numbers(places)
        self.near.hold(kept)
        try:
            self._check_room(coming := places[~self._driver.are_in(Bank.DEMAND, kept)], keep=len(places))
            group = layer * self.kv.heads + head
            self._tile = self._tile + 1 if self._visit == (asked_by, group) else 0
            self._visit = asked_by, group
            self.policy.read(asked_by, group, self._tile, places)
            self._make_room(coming)
            request = _request(layer, head, int(wanted[0]), min_tlevel, asked_by, patch)
            retrieval = self._retrieve(request, wanted)
        finally:
            self.near.release(kept)
        return self._account(retrieval)

    def read(
        self,
        layer: int,
        head: int,
        tokens: npt.ArrayLike,
        min_tlevel: int = 0,
        *,
        frame: int | None = None,
        patch: Patch | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Retrieve tokens, and read them.

        The core sees the reads on its bus: of lines that were missing as they land, of the others now.

        Parameters
        ----------
        layer, head, tokens, min_tlevel, frame, patch
            As for `swap_in`.

        Returns
        -------
        keys, values : numpy.ndarray, shape (n, head size)
            In the order asked for; the very bits that were appended.
        """
        with self.swap_in(tokens, layer, head, min_tlevel, frame=frame, patch=patch) as held:
            wanted = np.asarray(tokens, np.int64).reshape(-1)
            if not held.lines:
                empty = np.empty((0, self.kv.head_size), self.element)
                return empty, empty.copy()
            self._driver.advance_core()
            self._watch.bus.observe(held.hit_lines * np.uint64(LINE_BYTES))
            return self._gather(layer, head, wanted)

    def prefetch_likely(self, layer: int, head: int, likely: float = 0.5, min_tlevel: int = 0) -> int:
        """Begin to bring ahead what the policy thinks at least so likely to be read in the next visit of a head.

        Returns
        -------
        int
            Lines that are on their way now because of it.
        """
        places = self.policy.expected(layer * self.kv.heads + head, likely)
        tokens = self.kv.locate_line((places + self._first_line).astype(np.uint64)).token
        tokens = np.unique(tokens)
        return self.prefetch(tokens[tokens < self._tokens[layer]], layer, head, min_tlevel)

    def prefetch(
        self, tokens: npt.ArrayLike, layer: int, head: int, min_tlevel: int = 0, *, patch: Patch | None = None
    ) -> int:
        """Begin to bring tokens' missing lines ahead, as far as there is room for lines brought ahead and in the queue.

        Parameters
        ----------
        tokens, layer, head, min_tlevel
            As for `swap_in`; lines below the T-level are left out.
        patch : Patch, optional
            Whose tokens they are, if of one row of patches: where that row was hot in the frame before or after, they
            count as one T-level hotter.

        Returns
        -------
        int
            Lines that are on their way now because of it.

        Raises
        ------
        ValueError
            As for `swap_in`.
        """
        wanted = self._checked_tokens(tokens, layer, head)
        lines = self._lines(layer, head, wanted)
        missing = lines[~self._driver.have_place(self._numbers(lines))]
        # No more than there is room for, in the bank and in the queue; a burst takes an entry, and a line at the least.
        room = min(self.near.capacity(Bank.PREFETCH), len(missing))
        while room and len(self.dma.merge(missing[:room].tolist(), Bank.PREFETCH)) > self.dma.free(Bank.PREFETCH):
            room //= 2
        if not room:
            return 0
        first = self.kv.locate_line((missing[:room] + self._first_line).astype(np.uint64)).token
        flags = Flag.PREFETCH | Flag.NO_WAIT | (Flag.SPATIAL_BOOST if patch else 0)
        request = _request(layer, head, int(first[0]), min_tlevel, self.frame.frame, patch, flags)
        try:
            self._retrieve(request, np.unique(first))
        except OSError as error:
            if error.errno != errno.EAGAIN:  # no room after all: what is brought ahead may be left out
                raise
            return 0
        queued = missing[self._driver.have_place(self._numbers(missing))].tolist()
        self._ahead.update(queued)
        self.frame.prefetched += len(queued)
        self.frame.moved += len(queued)
        return len(queued)

    def tlevels(self, layer: int, head: int, first: int, count: int) -> npt.NDArray[np.uint8]:
        """T-levels of a run of tokens as the core has them now, 0 to 3: shape (count,).

        Each granule is asked for once, at the query port, which touches nothing; it takes a clock. Of a token's lines
        the highest counts.
        """
        lines = self.kv.lines(layer, head, first + np.arange(count)).astype(np.int64)
        start = int(lines.min())
        self._driver.advance_core()
        levels = self._watch.tlevels(start, int(lines.max()) - start + 1)
        return np.asarray(levels[lines - start].reshape(count, -1).max(axis=1), np.uint8)

    def registers(self) -> dict[str, Register]:
        """The core's registers by name; reading changes nothing."""
        return self._watch.device.registers()

    # Time

    def end_frame(self, following: int | None = None) -> FrameMetrics:
        """The present frame is over, and another begins; gives what it came to.

        Parameters
        ----------
        following : int, optional
            The number of the frame that begins; one more than the last unless given.
        """
        over = self.frame
        over.latency_ms = 0.0 if self._began_ns is None else (self.now_ns - self._began_ns) / 1e6
        over.moved_bytes = self.dma.bytes_moved - self._bytes_before
        self.totals.add(over)
        self._began_ns, self._bytes_before = None, self.dma.bytes_moved
        self.frame = FrameMetrics(over.frame + 1 if following is None else following)
        return over

    def _begin(self) -> None:
        """A frame begins with its first KV, or retrieval."""
        if self._began_ns is None:
            self._began_ns = self.now_ns

    @property
    def now_ns(self) -> int:
        """Device time."""
        return int(self.env.now)

    def pass_time(self, ns: int) -> None:
        """Let device time pass: a kernel computes, or nobody asks for anything. Prefetches land meanwhile."""
        if ns > 0:
            self.env.run(until=self.env.now + ns)

    def warm_up(self) -> int:
        """Wake the DMA engine before the first frame needs it; gives the nanoseconds it took."""
        began = self.now_ns
        if self.dma.asleep:
            self.dma.keep_awake()
            self.pass_time(self.dma.params.wake_up_ns)
        else:
            self.dma.keep_awake()
        return self.now_ns - began

    # The machinery

    def _checked(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        array = np.asarray(array)
        if array.dtype.itemsize != self.element.itemsize:
            raise TypeError(f"{name} must be {self.kv.dtype}, {self.element.itemsize} bytes each, not {array.dtype}")
        if array.ndim != 3 or (array.shape[0], array.shape[2]) != (self.kv.heads, self.kv.head_size):
            raise ValueError(
                f"{name} must have shape ({self.kv.heads} heads, tokens, {self.kv.head_size}), not {array.shape}"
            )
        return array

    def _checked_tokens(self, tokens: npt.ArrayLike, layer: int, head: int) -> Lines:
        for name, value, size in (("layer", layer, self.kv.layers), ("head", head, self.kv.heads)):
            if not 0 <= value < size:
                raise ValueError(f"{name} must be 0 to {size - 1}, not {value!r}")
        wanted = np.asarray(tokens)
        if wanted.size and wanted.dtype.kind not in "ui":
            raise ValueError(f"tokens must be integers, not {wanted.dtype}")
        wanted = np.sort(wanted.astype(np.int64).reshape(-1))
        if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < self._tokens[layer]):
            outside = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise ValueError(f"token must be 0 to {self._tokens[layer] - 1}, not {outside}")
        if (wanted[1:] == wanted[:-1]).any():
            raise ValueError("tokens must be named once each")
        return wanted

    def _lines(self, layer: int, head: int, tokens: Lines) -> Lines:
        """The lines of tokens, by their place in the stream, each once, ascending."""
        lines = self.kv.lines(layer, head, tokens).ravel().astype(np.int64) - self._first_line
        return each_once(lines)

    def _numbers(self, places: Lines) -> LineArray:
        """Line numbers of lines by their place in the stream."""
        return (places + self._first_line).astype(np.uint64)

    def _write(self, layer: int, head: int, tokens: Lines, keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        data = np.concatenate([np.ascontiguousarray(keys), np.ascontiguousarray(values)], axis=1)
        start = int(self.kv.address(layer, head, int(tokens[0]))) - self._first_line * LINE_BYTES
        stride = self.kv.bytes_per_token
        room = self._far.reshape(-1)[start : start + len(tokens) * stride].reshape(len(tokens), stride)
        room[:, : self.kv.token_bytes] = data.view(np.uint8)

    def _gather(self, layer: int, head: int, tokens: Lines) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        kv = self.kv
        first = self.kv.lines(layer, head, tokens)[..., 0].astype(np.int64) - self._first_line
        lines = self.near.gather((first[:, np.newaxis] + np.arange(kv.lines_per_token)).reshape(-1))
        data = lines.reshape(len(tokens), kv.lines_per_token * LINE_BYTES)
        inside = (kv.address(layer, head, tokens) % np.uint64(LINE_BYTES)).astype(np.int64)
        if kv.bytes_per_token < LINE_BYTES:  # several tokens a line
            data = np.take_along_axis(data, inside[:, np.newaxis] + np.arange(kv.token_bytes), axis=1)
        halves = np.split(np.ascontiguousarray(data[:, : kv.token_bytes]), 2, axis=1)
        keys, values = (np.ascontiguousarray(half).view(self.element) for half in halves)
        return keys, values

    def _tlevels(self, first: int, count: int) -> npt.NDArray[np.uint8]:
        return self._watch.tlevels(self._first_line + first, count)

    def _check_room(self, coming: Lines, keep: int = 0) -> None:
        """See that lines that need a place can have one.

        Raises
        ------
        KvCacheFull
            They cannot, whatever is collected.
        """
        capacity = self.near.capacity(Bank.DEMAND)
        if keep > capacity:
            raise KvCacheFull(
                f"{keep} lines are to be read at once, near memory has places for {capacity}: "
                "a larger --kv-cache-reserve-mb, or fewer tokens at a time, makes room",
                keep,
            )
        if len(coming) > capacity:
            raise KvCacheFull(
                f"{len(coming)} lines are written at once, near memory has places for {capacity}: "
                "a larger --kv-cache-reserve-mb, or fewer tokens at a time, makes room",
                len(coming),
            )
        free, collectable = self.near.free(Bank.DEMAND), self.near.collectable(Bank.DEMAND)
        if len(coming) > free + collectable:
            raise KvCacheFull(
                f"{len(coming)} lines need a place, {free} of {capacity} are free and {collectable} can be collected: "
                "the others are being read or on their way; release what has been read"
            )

    def _make_room(self, coming: Lines) -> None:
        """Garbage collection: the core's cold lines when memory is nearly full, and the policy's choice for the rest.

        What is held, or on its way, is not collected.
        """
        self._collect_cold(len(coming))
        short = len(coming) - self.near.free(Bank.DEMAND)
        if short > 0:
            loose = self.near.loose_lines(Bank.DEMAND)
            victims = self.policy.victims(loose - self._first_line, short)
            self.near.collect_all(self._numbers(victims))
            self.frame.evictions += len(victims)

    def _collect_cold(self, coming: int) -> None:
        """Collect in batches what the core's cold list names, until memory is not nearly full any more."""
        self._driver.advance_core()
        most = self._gc_threshold * self.near.capacity(Bank.DEMAND)
        for _ in range(_COLD_ROUNDS):
            if self.near.capacity(Bank.DEMAND) - self.near.free(Bank.DEMAND) + coming <= most:
                return
            cold = self._watch.cold_lines(COLD_BATCH)
            for run in cold:
                lines = np.arange(run.start, run.stop)
                lines = lines[self.near.are_in(Bank.DEMAND, lines)]
                lines = lines[~self.near.are_held(lines)]
                self.near.collect_all(lines)
                self.frame.evictions += len(lines)
                self.frame.cold_evictions += len(lines)
            if len(cold) < COLD_BATCH // 2:  # the list is as good as empty
                return

    def _retrieve(self, request: Request, tokens: Lines) -> Retrieval:
        """Send a request to the driver, and wait for it."""
        try:
            answer = self.env.run(until=self.env.process(self._driver.nv_kvmem_retrieve(request, tokens)))
        except OSError as error:
            match error.errno:
                case errno.ENODEV:
                    raise DeviceGoneError("the KV-ASU is not active: `vrex doctor` finds the missing link") from None
                case errno.ETIMEDOUT:
                    raise KvAsuTimeoutError(f"far memory is too slow: {error.strerror}") from None
            raise
        assert isinstance(answer, Retrieval)
        return answer

    def _account(self, retrieval: Retrieval) -> SwapIn:
        frame, lines = self.frame, len(retrieval.lines)
        hit = retrieval.status & Status.RESIDENT != 0
        level = retrieval.status & Status.TLEVEL
        asked, found = np.bincount(level, minlength=4), np.bincount(level[hit], minlength=4)
        frame.level_lines = (frame.level_lines + asked).tolist()
        frame.level_hits = (frame.level_hits + found).tolist()
        if self._ahead:
            ahead = self._ahead.intersection((retrieval.lines.astype(np.int64) - self._first_line).tolist())
            frame.prefetch_hits += len(ahead)
            self._ahead -= ahead
        hits = int(hit.sum())
        frame.lines += lines
        frame.hits += hits
        frame.moved += lines - hits
        frame.retrievals_ns.append(retrieval.device_time_ns)
        frame.queue_depth = max(frame.queue_depth, self.dma.depth)
        return SwapIn(lines, hits, lines - hits, retrieval.device_time_ns, retrieval.lines[hit], retrieval)


def _request(
    layer: int, head: int, first: int, min_tlevel: int, frame: int, patch: Patch | None, flags: int = 0
) -> Request:
    """What the driver is asked. A token without a place in its picture names no patch."""
    request = Request(0, layer, head, first, min_tlevel=min_tlevel, flags=flags, frame=frame)
    if patch is None or patch.patch_row < 0:
        return request
    return replace(request, frame=patch.frame_id, patch_row=patch.patch_row, patch_column=patch.patch_col)


def _element(kv: AddressMap, element: npt.DTypeLike | None) -> np.dtype[Any]:
    usual = np.dtype({"fp16": np.float16, "bf16": np.uint16, "fp32": np.float32}[kv.dtype])
    given = usual if element is None else np.dtype(element)
    if given.itemsize != usual.itemsize:
        raise ValueError(f"element must have the size of {kv.dtype}, {usual.itemsize} bytes, not {given}")
    return given
