"""The standard part of a PCI function's config space, as a table of registers.

PCI Express Base Specification 5.0, chapter 7: type 0 header (7.5.1), power management (7.5.2), PCI Express capability
(7.5.3), MSI (7.7.1), device serial number (7.9.3). The function is a memory controller with no memory range of its own;
it makes no requests but MSI writes, so what concerns requests is hard-wired, as the specification allows.
"""

from __future__ import annotations

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS
from kv_asu.register_types import Access, Field, Register

CONFIG_SPACE_BYTES = 0x1000

DEVICE_ID = 0x0001

#: EUI-64 of a device that was not given another.
SERIAL_NUMBER = 0x4B56_0000_0000_0001

_POWER_MANAGEMENT = 0x40
_MSI = 0x50
_EXPRESS = 0x70
_SERIAL = 0x100
_SERIAL_BYTES = 12

_CAPABILITIES_LIST = 1
_MEMORY_CONTROLLER_OTHER = 0x0580
#: Sits on bus 0 without a link of its own.
_ROOT_COMPLEX_INTEGRATED_ENDPOINT = 9

#: Values of PM_CONTROL.POWER_STATE.
D0 = 0
D3HOT = 3


def _constant(name: str, low: int, width: int, reset: int, build: str | None = None) -> Field:
    return Field(name, low, width, Access.CONSTANT, reset, build)


def _writable(name: str, low: int, width: int) -> Field:
    return Field(name, low, width, Access.READ_WRITE)


def pci_header(params: Params, serial_number: int) -> tuple[Register, ...]:
    """The registers in front of the core's capability, which the last of them links to.

    Parameters
    ----------
    params : Params
        The build; ``config_base`` says where the core's capability is.
    serial_number : int
        64-bit EUI-64 of the device.

    Raises
    ------
    ValueError
        The core's capability would overlap these registers or link to one that is not there, or the serial number
        has more than 64 bits.
    """
    if params.config_base < _SERIAL + _SERIAL_BYTES:
        raise ValueError(
            f"config_base must be at least {_SERIAL + _SERIAL_BYTES:#x} in a full config space, "
            f"not {params.config_base:#x}"
        )
    if params.config_next:
        raise ValueError(f"config_next must be 0 in a full config space, not {params.config_next:#x}")
    if not 0 <= serial_number < 1 << 64:
        raise ValueError(f"serial_number must be 0 to 2**64 - 1, not {serial_number!r}")
    version = REGISTERS["ID"].reset_value(params)
    return (
        Register("DEVICE", 0x00, (
            _constant("VENDOR_ID", 0, 16, 0, "vendor_id"),
            _constant("DEVICE_ID", 16, 16, DEVICE_ID),
        )),
        Register("COMMAND", 0x04, (
            _writable("BUS_MASTER", 2, 1),
            _writable("PARITY_ERROR_RESPONSE", 6, 1),
            _writable("SYSTEM_ERROR", 8, 1),
            _writable("INTERRUPT_DISABLE", 10, 1),
            _constant("CAPABILITIES_LIST", 20, 1, _CAPABILITIES_LIST),
        )),
        Register("CLASS", 0x08, (
            _constant("REVISION", 0, 8, (version >> 8 & 0xF) << 4 | version & 0xF),  # the register map's
            _constant("CLASS_CODE", 16, 16, _MEMORY_CONTROLLER_OTHER),
        )),
        Register("CACHE_LINE", 0x0C, (
            _writable("SIZE", 0, 8),  # kept for software that expects it to be
        )),
        Register("SUBSYSTEM", 0x2C, (
            _constant("VENDOR_ID", 0, 16, 0, "vendor_id"),
            _constant("DEVICE_ID", 16, 16, DEVICE_ID),
        )),
        Register("CAPABILITIES", 0x34, (
            _constant("POINTER", 0, 8, _POWER_MANAGEMENT),
        )),
        Register("INTERRUPT", 0x3C, (
            _writable("LINE", 0, 8),
        )),
        Register("PM_CAPABILITY", _POWER_MANAGEMENT, (
            _constant("ID", 0, 8, 0x01),
            _constant("NEXT", 8, 8, _MSI),
            _constant("VERSION", 16, 3, 3),
        )),
        Register("PM_CONTROL", _POWER_MANAGEMENT + 4, (
            # D1 and D2 do not exist; writing them changes nothing.
            Field("POWER_STATE", 0, 2, Access.READ_WRITE, allowed=(D0, D3HOT), step=D3HOT - D0),
            _constant("NO_SOFT_RESET", 3, 1, 1),
        )),
        Register("MSI", _MSI, (
            _constant("ID", 0, 8, 0x05),
            _constant("NEXT", 8, 8, _EXPRESS),
            _writable("ENABLE", 16, 1),
            _constant("ADDRESS_64", 23, 1, 1),
        )),
        Register("MSI_ADDRESS_LO", _MSI + 0x04, (
            _writable("ADDRESS", 2, 30),
        )),
        Register("MSI_ADDRESS_HI", _MSI + 0x08, (
            _writable("ADDRESS", 0, 32),
        )),
        Register("MSI_DATA", _MSI + 0x0C, (
            _writable("DATA", 0, 16),
        )),
        Register("EXPRESS", _EXPRESS, (
            _constant("ID", 0, 8, 0x10),
            _constant("VERSION", 16, 4, 2),
            _constant("TYPE", 20, 4, _ROOT_COMPLEX_INTEGRATED_ENDPOINT),
        )),
        Register("DEVICE_CAPABILITIES", _EXPRESS + 0x04, (
            _constant("ROLE_BASED_ERRORS", 15, 1, 1),
        )),
        Register("DEVICE_CONTROL", _EXPRESS + 0x08, (
            _writable("ERROR_REPORTING", 0, 4),
        )),
        Register("SERIAL_NUMBER", _SERIAL, (
            _constant("ID", 0, 16, 0x0003),
            _constant("VERSION", 16, 4, 1),
            _constant("NEXT", 20, 12, 0, "config_base"),
        )),
        Register("SERIAL_NUMBER_LO", _SERIAL + 4, (
            _constant("NUMBER", 0, 32, serial_number & 0xFFFF_FFFF),
        )),
        Register("SERIAL_NUMBER_HI", _SERIAL + 8, (
            _constant("NUMBER", 0, 32, serial_number >> 32),
        )),
    )
