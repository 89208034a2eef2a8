"""The core as a whole PCI function: with the config space around it that a hard block would otherwise keep."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.cfg_ext import PINS
from kv_asu.core import KvAsu
from kv_asu.full_config_space import FullConfigSpace
from kv_asu.params import Params


class WholeFunction(wiring.Component):
    """The core behind :class:`~kv_asu.full_config_space.FullConfigSpace`.

    In D3hot the core has no power: it is not active and STATUS.POWERED reads 0, whatever ``power_good`` says.

    Parameters
    ----------
    params : Params
        The build of the core.

    Members
    -------
    The core's pins, of which ``cfg_ext_*`` reach every register of the function, and
    msi_valid : Out(1), msi_address : Out(64), msi_data : Out(16)
        The message for ``irq``, as FullConfigSpace has it.

    Raises
    ------
    ValueError
        The core's capability would overlap the standard ones, or link to another behind it.
    """

    def __init__(self, params: Params) -> None:
        self._core = KvAsu(params)
        self._outer = FullConfigSpace(params)
        messages = {name: self._outer.signature.members[name] for name in ("msi_valid", "msi_address", "msi_data")}
        super().__init__({**self._core.signature.members, **messages})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.full_config_space = outer = self._outer
        for name, member in core.signature.members.items():
            inside = outer if name.startswith("cfg_ext_") else core
            self._connect(m, inside, name, member.flow)
        for name in ("msi_valid", "msi_address", "msi_data"):
            self._connect(m, outer, name, Out)
        for name, _, direction in PINS:
            behind, pin = getattr(outer, f"core_cfg_ext_{name}"), getattr(core, f"cfg_ext_{name}")
            m.d.comb += pin.eq(behind) if direction is In else behind.eq(pin)
        m.d.comb += [
            outer.irq.eq(core.irq),
            core.power_good.eq(self.power_good & ~outer.sleeping),
        ]
        return m

    def _connect(self, m: Module, inside: wiring.Component, name: str, flow: object) -> None:
        if name == "power_good":  # gated by the power state
            return
        pin, port = getattr(self, name), getattr(inside, name)
        m.d.comb += port.eq(pin) if flow is In else pin.eq(port)
