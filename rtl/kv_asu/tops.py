"""What can stand around the core in one Verilog file, and what the top module is then called.

================ ================= ========================================================================
top              made by           adds
================ ================= ========================================================================
`kv_asu`         (nothing)         the core alone, or with ``full_config_space`` as a whole PCI function
`kv_asu_axi`     ``axi``           a listener at an AXI4 bus in the place of the request port
`kv_asu_cdc`     ``config_clock``  a clock of its own for config space
`kv_asu_axi_cdc` both              both
================ ================= ========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kv_asu import __version__
from kv_asu.params import Params

if TYPE_CHECKING:
    from amaranth.lib import wiring

_TOP = "kv_asu"

#: Clocks with bursts in them that can wait in the snooper, unless a build says otherwise.
QUEUE_DEPTH = 32
_QUEUE_DEPTHS = range(4, 1025)


@dataclass(frozen=True)
class Top:
    """A core with what is around it.

    Parameters
    ----------
    full_config_space : bool
        As a whole PCI function.
    axi : bool
        With :class:`~kv_asu.axi_snooper.AxiSnooper` at its request port.
    queue_depth : int
        The snooper's, 4 to 1024.
    config_clock : bool
        With :class:`~kv_asu.config_crossing.ConfigCrossing` at its config port.

    Raises
    ------
    TypeError
        ``queue_depth`` is no integer.
    ValueError
        It is out of range, or a whole function is to have another clock for its config space: its messages are of the
        core's clock.
    """

    full_config_space: bool = False
    axi: bool = False
    queue_depth: int = QUEUE_DEPTH
    config_clock: bool = False

    def __post_init__(self) -> None:
        check_queue_depth(self.queue_depth)
        if self.config_clock and self.full_config_space:
            raise ValueError("config_clock is for a hard block's config port, so not with full_config_space")

    @property
    def name(self) -> str:
        """The top module."""
        return _TOP + "_axi" * self.axi + "_cdc" * self.config_clock

    def core_pins(self, params: Params) -> dict[str, str]:
        """What carries those of the core's pins in the top module that are not the top's own."""
        pins: dict[str, str] = {}
        if self.axi:
            outer = "core." * self.config_clock
            pins |= {name: f"{outer}snooper_{name}" for name in ("req_valid", "req_addr")}
        if self.config_clock:
            to_core = ("read_received", "write_received", "register_number", "write_data", "write_byte_enable")
            pins |= {f"cfg_ext_{name}": f"crossing_core_cfg_ext_{name}" for name in to_core}
            pins |= {name: f"core_{name}" for name in ("cfg_ext_read_data", "cfg_ext_read_data_valid", "irq")}
            pins["cfg_ext_function_number"] = f"8'h{params.function:02x}"
        return pins

    @property
    def description(self) -> str:
        """What is around the core, in words, each after a comma."""
        snooper = f", AXI4 snooper (queue_depth={self.queue_depth})" if self.axi else ""
        crossing = ", config space in a clock of its own" * self.config_clock
        return snooper + crossing + ", full config space" * self.full_config_space

    def settings(self) -> dict[str, Any]:
        """Its own build parameters."""
        return {"queue_depth": self.queue_depth} if self.axi else {}

    def component(self, params: Params) -> wiring.Component:
        """The gateware.

        Raises
        ------
        TypeError, ValueError
            There is no such build.
        """
        component: wiring.Component
        if self.full_config_space:
            from kv_asu.whole_function import WholeFunction

            component = WholeFunction(params)
        else:
            from kv_asu.core import KvAsu

            component = KvAsu(params)
        if self.axi:
            from kv_asu.axi_top import AxiTop

            component = AxiTop(component, self.queue_depth)
        if self.config_clock:
            from kv_asu.config_clock import ConfigClock

            component = ConfigClock(component, params)
        return component

    def verilog(self, params: Params) -> str:
        """SystemVerilog of it, as `kv_asu.verilog.emit_component` writes it."""
        from kv_asu.verilog import emit_component

        return emit_component(self.component(params), f"KV-ASU {__version__}{self.description}", params, self.name)


def check_queue_depth(value: int) -> None:
    """Raise TypeError or ValueError if a queue of the snooper cannot have so many places."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"queue_depth must be an integer, not {value!r}")
    if value not in _QUEUE_DEPTHS:
        raise ValueError(f"queue_depth must be {_QUEUE_DEPTHS[0]} to {_QUEUE_DEPTHS[-1]}, not {value!r}")
