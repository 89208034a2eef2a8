"""The `cocotb` transport: the core inside a running cocotb bench, through its pins.

Host code is not asynchronous, so it runs in a thread of cocotb's, which lets the simulator go on whenever it waits:

>>> async def a_test(dut):
...     transport = CocotbTransport(dut, params)     # the clock runs, reset is over, a rising edge was just awaited
...     await cocotb.task.bridge(host_script)(KvAsu(transport))

Reset and clock are the bench's own, and time passes for the script only in what it calls. Other coroutines may drive
the bench's other pins meanwhile; the numbers are those of the other buses while nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from cocotb.task import resume
from cocotb.triggers import FallingEdge, RisingEdge

from kv_asu_firmware import integers
from kv_asu_firmware.device import LINK_CLOCKS, WRITE_CLOCKS
from kv_asu_firmware.ports import ANSWER, TAG, VICTIM, address_array
from kv_asu_sim.drivers import ConfigMaster, EvictDriver, InputPort, QueryDriver, RequestDriver
from vrex.transports.base import Bus, build_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from kv_asu.params import Params

Result = TypeVar("Result")


class CocotbTransport(Bus):
    """The core's pins in a bench. To be made anywhere, to be used in a function that ``cocotb.task.bridge`` runs.

    Parameters
    ----------
    dut : handle
        The core, as a whole PCI function (`kv_asu.whole_function`) or behind something that acts as one.
    params : Params, optional
        Its build; the default one unless given.
    **fields : int
        Instead: fields of `Params` that differ from the default.

    Raises
    ------
    TypeError, ValueError
        There is no such build.
    """

    name = "cocotb"

    def __init__(self, dut: Any, params: Params | None = None, **fields: int) -> None:
        self.params = build_of(params, fields)
        self._dut = dut
        self._clock = 0
        self._irq = False
        self._requests, self._queries, self._evicts = RequestDriver(dut), QueryDriver(dut), EvictDriver(dut)
        self._config = ConfigMaster(dut, self.params.function)
        self._power_good = True
        dut.power_good.value = 1

    def __str__(self) -> str:
        return f"the simulated {self._dut._name}"

    # Every call goes over to the simulator and comes back right behind a rising edge.

    def _read(self, offset: int, size: int) -> int:
        dword = self._simulate(self._read_dword, offset // 4)
        return dword >> 8 * (offset % 4) & (1 << 8 * size) - 1

    def _write(self, offset: int, value: int, size: int) -> None:
        byte = offset % 4
        self._simulate(self._write_dword, offset // 4, value << 8 * byte, (1 << size) - 1 << byte)

    @property
    def clock(self) -> int:
        return self._clock

    @property
    def irq(self) -> bool:
        return self._irq

    @property
    def power_good(self) -> bool:
        return self._power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self._power_good = bool(value)
        self._simulate(self._set_power)

    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        lines = address_array(addresses, self.params).tolist()
        tags = self._simulate(self._operate, self._requests, [(line,) for line in lines], "tag_valid", TAG)
        self.idle(LINK_CLOCKS)
        return tags

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        if min_tlevel not in range(4):
            raise ValueError(f"min_tlevel must be 0 to 3, not {min_tlevel!r}")
        queries = [(line, min_tlevel, int(boost)) for line in address_array(addresses, self.params).tolist()]
        return self._simulate(self._operate, self._queries, queries, "answer_valid", ANSWER)

    def evict_lines(self, count: int) -> NDArray[np.void]:
        commands = integers.count("count", count)
        return self._simulate(self._operate, self._evicts, [()] * commands, "victim_valid", VICTIM)

    def idle(self, clocks: int) -> None:
        self._simulate(self._pass, integers.count("clocks", clocks))

    def _simulate(self, function: Callable[..., Coroutine[Any, None, Result]], *arguments: Any) -> Result:
        self._check_open()
        return simulate(function, *arguments)

    # In the simulator

    async def _pass(self, clocks: int) -> None:
        for _ in range(clocks - 1):
            await RisingEdge(self._dut.clk)
        if clocks:
            await self._middle()
            await RisingEdge(self._dut.clk)
        self._clock += clocks

    async def _middle(self) -> None:
        """Where the outputs of the clock stand."""
        await FallingEdge(self._dut.clk)
        self._irq = bool(self._dut.irq.value)

    async def _end(self) -> None:
        await RisingEdge(self._dut.clk)
        self._clock += 1

    async def _read_dword(self, number: int) -> int:
        self._config.put_read(number)
        await self._pass(1)
        self._config.clear()
        await self._middle()
        answered = self._dut.cfg_ext_read_data_valid.value == 1
        value = int(self._dut.cfg_ext_read_data.value) if answered else 0xFFFFFFFF
        await self._end()
        return value

    async def _write_dword(self, number: int, value: int, byte_enable: int) -> None:
        self._config.put_write(number, value, byte_enable)
        await self._pass(1)
        self._config.clear()
        await self._pass(WRITE_CLOCKS - 1)

    async def _set_power(self) -> None:
        self._dut.power_good.value = int(self._power_good)
        await self._pass(WRITE_CLOCKS)

    async def _operate(
        self, port: InputPort, operations: Iterable[tuple[int, ...]], valid: str, answer: np.dtype
    ) -> NDArray[np.void]:
        """Give a port one operation a clock, and take the answers as they come, L clocks after each."""
        import numpy as np

        pins = [getattr(self._dut, name) for name in answer.names or ()]
        answered = getattr(self._dut, valid)
        rows: list[tuple[int, ...]] = []

        async def clock() -> None:
            await self._middle()
            if answered.value == 1:
                rows.append(tuple(int(pin.value) for pin in pins))
            await self._end()

        for operation in operations:
            port.put(*operation)
            await clock()
        port.clear()
        for _ in range(self.params.latency):
            await clock()
        return np.array(rows, answer)


def simulate(function: Callable[..., Coroutine[Any, None, Result]], *arguments: Any) -> Result:
    """Run a coroutine in the simulator while this thread waits."""
    return resume(function)(*arguments)
