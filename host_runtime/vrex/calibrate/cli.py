"""`vrex calibrate`: settings of the core for a clip, or for a trace."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from vrex.options import one_of

EXAMPLES = """Examples:

- `vrex calibrate street.mp4`
- `vrex calibrate --trace street.parquet`
- `vrex calibrate --preset 720p`
"""

_PRESETS = ("1080p", "720p")

_MEANINGS = {
    "T3.COUNT": "reads that make a line hot",
    "T2.COUNT": "reads that make it warm",
    "TIMEBASE.TICK_SHIFT": "log2 of the clocks in a tick, in which ages are counted",
    "GEOMETRY.LINE_SHIFT": "log2 of the bytes that share a slot",
}
_STRUCTURAL = ("TIMEBASE.TICK_SHIFT", "GEOMETRY.LINE_SHIFT")


def calibrate(
    video: Annotated[Path | None, typer.Argument(help="A clip, whose motion sets T3.COUNT and T2.COUNT.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="A trace, whose reuse sets tick and granule."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            parser=one_of(*_PRESETS), metavar="|".join(_PRESETS), show_default=False, help="Instead of a clip."
        ),
    ] = None,
    frames: Annotated[int | None, typer.Option(min=2, help="Frames from the clip's start; all unless given.")] = None,
    log2_entries: Annotated[int, typer.Option(min=3, max=16, help="Slots of the core's table, log2.")] = 11,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Find the core's settings for a clip or a trace, and warn of footage that the KV cache cannot follow.

    Prints what `vrex regs set` takes; TIMEBASE and GEOMETRY are written while the core is disabled.
    """
    from vrex.calibrate.clip import PRESETS, measure_clip
    from vrex.calibrate.reuse import measure_reuse
    from vrex.console import progress_bar, tell
    from vrex.errors import VrexError
    from vrex.trace.format import TraceReader, is_trace

    if video is not None and is_trace(video):
        raise typer.BadParameter(f"{video} is a trace: give it with --trace", param_hint="'VIDEO'")
    if video is not None and preset is not None:
        raise typer.BadParameter("a clip is measured, a preset is not: give one of them", param_hint="'--preset'")
    if video is None and preset is None and trace is None:
        raise typer.BadParameter("give a clip, --trace FILE or --preset", param_hint="'VIDEO'")
    record: dict[str, Any] = {}
    settings: dict[str, int] = {}
    warnings: list[str] = []
    if preset is not None:
        settings["T3.COUNT"], settings["T2.COUNT"] = PRESETS[preset]
    if video is not None:
        with progress_bar(video.name, "frames") as bar:
            motion = measure_clip(video, frames, bar)
        record["motion"] = asdict(motion)
        settings |= {"T3.COUNT": motion.t3_count, "T2.COUNT": motion.t2_count}
        warnings = motion.warnings(video.name)
    if trace is not None:
        with TraceReader(trace) as reader, progress_bar(trace.name, "accesses") as bar:
            reuse = measure_reuse(reader, 1 << log2_entries, bar)
        if not reuse.reuses:
            raise VrexError(
                f"{trace}: none of its {reuse.lines:,} lines is read again, but in the same millisecond if at all, "
                "which says nothing of ticks; give a longer trace"
            )
        record["reuse"] = asdict(reuse)
        settings |= {"TIMEBASE.TICK_SHIFT": reuse.tick_shift, "GEOMETRY.LINE_SHIFT": reuse.line_shift}
    if as_json:
        typer.echo(json.dumps({**record, "settings": settings, "warnings": warnings}, indent=2))
        return
    if "motion" in record:
        typer.echo(f"{motion.frames} frames; motion deviates by {motion.deviation:.2f} px at 1080p")
    if "reuse" in record:
        typer.echo(
            f"{reuse.lines:,} lines; nine in ten of {reuse.reuses:,} reuses come within {reuse.covered_ns / 1e6:.3g} ms"
        )
    for name, value in settings.items():
        typer.echo(f"{f'{name}={value}':<24}{_MEANINGS[name]}")
    words = [f"{name}={value}" for name, value in settings.items()]
    typer.echo("\nOn a device (--device BDF, --root DIR or --port TTY):")
    if any(name in settings for name in _STRUCTURAL):  # writable while the core is disabled only
        typer.echo("vrex regs set CTRL.ENABLE=0 --device 00:02.0")
        words.append("CTRL.ENABLE=1")
    typer.echo(f"vrex regs set {' '.join(words)} --device 00:02.0")
    for warning in warnings:
        tell(f"warning: {warning}")
