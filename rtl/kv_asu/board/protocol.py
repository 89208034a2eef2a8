"""What goes over the serial line (docs/board.md): layout of the frames. Gateware and host take it from here.

A request is `REQUEST_BYTES` long and begins with `REQUEST_SYNC`; an answer `ANSWER_BYTES` with `ANSWER_SYNC`. Both end
with a CRC-16 (IBM-3740, high byte first) of everything between. Numbers are little endian.
"""

from __future__ import annotations

import struct
from binascii import crc_hqx
from enum import IntEnum

REQUEST_SYNC = 0xA5
ANSWER_SYNC = 0x5A

#: kind, sequence number, index, byte enable, data
REQUEST = struct.Struct("<BBHBQ")
#: code and irq, sequence number, data
ANSWER = struct.Struct("<BB24s")

CRC_BYTES = 2
REQUEST_BYTES = 1 + REQUEST.size + CRC_BYTES
ANSWER_BYTES = 1 + ANSWER.size + CRC_BYTES
ANSWER_DATA_BYTES = 24

#: What HELLO's data begins with: magic, version, log2 of the trace memory's places, core clock in kHz.
HELLO_DATA = struct.Struct("<4sBBI")
MAGIC = b"KVAS"
VERSION = 1

IRQ = 0x80

#: A captured answer: flags as in `Flag`, before | after << 2, count, slot, stamp, line, spilled line.
TAG_DATA = struct.Struct("<BBHHH7s7s")


class Kind(IntEnum):
    """What a request asks for."""

    HELLO = 0
    READ = 1
    WRITE = 2
    STORE = 3
    REPLAY = 4
    FETCH = 5


class Code(IntEnum):
    """How it went."""

    OK = 0
    UNKNOWN = 1  # no such kind
    RANGE = 2  # no such index


class Flag(IntEnum):
    """Bits of a captured answer."""

    TRACKED = 1
    HIT = 2
    SPILL = 4


def crc(data: bytes) -> bytes:
    """The check behind some bytes."""
    return crc_hqx(data, 0xFFFF).to_bytes(CRC_BYTES, "big")


def request(kind: int, sequence: int, index: int = 0, enable: int = 0, data: int = 0) -> bytes:
    """A request, ready to be sent."""
    body = REQUEST.pack(kind, sequence, index, enable, data)
    return bytes([REQUEST_SYNC]) + body + crc(body)
