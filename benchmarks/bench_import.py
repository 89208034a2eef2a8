"""How long importing takes, each time in a new process: ``python benchmarks/bench_import.py [MODULE ...]``."""

from __future__ import annotations

import subprocess
import sys

#: Processes for each module; the quickest counts, for the machine's other work only ever adds.
RUNS = 7

_CODE = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"


def seconds(module: str) -> float:
    """The quickest import of a module, without the interpreter's own start."""
    command = [sys.executable, "-c", _CODE.format(module)]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(RUNS))


if __name__ == "__main__":
    for module in sys.argv[1:] or ("vrex", "vrex.kv_asu", "vrex.transports.model", "vrex.cli"):
        print(f"import {module}: {seconds(module) * 1000:.0f} ms, the quickest of {RUNS}")
