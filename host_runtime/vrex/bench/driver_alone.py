"""The hardware and its driver without the runtime's policy: what the core's cold list and least recent use reach.

The real driver makes room: the core's coldest lines first, then the least recently used ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vrex.bench.hit_rate import HitRate
from vrex.bench.stream import Birth, Stream
from vrex.extras import need
from vrex.runtime.core_watch import CoreWatch
from vrex.trace.format import Progress, no_progress

NAME = "core and driver alone"


def driver_hit_rates(
    stream: Stream, residencies: Sequence[float], new_watch: Callable[[], CoreWatch], progress: Progress = no_progress
) -> list[HitRate]:
    """The driver's hit rate at each residency.

    Parameters
    ----------
    stream : Stream
    residencies : sequence of float
    new_watch : callable
        Gives a core that is freshly programmed: evictions change it, so each residency needs its own.
    progress : callable
        Told the lines asked for so far, and how many there are, over all residencies.

    Raises
    ------
    VrexError
        SimPy is not installed.
    """
    need("the driver", "simpy")
    import simpy

    from kv_asu_firmware.dma import DmaEngine
    from kv_asu_firmware.driver import Driver
    from kv_asu_firmware.residency import Residency

    results = []
    done = 0
    for residency in residencies:
        watch = new_watch()
        pool = Residency(stream.places(residency))
        engine = DmaEngine(simpy.Environment())
        driver = Driver(watch.bus, stream.geometry.address_map, pool, engine, line_shift=watch.settings.line_shift)
        hits = 0
        for event in stream.events():
            if isinstance(event, Birth):
                driver.admit(np.concatenate([*event.heads.values()]).tolist())
                continue
            watch.read(event.lines, int(event.time_ns[0]))
            lines = event.lines.tolist()
            here = [line for line in lines if line in pool]
            for line in here:
                pool.use(line)
            pool.hold(here)  # the tile reads them
            missing = [line for line in lines if line not in pool]
            driver.admit(missing[: stream.places(residency) - len(here)])
            pool.release(here)
            hits += len(here)
            done += len(lines)
            progress(done, len(residencies) * stream.reads)
        results.append(HitRate(NAME, residency, stream.reads, hits, stream.reads - hits))
    return results
