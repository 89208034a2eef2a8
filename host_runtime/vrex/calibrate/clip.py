"""What a clip's motion says about thresholds and prefetching."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vrex.runtime.motion import HEIGHT, motion_vectors
from vrex.trace.format import Progress, no_progress

Picture = npt.NDArray[np.float64]

#: The source's presets: T3.count and T2.count.
PRESETS = {"1080p": (5, 3), "720p": (3, 2)}

#: The camera jerks by more than this, in pixels at 1080p: shaky.
SHAKE = 4.0
#: Frames over which the camera's own path is smoothed to tell a jerk from a pan.
PATH_FRAMES = 9

#: A frame is still when its picture differs by less than this grey level on average, a cut when by more.
STILL, CUT = 0.7, 12.0
#: Slide-like: so many frames are still, and so few are neither still nor a cut.
SLIDES_STILL, SLIDES_MOVING = 0.8, 0.05


@dataclass(frozen=True)
class ClipMotion:
    """What was found.

    Parameters
    ----------
    frames : int
    deviation : float
        Standard deviation of the motion vectors' magnitudes, in pixels at 1080p.
    shake : float
        How far the camera's step from frame to frame is from its usual step around that time, in pixels at 1080p; the
        median.
    still, cuts : float
        Shares of the frames.
    """

    frames: int
    deviation: float
    shake: float
    still: float
    cuts: float

    @property
    def t3_count(self) -> int:
        """T3.COUNT: 3 at a deviation of 8."""
        return max(1, math.floor(5 * self.deviation / 15 + 0.5))

    @property
    def t2_count(self) -> int:
        """T2.COUNT, as the source's presets have it."""
        return max(1, self.t3_count - 1 if self.t3_count <= 3 else 3)

    @property
    def shaky(self) -> bool:
        """Whether the camera shakes."""
        return self.shake > SHAKE

    @property
    def slides(self) -> bool:
        """Whether it is a show of stills."""
        return self.cuts > 0 and self.still >= SLIDES_STILL and 1 - self.still - self.cuts <= SLIDES_MOVING

    def warnings(self, name: str) -> list[str]:
        """What to do about it, one line each."""
        found = []
        if self.shaky:
            found.append(
                f"shaky footage ({self.shake:.1f} px a frame): T-levels follow the camera, not the scene; stabilise "
                f"it, e.g. ffmpeg -i {name} -vf deshake stable.mp4"
            )
        if self.slides:
            found.append(
                f"slide-like footage ({self.still:.0%} of the frames are still, the others cuts): what was read before "
                "a cut says nothing about after it; run with --kv-prefetch-disable"
            )
        return found


def measure_clip(path: Path, frames: int | None = None, progress: Progress = no_progress) -> ClipMotion:
    """Measure a clip's motion.

    Parameters
    ----------
    path : Path
    frames : int, optional
        From its start; all unless given.
    progress : callable
        Told the frames done.

    Raises
    ------
    MotionError
        It has no motion to be read; the text says why.
    """
    count = 0
    blocks, total, squares = 0, 0.0, 0.0
    camera: list[Picture] = []
    changes: list[float] = []
    before: Picture | None = None
    for frame in motion_vectors(path, frames):
        count += 1
        magnitude = np.hypot(frame.vectors[:, 2], frame.vectors[:, 3])
        blocks += len(magnitude)
        total += float(magnitude.sum())
        squares += float((magnitude**2).sum())
        picture = frame.picture.astype(np.float64)
        if before is not None:
            changes.append(float(np.abs(picture - before).mean()))
            camera.append(picture_shift(before, picture))
        before = picture
        progress(count, frames)
    mean = total / max(blocks, 1)
    changed = np.array(changes or [0.0])
    return ClipMotion(
        frames=count,
        deviation=math.sqrt(max(squares / max(blocks, 1) - mean**2, 0.0)),
        shake=_shake(np.array(camera).reshape(-1, 2)),
        still=float((changed < STILL).mean()),
        cuts=float((changed > CUT).mean()),
    )


def picture_shift(before: Picture, after: Picture) -> Picture:
    """How far a picture has moved, by phase correlation, to a fraction of a pixel.

    The coder's motion vectors do not tell it: they do not say how many frames lie between.

    Returns
    -------
    numpy.ndarray, shape (2,)
        Down and across, in pixels at `HEIGHT`.
    """
    window = np.outer(np.hanning(before.shape[0]), np.hanning(before.shape[1]))
    spectrum = np.fft.rfft2((after - after.mean()) * window) * np.conj(np.fft.rfft2((before - before.mean()) * window))
    peaks = np.fft.irfft2(spectrum / (np.abs(spectrum) + 1e-3), before.shape)
    top = np.unravel_index(int(np.argmax(peaks)), peaks.shape)
    shift = [_fine_peak(np.take(peaks, top[1 - axis], axis=1 - axis), int(top[axis])) for axis in (0, 1)]
    return np.array(shift) * HEIGHT / before.shape[0]


def _fine_peak(values: Picture, top: int) -> float:
    """Where a parabola through the peak and its neighbours is highest, the far half counted as negative."""
    left, middle, right = values[top - 1], values[top], values[(top + 1) % len(values)]
    bend = left - 2 * middle + right
    fine = top + (0.5 * (left - right) / bend if bend else 0.0)
    return float(fine - len(values) if fine > len(values) / 2 else fine)


def _shake(camera: Picture) -> float:
    if len(camera) < PATH_FRAMES:
        return 0.0
    # The median keeps a cut, at which no shift means anything, out of the path and out of the result.
    windows = np.lib.stride_tricks.sliding_window_view(camera, PATH_FRAMES, axis=0)
    path = np.median(windows, axis=-1)
    middle = PATH_FRAMES // 2
    jerks = camera[middle : middle + len(path)] - path
    return float(np.median(np.hypot(jerks[:, 0], jerks[:, 1])))
