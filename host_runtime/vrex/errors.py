"""What a user may be told: errors that read as one line and name the way out."""

from __future__ import annotations


class VrexError(Exception):
    """An error caused by what the user gave us or by the machine, never by a bug.

    Its text is one line that names the thing and the way out; the command line prints it and ends with exit code 1.
    """


class DeviceNotFoundError(VrexError):
    """There is no such device, or no KV-ASU in it."""


class DeviceAccessError(VrexError):
    """The device is there, but this process may not read or write all of it."""


class DeviceBusyError(VrexError):
    """Another process is writing to the device."""


class DeviceGoneError(VrexError):
    """The device does not answer any more: removed, unplugged, or without power."""


class NoPowerError(VrexError):
    """The core has no power, so that it cannot become active."""


class KvCacheFull(VrexError):
    """The lines that are in use at once, or the whole stream, need more memory than there is.

    Parameters
    ----------
    text : str
    places : int
        Places of near memory that lines in use at once need; 0 where more near memory would not help.
    """

    def __init__(self, text: str, places: int = 0) -> None:
        super().__init__(text)
        self.places = places


class VersionError(VrexError):
    """Host and hardware describe different register maps."""


class ConfigRefusedError(VrexError):
    """The core refused a register write, or would."""


class KvAsuTimeoutError(VrexError):
    """The core did not do in time what it was asked to."""
