"""The `rtl` transport: the gateware, compiled and clocked in this process, with the memory bus in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kv_asu.installing import not_installed
from kv_asu_firmware.device import LINK_CLOCKS, READ_CLOCKS, WRITE_CLOCKS
from vrex.errors import VrexError
from vrex.transports.base import Bus, build_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from kv_asu.params import Params
    from kv_asu_sim.compiled import CompiledCore


class RtlTransport(Bus):
    """The compiled gateware in a full config space, powered up with random contents and reset.

    Parameters
    ----------
    params : Params, optional
        The build; the default one unless given. The first use of each compiles it, which takes a while.
    seed : int
        What registers and memories hold at power-up follows from it.
    verilog : str, optional
        The text of the core as a whole PCI function, instead of the gateware's own.
    **fields : int
        Instead of ``params``: fields of it that differ from the default, like ``log2_entries=8``.

    Attributes
    ----------
    core : CompiledCore
        What is behind it.

    Raises
    ------
    TypeError, ValueError
        There is no such build, or the seed is out of range.
    VrexError
        It cannot be built: a tool is missing or fails, or the cache cannot be written.
    """

    name = "rtl"

    def __init__(
        self, params: Params | None = None, *, seed: int = 0, verilog: str | None = None, **fields: int
    ) -> None:
        try:
            from kv_asu.errors import ToolError
            from kv_asu_sim.compiled import READ_CLOCKS as CORE_READ_CLOCKS
            from kv_asu_sim.compiled import WRITE_CLOCKS as CORE_WRITE_CLOCKS
            from kv_asu_sim.compiled import BuildError, CompiledCore, LatencyError

            self.params = build_of(params, fields)
            self._core = CompiledCore(self.params, seed=seed, full_config_space=True, verilog=verilog)
        except ModuleNotFoundError as error:
            raise VrexError(f"{not_installed(error)}, or use model") from None
        except (BuildError, ToolError) as error:
            raise VrexError(str(error)) from None
        assert CORE_READ_CLOCKS == READ_CLOCKS
        self.faults = (LatencyError,)
        self._settle = WRITE_CLOCKS - CORE_WRITE_CLOCKS
        self._reset_clock = self._core.clock

    @property
    def core(self) -> CompiledCore:
        self._check_open()
        return self._core

    def power_up(self) -> None:
        """Begin anew, as if just opened."""
        self._core.power_up()
        self._closed = False
        self._reset_clock = self._core.clock

    def __str__(self) -> str:
        return "the compiled RTL"

    def _read(self, offset: int, size: int) -> int:
        value = self.core.read(offset, size)
        return (1 << 8 * size) - 1 if value is None else value

    def _write(self, offset: int, value: int, size: int) -> None:
        self.core.write(offset, value, size)
        self.core.idle(self._settle)

    @property
    def clock(self) -> int:
        return self._core.clock - self._reset_clock

    @property
    def irq(self) -> bool:
        return self._core.irq

    @property
    def power_good(self) -> bool:
        return self._core.power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self.core.power_good = value
        self.core.idle(WRITE_CLOCKS)

    def observe(self, addresses: ArrayLike) -> NDArray[np.void]:
        tags = self.core.request(addresses)
        self.core.idle(LINK_CLOCKS)
        return tags

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        return self.core.query_lines(addresses, min_tlevel=min_tlevel, boost=boost)

    def evict_lines(self, count: int) -> NDArray[np.void]:
        return self.core.evict(count)

    def idle(self, clocks: int) -> None:
        self.core.idle(clocks)
