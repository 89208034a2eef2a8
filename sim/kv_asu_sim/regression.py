"""Every stream under many seeds, in two simulators, over both profiles and smaller tables: ``make sim SEEDS=50``.

Each seed of each build is one run of :mod:`kv_asu_sim.runner`. Seeds are drawn anew each time unless one is given; a
run that fails is told with the command that repeats it.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu_sim.build import BuildError
from kv_asu_sim.coverage_report import BUILDS
from kv_asu_sim.runner import SIMULATORS, BenchFailed, check_cocotb, run
from kv_asu_sim.streams import NEEDS_CLOCKS, STREAMS

#: Clocks of each stream beyond those in which the table is emptied. Icarus is some five times as slow.
CLOCKS = {"verilator": 800, "icarus": 120}

#: Streams that take too long for a simulator; the compiled RTL has them in lockstep.
_TOO_LONG = frozenset(NEEDS_CLOCKS)


def build_arguments(params: Params) -> str:
    """The options of ``python -m kv_asu_sim.runner`` that choose a build."""
    return (
        f"--log2-entries {params.log2_entries} --window {params.window} "
        f"--stages {params.hash_stages} {params.table_stages} "
        f"--stamp-width {params.stamp_width} --addr-width {params.addr_width}"
    )


def streams_of(name: str, simulator: str) -> list[str]:
    """The streams that a build plays: all, but of the full-size ones on Icarus the few that say most."""
    if simulator == "icarus" and name in ("asic", "fpga"):
        return ["churn", "life_cycle", "register_ports"]
    return [stream for stream in STREAMS if stream not in _TOO_LONG]


def run_seeds(name: str, simulator: str, seeds: Sequence[int]) -> list[str]:
    """Run one build under every seed.

    Returns
    -------
    list of str
        What failed, each with the command that repeats it.
    """
    params, streams, failed = BUILDS[name], streams_of(name, simulator), []
    clocks = params.rows + CLOCKS[simulator]
    for number, seed in enumerate(seeds, 1):
        began = time.perf_counter()
        try:
            run(params, simulator, streams, clocks=clocks, seed=seed, quiet=True)
            said = "passed"
        except BenchFailed as failure:
            said = "FAILED"
            chosen = " ".join(f"--stream {stream}" for stream in streams)
            again = f"python -m kv_asu_sim.runner {build_arguments(params)} --simulator {simulator}"
            failed.append(f"{failure}\nagain: {again} --clocks {clocks} --seed {seed} {chosen}")
        print(f"{name}, {simulator}: seed {seed} ({number} of {len(seeds)}) {said}, {len(streams)} streams, "
              f"{time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when a seed fails."""
    parser = Parser(
        "python -m kv_asu_sim.regression",
        "Run every stream under many seeds in two simulators.",
        ("--seeds 50 --jobs 2", "--build '8 slots' --simulator icarus --seeds 1 --first-seed 7"),
    )
    parser.add_argument("--seeds", type=whole_number(1), default=3, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=whole_number(), metavar="N", help="count up from it instead of drawing")
    parser.add_argument("--simulator", choices=SIMULATORS, action="append", help="default: both")
    parser.add_argument("--build", choices=list(BUILDS), action="append", help="default: all")
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="builds run at once (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.first_seed is None:
        seeds = [random.SystemRandom().getrandbits(32) for _ in range(options.seeds)]
    else:
        seeds = list(range(options.first_seed, options.first_seed + options.seeds))
    simulators = options.simulator or list(SIMULATORS)

    def job() -> int:
        check_cocotb()
        if "icarus" in simulators and shutil.which("iverilog") is None:
            parser.complain("iverilog is not installed: its runs are left out")
            simulators.remove("icarus")
        failed: list[str] = []
        with ProcessPoolExecutor(options.jobs) as pool:
            runs = [
                pool.submit(run_seeds, name, simulator, seeds)
                for simulator in simulators
                for name in options.build or BUILDS
            ]
            for done in as_completed(runs):
                failed += done.result()
        if failed:
            print("\n\n".join(failed), file=sys.stderr)
            return 1
        print(f"all passed: {len(runs)} builds under {len(seeds)} seeds each")
        return 0

    return parser.run(job, BuildError)


if __name__ == "__main__":
    raise SystemExit(main())
