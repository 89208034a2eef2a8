"""Frames from a serial line to accesses of the core and its trace memory, and answers back (docs/board.md)."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.crc.catalog import CRC16_IBM_3740
from amaranth.lib.wiring import In, Out

from kv_asu.board.protocol import (
    ANSWER,
    ANSWER_DATA_BYTES,
    ANSWER_SYNC,
    HELLO_DATA,
    MAGIC,
    REQUEST,
    REQUEST_SYNC,
    VERSION,
    Code,
    Kind,
)
from kv_asu.board.trace_buffer import TAG_BITS
from kv_asu.cfg_ext import cfg_ext_members
from kv_asu.params import Params

_REQUEST = data.StructLayout({"kind": 8, "sequence": 8, "index": 16, "enable": 8, "data": 64})
_ANSWER = data.StructLayout({"code": 7, "irq": 1, "sequence": 8, "data": 8 * ANSWER_DATA_BYTES})


class Bridge(wiring.Component):
    """Takes a request, does it, answers it; what comes in the meantime is not heard.

    A request whose check is wrong is as if it had not come. One with the sequence number of the last is not done again:
    its answer is sent once more. HELLO alone is always done; it changes nothing.

    Parameters
    ----------
    params : Params
        The build of the core.
    log2_depth : int
        log2 of the trace memory's places.
    clock_khz : int
        The core's clock, as HELLO tells it.

    Members
    -------
    rx_valid, rx_data : In(1), In(8)
        A byte from the line.
    tx_valid, tx_ready, tx_data : Out(1), In(1), Out(8)
        A byte for the line.
    irq : In(1)
        Goes with every answer.
    cfg_ext_*
        The config port, seen from outside.
    index, store, address, fetched, start, count, busy
        The trace memory's, see `kv_asu.board.trace_buffer.TraceBuffer`.
    """

    def __init__(self, params: Params, log2_depth: int, clock_khz: int) -> None:
        self._function = params.function
        self._log2_depth = log2_depth
        self._hello = HELLO_DATA.pack(MAGIC, VERSION, log2_depth, clock_khz)
        super().__init__(
            {
                "rx_valid": In(1),
                "rx_data": In(8),
                "tx_valid": Out(1),
                "tx_ready": In(1),
                "tx_data": Out(8),
                "irq": In(1),
                **cfg_ext_members(flip=True),
                "index": Out(log2_depth),
                "store": Out(1),
                "address": Out(params.addr_width),
                "fetched": In(TAG_BITS),
                "start": Out(1),
                "count": Out(log2_depth + 1),
                "busy": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        request = Signal(_REQUEST, reset_less=True)
        answer = Signal(_ANSWER, reset_less=True)
        last = Signal(8)  # the sequence number of `answer`
        any_last = Signal()
        left = Signal(range(max(REQUEST.size, ANSWER.size) + 1))
        m.submodules.check = crc = CRC16_IBM_3740().create()
        self._outputs(m, request)

        # An index that no place has, or no register.
        places = 1 << self._log2_depth
        no_place = request.index >= places
        beyond = Signal()
        known = Signal()
        with m.Switch(request.kind):
            with m.Case(Kind.HELLO):
                m.d.comb += known.eq(1)
            with m.Case(Kind.READ, Kind.WRITE):
                m.d.comb += [known.eq(1), beyond.eq(request.index >= 1 << len(self.cfg_ext_register_number))]
            with m.Case(Kind.STORE, Kind.FETCH):
                m.d.comb += [known.eq(1), beyond.eq(no_place)]
            with m.Case(Kind.REPLAY):
                m.d.comb += [known.eq(1), beyond.eq(request.index > places)]

        def answered(value: Value | int) -> None:
            m.d.sync += answer.data.eq(value)
            m.next = "sync"

        def send(byte: Value | int, then: str) -> None:
            m.d.comb += [self.tx_valid.eq(1), self.tx_data.eq(byte)]
            with m.If(self.tx_ready):
                m.next = then

        with m.FSM():
            with m.State("wait"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += left.eq(REQUEST.size)
                with m.If(self.rx_valid & (self.rx_data == REQUEST_SYNC)):
                    m.next = "take"
            with m.State("take"):
                m.d.comb += [crc.valid.eq(self.rx_valid), crc.data.eq(self.rx_data)]
                with m.If(self.rx_valid):
                    m.d.sync += [
                        Value.cast(request).eq(Cat(Value.cast(request)[8:], self.rx_data)),
                        left.eq(left - 1),
                    ]
                    with m.If(left == 1):
                        m.next = "check high"
            for state, then in (("check high", "check low"), ("check low", "judge")):
                with m.State(state):
                    m.d.comb += [crc.valid.eq(self.rx_valid), crc.data.eq(self.rx_data)]
                    with m.If(self.rx_valid):
                        m.next = then
            with m.State("judge"):
                with m.If(~crc.match_detected):
                    m.next = "wait"
                with m.Elif(any_last & (request.sequence == last) & (request.kind != Kind.HELLO)):
                    m.next = "sync"
                with m.Else():
                    m.d.sync += [
                        last.eq(request.sequence),
                        any_last.eq(1),
                        answer.sequence.eq(request.sequence),
                        answer.code.eq(Mux(known, Mux(beyond, Code.RANGE, Code.OK), Code.UNKNOWN)),
                        answer.data.eq(0),
                    ]
                    m.next = "sync"
                    with m.If(known & ~beyond):
                        m.next = "do"
            with m.State("do"):
                m.next = "sync"
                with m.Switch(request.kind):
                    with m.Case(Kind.HELLO):
                        answered(int.from_bytes(self._hello, "little"))
                    with m.Case(Kind.READ):
                        m.d.comb += self.cfg_ext_read_received.eq(1)
                        m.next = "read"
                    with m.Case(Kind.WRITE):
                        m.d.comb += self.cfg_ext_write_received.eq(1)
                    with m.Case(Kind.STORE):
                        m.d.comb += self.store.eq(1)
                    with m.Case(Kind.REPLAY):
                        m.d.comb += self.start.eq(1)
                        m.next = "replay"
                    with m.Case(Kind.FETCH):
                        m.next = "fetch"
            with m.State("read"):
                answered(Mux(self.cfg_ext_read_data_valid, self.cfg_ext_read_data, C(0xFFFF_FFFF, 32)))
            with m.State("fetch"):
                m.next = "fetched"
            with m.State("fetched"):
                answered(self.fetched)
            with m.State("replay"), m.If(~self.busy):
                m.next = "sync"

            with m.State("sync"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += [left.eq(ANSWER.size), answer.irq.eq(self.irq)]
                send(ANSWER_SYNC, "send")
            with m.State("send"):
                byte = Value.cast(answer)[:8]
                m.d.comb += [crc.data.eq(byte), crc.valid.eq(self.tx_ready)]
                send(byte, "send")
                with m.If(self.tx_ready):
                    # Around, so that the answer is there to be sent again.
                    m.d.sync += [
                        Value.cast(answer).eq(Cat(Value.cast(answer)[8:], byte)),
                        left.eq(left - 1),
                    ]
                    with m.If(left == 1):
                        m.next = "send high"
            with m.State("send high"):
                send(crc.crc[8:], "send low")
            with m.State("send low"):
                send(crc.crc[:8], "wait")
        return m

    def _outputs(self, m: Module, request: data.View) -> None:
        """What those behind the bridge are told, with the strobes that the states give."""
        m.d.comb += [
            self.cfg_ext_register_number.eq(request.index),
            self.cfg_ext_function_number.eq(self._function),
            self.cfg_ext_write_data.eq(request.data),
            self.cfg_ext_write_byte_enable.eq(request.enable),
            self.index.eq(request.index),
            self.address.eq(request.data),
            self.count.eq(request.index),
        ]
