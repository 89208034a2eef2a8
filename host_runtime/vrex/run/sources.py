"""What a run can be given, as a stream: a trace, or a clip of which a trace is made."""

from __future__ import annotations

from pathlib import Path

from vrex.bench.inputs import DEFAULT_TRACE
from vrex.bench.stream import Stream
from vrex.console import progress_bar
from vrex.errors import VrexError
from vrex.runtime.motion import region_motion
from vrex.trace.maker import Knobs, make_trace


def open_source(
    source: Path | None, frames: int | None, layers: tuple[int, ...], folder: Path, command: str
) -> tuple[Stream, Path | None]:
    """Open it.

    Parameters
    ----------
    source : Path or None
        None: the trace that comes with a checkout.
    frames : int, optional
        Of a clip: frames from its start; all unless given.
    layers : tuple of int
        Of a clip: the model's layers that are traced.
    folder : Path
        Where a clip's trace goes.
    command : str
        Who makes it, for its metadata.

    Returns
    -------
    stream : Stream
        With its motion, if it has any.
    clip : Path or None
        If that was given.

    Raises
    ------
    VrexError
        It cannot be read.
    """
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
        make_trace(path, trace, Knobs(frames, layers), command, progress=bar)
    stream = Stream(trace)
    try:
        stream.motion = region_motion(path, stream.frames)
    except VrexError:
        stream.motion = None  # a coder without motion vectors: the LSTM does without
    return stream, path
