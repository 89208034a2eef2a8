"""The core on an AXI4 bus: module ``kv_asu_axi``."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from kv_asu.axi_snooper import AxiSnooper
from kv_asu.tops import QUEUE_DEPTH

#: What takes the place of the core's request port.
_REQUEST = ("req_valid", "req_addr")


class AxiTop(wiring.Component):
    """A core with :class:`~kv_asu.axi_snooper.AxiSnooper` at its request port.

    A request enters the core four clocks after the handshake of its burst, or later when others are before it.

    Parameters
    ----------
    core : KvAsu or WholeFunction
        The core; its address width is that of the bus.
    queue_depth : int
        As `AxiSnooper` has it.

    Members
    -------
    The core's pins but for ``req_valid`` and ``req_addr``; instead of them those by which the snooper listens, and its
    ``skipped``.

    Raises
    ------
    TypeError, ValueError
        As `AxiSnooper`.
    """

    def __init__(self, core: wiring.Component, queue_depth: int = QUEUE_DEPTH) -> None:
        self._core = core
        self._snooper = AxiSnooper(len(core.req_addr), queue_depth)
        taps = {name: member for name, member in self._snooper.signature.members.items() if name not in _REQUEST}
        kept = {name: member for name, member in core.signature.members.items() if name not in _REQUEST}
        super().__init__({**taps, **kept})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.snooper = snooper = self._snooper
        for name in _REQUEST:
            m.d.comb += getattr(core, name).eq(getattr(snooper, name))
        for name, member in self.signature.members.items():
            pin, port = getattr(self, name), getattr(snooper if hasattr(snooper, name) else core, name)
            m.d.comb += port.eq(pin) if member.flow is In else pin.eq(port)
        return m
