"""The config space that a PCIe hard block would keep around the core: header and standard capabilities.

Type 0 header without BARs, power management (D0 and D3hot), MSI with one 64-bit message, the PCI Express capability of
an endpoint integrated in the root complex (the core is function 00:02.0, behind no link), and a Device Serial Number
that opens the list of extended capabilities. Layouts: PCI Express Base Specification 5.0, chapter 7.
"""

from __future__ import annotations

#: Bytes of a function's config space.
CONFIG_BYTES = 0x1000

#: The first byte of config space that is free for another extended capability.
FIRST_FREE = 0x10C

DEVICE_ID = 0x0001
CLASS_MEMORY_CONTROLLER = 0x0580
SERIAL_NUMBER = 0x4B56_0000_0000_0001

_COMMAND, _POWER_MANAGEMENT, _MSI, _EXPRESS, _SERIAL_NUMBER = 0x04, 0x40, 0x50, 0x70, 0x100
_BUS_MASTER = 1 << 2
_D0, _D3HOT = 0, 3


class PciFunction:
    """Header and capabilities as bytes; some bits of them can be written.

    Parameters
    ----------
    vendor_id : int
        The vendor, in the header and as subsystem.
    extended : int
        The offset of the extended capability behind the serial number.
    version : int
        The header's 8-bit revision.
    """

    def __init__(self, *, vendor_id: int, extended: int, version: int) -> None:
        self._bytes = bytearray(CONFIG_BYTES)
        self._writable = bytearray(CONFIG_BYTES)
        put = self._put
        put(0x00, 2, vendor_id)
        put(0x02, 2, DEVICE_ID)
        # Writable: bus master, parity error response, SERR#, interrupt disable. There is nothing to decode.
        put(_COMMAND, 2, 0, writable=_BUS_MASTER | 1 << 6 | 1 << 8 | 1 << 10)
        put(0x06, 2, 1 << 4)  # Status: has a capability list
        put(0x08, 1, version)
        put(0x0A, 2, CLASS_MEMORY_CONTROLLER)
        put(0x0C, 1, 0, writable=0xFF)  # cache line size, kept for old software
        put(0x2C, 2, vendor_id)
        put(0x2E, 2, DEVICE_ID)
        put(0x34, 1, _POWER_MANAGEMENT)
        put(0x3C, 1, 0, writable=0xFF)  # interrupt line, for software's own use: there is no interrupt pin

        put(_POWER_MANAGEMENT, 2, _MSI << 8 | 0x01)
        put(_POWER_MANAGEMENT + 2, 2, 3)  # version 3; no D1, D2 or PME#
        put(_POWER_MANAGEMENT + 4, 2, 1 << 3, writable=3)  # D3hot and back resets nothing

        put(_MSI, 2, _EXPRESS << 8 | 0x05)
        put(_MSI + 2, 2, 1 << 7, writable=1)  # a 64-bit address; enable
        put(_MSI + 4, 4, 0, writable=0xFFFFFFFC)
        put(_MSI + 8, 4, 0, writable=0xFFFFFFFF)
        put(_MSI + 12, 2, 0, writable=0xFFFF)

        put(_EXPRESS, 2, 0x10)
        put(_EXPRESS + 2, 2, 9 << 4 | 2)  # version 2; root complex integrated endpoint
        put(_EXPRESS + 4, 4, 1 << 15)  # role-based error reporting; payloads of 128 bytes
        put(_EXPRESS + 8, 2, 0, writable=0xF)  # which errors to report

        put(_SERIAL_NUMBER, 4, extended << 20 | 1 << 16 | 0x0003)
        put(_SERIAL_NUMBER + 4, 8, SERIAL_NUMBER)

    def _put(self, offset: int, size: int, value: int, writable: int = 0) -> None:
        self._bytes[offset : offset + size] = value.to_bytes(size, "little")
        self._writable[offset : offset + size] = writable.to_bytes(size, "little")

    def _get(self, offset: int, size: int) -> int:
        return int.from_bytes(self._bytes[offset : offset + size], "little")

    def read_dword(self, offset: int) -> int:
        """The DWORD at ``offset``."""
        return self._get(offset, 4)

    def write_dword(self, offset: int, value: int, byte_enable: int) -> None:
        """Write the enabled bytes of the DWORD at ``offset``; bits that cannot be written stay."""
        state = self._bytes[_POWER_MANAGEMENT + 4]
        for byte in range(4):
            if byte_enable >> byte & 1:
                writable = self._writable[offset + byte]
                kept = self._bytes[offset + byte] & ~writable
                self._bytes[offset + byte] = kept | (value >> 8 * byte & writable)
        if self._power_state not in (_D0, _D3HOT):
            self._bytes[_POWER_MANAGEMENT + 4] = state  # a state we do not have is discarded

    @property
    def _power_state(self) -> int:
        return self._bytes[_POWER_MANAGEMENT + 4] & 3

    @property
    def sleeping(self) -> bool:
        """The function is in D3hot."""
        return self._power_state == _D3HOT

    @property
    def message(self) -> tuple[int, int] | None:
        """Address and data of the memory write that signals an interrupt; None while software does not allow one."""
        if not (self._get(_MSI + 2, 2) & 1 and self._get(_COMMAND, 2) & _BUS_MASTER and self._power_state == _D0):
            return None
        return self._get(_MSI + 4, 8), self._get(_MSI + 12, 2)
