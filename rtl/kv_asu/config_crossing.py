"""Config space in a clock of its own: one access at a time over two toggles.

::

      cfg_clk                                     ┊                                     clk
    cfg_ext_* ─► queue ─► held ───────────────────┊─────────────► request ─► core_cfg_ext_* (one clock)
                            toggle ───────────────┊─► ▷▷ ─► other than done: a new access
    cfg_ext_read_data* ◄────────────── answer ◄───┊────────────── answer ◄── core_cfg_ext_read_data*
                  done as toggle ◄─ ◁◁ ◄──────────┊────────────── done
    irq ◄─ ◁◁ ◄───────────────────────────────────┊────────── interrupt ◄─ core_irq

The argument why this is safe is in docs/clock_crossing.md.
"""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from kv_asu.cfg_ext import PINS, REGISTER_NUMBER_WIDTH, cfg_ext_members
from kv_asu.params import Params
from kv_asu.register_map import WINDOW_BYTES

#: The clock domain of the config port: ``cfg_clk``, ``cfg_rst``.
DOMAIN = "cfg"

#: Accesses that can wait.
DEPTH = 8

ALL_ONES = (1 << 32) - 1

_ACCESS = data.StructLayout(
    {"read": 1, "write": 1, "register_number": REGISTER_NUMBER_WIDTH, "write_data": 32, "write_byte_enable": 4}
)


class ConfigCrossing(wiring.Component):
    """Hands accesses for the core's window over to the core's clock, and answers and ``irq`` back.

    Writes and reads keep their order. A read is answered once, some clocks of both sides later; until then, and in the
    clock of the answer, a read of the same register is the same read. Accesses to anything else are left to
    others, as the core itself leaves them.

    Either side may be reset alone. A reset of the config side forgets what waits, and the answer to what is being
    done; what has been handed over is done, once. While the core is reset reads give all ones, as PCI has it for a
    device that is not there, and writes are lost.

    Parameters
    ----------
    params : Params
        The build of the core.

    Members
    -------
    cfg_ext_*, irq : of ``cfg_clk``
        As the core's.
    cfg_dropped : Out(1), of ``cfg_clk``
        An access came while `DEPTH` others waited and was lost; since the reset of that side.
    core_cfg_ext_*, core_irq : of ``clk``
        The other side of the core's.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                **cfg_ext_members(),
                "irq": Out(1),
                "cfg_dropped": Out(1),
                **cfg_ext_members("core_cfg_ext_", flip=True),
                "core_irq": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Without reset, so that what one side has been told stays true when the other is reset.
        held = Signal(_ACCESS, reset_less=True)
        toggle = Signal(reset_less=True)
        done = Signal(reset_less=True)
        answer = Signal(32, reset_less=True)
        toggle_seen = Signal()
        done_seen = Signal()
        m.submodules.toggle_synchroniser = FFSynchronizer(toggle, toggle_seen)
        m.submodules.done_synchroniser = FFSynchronizer(done, done_seen, o_domain=DOMAIN)
        interrupt = Signal()  # what crosses comes from a register: a spike would be as good as an interrupt
        m.d.sync += interrupt.eq(self.core_irq)
        m.submodules.irq_synchroniser = FFSynchronizer(interrupt, self.irq, o_domain=DOMAIN)
        self._config_side(m, held, toggle, done_seen, answer)
        self._core_side(m, held, toggle_seen, done, answer)
        return m

    def _config_side(self, m: Module, held: data.View, toggle: Signal, done: Signal, answer: Signal) -> None:
        m.submodules.queue = queue = DomainRenamer(DOMAIN)(SyncFIFO(width=_ACCESS.size, depth=DEPTH))
        head = data.View(_ACCESS, queue.r_data)
        came = Signal(_ACCESS)
        wanted = Signal()
        asked = Signal(REGISTER_NUMBER_WIDTH)
        reads = Signal(range(DEPTH + 2))  # that wait for their answers
        busy = Signal()
        was_busy = Signal()
        hand_over = Signal()
        answered = Signal()
        awaited = Signal()  # the answer to what is held

        first = self.params.config_base >> 2
        mine = (self.cfg_ext_function_number == self.params.function) & (
            (self.cfg_ext_register_number - first)[:REGISTER_NUMBER_WIDTH] < WINDOW_BYTES // 4
        )
        same = (self.cfg_ext_register_number == asked) & ((reads != 0) | self.cfg_ext_read_data_valid)
        m.d.comb += [
            came.read.eq(self.cfg_ext_read_received & mine & ~same),
            came.write.eq(self.cfg_ext_write_received & mine),
            came.register_number.eq(self.cfg_ext_register_number),
            came.write_data.eq(self.cfg_ext_write_data),
            came.write_byte_enable.eq(self.cfg_ext_write_byte_enable),
            wanted.eq(came.read | came.write),
            queue.w_data.eq(came),
            queue.w_en.eq(wanted),
            busy.eq(toggle != done),
            queue.r_en.eq(~busy),
            hand_over.eq(queue.r_rdy & ~busy),
            answered.eq(was_busy & ~busy & awaited),
        ]
        accepted = came.read & queue.w_rdy
        with m.If(accepted):
            m.d.cfg += asked.eq(self.cfg_ext_register_number)
        with m.If(wanted & ~queue.w_rdy):
            m.d.cfg += self.cfg_dropped.eq(1)
        with m.If(hand_over):
            m.d.cfg += [held.eq(head), toggle.eq(~toggle), awaited.eq(head.read)]
        m.d.cfg += [
            was_busy.eq(busy),
            reads.eq(reads + accepted - answered),
            self.cfg_ext_read_data_valid.eq(answered),
            self.cfg_ext_read_data.eq(Mux(answered, answer, 0)),
        ]

    def _core_side(self, m: Module, held: data.View, toggle: Signal, done: Signal, answer: Signal) -> None:
        request = Signal(_ACCESS, reset_less=True)
        given = Signal()  # to the core
        ends = Signal()
        new = Signal()
        absent = Signal()  # the core is being reset
        m.d.comb += [
            new.eq((toggle != done) & ~given & ~ends),
            absent.eq((toggle != done) & ResetSignal()),
        ]
        with m.If(new):
            m.d.sync += Value.cast(request).eq(Value.cast(held))
        m.d.sync += [given.eq(new), ends.eq(given)]
        fields = request.shape().members
        for name, _, direction in PINS:
            if direction is Out:
                continue
            pin = getattr(self, f"core_cfg_ext_{name}")
            field = name.removesuffix("_received")
            if field in ("read", "write"):
                m.d.comb += pin.eq(given & request[field])
            else:
                m.d.comb += pin.eq(request[field] if field in fields else self.params.function)
        with m.If(absent):
            m.d.sync += [done.eq(toggle), answer.eq(ALL_ONES)]
        with m.Elif(ends):
            m.d.sync += [
                done.eq(toggle),
                answer.eq(Mux(self.core_cfg_ext_read_data_valid, self.core_cfg_ext_read_data, ALL_ONES)),
            ]
