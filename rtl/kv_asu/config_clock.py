"""The core with its config space in a clock of its own: module ``kv_asu_cdc`` or ``kv_asu_axi_cdc``."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from kv_asu.config_crossing import ConfigCrossing
from kv_asu.params import Params


class ConfigClock(wiring.Component):
    """A core behind :class:`~kv_asu.config_crossing.ConfigCrossing`.

    Parameters
    ----------
    core : KvAsu or AxiTop
        The core.
    params : Params
        Its build.

    Members
    -------
    The core's pins, of which ``cfg_ext_*`` and ``irq`` are of clock ``cfg_clk`` and reset ``cfg_rst``, and with them
    the crossing's ``cfg_dropped``.
    """

    def __init__(self, core: wiring.Component, params: Params) -> None:
        self._core = core
        self._crossing = ConfigCrossing(params)
        mine = {name: member for name, member in self._crossing.signature.members.items() if not _behind(name)}
        super().__init__({**core.signature.members, **mine})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.crossing = crossing = self._crossing
        for name, member in self._crossing.signature.members.items():
            port = getattr(crossing, name)
            if _behind(name):
                pin = getattr(core, name.removeprefix("core_"))
                m.d.comb += port.eq(pin) if member.flow is In else pin.eq(port)
        for name, member in self.signature.members.items():
            pin, port = getattr(self, name), getattr(crossing if hasattr(crossing, name) else core, name)
            m.d.comb += port.eq(pin) if member.flow is In else pin.eq(port)
        return m


def _behind(name: str) -> bool:
    return name.startswith("core_")
