"""`vrex report`: a run as one HTML page that can be sent to somebody."""

from __future__ import annotations

import base64
import hashlib
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrex.options import one_of

if TYPE_CHECKING:
    from vrex.bench.stream import Stream
    from vrex.report.heat import HeatMap
    from vrex.runtime.cache import DynamicRetrievalCache
    from vrex.runtime.metrics import FrameMetrics

EXAMPLES = """Examples:

- `vrex report -o bikes.html --frames 16`
- `vrex report street.mp4 -o street.html --frames 24 --layers 2,6`
- `vrex report street.parquet --clip street.mp4 -o street.html --residency 0.15 --no-predictors`
"""

_TRANSPORTS = ("model", "rtl")


def report(
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="The page to write.")],
    source: Annotated[
        Path | None, typer.Argument(help="A trace or a clip; without one, the trace of bikes.mp4.", show_default=False)
    ] = None,
    clip: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Of a trace: the clip that it was made of."),
    ] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="Frames from the start; all unless given.")] = None,
    layers: Annotated[str, typer.Option(help="Of a clip: layers of the model to trace, like 2,6,10.")] = "2,6,10",
    residency: Annotated[
        float, typer.Option(min=0.001, max=1, help="Near memory as a share of the whole stream's KV.")
    ] = 0.1,
    log2_entries: Annotated[
        int, typer.Option(min=3, max=16, help="Slots of the core's table, log2; the largest tells patches apart.")
    ] = 16,
    predictors: Annotated[
        bool, typer.Option(help="Measure what each predictor adds; takes five more passes of the policy alone.")
    ] = True,
    transport: Annotated[
        str, typer.Option(parser=one_of(*_TRANSPORTS), metavar="|".join(_TRANSPORTS), help="What the core is.")
    ] = "model",
) -> None:
    """Run a trace or a clip through the whole runtime, and write one HTML page of it that needs nothing else.

    T-levels over the video's own frames, hit rate and latency over time, what each predictor adds, the registers. From
    a trace alone, the heat map has no frames behind it, unless its clip is in an installed package.
    """
    from vrex.console import progress_bar
    from vrex.errors import KvCacheFull, VrexError
    from vrex.extras import need
    from vrex.files import check_outputs, whole_file

    if math.isnan(residency):
        raise typer.BadParameter("nan is not a number", param_hint="'--residency'")
    need("vrex report", "simpy", "PIL")
    from vrex.bench.inputs import DEFAULT_TRACE
    from vrex.report.heat import HeatMap
    from vrex.report.page import page
    from vrex.run.replay import Replay, Shape, cache_for, least_room
    from vrex.run.sources import open_source
    from vrex.runtime.core_watch import CLOCK_NS
    from vrex.trace.cli import indices
    from vrex.trace.vit import VIT_S14

    check_outputs(output, sources=[source or DEFAULT_TRACE, *([clip] if clip else [])])
    with tempfile.TemporaryDirectory() as folder:
        chosen = indices("layers", layers, VIT_S14.layers)
        stream, given = open_source(source, frames, chosen, Path(folder), "vrex report")
        if given is not None and clip is not None:
            raise typer.BadParameter("the source is a clip already", param_hint="'--clip'")
        shown = _clip_of(stream, given, clip)
        looks = _DEPTH * stream.geometry.grid.tokens_per_frame * len(stream.groups)
        cache = cache_for(
            Shape.of(stream),
            transport,
            share=residency,
            log2_entries=log2_entries,
            looks_per_frame=min(looks, stream.lines),
        )
        heat = HeatMap(cache, stream.geometry.grid, _DEPTH)
        replay = Replay(stream, cache, min_tlevel=2, prefetch=True)
        done: list[FrameMetrics] = []
        with progress_bar("run", "reads") as bar:
            try:
                for frame in replay.run():
                    done.append(frame)
                    heat.look(frame.frame)
                    bar(replay.lines, None if frames else stream.reads)
                    if len(done) == frames:
                        break
            except KvCacheFull as error:
                raise least_room(error, cache, reserve=False) from None
        if not done:
            raise VrexError(f"{stream.path}: nothing is read in it; make a trace with 'vrex trace make'")
        rates: dict[str, list[float]] = {}
        count = done[-1].frame + 1
        if predictors:
            from vrex.report.contributions import contributions

            with progress_bar("predictors", "frames") as bar:
                rates = dict(contributions(stream, stream.places(residency), count, transport, log2_entries, bar))
        data = _data(stream, cache, done, heat, shown, rates)
    coarser = cache.settings.coarser
    data["made"] += [
        ("near memory", f"{residency:.1%} of the stream's KV"),
        ("core", f"{transport}, {1 << log2_entries:,} slots"),
        ("simulated clock", f"{2**coarser * CLOCK_NS} ns; TIMEBASE.TICK_SHIFT is lowered by {coarser} for it"),
    ]
    with whole_file(output) as scratch:
        scratch.write_text(page(data), encoding="utf-8")
    size = output.stat().st_size
    typer.echo(f"{output}: {len(done)} frames, hit rate {cache.totals.hit_rate:.1%}, {size:,} bytes")


#: Frames that the heat map looks back on.
_DEPTH = 32

_PREDICTORS_NOTE = (
    "Measured in passes of the policy alone, without garbage collection ahead of need and without bringing lines "
    "ahead, over the same reads and with near memory of the same size. A predictor that adds nothing, or less, says "
    "what others say already. The table below counts the run itself."
)


def _clip_of(stream: Stream, source: Path | None, given: Path | None) -> Path | None:
    """The clip whose frames are shown: the source, or a trace's own if it is at hand."""
    from vrex.bench.inputs import packaged_clip
    from vrex.errors import VrexError
    from vrex.runtime.motion import region_motion

    clip = source or given or packaged_clip(stream)
    wanted = stream.metadata.made.get("clip_sha256")
    if clip is None or clip == source:
        return clip
    try:
        digest = hashlib.sha256(clip.read_bytes()).hexdigest()
    except OSError as error:
        raise VrexError(f"{clip}: cannot be read ({error.strerror}); give the trace's clip") from None
    if wanted is not None and digest != wanted:
        if given is None:
            return None  # a package's clip of another version
        raise VrexError(
            f"{clip}: is not the clip that {stream.path} was made of, by its SHA-256; give that one, or none"
        )
    try:
        stream.motion = region_motion(clip, stream.frames)
    except VrexError:
        stream.motion = None  # a coder without motion vectors: the LSTM does without
    return clip


def _data(
    stream: Stream,
    cache: DynamicRetrievalCache,
    frames: list[FrameMetrics],
    heat: HeatMap,
    clip: Path | None,
    rates: dict[str, list[float]],
) -> dict[str, Any]:
    """What the page is given."""
    from kv_asu import __version__
    from vrex.console import progress_bar
    from vrex.report.page import histogram, pictures, register_rows
    from vrex.trace.video import Clip
    from vrex.trace.vit import PICTURE_SIZE

    totals, grid = cache.totals, stream.geometry.grid
    by_frame = {name: [values[frame.frame] for frame in frames] for name, values in rates.items()}
    reads = [frame.lines for frame in frames]

    def mean(values: list[float]) -> float:
        return sum(value * count for value, count in zip(values, reads, strict=True)) / max(1, sum(reads))

    shown: list[str] = []
    if clip is not None:
        with progress_bar("pictures", "frames"):
            shown = pictures(Clip(clip).pictures(PICTURE_SIZE, frames[-1].frame + 1))
    counted = totals.counted
    return {
        "name": clip.name if clip else stream.path.name,
        "what": stream.metadata.what,
        "totals": [
            ("hit rate", f"{totals.hit_rate:.1%}"),
            ("lines retrieved", f"{counted['lines']:,}"),
            ("lines moved", f"{counted['moved']:,}"),
            ("of these ahead", f"{counted['prefetched']:,}"),
            ("retrieval p50, modelled", f"{totals.percentile_us(50):.1f} µs"),
            ("retrieval p99, modelled", f"{totals.percentile_us(99):.1f} µs"),
        ],
        "frame_rate": min(30.0, 1e9 / stream.frame_ns),
        "frames": [frame.to_json() for frame in frames],
        "heat": {
            "bytes": base64.b64encode(heat.bytes()).decode(),
            "frames": heat.frames,
            "depth": heat.depth,
            "rows": grid.rows,
            "columns": grid.columns,
        },
        "pictures": shown,
        "retrievals": histogram(ns for frame in frames for ns in frame.retrievals_ns),
        "with_all": mean(by_frame[""]) if by_frame else 0.0,
        "with_all_by_frame": by_frame.get("", []),
        "predictors": [
            {"name": name, "without": mean(values), "by_frame": values} for name, values in by_frame.items() if name
        ],
        "predictors_note": _PREDICTORS_NOTE if by_frame else "Not measured: the page was made with --no-predictors.",
        "by_level": [
            *(
                {"name": f"T-level {level}", "lines": totals.level_lines[level], "hits": totals.level_hits[level]}
                for level in range(4)
            ),
            {"name": "brought ahead, then asked for", "lines": counted["prefetched"], "hits": counted["prefetch_hits"]},
        ],
        "registers": register_rows(cache.registers()),
        "made": [
            ("V-Rex", __version__),
            (
                "trace",
                f"{stream.path.name}, {stream.reads:,} reads of {stream.lines:,} lines in {stream.frames} frames",
            ),
            ("pictures", clip.name if clip else "none: the clip is not at hand"),
            ("latency", "device time of a discrete-event model: an Orin NX with the KV cache on NVMe"),
            *((name, str(value)) for name, value in stream.metadata.made.items()),
        ],
    }
