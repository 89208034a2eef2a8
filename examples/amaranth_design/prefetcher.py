"""The KV-ASU inside an Amaranth design: ``python examples/amaranth_design/prefetcher.py [-o prefetcher.v]``.

A row prefetcher: when a line turns hot, its neighbour is asked for, unless the core says that it is hot already.
"""

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("prefetcher: this Python has no V-Rex: `make setup`, then start it with .venv/bin/python")
    arm("prefetcher")

from amaranth.back import verilog
from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator, SimulatorContext

from kv_asu.core import KvAsu
from kv_asu.params import Params

HOT = 3
BYTES = 256
CLOCK = 2e-9


class RowPrefetcher(wiring.Component):
    """Watches requests and asks for the line behind a hot one.

    Parameters
    ----------
    params : Params
        The core's build.

    Members
    -------
    enable : In(1)
        Switches the core on: one clock.
    seen_valid, seen_addr : In(1), In(64)
        A request on the memory bus.
    wanted_valid, wanted_addr : Out(1), Out(64)
        A line to prefetch, for one clock.
    """

    enable: In(1)
    seen_valid: In(1)
    seen_addr: In(64)
    wanted_valid: Out(1)
    wanted_addr: Out(64)

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.params = params

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.asu = asu = KvAsu(self.params)

        m.d.comb += [
            asu.req_valid.eq(self.seen_valid),
            asu.req_addr.eq(self.seen_addr),
            asu.power_good.eq(1),
            # CTRL.ENABLE; a host would write this through config space.
            asu.cfg_ext_write_received.eq(self.enable),
            asu.cfg_ext_register_number.eq((self.params.config_base + 8) // 4),
            asu.cfg_ext_write_data.eq(1),
            asu.cfg_ext_write_byte_enable.eq(0b1111),
        ]

        # A request that makes its line hot: its answer, registered, asks about the next line.
        neighbour = Signal(64, reset_less=True)
        m.d.sync += [
            asu.query_valid.eq(asu.tag_valid & (asu.tag_after == HOT) & (asu.tag_before != HOT)),
            neighbour.eq(Cat(Const(0, 8), asu.tag_line + 1)),
        ]
        m.d.comb += [asu.query_addr.eq(neighbour), asu.query_min_tlevel.eq(HOT)]
        # Answers come L clocks after their query, in order: the address waits beside them.
        address = neighbour
        for stage in range(self.params.latency):
            waiting = Signal(64, name=f"neighbour_{stage}", reset_less=True)
            m.d.sync += waiting.eq(address)
            address = waiting
        m.d.comb += [
            self.wanted_valid.eq(asu.answer_valid & ~asu.answer_hit),
            self.wanted_addr.eq(address),
        ]
        return m


def simulate(design: RowPrefetcher, addresses: list[int]) -> list[int]:
    """The prefetches that requests, one a clock, lead to."""
    wanted: list[int] = []

    async def bench(ctx: SimulatorContext) -> None:
        await ctx.tick()
        ctx.set(design.enable, 1)
        await ctx.tick()
        ctx.set(design.enable, 0)
        await ctx.tick().repeat(design.params.rows + 16)  # the table is emptied, a row of every bank a clock
        for address in [*addresses, *[None] * (2 * design.params.latency + 1)]:
            ctx.set(design.seen_valid, address is not None)
            ctx.set(design.seen_addr, address or 0)
            _, _, valid, line = await ctx.tick().sample(design.wanted_valid, design.wanted_addr)
            if valid:
                wanted.append(line)

    simulator = Simulator(design)
    simulator.add_clock(CLOCK)
    simulator.add_testbench(bench)
    simulator.run()
    return wanted


def main() -> None:
    """Simulate five touches of one line, and write the design's Verilog if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="write the design as Verilog")
    options = parser.parse_args()
    design = RowPrefetcher(Params(log2_entries=4, window=4))
    wanted = simulate(design, [0x8000_0000] * 5)
    print("wanted:", ", ".join(map(hex, wanted)))
    assert wanted == [0x8000_0000 + BYTES]
    if options.output:
        print("writing the Verilog, some seconds ...", flush=True)
        options.output.write_text(verilog.convert(RowPrefetcher(Params.fpga())))
        print(options.output)


if __name__ == "__main__":
    main()
