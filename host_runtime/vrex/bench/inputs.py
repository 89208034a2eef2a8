"""What a measurement is given: traces, or clips of which traces are made once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vrex.bench.stream import Stream
from vrex.console import progress_bar, tell
from vrex.errors import VrexError
from vrex.runtime.motion import region_motion
from vrex.trace.packaged import packaged_file

#: The trace that comes with a checkout.
DEFAULT_TRACE = Path(__file__).parents[3] / "examples" / "traces" / "bikes.parquet"


def open_streams(
    inputs: list[Path], knobs: dict[str, Any], out: Path, command: str
) -> list[tuple[Stream, Path | None]]:
    """The streams of traces and clips, each with its clip where that is at hand, and its motion where that has any.

    Parameters
    ----------
    inputs : list of Path
    knobs : dict
        How a clip's trace is made: what `vrex.trace.maker.Knobs` takes.
    out : Path
        Where made traces go, and are found again.
    command : str
        Who makes them, for their metadata.

    Raises
    ------
    VrexError
        One cannot be read.
    """
    streams = []
    for path in inputs:
        trace, clip = _trace(path, knobs, out, command)
        stream = Stream(trace)
        clip = clip or packaged_clip(stream)
        stream.motion = _motion(stream, clip)
        streams.append((stream, clip))
    return streams


def _trace(path: Path, knobs: dict[str, Any], out: Path, command: str) -> tuple[Path, Path | None]:
    """A trace, and the clip that it was made of now or in an earlier run."""
    from vrex.trace.maker import Knobs, make_trace

    try:
        with open(path, "rb") as file:
            if file.read(4) == b"PAR1":
                return path, None
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:8]
    except OSError as error:
        raise VrexError(f"{path}: cannot be read ({error.strerror}); give a trace or a clip") from None
    given = {**knobs, "layers": tuple(knobs["layers"])}
    key = hashlib.sha256(repr(sorted(given.items())).encode()).hexdigest()[:8]
    trace = out / f"{path.stem}-{digest}-{key}.parquet"
    if not trace.exists():
        with progress_bar(f"{path.name} to trace", "frames") as bar:
            make_trace(path, trace, Knobs(**given), f"{command} {path.name}", progress=bar)
    return trace, path


def packaged_clip(stream: Stream) -> Path | None:
    """The clip of a trace that was made of a packaged one, if the package is installed."""
    distribution, _, version = str(stream.metadata.made.get("clip_from", "")).partition(" ")
    if not version:
        return None
    try:
        return packaged_file(distribution, str(stream.metadata.made.get("clip"))).path
    except VrexError:
        return None


def _motion(stream: Stream, clip: Path | None) -> npt.NDArray[np.float64] | None:
    """How much moves in each region; where a trace's clip does not tell, the LSTM does without, which is told."""
    name = stream.metadata.made.get("clip")
    if clip is None and name is None:
        return None
    try:
        if clip is None:
            raise VrexError(f"{name} is not at hand")
        return region_motion(clip, stream.frames)
    except VrexError as error:
        tell(f"{stream.path.name}: measured without its clip's motion, which gives other figures: {error}")
        return None
