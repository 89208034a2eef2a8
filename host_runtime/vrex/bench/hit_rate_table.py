"""Table 1: hit rate by residency, V-Rex and each of its predictors against the peers."""

from __future__ import annotations

from dataclasses import replace

from vrex.bench.driver_alone import driver_hit_rates
from vrex.bench.hit_rate import HitRate, TLevelTape, hit_rates
from vrex.bench.jobs import Bars, new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.peers import BOUND, ONLINE, peer_hit_rates
from vrex.bench.stream import Stream
from vrex.bench.table import Table
from vrex.runtime.core_watch import CoreWatch
from vrex.runtime.policy import ALL

DEFINITION = (
    "Share of the lines asked for that were resident when their tile asked. Residency is a share of all lines born by "
    "the stream's end; lines are resident at birth, births do not count; nothing is brought ahead of its use, so bytes "
    "moved are the misses and the best hit rate moves the fewest. Belady knows the future."
)

#: Those that are switched off one by one.
PREDICTORS = ("tlevels", "history", "lstm", "templates")


def hit_rate_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it.

    Parameters
    ----------
    stream : Stream
    knobs : BenchKnobs
    transport : str
        "rtl" or "model": what the core is.
    with_peers : bool
        Whether libcachesim takes part.
    bars : callable
        Progress of each part.
    """
    residencies = knobs.hit_rate["residencies"]
    default, *larger = knobs.hit_rate["log2_entries"]

    def watch(log2_entries: int = default) -> CoreWatch:
        return new_watch(stream, transport, log2_entries)

    runs = [("V-Rex", ALL, default)]
    runs += [(f"V-Rex, {1 << log2:,} slots", ALL, log2) for log2 in larger]
    runs += [(f"V-Rex without {name}", replace(ALL, **{name: False}), default) for name in PREDICTORS]
    by_tlevels = replace(ALL, history=False, lstm=False)
    runs += [(f"T-levels and templates, {1 << log2:,} slots", by_tlevels, log2) for log2 in (default, *larger)]
    results: list[list[HitRate]] = []
    cores = {log2: TLevelTape(watch(log2)) for log2 in (default, *larger)}
    for name, predictors, log2 in runs:
        with bars(name, "reads") as bar:
            results.append(hit_rates(stream, residencies, predictors, cores[log2], name, progress=bar))
    with bars("driver alone", "reads") as bar:
        results.append(driver_hit_rates(stream, residencies, watch, bar))
    peers: list[HitRate] = []
    if with_peers:
        with bars("peers", "runs") as bar:
            peers = peer_hit_rates(stream, residencies, progress=bar)
    for name in (*ONLINE, *BOUND) if peers else ():
        results.append([result for result in peers if result.policy == name])
    table = Table(
        "hit-rate", f"Hit rate, {stream.path.name}", DEFINITION, ("policy", *(f"{r:.0%}" for r in residencies))
    )
    table.rows = [(row[0].policy, *(result.rate for result in row)) for row in results]
    if peers:
        ours = results[0]
        best = [max(r.rate for r in peers if r.policy in ONLINE and r.residency == share) for share in residencies]
        bound = [r.rate for r in peers if r.policy in BOUND]
        table.rows.append(("V-Rex less best online peer", *(a.rate - b for a, b in zip(ours, best, strict=True))))
        table.rows.append(("V-Rex as a share of Belady", *(a.rate / b for a, b in zip(ours, bound, strict=True))))
    return table
