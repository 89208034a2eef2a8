"""`vrex run`: a trace, a clip or live frames through the whole runtime, a line a frame."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrex.options import one_of

if TYPE_CHECKING:
    from vrex.errors import VrexError
    from vrex.run.live import Live
    from vrex.run.replay import Replay, Shape
    from vrex.runtime.cache import DynamicRetrievalCache

EXAMPLES = """Examples:

- `vrex run --frames 8 --residency 0.05`
- `vrex run street.mp4 --frames 16 --layers 2,6 --kv-cache-reserve-mb 8`
- `vrex run street.parquet --transport rtl --kv-prefetch-disable --json > run.json`
- `ffmpeg -i street.mp4 -f rawvideo -pix_fmt yuv420p - | vrex run --yuv 640x360@24 --residency 0.2`
- `vrex run --camera /dev/video0 --frames 100`
"""

#: What the labels of a frame's line say; the demo, which has no cache, means others by them.
MEANINGS = """\
KVHitRate  share of the frame's reads whose KV line was in near memory when its tile asked
Latency    from the frame's first KV to its last read on the device: modelled, an Orin NX with the KV cache on NVMe
"""

_TRANSPORTS = ("model", "rtl")

#: Near memory unless told otherwise, and the most that makes sense to ask for, in MiB.
_USUAL_MIB, _MOST_MIB = 2048, 1 << 20
#: Tokens that no stream has: eighteen hours of a frame a second.
_MOST_TOKENS = 1 << 24
#: The source's names of types, and ours.
_DTYPES = {"half": "fp16", "bfloat16": "bf16", "float": "fp32"}


def run(
    source: Annotated[
        Path | None, typer.Argument(help="A trace or a clip; without one, the trace of bikes.mp4.", show_default=False)
    ] = None,
    yuv: Annotated[
        str | None,
        typer.Option(
            metavar="WxH@RATE", show_default=False, help="Instead: raw yuv420p frames of that size on standard input."
        ),
    ] = None,
    camera: Annotated[
        Path | None, typer.Option(metavar="DEVICE", show_default=False, help="Instead: a camera, like /dev/video0.")
    ] = None,
    transport: Annotated[
        str, typer.Option(parser=one_of(*_TRANSPORTS), metavar="|".join(_TRANSPORTS), help="What the core is.")
    ] = "model",
    frames: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Frames from the start; all unless given.")
    ] = None,
    layers: Annotated[str, typer.Option(help="Of a clip or live frames: layers of the model, like 2,6,10.")] = "2,6,10",
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
        float | None,
        typer.Option(
            "--kv-cache-reserve-mb",
            min=0.01,
            metavar="MIB",
            help="Near memory.",
            show_default=str(_USUAL_MIB),
        ),
    ] = None,
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
        int | None,
        typer.Option("--max-model-len", min=1, metavar="N", help="Tokens of the longest stream."),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(parser=one_of(*_DTYPES), metavar="TYPE", help=f"Of keys and values: {', '.join(_DTYPES)}."),
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
    """Play a stream through cache, policy, driver, DMA engine and core; every byte read is checked.

    The stream is a trace, a clip, raw frames on standard input or a camera. Of the latter two each frame is worked on
    as it comes, and memory is bounded by --max-model-len (32,768 tokens, 127 frames, unless that or --frames is given).
    Latency is device time from a frame's first KV to its last read: modelled for an Orin NX with the KV cache on NVMe.
    """
    import math

    from vrex.console import progress_bar, tell
    from vrex.extras import need
    from vrex.files import check_outputs, whole_file

    need("vrex run", "simpy")
    from vrex.bench.inputs import DEFAULT_TRACE
    from vrex.errors import KvCacheFull, VrexError
    from vrex.run.replay import Replay, Shape, cache_for, least_room
    from vrex.run.sources import open_source
    from vrex.runtime.cache import MIB
    from vrex.runtime.metrics import LOW_HIT_RATE
    from vrex.trace.cli import indices
    from vrex.trace.vit import VIT_S14

    if reserve_mb is not None and residency is not None:
        raise typer.BadParameter("near memory has one size: give MiB or a share", param_hint="'--residency'")
    numbers = {"kv-cache-reserve-mb": reserve_mb, "residency": residency, "kv-cache-gc-threshold": gc_threshold}
    for name, value in numbers.items():
        if value is not None and math.isnan(value):
            raise typer.BadParameter("nan is not a number", param_hint=f"'--{name}'")
    read = [camera] if camera else [] if yuv else [source or DEFAULT_TRACE]
    most = {"kv-cache-reserve-mb": (reserve_mb, _MOST_MIB), "max-model-len": (max_model_len, _MOST_TOKENS)}
    for name, (value, limit) in most.items():
        if value is not None and value > limit:
            raise typer.BadParameter(f"is at most {limit:,}", param_hint=f"'--{name}'")
    check_outputs(*(path for path in (json_lines, prometheus) if path), sources=read)
    share = residency
    if no_retrieval:
        share = gc_threshold = 1.0
    chosen = indices("layers", layers, VIT_S14.layers)
    prefetch = not (no_retrieval or prefetch_disable)

    def new_cache(shape: Shape) -> DynamicRetrievalCache:
        if shape.kv.dtype != _DTYPES[dtype]:
            raise typer.BadParameter(f"the stream's KV is {shape.kv.dtype}", param_hint="'--dtype'")
        try:
            return cache_for(
                shape,
                transport,
                share=share,
                reserve_mb=_USUAL_MIB if reserve_mb is None else reserve_mb,
                gc_threshold=gc_threshold,
                prefetch=not prefetch_disable,
                heartbeat=not no_heartbeat,
            )
        except MemoryError:
            raise _too_long(shape.kv.max_tokens) from None

    player: Live | Replay
    clip, total, failure = None, frames, None
    done = []
    with tempfile.TemporaryDirectory() as folder:
        if yuv is not None or camera is not None:
            player = _live(source, yuv, camera, frames, chosen, max_model_len, new_cache, tlevel, prefetch)
        else:
            stream, clip = open_source(source, frames, chosen, Path(folder), "vrex run")
            player = Replay(stream, new_cache(Shape.of(stream, max_model_len)), tlevel, prefetch)
            total = min(frames or stream.frames, stream.frames)
        if not as_json:
            typer.echo(MEANINGS)
        with progress_bar("run", "frames") as bar:
            bar(0, total)
            try:
                for frame in player.run():
                    done.append(frame)
                    if not as_json:
                        print(frame, flush=True)
                    bar(len(done), total)
                    if len(done) == total:
                        break
            except VrexError as error:
                failure = error
                if isinstance(error, KvCacheFull):
                    failure = least_room(error, player.cache, reserve=True)
                if not done:
                    raise failure from None
                # after what there is has been told
        totals = player.cache.totals
        causes = [] if totals.hit_rate >= LOW_HIT_RATE else [_likely_cause(player, clip)]
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
        if failure is None and share is None and not totals.counted["moved"]:
            tell(
                f"all {player.cache.held_bytes / MIB:,.1f} MiB of KV fitted in near memory, so that nothing had to "
                "move; --residency 0.2, for one, makes near memory smaller"
            )
    for cause in causes:
        tell(f"warning: hit rate under {LOW_HIT_RATE:.0%}: {cause}")
    if failure is not None:
        raise failure


def _live(
    source: Path | None,
    yuv: str | None,
    camera: Path | None,
    frames: int | None,
    layers: tuple[int, ...],
    max_model_len: int | None,
    new_cache: Callable[[Shape], DynamicRetrievalCache],
    tlevel: int,
    prefetch: bool,
) -> Live:
    """Frames as they come."""
    import sys

    from vrex.errors import VrexError
    from vrex.run.live import USUAL_TOKENS, Camera, Live, RawVideo, shape
    from vrex.trace.packaged import packaged_file
    from vrex.trace.vit import VIT_S14_FILE, VIT_S14_GRID, QueryKeyModel

    if sum(each is not None for each in (source, yuv, camera)) > 1:
        raise typer.BadParameter("a stream has one source: a file, --yuv or --camera", param_hint="'SOURCE'")
    if yuv is not None:
        try:
            raw = RawVideo.parse(yuv)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="'--yuv'") from None
        if sys.stdin.isatty():
            raise VrexError("standard input is a terminal; pipe raw frames into it, as 'vrex run --help' shows")
        rate, pictures = raw.rate, raw.pictures(sys.stdin.buffer)
    else:
        assert camera is not None
        device = Camera(camera)
        rate, pictures = device.rate, device.pictures()
    per_frame = VIT_S14_GRID.tokens_per_frame
    tokens = max_model_len or (frames * per_frame if frames else USUAL_TOKENS)
    if tokens > _MOST_TOKENS:
        raise _too_long(tokens)
    model = QueryKeyModel(packaged_file(*VIT_S14_FILE).path, layers, values=True)
    cache = new_cache(shape(layers, rate, tokens))
    try:
        return Live(pictures, model, layers, rate, cache, tlevel, prefetch)
    except MemoryError:
        raise _too_long(tokens) from None


def _too_long(tokens: int) -> VrexError:
    from vrex.errors import VrexError

    return VrexError(f"no memory for a stream of {tokens:,} tokens; a smaller --max-model-len, or --frames, will do")


def _likely_cause(player: Live | Replay, clip: Path | None) -> str:
    """Why so much misses: the footage, or near memory that is smaller than what a frame reads."""
    from kv_asu_firmware.residency import Bank
    from vrex.calibrate.clip import measure_clip
    from vrex.errors import VrexError

    if clip is not None:
        try:
            found = measure_clip(clip, player.cache.totals.frames).warnings(clip.name)
        except VrexError:
            found = []
        if found:
            return found[0]
    places, wanted = player.cache.near.capacity(Bank.DEMAND), player.reads_per_frame
    if places < wanted:
        return (
            f"near memory has {places:,} places, a frame asks for up to {wanted:,} lines; a larger "
            "--kv-cache-reserve-mb, or --residency, makes room"
        )
    return "lines are read again later than the core remembers; 'vrex calibrate --trace FILE' finds tick and granule"
