"""Every proof there is: which build, which claims, in how many runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from formal.config_harness import ConfigHarness
from formal.core_harness import CoreHarness
from formal.proof_params import small
from formal.prover import Harness, Proof
from formal.recency_harness import RecencyHarness
from kv_asu.params import Params

#: Claims of the recency list, and in how many runs: a solver is quicker with a few claims at a time.
LIST_GROUPS = {
    "order": 1,
    "flights": 1,
    "head": 1,
    "rising": 1,
    "neighbours": 8,
    "chain": 8,
    "stamps": 4,
    "parities": 8,
    "older links": 1,
    "newer links of the list": 1,
    "newer links of the tail": 1,
    "newer links of the candidate": 1,
    "reads": 1,
    "joint": 1,
    "tail": 2,
    "candidate": 5,
    "contract": 1,
    "told": 1,
    "punctual": 1,
    "in time": 1,
    "oldest": 1,
}

#: Claims of the core around it; those of each lookup's stages come on top.
CORE_GROUPS = {
    "lifecycle": 1,
    "to the list": 1,
    "table": 6,
    "windows": 1,
    "copies": 1,
    "population": 1,
    "marks": 1,
    "time": 1,
    "answers": 1,
    "decisions": 2,
}

CONFIG_GROUPS = {"reads": 1, "writes": 1, "settings": 1}


def core_groups(params: Params) -> dict[str, int]:
    """Claims of the core of a build."""
    stages = {
        f"{port}_lookup stage {stage}": 1 for port in ("request", "query") for stage in range(params.table_stages + 1)
    }
    return CORE_GROUPS | stages


def all_proofs() -> Iterator[Proof]:
    """All of them, with the covers of each build."""
    yield from _of(ConfigHarness, "config port", CONFIG_GROUPS)
    yield Proof(ConfigHarness, "config port", "covers", 8)
    for follows, how in ((False, "L = 1"), (True, "list follows")):
        params = small(2, follows=follows, stamp_width=1)
        yield from _of(partial(RecencyHarness, params), f"recency list, {how}", LIST_GROUPS)
        yield Proof(partial(RecencyHarness, params), f"recency list, {how}", "covers", 16)
    for follows, how in ((False, "L = 1"), (True, "table_stages = 2")):
        for window in (2, 4):
            params = small(window, follows=follows)
            depth = params.latency + 1
            name = f"core, window {window}, {how}"
            yield from _of(partial(CoreHarness, params), name, core_groups(params), answers=depth)
            # Narrower stamps alias sooner.
            quick = small(window, follows=follows, stamp_width=3)
            yield Proof(partial(CoreHarness, quick), name, "covers", 20 + params.latency)


def _of(harness: Callable[[], Harness], name: str, groups: dict[str, int], *, answers: int = 2) -> Iterator[Proof]:
    for group, parts in groups.items():
        for part in range(parts):
            yield Proof(harness, name, group, answers if group == "answers" else 2, part, parts)
