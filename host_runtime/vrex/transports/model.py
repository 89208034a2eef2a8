"""The `model` transport: the Python device model, with the memory bus in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kv_asu_firmware.device import Device
from vrex.transports.base import Bus, build_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from kv_asu.params import Params


class ModelTransport(Bus):
    """A device model, just reset.

    Parameters
    ----------
    params : Params, optional
        The build; the default one unless given.
    **fields : int
        Instead: fields of `Params` that differ from the default, like ``log2_entries=8``.

    Attributes
    ----------
    device : Device
        What is behind it.

    Raises
    ------
    TypeError, ValueError
        There is no such build.
    """

    name = "model"

    def __init__(self, params: Params | None = None, **fields: int) -> None:
        self.params = build_of(params, fields)
        self._device = Device(self.params)

    @property
    def device(self) -> Device:
        self._check_open()
        return self._device

    def __str__(self) -> str:
        return "the device model"

    def _read(self, offset: int, size: int) -> int:
        return self.device.read(offset, size)

    def _write(self, offset: int, value: int, size: int) -> None:
        self.device.write(offset, value, size)

    @property
    def clock(self) -> int:
        return self._device.clock

    @property
    def irq(self) -> bool:
        return self._device.irq

    @property
    def power_good(self) -> bool:
        return self._device.power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self.device.power_good = value

    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        return self.device.observe(addresses)

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        return self.device.query_lines(addresses, min_tlevel=min_tlevel, boost=boost)

    def evict_lines(self, count: int) -> NDArray[np.void]:
        return self.device.evict_lines(count)

    def idle(self, clocks: int) -> None:
        self.device.idle(clocks)
