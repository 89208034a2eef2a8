"""The boot chain of the device model, and that the doctor reads the same from the files it shows."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from kv_asu.params import Params
from kv_asu_firmware.boot import BootChain, Link
from kv_asu_firmware.config_space import ConfigSpaceModel
from vrex.doctor.examination import examine
from vrex.doctor.report import Kind, State
from vrex.doctor.tree import Tree
from vrex.platforms import load_platform

PARAMS = Params(log2_entries=4, window=2)
CTRL = PARAMS.config_base + 8
STATUS = CTRL + 4
ACTIVE, BUSY, POWERED = 1, 2, 8

VARIABLES = {"bootdelay": "3", "gmc_kvasu": "1"}
COMMAND_LINE = "root=/dev/nvme0n1p1 rw gmc.kvasu=1 isolcpus=2,3"


def machine(
    variable: bool = True, parameter: bool = True, power: bool = True, enable: bool = True
) -> tuple[BootChain, ConfigSpaceModel]:
    """A machine with some of the links, long after they were made."""
    device = ConfigSpaceModel(PARAMS, full=True)
    chain = BootChain(
        device,
        PARAMS.config_base,
        VARIABLES if variable else {"bootdelay": "3"},
        COMMAND_LINE if parameter else "root=/dev/nvme0n1p1 rw isolcpus=2,3",
    )
    chain.write_power_state("1" if power else "0")
    device.write(CTRL, int(enable), 4)
    device.idle(100)
    return chain, device


def status(device: ConfigSpaceModel) -> int:
    value = device.read(STATUS, 4)
    assert value is not None
    return value


@pytest.mark.parametrize("links", list(product([True, False], repeat=4)))
def test_all_combinations_and_the_doctor_agrees(links: tuple[bool, ...], tmp_path: Path) -> None:
    chain, device = machine(*links)
    assert chain.missing == {link for link, held in zip(Link, links, strict=True) if not held}
    assert bool(status(device) & ACTIVE) == all(links)
    assert bool(status(device) & POWERED) == chain.power_good == all(links[:3])
    assert chain.status == ("ACTIVE" if all(links) else "INACTIVE")

    chain.write_tree(tmp_path)
    report = examine(Tree(tmp_path), load_platform("orin-nx"))
    assert [check.state is State.OK for check in report.of(Kind.LINK)] == list(links)
    assert report.active == bool(status(device) & ACTIVE)
    if not all(links):
        assert report.broken is report.of(Kind.LINK)[links.index(False)]


def test_power_comes_and_goes_while_it_runs() -> None:
    chain, device = machine()
    device.clock(request=0x8000_0000)
    device.idle(10)
    assert device.golden.tracked == 1
    chain.write_power_state("0\n")
    device.clock()
    assert not status(device) & (ACTIVE | BUSY | POWERED)
    assert device.read(CTRL, 4) == 1, "ENABLE is software's and stays"
    chain.write_power_state("1")
    assert status(device) & BUSY
    device.idle(100)
    assert status(device) == ACTIVE | POWERED
    assert device.golden.tracked == 0, "it starts from an empty table"


def test_a_boot_leaves_the_power_off() -> None:
    chain, device = machine()
    chain.boot(VARIABLES, COMMAND_LINE)
    assert chain.read_power_state() == "OFF"
    device.clock()
    assert not status(device) & ACTIVE
    assert chain.missing == {Link.POWER_STATE}


def test_power_does_not_help_before_the_links_in_front_of_it() -> None:
    chain, device = machine(parameter=False)
    assert chain.read_power_state() == "ON"
    assert not chain.power_good
    chain.boot(VARIABLES, COMMAND_LINE)
    chain.write_power_state("1")
    device.idle(100)
    assert status(device) & ACTIVE


@pytest.mark.parametrize(
    ("command_line", "held"),
    [
        ("gmc.kvasu=1", True),
        ('"gmc.kvasu=1"', True),
        ('gmc.kvasu="1"', True),
        ("gmc.kvasu=0 quiet gmc.kvasu=1", True),
        ("gmc.kvasu=1 gmc.kvasu=0", False),
        ("quiet -- gmc.kvasu=1", False),
        ("xgmc.kvasu=1", False),
        ("gmc.kvasu", False),
        ("gmc.kvasu=11", False),
        ("", False),
    ],
)
def test_the_parameter_is_read_as_the_kernel_reads_it(command_line: str, held: bool) -> None:
    chain, _ = machine()
    chain.boot(VARIABLES, command_line)
    assert (Link.KERNEL_COMMAND_LINE not in chain.missing) == held


@pytest.mark.parametrize("value", ["", "2", "ON", "1 1"])
def test_other_values_are_refused(value: str) -> None:
    chain, _ = machine()
    with pytest.raises(ValueError, match="kvasu_power_state takes 0 or 1"):
        chain.write_power_state(value)
    assert chain.power_good
