"""The ULX3S with an LFE5U-85F: clock, pins, bitstream."""

from __future__ import annotations

import json
import os
from pathlib import Path

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from kv_asu.board.top import Board
from kv_asu.errors import ToolError
from kv_asu.params import Params
from kv_asu.timing import tools

BAUDRATE = 1_000_000

#: The crystal's 25 MHz, divided, times what brings the oscillator to 600 MHz, divided again: 40 MHz. The core closes
#: at about 60 MHz in speed grade 8; this board has grade 6.
CLOCK_KHZ = 40_000
_PLL = {"CLKI_DIV": 5, "CLKFB_DIV": 8, "CLKOP_DIV": 15}

_NAME = "kv_asu_board"
_REPORT = "report.json"


class Platform(ULX3S_85F_Platform):
    """The board, to be built for; whoever loads the bitstream needs openFPGALoader or the like."""

    @property
    def required_tools(self) -> list[str]:
        return [tool for tool in super().required_tools if tool != "openFPGALoader"]


class Ulx3s(Elaboratable):
    """`Board` at the board's USB serial port, with button FIRE 1 as its reset; LEDs: clock locked, irq, line busy."""

    def __init__(self, params: Params) -> None:
        self._board = Board(params, clocks_per_bit=CLOCK_KHZ * 1000 // BAUDRATE, clock_khz=CLOCK_KHZ)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        locked = Signal()
        self._clock(m, platform, locked)
        m.submodules.board = board = self._board
        uart = platform.request("uart", 0, dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.rx = rx = io.Buffer("i", uart.rx)
        m.submodules.tx = tx = io.Buffer("o", uart.tx)
        m.d.comb += [board.rx.eq(rx.i), tx.o.eq(board.tx)]
        for index, level in enumerate((locked, board.irq, ~rx.i)):
            m.submodules[f"led{index}"] = led = io.Buffer("o", platform.request("led", index, dir="-"))
            m.d.comb += led.o.eq(level)
        return m

    def _clock(self, m: Module, platform: Platform, locked: Signal) -> None:
        m.domains.sync = ClockDomain()
        m.submodules.crystal = crystal = io.Buffer("i", platform.request("clk25", dir="-"))
        m.submodules.button = button = io.Buffer("i", platform.request("button_fire", 0, dir="-"))
        feedback = Signal()
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI="25",
            a_FREQUENCY_PIN_CLKOP=str(CLOCK_KHZ // 1000),
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            **{f"p_{name}": value for name, value in _PLL.items()},
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_CPHASE=_PLL["CLKOP_DIV"] // 2,
            p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="INT_OP",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            **{f"p_OUTDIVIDER_MUX{output}": f"DIV{output}" for output in "ABCD"},
            i_CLKI=crystal.i,
            i_CLKFB=feedback,
            o_CLKINTFB=feedback,
            o_CLKOP=ClockSignal(),
            o_LOCK=locked,
            **{f"i_{name}": Const(0) for name in ("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PLLWAKESYNC", "ENCLKOP")},
            **{f"i_{name}": Const(1) for name in ("PHASEDIR", "PHASESTEP", "PHASELOADREG")},
        )
        m.submodules.reset = ResetSynchronizer(~locked | button.i)


def build(folder: Path, params: Params, *, seed: int = 1, say: tools.Say = tools.silent) -> str:
    """Make the bitstream ``kv_asu_board.bit`` (and ``.svf``).

    Parameters
    ----------
    folder : Path
        Where everything goes.
    params : Params
        The build of the core.
    seed : int
        nextpnr's.

    Returns
    -------
    str
        What came of it: the clock after route, and how much of the part is used.

    Raises
    ------
    ToolError
        A tool is missing or fails, or the clock is too slow for the board.
    """
    for variable, name in (("YOSYS", "yosys"), ("NEXTPNR_ECP5", "nextpnr-ecp5"), ("ECPPACK", "ecppack")):
        os.environ[variable] = tools.find(f"yowasp-{name}")
    say("generating the gateware")
    plan = Platform().build(
        Ulx3s(params),
        name=_NAME,
        do_build=False,
        synth_opts="-abc9",
        # The default router does not end on a design this dense in block RAMs.
        nextpnr_opts=f"--seed {seed} --router router2 --threads 1 --timing-allow-fail --report {_REPORT}",
    )
    folder.mkdir(parents=True, exist_ok=True)
    plan.extract(str(folder))
    say("synthesis, place and route: ten minutes or more")
    tools.call(["sh", f"{plan.script}.sh"], folder, _NAME)
    report = json.loads((folder / _REPORT).read_text())
    mhz = min(clock["achieved"] for clock in report["fmax"].values())
    kinds = ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "EHXPLLL")
    used = ", ".join(f"{kind} {report['utilization'][kind]['used']}" for kind in kinds)
    if mhz * 1000 < CLOCK_KHZ:
        raise ToolError(f"only {mhz:.1f} of the board's {CLOCK_KHZ / 1000:g} MHz were reached; try another --seed")
    return f"{folder / _NAME}.bit: {mhz:.1f} MHz after route, {CLOCK_KHZ / 1000:g} wanted; {used}"
