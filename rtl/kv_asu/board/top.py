"""Everything on the board but its pins and its clock."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.board.bridge import Bridge
from kv_asu.board.trace_buffer import TraceBuffer
from kv_asu.board.uart import Receiver, Transmitter
from kv_asu.params import Params
from kv_asu.whole_function import WholeFunction

LOG2_DEPTH = 10


class Board(wiring.Component):
    """The core as a whole PCI function behind a serial line, with a trace memory at its request port.

    Parameters
    ----------
    params : Params
        The build of the core.
    clocks_per_bit : int
        Of the serial line, 4 or more.
    clock_khz : int
        The core's clock, for the host to know.
    log2_depth : int
        log2 of the trace memory's places.

    Members
    -------
    rx, tx : In(1), Out(1)
        The serial line.
    irq : Out(1)
        The core's interrupt.
    """

    def __init__(self, params: Params, *, clocks_per_bit: int, clock_khz: int, log2_depth: int = LOG2_DEPTH) -> None:
        self.params = params
        self._clocks_per_bit = clocks_per_bit
        self._clock_khz = clock_khz
        self._log2_depth = log2_depth
        super().__init__({"rx": In(1), "tx": Out(1, init=1), "irq": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = Receiver(self._clocks_per_bit)
        m.submodules.transmitter = transmitter = Transmitter(self._clocks_per_bit)
        m.submodules.bridge = bridge = Bridge(self.params, self._log2_depth, self._clock_khz)
        m.submodules.trace_buffer = trace = TraceBuffer(self.params, self._log2_depth)
        m.submodules.function = function = WholeFunction(self.params)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            bridge.rx_valid.eq(receiver.valid),
            bridge.rx_data.eq(receiver.data),
            transmitter.valid.eq(bridge.tx_valid),
            transmitter.data.eq(bridge.tx_data),
            bridge.tx_ready.eq(transmitter.ready),
            self.tx.eq(transmitter.tx),
            bridge.irq.eq(function.irq),
            self.irq.eq(function.irq),
            function.power_good.eq(1),
        ]
        for block, names in (
            (bridge, ("index", "store", "address", "fetched", "start", "count", "busy")),
            (trace, [name for name in trace.signature.members if name.startswith(("req_", "tag_", "spill_"))]),
            (bridge, [name for name in bridge.signature.members if name.startswith("cfg_ext_")]),
        ):
            behind = trace if names[0] == "index" else function
            for name in names:
                ours, theirs = getattr(block, name), getattr(behind, name)
                outgoing = block.signature.members[name].flow is Out
                m.d.comb += theirs.eq(ours) if outgoing else ours.eq(theirs)
        return m
