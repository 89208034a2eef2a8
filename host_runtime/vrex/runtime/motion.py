"""How much moves where: the motion vectors that a video's coder has already found, read with PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vrex.errors import VrexError
from vrex.trace.packaged import import_extra

#: Magnitudes are in pixels of a picture so high, so that clips of different sizes compare.
HEIGHT = 1080

#: Rows and columns of the small pictures.
SMALL = (72, 128)

#: Regions of a frame's middle square, down and across.
REGIONS = (4, 4)

Vectors = npt.NDArray[np.float64]


class MotionError(VrexError):
    """A video has no motion to be read."""


class FrameMotion(NamedTuple):
    """What moved between a frame and those before it.

    `width` and `height` are the frame's, in pixels: they may change in mid-stream. `vectors`, shape (n, 4), are each
    block's middle (x, y in pixels) and how far it moved across and down, in pixels at `HEIGHT`; a frame that is coded
    without others has none. `picture`, of shape `SMALL`, is the frame itself, small and grey, 0 to 255.
    """

    width: int
    height: int
    vectors: Vectors
    picture: npt.NDArray[np.uint8]


def motion_vectors(path: Path, frames: int | None = None) -> Iterator[FrameMotion]:
    """The motion vectors of each frame; the first has none.

    Parameters
    ----------
    path : Path
    frames : int, optional
        Frames from the clip's start; all unless given.

    Raises
    ------
    MotionError
        The clip cannot be decoded, has no second frame, or its coder gives no motion vectors at all (VP8, VP9, AV1).
    """
    av: Any = import_extra("av")
    seen = count = 0
    codec = ""
    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise MotionError(f"{path}: holds no video stream; give a clip")
            stream = container.streams.video[0]
            stream.codec_context.options = {"flags2": "+export_mvs"}
            codec = stream.codec_context.name
            for count, frame in enumerate(container.decode(stream)):
                if count == frames:
                    break
                found = [data for data in frame.side_data if data.type.name == "MOTION_VECTORS"]
                raw = found[0].to_ndarray() if found else None
                seen += 0 if raw is None else len(raw)
                small = frame.reformat(width=SMALL[1], height=SMALL[0], format="gray").to_ndarray()
                yield FrameMotion(frame.width, frame.height, _vectors(raw, frame.height), np.asarray(small, np.uint8))
    except FileNotFoundError:
        raise MotionError(f"{path}: no such file; give a clip") from None
    except (av.FFmpegError, OSError) as error:
        raise MotionError(f"{path}: cannot be decoded ({error.strerror}); give a clip that FFmpeg can read") from None
    if count == 0:
        raise MotionError(f"{path}: has a single frame, so nothing moves; give a clip")
    if not seen:
        raise MotionError(
            f"{path}: its coder, {codec}, gives no motion vectors; re-encode it as H.264, e.g. ffmpeg -i "
            f"{path.name} -c:v libx264 out.mp4, or choose a --preset"
        )


def region_motion(path: Path, frames: int | None = None, regions: tuple[int, int] = REGIONS) -> Vectors:
    """Mean magnitude of motion in each region of a frame's middle square, the part that is traced.

    Returns
    -------
    numpy.ndarray of float, shape (frames, rows * columns)
        In pixels at `HEIGHT`; 0 for the first frame, and where nothing was coded by reference.

    Raises
    ------
    MotionError
        As for `motion_vectors`.
    """
    rows, columns = regions
    field = []
    for width, height, vectors, _ in motion_vectors(path, frames):
        side = min(width, height)
        x = (vectors[:, 0] - (width - side) / 2) / side
        y = (vectors[:, 1] - (height - side) / 2) / side
        inside = (x >= 0) & (x < 1) & (y >= 0) & (y < 1)
        region = (y[inside] * rows).astype(np.int64) * columns + (x[inside] * columns).astype(np.int64)
        magnitude = np.hypot(vectors[inside, 2], vectors[inside, 3])
        blocks = np.bincount(region, minlength=rows * columns)
        field.append(np.bincount(region, magnitude, rows * columns) / np.maximum(blocks, 1))
    return np.array(field)


def _vectors(raw: npt.NDArray[np.void] | None, height: int) -> Vectors:
    if raw is None:
        return np.zeros((0, 4))
    scale = HEIGHT / height / np.maximum(raw["motion_scale"].astype(np.float64), 1)
    return np.stack([raw["dst_x"], raw["dst_y"], raw["motion_x"] * scale, raw["motion_y"] * scale], axis=1)
