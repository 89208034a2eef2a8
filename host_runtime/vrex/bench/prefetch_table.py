"""Table 1b: hit rate with lines brought ahead, and what it costs in bytes; then the peers with the same prefetcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vrex.bench.hit_rate import Follower, HitRate, TLevelTape, hit_rates
from vrex.bench.jobs import Bars, new_watch
from vrex.bench.knobs import BenchKnobs
from vrex.bench.peers import ONLINE, peer_hit_rates
from vrex.bench.stream import Stream
from vrex.bench.table import Table
from vrex.runtime.policy import ALL

DEFINITION = (
    "Hit rate as in table hit-rate, beside the lines moved per line asked for: misses, and what is brought ahead. When "
    "a (layer, head) begins, the lines of the next one that are likely enough to be read come, if they are worth more "
    "than what makes room for them; likely is the probability that V-Rex gives them. Equal bytes: of V-Rex's rows, the "
    "highest hit rate that moves no more than the best online peer without a prefetcher. Peers with the prefetcher are "
    "asked for the very same lines at the same time."
)


def prefetch_table(stream: Stream, knobs: BenchKnobs, transport: str, with_peers: bool, bars: Bars) -> Table:
    """Measure it; parameters as for `vrex.bench.hit_rate_table.hit_rate_table`."""
    residencies: list[float] = knobs.prefetch["residencies"]
    core = TLevelTape(new_watch(stream, transport, knobs.hit_rate["log2_entries"][0]))
    ours: list[list[HitRate]] = []
    for likely in (None, *knobs.prefetch["likely"]):
        name = "V-Rex" if likely is None else f"V-Rex, ahead if likely {likely}"
        with bars(name, "reads") as bar:
            ours.append(hit_rates(stream, residencies, core=core, name=name, prefetch=likely, progress=bar))
    columns = [name for r in residencies for name in (f"{r:.0%} hit rate", f"{r:.0%} moved")]
    table = Table("prefetch", f"Prefetch, {stream.path.name}", DEFINITION, ("policy", *columns))
    table.rows = [_row(results) for results in ours]
    if not with_peers:
        return table
    likely = knobs.prefetch["peers_likely"]
    with bars("peers", "runs") as bar:
        plain = _by_policy(peer_hit_rates(stream, residencies, ONLINE, progress=bar))
    with bars("peers with prefetch", "runs") as bar:
        follower = Follower(stream, ALL, core, likely)
        assisted = _by_policy(peer_hit_rates(stream, residencies, ONLINE, follower, progress=bar))
    best = [max(results, key=lambda result: result.rate) for results in zip(*plain.values(), strict=True)]
    equal = [
        max((row[n] for row in ours if row[n].moved <= peer.moved), key=lambda result: result.rate, default=None)
        for n, peer in enumerate(best)
    ]
    table.rows.append(("V-Rex at the best peer's bytes", *_cells(equal)))
    table.rows.append(("best online peer", *_cells(best)))
    table.rows += [_row(results) for results in plain.values()]
    table.rows += [(f"{name}, ahead if likely {likely}", *_cells(results)) for name, results in assisted.items()]
    return table


def _by_policy(results: Sequence[HitRate]) -> dict[str, list[HitRate]]:
    by_policy: dict[str, list[HitRate]] = {}
    for result in results:
        by_policy.setdefault(result.policy, []).append(result)
    return by_policy


def _row(results: Sequence[HitRate]) -> tuple[Any, ...]:
    return results[0].policy, *_cells(results)


def _cells(results: Sequence[HitRate | None]) -> list[float | None]:
    return [
        cell for result in results for cell in ((None, None) if result is None else (result.rate, result.moved_share))
    ]
