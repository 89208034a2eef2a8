"""What ``NV_KV_RETRIEVE`` looks like in memory: the request code, the struct, and the C header made from both.

The buffer of a call is one `RETRIEVE` struct (72 bytes, little-endian, every field naturally aligned), followed by one
status byte for each line. `FIELDS` is the only description of it; ``python -m kv_asu_firmware.retrieve_abi`` writes
``include/kv_asu_retrieve.h`` from it.
"""

from __future__ import annotations

import sys
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kv_asu.command_line import Parser

#: Where the C header lives in the source tree.
HEADER_FILE = Path(__file__).parents[1] / "include" / "kv_asu_retrieve.h"

#: The layout described here. A driver refuses any other.
VERSION = 1

#: `patch_row` and `patch_column` of tokens that have no place in a picture.
NO_PATCH = 0xFFFF


class Kind(IntEnum):
    """Values of `kind`."""

    K = 1
    """The tokens' keys."""
    V = 2
    """The tokens' values."""
    BOTH = 3
    """Keys and values."""


class Flag(IntFlag):
    """Bits of `flags`."""

    NO_WAIT = 1
    """Return as soon as the missing lines are queued."""
    PREFETCH = 2
    """Nobody reads the lines yet: touch none, and fetch into the prefetch bank."""
    SPATIAL_BOOST = 4
    """Raise every T-level by one when the patch row was hot in a neighbouring frame."""


class Status(IntFlag):
    """Bits of a line's status byte, as of when the line was asked for; the T-level is in bits 0 and 1."""

    TLEVEL = 0x03
    """T-level, with the boost in it."""
    RESIDENT = 0x04
    """In fast memory: a hit."""
    QUEUED = 0x08
    """Missing and on its way, by this call's DMA or by an earlier one's."""
    TRACKED = 0x10
    """The core has a slot for it."""


class Field(NamedTuple):
    """A field of the struct: its name, its numpy type (little-endian), how many of it, and what it means."""

    name: str
    type: str
    length: int
    meaning: str


FIELDS = (
    Field("version", "u4", 1, "KV_RETRIEVE_VERSION"),
    Field("size", "u4", 1, "bytes of the whole buffer: this struct and the status bytes"),
    Field("stream", "u4", 1, "whose KV cache"),
    Field("layer", "u2", 1, ""),
    Field("head", "u2", 1, "KV head"),
    Field("first_token", "u4", 1, ""),
    Field("token_count", "u4", 1, "at least 1"),
    Field("kind", "u1", 1, "KV_RETRIEVE_K, KV_RETRIEVE_V or KV_RETRIEVE_BOTH"),
    Field("min_tlevel", "u1", 1, "0 to 3: what to keep, and what a prefetch fetches"),
    Field("flags", "u2", 1, "KV_RETRIEVE_NO_WAIT, KV_RETRIEVE_PREFETCH, KV_RETRIEVE_SPATIAL_BOOST"),
    Field("frame", "u4", 1, "the frame the tokens belong to"),
    Field("patch_row", "u2", 1, "their place in it, or KV_RETRIEVE_NO_PATCH"),
    Field("patch_column", "u2", 1, ""),
    Field("lines", "u4", 1, "out: lines asked for, and status bytes written"),
    Field("hits", "u4", 1, "out: lines that were resident"),
    Field("queued", "u4", 1, "out: missing lines on their way"),
    Field("device_time_ns", "u8", 1, "out: from the call to its answer, in the device's time"),
    Field("reserved", "u8", 2, "must be 0"),
)

#: The struct as numpy sees it.
RETRIEVE = np.dtype([(field.name, f"<{field.type}", (field.length,) if field.length > 1 else ()) for field in FIELDS])


def iowr(group: str, number: int, size: int) -> int:
    """The request code that Linux's ``_IOWR(group, number, type)`` makes, as arm64 and x86 encode it.

    Parameters
    ----------
    group : str
        One character, 8 bits.
    number : int
        8 bits.
    size : int
        Bytes of the type, 14 bits.
    """
    read_and_write = 3
    return read_and_write << 30 | size << 16 | ord(group) << 8 | number


NV_KV_RETRIEVE = iowr("K", 1, RETRIEVE.itemsize)


def new_buffer(lines: int, **fields: int) -> bytearray:
    """A buffer to call with.

    Parameters
    ----------
    lines : int
        How many status bytes to leave room for: at least the lines the request covers.
    **fields : int
        Fields of the struct by name. Unless given, `version` and `size` are right, one token's K and V are asked for,
        its place in a picture is `NO_PATCH`, and the rest is 0.

    Raises
    ------
    ValueError
        There is no such field, or its value does not fit in it.
    """
    buffer = bytearray(RETRIEVE.itemsize + lines)
    header = np.frombuffer(buffer, RETRIEVE, count=1)
    usual = {"version": VERSION, "size": len(buffer), "token_count": 1, "kind": Kind.BOTH}
    usual |= {"patch_row": NO_PATCH, "patch_column": NO_PATCH}
    for name, value in (usual | fields).items():
        if RETRIEVE.names is None or name not in RETRIEVE.names:
            raise ValueError(f"struct kv_retrieve has no field {name!r}")
        most = np.iinfo(RETRIEVE[name].base).max
        if not 0 <= value <= most:
            raise ValueError(f"{name} must be 0 to {most}, not {value!r}")
        header[name] = value
    return buffer


def read_reply(buffer: bytes | bytearray) -> tuple[np.void, npt.NDArray[np.uint8]]:
    """The struct of an answered call, and its status bytes: shape (lines,).

    Examples
    --------
    >>> struct, status = read_reply(new_buffer(lines=4, layer=2))
    >>> int(struct["layer"]), int(struct["lines"]), status.shape
    (2, 0, (0,))
    """
    struct: np.void = np.frombuffer(buffer, RETRIEVE, count=1)[0]
    return struct, np.frombuffer(buffer, np.uint8, count=int(struct["lines"]), offset=RETRIEVE.itemsize)


def header() -> str:
    """The C header, for C11 and C++11."""
    members = []
    for field in FIELDS:
        bits = 8 * np.dtype(field.type).itemsize
        array = f"[{field.length}]" if field.length > 1 else ""
        declaration = f"    uint{bits}_t {field.name}{array};"
        members.append(f"{declaration:<32}/* {field.meaning} */" if field.meaning else declaration)
    constants = [
        ("VERSION", f"{VERSION}u"),
        ("NO_PATCH", f"{NO_PATCH:#x}u"),
        *((kind.name, f"{kind.value}u") for kind in Kind),
        *((str(flag.name), f"{flag.value}u") for flag in Flag),
        *((f"STATUS_{name}", f"{bits.value:#04x}u") for name, bits in Status.__members__.items()),
    ]
    offsets = [(field.name, RETRIEVE.fields[field.name][1]) for field in FIELDS if RETRIEVE.fields is not None]
    return "\n".join(
        [
            "/* Generated by `python -m kv_asu_firmware.retrieve_abi`; do not edit. */",
            "/* The buffer of ioctl(fd, NV_KV_RETRIEVE, buffer): a struct kv_retrieve, then one status byte a line. */",
            "",
            "#ifndef KV_ASU_RETRIEVE_H",
            "#define KV_ASU_RETRIEVE_H",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__",
            '#error "struct kv_retrieve is little-endian"',
            "#endif",
            "",
            "#ifdef __cplusplus",
            "#define KV_RETRIEVE_ASSERT(condition) static_assert(condition, #condition)",
            'extern "C" {',
            "#else",
            "#define KV_RETRIEVE_ASSERT(condition) _Static_assert(condition, #condition)",
            "#endif",
            "",
            *(f"#define KV_RETRIEVE_{name} {value}" for name, value in constants),
            "",
            "struct kv_retrieve {",
            *members,
            "};",
            "",
            "/* _IOWR('K', 1, struct kv_retrieve) */",
            f"#define NV_KV_RETRIEVE {NV_KV_RETRIEVE:#010x}u",
            "",
            f"KV_RETRIEVE_ASSERT(sizeof(struct kv_retrieve) == {RETRIEVE.itemsize});",
            *(f"KV_RETRIEVE_ASSERT(offsetof(struct kv_retrieve, {name}) == {offset});" for name, offset in offsets),
            "KV_RETRIEVE_ASSERT((NV_KV_RETRIEVE >> 16 & 0x3fff) == sizeof(struct kv_retrieve));",
            "",
            "/* The status byte of the buffer's first line. */",
            "static inline uint8_t *kv_retrieve_status(struct kv_retrieve *buffer)",
            "{",
            "    return (uint8_t *)(buffer + 1);",
            "}",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif /* KV_ASU_RETRIEVE_H */",
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser("python -m kv_asu_firmware.retrieve_abi", "Write the C header.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the header is stale")
    options = parser.parse_args(arguments)

    def job() -> int:
        if not HEADER_FILE.parent.is_dir():
            print(f"{HEADER_FILE.parent} is not there: run this from a checkout", file=sys.stderr)
            return 1
        if not options.check:
            HEADER_FILE.write_text(header())
            print(f"wrote {HEADER_FILE.name}")
        elif not HEADER_FILE.is_file() or HEADER_FILE.read_text() != header():
            print(f"{HEADER_FILE.name} is stale: run python -m kv_asu_firmware.retrieve_abi", file=sys.stderr)
            return 1
        return 0

    return parser.run(job)


if __name__ == "__main__":
    sys.exit(main())
