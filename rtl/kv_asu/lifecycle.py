"""When the core is active, and what time it is.

Becoming active, or a flush, empties the table a row of all banks a clock, then lets everything that was accepted under
the old settings drain. A request is decided L clocks after it was taken, so all of this is in decision time.
"""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from kv_asu.params import Params

#: The largest TICK_SHIFT.
MAX_TICK_SHIFT = 24


class State(enum.Enum):
    """From off to running, and back to clearing at a flush."""

    OFF = 0
    CLEARING = 1
    DRAINING = 2
    RUNNING = 3


class Lifecycle(wiring.Component):
    """Enable, flush, power, and the tick.

    Members
    -------
    run : In(1)
        Enabled and powered.
    flush : In(1)
    row_mask : In
        Rows in use, less one.
    tick_shift : In(5)
        A tick is ``2**tick_shift`` clocks.
    active : Out(1)
        The operation decided in this clock is decided for real.
    busy : Out(1)
        On the way to that.
    clear : Out(1), clear_row : Out
        Empty this row of every bank.
    now, ahead, far_ahead : Out(stamp_width)
        The tick of this clock, of the next and of the one after.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        row_width = params.log2_entries - params.log2_window
        super().__init__(
            {
                "run": In(1),
                "flush": In(1),
                "row_mask": In(row_width),
                "tick_shift": In(5),
                "active": Out(1),
                "busy": Out(1),
                "clear": Out(1),
                "clear_row": Out(row_width),
                "now": Out(params.stamp_width),
                "ahead": Out(params.stamp_width),
                "far_ahead": Out(params.stamp_width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        state = Signal(State)
        drain = Signal(range(self.params.latency + 1))
        about_to_run = Signal()
        last_drain = Signal()
        m.d.comb += [
            self.active.eq((state == State.RUNNING) & self.run & ~self.flush),
            self.busy.eq(self.run & ~self.active),
            self.clear.eq(state == State.CLEARING),
            about_to_run.eq((state == State.DRAINING) & (drain == self.params.latency - 1)),
            last_drain.eq((state == State.DRAINING) & (drain == self.params.latency)),
        ]
        m.d.sync += [self.clear_row.eq(0), drain.eq(0)]
        with m.If(~self.run):
            m.d.sync += state.eq(State.OFF)
        with m.Elif(self.flush | (state == State.OFF)):
            m.d.sync += state.eq(State.CLEARING)
        with m.Elif(state == State.CLEARING):
            m.d.sync += self.clear_row.eq(self.clear_row + 1)
            with m.If(self.clear_row == self.row_mask):
                m.d.sync += state.eq(State.DRAINING)
        with m.Elif(state == State.DRAINING):
            m.d.sync += drain.eq(drain + 1)
            with m.If(last_drain):
                m.d.sync += state.eq(State.RUNNING)

        # The tick is kept ahead: the fraction's carry and the tick's own never meet in one clock with its use.
        fraction = Signal(MAX_TICK_SHIFT)
        whole = Signal(MAX_TICK_SHIFT)  # the fraction's bits that count under this tick_shift, all set
        m.d.sync += whole.eq((1 << self.tick_shift) - 1)
        m.d.sync += [fraction.eq(0), self.far_ahead.eq(0), self.ahead.eq(self.far_ahead), self.now.eq(self.ahead)]
        with m.If(about_to_run | last_drain | (state == State.RUNNING)):
            m.d.sync += [fraction.eq(fraction + 1), self.far_ahead.eq(self.far_ahead + ((fraction & whole) == whole))]
        return m
