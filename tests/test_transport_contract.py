"""The contract of `transport_contract` on every transport."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import transport_contract
from kv_asu_firmware.device import Device
from live_mount import SMALL, mounted
from served_config import serve, tree
from transport_contract import BUS, CLOCKED, LIVE, PARAMS, READS, Check
from vrex.errors import VrexError
from vrex.kv_asu import KvAsu
from vrex.transports import TRANSPORTS, Bus, Transport, open_transport


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One device of `vrex mount` for all that looks at it, from another process, through the kernel."""
    folder = tmp_path_factory.mktemp("mnt")
    with mounted(folder, *SMALL) as record:
        assert record["params"] == PARAMS.asdict()
        yield folder


@pytest.fixture(scope="module")
def board() -> Iterator[str]:
    """One board for all that looks at it: its serial port."""
    pytest.importorskip("serial", reason="pyserial is not installed")
    from kv_asu_sim.board import SimulatedBoard

    with SimulatedBoard(PARAMS) as simulated:
        yield simulated.port


@pytest.fixture
def transport(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Transport]:
    """A fresh one: a bus by its name; `sysfs` over a file, dead or served by a model, or over a mount; `uart`."""
    name, _, how = request.param.partition("-")
    options: dict[str, object] = {"params": PARAMS}
    if how == "mount":
        options = {"root": request.getfixturevalue("mount")}
    elif name == "uart":
        options = {"port": request.getfixturevalue("board")}
    elif name == "sysfs":
        config = tree(tmp_path, PARAMS)
        options = {"root": tmp_path}
        if how == "served":
            serve(monkeypatch, config, Device(PARAMS))
    with open_transport(name, **options) as opened:
        yield opened


def over(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("transport", names, indirect=True)


@over("model", "rtl", "sysfs-file", "sysfs-served", "sysfs-mount", "uart")
@pytest.mark.parametrize("check", READS, ids=lambda check: check.__name__)
def test_any_config_space(transport: Transport, check: Check) -> None:
    check(transport)


@over("model", "rtl", "sysfs-served", "sysfs-mount", "uart")
@pytest.mark.parametrize("check", LIVE, ids=lambda check: check.__name__)
def test_live(transport: Transport, check: Check) -> None:
    check(transport)


@over("model", "rtl")
@pytest.mark.parametrize("check", [*BUS, *CLOCKED], ids=lambda check: check.__name__)
def test_bus(transport: Transport, check: Check) -> None:
    check(transport)


@over("model", "rtl")
def test_one_after_the_other(transport: Transport, capsys: pytest.CaptureFixture[str]) -> None:
    """As a bench runs them, on one device."""
    transport_contract.everything(transport)
    assert capsys.readouterr().out.count("held: ") == len(READS + LIVE + BUS + CLOCKED)


@over("model", "rtl", "sysfs-file", "uart")
def test_what_is_closed_does_nothing_more(transport: Transport) -> None:
    operations: list[Callable[[], object]] = [lambda: transport.read(0, 4), lambda: transport.write(4, 0, 2)]
    if isinstance(transport, Bus):
        bus = transport
        operations += [
            lambda: bus.observe([256]),
            lambda: bus.query_lines([256]),
            lambda: bus.evict_lines(1),
            lambda: bus.idle(1),
            lambda: setattr(bus, "power_good", True),
            lambda: KvAsu(bus),
        ]
        clock = bus.clock
    transport.close()
    transport.close()
    for operation in operations:
        with pytest.raises(ValueError, match=f"^{re.escape(str(transport))}: this transport is closed$"):
            operation()
    assert not isinstance(transport, Bus) or transport.clock == clock


def test_nothing_is_lost_from_a_closed_recording(tmp_path: Path) -> None:
    with KvAsu.open("model", params=PARAMS, record=tmp_path / "x.parquet") as asu:
        asu.enable()
    with pytest.raises(ValueError, match="the device model: this transport is closed"):
        asu.bus.observe([256])


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param(
            "icarus", marks=pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")
        ),
        pytest.param("verilator", marks=pytest.mark.slow),
    ],
)
def test_in_a_bench(simulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cocotb`: the same functions, inside a simulator, on the pins of the exported Verilog."""
    pytest.importorskip("cocotb", reason="cocotb is not installed")
    from kv_asu_sim.runner import run_host

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    folder = run_host(PARAMS, simulator, "transport_contract:everything", seed=1)
    log = (folder / "run.log").read_text()
    for check in (*READS, *LIVE, *BUS, *CLOCKED):
        assert f"held: {check.__name__}" in log


def test_a_bench_fails_when_the_host_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cocotb", reason="cocotb is not installed")
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    from kv_asu_sim.runner import BenchFailed, run_host

    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with pytest.raises(BenchFailed, match="1 of 1 tests failed"):
        run_host(PARAMS, "icarus", "transport_contract:raises", seed=1)


def test_the_known_transports_are_named() -> None:
    with pytest.raises(ValueError, match="transport must be one of model, rtl, sysfs, cocotb, uart, not 'usb'"):
        open_transport("usb")
    with pytest.raises(TypeError, match="seed"):
        open_transport("model", seed=3)
    with pytest.raises(TypeError, match=r"params or its fields \(window\), not both"):
        open_transport("model", params=PARAMS, window=4)
    with pytest.raises(ValueError, match="window must be"):
        open_transport("model", window=3)
    assert list(TRANSPORTS) == ["model", "rtl", "sysfs", "cocotb", "uart"]


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("rtl", "numpy", "numpy is not installed: run `.*` in V-Rex's folder, or use model"),
        (
            "cocotb",
            "cocotb.task",
            "the cocotb transport cannot be loaded: cocotb is not installed: run `",
        ),
        ("uart", "serial", "the uart transport cannot be loaded: serial is not installed: run `"),
    ],
)
def test_what_is_missing_is_named(name: str, missing: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kv_asu_sim.compiled", "kv_asu_sim.build"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"vrex.transports.{name}", raising=False)
    with pytest.raises(VrexError, match=message):
        open_transport(name)
