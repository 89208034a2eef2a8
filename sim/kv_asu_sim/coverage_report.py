"""Every stream on several builds, and what of the contract they have met: ``python -m kv_asu_sim.coverage_report``.

The compiled RTL runs in lockstep with the model; coverage that cocotb benches have saved can be added. Each bin of
:data:`kv_asu_sim.coverage.POINTS` must be hit, or be waived with a reason in ``coverage_waivers.toml``; a waiver of$
what is hit is as wrong as a bin that is not.
"""

from __future__ import annotations

import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu_sim.compiled import BuildError, CompiledCore
from kv_asu_sim.coverage import POINTS, Coverage, NoCoverage
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.scoreboard import Difference
from kv_asu_sim.streams import NEEDS_CLOCKS, STREAMS, play
from vrex.errors import VrexError
from vrex.files import check_file, whole_file

WAIVERS = Path(__file__).with_name("coverage_waivers.toml")

#: Tables small enough to be filled again and again, one of each window and of each number of table stages.
SMALL = {
    "8 slots": Params(log2_entries=3, window=2),
    "16 slots": Params(log2_entries=4, window=4),
    "32 slots, L = 8": Params(log2_entries=5, window=8, hash_stages=5, table_stages=2),
    "64 slots": Params(log2_entries=6, window=16, hash_stages=1, table_stages=1, stamp_width=9, addr_width=40),
}
BUILDS = {"asic": Params.asic(), "fpga": Params.fpga(), **SMALL}

#: Streams whose length does not depend on the table, and the one build that is enough for them.
_ONCE = dict.fromkeys(NEEDS_CLOCKS, "16 slots")


class Verdict(NamedTuple):
    """What is wrong with a coverage: bins not hit and not waived, waived though hit, waived though unknown."""

    missed: list[tuple[str, str]]
    needless: list[tuple[str, str]]
    unknown: list[tuple[str, str]]

    def __str__(self) -> str:
        lines = [
            f"{what}: {point}: {name}"
            for what, bins in zip(("never met", "waived, but met", "waived, but no bin"), self, strict=True)
            for point, name in bins
        ]
        return "\n".join(lines)


def waivers(path: Path = WAIVERS) -> dict[tuple[str, str], str]:
    """The waived bins, each with its reason.

    Raises
    ------
    ValueError
        A waiver has no reason.
    """
    waived: dict[tuple[str, str], str] = {}
    for waiver in tomllib.loads(path.read_text(encoding="utf-8"))["waiver"]:
        if not waiver.get("reason", "").strip():
            raise ValueError(f"{path.name}: the waiver of {waiver['point']} has no reason")
        waived |= {(waiver["point"], name): waiver["reason"] for name in waiver["bins"]}
    return waived


def judge(coverage: Coverage, waived: Iterable[tuple[str, str]]) -> Verdict:
    """Hold a coverage against the waivers."""
    waived = set(waived)
    known = {(point, name) for point, names in POINTS.items() for name in names}
    return Verdict(
        [bin_ for bin_ in coverage.missed() if bin_ not in waived],
        sorted(bin_ for bin_ in waived if coverage.hits[bin_]),
        sorted(waived - known),
    )


def collect(name: str, params: Params, streams: Sequence[str], clocks: int, seed: int) -> Coverage:
    """Run streams on one build of the compiled RTL.

    Raises
    ------
    Difference
        Core and model differ.
    """
    core = CompiledCore(params, seed=seed % (2**31 - 1))
    coverage = Coverage(params)
    for stream in streams:
        if _ONCE.get(stream, name) != name:
            continue
        length = max(params.rows + clocks, NEEDS_CLOCKS.get(stream, 0))
        try:
            lockstep(core, play(stream, params, seed, length), np.random.default_rng(seed), coverage)
        except Difference as difference:
            raise Difference(f"{name}, {stream}, seed {seed}: {difference}") from None
    return coverage


def table(coverage: Coverage, waived: Iterable[tuple[str, str]]) -> str:
    """One line for each coverpoint: bins met, waived, in all; and the rarest."""
    waived = set(waived)
    lines = [f"{'coverpoint':<20} {'met':>5} {'waived':>6} {'bins':>5}  rarest bin"]
    for point, names in POINTS.items():
        counts = {name: coverage.hits[point, name] for name in names if (point, name) not in waived}
        rarest = min(counts, key=lambda name: counts[name])
        met = sum(count > 0 for count in counts.values())
        left_out = len(names) - len(counts)
        lines.append(f"{point:<20} {met:>5} {left_out:>6} {len(names):>5}  {counts[rarest]:,} x {rarest}")
    met = sum(coverage.hits[point, name] > 0 for point, names in POINTS.items() for name in names)
    total = sum(map(len, POINTS.values()))
    lines.append(f"{'in all':<20} {met:>5} {len(waived):>6} {total:>5}  {100 * met / (total - len(waived)):.1f} %")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when something is not covered."""
    parser = Parser(
        "python -m kv_asu_sim.coverage_report",
        "Measure the functional coverage of all streams over several builds.",
        ("--jobs 2", "--clocks 20000 --seed 7 --json build/coverage.json"),
    )
    parser.add_argument(
        "--clocks", type=whole_number(1), default=4000, metavar="N", help="length of each stream (default: %(default)s)"
    )
    parser.add_argument("--seed", type=whole_number(), default=1, metavar="N", help="of streams (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every bin's count")
    parser.add_argument("--add", type=Path, nargs="*", default=[], metavar="FILE", help="coverage that benches saved")
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="builds run at once (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    return parser.run(lambda: _job(options), BuildError, Difference, NoCoverage, VrexError)


def _job(options: Namespace) -> int:
    total = Coverage()
    if options.json:
        check_file(options.json)
    for path in options.add:
        total.add(Coverage.load(path).hits)
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = {
            name: pool.submit(collect, name, params, list(STREAMS), options.clocks, options.seed)
            for name, params in BUILDS.items()
        }
        for name, run in runs.items():
            total.add(run.result().hits)
            print(f"{name}: {len(STREAMS)} streams equal; {len(total.missed())} bins still to meet", flush=True)
    waived = waivers()
    print(table(total, waived))
    if options.json:
        with whole_file(options.json) as path:
            total.save(path)
    verdict = judge(total, waived)
    if any(verdict):
        print(verdict, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
