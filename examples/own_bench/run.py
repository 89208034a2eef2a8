"""Generate the core, compile it with a top of one's own, run the bench: ``python examples/own_bench/run.py``."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("run: this Python has no V-Rex: `make setup-test`, then start it with .venv/bin/python")
    arm("run")

from kv_asu import assertions
from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu.waiting import waiting
from kv_asu_sim.build import BuildError, verilog
from kv_asu_sim.runner import SimulatorMissing, simulator_environment

HERE = Path(__file__).parent
PARAMS = Params(log2_entries=4, window=4)


def main() -> int:
    """The command line; 1 when the bench fails."""
    parser = Parser(
        "python examples/own_bench/run.py",
        "Compile the core with a top of one's own, and run its bench.",
        ("", "--simulator verilator --seed 7"),
    )
    parser.add_argument("--simulator", choices=("icarus", "verilator"), default="icarus", help="default: %(default)s")
    parser.add_argument("--build", type=Path, default=Path("build/own_bench"), metavar="DIR",
                        help="where it is compiled and run (default: %(default)s)")  # fmt: skip
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: random")
    options = parser.parse_args()
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    return parser.run(lambda: bench(options.simulator, options.build.resolve(), seed), BuildError, SimulatorMissing)


def bench(simulator: str, folder: Path, seed: int) -> int:
    """Compile and run; 1 when the bench fails."""
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import get_runner

    folder.mkdir(parents=True, exist_ok=True)
    # The same two files as `kv-asu verilog --log2-entries 4 --window 4 --assertions -o kv_asu.sv` writes.
    (folder / "kv_asu.sv").write_text(verilog(PARAMS))
    (folder / "kv_asu_assertions.sv").write_text(assertions.emit(PARAMS))
    settings = {"KV_ASU_PARAMS": json.dumps(PARAMS.asdict()), "KV_ASU_SEED": str(seed)}
    print(f"{simulator}, seed {seed}", flush=True)
    how_long = "; a minute or two" if simulator == "verilator" else ""
    with simulator_environment(simulator), waiting(f"compiling for {simulator}{how_long}") as now:
        runner = get_runner(simulator)
        runner.build(
            sources=[HERE / "snooper.sv", folder / "kv_asu.sv", folder / "kv_asu_assertions.sv"],
            hdl_toplevel="snooper",
            build_dir=folder,
            build_args=["--no-timing", "--assert", "-Wno-fatal"] if simulator == "verilator" else [],
            timescale=("1ns", "1ps"),
            always=True,
            log_file=folder / "build.log",
        )
        now("running the bench")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        results = runner.test(
            hdl_toplevel="snooper",
            test_module="test_snooper",
            build_dir=folder,
            test_dir=folder,
            extra_env=settings,
            log_file=folder / "run.log",
        )
    tests, failed = get_results(results)
    print(f"{tests - failed} of {tests} tests passed; log in {folder / 'run.log'}")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    raise SystemExit(main())
