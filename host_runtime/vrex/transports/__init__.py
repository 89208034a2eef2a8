"""Ways to a device: one interface to its config space, whatever stands behind it.

======== ============================================================== ============
name     drives                                                         needs
======== ============================================================== ============
`model`  the Python device model; the default                           nothing
`rtl`    the gateware, compiled and clocked in this process             C++ compiler
`sysfs`  the ``config`` file of a real device, or a tree that has one   the file
`cocotb` the core in a running cocotb bench                             a simulator
`uart`   the core on a board, behind a serial line                      the board
======== ============================================================== ============
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from kv_asu.installing import not_installed
from vrex.errors import VrexError
from vrex.transports.base import Bus, Transport

__all__ = ["TRANSPORTS", "Bus", "Transport", "open_transport"]

#: The class of each transport, by module so that only the one in use is loaded.
TRANSPORTS = {
    "model": "ModelTransport",
    "rtl": "RtlTransport",
    "sysfs": "SysfsTransport",
    "cocotb": "CocotbTransport",
    "uart": "UartTransport",
}


def open_transport(name: str = "model", **options: Any) -> Transport:
    """Open a transport by its name.

    Parameters
    ----------
    name : str
        A key of `TRANSPORTS`.
    **options
        What the transport's class takes.

    Raises
    ------
    ValueError
        There is no such transport.
    TypeError
        It has no such option.
    VrexError
        It cannot be opened.
    """
    if name not in tuple(TRANSPORTS):
        raise ValueError(f"transport must be one of {', '.join(TRANSPORTS)}, not {name!r}")
    try:
        module = import_module(f"vrex.transports.{name}")
    except ModuleNotFoundError as error:
        raise VrexError(f"the {name} transport cannot be loaded: {not_installed(error)}") from None
    transport: type[Transport] = getattr(module, TRANSPORTS[name])
    _check_options(name, transport, options)
    return transport(**options)


def _check_options(name: str, transport: type[Transport], options: dict[str, Any]) -> None:
    """See that a transport takes these options, and has all that it needs; the fields of a build it checks itself."""
    parameters = inspect.signature(transport).parameters.values()
    takes = {each.name: each for each in parameters if each.kind is not each.VAR_KEYWORD}
    unknown = [option for option in options if option not in takes]
    if unknown and len(takes) == len(parameters):
        raise TypeError(f"the {name} transport has no option {unknown[0]}; it takes {', '.join(takes)}")
    for option, parameter in takes.items():
        if parameter.default is parameter.empty and option not in options:
            raise TypeError(f"the {name} transport needs {option}=...")
