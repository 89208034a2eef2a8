"""Finding the core's capability: the walk along a function's list of extended capabilities."""

from __future__ import annotations

from vrex.errors import DeviceGoneError, DeviceNotFoundError
from vrex.registers import CTRL_OFFSET, MAGIC, WINDOW_BYTES, Capability, Id, Vsec
from vrex.transports.base import CONFIG_BYTES, Transport

#: Where the list begins (PCI Express Base Specification 5.0, 7.6).
FIRST = 0x100

VENDOR_SPECIFIC = 0x000B
_ALL_ONES = 0xFFFFFFFF

#: The id of the core's capability among a vendor's, unless it was built with another.
VSEC_ID = Vsec.FIELDS["vsec_id"].reset


def find_kv_asu(transport: Transport, vsec_id: int = VSEC_ID) -> int:
    """The offset of CTRL in the function's config space.

    A vendor-specific capability is the core's if it has the right id and ID behind it has the magic; others are passed.

    Parameters
    ----------
    transport : Transport
        The function.
    vsec_id : int
        The id to look for.

    Raises
    ------
    DeviceNotFoundError
        The function has no such capability, or its list is broken.
    DeviceGoneError
        Everything reads all ones.
    """
    offset, seen, others = FIRST, set[int](), []
    while offset:
        if offset < FIRST or offset in seen:
            what = "loops" if offset in seen else "is broken"
            raise DeviceNotFoundError(
                f"{transport}: the list of extended capabilities {what} at {offset:#x}; choose another device"
            )
        seen.add(offset)
        word = transport.read(offset, 4)
        if word == _ALL_ONES:
            if transport.read(0, 4) == _ALL_ONES:
                raise DeviceGoneError(f"{transport}: reads all ones: nobody answers; is the device there and powered?")
            break  # a function without extended config space behind a bridge that has it
        header = Capability(word)
        if header.capability_id == VENDOR_SPECIFIC and offset + WINDOW_BYTES <= CONFIG_BYTES:
            found = Vsec(transport.read(offset + 4, 4)).vsec_id
            ctrl = offset + CTRL_OFFSET
            if found == vsec_id and Id(transport.read(ctrl + Id.OFFSET, 4)).magic == MAGIC:
                return ctrl
            others.append(f"{found:#06x} at {offset:#x}")
        offset = header.next & ~3  # the low bits are reserved
    passed = f" (vendor-specific ones of others: {', '.join(others)})" if others else ""
    raise DeviceNotFoundError(f"{transport}: has no KV-ASU capability{passed}; choose the right device")
