"""How long importing takes, each time in a new process: ``python benchmarks/bench_import.py [MODULE ...]``."""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("bench_import: this Python has no V-Rex: `make setup`, then start it with .venv/bin/python")
    arm("bench_import")

from kv_asu.command_line import FAILURE, Parser

#: Processes for each module; the quickest counts, for the machine's other work only ever adds.
RUNS = 7

#: What a user of the host side waits for.
MODULES = ("vrex", "vrex.kv_asu", "vrex.transports.model", "vrex.cli")

_CODE = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"


def seconds(module: str) -> float:
    """The quickest import of a module, without the interpreter's own start."""
    command = [sys.executable, "-c", _CODE.format(module)]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(RUNS))


def main() -> int:
    """The command line."""
    parser = Parser(
        "python benchmarks/bench_import.py", "Measure how long importing modules takes.", ("", "vrex.kv_asu numpy")
    )
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="MODULE", help=f"default: {' '.join(MODULES)}")
    options = parser.parse_args()

    def job() -> int:
        for module in options.modules:
            try:
                best = seconds(module)
            except subprocess.CalledProcessError as error:
                parser.complain(f"{module}: {error.stderr.strip().splitlines()[-1]}")
                return FAILURE
            print(f"import {module}: {best * 1000:.0f} ms, the quickest of {RUNS}", flush=True)
        return 0

    return parser.run(job)


if __name__ == "__main__":
    sys.exit(main())
