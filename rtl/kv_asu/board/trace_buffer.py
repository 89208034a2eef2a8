"""A memory of requests that are replayed one a clock, and a memory of the answers to them."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from kv_asu.board.protocol import TAG_DATA
from kv_asu.params import Params

#: Bits of a captured answer.
TAG_BITS = 8 * TAG_DATA.size

#: What a captured answer holds, in the order of `TAG_DATA`: (pin, bits it has there).
_FIELDS = (
    ("tag_tracked", 1),
    ("tag_hit", 1),
    ("spill_valid", 6),
    ("tag_before", 2),
    ("tag_after", 6),
    ("tag_count", 16),
    ("tag_slot", 16),
    ("tag_stamp", 16),
    ("tag_line", 56),
    ("spill_line", 56),
)


class TraceBuffer(wiring.Component):
    """Addresses are stored one by one, replayed in one go, and the answers fetched one by one.

    Parameters
    ----------
    params : Params
        The build of the core.
    log2_depth : int
        log2 of the places.

    Members
    -------
    index : In(log2_depth)
        Which place.
    store, address : In(1), In(addr_width)
        Put an address there.
    fetched : Out(TAG_BITS)
        The answer captured there, two clocks after ``index``.
    start, count : In(1), In(log2_depth + 1)
        Replay so many places from the first on; 0: none.
    busy : Out(1)
        From the clock after ``start`` until the last answer is there.
    req_valid, req_addr, tag_*, spill_*
        The core's pins, seen from outside.
    """

    def __init__(self, params: Params, log2_depth: int) -> None:
        self._log2_depth = log2_depth
        self._addr_width = params.addr_width
        widths = {"tag_count": 16, "tag_slot": params.log2_entries, "tag_stamp": params.stamp_width}
        widths |= dict.fromkeys(("tag_line", "spill_line"), params.line_width)
        widths |= dict.fromkeys(("tag_before", "tag_after"), 2)
        super().__init__(
            {
                "index": In(log2_depth),
                "store": In(1),
                "address": In(params.addr_width),
                "fetched": Out(TAG_BITS),
                "start": In(1),
                "count": In(log2_depth + 1),
                "busy": Out(1),
                "req_valid": Out(1),
                "req_addr": Out(params.addr_width),
                "tag_valid": In(1),
                **{name: In(widths.get(name, 1)) for name, _ in _FIELDS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = 1 << self._log2_depth
        m.submodules.requests = requests = Memory(shape=self._addr_width, depth=depth, init=[])
        m.submodules.answers = answers = Memory(shape=TAG_BITS, depth=depth, init=[])
        stored, next_request = requests.write_port(), requests.read_port()
        captured, fetched = answers.write_port(), answers.read_port()
        to_send = Signal(self._log2_depth + 1)
        to_come = Signal(self._log2_depth + 1)
        place = Signal(self._log2_depth)
        came = Signal(self._log2_depth)
        read = Signal()

        m.d.comb += [
            stored.en.eq(self.store),
            stored.addr.eq(self.index),
            stored.data.eq(self.address),
            next_request.addr.eq(place),
            fetched.addr.eq(self.index),
            self.busy.eq(to_come != 0),
        ]
        m.d.sync += [
            self.fetched.eq(fetched.data),
            read.eq(to_send != 0),
            self.req_valid.eq(read),
            self.req_addr.eq(next_request.data),
        ]
        with m.If(self.start):
            m.d.sync += [to_send.eq(self.count), to_come.eq(self.count), place.eq(0), came.eq(0)]
        with m.Else():
            with m.If(to_send != 0):
                m.d.sync += [to_send.eq(to_send - 1), place.eq(place + 1)]
            with m.If(captured.en):
                m.d.sync += [to_come.eq(to_come - 1), came.eq(came + 1)]

        # A clock of its own between the core's answer and the memory.
        layout = data.StructLayout(dict(_FIELDS))
        answer = Signal(layout, reset_less=True)
        answered = Signal()
        m.d.sync += answered.eq(self.tag_valid & (to_come != 0))
        m.d.sync += [Value.cast(answer[name]).eq(getattr(self, name)) for name, _ in _FIELDS]
        m.d.comb += [captured.en.eq(answered), captured.addr.eq(came), captured.data.eq(answer)]
        return m
