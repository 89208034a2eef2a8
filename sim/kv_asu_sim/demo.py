"""The main job: a real attention trace through the compiled RTL, its answers held against the golden model.

``python -m kv_asu_sim.demo`` (``make demo``) does what a user of the core does, in this order: writes the Verilog,
finds and programs the core through config space, lets it watch the trace's reads frame by frame, asks for T-levels
through the query port, collects cold lines when the core's interrupt says so, and reads the counters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kv_asu.command_line import Parser, whole_number
from kv_asu.errors import ToolError
from kv_asu.metadata import metadata
from kv_asu.params import LINE_BITS, Params
from kv_asu.waiting import waiting
from kv_asu_firmware.golden import Settings
from kv_asu_sim.build import BuildError, verilog
from kv_asu_sim.checked import CheckedCore, Mismatch
from kv_asu_sim.compiled import LatencyError
from kv_asu_sim.heat import FrameHeat
from kv_asu_sim.machine import ORIN_NX_NVME, ReadTime
from kv_asu_sim.what_if import (
    CLOCK_NS,
    WhatIf,
    WorkingSet,
    add_options,
    from_options,
    pieces,
    working_set,
)
from vrex import registers as regs
from vrex.errors import VrexError
from vrex.files import whole_file
from vrex.trace.format import TraceReader

TRACE = Path(__file__).parents[2] / "examples" / "traces" / "bikes.parquet"

#: Accesses that are simulated, then checked, at a time.
PIECE = 1 << 15

#: Requests checked unless told otherwise: all of the trace that comes with V-Rex.
CHECK = 2_500_000

#: How much longer than the trace says a replay may take before it is told.
_STRETCHED = 1.05

_Register = TypeVar("_Register", bound=regs.Register)


class DemoError(Exception):
    """What went wrong, in one line."""


# ---- the core, as its driver sees it --------------------------------------------------------------------------------


class Driver:
    """Finds the core, programs it, collects cold lines, reads its counters.

    Parameters
    ----------
    device : CheckedCore

    Attributes
    ----------
    active_since : int
        The first clock in which requests were decided.
    """

    def __init__(self, device: CheckedCore) -> None:
        self._device = device
        self._control = device.core.params.config_base + regs.CTRL_OFFSET
        self.active_since = 0

    def read(self, register: type[_Register]) -> _Register:
        """Read a register."""
        value = self._device.core.read(self._control + register.OFFSET, 4)
        if value is None:
            raise DemoError(f"{register.NAME}: config space does not answer at {self._control + register.OFFSET:#x}")
        return register(value)

    def write(self, value: regs.Register) -> None:
        """Write a register."""
        self._device.core.write(self._control + value.OFFSET, int(value), 4)

    def find(self) -> None:
        """Make sure that the capability is the KV-ASU's, in a version that this code knows."""
        params = self._device.core.params
        capability, header, identity = self.read(regs.Capability), self.read(regs.Vsec), self.read(regs.Id)
        for what, found, wanted in (
            ("capability", capability.capability_id, 0x000B),
            ("VSEC", header.vsec_id, params.vsec_id),
            ("VSEC length", header.length, regs.WINDOW_BYTES),
            ("ID", identity.magic, regs.MAGIC),
            ("major version", identity.major, regs.MAJOR),
            ("latency", self.read(regs.Params).latency, params.latency),
        ):
            if found != wanted:
                raise DemoError(f"{what} reads {found:#x} at {params.config_base:#x}, expected {wanted:#x}")

    def enable(self, settings: Settings, watermark: int) -> None:
        """Program the settings, enable the core and wait until it is active."""
        for value in (
            regs.Timebase.of(tick_shift=settings.tick_shift),
            regs.Geometry.of(log2_active=settings.log2_active, line_shift=settings.line_shift),
            # Down to 0, then up from the longest: a write that breaks T3.AGE <= T2.AGE <= T1.AGE is refused.
            regs.T3.of(count=settings.t3_count, age=0),
            regs.T2.of(count=settings.t2_count, age=0),
            regs.T1.of(count=1, age=settings.t1_age),
            regs.T2.of(count=settings.t2_count, age=settings.t2_age),
            regs.T3.of(count=settings.t3_count, age=settings.t3_age),
            regs.ColdWatermark.of(lines=watermark),
            regs.IrqEnable.of(cold_high=1),
        ):
            self.write(value)
            kept = self.read(type(value))
            if kept != value:
                raise DemoError(f"{value.NAME} does not keep what is written: {kept!r}, not {value!r}")
        self._ctrl = regs.Ctrl.of(enable=1, decay=settings.decay)
        self.write(self._ctrl)
        core = self._device.core
        self.active_since = self._device.activate(settings, core.clock - 1)
        core.idle(self.active_since - core.clock)
        if self.read(regs.IrqStatus).config_error or not self.read(regs.Status).active:
            raise DemoError(f"the core is not active after enabling: {self.read(regs.Status)!r}")

    def collect(self) -> int:
        """When the interrupt says that cold lines have gathered, evict them all; how many there were."""
        if not self._device.core.irq:
            return 0
        evicted = 0
        while cold := self.read(regs.Cold).lines:
            evicted += int((self._device.evict(cold)["victim_status"] == regs.VictimStatus.FOUND).sum())
        self.write(regs.IrqStatus.of(cold_high=1))
        return evicted

    def counters(self) -> dict[str, int]:
        """All counters as of this moment, by name."""
        self.write(self._ctrl.replace(snapshot=1))
        values = {}
        for counter in regs.Counter:
            self.write(regs.CounterSelect.of(index=counter))
            values[counter.name.lower()] = self.read(regs.CounterHi).value << 32 | self.read(regs.CounterLo).value
        return values


# ---- replay ---------------------------------------------------------------------------------------------------------


@dataclass
class Frame:
    """What one frame's reads saw.

    ``tlevels``: tracked reads by the T-level of their line just before, 0 to 3. ``evicted``: lines collected after it.
    """

    number: int
    reads: int = 0
    hits: int = 0
    untracked: int = 0
    inserts: int = 0
    spills: int = 0
    evicted: int = 0
    tlevels: list[int] = field(default_factory=lambda: [0] * 4)
    latency_ms: float = 0.0

    def add(self, tags: NDArray[np.void]) -> None:
        """Count answers."""
        hit = tags["tag_hit"] == 1
        self.reads += len(tags)
        self.hits += int(hit.sum())
        self.untracked += int((tags["tag_tracked"] == 0).sum())
        self.inserts += int((tags["tag_tracked"] > tags["tag_hit"]).sum())
        self.spills += int(tags["spill_valid"].sum())
        levels = np.bincount(tags["tag_before"][hit], minlength=4)
        self.tlevels = [old + int(new) for old, new in zip(self.tlevels, levels, strict=True)]

    @property
    def hit_rate(self) -> float:
        """Share of the reads whose line was tracked."""
        return self.hits / self.reads

    def __str__(self) -> str:
        return f"[Frame {self.number}] Latency: {self.latency_ms:.1f}ms | KVHitRate: {self.hit_rate:.1%}"


class Replay:
    """Plays a trace on the core, frame by frame.

    Parameters
    ----------
    device : CheckedCore
        Active.
    driver : Driver
    reader : TraceReader
    clock_ns : int
        Nanoseconds of the trace that a simulated clock stands for.

    Attributes
    ----------
    frames : list of Frame
        Those that are done.
    latest_ms : float
        How much later than the trace says a request was presented at most, because each takes a simulated clock.
    took_ms : float
        From the first request to the last.
    patches : dict
        T-levels of each frame's own patches, shape (rows, columns), by frame.
    memory : list of ndarray
        After each frame, the share of its lines, and of each frame's before, that is tracked, by samples.
    stretches : list of Frame
        The reads again, in pieces of `PIECE` at most: a trace that was imported is all of one frame.
    """

    def __init__(self, device: CheckedCore, driver: Driver, reader: TraceReader, clock_ns: int) -> None:
        self._device = device
        self._driver = driver
        self._reader = reader
        self.clock_ns = clock_ns
        self._heat = None if reader.metadata.geometry is None else FrameHeat(reader.metadata.geometry)
        self._read_time = ReadTime(ORIN_NX_NVME)
        self.frames: list[Frame] = []
        self.queries = self.query_hits = 0
        self.latest_ms = self.took_ms = 0.0
        self.patches: dict[int, NDArray[np.float64]] = {}
        self.memory: list[NDArray[np.float64]] = []
        self.stretches: list[Frame] = []

    def run(self, done: Callable[[int], None]) -> Iterator[Frame]:
        """Play, and give each frame when it is over.

        Parameters
        ----------
        done : callable
            Told the accesses played so far.
        """
        origin = self._device.core.clock
        accesses = 0
        frame: Frame | None = None
        first: int | None = None
        for reads in pieces(self._reader, PIECE):
            number = int(reads.frame[0])
            if frame is None or frame.number != number:
                if frame is not None:
                    yield self._finish(frame)
                frame, self._read_time = Frame(number), ReadTime(ORIN_NX_NVME)
            asked = origin + reads.time_ns.astype(np.int64) // self.clock_ns
            at = _one_a_clock(asked, self._device.core.clock)
            self.latest_ms = max(self.latest_ms, int((at - asked).max()) * self.clock_ns / 1e6)
            first = int(at[0]) if first is None else first
            self.took_ms = (int(at[-1]) - first) * self.clock_ns / 1e6
            tags = self._device.request(reads.line << np.uint64(LINE_BITS), at.astype(np.uint64))
            frame.add(tags)
            self.stretches.append(Frame(len(self.stretches)))
            self.stretches[-1].add(tags)
            self._read_time.add(reads, tags["tag_hit"] == 1)
            if self._heat is not None:
                self._heat.add(reads, tags)
            accesses += reads.accesses
            done(accesses)
        if frame is not None:
            yield self._finish(frame)

    def _finish(self, frame: Frame) -> Frame:
        frame.latency_ms = self._read_time.ms
        if self._heat is not None:
            self.patches[frame.number] = self._heat.patches()
            probes = self._heat.probes(frame.number + 1)
            answers = self._device.query_lines(probes.reshape(-1))
            self.queries += len(answers)
            self.query_hits += int(answers["answer_hit"].sum())
            self.memory.append(answers["answer_tracked"].reshape(probes.shape).mean(axis=1))
        frame.evicted = self._driver.collect()
        self.frames.append(frame)
        return frame

    def observed(self) -> dict[str, int]:
        """The counters as the answers at the ports add up, by name; cycles and demotions are not seen there."""
        tlevels = [sum(frame.tlevels[level] for frame in self.frames) for level in range(4)]
        reads, hits = sum(frame.reads for frame in self.frames), sum(frame.hits for frame in self.frames)
        return {
            "requests": reads,
            "hits": hits,
            "level0": tlevels[0] + reads - hits,
            "level1": tlevels[1],
            "level2": tlevels[2],
            "level3": tlevels[3],
            "inserts": sum(frame.inserts for frame in self.frames),
            "untracked": sum(frame.untracked for frame in self.frames),
            "spills": sum(frame.spills for frame in self.frames),
            "rescues": tlevels[0],
            "evictions": sum(frame.evicted for frame in self.frames),
            "queries": self.queries,
            "query_hits": self.query_hits,
        }


def _one_a_clock(asked: NDArray[np.int64], earliest: int) -> NDArray[np.int64]:
    """The clock of each request: when it is asked for, or the first one free after the request before."""
    order = np.arange(len(asked))
    return np.maximum.accumulate(np.maximum(asked, earliest) - order) + order


# ---- the job --------------------------------------------------------------------------------------------------------


def run(trace: Path, out: Path, chosen: WhatIf, check: int, console: Console) -> dict[str, Any]:
    """Do all of it.

    Parameters
    ----------
    trace, out : Path
        The trace, and the folder that takes the results.
    chosen : WhatIf
        The core and its registers.
    check : int
        Requests to check against the golden model.
    console : Console
        Takes the frames' lines and the progress.

    Returns
    -------
    dict
        The results, by name.

    Raises
    ------
    VrexError
        The trace cannot be read, or the results cannot be written.
    BuildError, ToolError
        The core cannot be built.
    Mismatch, LatencyError
        Its answers are wrong.
    DemoError
        Anything else.
    """
    params = chosen.params
    with TraceReader(trace) as reader:
        if not len(reader):
            raise DemoError(f"{trace}: holds no accesses; make a trace with 'vrex trace make'")
        with waiting("building the core, a minute the first time"):
            _write_verilog(params, out)
            device = CheckedCore(params, check)
        with waiting("counting what the trace reads"):
            asked = working_set(reader, chosen.settings.line_shift)
        chosen = chosen.for_trace(asked)
        driver = Driver(device)
        driver.find()
        driver.enable(replace(chosen.settings), chosen.watermark)
        _introduce(console, reader, chosen, asked)
        replay = Replay(device, driver, reader, chosen.simulated_ns)
        started = time.perf_counter()
        with _progress(console, len(reader)) as done:
            for frame in replay.run(done):
                console.print(str(frame), markup=False, highlight=False)
        seconds = time.perf_counter() - started
        _warn_if_stretched(console, asked, replay)
        counters = _check_counters(device, driver, replay)
        from kv_asu_sim.picture import draw  # matplotlib takes a second

        with waiting("drawing"):
            draw(replay, reader, chosen, asked, out / "demo.png")
    return _results(device, replay, counters, seconds, trace, out, chosen, asked)


def _write_verilog(params: Params, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DemoError(f"{out}: cannot be made ({error.strerror}); name another folder with --out") from None
    record = json.dumps(metadata(params), indent=2) + "\n"
    for name, text in (("kv_asu.v", verilog(params)), ("kv_asu.json", record)):
        with whole_file(out / name) as path:
            path.write_text(text)


def _introduce(console: Console, reader: TraceReader, chosen: WhatIf, asked: WorkingSet) -> None:
    """Say once what the numbers to come mean."""
    tiers, params, settings = ORIN_NX_NVME, chosen.params, chosen.settings
    warm_ms = settings.t1_age * chosen.tick_ns / 1e6
    lines = chosen.granule_bytes >> LINE_BITS
    share = min(1.0, params.entries / asked.granules)
    table = _table()
    table.add_row("Trace", f"{reader.path}: {len(reader):,} KV line reads in {reader.metadata.frames} frames")
    table.add_row(
        "Core",
        f"{params.profile} profile, {params.entries:,} slots, window {params.window}, L = {params.latency}; "
        f"found and enabled through config space at {params.config_base:#x}",
    )
    table.add_row(
        "Tick",
        f"{chosen.tick_ns / 1e6:.3g} ms = 2^{chosen.log2_tick} clocks of {CLOCK_NS} ns; a simulated clock stands for "
        f"{1 << chosen.log2_coarser} of these, so TICK_SHIFT is {settings.tick_shift}",
    )
    table.add_row(
        "Granule",
        f"{_size(chosen.granule_bytes)} = {lines:,} line{'s' * (lines > 1)}, which share a slot (LINE_SHIFT "
        f"{settings.line_shift}); the trace reads {asked.granules:,} granules, up to {asked.most_in_a_frame:,} in a "
        f"frame: {params.entries:,} slots are enough for {share:.0%} of them",
    )
    table.add_row(
        "T-levels",
        f"3: {settings.t3_count} reads, the last at most {settings.t3_age * chosen.tick_ns / 1e6:.3g} ms ago; "
        f"2: {settings.t2_count}, {settings.t2_age * chosen.tick_ns / 1e6:.3g} ms; 1: fewer, {warm_ms:.3g} ms; "
        f"0: none for longer, collected when {chosen.watermark:,} lines have gathered",
    )
    table.add_row(
        "KVHitRate",
        "share of the frame's reads whose line was tracked, that is, whose granule had a slot, when it was read; "
        f"a core with a slot for everything would reach {asked.always_tracked:.1%} over the trace, for it would miss "
        "the first read of each granule only",
    )
    table.add_row(
        "Latency",
        "modelled time of these reads, hits served near and misses far: near "
        f"{tiers.near_bytes_per_second / 1e9:.1f} GB/s (reserved DRAM pool); far "
        f"{tiers.far_bytes_per_second / 1e9:.1f} GB/s (NVMe) in {tiers.far_block_bytes >> 10} KiB blocks, and "
        f"{tiers.far_latency_ns // 1000} us for each tile that misses",
    )
    console.print(table, highlight=False)
    console.print()


def _warn_if_stretched(console: Console, asked: WorkingSet, replay: Replay) -> None:
    """Say when the trace's requests do not fit the trace's own time: ages are then not what they would be."""
    span_ms = asked.span_ns / 1e6
    if replay.took_ms > _STRETCHED * span_ms and asked.reads > 1:
        console.print(
            f"Warning: the trace's {span_ms:.3g} ms took {replay.took_ms:.3g} ms here: it has more requests than "
            f"clocks of {replay.clock_ns} ns, and each takes one; ticks do not wait, so lines look colder than they are"
        )


def _size(bytes_: int) -> str:
    """A power of two of bytes, for people."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if bytes_ >> shift:
            return f"{bytes_ >> shift} {unit}"
    return f"{bytes_} bytes"


def _table() -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    return table


class _progress:
    """A bar with rate and time left, on a terminal; yields what is told the accesses done so far."""

    def __init__(self, console: Console, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("replaying", total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda done: self._progress.update(self._task, completed=done)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _check_counters(device: CheckedCore, driver: Driver, replay: Replay) -> dict[str, int]:
    """Read the counters through the registers, and hold them against what the ports have shown."""
    cold = driver.read(regs.Cold).lines
    counted_at = device.core.clock + 1  # the snapshot takes the clock of its write, too
    counters = driver.counters()
    observed = replay.observed()
    expected = observed | {
        "cycles": counted_at - driver.active_since,
        # Each line that has gone cold is still so, or was touched, evicted or spilled.
        "demotions": cold + observed["rescues"] + observed["evictions"] + observed["spills"],
    }
    # Lines go cold by themselves, also between two reads of registers.
    later = driver.read(regs.Cold).lines - cold
    for name, value in counters.items():
        most = expected[name] + (later if name == "demotions" else 0)
        if not expected[name] <= value <= most:
            raise DemoError(f"counter {name} reads {value:,}, but the ports have shown {expected[name]:,}")
    return counters


def _results(
    device: CheckedCore,
    replay: Replay,
    counters: dict[str, int],
    seconds: float,
    trace: Path,
    out: Path,
    chosen: WhatIf,
    asked: WorkingSet,
) -> dict[str, Any]:
    requests = counters["requests"]
    return {
        "trace": str(trace),
        "requests": requests,
        "checked": device.checked,
        "mismatches": 0,
        "frames": [asdict(frame) | {"hit_rate": frame.hit_rate} for frame in replay.frames],
        "hit_rate": counters["hits"] / requests,
        "always_tracked": asked.always_tracked,
        "slots": chosen.params.entries,
        "granules": asked.granules,
        "granules_in_a_frame": asked.most_in_a_frame,
        "counters": counters,
        "timing": {
            "name": "paced",
            "clock_ns": CLOCK_NS,
            "simulated_clock_ns": chosen.simulated_ns,
            "tick_ns": chosen.tick_ns,
            "latest_request_ms": replay.latest_ms,
            "trace_ms": asked.span_ns / 1e6,
            "took_ms": replay.took_ms,
        },
        "params": chosen.params.asdict(),
        "settings": asdict(chosen.settings) | {"watermark": chosen.watermark},
        "modelled": asdict(ORIN_NX_NVME),
        "requests_per_second": {
            "rtl": requests / device.core_seconds,
            "rtl_clocks": counters["cycles"] / device.core_seconds,
            "golden": device.checked / device.golden_seconds if device.golden_seconds else None,
            "replay": requests / seconds,
        },
        "files": {name: str(out / file) for name, file in
                  (("verilog", "kv_asu.v"), ("metadata", "kv_asu.json"), ("picture", "demo.png"))},
    }  # fmt: skip


def _show(console: Console, results: dict[str, Any]) -> None:
    """The end of the run, for people."""
    counters, speed = results["counters"], results["requests_per_second"]
    requests = results["requests"]
    table = _table()

    def share(name: str) -> str:
        return f"{counters[name]:,} ({counters[name] / requests:.1%})"

    rest = requests - results["checked"]
    checked = f"{results['checked']:,} requests' answers against the golden model's, 0 mismatches"
    table.add_row("Checked", checked + (f"; {rest:,} more ran unchecked" if rest else "; that is every one"))
    table.add_row("Hit rate", f"{results['hit_rate']:.1%} of {requests:,} reads found their line tracked, with "
                  f"{results['slots']:,} slots for {results['granules']:,} granules; a slot for each would give "
                  f"{results['always_tracked']:.1%}")  # fmt: skip
    levels = ", ".join(f"{level}: {share(f'level{level}')}" for level in (3, 2, 1, 0))
    table.add_row("T-levels", f"{levels}; just before the read, 0: cold or without a slot")
    table.add_row("Evictions", f"{counters['evictions']:,} of {counters['demotions']:,} granules that went cold; "
                  f"{counters['rescues']:,} were touched again, {counters['spills']:,} spilled")  # fmt: skip
    table.add_row("Untracked", f"{share('untracked')} of the reads: every slot of the window held a warm line")
    table.add_row("Queries", f"{counters['queries']:,}, of which {counters['query_hits']:,} found their line tracked")
    table.add_row("Counters", f"{len(counters)} read through COUNTER_LO/HI, equal to what the ports have shown")
    timing = results["timing"]
    table.add_row("Timing", f"each request at the trace's own time, to a simulated clock of "
                  f"{timing['simulated_clock_ns']} ns; bursts of the trace are denser than that, and what would share "
                  f"a clock waits for the next free one: {timing['latest_request_ms']:.1f} ms at most")  # fmt: skip
    golden = f", golden model {speed['golden']:,.0f}/s" if speed["golden"] else ""
    table.add_row("Speed", f"RTL {speed['rtl_clocks']:,.0f} clocks/s, of which one in "
                  f"{speed['rtl_clocks'] / speed['rtl']:.1f} has a request, for the trace's pauses are played, too: "
                  f"{speed['rtl']:,.0f} requests/s{golden}; both at once {speed['replay']:,.0f}/s")  # fmt: skip
    for name, path in results["files"].items():
        table.add_row(name.capitalize(), path)
    console.print()
    console.print(table, highlight=False)


_EXAMPLES = (
    "",
    "--granule 32K --t1-age 125 --t2-count 32 --t3-count 256",
    "--log2-entries 9 --check 100000",
    "--trace my_clip.parquet --out build/my_clip --json",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; gives the exit code."""
    parser = Parser(
        "python -m kv_asu_sim.demo",
        "Replay a trace on the compiled RTL, checked against the golden model, and say how many of its reads found "
        "their line tracked.",
        _EXAMPLES,
    )
    parser.add_argument("--trace", type=Path, default=TRACE, metavar="FILE",
                        help="default: the trace of bikes.mp4; pictures of its frames beside it, as "
                        "examples/traces/make_pictures.py writes them, are drawn under their patches' "
                        "T-levels")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="default: build/demo, or build/what_if for another trace or core")  # fmt: skip
    parser.add_argument("--check", type=whole_number(), default=CHECK, metavar="N",
                        help="requests to check against the golden model (default: %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true",
                        help="results as JSON on standard output, the rest on standard error")  # fmt: skip
    add_options(parser)
    options = parser.parse_args(arguments)
    chosen = from_options(parser, options)
    console = Console(stderr=options.json)
    usual = options.trace == TRACE and chosen == from_options(parser, parser.parse_args([]))
    out = options.out or Path("build", "demo" if usual else "what_if")

    def job() -> int:
        results = run(options.trace, out, chosen, options.check, console)
        if options.json:
            print(json.dumps(results, indent=2))
        else:
            _show(console, results)
        return 0

    return parser.run(job, VrexError, BuildError, ToolError, Mismatch, LatencyError, DemoError)


if __name__ == "__main__":
    raise SystemExit(main())
