"""`vrex bench`: every figure anew, with the peers in the same run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrex.options import one_of

if TYPE_CHECKING:
    from vrex.bench.knobs import BenchKnobs
    from vrex.bench.stream import Stream
    from vrex.bench.table import Table

EXAMPLES = """Examples:

- `vrex bench`
- `vrex bench street.mp4 --table hit-rate`
- `vrex bench a.parquet b.parquet --json > figures.json`
"""

TABLES = ("hit-rate", "prefetch", "reuse", "latency", "bytes", "speed", "fidelity")
_TRANSPORTS = ("rtl", "model")


def bench(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Traces, or clips to make traces of; the trace of bikes.mp4 if none."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(parser=one_of(*TABLES), metavar="|".join(TABLES), help="Only this table; may be repeated."),
    ] = None,
    transport: Annotated[
        str, typer.Option(parser=one_of(*_TRANSPORTS), metavar="|".join(_TRANSPORTS), help="What the core is.")
    ] = "rtl",
    peers: Annotated[bool, typer.Option(help="Whether the policies of libcachesim take part.")] = True,
    knobs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Other knobs than the frozen ones, in a file like them."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Where figures.json, plots and made traces go.")
    ] = Path("build/bench"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
) -> None:
    """Measure V-Rex against the best other policies on the very same accesses, each figure beside its definition."""
    from rich.console import Console

    from vrex.bench.inputs import DEFAULT_TRACE, open_streams
    from vrex.bench.knobs import FROZEN, BenchKnobs
    from vrex.bench.plot import plot
    from vrex.console import stderr
    from vrex.errors import VrexError
    from vrex.extras import need
    from vrex.files import check_outputs, whole_file

    frozen = BenchKnobs.read(knobs or FROZEN)
    need("vrex bench", "simpy", "matplotlib")  # now, not after the first half hour
    if peers:
        need("vrex bench without --no-peers", "libcachesim")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VrexError(f"{out}: cannot be made ({error.strerror}); choose another --out") from None
    figures_file, read = out / "figures.json", [*(inputs or [DEFAULT_TRACE]), knobs or FROZEN]
    check_outputs(figures_file, sources=read)
    console = Console()
    wanted = [name for name in TABLES if not table or name in table]
    figures: dict[str, Any] = {"knobs": vars(frozen), "transport": transport, "traces": {}}
    streams = open_streams(inputs or [DEFAULT_TRACE], frozen.trace, out, "vrex bench")
    plots = [_plot_of(stream, name, out) for stream, _ in streams for name in wanted]
    check_outputs(figures_file, *plots, sources=read)
    for stream, clip in streams:
        path = stream.path
        possible = [name for name in wanted if name != "fidelity" or clip is not None]
        if possible != wanted:
            stderr.print(f"{path.name}: no table fidelity: it needs the clip; give that instead of its trace")
        tables: dict[str, Any] = {}
        motion = stream.motion is not None
        figures["traces"][path.name] = {"made": stream.metadata.made, "motion": motion, "tables": tables}
        for name in possible:
            measured = _measure(name, stream, clip, frozen, transport, peers)
            tables[name] = measured.to_json()
            if not as_json:
                console.print(measured.text())
            plot(measured, _plot_of(stream, name, out))
            with whole_file(figures_file) as scratch:  # after each, so that who stops it keeps what is done
                scratch.write_text(json.dumps(figures, indent=2) + "\n")
    if as_json:
        typer.echo(json.dumps(figures, indent=2))


def _plot_of(stream: Stream, table: str, out: Path) -> Path:
    return out / f"{stream.path.stem}-{table}.png"


def _measure(name: str, stream: Stream, clip: Path | None, knobs: BenchKnobs, transport: str, peers: bool) -> Table:
    from vrex.bench.bytes_table import bytes_table
    from vrex.bench.fidelity_table import fidelity_table
    from vrex.bench.hit_rate_table import hit_rate_table
    from vrex.bench.latency_table import latency_table
    from vrex.bench.prefetch_table import prefetch_table
    from vrex.bench.reuse_table import reuse_table
    from vrex.bench.speed_table import speed_table
    from vrex.console import progress_bar

    if name == "fidelity":
        assert clip is not None
        return fidelity_table(clip, knobs, progress_bar)
    measures = (hit_rate_table, prefetch_table, reuse_table, latency_table, bytes_table, speed_table)
    return dict(zip(TABLES, measures, strict=False))[name](stream, knobs, transport, peers, progress_bar)
