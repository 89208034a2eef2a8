"""How long an answer takes, measured: ``python -m kv_asu_sim.latency [--check]`` writes ``docs/latency.md``.

Two measurements. The cocotb monitors take the time and the clock of each operation and of its answer, at the pins,
under the 2 ns clock. The compiled RTL does the same by clocks over millions of requests. Neither uses what the core
says of itself. The wave picture is drawn from the pins as they stood in a few clocks of such a simulation.

Everything follows from the Verilog and from seeds, so the same sources give the same bytes. The page names a digest of
both; ``--check`` compares it, without measuring again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from kv_asu.command_line import Parser
from kv_asu.params import PROFILES, Params
from kv_asu.register_map import REGISTERS
from kv_asu.waiting import waiting
from kv_asu_sim.build import BuildError, verilog
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.streams import Plan, play

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "latency.md"
WAVE = DOCS / "latency.svg"

SEED = 1
#: Streams with all three ports busy, and the clocks of each in a simulator.
MEASURED = ("random_mix", "churn", "scan_2048", "evict_every_clock", "one_line")
CLOCKS = 2000
#: Requests of each profile on the compiled RTL.
REQUESTS = 2_000_000

PORTS = {
    "request": ("req_valid", "tag_valid"),
    "query": ("query_valid", "answer_valid"),
    "evict": ("evict_valid", "victim_valid"),
}

WAVE_SIGNALS = (
    *("req_valid", "req_addr", "tag_valid", "tag_line", "tag_hit", "tag_before", "tag_after", "tag_count"),
    *("query_valid", "query_addr", "answer_valid", "answer_tlevel"),
    *("evict_valid", "victim_valid", "victim_status", "victim_line"),
)


class Histogram:
    """Answers by port and by the clocks they took.

    The n-th answer of a port belongs to its n-th operation; operations in flight at a reset are never answered.

    Attributes
    ----------
    counts : Counter of (str, int)
        How many answers of each port took so many clocks.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self._clock = 0
        self._waiting: dict[str, deque[int]] = {port: deque() for port in PORTS}

    def add(self, inputs: np.ndarray, outputs: np.ndarray) -> None:
        """Take more clocks of pins, in order; nothing in them is under reset.

        Raises
        ------
        ValueError
            There are more answers than operations.
        """
        for port, (asked, answered) in PORTS.items():
            waiting = self._waiting[port]
            began = np.concatenate([np.array(waiting, np.int64), np.flatnonzero(inputs[asked]) + self._clock])
            ended = np.flatnonzero(outputs[answered]) + self._clock
            if ended.size > began.size:
                raise ValueError(f"{port}: more answers than operations")
            took, times = np.unique(ended - began[: ended.size], return_counts=True)
            self.counts.update({(port, int(t)): int(n) for t, n in zip(took, times, strict=True)})
            self._waiting[port] = deque(began[ended.size :].tolist())
        self._clock += len(inputs)

    def unanswered(self) -> int:
        """Operations still without an answer."""
        return sum(map(len, self._waiting.values()))


def measure_compiled(core: CompiledCore, requests: int, seed: int, stretch: int = 50_000) -> Histogram:
    """Play dense streams without their resets on the compiled RTL, in turn and each for a stretch of clocks, until so
    many requests are answered.
    """
    params = core.params
    histogram = Histogram()
    done = 0
    core.write(params.config_base + REGISTERS["CTRL"].offset, 1, 4)
    while done < requests:
        for stream in MEASURED:
            rows = np.concatenate(list(play(stream, params, seed, stretch, settle=False)))
            rows["rst"] = 0
            histogram.add(rows, core.run(rows))
            done += int(rows["req_valid"].sum())
        seed += 1
    rest = core.operations(params.latency)
    histogram.add(rest, core.run(rest))
    return histogram


def measure_bench(params: Params) -> list[tuple[str, int, int, int]]:
    """Port, clocks, picoseconds and how often, from the cocotb monitors on Verilator; leaves the wave's samples too."""
    return [tuple(row) for row in json.loads((_bench(params) / "latency.json").read_text())]


def _bench(params: Params) -> Path:
    from kv_asu_sim import runner  # cocotb

    asked = {"params": params.asdict(), "streams": MEASURED, "clocks": CLOCKS, "seed": SEED}
    text = runner.with_assertions(verilog(params), params, "verilator")
    return runner.run_module(text, "verilator", "kv_asu_sim.bench_latency", asked, expected=2)


# ---- the wave picture ----------------------------------------------------------------------------------------------


def wave_rows(params: Params) -> tuple[np.ndarray, int]:
    """The rows of the picture's run, and the first of those that it shows.

    A line is touched in three clocks in a row and asked for; another follows; when both are cold, one is touched again
    in the clock in which the other is evicted.
    """
    plan = Plan(params, np.random.default_rng(SEED))
    start = plan.start(t1=4, t2=(2, 3), t3=(3, 2), tick_shift=0)
    line, other = 0x1200, 0x3400
    shown = plan.idle(16 + 3 * params.latency)
    for clock, address in ((1, line), (2, line), (3, line), (4, other), (12, line)):
        shown["req_valid"][clock], shown["req_addr"][clock] = 1, address
    for clock, address in ((2, line), (4, line), (5, other), (11, line)):
        shown["query_valid"][clock], shown["query_addr"][clock] = 1, address
    for clock in (3, 12, 13, 14):
        shown["evict_valid"][clock] = 1
    return np.concatenate([start, shown]), len(start)


def draw(samples: Sequence[dict[str, int]], title: str) -> str:
    """A wave picture as SVG: one row a signal, one column a clock, levels as lines and values as boxes.

    Parameters
    ----------
    samples : sequence of dict
        The signals' values in each clock, and under "ps" the time of its rising edge.
    title : str
        What is shown.
    """
    left, column, row, height = 110, 56, 24, 15
    names = ["clk", *(name for name in samples[0] if name != "ps")]
    width, total = left + column * len(samples) + 10, 40 + row * len(names) + 24
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" font-family="monospace" '
            f'font-size="11" viewBox="0 0 {width} {total}">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
        f'<text x="8" y="16" fill="#22303c">{escape(title)}</text>',
    ]
    for index, sample in enumerate(samples):
        x = left + column * index
        out.append(f'<path d="M{x} 26V{total - 18}" stroke="#c9ced6" stroke-dasharray="2 3"/>')
        out.append(f'<text x="{x}" y="{total - 6}" fill="#5b6b7a" text-anchor="middle">{sample["ps"] / 1000:g}</text>')
    out.append(f'<text x="8" y="{total - 6}" fill="#5b6b7a">ns</text>')
    for line, name in enumerate(names):
        top = 34 + row * line
        out.append(f'<text x="8" y="{top + height - 3}" fill="#22303c">{name}</text>')
        if name == "clk":
            path = "".join(
                f"{'M' if not index else 'L'}{left + column * index} {top + height}v{-height}h{column // 2}"
                f"v{height}h{column // 2}"
                for index in range(len(samples))
            )
            out.append(f'<path d="{path}" fill="none" stroke="#22303c"/>')
            continue
        port, _, field = name.partition("_")  # an input's payload is anything while it is not valid
        values = [sample[name] if field != "addr" or sample[f"{port}_valid"] else 0 for sample in samples]
        out += _signal(name, values, left, top, column, height)
    return "\n".join([*out, "</svg>"]) + "\n"


def _signal(name: str, values: list[int], left: int, top: int, column: int, height: int) -> Iterable[str]:
    """One signal: a level for a valid pin and for a bit, boxes with their value for a number."""
    if name.endswith(("_valid", "_hit")):
        path, level = [], None
        for index, value in enumerate(values):
            y = top if value else top + height
            x = left + column * index
            path.append(f"M{x} {y}" if level is None else f"V{y}")
            path.append(f"H{x + column}")
            level = value
        yield f'<path d="{"".join(path)}" fill="none" stroke="#2b5c8a" stroke-width="1.5"/>'
        return
    start = 0
    for index in range(1, len(values) + 1):
        if index < len(values) and values[index] == values[start]:
            continue
        x, wide = left + column * start + 1, column * (index - start) - 2
        if values[start]:
            yield (
                f'<rect x="{x}" y="{top}" width="{wide}" height="{height}" fill="#eaf3f4" stroke="#5fb0b7"/>'
                f'<text x="{x + wide / 2:g}" y="{top + height - 3}" fill="#22303c" text-anchor="middle">'
                f"{values[start]:x}</text>"
            )
        else:
            yield f'<path d="M{x} {top + height}h{wide}" stroke="#c9ced6"/>'
        start = index


# ---- the page ------------------------------------------------------------------------------------------------------


def digest() -> str:
    """Of all that the page follows from: the Verilog of both profiles, the streams, and the wave's rows."""
    sum_ = hashlib.sha256()
    for make in PROFILES.values():
        params = make()
        sum_.update(verilog(params).encode())
        for stream in MEASURED:
            for rows in play(stream, params, SEED, CLOCKS, settle=False):
                sum_.update(rows.tobytes())
    sum_.update(wave_rows(Params.asic())[0].tobytes())
    sum_.update(repr((MEASURED, CLOCKS, REQUESTS)).encode())
    return sum_.hexdigest()[:16]


def page(requests: int = REQUESTS) -> tuple[str, str]:
    """The page and its picture, from measurements made now."""
    bench, compiled = [], []
    samples: list[dict[str, int]] = []
    for name, make in PROFILES.items():
        params = make()
        folder = _bench(params)
        for port, clocks, time_ps, count in json.loads((folder / "latency.json").read_text()):
            bench.append(f"| {name} | {port} | {clocks} | {time_ps / 1000:g} ns | {count:,} |")
        if params.latency == 1:
            samples = json.loads((folder / "wave.json").read_text())
        histogram = measure_compiled(CompiledCore(params, seed=SEED), requests, SEED)
        for (port, clocks), count in sorted(histogram.counts.items()):
            compiled.append(f"| {name} | {port} | {clocks} | {count:,} |")
    text = _PAGE.format(
        digest=digest(), bench="\n".join(bench), compiled="\n".join(compiled), streams=", ".join(MEASURED)
    )
    return text, draw(samples, "asic profile, default size, 2 ns clock: pins as the monitors saw them (values in hex)")


_PAGE = """# Latency: one clock, 2 ns

<!-- Made by `make latency` from {digest}; do not edit. -->

The contract: each operation is answered exactly L clocks after it was taken, whatever else happens; in the asic
profile L is 1, and the clock is 2 ns. Measured at the pins, by pairing the n-th answer of a port with its n-th
operation. Each port has one line in a histogram, so it has no other bin: not one answer came early or late.

## In time, by the cocotb monitors

Verilator, a clock of 2 ns, the streams {streams}; the bench fails at the first answer that takes longer.

| profile | port | clocks | time | answers |
|---|---|---|---|---|
{bench}

## In clocks, over millions of requests

The compiled Verilog, the same streams, longer and without resets.

| profile | port | clocks | answers |
|---|---|---|---|
{compiled}

Simulation tells that an answer needs one clock, not that a clock can be 2 ns short: that is for static timing to say,
see [timing](timing.md).

## What it looks like

![Wave picture of a run](latency.svg)

A request taken at an edge is answered in the period behind it, for the next edge to take: here a line is touched
in three clocks in a row and each touch counts the one before. Later, when both lines are cold, one is touched in the
clock of an eviction.
"""


def stale() -> bool:
    """Whether the page was made from other sources than those here."""
    return not PAGE.is_file() or not WAVE.is_file() or f"from {digest()};" not in PAGE.read_text(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when the page is stale."""
    parser = Parser("python -m kv_asu_sim.latency", "Measure every answer's latency and write docs/latency.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    options = parser.parse_args(arguments)

    def job() -> int:
        if options.check:
            if stale():
                parser.complain("docs/latency.md is stale: run make latency")
                return 1
            return 0
        from kv_asu_sim import runner

        runner.check_cocotb()
        with waiting("measuring in the simulator and on the compiled RTL"):
            text, wave = page()
        PAGE.write_text(text, encoding="utf-8")
        WAVE.write_text(wave, encoding="utf-8")
        print(f"wrote {PAGE} and {WAVE}")
        return 0

    return parser.run(job, BuildError)


if __name__ == "__main__":
    raise SystemExit(main())
