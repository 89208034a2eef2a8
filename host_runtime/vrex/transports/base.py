"""What a transport is: reads and writes in the config space of one PCI function, and a notion of time to wait in."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kv_asu_firmware.integers import integer
from vrex.registers import CTRL_OFFSET, Status

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from kv_asu.params import Params

#: Bytes of a function's config space.
CONFIG_BYTES = 0x1000


class Transport(ABC):
    """Config space of one function.

    Two methods make a transport, `_read` and `_write`; they are given accesses that were checked. What nobody answers
    reads all ones, as on any PCI bus.

    Attributes
    ----------
    name : str
        The transport's name.
    time_unit : str
        What `now` counts: "clocks" or "s".
    patience : float
        How long to wait for the device to do something before giving it up, unless told otherwise.
    """

    name: str
    time_unit = "s"
    patience = 1.0
    _closed = False

    def read(self, offset: int, size: int) -> int:
        """Read config space.

        Parameters
        ----------
        offset : int
            In bytes from the start of config space; aligned to the size.
        size : int
            1, 2 or 4 bytes.

        Raises
        ------
        TypeError, ValueError
            The access is not of integers, not aligned, of another size, or outside config space.
        VrexError
            The device cannot be reached.
        """
        return self._read(*check_access(offset, size))

    def write(self, offset: int, value: int, size: int) -> None:
        """Write config space.

        Parameters
        ----------
        offset, size : int
            As for `read`.
        value : int
            0 to ``2**(8 * size) - 1``.

        Raises
        ------
        TypeError, ValueError
            As for `read`, or the value does not fit the size.
        VrexError
            The device cannot be reached, or is being written by another process.
        """
        offset, size = check_access(offset, size)
        value = integer("value", value)
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"value must fit {size} bytes, not {value!r}")
        self._write(offset, value, size)

    @abstractmethod
    def _read(self, offset: int, size: int) -> int: ...

    @abstractmethod
    def _write(self, offset: int, value: int, size: int) -> None: ...

    @abstractmethod
    def now(self) -> float:
        """The time, in `time_unit`, from some beginning on."""

    @abstractmethod
    def pause(self) -> None:
        """Let some time pass between two looks at a device that is busy."""

    @abstractmethod
    def __str__(self) -> str:
        """The device, as a message names it."""

    def close(self) -> None:
        """Give back what the transport holds; whatever is asked of the device afterwards raises `ValueError`."""
        self._closed = True

    def _check_open(self) -> None:
        """See that it has not been closed; raises ValueError."""
        if self._closed:
            raise ValueError(f"{self}: this transport is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Bus(Transport):
    """A transport that stands for the memory bus too: whoever holds it makes the traffic.

    Time is clocks, and passes only in these calls: a register read takes 2 clocks, a write 8 (by then it has taken
    effect everywhere), the bus operations what they say. So a script makes one sequence of clocks, and gives the same
    numbers on every bus.

    Attributes
    ----------
    params : Params
        The build that is driven.
    faults : tuple of exception classes
        What a call raises when the device breaks the protocol of a port; it is of no use afterwards.
    """

    time_unit = "clocks"
    patience = 1 << 20
    params: Params
    faults: tuple[type[Exception], ...] = ()

    #: Clocks between two looks at a device that is busy.
    PAUSE_CLOCKS = 8

    def now(self) -> float:
        return self.clock

    def pause(self) -> None:
        self.idle(self.PAUSE_CLOCKS)

    @property
    @abstractmethod
    def clock(self) -> int:
        """Clocks since reset."""

    @property
    @abstractmethod
    def irq(self) -> bool:
        """The ``irq`` pin in the last clock; false after reset."""

    @property
    def active(self) -> bool:
        """Whether requests are tracked: STATUS.ACTIVE, by a register read of 2 clocks."""
        return Status(self.read(self.params.config_base + CTRL_OFFSET + Status.OFFSET, 4)).active

    @property
    @abstractmethod
    def power_good(self) -> bool:
        """The ``power_good`` pin. Setting it takes 8 clocks."""

    @power_good.setter
    @abstractmethod
    def power_good(self, value: bool) -> None: ...

    @abstractmethod
    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        """Present memory requests, one a clock; takes n + L + 2 clocks.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.

        Returns
        -------
        ndarray, shape (n,), dtype kv_asu_firmware.ports.TAG
            Their answers, in order.

        Raises
        ------
        TypeError
            The addresses are not a one-dimensional array of unsigned integers.
        ValueError
            One has more bits than the build.
        """

    @abstractmethod
    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        """Ask for lines' T-levels without touching them, one a clock; takes n + L clocks.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.
        min_tlevel : int
            0 to 3: from which T-level on ``answer_hit`` is 1.
        boost : bool
            Raise the T-level of tracked lines by one.

        Returns
        -------
        ndarray, shape (n,), dtype kv_asu_firmware.ports.ANSWER

        Raises
        ------
        TypeError, ValueError
            As `observe`, or ``min_tlevel`` is out of range.
        """

    @abstractmethod
    def evict_lines(self, count: int) -> NDArray[np.void]:
        """Give evict commands, one a clock; takes count + L clocks.

        Returns
        -------
        ndarray, shape (count,), dtype kv_asu_firmware.ports.VICTIM
            One for each command, also those answered EMPTY.

        Raises
        ------
        TypeError, ValueError
            The count is no integer, or negative.
        """

    @abstractmethod
    def idle(self, clocks: int) -> None:
        """Let clocks pass.

        Raises
        ------
        TypeError, ValueError
            Their number is no integer, or negative.
        """


def build_of(params: Params | None, fields: dict[str, int]) -> Params:
    """The build that options describe: a `Params`, or its fields by name.

    Raises
    ------
    TypeError
        Both are given, there is no such field, or ``params`` is something else.
    ValueError
        A value is out of range.
    """
    from kv_asu.params import Params

    if params is not None and fields:
        raise TypeError(f"give params or its fields ({', '.join(fields)}), not both")
    names = [field.name for field in dataclasses.fields(Params)]
    if unknown := [name for name in fields if name not in names]:
        raise TypeError(f"there is no option {unknown[0]}; a build has {', '.join(names)}")
    if not isinstance(params, Params | None):
        raise TypeError(f"params must be a kv_asu.params.Params, not {params!r}")
    return Params(**fields) if params is None else params


def check_access(offset: int, size: int) -> tuple[int, int]:
    """An access as plain integers, if it is one.

    Raises
    ------
    TypeError, ValueError
        It is not; or it is not aligned, of another size, or outside config space.
    """
    offset, size = integer("offset", offset), integer("size", size)
    if size not in (1, 2, 4):
        raise ValueError(f"size must be 1, 2 or 4 bytes, not {size!r}")
    if offset not in range(0, CONFIG_BYTES, size):
        raise ValueError(f"offset must be a multiple of {size} below {CONFIG_BYTES:#x}, not {offset!r}")
    return offset, size
