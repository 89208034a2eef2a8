"""cocotb drivers of the core's input pins.

A driver touches only its own pins, right after a rising edge. While a port's valid pin is 0 its payload is junk: X
where the simulator knows X, random bits elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import cocotb
import numpy as np
from cocotb.handle import SimHandleBase
from cocotb.triggers import RisingEdge
from cocotb.types import LogicArray

from kv_asu_sim.pins import INPUTS

#: Simulators without an X.
TWO_STATE = ("Verilator",)

#: Clocks within which a config read must be answered.
READ_TIMEOUT = 4


def junk(handle: Any) -> Callable[[], Any]:
    """What to put on a payload pin that nobody may look at."""
    width = len(handle) if hasattr(handle, "__len__") else 1
    if cocotb.SIM_NAME in TWO_STATE:
        return lambda: random.getrandbits(width)
    unknown = LogicArray("X" * width)
    return lambda: unknown


class InputPort:
    """A valid pin and its payload.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    valid : str
        The valid pin's name.
    payload : iterable of str
        The payload pins' names.
    """

    def __init__(self, dut: Any, valid: str, payload: Iterable[str] = ()) -> None:
        self._clk = dut.clk
        self._valid = getattr(dut, valid)
        self._payload = [getattr(dut, name) for name in payload]
        self._junk = [junk(handle) for handle in self._payload]
        self.clear()

    def put(self, *payload: int) -> None:
        """Hold an operation on the pins."""
        self._valid.value = 1
        for handle, value in zip(self._payload, payload, strict=True):
            handle.value = value

    def clear(self) -> None:
        """Hold nothing on the pins."""
        self._valid.value = 0
        for handle, value in zip(self._payload, self._junk, strict=True):
            handle.value = value()

    async def send(self, *payload: int) -> None:
        """Hold an operation for one clock."""
        self.put(*payload)
        await RisingEdge(self._clk)
        self.clear()


class RequestDriver(InputPort):
    """The request port; payload: address."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, "req_valid", ["req_addr"])


class QueryDriver(InputPort):
    """The query port; payload: address, least T-level, boost."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, "query_valid", ["query_addr", "query_min_tlevel", "query_boost"])


class EvictDriver(InputPort):
    """The evict port; no payload."""

    def __init__(self, dut: Any) -> None:
        super().__init__(dut, "evict_valid")


class ConfigMaster:
    """The hard block's side of the ``cfg_ext`` port, for the function the core was built as.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    function : int
        The function number to address.
    """

    def __init__(self, dut: Any, function: int = 0) -> None:
        self._dut = dut
        self._function = function
        self._address = [dut.cfg_ext_register_number, dut.cfg_ext_function_number]
        self._data = [dut.cfg_ext_write_data, dut.cfg_ext_write_byte_enable]
        self._junk = {handle._name: junk(handle) for handle in (*self._address, *self._data)}
        self.clear()

    def clear(self) -> None:
        """Hold nothing on the pins."""
        self._dut.cfg_ext_read_received.value = 0
        self._dut.cfg_ext_write_received.value = 0
        for handle in (*self._address, *self._data):
            handle.value = self._junk[handle._name]()

    def put_write(self, number: int, value: int, byte_enable: int = 0xF, function: int | None = None) -> None:
        """Hold a write of a DWORD on the pins."""
        self._dut.cfg_ext_write_received.value = 1
        self._put_address(number, function)
        self._dut.cfg_ext_write_data.value = value
        self._dut.cfg_ext_write_byte_enable.value = byte_enable

    def put_read(self, number: int, function: int | None = None) -> None:
        """Hold a read of a DWORD on the pins."""
        self._dut.cfg_ext_read_received.value = 1
        self._put_address(number, function)

    def _put_address(self, number: int, function: int | None) -> None:
        self._dut.cfg_ext_register_number.value = number
        self._dut.cfg_ext_function_number.value = self._function if function is None else function

    async def write(self, number: int, value: int, byte_enable: int = 0xF) -> None:
        """Write a DWORD; takes one clock."""
        self.put_write(number, value, byte_enable)
        await RisingEdge(self._dut.clk)
        self.clear()

    async def read(self, number: int) -> int:
        """Read a DWORD.

        Raises
        ------
        TimeoutError
            Nobody answered.
        """
        self.put_read(number)
        for _ in range(READ_TIMEOUT):
            await RisingEdge(self._dut.clk)
            self.clear()
            if self._dut.cfg_ext_read_data_valid.value == 1:
                return int(self._dut.cfg_ext_read_data.value)
        raise TimeoutError(f"no answer to a read of DWORD {number:#x} within {READ_TIMEOUT} clocks")


class RowDriver:
    """Plays the rows of a stream on every input pin.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    """

    def __init__(self, dut: SimHandleBase) -> None:
        self._dut: Any = dut
        self._ports = [
            (RequestDriver(dut), _columns("req_valid"), _columns("req_addr")),
            (QueryDriver(dut), _columns("query_valid"), _columns("query_addr", "query_min_tlevel", "query_boost")),
            (EvictDriver(dut), _columns("evict_valid"), ()),
        ]
        self._config = ConfigMaster(dut)
        self._levels = [(getattr(dut, name), *_columns(name)) for name in ("rst", "power_good")]
        self._write = _columns(
            "cfg_ext_register_number", "cfg_ext_write_data", "cfg_ext_write_byte_enable", "cfg_ext_function_number"
        )
        self._read = _columns("cfg_ext_register_number", "cfg_ext_function_number")
        (self._writes,), (self._reads,) = _columns("cfg_ext_write_received"), _columns("cfg_ext_read_received")

    async def play(self, rows: np.ndarray) -> None:
        """Hold each row of :data:`kv_asu_sim.pins.INPUTS` for one clock."""
        clk = self._dut.clk
        busy = [True] * len(self._ports)
        config_busy = True
        for row in rows.tolist():
            await RisingEdge(clk)
            for handle, column in self._levels:
                handle.value = row[column]
            for index, (port, (valid,), payload) in enumerate(self._ports):
                if row[valid]:
                    port.put(*(row[column] for column in payload))
                    busy[index] = True
                elif busy[index]:
                    port.clear()
                    busy[index] = False
            if config_busy:
                self._config.clear()
            config_busy = bool(row[self._writes] or row[self._reads])
            if row[self._writes]:
                self._config.put_write(*(row[column] for column in self._write))
            elif row[self._reads]:
                self._config.put_read(*(row[column] for column in self._read))


def _columns(*names: str) -> tuple[int, ...]:
    order = INPUTS.names
    assert order is not None
    return tuple(order.index(name) for name in names)
