"""Clips made of noise that moves as told, coded as MPEG-4 part 2, which every build of PyAV can do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt


def write_clip(path: Path, pictures: Iterable[npt.NDArray[np.uint8]], rate: int = 25, codec: str = "mpeg4") -> Path:
    import av

    with av.open(str(path), "w") as container:
        stream = None
        for picture in pictures:
            if stream is None:
                stream = container.add_stream(codec, rate=rate)
                stream.height, stream.width = picture.shape[:2]  # type: ignore[union-attr]
                stream.pix_fmt = "yuv420p"  # type: ignore[union-attr]
                stream.bit_rate = 4_000_000  # type: ignore[union-attr]
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            container.mux(stream.encode(frame))  # type: ignore[union-attr, arg-type]
        if stream is not None:
            container.mux(stream.encode())  # type: ignore[union-attr]
    return path


def scene(seed: int, size: int = 400) -> npt.NDArray[np.uint8]:
    """Blurred noise: something to hold on to for whoever looks for motion."""
    noise = np.random.default_rng(seed).random((size, size))
    for _ in range(6):
        noise = (noise + np.roll(noise, 1, 0) + np.roll(noise, 1, 1) + np.roll(noise, (1, 1), (0, 1))) / 4
    noise = (noise - noise.min()) / (noise.max() - noise.min())
    return np.repeat((255 * noise).astype(np.uint8)[:, :, np.newaxis], 3, axis=2)


def window(picture: npt.NDArray[np.uint8], top: int, left: int) -> npt.NDArray[np.uint8]:
    """144 rows and 256 columns of it."""
    return np.ascontiguousarray(picture[top : top + 144, left : left + 256])
