"""`vrex run`: a trace or a clip through the whole runtime, a line a frame."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vrex.bench.stream import Stream
    from vrex.runtime.cache import DynamicRetrievalCache

EXAMPLES = """Examples:

- `vrex run --frames 8 --residency 0.05`
- `vrex run street.mp4 --frames 16 --layers 2,6 --kv-cache-reserve-mb 8`
- `vrex run street.parquet --transport rtl --kv-prefetch-disable --json > run.json`
"""

#: What the labels of a frame's line say; the demo, which has no cache, means others by them.
MEANINGS = """\
KVHitRate  share of the frame's reads whose KV line was in near memory when its tile asked
Latency    from the frame's first KV to its last read on the device: modelled, an Orin NX with the KV cache on NVMe
"""

_TRANSPORTS = ("model", "rtl")
#: The source's names of types, and ours.
_DTYPES = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}


def _one_of(*names: str) -> Any:
    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}")
        return text

    return parse


def run(
    source: Annotated[
        Path | None, typer.Argument(help="A trace or a clip; without one, the trace of bikes.mp4.", show_default=False)
    ] = None,
    transport: Annotated[
        str, typer.Option(parser=_one_of(*_TRANSPORTS), metavar="|".join(_TRANSPORTS), help="What the core is.")
    ] = "model",
    frames: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Frames from the start; all unless given.")
    ] = None,
    layers: Annotated[str, typer.Option(help="Of a clip: layers of the model to trace, like 2,6,10.")] = "2,6,10",
    _retrieval: Annotated[
        bool,
        typer.Option(
            "--kv-retrieval-enabled", show_default=False, help="Keep near what is about to be read, as usual."
        ),
    ] = True,
    no_retrieval: Annotated[bool, typer.Option("--no-kv-retrieval-enabled", help="Everything stays near.")] = False,
    tlevel: Annotated[
        int,
        typer.Option(
            "--kv-tlevel-thresh", min=0, max=3, metavar="LEVEL", help="What to keep, and what to bring ahead."
        ),
    ] = 2,
    prefetch_disable: Annotated[
        bool, typer.Option("--kv-prefetch-disable", help="Bring nothing ahead of its use.")
    ] = False,
    reserve_mb: Annotated[
        float, typer.Option("--kv-cache-reserve-mb", min=0.01, metavar="MIB", help="Near memory.")
    ] = 2048,
    residency: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1,
            metavar="X",
            help="Instead of MiB: near memory as a share of the whole stream's KV, however few --frames are played.",
        ),
    ] = None,
    gc_threshold: Annotated[
        float,
        typer.Option(
            "--kv-cache-gc-threshold",
            min=0.01,
            max=1,
            metavar="X",
            help="How full near memory is when cold lines begin to go.",
        ),
    ] = 0.85,
    max_model_len: Annotated[
        int | None, typer.Option("--max-model-len", min=1, metavar="N", help="Tokens of the longest stream.")
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(parser=_one_of(*_DTYPES), metavar="TYPE", help=f"Of keys and values: {', '.join(_DTYPES)}."),
    ] = "half",
    no_heartbeat: Annotated[
        bool, typer.Option("--no-heartbeat", help="Let the DMA engine fall asleep between frames.")
    ] = False,
    json_lines: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write a line of JSON a frame there.")
    ] = None,
    prometheus: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the totals there, as Prometheus text.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object.")] = False,
) -> None:
    """Play a trace or a clip through cache, policy, driver, DMA engine and core; every byte read is checked.

    Latency is device time from a frame's first KV to its last read: modelled for an Orin NX with the KV cache on NVMe.
    """
    import math

    from vrex.console import progress_bar, stderr
    from vrex.extras import need
    from vrex.files import check_file, whole_file

    need("vrex run", "simpy")
    from vrex.run.replay import Replay
    from vrex.runtime.metrics import LOW_HIT_RATE

    numbers = {"kv-cache-reserve-mb": reserve_mb, "residency": residency, "kv-cache-gc-threshold": gc_threshold}
    for name, value in numbers.items():
        if value is not None and math.isnan(value):
            raise typer.BadParameter("nan is not a number", param_hint=f"'--{name}'")
    check_file(*(path for path in (json_lines, prometheus) if path))
    with tempfile.TemporaryDirectory() as folder:
        stream, clip = _open(source, frames, layers, Path(folder))
        if stream.geometry.address_map.dtype != _DTYPES[dtype]:
            raise typer.BadParameter(f"the stream's KV is {stream.geometry.address_map.dtype}", param_hint="'--dtype'")
        share = residency
        if no_retrieval:
            share = gc_threshold = 1.0
        cache = _cache(
            stream, transport, share, reserve_mb, gc_threshold, max_model_len, prefetch_disable, not no_heartbeat
        )
        replay = Replay(stream, cache, tlevel, not (no_retrieval or prefetch_disable))
        done = []
        total = min(frames or stream.frames, stream.frames)
        if not as_json:
            typer.echo(MEANINGS)
        with progress_bar("run", "frames") as bar:
            bar(0, total)
            for frame in replay.run():
                done.append(frame)
                if not as_json:
                    print(frame)
                bar(len(done), total)
                if len(done) >= total:
                    break
        totals = cache.totals
        causes = [] if totals.hit_rate >= LOW_HIT_RATE else [_likely_cause(stream, cache, clip)]
    if json_lines:
        with whole_file(json_lines) as scratch:
            scratch.write_text("".join(frame.json_line() + "\n" for frame in done))
    if prometheus:
        with whole_file(prometheus) as scratch:
            scratch.write_text(totals.prometheus())
    if as_json:
        record = {
            "frames": [frame.to_json() for frame in done],
            "hit_rate": totals.hit_rate,
            "retrieval_p50_us": totals.percentile_us(50),
            "retrieval_p99_us": totals.percentile_us(99),
            "warnings": causes,
        }
        typer.echo(json.dumps(record, indent=2))
    else:
        typer.echo(
            f"KVHitRate {totals.hit_rate:.1%} of {totals.counted['lines']:,} lines, {totals.counted['moved']:,} moved "
            f"({totals.counted['prefetched']:,} ahead); retrieval p50 {totals.percentile_us(50):.1f} us, "
            f"p99 {totals.percentile_us(99):.1f} us (modelled)"
        )
    for cause in causes:
        warning = f"warning: hit rate under {LOW_HIT_RATE:.0%}: {cause}"
        stderr.print(warning, markup=False, highlight=False, soft_wrap=True)


def _open(source: Path | None, frames: int | None, layers: str, folder: Path) -> tuple[Stream, Path | None]:
    """The stream, and its clip if that was given."""
    from vrex.bench.cli import DEFAULT_TRACE
    from vrex.bench.stream import Stream
    from vrex.console import progress_bar
    from vrex.errors import VrexError
    from vrex.runtime.motion import region_motion
    from vrex.trace.cli import indices
    from vrex.trace.maker import Knobs, make_trace
    from vrex.trace.vit import VIT_S14

    path = source or DEFAULT_TRACE
    try:
        with open(path, "rb") as file:
            is_trace = file.read(4) == b"PAR1"
    except OSError as error:
        raise VrexError(f"{path}: cannot be read ({error.strerror}); give a trace or a clip") from None
    if is_trace:
        return Stream(path), None
    trace = folder / "clip.parquet"
    with progress_bar(f"{path.name} to trace", "frames") as bar:
        make_trace(path, trace, Knobs(frames, indices("layers", layers, VIT_S14.layers)), "vrex run", progress=bar)
    stream = Stream(trace)
    try:
        stream.motion = region_motion(path, stream.frames)
    except VrexError:
        stream.motion = None  # a coder without motion vectors: the LSTM does without
    return stream, path


def _cache(
    stream: Stream,
    transport: str,
    share: float | None,
    reserve_mb: float,
    gc_threshold: float,
    max_model_len: int | None,
    prefetch_disable: bool,
    heartbeat: bool,
) -> DynamicRetrievalCache:
    from vrex.run.replay import layout_of
    from vrex.runtime.cache import MIB, DynamicRetrievalCache
    from vrex.runtime.core_watch import WatchSettings
    from vrex.transports import open_transport
    from vrex.transports.base import Bus

    bus = open_transport(transport)
    assert isinstance(bus, Bus)
    kv = layout_of(stream, max_model_len)
    settings = WatchSettings.of_stream(
        stream.lines, stream.reads_per_frame, stream.frame_ns, 1 << bus.params.log2_entries
    )
    whole = kv.stream_bytes / MIB
    return DynamicRetrievalCache(
        kv,
        bus=bus,
        reserve_mb=min(reserve_mb, 2 * whole) if share is None else max(share * whole, kv.bytes_per_token / MIB),
        gc_threshold=gc_threshold,
        prefetch_share=0.0 if prefetch_disable or share == 1.0 else 0.125,
        tiles=stream.tiles,
        grid=stream.geometry.grid,
        settings=settings,
        heartbeat=heartbeat,
    )


def _likely_cause(stream: Stream, cache: DynamicRetrievalCache, clip: Path | None) -> str:
    """Why so much misses: the footage, or near memory that is smaller than what a frame reads."""
    from kv_asu_firmware.residency import Bank
    from vrex.calibrate.clip import measure_clip
    from vrex.errors import VrexError

    if clip is not None:
        try:
            found = measure_clip(clip, stream.frames).warnings(clip.name)
        except VrexError:
            found = []
        if found:
            return found[0]
    places, wanted = cache.near.capacity(Bank.DEMAND), stream.reads_per_frame
    if places < wanted:
        return (
            f"near memory has {places:,} places, a frame asks for up to {wanted:,} lines; a larger "
            "--kv-cache-reserve-mb, or --residency, makes room"
        )
    return "lines are read again later than the core remembers; 'vrex calibrate --trace FILE' finds tick and granule"
