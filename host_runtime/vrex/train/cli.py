"""`vrex train`: weights for the LSTM, from traces of clips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vrex.options import one_of

EXAMPLES = """Examples:

- `vrex train a.parquet b.parquet -o weights.json`
- `vrex train a.parquet --clip a.mp4 -o weights.json --epochs 50 --seed 7`
"""

_TRANSPORTS = ("rtl", "model")


def train(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of 'vrex trace make'.")],
    output: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="The file of weights to write.")],
    clip: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The clip of each trace, in their order: its motion is learned from, too."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, max=10_000, help="How often all sequences are seen.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="First weights and order follow from it.")] = 1,
    log2_entries: Annotated[
        int, typer.Option(min=3, max=16, help="Slots of the core's table, log2; the largest tells regions apart.")
    ] = 16,
    transport: Annotated[
        str, typer.Option(parser=one_of(*_TRANSPORTS), metavar="rtl|model", help="What the core is.")
    ] = "rtl",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Train the LSTM that says how likely a patch region is read; the same traces and seed give the same weights.

    A quarter of the sequences, those of the last frames, is kept back to measure the loss on.
    """
    import numpy as np

    from vrex.bench.hit_rate import TLevelTape
    from vrex.bench.jobs import new_watch
    from vrex.bench.stream import Stream
    from vrex.console import progress_bar
    from vrex.errors import VrexError
    from vrex.files import check_outputs
    from vrex.runtime.motion import region_motion
    from vrex.train.training import loss, sequences
    from vrex.train.training import train as fit

    if clip and len(clip) != len(traces):
        raise typer.BadParameter(f"{len(clip)} clips for {len(traces)} traces", param_hint="'--clip'")
    check_outputs(output, sources=[*traces, *(clip or [])])
    learned, kept = [], []
    for number, path in enumerate(traces):
        stream = Stream(path)
        motion = region_motion(clip[number], stream.frames) if clip else None
        with progress_bar(path.name, "reads") as bar:
            inputs, read = sequences(stream, TLevelTape(new_watch(stream, transport, log2_entries)), motion, bar)
        cut = len(inputs) * 3 // 4
        learned.append((inputs[:cut], read[:cut]))
        kept.append((inputs[cut:], read[cut:]))
    if not sum(len(read) for _, read in learned):
        raise VrexError("too few frames to learn from: a sequence is a visit and the one before it")
    inputs, read = (np.concatenate(arrays) for arrays in zip(*learned, strict=True))
    held_inputs, held_read = (np.concatenate(arrays) for arrays in zip(*kept, strict=True))
    made = {
        "command": "vrex train",
        "traces": [path.name for path in traces],
        "clips": [path.name for path in clip or []],
        "sequences": len(inputs),
        "epochs": epochs,
        "seed": seed,
        "log2_entries": log2_entries,
    }
    with progress_bar("training", "epochs") as bar:
        lstm = fit(inputs, read, epochs, seed, made, bar)
    mean = float(read.mean())
    made["loss"] = round(loss(lstm, held_inputs, held_read), 4)
    constant = np.clip(mean, 1e-9, 1 - 1e-9)
    made["loss_of_the_mean"] = round(
        float(-np.mean(held_read * np.log(constant) + (1 - held_read) * np.log(1 - constant))), 4
    )
    lstm.save(output)
    if as_json:
        typer.echo(json.dumps({"file": str(output), "parameters": lstm.parameters, **made}, indent=2))
    else:
        typer.echo(
            f"{output}: {lstm.parameters} parameters from {len(inputs):,} sequences; loss {made['loss']} on what was "
            f"kept back, {made['loss_of_the_mean']} for the mean"
        )
