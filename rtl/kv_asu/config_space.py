"""The core's PCI Express capability: registers.rdl behind the configuration-extend port.

A write of clock w acts in clock w + 1; a read of clock r is answered in clock r + 1. The register file comes from
:mod:`kv_asu.register_map`; what is written here is what a table cannot say: where each status comes from, and what each
action starts.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.cfg_ext import PINS, cfg_ext_members
from kv_asu.field_actions import Operation
from kv_asu.layouts import COUNT_WIDTH, settings_layout
from kv_asu.params import LINE_BITS, Params
from kv_asu.register_file import RegisterFile
from kv_asu.register_map import REGISTERS, WINDOW_BYTES, Counter, VictimStatus


class ConfigSpace(wiring.Component):
    """The capability.

    Parameters
    ----------
    params : Params
        The build.

    Members
    -------
    cfg_ext_* : the configuration-extend port
    irq : Out(1)
        Level: an enabled bit of IRQ_STATUS is set.
    settings : Out(settings_layout(params))
        The registers that the core obeys.
    flush, snapshot, clear : Out(1)
        One clock each, in the clock after the write.
    active, busy, powered, tracked, cold, untracked_event : In
        What STATUS, TRACKED, COLD and IRQ_STATUS tell.
    counter_select : Out(4); counter_value : In(64)
        The counter to show, and its value at the last snapshot.
    query_start : Out(1); query_addr : Out(addr_width)
        A query by register: the pulse that starts it, and its address until it is done.
    query_done, query_tracked, query_tlevel, query_count : In
        Its answer, in one clock.
    evict_start : Out(1)
        An eviction by register: the pulse that starts it.
    evict_done, evict_status, evict_line : In
        Its answer, in one clock; never RETRY.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                **cfg_ext_members(),
                "irq": Out(1),
                "settings": Out(settings_layout(params)),
                "flush": Out(1),
                "snapshot": Out(1),
                "clear": Out(1),
                "active": In(1),
                "busy": In(1),
                "powered": In(1),
                "tracked": In(params.log2_entries + 1),
                "cold": In(params.log2_entries + 1),
                "untracked_event": In(1),
                "counter_select": Out(range(len(Counter))),
                "counter_value": In(64),
                "query_start": Out(1),
                "query_addr": Out(params.addr_width),
                "query_done": In(1),
                "query_tracked": In(1),
                "query_tlevel": In(2),
                "query_count": In(COUNT_WIDTH),
                "evict_start": Out(1),
                "evict_done": In(1),
                "evict_status": In(2),
                "evict_line": In(params.line_width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.registers = registers = RegisterFile(
            REGISTERS.values(), self.params, base=self.params.config_base, window=WINDOW_BYTES
        )
        for name, _, direction in PINS:
            outer, inner = getattr(self, f"cfg_ext_{name}"), getattr(registers, f"cfg_ext_{name}")
            m.d.comb += inner.eq(outer) if direction is In else outer.eq(inner)
        m.d.comb += registers.locked.eq(registers.values.ctrl.enable)
        self._settings(m, registers)
        self._core_status(m, registers)
        self._query(m, registers)
        self._evict(m, registers)
        self._interrupts(m, registers)
        return m

    def _settings(self, m: Module, registers: RegisterFile) -> None:
        """Tell the core its settings and what to do at once."""
        values, do = registers.values, registers.do
        m.d.comb += [
            self.settings.enable.eq(values.ctrl.enable),
            self.settings.decay.eq(values.ctrl.decay),
            self.settings.reclaim_off.eq(values.ctrl.reclaim_off),
            self.settings.log2_active.eq(values.geometry.log2_active),
            self.settings.line_shift.eq(values.geometry.line_shift),
            self.settings.tick_shift.eq(values.timebase.tick_shift),
            self.settings.t3_count.eq(values.t3.count),
            self.settings.t3_age.eq(values.t3.age),
            self.settings.t2_count.eq(values.t2.count),
            self.settings.t2_age.eq(values.t2.age),
            self.settings.t1_age.eq(values.t1.age),
            self.settings.hash_seed.eq(values.hash_seed.seed),
            self.counter_select.eq(values.counter_select.index),
        ]
        m.d.sync += [
            self.flush.eq(do.ctrl.flush),
            self.snapshot.eq(do.ctrl.snapshot),
            self.clear.eq(do.ctrl.clear),
        ]

    def _core_status(self, m: Module, registers: RegisterFile) -> None:
        """Show the host what the core tells all the time."""
        status = registers.status
        m.d.comb += [
            status.status.active.eq(self.active),
            status.status.busy.eq(self.busy),
            status.status.cold_available.eq(self.cold != 0),
            status.status.powered.eq(self.powered),
            status.tracked.lines.eq(self.tracked),
            status.cold.lines.eq(self.cold),
            status.counter_lo.value.eq(self.counter_value[:32]),
            status.counter_hi.value.eq(self.counter_value[32:]),
        ]

    def _query(self, m: Module, registers: RegisterFile) -> None:
        """Ask the core when QUERY is written; keep its answer."""
        values, status = registers.values, registers.status.query
        m.submodules.query = operation = Operation()
        m.d.comb += [
            operation.do.eq(registers.do.query.start),
            operation.done.eq(self.query_done),
            self.query_start.eq(operation.start),
            status.done.eq(operation.finished),
        ]
        with m.If(operation.begin):
            m.d.sync += self.query_addr.eq(Cat(values.query_lo.address, values.query_hi.address))
        answer = Cat(self.query_tracked, self.query_tlevel, self.query_count)
        kept = Signal.like(answer, name="query_answer")
        with m.If(self.query_done):
            m.d.sync += kept.eq(answer)
        m.d.comb += Cat(status.tracked, status.tlevel, status.count).eq(kept)

    def _evict(self, m: Module, registers: RegisterFile) -> None:
        """Have the core evict when EVICT is written; keep the victim."""
        status = registers.status
        m.submodules.evict = operation = Operation()
        m.d.comb += [
            operation.do.eq(registers.do.evict.start),
            operation.done.eq(self.evict_done),
            self.evict_start.eq(operation.start),
            status.evict.done.eq(operation.finished),
        ]
        victim_status = Signal.like(self.evict_status)
        victim_line = Signal.like(self.evict_line)
        with m.If(self.evict_done):
            found = self.evict_status == VictimStatus.FOUND
            m.d.sync += [victim_status.eq(self.evict_status), victim_line.eq(Mux(found, self.evict_line, 0))]
        m.d.comb += [
            status.evict.status.eq(victim_status),
            Cat(status.victim_lo.address, status.victim_hi.address).eq(victim_line << LINE_BITS),
        ]

    def _interrupts(self, m: Module, registers: RegisterFile) -> None:
        """Set the bits of IRQ_STATUS, and tell the host of those that are enabled."""
        watermark = registers.values.cold_watermark.lines
        cold_before = Signal.like(self.cold)
        m.d.sync += cold_before.eq(self.cold)
        m.d.comb += [
            registers.set.irq_status.untracked.eq(self.untracked_event),
            # No count is below a watermark of 0, so 0 is off.
            registers.set.irq_status.cold_high.eq((cold_before < watermark) & (self.cold >= watermark)),
            registers.set.irq_status.config_error.eq(registers.refused),
            self.irq.eq((registers.values.irq_status.as_value() & registers.values.irq_enable.as_value()).any()),
        ]
