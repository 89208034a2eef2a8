"""A bus in front of another: everything that is done on it comes as one operation."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from kv_asu_firmware import integers
from kv_asu_firmware.ports import address_array
from vrex.session.operation import Answer, Operation
from vrex.transports.base import Bus

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Relay(Bus):
    """What is done on it is done on another bus, by `_take`.

    Parameters
    ----------
    bus : Bus
        The other, on which nothing has been done yet.

    Attributes
    ----------
    bus : Bus

    Raises
    ------
    TypeError
        It is no bus, but a device whose traffic somebody else makes.
    ValueError
        Clocks have passed on it.
    """

    def __init__(self, bus: Bus) -> None:
        if not isinstance(bus, Bus):
            raise TypeError(f"only a bus will do (model, rtl, cocotb), not {bus}")
        if bus.clock:
            raise ValueError(f"begin at reset, not after {bus.clock} clocks")
        self.bus = bus
        self.name = bus.name
        self.params = bus.params
        self.faults = bus.faults

    @abstractmethod
    def _take(self, operation: Operation) -> Answer:
        """Do an operation; what it answered."""

    def __str__(self) -> str:
        return str(self.bus)

    def close(self) -> None:
        """Close the other."""
        self.bus.close()

    @property
    def clock(self) -> int:
        return self.bus.clock

    @property
    def irq(self) -> bool:
        return self.bus.irq

    @property
    def power_good(self) -> bool:
        return self.bus.power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self._take(Operation("power_good", value=int(bool(value))))

    def _read(self, offset: int, size: int) -> int:
        value = self._take(Operation("read", offset=offset, size=size))
        assert isinstance(value, int)
        return value

    def _write(self, offset: int, value: int, size: int) -> None:
        self._take(Operation("write", offset=offset, size=size, value=value))

    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        return self._commands(Operation("observe", address_array(addresses, self.params)))

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        lines, least = address_array(addresses, self.params), integers.integer("min_tlevel", min_tlevel)
        return self._commands(Operation("query_lines", lines, min_tlevel=least, boost=bool(boost)))

    def evict_lines(self, count: int) -> NDArray[np.void]:
        return self._commands(Operation("evict_lines", value=integers.count("count", count)))

    def idle(self, clocks: int) -> None:
        self._take(Operation("idle", value=integers.count("clocks", clocks)))

    def _commands(self, operation: Operation) -> NDArray[np.void]:
        answer = self._take(operation)
        assert isinstance(answer, np.ndarray)
        return answer
