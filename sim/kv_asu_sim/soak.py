"""Tens of millions of requests through the compiled RTL, every answer held against the model: ``make soak``.

The scoreboard follows registers and life cycle as well and costs time for it. Here settings are drawn once an epoch,
and then all three ports are busy for as long as it lasts, so that the model alone sets the pace. At an epoch's end the
counters are compared. Memory does not grow: an epoch is run in chunks.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, VictimStatus
from kv_asu_firmware.golden import COUNTERS, KvAsuGolden, Query, Settings
from kv_asu_sim.compiled import BuildError, CompiledCore
from kv_asu_sim.coverage_report import BUILDS
from kv_asu_sim.pins import OUTPUTS
from kv_asu_sim.streams import SNAPSHOT, Plan

#: Clocks of one chunk, and chunks of one epoch.
CHUNK = 1 << 15
EPOCH = 16

#: Every how many seconds a build tells how far it is.
_PATIENCE = 20.0

_TAG = [name for name in OUTPUTS.names or () if name.startswith(("tag_", "spill_")) and name != "tag_valid"]
_ANSWER = ["answer_tracked", "answer_tlevel", "answer_hit"]
_VICTIM = ["victim_status", "victim_line"]


class Difference(AssertionError):
    """Core and model differ; the message says where, how, and how to get there again."""


class Epoch:
    """One build with one set of settings, from reset on.

    Parameters
    ----------
    core : CompiledCore
        The core; it is reset.
    rng : Generator
        Every choice comes from it.
    """

    def __init__(self, core: CompiledCore, rng: np.random.Generator) -> None:
        self.core = core
        self.compared: Counter[str] = Counter()
        self._plan = plan = Plan(core.params, rng)
        self._golden = KvAsuGolden(core.params)
        limit = core.params.t1_limit
        t1 = int(min(rng.choice([1, 3, 8, 30, 125, limit]), limit))
        t2, t3 = int(rng.integers(0, t1 + 1)), int(rng.integers(0, t1 + 1))
        settings = Settings(
            log2_active=core.params.log2_entries,
            enable=True,
            decay=int(rng.integers(3)),
            reclaim_off=bool(rng.random() < 0.2),
            tick_shift=int(rng.choice([0, 0, 1, 2, 5])),
            t3_count=int(rng.integers(1, 9)),
            t2_count=int(rng.integers(1, 6)),
            t1_age=t1,
            t2_age=t2,
            t3_age=min(t3, t2),
            hash_seed=int(rng.integers(1 << 32)),
        )
        rows = plan.start(
            t1=t1,
            t2=(settings.t2_count, t2),
            t3=(settings.t3_count, t3),
            tick_shift=settings.tick_shift,
            hash_seed=settings.hash_seed,
            control=settings.decay << 4 | settings.reclaim_off << 6,
        )
        enabled_at = int(np.flatnonzero(rows["cfg_ext_write_received"])[-1])
        core.run(rows)
        self._golden.settings = settings
        self._golden.activate()
        # It was emptied a row a clock, and what might have been in flight drained; from now on the model decides
        # in the clocks in which the pins answer.
        self._golden.idle(len(rows) - enabled_at - core.params.rows - 3)
        hot = plan.lines(int(rng.integers(1, 12)))
        cold = plan.lines(int(rng.integers(2, 3 * plan.active)))
        self._pool = np.concatenate([np.repeat(hot, 1 + cold.size // hot.size), cold])

    def run_chunk(self, clocks: int) -> None:
        """Run and compare so many clocks.

        Raises
        ------
        Difference
            An answer differs, or a RETRY may not be.
        """
        plan, core, golden = self._plan, self.core, self._golden
        blocks, left = [], clocks
        while left > 0:
            blocks.append(plan.mixed(self._pool, min(left, int(plan.rng.integers(200, 5000)))))
            blocks.append(plan.idle(int(plan.rng.choice([0, 0, 10, 300]))))
            left -= len(blocks[-2]) + len(blocks[-1])
        drain = plan.idle(core.params.latency)
        rows = np.concatenate([*blocks, drain])
        outputs = core.run(rows)
        rows, outputs = rows[: -len(drain)], outputs[len(drain) :]
        clock = golden.clock
        compared = self.compared
        asked = zip(
            *(rows[name].tolist() for name in ("req_valid", "req_addr", "query_valid", "query_addr",
                                               "query_min_tlevel", "query_boost", "evict_valid")),
            strict=True,
        )  # fmt: skip
        seen = zip(*(_answers(outputs, names) for names in (_TAG, _ANSWER, _VICTIM)), strict=True)
        for (request, address, query, about, least, boost, evict), (tag, answer, victim) in zip(
            asked, seen, strict=True
        ):
            retry = bool(evict) and victim[0] == VictimStatus.RETRY
            wanted = clock(
                address if request else None, Query(about, least, bool(boost)) if query else None, bool(evict), retry
            )
            if request and wanted.tag != tag:
                raise Difference(f"request to {address:#x}: {_shown(_TAG, tag)}, expected {_shown(_TAG, wanted.tag)}")
            if wanted.answer is not None and wanted.answer[:3] != answer:
                raise Difference(f"query of {about:#x}: {_shown(_ANSWER, answer)}, expected {wanted.answer}")
            if evict and wanted.victim != victim:
                raise Difference(f"evict: {_shown(_VICTIM, victim)}, expected {_shown(_VICTIM, wanted.victim)}")
            if retry and not golden.retry_allowed():
                raise Difference("evict: RETRY, but the tail was not touched lately")
        golden.idle(len(drain))
        for port, valid in (("requests", "req_valid"), ("queries", "query_valid"), ("evicts", "evict_valid")):
            compared[port] += int(rows[valid].sum())
        compared["clocks"] += len(rows)

    def compare_counters(self) -> None:
        """Compare what has been counted, once nothing moves; cycles go on and are left out.

        Raises
        ------
        Difference
            A counter differs.
        """
        core, plan = self.core, self._plan
        quiet = (plan.t1_age + 2 << plan.tick_shift) + 64  # every line grows cold, and is counted
        core.idle(quiet)
        self._golden.idle(quiet)
        base = core.params.config_base
        core.write(base + REGISTERS["CTRL"].offset, plan.control | SNAPSHOT, 4)
        core.idle(8)
        for index, name in enumerate(COUNTERS):
            core.write(base + REGISTERS["COUNTER_SELECT"].offset, index, 4)
            core.idle(2)
            low, high = (core.read(base + REGISTERS[f"COUNTER_{half}"].offset, 4) or 0 for half in ("LO", "HI"))
            wanted = self._golden.counters[name]
            if name != "cycles" and (high << 32 | low) != wanted:
                raise Difference(f"counter {name} reads {high << 32 | low:,}, expected {wanted:,}")


def _answers(outputs: np.ndarray, names: Sequence[str]) -> list[tuple[int, ...]]:
    return list(zip(*(outputs[name].tolist() for name in names), strict=True))


def _shown(names: Sequence[str], values: Sequence[int] | None) -> str:
    return ", ".join(f"{name} {value:#x}" for name, value in zip(names, values or (), strict=False))


def soak(name: str, params: Params, requests: int, seed: int, first: int = 0) -> Counter[str]:
    """Run epochs on one build until so many requests are compared.

    Parameters
    ----------
    name : str
        The build's name, for what is printed.
    params : Params
        The build.
    requests : int
        When to stop.
    seed, first : int
        Of every epoch's choices, and the epoch to begin with.

    Returns
    -------
    Counter of str
        How many requests, queries, evicts and clocks were compared.

    Raises
    ------
    Difference
        With the command that begins with the failing epoch.
    """
    core = CompiledCore(params, seed=seed % (2**31 - 1))
    total: Counter[str] = Counter()
    began = told = time.perf_counter()
    number = first
    while total["requests"] < requests:
        epoch = Epoch(core, np.random.default_rng([seed, number]))
        done = total["requests"]
        try:
            for _ in range(EPOCH):
                epoch.run_chunk(CHUNK)
                total.update(epoch.compared)
                epoch.compared.clear()
                if total["requests"] >= requests:
                    break
                if time.perf_counter() - told > _PATIENCE:
                    told = time.perf_counter()
                    rate = total["requests"] / (told - began)
                    print(f"{name}: {total['requests']:,} requests equal, {rate:,.0f} a second", flush=True)
            epoch.compare_counters()
        except Difference as difference:
            raise Difference(
                f"{name}, epoch {number}, after {total['requests'] - done:,} of its requests: {difference}\n"
                f"again: python -m kv_asu_sim.soak --build '{name}' --seed {seed} --first-epoch {number}"
            ) from None
        number += 1
    seconds = time.perf_counter() - began
    print(
        f"{name}: {total['requests']:,} requests, {total['queries']:,} queries and {total['evicts']:,} evicts equal in "
        f"{number - first} epochs, {total['requests'] / seconds:,.0f} requests a second",
        flush=True,
    )
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when core and model differ."""
    parser = Parser(
        "python -m kv_asu_sim.soak",
        "Hold the compiled RTL against the model over millions of requests.",
        ("--requests 1000000 --jobs 2", "--build '8 slots' --build fpga --seed 1"),
    )
    parser.add_argument(
        "--requests", type=whole_number(1), default=10_000_000, metavar="N", help="in all (default: %(default)s)"
    )
    parser.add_argument("--build", choices=list(BUILDS), action="append", help="default: all, each its share")
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: random")
    parser.add_argument(
        "--first-epoch", type=whole_number(), default=0, metavar="N", help="begin with it (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="builds run at once (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    names = options.build or list(BUILDS)

    def job() -> int:
        print(f"soak: {options.requests:,} requests over {', '.join(names)}; --seed {seed}", flush=True)
        total: Counter[str] = Counter()
        with ProcessPoolExecutor(options.jobs) as pool:
            share = -(-options.requests // len(names))
            runs = [pool.submit(soak, name, BUILDS[name], share, seed, options.first_epoch) for name in names]
            for run in runs:
                total += run.result()
        print("no difference: " + ", ".join(f"{count:,} {name}" for name, count in total.items()))
        return 0

    return parser.run(job, BuildError, Difference)


if __name__ == "__main__":
    raise SystemExit(main())
