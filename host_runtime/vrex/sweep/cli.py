"""`vrex sweep`: hit rates over a grid of the core's settings, table sizes, residencies and traces."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from vrex.options import one_of

if TYPE_CHECKING:
    from vrex.sweep.points import Axes, Job
    from vrex.sweep.workers import Outcome

EXAMPLES = """Examples:

- `vrex sweep --residency 0.05,0.1,0.2 --policy tlevels --log2-entries 11,16`
- `vrex sweep a.parquet street.mp4 --tick-shift auto,14,16,18 --line-shift auto,10,12 --jobs 4`
- `vrex sweep a.parquet --ages 25/50/125,10/25/60 --counts 5/3,3/2 --scheduler tcp://farm:8786`
"""

_TRANSPORTS = ("rtl", "model")
_POLICIES = ("v-rex", "tlevels", "driver")
#: Without this, `vrex.sweep` takes the reset values and what follows from the stream.
_AUTO = "auto"

V = TypeVar("V")


def _list(option: str, text: str, value: Callable[[str], V]) -> list[V]:
    """Read "a,b,c"; what comes twice counts once."""
    try:
        return list(dict.fromkeys(value(part.strip()) for part in text.split(",")))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'--{option}'") from None


def _whole(least: int, most: int, auto: bool = False) -> Callable[[str], int | None]:
    def parse(text: str) -> int | None:
        if auto and text == _AUTO:
            return None
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not {least} to {most}" + f" or {_AUTO}" * auto)
        return int(text)

    return parse


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.001 <= value <= 1:
        raise ValueError(f"{text!r} is not a share from 0.001 to 1")
    return value


def _numbers(text: str, count: int, form: str) -> tuple[int, ...]:
    parts = text.split("/")
    if len(parts) != count or not all(part.isdecimal() for part in parts):
        raise ValueError(f"{text!r} is not of the form {form}")
    return tuple(map(int, parts))


def _counts(text: str) -> tuple[int, int]:
    t3, t2 = _numbers(text, 2, "T3/T2, like 5/3")
    if max(t3, t2) > 0xFFFF:
        raise ValueError(f"{text!r}: counts are at most 65535")
    return t3, t2


def _ages(text: str) -> tuple[int, int, int]:
    from kv_asu.params import Params

    t3, t2, t1 = _numbers(text, 3, "T3/T2/T1, like 25/50/125")
    most = Params().t1_limit
    if not t3 <= t2 <= t1 or not 1 <= t1 <= most:
        raise ValueError(f"{text!r}: ages in ticks rise from T3 to T1, which is 1 to {most}")
    return t3, t2, t1


def sweep(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Traces, or clips to make traces of; the trace of bikes.mp4 if none."),
    ] = None,
    residency: Annotated[str, typer.Option(metavar="LIST", help="Near memory as shares of the stream's KV.")] = "0.1",
    policy: Annotated[
        str, typer.Option(metavar="LIST", help=f"What keeps lines near: {', '.join(_POLICIES)}.")
    ] = "v-rex",
    log2_entries: Annotated[str, typer.Option(metavar="LIST", help="Slots of the core's table, log2.")] = "11",
    line_shift: Annotated[
        str, typer.Option(metavar="LIST", help="GEOMETRY.LINE_SHIFT, 8 to 24; auto: by the stream and the table.")
    ] = _AUTO,
    tick_shift: Annotated[
        str, typer.Option(metavar="LIST", help="TIMEBASE.TICK_SHIFT, 0 to 24; auto: 1/25 frame or a little more.")
    ] = _AUTO,
    counts: Annotated[
        str, typer.Option(metavar="LIST", help="T3/T2 counts of one line; a granule's are as many for each line.")
    ] = "5/3",
    ages: Annotated[str, typer.Option(metavar="LIST", help="T3/T2/T1 ages in ticks.")] = "25/50/125",
    transport: Annotated[
        str, typer.Option(parser=one_of(*_TRANSPORTS), metavar="|".join(_TRANSPORTS), help="What the core is.")
    ] = "rtl",
    jobs: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Processes on this machine; one a core unless given.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", show_default=False, help="Instead: the workers of a Dask scheduler."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where results, tables, plot and made traces go.")
    ] = Path("build/sweep"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")] = False,
) -> None:
    """Measure every combination of settings on every trace; a run that was stopped goes on where it was.

    LIST is values with commas between. Each point's result is kept in DIR/points as it comes; another setting, another
    trace or another version of V-Rex is another point. DIR gets sweep.json, sweep.csv, sweep.parquet and sweep.png.
    """
    from vrex.bench.inputs import DEFAULT_TRACE
    from vrex.errors import VrexError
    from vrex.extras import need
    from vrex.files import check_outputs
    from vrex.sweep.points import Axes

    def parse_policy(text: str) -> str:
        if text not in _POLICIES:
            raise ValueError(f"{text!r} is not one of {', '.join(_POLICIES)}")
        return text

    axes = Axes(
        policy=_list("policy", policy, parse_policy),
        log2_entries=[value for value in _list("log2-entries", log2_entries, _whole(3, 16)) if value is not None],
        line_shift=_list("line-shift", line_shift, _whole(8, 24, auto=True)),
        tick_shift=_list("tick-shift", tick_shift, _whole(0, 24, auto=True)),
        counts=_list("counts", counts, _counts),
        ages=_list("ages", ages, _ages),
        residency=_list("residency", residency, _share),
    )
    if scheduler is not None and not re.fullmatch(r"(tcp|tls)://(\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}", scheduler):
        raise typer.BadParameter(f"{scheduler!r} is not of the form tcp://HOST:PORT", param_hint="'--scheduler'")
    if scheduler is not None and jobs is not None:
        raise typer.BadParameter("a scheduler has its own workers: give one of them", param_hint="'--jobs'")
    need("vrex sweep", "matplotlib")
    if "driver" in axes.policy:
        need("vrex sweep --policy driver", "simpy")
    if scheduler is not None:
        need("vrex sweep --scheduler", "distributed")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VrexError(f"{out}: cannot be made ({error.strerror}); choose another --out") from None
    read = inputs or [DEFAULT_TRACE]
    check_outputs(*(out / f"sweep.{kind}" for kind in ("json", "csv", "parquet", "png")), sources=read)
    _sweep(read, axes, transport, jobs or os.cpu_count() or 1, scheduler, out, as_json)


def _sweep(
    inputs: list[Path], axes: Axes, transport: str, processes: int, scheduler: str | None, out: Path, as_json: bool
) -> None:
    from rich.console import Console

    from vrex.bench.inputs import open_streams
    from vrex.bench.knobs import BenchKnobs
    from vrex.console import progress_bar, tell
    from vrex.errors import VrexError
    from vrex.sweep import figures
    from vrex.sweep import points as grid
    from vrex.sweep.store import Store

    store = Store(out / "points")
    names: dict[grid.Point, str] = {}
    to_do: list[grid.Job] = []
    for stream, _ in open_streams(inputs, BenchKnobs.read().trace, out, "vrex sweep"):
        source = grid.Source.of(stream)
        new = [point for point in axes.points(source, transport) if point not in names]
        names |= dict.fromkeys(new, stream.path.stem)
        to_do += grid.jobs(source, [point for point in new if store.get(point) is None])
    missing = sum(len(job.points) for job in to_do)
    tell(f"{len(names)} points, {len(names) - missing} of them measured before, {missing} to do in {len(to_do)} passes")

    failures: list[VrexError] = []
    with progress_bar("sweep", "points") as bar:
        bar(done := len(names) - missing, len(names))
        for outcome in _outcomes(to_do, processes, scheduler, tell):
            if isinstance(outcome, VrexError):
                failures.append(outcome)
                continue
            for point, result in outcome:
                store.put(point, result)
            bar(done := done + len(outcome), len(names))

    found = [(name, point, store.get(point)) for point, name in names.items()]
    records = [figures.record(name, point, result) for name, point, result in found if result is not None]
    if records:
        figures.write_files(records, out)
        figures.plot(records, out / "sweep.png")
        if as_json:
            typer.echo(json.dumps({"definition": figures.DEFINITION, "points": records}, indent=2))
        else:
            Console().print(figures.table(records).text())
            for line in figures.best(records):
                typer.echo(line)
            typer.echo(f"{out}: sweep.json, sweep.csv, sweep.parquet, sweep.png")
    if failures:
        raise VrexError(f"{len(failures)} of {len(to_do)} passes failed, the first: {failures[0]}")


def _outcomes(jobs: list[Job], processes: int, scheduler: str | None, tell: Callable[[str], None]) -> Iterator[Outcome]:
    from vrex.sweep.workers import in_processes, on_cluster

    if not jobs:
        return iter(())
    return in_processes(jobs, processes) if scheduler is None else on_cluster(jobs, scheduler, tell)
