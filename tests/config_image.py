"""A transport over bytes, for config spaces that no device would have."""

from __future__ import annotations

from collections.abc import Callable

from kv_asu.params import Params
from kv_asu_firmware.device import Device
from vrex.transports.base import CONFIG_BYTES, Transport


class ConfigImage(Transport):
    """Config space as bytes that anything may be written to; time passes only in `pause`, a second each.

    Attributes
    ----------
    data : bytearray
    before_read : callable
        Called with the offset before each read.
    """

    name = "image"

    def __init__(self, data: bytes = bytes(CONFIG_BYTES)) -> None:
        self.data = bytearray(data)
        self.before_read: Callable[[int], object] = lambda offset: None
        self.closed = False
        self._time = 0.0

    @classmethod
    def of(cls, params: Params | None = None) -> ConfigImage:
        """What a device model reads."""
        device = Device(params or Params())
        return cls(b"".join(device.read(offset, 4).to_bytes(4, "little") for offset in range(0, CONFIG_BYTES, 4)))

    def put(self, offset: int, value: int, size: int = 4) -> None:
        self.data[offset : offset + size] = value.to_bytes(size, "little")

    def vsec(self, offset: int, *, vsec_id: int = 0x4B56, magic: int = 0x4B56, major: int = 1, minor: int = 0,
             following: int = 0) -> None:  # fmt: skip
        """A vendor-specific capability like the core's."""
        self.put(offset, 0x000B | 1 << 16 | following << 20)
        self.put(offset + 4, vsec_id | 1 << 16 | 0x80 << 20)
        self.put(offset + 16, magic << 16 | major << 8 | minor)

    def vanish(self) -> None:
        """What is left of a device that was pulled out."""
        self.data[:] = b"\xff" * len(self.data)

    def __str__(self) -> str:
        return "the image"

    def _read(self, offset: int, size: int) -> int:
        self.before_read(offset)
        return int.from_bytes(self.data[offset : offset + size], "little")

    def _write(self, offset: int, value: int, size: int) -> None:
        self.put(offset, value, size)

    def now(self) -> float:
        return self._time

    def pause(self) -> None:
        self._time += 1

    def close(self) -> None:
        self.closed = True
