"""Requests per second of the compiled RTL, the golden model and the cocotb bench, in one run.

    python benchmarks/bench_speed.py [TRACE] [--requests N] [--json FILE]

Compiled RTL and golden model replay the same addresses of a real trace, one request a clock (saturated), on one core of
the machine; every answer both have given is compared. The cocotb bench, drivers, monitors and scoreboard included, runs
its own stream of one request a clock beside queries and evict commands; its clocks are counted. Building is not timed.
The compiled RTL replays several times, each on a fresh core: the table has the median, and the slowest and the fastest
below. Seconds are wall-clock; processor seconds stand beside them, since other programs may share the core.
"""

from __future__ import annotations

import json
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("bench_speed: this Python has no V-Rex: `make setup-test`, then start it with .venv/bin/python")
    arm("bench_speed")

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu.waiting import waiting
from kv_asu_firmware.golden import KvAsuGolden
from kv_asu_sim.compiled import BuildError, CompiledCore
from kv_asu_sim.runner import BenchFailed, SimulatorMissing, check_cocotb, run
from vrex.errors import VrexError
from vrex.files import check_file, check_not_source, whole_file
from vrex.trace.format import TraceError, TraceReader

DEFAULT_TRACE = Path(__file__).parents[1] / "examples" / "traces" / "bikes.parquet"

#: Requests the golden model repeats, and clocks of the cocotb bench: seconds each, not minutes.
GOLDEN_REQUESTS = 500_000
#: Replays of the compiled RTL.
REPLAYS = 9
BENCH_CLOCKS = 20_000


class Disagreement(Exception):
    """Compiled RTL and golden model answer differently."""


def main() -> int:
    """The command line."""
    parser = Parser(
        "python benchmarks/bench_speed.py",
        "Measure requests a second of the compiled RTL, the golden model and the cocotb bench, in one run.",
        ("", "my_clip.parquet --requests 1000000 --json build/speed.json"),
    )
    parser.add_argument("trace", nargs="?", type=Path, default=DEFAULT_TRACE, help="default: the committed one")
    parser.add_argument(
        "--requests",
        type=whole_number(1),
        default=2_000_000,
        metavar="N",
        help="replay at most so many (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()

    def job() -> int:
        check_cocotb()
        if options.json:
            check_not_source(options.json, options.trace)
            check_file(options.json)
        with waiting("building") as say:
            figures = measure(options.trace, options.requests, say)
        show(figures)
        if options.json:
            with whole_file(options.json) as scratch:
                scratch.write_text(json.dumps(figures, indent=2) + "\n")
        return 0

    return parser.run(job, BuildError, BenchFailed, Disagreement, SimulatorMissing, VrexError)


def measure(trace: Path, requests: int, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Run all three; figures by what ran."""
    say("reading the trace")
    addresses = read_addresses(trace, requests)
    params = Params()
    replays = []
    for number in range(1, REPLAYS + 1):
        say(f"compiled RTL, replay {number} of {REPLAYS}")
        core = CompiledCore(params)
        enabled = core.clock
        core.write(params.config_base + REGISTERS["CTRL"].offset, 1, 2)
        core.idle(params.rows + 2 * params.latency + 8)
        decided = core.clock + params.latency
        tags, replay = timed("compiled RTL", len(addresses), partial(core.request, addresses))
        replays.append(replay)
    replays.sort(key=itemgetter("requests_per_second"))
    compiled = replays[REPLAYS // 2]
    compiled["slowest"], compiled["fastest"] = (replays[end]["requests_per_second"] for end in (0, -1))

    say("golden model")
    model = KvAsuGolden(params)
    model.activate()
    # The first clock in which the core decides as active, and tick 0 of the model.
    model.idle(decided - (enabled + params.rows + params.latency + 3))
    part = (addresses[:GOLDEN_REQUESTS]).tolist()
    answers, golden = timed("golden model", len(part), lambda: [model.clock(address).tag for address in part])
    for number, (tag, answer) in enumerate(zip(tags[: len(part)].tolist(), answers, strict=True)):
        if tag != answer:
            raise Disagreement(f"request {number} ({part[number]:#x}): compiled RTL {tag}, golden model {answer}")
    say("cocotb bench on Verilator")
    return {"compiled": compiled, "golden": golden, "cocotb": measure_cocotb(params)}


def read_addresses(trace: Path, requests: int) -> np.ndarray:
    """The trace's first lines as byte addresses."""
    with TraceReader(trace) as reader:
        blocks, read = [], 0
        for chunk in reader.chunks():
            blocks.append(chunk.line)
            read += len(chunk.line)
            if read >= requests:
                break
    if not read:
        raise TraceError(f"{trace}: holds no accesses; make a trace with 'vrex trace make'")
    return np.concatenate(blocks)[:requests].astype(np.uint64) << np.uint64(8)


def timed(what: str, requests: int, work: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Do the work once, and what it took."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return result, figures_of(what, requests, wall, processor)


def figures_of(what: str, requests: int, wall: float, processor: float | None) -> dict[str, Any]:
    """One line of the table."""
    return {
        "what": what,
        "requests": requests,
        "seconds": wall,
        "processor_seconds": processor,
        "requests_per_second": requests / wall,
        "requests_per_processor_second": requests / processor if processor else None,
    }


def measure_cocotb(params: Params) -> dict[str, Any]:
    """The bench's own stream of one line at full rate; its clocks and seconds are those cocotb reports."""
    from kv_asu_sim.bench import PERIOD_PS

    folder = run(params, "verilator", ["one_line"], clocks=BENCH_CLOCKS, seed=1, quiet=True)
    case = next(ElementTree.parse(folder / "results.xml").iter("testcase"))
    properties = {item.get("name"): item.get("value", "") for item in case.iter("property")}
    clocks = round(float(properties["sim_time_duration"]) * 1000 / PERIOD_PS)
    seconds = float(case.attrib["time"])
    return figures_of("cocotb bench on Verilator (its clocks)", clocks, seconds, None)


def show(figures: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'':40}{'requests':>12}{'seconds':>10}{'per second':>14}{'per CPU second':>16}")
    for row in figures.values():
        per_processor_second = row["requests_per_processor_second"]
        print(
            f"{row['what']:40}{row['requests']:12,}{row['seconds']:10.2f}{row['requests_per_second']:14,.0f}"
            f"{format(per_processor_second, ',.0f') if per_processor_second else 'not measured':>16}"
        )
    compiled = figures["compiled"]
    print(f"compiled RTL, {REPLAYS} replays: {compiled['slowest']:,.0f} to {compiled['fastest']:,.0f} a second")
    compared = min(figures["compiled"]["requests"], figures["golden"]["requests"])
    print(f"answers of compiled RTL and golden model compared: {compared:,}, all equal")


if __name__ == "__main__":
    sys.exit(main())
