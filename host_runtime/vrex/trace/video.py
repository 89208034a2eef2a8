"""Frames of a clip as square RGB pictures, decoded with PyAV."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vrex.trace.format import TraceError
from vrex.trace.packaged import import_extra

if TYPE_CHECKING:
    import av.container
    import av.video

Picture = npt.NDArray[np.uint8]


class Clip:
    """A video file.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    frame_rate : fractions.Fraction
        Frames a second.
    frames : int
        Frames in the file, counted without decoding them.

    Raises
    ------
    TraceError
        The file is missing, is no video, or has no frame rate.
    """

    def __init__(self, path: Path) -> None:
        self._av = import_extra("av")
        self.path = path
        with self._open() as (container, stream):
            rate = stream.average_rate or stream.guessed_rate
            self.frames = sum(packet.size > 0 for packet in container.demux(stream))
        if not rate or not self.frames:
            raise TraceError(f"{path}: its video has no frames or no frame rate; re-encode it, e.g. with ffmpeg -r 30")
        self.frame_rate: Fraction = rate

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[av.container.InputContainer, av.video.VideoStream]]:
        try:
            with self._av.open(str(self.path)) as container:
                if not container.streams.video:
                    raise TraceError(f"{self.path}: holds no video stream; give a clip")
                yield container, container.streams.video[0]
        except FileNotFoundError:
            raise TraceError(f"{self.path}: no such file; give a clip, or none for the packaged bikes.mp4") from None
        except (self._av.FFmpegError, OSError) as error:
            raise TraceError(f"{self.path}: cannot be decoded ({error.strerror}); give one FFmpeg can read") from None

    def pictures(self, size: int, count: int) -> Iterator[Picture]:
        """The first `count` frames, each scaled to `size` on its short side and cut to the square in its middle.

        Yields
        ------
        numpy.ndarray of uint8, shape (size, size, 3)
            RGB.
        """
        with self._open() as (container, stream):
            for index, frame in enumerate(container.decode(stream)):
                if index == count:
                    return
                yield middle_square(frame, size)


def middle_square(frame: av.VideoFrame, size: int) -> Picture:
    """A frame scaled to `size` on its short side and cut to the square in its middle, in RGB."""
    short = min(frame.width, frame.height)
    scaled = np.asarray(
        frame.reformat(
            width=round(frame.width * size / short),
            height=round(frame.height * size / short),
            format="rgb24",
            interpolation="BICUBIC",
        ).to_ndarray(),
        np.uint8,
    )
    top, left = (scaled.shape[0] - size) // 2, (scaled.shape[1] - size) // 2
    return scaled[top : top + size, left : left + size]
