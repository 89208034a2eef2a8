"""What the tables have in common: a core for a stream, and bars to watch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from vrex.bench.stream import Stream
from vrex.runtime.core_watch import CoreWatch, WatchSettings
from vrex.trace.format import Progress

#: Bar of one job: its name and unit; gives what a `Progress` is given.
Bars = Callable[[str, str], AbstractContextManager[Progress]]


def new_watch(stream: Stream, transport: str, log2_entries: int) -> CoreWatch:
    """A core on a transport, programmed for a stream."""
    from vrex.transports import open_transport
    from vrex.transports.base import Bus

    bus = open_transport(transport, log2_entries=log2_entries)
    assert isinstance(bus, Bus)
    settings = WatchSettings.of_stream(stream.lines, stream.reads_per_frame, stream.frame_ns, 1 << log2_entries)
    return CoreWatch(bus, settings)
