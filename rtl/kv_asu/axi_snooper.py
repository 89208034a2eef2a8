"""What an AXI4 bus carries, as the core wants to see it: one request for each 256-byte line that a burst covers.

::

    AR ─► taken ─► BurstLines ─┐
                               ├─ region? ─► queue ─► one line a clock ─► req_valid, req_addr
    AW ─► taken ─► BurstLines ─┘               └──► skipped

The snooper only listens: no signal of the bus is driven, so it can stall nothing.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from kv_asu.params import LINE_BITS
from kv_asu.tops import QUEUE_DEPTH, check_queue_depth

#: No burst crosses a boundary of 4 KiB (AMBA AXI, A3.4.1), so one page holds all of it.
PAGE_BITS = 12

#: The bits that name a line in its page.
_LINE_IN_PAGE = PAGE_BITS - LINE_BITS

SKIPPED_WIDTH = 32

#: An address channel as a listener sees it: (name, width).
CHANNEL = (("valid", 1), ("ready", 1), ("addr", 0), ("len", 8), ("size", 3), ("burst", 2))

HANDSHAKE = ("valid", "ready")


class Burst(enum.Enum, shape=2):  # type: ignore[call-arg]
    """AxBURST."""

    FIXED = 0
    INCR = 1
    WRAP = 2


def channel_members(channel: str, addr_width: int) -> dict[str, wiring.Member]:
    """The signals of an address channel, ``axi_ar`` or ``axi_aw``, all of them inputs."""
    return {f"{channel}{name}": In(width or addr_width) for name, width in CHANNEL}


def lines_layout(addr_width: int) -> data.StructLayout:
    """The lines that a burst covers: ``more + 1`` of them from ``first`` on, ``ring`` being the bits of a line's place
    in its page that change from one to the next.
    """
    return data.StructLayout(
        {
            "page": addr_width - PAGE_BITS,
            "first": _LINE_IN_PAGE,
            "more": _LINE_IN_PAGE,
            "ring": _LINE_IN_PAGE,
        }
    )


class BurstLines(wiring.Component):
    """Which lines a burst covers, each of them once, in the order in which the burst comes to them first.

    - INCR: from the line of the start address, aligned or not, up to that of the last byte. What an unlawful burst has
      beyond its 4 KiB page is left out.
    - WRAP: from the line of the start address, around the end of the burst's own block. The line in which it
      starts in the middle and to which it comes back at the end is there once.
    - FIXED: one line, whose bytes all beats go to.
    - The reserved value 3: as INCR.

    Parameters
    ----------
    addr_width : int
        Bits of an address.

    Members
    -------
    addr, len, size, burst : In(addr_width), In(8), In(3), In(2)
        The burst, as on its address channel.
    lines : Out(lines_layout(addr_width))
        Combinational.
    """

    def __init__(self, addr_width: int) -> None:
        inputs = {name: In(width or addr_width) for name, width in CHANNEL if name not in HANDSHAKE}
        super().__init__({**inputs, "lines": Out(lines_layout(addr_width))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        in_beat = Signal(7)  # the bits that name a byte inside a beat
        ahead = Signal(15)  # from the first beat's bytes to the last one's
        last_line = Signal(_LINE_IN_PAGE)
        m.d.comb += [
            in_beat.eq((1 << self.size) - 1),
            ahead.eq(self.len << self.size),
        ]
        last = (self.addr[:PAGE_BITS] | in_beat) + ahead
        lines = self.lines
        m.d.comb += [
            last_line.eq(last[LINE_BITS:PAGE_BITS] | last[PAGE_BITS:].any().replicate(_LINE_IN_PAGE)),
            lines.page.eq(self.addr[PAGE_BITS:]),
            lines.first.eq(self.addr[LINE_BITS:PAGE_BITS]),
        ]
        with m.Switch(self.burst):
            with m.Case(Burst.FIXED):
                m.d.comb += [lines.more.eq(0), lines.ring.eq(0)]
            with m.Case(Burst.WRAP):
                # 2, 4, 8 or 16 beats: the block's size less one is a mask.
                m.d.comb += [lines.more.eq(ahead[LINE_BITS:]), lines.ring.eq(ahead[LINE_BITS:])]
            with m.Default():
                m.d.comb += [lines.more.eq(last_line - lines.first), lines.ring.eq(~0)]
        return m


class AxiSnooper(wiring.Component):
    """Listens to both address channels of an AXI4 bus and asks for each line of each burst, one a clock.

    A burst counts when its address is handed over (valid and ready). Bursts are served in the order of their clocks,
    of those of one clock the read first. Identifiers, data and responses say nothing about lines, so the
    snooper fits any width of them.

    Bursts that cannot be served at once wait in a queue. One that finds it full is skipped, and with it
    the other of its clock: the bus never waits.

    Parameters
    ----------
    addr_width : int
        Bits of an address.
    queue_depth : int
        Clocks with bursts in them that can wait, 4 to 1024.

    Members
    -------
    axi_ar*, axi_aw* : In
        valid, ready, addr, len, size, burst of the two address channels.
    region_base, region_mask : In(addr_width - 12)
        The pages of 4 KiB to listen for: those that agree with the base in every bit of the mask. A mask of 0 is
        the whole bus. A bus to memory carries more than the KV cache, and what else is touched would take slots away
        from it.
    req_valid, req_addr : Out(1), Out(addr_width)
        The core's request port: the address at which the line begins.
    skipped : Out(32)
        Lines of skipped bursts since reset; stays at its highest value.

    Raises
    ------
    TypeError, ValueError
        ``queue_depth`` is no integer, or out of range.
    """

    def __init__(self, addr_width: int, queue_depth: int = QUEUE_DEPTH) -> None:
        check_queue_depth(queue_depth)
        self._addr_width = addr_width
        self._queue_depth = queue_depth
        page = addr_width - PAGE_BITS
        super().__init__(
            {
                **channel_members("axi_ar", addr_width),
                **channel_members("axi_aw", addr_width),
                "region_base": In(page),
                "region_mask": In(page),
                "req_valid": Out(1),
                "req_addr": Out(addr_width),
                "skipped": Out(SKIPPED_WIDTH),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lines = lines_layout(self._addr_width)
        layout = data.StructLayout({"reads": 1, "read": lines, "writes": 1, "write": lines})
        came = Signal(layout)
        self._hear(m, "axi_ar", came.reads, came.read)
        self._hear(m, "axi_aw", came.writes, came.write)
        m.submodules.queue = queue = SyncFIFOBuffered(width=layout.size, depth=self._queue_depth)
        m.d.comb += [
            queue.w_data.eq(came),
            queue.w_en.eq(came.reads | came.writes),
        ]
        self._serve(m, queue, data.View(layout, queue.r_data))

        lost = Signal(range(2 * (1 << _LINE_IN_PAGE) + 1))
        total = Signal(SKIPPED_WIDTH + 1)
        size = Mux(came.reads, came.read.more + 1, 0) + Mux(came.writes, came.write.more + 1, 0)
        m.d.sync += lost.eq(Mux(queue.w_rdy, 0, size))
        m.d.comb += total.eq(self.skipped + lost)
        m.d.sync += self.skipped.eq(Mux(total[-1], ~0, total))
        return m

    def _hear(self, m: Module, channel: str, valid: Value, lines: data.View) -> None:
        """A burst of the last clock, if there was one in the region, and its lines."""
        m.submodules[f"{channel.removeprefix('axi_')}_lines"] = burst = BurstLines(self._addr_width)
        for name, _ in CHANNEL:
            if name not in HANDSHAKE:
                pin = getattr(self, channel + name)
                taken = Signal.like(pin, name=f"{channel}{name}_taken", reset_less=True)
                m.d.sync += taken.eq(pin)
                m.d.comb += getattr(burst, name).eq(taken)
        handed_over = Signal(name=f"{channel}_handed_over")
        m.d.sync += handed_over.eq(getattr(self, f"{channel}valid") & getattr(self, f"{channel}ready"))
        inside = ((burst.addr[PAGE_BITS:] ^ self.region_base) & self.region_mask) == 0
        m.d.comb += [valid.eq(handed_over & inside), Value.cast(lines).eq(Value.cast(burst.lines))]

    def _serve(self, m: Module, queue: SyncFIFOBuffered, head: data.View) -> None:
        """A line a clock from the bursts at the queue's head: those of the read, then those of the write."""
        write = Signal()  # the read is done
        done = Signal(_LINE_IN_PAGE)  # lines of the present burst
        present = Signal(lines_layout(self._addr_width))
        line = Signal(_LINE_IN_PAGE)
        last = Signal()
        m.d.comb += [
            Value.cast(present).eq(Mux(write | ~head.reads, Value.cast(head.write), Value.cast(head.read))),
            line.eq((present.first & ~present.ring) | ((present.first + done) & present.ring)),
            last.eq(done == present.more),
            queue.r_en.eq(last & (write | ~(head.reads & head.writes))),
        ]
        m.d.sync += self.req_valid.eq(queue.r_rdy)
        with m.If(queue.r_rdy):
            m.d.sync += [
                self.req_addr.eq(Cat(Const(0, LINE_BITS), line, present.page)),
                done.eq(Mux(last, 0, done + 1)),
                write.eq(Mux(last, ~queue.r_en, write)),
            ]
