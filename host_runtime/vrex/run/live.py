"""Frames that nobody has traced, as they come: raw YUV on a pipe, or a camera.

    frame -> middle square -> ViT queries, keys, values -> keys and values into the cache, tiles read from it

What `vrex trace make` would write and `Replay` would play happens at once, frame by frame, and with the model's own
keys and values. Memory is bounded by the longest stream; frames are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from vrex.errors import VrexError
from vrex.run.replay import Shape, checked_read, prefetch_following
from vrex.runtime.cache import DynamicRetrievalCache
from vrex.runtime.metrics import FrameMetrics
from vrex.trace.address_map import LINE_BYTES, AddressMap
from vrex.trace.maker import Knobs, chosen_tokens
from vrex.trace.packaged import import_extra
from vrex.trace.timing import ORIN_NX, PacedClock
from vrex.trace.video import Picture, middle_square
from vrex.trace.vit import PICTURE_SIZE, VIT_S14, VIT_S14_GRID, HalfArray

#: Tokens of the longest stream where nothing says how long it gets: 127 frames.
USUAL_TOKENS = 1 << 15

#: FFmpeg's name of Linux cameras.
CAMERA_FORMAT = "v4l2"

#: Of raw frames, in pixels.
_MOST_SIDE = 1 << 14
_MOST_RATE = 1000


class AttentionInputs(Protocol):
    """What gives a picture's queries, keys and values: see `QueryKeyModel.attention_inputs`."""

    def attention_inputs(self, picture: Picture) -> tuple[HalfArray, HalfArray, HalfArray]:
        """Each of shape (layers, heads, tokens, head size)."""
        ...


@dataclass(frozen=True)
class RawVideo:
    """How raw frames lie in a byte stream: planar 4:2:0, Y then U then V (I420, FFmpeg's yuv420p).

    Parameters
    ----------
    width, height : int
        In pixels, even.
    rate : fractions.Fraction
        Frames a second.
    """

    width: int
    height: int
    rate: Fraction

    @classmethod
    def parse(cls, text: str) -> RawVideo:
        """Read "640x360@24"; the rate may be 29.97 or 30000/1001, too.

        Raises
        ------
        ValueError
            It is of another form, or a number is out of range.
        """
        match = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})@([0-9]{1,9}(?:\.[0-9]{1,9}|/[0-9]{1,9})?)", text)
        if not match:
            raise ValueError(f"{text!r} is not of the form WIDTHxHEIGHT@RATE, like 640x360@24")
        width, height = int(match[1]), int(match[2])
        for name, side in (("width", width), ("height", height)):
            if side % 2 or not 2 <= side <= _MOST_SIDE:
                raise ValueError(f"{name} must be even, 2 to {_MOST_SIDE}, not {side}")
        try:
            rate = Fraction(match[3])
        except ZeroDivisionError:
            rate = Fraction(0)
        if not 0 < rate <= _MOST_RATE:
            raise ValueError(f"the rate must be over 0 and at most {_MOST_RATE} frames a second, not {match[3]}")
        return cls(width, height, rate)

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame."""
        return self.width * self.height * 3 // 2

    def pictures(self, file: BinaryIO) -> Iterator[Picture]:
        """The frames' middle squares, until the stream ends.

        Raises
        ------
        VrexError
            The stream ends inside a frame: what came before it has been given.
        """
        av = import_extra("av")
        count = 0
        while len(data := file.read(self.frame_bytes)) == self.frame_bytes:
            planes = np.frombuffer(data, np.uint8).reshape(self.height * 3 // 2, self.width)
            yield middle_square(av.VideoFrame.from_ndarray(planes, format="yuv420p"), PICTURE_SIZE)
            count += 1
        if data or not count:
            raise VrexError(
                f"standard input ended {len(data):,} bytes into frame {count}, which has {self.frame_bytes:,}: "
                f"is it {self.width}x{self.height} in yuv420p, and whole?"
            )


class Camera:
    """A camera, through FFmpeg.

    Parameters
    ----------
    device : Path
        Like /dev/video0.

    Attributes
    ----------
    rate : fractions.Fraction
        Frames a second, as it says.

    Raises
    ------
    VrexError
        It is not there, is no camera, may not be read, or is in use.
    """

    def __init__(self, device: Path) -> None:
        self._av = import_extra("av")
        self._device = device
        try:
            self._container = self._av.open(str(device), format=CAMERA_FORMAT)
        except FileNotFoundError:
            raise VrexError(f"{device}: no such camera; 'ls /dev/video*' shows those that there are") from None
        except PermissionError:
            raise VrexError(f"{device}: may not be read; join the group video, or run as root") from None
        except (self._av.FFmpegError, OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
            raise VrexError(f"{device}: cannot be opened as a camera ({reason}); perhaps it is in use") from None
        self._stream = self._container.streams.video[0]
        self.rate = Fraction(self._stream.average_rate or self._stream.guessed_rate or 30)

    def pictures(self) -> Iterator[Picture]:
        """The frames' middle squares, as they come. Those that come while one is worked on are the driver's to drop.

        Raises
        ------
        VrexError
            The camera has gone.
        """
        count = 0
        try:
            for frame in self._container.decode(self._stream):
                yield middle_square(frame, PICTURE_SIZE)
                count += 1
        except (self._av.FFmpegError, OSError) as error:
            raise VrexError(
                f"{self._device}: the camera has gone after {count} frames ({error.strerror}); connect it again"
            ) from None
        finally:
            self._container.close()


def shape(layers: tuple[int, ...], rate: Fraction, tokens: int) -> Shape:
    """Of a cache for so many tokens of live frames.

    How many lines a frame will ask for is not known; by its end a stream asks for about as many as it has.
    """
    kv = AddressMap(len(layers), VIT_S14.heads, VIT_S14.head_size, max_tokens=tokens)
    lines = kv.stream_bytes // LINE_BYTES
    tiles = -(-VIT_S14_GRID.tokens_per_frame // Knobs.tile)
    return Shape(kv, lines, lines, max(1, round(1e9 / rate)), tiles, VIT_S14_GRID)


class Live:
    """One run; read as `vrex.run.replay.Replay` is.

    Parameters
    ----------
    pictures : iterable of numpy.ndarray
        Middle squares of frames.
    model : AttentionInputs
        Gives queries, keys and values of the layers.
    layers : tuple of int
    rate : fractions.Fraction
        Frames a second.
    cache : DynamicRetrievalCache
        New, of the `shape` above.
    min_tlevel : int
    prefetch : bool

    Attributes
    ----------
    cache : DynamicRetrievalCache
    lines : int
        Lines read so far.
    reads_per_frame : int
        Lines that a frame has asked for at most.
    """

    def __init__(
        self,
        pictures: Iterable[Picture],
        model: AttentionInputs,
        layers: tuple[int, ...],
        rate: Fraction,
        cache: DynamicRetrievalCache,
        min_tlevel: int,
        prefetch: bool,
    ) -> None:
        self._pictures = pictures
        self._model = model
        self._layers = layers
        self._clock = PacedClock(ORIN_NX, VIT_S14, rate)
        self.cache = cache
        self._min_tlevel = min_tlevel
        self._prefetch = prefetch
        self.lines = self.reads_per_frame = 0
        kv = cache.kv
        # What was written, to choose by and to check against; the system gives pages when they are written to.
        self._keys, self._values = (
            np.zeros((kv.layers, kv.heads, kv.max_tokens, kv.head_size), np.float16) for _ in range(2)
        )

    def run(self) -> Iterator[FrameMetrics]:
        """Run until the frames end, and give each frame's figures when it is over.

        Raises
        ------
        VrexError
            The frames end badly; near memory or the longest stream is too small; the device has gone; or data came
            back changed.
        """
        for number, picture in enumerate(self._pictures):
            self._clock.start_frame(number)
            queries, keys, values = self._model.attention_inputs(picture)
            for layer in range(VIT_S14.layers):
                self._clock.run_dense(queries.shape[2])
                if layer in self._layers:
                    row = self._layers.index(layer)
                    self._attend(row, queries[row], keys[row], values[row])
            self.reads_per_frame = max(self.reads_per_frame, self.cache.frame.lines)
            yield self.cache.end_frame()

    def _attend(self, row: int, queries: HalfArray, keys: HalfArray, values: HalfArray) -> None:
        """A layer writes its new KV, and reads what its tiles choose."""
        cache, clock = self.cache, self._clock
        cache.pass_time(clock.now_ns - cache.now_ns)
        cache.append(row, keys, values)
        tokens = cache.tokens(row)
        self._keys[row, :, tokens - keys.shape[1] : tokens] = keys
        self._values[row, :, tokens - keys.shape[1] : tokens] = values
        for head in range(cache.kv.heads):
            past = self._keys[row, head, :tokens].astype(np.float32)
            for first in range(0, queries.shape[1], Knobs.tile):
                asking = queries[head, first : first + Knobs.tile].astype(np.float32)
                read = chosen_tokens(asking, past, Knobs.share)
                times = clock.read_tile(len(asking), len(read), len(read))
                cache.pass_time(int(times[0]) - cache.now_ns)
                if self._prefetch and not first:
                    prefetch_following(cache, row, head, self._min_tlevel)
                written = self._keys[row, head, read], self._values[row, head, read]
                checked_read(cache, row, head, read, written, self._min_tlevel)
                self.lines += len(read)
