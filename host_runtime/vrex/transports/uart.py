"""The `uart` transport: a board with the core behind a serial line (docs/board.md).

Frames have a check and a sequence number. What is not answered in time, or not soundly, is sent again under the same
number, and the board does no number twice: an access is done once or, if the line fails for good, reported as an error.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import time
from typing import TYPE_CHECKING

import serial

from kv_asu.board import protocol
from kv_asu.board.protocol import Code, Flag, Kind
from vrex.errors import DeviceAccessError, DeviceBusyError, DeviceGoneError, DeviceNotFoundError, VrexError
from vrex.transports.base import Transport

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

PORT = "/dev/ttyUSB0"
BAUDRATE = 1_000_000

_PAUSE_SECONDS = 1e-3

#: Whatever the board takes for the rest of a frame that came in pieces; no byte of it begins one.
_FILLER = bytes(protocol.REQUEST_BYTES - 1)


class UartTransport(Transport):
    """A board's serial port, taken for oneself until `close`.

    Parameters
    ----------
    port : str
        The serial port; whatever pyserial takes, ``socket://host:port`` included.
    baudrate : int
        Bits a second.
    timeout : float
        Seconds to wait for an answer before it is asked for again.
    attempts : int
        How often to ask.

    Attributes
    ----------
    clock_khz : int
        The core's clock.
    depth : int
        Places of the trace memory.

    Raises
    ------
    DeviceNotFoundError
        There is no such port, or no KV-ASU board at it.
    DeviceAccessError
        It may not be opened.
    DeviceBusyError
        Another process has it.
    """

    name = "uart"
    patience = 2.0

    def __init__(self, port: str = PORT, *, baudrate: int = BAUDRATE, timeout: float = 0.25, attempts: int = 8) -> None:
        if not isinstance(port, str):
            raise TypeError(f"port must be the name of a serial port, like {PORT}, not {port!r}")
        self.port = port
        self._timeout = timeout
        self._attempts = attempts
        self._irq = False
        self._serial = self._open(baudrate)
        self._sequence = secrets.randbits(8)
        try:
            hello = self._exchange(Kind.HELLO)
            magic, version, log2_depth, self.clock_khz = protocol.HELLO_DATA.unpack_from(hello)
            if magic != protocol.MAGIC:
                raise DeviceNotFoundError(f"{port}: what answers is no KV-ASU board; name its port (port=, or --port)")
            if version != protocol.VERSION:
                raise DeviceNotFoundError(
                    f"{port}: the board speaks version {version} of the serial protocol, this program version "
                    f"{protocol.VERSION}; build the board with the vrex release that is installed"
                )
        except DeviceGoneError:
            self.close()
            raise DeviceNotFoundError(
                f"{port}: nothing answers at {baudrate} baud; is it the board's port, and the board programmed? "
                "name another (port=, or --port)"
            ) from None
        except BaseException:
            self.close()
            raise
        self.depth = 1 << log2_depth

    def __str__(self) -> str:
        return f"the board at {self.port}"

    @property
    def irq(self) -> bool:
        """The ``irq`` pin at the last answer."""
        return self._irq

    def now(self) -> float:
        return time.monotonic()

    def pause(self) -> None:
        time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        self._serial.close()

    def replay(self, addresses: ArrayLike) -> NDArray[np.void]:
        """Have the board present memory requests, one a clock of the core.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses; as many as `depth` at most.

        Returns
        -------
        ndarray, shape (n,), dtype kv_asu_firmware.ports.TAG
            Their answers, in order, as the core's pins gave them.

        Raises
        ------
        TypeError, ValueError
            They are no one-dimensional array of unsigned integers, too many, or too wide.
        VrexError
            The board cannot be reached.
        """
        import numpy as np

        from kv_asu.params import Params
        from kv_asu_firmware.ports import TAG, address_array
        from vrex.capabilities import find_kv_asu
        from vrex.registers import Params as BuiltWith

        width = BuiltWith(self.read(find_kv_asu(self) + BuiltWith.OFFSET, 4)).addr_width
        lines = address_array(addresses, Params(addr_width=width))
        if len(lines) > self.depth:
            raise ValueError(f"at most {self.depth} addresses fit the board's trace memory, not {len(lines)}")
        for index, line in enumerate(lines.tolist()):
            self._exchange(Kind.STORE, index, data=line)
        self._exchange(Kind.REPLAY, len(lines))
        tags = np.zeros(len(lines), TAG)
        for index in range(len(lines)):
            tags[index] = _tag(self._exchange(Kind.FETCH, index))
        return tags

    def _read(self, offset: int, size: int) -> int:
        dword = int.from_bytes(self._exchange(Kind.READ, offset // 4)[:4], "little")
        return dword >> 8 * (offset % 4) & (1 << 8 * size) - 1

    def _write(self, offset: int, value: int, size: int) -> None:
        byte = offset % 4
        self._exchange(Kind.WRITE, offset // 4, enable=(1 << size) - 1 << byte, data=value << 8 * byte)

    def _open(self, baudrate: int) -> serial.SerialBase:
        try:
            opened = serial.serial_for_url(self.port, baudrate, timeout=self._timeout, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            raise self._failure(error) from None
        if hasattr(opened, "set_low_latency_mode"):
            # A USB adapter otherwise waits 16 ms for more before it hands an answer over; others have no such thing.
            with contextlib.suppress(OSError, ValueError):
                opened.set_low_latency_mode(True)
        return opened

    def _failure(self, error: Exception) -> VrexError:
        number = getattr(error, "errno", None)
        if number == errno.ENOENT:
            return DeviceNotFoundError(f"{self.port}: no such port; name the board's (port=, or --port)")
        if number in (errno.EACCES, errno.EPERM):
            return DeviceAccessError(f"{self.port}: may not be opened by this user; join the group that owns it")
        if number in (errno.EAGAIN, errno.EBUSY):
            return DeviceBusyError(f"{self.port}: another process has this port; wait until it has ended")
        text = " ".join(str(error).split())
        return DeviceAccessError(
            f"{self.port}: cannot be opened as a serial port ({text}); name another (port=, or --port)"
        )

    def _exchange(self, kind: Kind, index: int = 0, *, enable: int = 0, data: int = 0) -> bytes:
        """Ask until there is a sound answer; its data.

        Raises
        ------
        DeviceGoneError
            There is none.
        """
        if not self._serial.is_open:
            raise ValueError(f"{self}: this transport is closed")
        self._sequence = (self._sequence + 1) % 256
        frame = protocol.request(kind, self._sequence, index, enable, data)
        try:
            for attempt in range(self._attempts):
                # A frame that lost bytes takes those that follow for its own.
                self._serial.write(frame if attempt == 0 else _FILLER + frame)
                answer = self._answer()
                if answer is not None:
                    break
            else:
                raise DeviceGoneError(
                    f"{self}: {self._attempts} times no sound answer; check cable and power, or open it anew"
                )
        except OSError as error:
            raise DeviceGoneError(f"{self}: the port has gone ({error.strerror or error}); plug it in again") from None
        code, _, result = protocol.ANSWER.unpack(answer)
        self._irq = bool(code & protocol.IRQ)
        if code & ~protocol.IRQ != Code.OK:
            raise VrexError(
                f"{self}: refused {kind.name} {index} ({Code(code & ~protocol.IRQ).name}); "
                "build the board with the vrex release that is installed"
            )
        return bytes(result)

    def _answer(self) -> bytes | None:
        """The next sound answer to the present request, or None when time is up; anything else is passed over."""
        deadline = time.monotonic() + self._timeout
        heard = bytearray()
        while (left := deadline - time.monotonic()) > 0:
            self._serial.timeout = left
            heard += self._serial.read(max(1, min(self._serial.in_waiting, protocol.ANSWER_BYTES)))
            for begin in _places(heard):
                body = bytes(heard[begin + 1 : begin + protocol.ANSWER_BYTES])
                body, check = body[: protocol.ANSWER.size], body[protocol.ANSWER.size :]
                if len(check) == protocol.CRC_BYTES and protocol.crc(body) == check and body[1] == self._sequence:
                    return body
        return None


def _places(heard: bytearray) -> list[int]:
    """Where an answer may begin."""
    return [place for place, byte in enumerate(heard) if byte == protocol.ANSWER_SYNC]


def _tag(answer: bytes) -> tuple[int, ...]:
    """A captured answer in the order of `kv_asu_firmware.ports.TAG`."""
    flags, levels, count, slot, stamp, line, spilled = protocol.TAG_DATA.unpack_from(answer)
    return (
        int.from_bytes(line, "little"),
        bool(flags & Flag.TRACKED),
        bool(flags & Flag.HIT),
        levels & 3,
        levels >> 2 & 3,
        count,
        slot,
        stamp,
        bool(flags & Flag.SPILL),
        int.from_bytes(spilled, "little"),
    )
