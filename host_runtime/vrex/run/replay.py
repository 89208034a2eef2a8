"""Plays a trace through a `DynamicRetrievalCache`: KV is written when it is born, and read when its tile asks.

A trace has no data in it, so each token's keys and values are made from its place, and what comes back is held against
them, bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kv_asu_firmware.residency import Bank
from vrex.bench.stream import Birth, Read, Stream
from vrex.errors import KvCacheFull, VrexError
from vrex.runtime.cache import MIB, DynamicRetrievalCache
from vrex.runtime.core_watch import WatchSettings
from vrex.runtime.metrics import FrameMetrics
from vrex.runtime.policy import Lines
from vrex.trace.address_map import LINE_BYTES, AddressMap, PatchGrid, each_once
from vrex.transports import open_transport
from vrex.transports.base import Bus

#: Lines of the next visit are brought ahead when they are at least so likely to be read by it.
LIKELY = 0.9


def layout_of(stream: Stream, max_tokens: int | None = None) -> AddressMap:
    """The layout of a cache for the traced layers and heads alone, densely numbered.

    Parameters
    ----------
    stream : Stream
    max_tokens : int, optional
        The longest the stream gets; as long as the trace unless given.
    """
    kv = stream.geometry.address_map
    layers, heads = _layers_and_heads(stream)
    return AddressMap(len(layers), len(heads), kv.head_size, max_tokens or kv.max_tokens, kv.dtype)


def _layers_and_heads(stream: Stream) -> tuple[list[int], list[int]]:
    heads = stream.geometry.address_map.heads
    return sorted({group // heads for group in stream.groups}), sorted({group % heads for group in stream.groups})


@dataclass(frozen=True)
class Shape:
    """What a cache is made for.

    Parameters
    ----------
    kv : AddressMap
        The layout.
    lines, reads_per_frame : int
        Lines of the whole stream, and lines that a frame asks for at most.
    frame_ns : int
        From one frame to the next.
    tiles : int
        Of a visit.
    grid : PatchGrid
    """

    kv: AddressMap
    lines: int
    reads_per_frame: int
    frame_ns: int
    tiles: int
    grid: PatchGrid

    @classmethod
    def of(cls, stream: Stream, max_tokens: int | None = None) -> Shape:
        """Of a trace; `max_tokens` as for `layout_of`."""
        kv, grid = layout_of(stream, max_tokens), stream.geometry.grid
        return cls(kv, stream.lines, stream.reads_per_frame, stream.frame_ns, stream.tiles, grid)


def cache_for(
    shape: Shape,
    transport: str | Bus,
    *,
    share: float | None = None,
    reserve_mb: float = 2048,
    gc_threshold: float = 0.85,
    prefetch: bool = True,
    heartbeat: bool = True,
    log2_entries: int = 11,
    looks_per_frame: int = 0,
) -> DynamicRetrievalCache:
    """A cache with a core of its own.

    Parameters
    ----------
    shape : Shape
    transport : str or Bus
        What the core is: "rtl" or "model", or one with a table of `log2_entries`.
    share : float, optional
        Near memory as a share of the stream's KV, instead of MiB.
    reserve_mb, gc_threshold, heartbeat
        As for `DynamicRetrievalCache`.
    prefetch : bool
        Whether there is room for lines that are brought ahead.
    log2_entries : int
        Slots of the core's table, log2.
    looks_per_frame : int
        Lines whose T-levels somebody asks for in a frame, beside the policy: they take clocks, too.
    """
    bus = open_transport(transport, log2_entries=log2_entries) if isinstance(transport, str) else transport
    assert isinstance(bus, Bus)
    busy = shape.reads_per_frame + looks_per_frame
    whole = shape.kv.stream_bytes / MIB
    return DynamicRetrievalCache(
        shape.kv,
        bus=bus,
        reserve_mb=min(reserve_mb, 2 * whole) if share is None else max(share * whole, shape.kv.bytes_per_token / MIB),
        gc_threshold=gc_threshold,
        prefetch_share=0.125 if prefetch and share != 1.0 else 0.0,
        tiles=shape.tiles,
        grid=shape.grid,
        settings=WatchSettings.of_stream(shape.lines, busy, shape.frame_ns, 1 << log2_entries),
        heartbeat=heartbeat,
    )


def least_room(error: KvCacheFull, cache: DynamicRetrievalCache, *, reserve: bool) -> VrexError:
    """What a command says of near memory that is too small: what would do, at least.

    Parameters
    ----------
    error : KvCacheFull
    cache : DynamicRetrievalCache
        That raised it.
    reserve : bool
        Whether the command has the option --kv-cache-reserve-mb, beside --residency.
    """
    if not error.places:
        return error
    demand, ahead = cache.near.capacity(Bank.DEMAND), cache.near.capacity(Bank.PREFETCH)
    lines = math.ceil(error.places * (demand + ahead + 1) / demand)
    share = min(1, math.ceil(1000 * lines * LINE_BYTES / cache.kv.stream_bytes) / 1000)
    mib = math.ceil(100 * lines * LINE_BYTES / MIB) / 100
    options = f"--residency {share:g}" + f", or --kv-cache-reserve-mb {mib:g}," * reserve
    return KvCacheFull(
        f"frame {cache.frame.frame}: near memory has {demand:,} places for lines, and {error.places:,} lines are in "
        f"use at once: at least {options} makes room",
        error.places,
    )


class Replay:
    """One run.

    Parameters
    ----------
    stream : Stream
    cache : DynamicRetrievalCache
        New, of the layout that `layout_of` gives.
    min_tlevel : int
        What each retrieval asks for.
    prefetch : bool
        Whether lines are brought ahead.

    Attributes
    ----------
    cache : DynamicRetrievalCache
    lines : int
        Lines read so far.
    reads_per_frame : int
        Lines that a frame asks for at most.
    """

    def __init__(self, stream: Stream, cache: DynamicRetrievalCache, min_tlevel: int, prefetch: bool) -> None:
        self._stream = stream
        self.cache = cache
        self._min_tlevel = min_tlevel
        self._prefetch = prefetch
        self.lines = 0
        self.reads_per_frame = stream.reads_per_frame
        layers, heads = _layers_and_heads(stream)
        self._layer = {layer: index for index, layer in enumerate(layers)}
        self._head = {head: index for index, head in enumerate(heads)}

    def run(self) -> Iterator[FrameMetrics]:
        """Play, and give each frame's figures when it is over.

        Raises
        ------
        VrexError
            Near memory, or the longest stream, is too small; the device has gone; or data came back changed.
        """
        cache = self.cache
        born: list[Birth] = []
        for event in self._stream.events():
            if isinstance(event, Birth):
                born.append(event)
                continue
            if event.frame != cache.frame.frame:
                if cache.frame.lines:
                    yield cache.end_frame(event.frame)
                cache.frame.frame = event.frame
                if self._stream.motion is not None and event.frame < len(self._stream.motion):
                    cache.policy.motion = self._stream.motion[event.frame]
            cache.pass_time(int(event.time_ns[0]) - cache.now_ns)
            for birth in born:
                self._write(birth)
            born = []
            self._read(event)
        yield cache.end_frame()

    def _place(self, group: int) -> tuple[int, int]:
        layer, head = divmod(group, self._stream.geometry.address_map.heads)
        return self._layer[layer], self._head[head]

    def _write(self, birth: Birth) -> None:
        kv = self.cache.kv
        layer, _ = self._place(next(iter(birth.heads)))
        first = self.cache.tokens(layer)
        count = min(self._stream.geometry.grid.tokens_per_frame, self._stream.geometry.address_map.max_tokens - first)
        tokens = first + np.arange(count)
        pairs = [made_up(kv, layer, head, tokens, self.cache.element) for head in range(kv.heads)]
        keys, values = (np.stack(halves) for halves in zip(*pairs, strict=True))
        self.cache.append(layer, keys, values)

    def _read(self, read: Read) -> None:
        cache = self.cache
        layer, head = self._place(read.group)
        if self._prefetch and read.tile == 0:
            prefetch_following(cache, layer, head, self._min_tlevel)
        tokens = self._tokens(read)
        checked_read(
            cache, layer, head, tokens, made_up(cache.kv, layer, head, tokens, cache.element), self._min_tlevel
        )
        self.lines += len(read.lines)

    def _tokens(self, read: Read) -> Lines:
        """The tokens that lines hold."""
        kv = self._stream.geometry.address_map
        first = kv.locate_line(read.lines).token
        tokens = each_once(first[:, np.newaxis] + np.arange(max(1, LINE_BYTES // kv.bytes_per_token)))
        return tokens[tokens < self.cache.tokens(self._place(read.group)[0])]


def prefetch_following(cache: DynamicRetrievalCache, layer: int, head: int, min_tlevel: int) -> None:
    """A visit of a head begins: lines of the one after it begin to come ahead."""
    following = cache.policy.following(layer * cache.kv.heads + head)
    cache.prefetch_likely(*divmod(following, cache.kv.heads), LIKELY, min_tlevel)


def checked_read(
    cache: DynamicRetrievalCache,
    layer: int,
    head: int,
    tokens: Lines,
    written: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    min_tlevel: int,
) -> None:
    """Read tokens, and hold keys and values against what was written, bit by bit.

    Raises
    ------
    VrexError
        They differ, or as `DynamicRetrievalCache.read` does.
    """
    for there, here in zip(cache.read(layer, head, tokens, min_tlevel), written, strict=True):
        if there.tobytes() != here.tobytes():
            where = f"frame {cache.frame.frame}, layer {layer}, head {head}"
            raise VrexError(f"{where}: data came back changed; report this")


def made_up(
    kv: AddressMap, layer: int, head: int, tokens: Lines, element: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Keys and values of tokens, each shape (n, head size): bits that follow from where they are, seldom alike."""
    where = (layer * kv.heads + head) * kv.max_tokens + tokens
    lane = np.arange(kv.token_bytes // 4, dtype=np.uint32)
    bits = where.astype(np.uint32)[:, np.newaxis] * np.uint32(0x9E3779B1) + lane * np.uint32(0x85EBCA77)
    bits ^= bits >> np.uint32(15)
    data = np.ascontiguousarray(bits).view(element).reshape(len(tokens), 2, kv.head_size)
    return np.ascontiguousarray(data[:, 0]), np.ascontiguousarray(data[:, 1])
