"""The core behind the root complex of cocotbext-pcie, in a simulator: enumerated, programmed and heard by TLPs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live_mount import skip_without_fuse
from transport_contract import BUS, LIVE, PARAMS, READS

pytest.importorskip("cocotbext.pcie", reason="cocotbext-pcie is not installed")

from kv_asu_sim import runner
from kv_asu_sim.build import whole_function_verilog
from kv_asu_sim.runner import BenchFailed, run_host

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")

CHECKS = [check.__name__ for check in (*READS, *LIVE, *BUS)] + ["the_interrupt_is_a_message"]


@pytest.fixture(autouse=True)
def host_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the simulator find what it is to run."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.parametrize(
    ("simulator", "way"),
    [
        pytest.param("icarus", "root complex", marks=needs_icarus),
        pytest.param("icarus", "hard block", marks=needs_icarus),
        pytest.param("verilator", "root complex", marks=pytest.mark.slow),
        pytest.param("verilator", "hard block", marks=pytest.mark.slow),
    ],
)
def test_by_config_tlps(simulator: str, way: str) -> None:
    folder = run_host(PARAMS, simulator, "transport_contract:by_tlps", way=way, seed=1)
    log = (folder / "run.log").read_text()
    assert [check for check in CHECKS if f"held: {check}" not in log] == []


@needs_icarus
@pytest.mark.skipif(shutil.which("setpci") is None, reason="pciutils is not installed")
def test_from_setpci_to_the_pins() -> None:
    """setpci, the kernel, the mount, a config TLP, the pins of the Verilog, and back."""
    skip_without_fuse()
    run_host(PARAMS, "icarus", "mounted_bench:setpci_reaches_the_pins", way="root complex", seed=1)


@needs_icarus
@pytest.mark.parametrize(
    ("pin", "value", "message"),
    [
        ("cfg_ext_read_data_valid", "1'b0", "no answer to a read of DWORD"),
        ("cfg_ext_read_data", "32'h0", "AssertionError"),
        ("msi_valid", "1'b0", "assert transport.messages == before + 1"),
    ],
)
def test_planted_faults(pin: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = whole_function_verilog(PARAMS)
    top = text.index("module kv_asu (")
    end = text.index("endmodule", top)
    faulty = f"{text[:end]}  initial begin #5; force {pin} = {value}; end\n{text[end:]}"
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    with pytest.raises(BenchFailed, match="1 of 1 tests failed") as failed:
        run_host(
            PARAMS, "icarus", "transport_contract:the_interrupt_is_a_message", way="root complex", seed=1, text=faulty
        )
    logs = "".join(path.read_text() for path in tmp_path.glob("*/*/run.log"))
    assert message in logs, failed.value


def test_known_ways_are_named() -> None:
    with pytest.raises(ValueError, match="way must be one of pins, root complex, hard block, not 'usb'"):
        run_host(PARAMS, "icarus", "transport_contract:by_tlps", way="usb")
