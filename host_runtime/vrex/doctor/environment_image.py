"""The boot loader's variables as U-Boot stores them, and as ``fw_printenv`` prints them.

``fw_env.config`` names one place, or two: device, offset (negative: from the end) and size in bytes. Each starts with a
CRC-32 of the strings; with two places a byte of flags comes next, which counts up with every write and so tells the
newer copy. The strings are ``name=value``, each ended by a zero byte; an empty one ends them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from vrex.doctor.tree import Malformed, Tree, quoted

_CRC_BYTES = 4
_FLAG_BYTES = 1
_SMALLEST, _LARGEST = 16, 16 << 20


@dataclass(frozen=True)
class Place:
    """Where a copy of the variables lies."""

    device: str
    offset: int
    size: int


def places(config: str, source: str) -> list[Place]:
    """Read the text of ``fw_env.config``.

    Raises
    ------
    Malformed
        It names no place, more than two, or something that is none.
    """
    found = []
    for line in config.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            place = Place(words[0], int(words[1], 0), int(words[2], 16))
        except (IndexError, ValueError):
            raise Malformed(source, f"{quoted(line)} is not device, offset and size") from None
        if not place.device.startswith("/") or not _SMALLEST <= place.size <= _LARGEST or abs(place.offset) >> 62:
            raise Malformed(source, f"{quoted(line)} is not device, offset and size")
        found.append(place)
    if not 1 <= len(found) <= 2:
        raise Malformed(source, f"one place or two are expected, not {len(found)}")
    return found


def newest(copies: list[bytes]) -> bytes | None:
    """The strings of the newest copy whose checksum is right; None when none is.

    Parameters
    ----------
    copies : list of bytes
        As they lie in their places, one or two.
    """
    header = _CRC_BYTES + (_FLAG_BYTES if len(copies) == 2 else 0)
    good = [
        copy
        for copy in copies
        if len(copy) > header and int.from_bytes(copy[:_CRC_BYTES], "little") == zlib.crc32(copy[header:])
    ]
    if not good:
        return None
    if len(good) == 2:
        first, second = (copy[_CRC_BYTES] for copy in good)
        # 0 follows 255. The first copy counts when both are equally new.
        if (second > first and (first, second) != (0, 255)) or (first, second) == (255, 0):
            good.reverse()
    return good[0][header:]


def image_variables(tree: Tree, config: str) -> tuple[dict[str, str], str]:
    """Read the variables from where ``fw_env.config`` says they are.

    Parameters
    ----------
    tree : Tree
    config : str
        The path of ``fw_env.config``.

    Returns
    -------
    dict of str to str
    str
        The places they were read from.

    Raises
    ------
    Undecided
        A file is missing, unreadable or malformed.
    """
    found = places(tree.text(config), config)
    source = " and ".join(f"{place.device} at {place.offset:#x}" for place in found)
    strings = newest([tree.read(place.device, place.offset, place.size) for place in found])
    if strings is None:
        raise Malformed(source, "the checksum is wrong, so the boot loader uses the variables it was built with")
    return dict(_pairs(strings.split(b"\0\0")[0].decode("utf-8", "replace").split("\0"))), source


def printed_variables(text: str) -> dict[str, str]:
    """The variables in what ``fw_printenv`` has printed."""
    return dict(_pairs(text.splitlines()))


def _pairs(strings: list[str]) -> list[tuple[str, str]]:
    pairs = [string.partition("=") for string in strings]
    return [(name, value) for name, equals, value in pairs if equals and name]
