"""`vrex doctor`: every fault of a machine, alone and with every other, is named with what repairs it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config_image import ConfigImage
from healthy_machine import (
    CAMERA_RULE,
    COMMAND_LINE,
    CONFIG,
    CTRL,
    EXTLINUX,
    GPU,
    INTERRUPTS,
    Machine,
    config_space,
    stored_variables,
    with_word,
)
from vrex.capabilities import find_kv_asu
from vrex.cli import main
from vrex.doctor import kernel_command_line
from vrex.doctor.config_space import NoCore, find_core
from vrex.doctor.environment import named_interrupts
from vrex.doctor.environment_image import newest
from vrex.doctor.examination import examine, platform_name
from vrex.doctor.report import Report, State
from vrex.doctor.tree import Missing, Tree, Unreadable
from vrex.errors import DeviceNotFoundError
from vrex.platforms import load_platform

OK, FAIL, UNKNOWN, SKIPPED = State.OK, State.FAIL, State.UNKNOWN, State.SKIPPED

LINKS = ("boot-loader-variable", "kernel-command-line", "power-state", "config-space")
ENVIRONMENT = (
    "boot-loader",
    "l4t",
    "power-mode",
    "gpu-governor",
    "gpu-max-freq",
    "isolated-cpus",
    "dma-interrupt",
    "camera",
    "pci-device",
    "register-map",
    "core-status",
)

ORIN_NX = load_platform("orin-nx")

POWER_STATE = "sys/bus/platform/drivers/gmc/kvasu_power_state"
BASE = CTRL - 8
ID = CTRL + 8


def look(root: Path, device: str | None = None) -> Report:
    return examine(Tree(root), ORIN_NX, device)


def states(report: Report) -> dict[str, State]:
    """What is not as it should be; what follows from it left out."""
    return {check.id: check.state for check in report.checks if check.state not in (OK, SKIPPED)}


# Faults


@dataclass(frozen=True)
class Fault:
    """Something wrong with a machine.

    ``where`` names what is touched: two faults of one place cannot be told apart. ``says`` are texts that what was seen
    or the repair must have.
    """

    name: str
    where: str
    breaks: Callable[[Machine], None]
    finds: dict[str, State]
    says: tuple[str, ...] = field(default=())


def put(path: str, content: bytes | str) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        machine.files[path] = content.encode() if isinstance(content, str) else content

    return change


def drop(*paths: str) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for path in paths:
            for name in [name for name in machine.files if name == path or name.startswith(f"{path}/")]:
                del machine.files[name]

    return change


def command_line(text: str) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        put("proc/cmdline", f"{text}\n")(machine)
        put("sys/firmware/devicetree/base/chosen/bootargs", f"{text}\0")(machine)

    return change


def both(*changes: Callable[[Machine], None]) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for one in changes:
            one(machine)

    return change


WITHOUT_PARAMETER = COMMAND_LINE.replace(" gmc.kvasu=1", "")
WITHOUT_CPUS = COMMAND_LINE.replace(" isolcpus=2,3", "")
VARIABLE, PARAMETER, POWER, ENABLE = ({name: FAIL} for name in LINKS)
SET_VARIABLE = "sudo fw_setenv gmc_kvasu 1\nsudo reboot"
SWITCH_ON = f"sudo sh -c 'echo 1 > /{POWER_STATE}'"
PM_CONTROL = 0x44
WAKE = "sudo setpci -s 0000:00:02.0 -d 4b56:0001 CAP_PM+4.b=0:3"
NOT_ENABLED = config_space(enable=False)

FAULTS = [
    Fault(
        "variable not set",
        "variable",
        put("dev/mtd0", bytes(0x1000) + stored_variables({"a": "1"})),
        VARIABLE,
        ("gmc_kvasu is not set", SET_VARIABLE),
    ),
    Fault(
        "variable 0",
        "variable",
        put("dev/mtd0", bytes(0x1000) + stored_variables({"gmc_kvasu": "0"})),
        VARIABLE,
        ("gmc_kvasu=0", SET_VARIABLE),
    ),
    Fault(
        "checksum",
        "variable",
        put("dev/mtd0", bytes(0x3000)),
        {LINKS[0]: UNKNOWN},
        ("malformed: the checksum is wrong",),
    ),
    Fault(
        "environment gone",
        "variable",
        drop("dev/mtd0"),
        {LINKS[0]: UNKNOWN},
        ("/dev/mtd0, fw_printenv.txt, the saved output of fw_printenv: not found",),
    ),
    Fault("bad config", "variable", put("etc/fw_env.config", "/dev/mtd0 x y\n"), {LINKS[0]: UNKNOWN}, ("malformed",)),
    Fault("parameter", "command line", command_line(WITHOUT_PARAMETER), PARAMETER, ("gmc.kvasu is not there",)),
    Fault(
        "parameter without a value",
        "command line",
        command_line(f"{COMMAND_LINE} gmc.kvasu"),
        PARAMETER,
        ("gmc.kvasu has no value",),
    ),
    Fault("parameter 0", "command line", command_line(f"{COMMAND_LINE} gmc.kvasu=0"), PARAMETER, ("gmc.kvasu=0",)),
    Fault(
        "command line gone",
        "command line",
        drop("proc/cmdline", "sys/firmware/devicetree/base/chosen"),
        {LINKS[1]: UNKNOWN},
        ("/proc/cmdline, /proc/device-tree/chosen/bootargs: not found",),
    ),
    Fault("power OFF", "power", put(POWER_STATE, "OFF\n"), POWER, ("kvasu_power_state is OFF", SWITCH_ON)),
    Fault("power file gone", "power", drop(POWER_STATE), POWER, ("not found", SWITCH_ON)),
    Fault(
        "driver gone",
        "power",
        both(drop("sys/bus/platform/drivers/gmc"), put("sys/bus/platform/drivers/other/bind", "")),
        POWER,
        ("the driver is not loaded", "sudo modprobe gmc"),
    ),
    Fault("power file odd", "power", put(POWER_STATE, "maybe\n"), {LINKS[2]: UNKNOWN}, ("malformed", "'maybe'")),
    Fault("power file empty", "power", put(POWER_STATE, ""), {LINKS[2]: UNKNOWN}, ("it is empty",)),
    Fault(
        "ENABLE",
        "config",
        put(CONFIG, NOT_ENABLED),
        ENABLE,
        (
            "CTRL at 0x800 reads 0x00000000",
            "sudo setpci -s 0000:00:02.0 -d 4b56:0001 800.l=1:1",
        ),
    ),
    Fault(
        "CTRL does not answer",
        "config",
        put(CONFIG, with_word(config_space(), CTRL, 0xFFFF_FFFF)),
        ENABLE,
        ("CTRL at 0x800 reads 0xffffffff: nobody answers there", "echo 1 > /sys/bus/pci/devices/0000:00:02.0/remove"),
    ),
    Fault(
        "STATUS does not answer",
        "config",
        put(CONFIG, with_word(config_space(), CTRL + 4, 0xFFFF_FFFF)),
        {"core-status": FAIL},
        ("STATUS reads 0xffffffff: nobody answers there", "echo 1 > /sys/bus/pci/rescan"),
    ),
    Fault(
        "capability of another",
        "config",
        put(CONFIG, with_word(config_space(), BASE + 4, 0x0801_1234)),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        (
            "no KV-ASU capability in the list of extended capabilities",
            "(vendor-specific ones of others: 0x1234 at 0x7f8)",
        ),
    ),
    Fault(
        "two command lines",
        "command line",
        put("proc/cmdline", f"{COMMAND_LINE} gmc.kvasu=0\nquiet\n"),
        {LINKS[1]: UNKNOWN},
        ("/proc/cmdline: malformed: one line expected, not 2",),
    ),
    Fault(
        "other bits of CTRL", "config", put(CONFIG, with_word(NOT_ENABLED, CTRL, 0x50)), ENABLE, ("reads 0x00000050",)
    ),
    Fault(
        "device absent",
        "config",
        both(drop("sys/bus/pci/devices"), put("sys/bus/pci/devices/0000:01:00.0/config", bytes(64))),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("no PCI device 0000:00:02.0", "echo 1 > /sys/bus/pci/rescan"),
    ),
    Fault(
        "device elsewhere",
        "config",
        both(drop("sys/bus/pci/devices"), put("sys/bus/pci/devices/0001:01:00.0/config", config_space())),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("the core is at 0001:01:00.0: vrex doctor --device 0001:01:00.0",),
    ),
    Fault(
        "no sysfs of PCI",
        "config",
        drop("sys/bus/pci"),
        {LINKS[3]: UNKNOWN, "pci-device": UNKNOWN},
        ("/sys/bus/pci/devices: not found",),
    ),
    Fault(
        "device gone",
        "config",
        put(CONFIG, b"\xff" * 4096),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("reads all ones: it has gone",),
    ),
    Fault(
        "64 bytes",
        "config",
        put(CONFIG, config_space()[:64]),
        {LINKS[3]: UNKNOWN, "pci-device": UNKNOWN},
        ("permission to read the rest was denied", "with sudo"),
    ),
    Fault(
        "256 bytes",
        "config",
        put(CONFIG, config_space()[:256]),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("256 bytes of config space", "ECAM"),
    ),
    Fault(
        "capability missing",
        "config",
        put(CONFIG, with_word(config_space(), 0x100, 0x0001_0003)),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("no KV-ASU capability", "4b56:0001 at 0000:00:02.0"),
    ),
    Fault(
        "capability loops",
        "config",
        put(CONFIG, with_word(config_space(), 0x100, 0x1000_0003 | 1 << 16)),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("comes back to 0x100",),
    ),
    Fault(
        "capability cut off",
        "config",
        put(CONFIG, config_space()[: CTRL + 4]),
        {LINKS[3]: UNKNOWN, "pci-device": UNKNOWN},
        (f"malformed: {CTRL + 4} bytes, 4096 expected",),
    ),
    Fault(
        "compressed",
        "config",
        put(CONFIG, gzip.compress(config_space(), mtime=0)),
        {LINKS[3]: UNKNOWN, "pci-device": UNKNOWN},
        (f"malformed: {len(gzip.compress(config_space(), mtime=0))} bytes, 4096 expected",),
    ),
    Fault(
        "as a dump",
        "config",
        put(CONFIG, config_space().hex(" ", 1)),
        {LINKS[3]: UNKNOWN, "pci-device": UNKNOWN},
        ("malformed: more than 4096 bytes, 4096 expected",),
    ),
    Fault(
        "elsewhere and cut off",
        "config",
        both(drop("sys/bus/pci/devices"), put("sys/bus/pci/devices/0001:01:00.0/config", config_space()[:-1])),
        {LINKS[3]: FAIL, "pci-device": FAIL},
        ("no PCI device 0000:00:02.0", "echo 1 > /sys/bus/pci/rescan"),
    ),
    Fault(
        "newer registers",
        "config",
        put(CONFIG, with_word(config_space(), ID, 0x4B56_0203)),
        {"register-map": FAIL},
        ("the core has 2.3, this vrex 1.0", "update vrex"),
    ),
    Fault(
        "no power at the core",
        "config",
        put(CONFIG, config_space(powered=False)),
        {"core-status": FAIL},
        ("STATUS reads 0x00000000", f"echo 0 > /{POWER_STATE}; echo 1 > /{POWER_STATE}"),
    ),
    Fault(
        "asleep",
        "config",
        put(CONFIG, with_word(config_space(powered=False), PM_CONTROL, 8 | 3)),
        {"core-status": FAIL},
        ("the function sleeps (D3hot)", "echo on > /sys/bus/pci/devices/0000:00:02.0/power/control", WAKE),
    ),
    Fault("old boot loader", "boot loader", put("sys/class/dmi/id/bios_version", "32.7.2-x"), {"boot-loader": FAIL}),
    Fault("ancient boot loader", "boot loader", put("sys/class/dmi/id/bios_version", "4.9.1"), {"boot-loader": FAIL}),
    Fault("boot loader?", "boot loader", drop("sys/class/dmi"), {"boot-loader": UNKNOWN}, ("nvbootctrl.txt",)),
    Fault(
        "old L4T",
        "l4t",
        put("etc/nv_tegra_release", "# R36 (release), REVISION: 2.9, GCID: 1\n"),
        {"l4t": FAIL},
        ("36.2.9", "36.3"),
    ),
    Fault("L4T?", "l4t", put("etc/nv_tegra_release", "garbage"), {"l4t": UNKNOWN}, ("no version in 'garbage'",)),
    Fault(
        "power mode",
        "power mode",
        put("var/lib/nvpmodel/status", "pmode:0001"),
        {"power-mode": FAIL},
        ("mode 1 (10W)", "sudo nvpmodel -m 0"),
    ),
    Fault(
        "governor",
        "governor",
        put(f"{GPU}/governor", "nvhost_podgov\n"),
        {"gpu-governor": FAIL},
        ("echo performance > /sys/class/devfreq/17000000.gpu/governor",),
    ),
    Fault(
        "GPU frequency",
        "frequency",
        put(f"{GPU}/max_freq", "612000000\n"),
        {"gpu-max-freq": FAIL},
        ("612 MHz", "echo 1000000000 > /sys/class/devfreq/17000000.gpu/max_freq"),
    ),
    Fault("frequency?", "frequency", put(f"{GPU}/max_freq", "fast\n"), {"gpu-max-freq": UNKNOWN}, ("'fast'",)),
    Fault(
        "CPUs",
        "isolated",
        put("sys/devices/system/cpu/isolated", "\n"),
        {"isolated-cpus": FAIL},
        ("no CPU is isolated",),
    ),
    Fault(
        "a range that runs backwards",
        "isolated",
        put("sys/devices/system/cpu/isolated", "3-2\n"),
        {"isolated-cpus": UNKNOWN},
        ("malformed: '3-2' ends before it starts",),
    ),
    Fault("one CPU", "isolated", put("sys/devices/system/cpu/isolated", "3\n"), {"isolated-cpus": FAIL}, ("CPUs 3",)),
    Fault(
        "interrupt gone",
        "interrupts",
        put("proc/interrupts", INTERRUPTS.replace("kvasu", "other")),
        {"dma-interrupt": FAIL},
        ("a network card's is not it",),
    ),
    Fault(
        "mask and list mixed up",
        "affinity",
        both(put("proc/irq/45/smp_affinity", "2\n"), put("proc/irq/45/smp_affinity_list", "1\n")),
        {"dma-interrupt": FAIL},
        ("mask is CPU 1, list is CPU 1", "echo 4 > /proc/irq/45/smp_affinity"),
    ),
    Fault(
        "list only",
        "affinity",
        put("proc/irq/45/smp_affinity", "00000000,0000000c\n"),
        {"dma-interrupt": FAIL},
        ("mask is CPU 2,3, list is CPU 2",),
    ),
    Fault("affinity?", "affinity", put("proc/irq/45/smp_affinity_list", "two"), {"dma-interrupt": UNKNOWN}, ("'two'",)),
    Fault(
        "no affinity",
        "affinity",
        drop("proc/irq/45"),
        {"dma-interrupt": UNKNOWN},
        ("/proc/irq/45/smp_affinity: not found",),
    ),
    Fault(
        "wrong mask alone",
        "affinity",
        both(put("proc/irq/45/smp_affinity", "2\n"), drop("proc/irq/45/smp_affinity_list")),
        {"dma-interrupt": FAIL},
        ("interrupt 45 (kvasu-dma): mask is CPU 1", "echo 4 > /proc/irq/45/smp_affinity"),
    ),
    Fault(
        "wrong list alone",
        "affinity",
        both(drop("proc/irq/45/smp_affinity"), put("proc/irq/45/smp_affinity_list", "4\n")),
        {"dma-interrupt": FAIL},
        ("interrupt 45 (kvasu-dma): list is CPU 4",),
    ),
    Fault(
        "wrong mask beside a broken list",
        "affinity",
        both(put("proc/irq/45/smp_affinity", "2\n"), put("proc/irq/45/smp_affinity_list", "two")),
        {"dma-interrupt": FAIL},
        ("mask is CPU 1",),
    ),
    Fault("camera not locked", "camera", drop(CAMERA_RULE), {"camera": UNKNOWN}, (f"write to /{CAMERA_RULE}",)),
    Fault(
        "two sizes",
        "camera",
        put("etc/udev/rules.d/50-camera.rules", 'RUN+="v4l2-ctl --set-fmt-video=width=1280,height=720"\n'),
        {"camera": FAIL},
        ("1280x720 and 1920x1080",),
    ),
]


def test_a_healthy_machine_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Machine().write(tmp_path)
    report = look(root)
    assert [check.id for check in report.checks] == [*LINKS, *ENVIRONMENT]
    assert {check.state for check in report.checks} == {OK}
    assert all(check.repair is None for check in report.checks)
    assert main(["doctor", "--root", str(root)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "\nKV-ASU Status: ACTIVE\n" in shown.out
    assert "\x1b" not in shown.out, "plain where it is no terminal"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_one_fault(fault: Fault, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine()
    fault.breaks(machine)
    root = machine.write(tmp_path)
    report = look(root)
    assert states(report) == fault.finds
    said = "\n".join(f"{check.saw}\n{check.repair}" for check in report.checks if check.id in fault.finds)
    for text in fault.says:
        assert text in said
    link = next((name for name in LINKS if name in fault.finds), None)
    must_repair = link is not None or FAIL in fault.finds.values()
    assert main(["doctor", "--root", str(root)]) == (1 if must_repair else 0)
    out = capsys.readouterr().out
    inactive = link is not None or "core-status" in fault.finds
    assert f"\nKV-ASU Status: {'INACTIVE (' if inactive else 'ACTIVE'}" in out
    for state, what in ((FAIL, "to repair"), (UNKNOWN, "not decided")):
        count = sum(check.state == state for check in report.checks)
        assert (f"\n{count} {what}\n" in out) == bool(count)
    if link is not None:
        title = link.replace("-", " ")
        assert f"\nKV-ASU Status: INACTIVE ({title}: " in out
    for check in report.checks:
        assert check.saw in out
        assert check.expected in out
        for line in (check.repair or "").split("\n"):
            assert line in out


@pytest.mark.parametrize("first", FAULTS, ids=lambda fault: fault.name)
def test_every_pair_of_faults(first: Fault, tmp_path: Path) -> None:
    root = Machine().write(tmp_path)
    there = Machine().files
    for second in FAULTS[FAULTS.index(first) + 1 :]:
        if second.where == first.where or {first.where, second.where} == {"interrupts", "affinity"}:
            continue
        machine = Machine()
        first.breaks(machine)
        second.breaks(machine)
        machine.rewrite(root, there)
        there = machine.files
        report = look(root)
        expected = first.finds | second.finds
        if any(link in expected for link in LINKS):
            expected.pop("core-status", None)  # a link comes first
        assert states(report) == expected, f"{first.name} and {second.name}"
        if broken := [link for link in LINKS if link in expected]:
            assert report.broken is not None
            assert report.broken.id == broken[0]


def test_the_table_covers_every_check() -> None:
    assert {check for fault in FAULTS for check, state in fault.finds.items() if state is FAIL} == {
        *LINKS,
        *ENVIRONMENT,
    }
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


# Repairs do what they say


def test_the_append_line_is_as_it_should_be(tmp_path: Path) -> None:
    """Both checks ask for one and the same line, and with it in place both are content after a boot."""
    bare = EXTLINUX.replace(" gmc.kvasu=1 isolcpus=2,3", " quiet")
    machine = Machine()
    command_line("quiet")(machine)
    put("boot/extlinux/extlinux.conf", bare)(machine)
    drop("sys/devices/system/cpu/isolated")(machine)
    report = look(machine.write(tmp_path))
    repairs = {check.repair for check in report.checks if check.id in ("kernel-command-line", "isolated-cpus")}
    assert len(repairs) == 1
    where, line, reboot = str(repairs.pop()).split("\n")
    assert where == "in /boot/extlinux/extlinux.conf, line 10 must read:"
    assert reboot == "sudo reboot"
    lines = bare.splitlines()
    lines[9] = line
    assert "\n".join(lines) + "\n" == EXTLINUX.replace(" gmc", " quiet gmc")


@pytest.mark.parametrize(
    ("extlinux", "says"),
    [
        (EXTLINUX, "has it in line 10 already"),
        (EXTLINUX.replace("DEFAULT primary", "DEFAULT backup"), "line 14 must read:\n      APPEND ${cbootargs} root="),
        (EXTLINUX.replace("DEFAULT primary", "DEFAULT third"), "has no default entry"),
        ("LABEL only\n  LINUX /boot/Image\n", "add under LABEL only:\n      APPEND gmc.kvasu=1\n"),
        ("label a\n\tappend gmc.kvasu=0 b -- c\n", "line 2 must read:\n\tappend b gmc.kvasu=1 -- c\n"),
        ("LABEL a\nAPPEND\n", "add under LABEL a"),
        ("", "has no default entry"),
        (None, "/boot/extlinux/extlinux.conf: not found"),
    ],
)
def test_the_append_line_of_other_files(extlinux: str | None, says: str, tmp_path: Path) -> None:
    machine = Machine()
    command_line(WITHOUT_PARAMETER)(machine)
    if extlinux is None:
        drop("boot/extlinux")(machine)
    else:
        put("boot/extlinux/extlinux.conf", extlinux)(machine)
    repair = look(machine.write(tmp_path)).checks[1].repair
    assert repair is not None
    assert says in repair


@pytest.mark.parametrize(
    ("fault", "check", "offset", "after"),
    [
        ("ENABLE", LINKS[3], CTRL, config_space(enable=False)),
        ("asleep", "core-status", PM_CONTROL, config_space(powered=False)),
    ],
)
def test_setpci_repairs(fault: str, check: str, offset: int, after: bytes, tmp_path: Path) -> None:
    """What is advised, run by the real setpci on the tree's own sysfs; nothing else is written."""
    setpci = shutil.which("setpci", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if setpci is None:
        pytest.skip("needs setpci of pciutils")
    machine = Machine()
    next(one for one in FAULTS if one.name == fault).breaks(machine)
    folder = CONFIG.rsplit("/", 1)[0]
    ids = {"vendor": "0x4b56", "device": "0x0001", "class": "0x058000", "irq": "0", "resource": ""}
    for name, value in ids.items():
        machine.files[f"{folder}/{name}"] = f"{value}\n".encode()
    root = machine.write(tmp_path)
    repair = next(one.repair for one in look(root).checks if one.id == check)
    command = next(line for line in str(repair).split("\n") if line.startswith("sudo setpci "))
    sysfs = ["-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci"]
    subprocess.run([setpci, *sysfs, *command.split()[2:]], check=True)
    word = {CTRL: 1, PM_CONTROL: 8}[offset]
    assert (root / CONFIG).read_bytes() == with_word(after, offset, word)


@pytest.mark.parametrize(
    "name", ["power OFF", "governor", "GPU frequency", "mask and list mixed up", "no power at the core"]
)
def test_shell_repairs_run(name: str, tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    machine = Machine()
    fault.breaks(machine)
    root = machine.write(tmp_path)
    check = next(check for check in look(root).checks if check.id in fault.finds)
    commands = [line for line in str(check.repair).split("\n") if line.startswith("sudo sh -c ")]
    assert commands
    for command in commands:
        subprocess.run(command.removeprefix("sudo ").replace("> /", f"> {root}/"), shell=True, check=True, cwd=root)
    if name == "mask and list mixed up":  # on a machine the kernel keeps both in step
        (root / "proc/irq/45/smp_affinity_list").write_text("2\n")
    if name != "no power at the core":
        assert not states(look(root)), "1 reads as ON"


def test_the_camera_rule_is_understood(tmp_path: Path) -> None:
    machine = Machine()
    drop(CAMERA_RULE)(machine)
    root = machine.write(tmp_path)
    check = next(check for check in look(root).checks if check.id == "camera")
    where, rule, _ = str(check.repair).split("\n")
    target = root / re.sub(r"^write to /(.*):$", r"\1", where)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{rule}\n")
    assert not states(look(root))


# Places that tell the same

#: How a file's one value may end.
ENDS = (b"", b"\n", b"\r\n", b"\0", b"\0\n", b"\n\0", b"\0\0\0\r\n", b" \0 \n\n")
ISOLATED = "/sys/devices/system/cpu/isolated"
AFFINITY = "/proc/interrupts, /proc/irq/N/smp_affinity, smp_affinity_list"


@pytest.mark.parametrize(
    ("change", "check", "state", "source"),
    [
        (
            both(drop("etc/fw_env.config"), put("fw_printenv.txt", "bootdelay=3\r\ngmc_kvasu=1\r\n")),
            LINKS[0],
            OK,
            "/fw_printenv.txt",
        ),
        (
            both(drop("dev/mtd0"), put("root/fw_printenv.log", '## Error: "gmc_kvasu" not defined\n')),
            LINKS[0],
            FAIL,
            "/root/fw_printenv.log",
        ),
        (both(drop("dev/mtd0"), put("fw_printenv.txt", "")), LINKS[0], UNKNOWN, "/fw_printenv.txt"),
        (put("fw_printenv.txt", "gmc_kvasu=0\n"), LINKS[0], OK, "/dev/mtd0 at 0x1000"),
        (drop("proc/cmdline"), LINKS[1], OK, "/proc/device-tree/chosen/bootargs"),
        (put("proc/cmdline", ""), LINKS[1], OK, "/proc/device-tree/chosen/bootargs"),
        (put("proc/cmdline", "quiet\n"), LINKS[1], FAIL, "/proc/cmdline"),
        (put("sys/firmware/devicetree/base/chosen/bootargs", "quiet\0"), LINKS[1], OK, "/proc/cmdline"),
        (put(POWER_STATE, b"ON\n" + bytes(4093)), LINKS[2], OK, f"/{POWER_STATE}"),
        *((put(POWER_STATE, b"ON" + end), LINKS[2], OK, f"/{POWER_STATE}") for end in ENDS),
        *((put("proc/cmdline", COMMAND_LINE.encode() + end), LINKS[1], OK, "/proc/cmdline") for end in ENDS),
        *(
            (
                both(drop("proc/cmdline"), put("sys/firmware/devicetree/base/chosen/bootargs", b"gmc.kvasu=1" + end)),
                LINKS[1],
                OK,
                "/proc/device-tree/chosen/bootargs",
            )
            for end in ENDS
        ),
        *((put("proc/irq/45/smp_affinity_list", b"2" + end), "dma-interrupt", OK, AFFINITY) for end in ENDS),
        *((put("sys/devices/system/cpu/isolated", b"2-3" + end), "isolated-cpus", OK, ISOLATED) for end in ENDS),
        (put("sys/devices/system/cpu/isolated", ""), "isolated-cpus", OK, "/proc/cmdline"),
        (put("sys/devices/system/cpu/isolated", b"\0\n"), "isolated-cpus", FAIL, ISOLATED),
        (drop("proc/irq/45/smp_affinity"), "dma-interrupt", OK, AFFINITY),
        (drop("proc/irq/45/smp_affinity_list"), "dma-interrupt", OK, AFFINITY),
        (
            both(drop("sys/class/dmi"), put("sys/firmware/efi/esrt/entries/entry0/fw_version", "2360064\n")),
            "boot-loader",
            OK,
            "/sys/firmware/efi/esrt/entries/entry0/fw_version",
        ),
        (
            both(drop("sys/class/dmi"), put("nvbootctrl.txt", "Current version: 32.7.1\nslot: 0\n")),
            "boot-loader",
            FAIL,
            "/nvbootctrl.txt",
        ),
        (
            both(
                drop("etc/nv_tegra_release"),
                put(
                    "var/lib/dpkg/status",
                    "Package: nvidia-l4t-cuda\nVersion: 1.0\n\nPackage: nvidia-l4t-core\nVersion: 36.4.0-2024\n",
                ),
            ),
            "l4t",
            OK,
            "/var/lib/dpkg/status",
        ),
        (
            both(drop("var/lib/nvpmodel"), put("nvpmodel.txt", "NV Power Mode: MAXN\n0\n")),
            "power-mode",
            OK,
            "/nvpmodel.txt",
        ),
        (drop("var/lib/nvpmodel"), "power-mode", FAIL, "/etc/nvpmodel.conf"),
        (drop("sys/devices/system/cpu/isolated"), "isolated-cpus", OK, "/proc/cmdline"),
        (
            both(drop("sys/devices/system/cpu/isolated"), command_line(WITHOUT_CPUS)),
            "isolated-cpus",
            FAIL,
            "/proc/cmdline",
        ),
        (
            both(
                drop(CAMERA_RULE),
                put("sys/firmware/devicetree/base/bus@0/cam@10/mode0/active_w", "1920\0"),
                put("sys/firmware/devicetree/base/bus@0/cam@10/mode0/active_h", "1080\0"),
            ),
            "camera",
            OK,
            "/proc/device-tree/bus@0/cam@10",
        ),
    ],
    ids=map(str, range(99)),
)
def test_where_it_is_looked_for(
    change: Callable[[Machine], None], check: str, state: State, source: str, tmp_path: Path
) -> None:
    machine = Machine()
    change(machine)
    found = next(one for one in look(machine.write(tmp_path)).checks if one.id == check)
    assert (found.state, found.source) == (state, source)


def test_a_parameter_that_did_not_reach_the_kernel_is_told(tmp_path: Path) -> None:
    machine = Machine()
    put("proc/cmdline", f"{WITHOUT_PARAMETER}\n")(machine)
    saw = look(machine.write(tmp_path)).checks[1].saw
    assert saw == "gmc.kvasu is not there; the boot loader has passed: gmc.kvasu=1"


def test_a_slower_gpu_is_right_at_its_highest_clock(tmp_path: Path) -> None:
    machine = Machine()
    put(f"{GPU}/available_frequencies", "306000000 612000000 765000000\n")(machine)
    put(f"{GPU}/max_freq", "612000000\n")(machine)
    root = machine.write(tmp_path)
    check = next(check for check in look(root).checks if check.id == "gpu-max-freq")
    assert (check.state, check.saw) == (FAIL, "612 MHz, the highest is 765 MHz")
    assert "echo 765000000" in str(check.repair)
    (root / GPU / "max_freq").write_text("765000000\n")
    assert not states(look(root))


def test_a_core_that_does_not_tell_its_version_is_a_warning(tmp_path: Path) -> None:
    machine = Machine()
    machine.files[CONFIG] = with_word(with_word(config_space(), ID, 0), CTRL + 4, 0)
    report = look(machine.write(tmp_path))
    assert states(report) == {"register-map": UNKNOWN, "core-status": UNKNOWN}
    assert report.active
    assert not report.failures


def test_an_empty_folder_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = look(tmp_path)
    assert {check.state for check in report.checks} == {UNKNOWN, SKIPPED}
    assert all("put what it says into the tree as" in str(check.repair) for check in report.checks[:4])
    assert main(["doctor", "--root", str(tmp_path)]) == 1
    assert "KV-ASU Status: INACTIVE (boot loader variable: cannot be decided)" in capsys.readouterr().out


# Other boards


def test_the_device_tree_names_the_platform(tmp_path: Path) -> None:
    machine = Machine()
    root = machine.write(tmp_path / "nx")
    assert platform_name(Tree(root)) == "orin-nx"
    put("sys/firmware/devicetree/base/compatible", "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0")(machine)
    assert platform_name(Tree(machine.write(tmp_path / "agx"))) == "agx-orin"
    assert platform_name(Tree(tmp_path)) == "orin-nx"


def test_a_board_without_l4t(tmp_path: Path) -> None:
    """The platform file leaves checks out, and the rest works with none of Jetson's files."""
    machine = Machine()
    command_line("quiet")(machine)
    drop("etc/nv_tegra_release", "var", "etc/nvpmodel.conf", "sys/class/dmi", "boot", GPU)(machine)
    report = examine(Tree(machine.write(tmp_path)), load_platform("ascend-310b"))
    assert states(report) == PARAMETER
    assert [check.id for check in report.checks[4:]] == [
        name for name in ENVIRONMENT if name not in ("boot-loader", "l4t", "power-mode", "gpu-governor", "gpu-max-freq")
    ]
    assert report.checks[1].repair == (
        "add to the kernel's command line where this board's boot loader keeps it: gmc.kvasu=1\nsudo reboot"
    )


def test_a_users_own_platform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(load_platform.__code__.co_filename).parent / "orin-nx.toml").read_text()
    own = tmp_path / "own.toml"
    own.write_text(text.replace('variable = "gmc_kvasu"', 'variable = "other"'))
    root = Machine().write(tmp_path / "root")
    assert main(["doctor", "--root", str(root), "--platform", str(own)]) == 1
    assert "other is not set" in capsys.readouterr().out
    own.write_text(text.replace("mode = 0", 'mode = "MAXN"'))
    assert main(["doctor", "--root", str(root), "--platform", str(own)]) == 2
    assert "own.toml: environment.power_mode.mode must be a number from 0 to 99, not 'MAXN'" in capsys.readouterr().err


def test_another_capability_base_and_address(tmp_path: Path) -> None:
    """The capability is found by walking; another function may stand in front of it in the list."""
    config = bytearray(config_space())
    capability = bytes(config[BASE : BASE + 0x80])
    config[BASE : BASE + 0x80] = bytes(0x80)
    config[0x480:0x500] = capability
    other = 0x200
    config[0x100:0x104] = (other << 20 | 1 << 16 | 0x0003).to_bytes(4, "little")
    config[other : other + 8] = (0x480 << 20 | 1 << 16 | 0x000B).to_bytes(4, "little") + (0x0100_1234).to_bytes(
        4, "little"
    )
    machine = Machine()
    drop("sys/bus/pci/devices")(machine)
    machine.files["sys/bus/pci/devices/0004:01:00.0/config"] = bytes(config)
    root = machine.write(tmp_path)
    report = look(root, "0004:01:00.0")
    assert not states(report)
    pci = next(check for check in report.checks if check.id == "pci-device")
    assert pci.saw == "0004:01:00.0 answers, capability at 0x480; the platform file says 0x7f8"


# Files


def test_links_never_leave_the_tree(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("ON\n")
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/file").write_text("inside")
    (root / "absolute").symlink_to("/a/file")
    (root / "up").symlink_to("../../../secret")
    (root / "a/b/up").symlink_to("../../../../a/file")
    (root / "folder").symlink_to("/a")
    (root / "loop").symlink_to("loop")
    tree = Tree(root)
    assert tree.text("/absolute") == "inside"
    assert tree.text("/a/b/up") == "inside", "nothing is above the root"
    assert tree.text("/folder/../a/b/../file") == "inside"
    with pytest.raises(Missing):
        tree.text("/up")
    with pytest.raises(Unreadable, match="too many levels of symbolic links"):
        tree.text("/loop")
    with pytest.raises(Unreadable, match="is a directory"):
        tree.text("/folder")
    with pytest.raises(Missing):
        tree.text("/a/file/more")


def test_pipes_and_devices_of_a_copy_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="invalid argument"):
        Tree(tmp_path).text("/pipe")


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX users")
@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("dev/mtd0", LINKS[0]),
        ("proc/cmdline", LINKS[1]),
        (POWER_STATE, LINKS[2]),
        (CONFIG, LINKS[3]),
        ("etc/nv_tegra_release", "l4t"),
        ("proc/irq/45/smp_affinity", "dma-interrupt"),
    ],
)
def test_permission_denied_is_told_from_missing(path: str, check: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Machine().write(Path(folder))
        root.chmod(0o755)
        (root / path).chmod(0)
        with unprivileged():
            found = {one.id: one for one in look(root).checks}[check]
    assert found.state is UNKNOWN
    assert found.saw.endswith(": cannot be read: permission denied")
    assert "sudo" in str(found.repair)


class unprivileged:
    """Read as nobody in particular does; root can read everything."""

    def __enter__(self) -> None:
        self._was = os.geteuid()
        if self._was == 0:
            os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        os.seteuid(self._was)


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine()
    put(POWER_STATE, "\x1b[2J\x07\n")(machine)
    put("etc/nv_tegra_release", "\x1b]0;x\x07")(machine)
    put("boot/extlinux/extlinux.conf", "LABEL a\n APPEND \x1b[31m\n")(machine)
    put("etc/fw_env.config", "/dev/m\0td0 0 0x100\n/dev/\x1b[1m 0 0x100\n")(machine)
    put("etc/udev/rules.d/\udcff.rules", "--set-fmt-video=width=1,height=1")(machine)
    command_line("\x1b[1m gmc.kvasu=\x1b[5m")(machine)
    main(["doctor", "--root", str(machine.write(tmp_path))])
    out = capsys.readouterr().out
    assert "\\x1b[2J\\x07" in out
    assert out.isascii()
    assert "\x1b" not in out


@pytest.mark.parametrize("seed", range(5))
def test_garbage_in_any_file_is_no_traceback(seed: int, tmp_path: Path) -> None:
    """Random bytes, cut-off and doubled files, one file at a time and all at once."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    known = {*LINKS, *ENVIRONMENT}

    def spoilt(content: bytes) -> bytes:
        match rng.randrange(4):
            case 0:
                return rng.randbytes(rng.randrange(5000))
            case 1:
                return content[: rng.randrange(len(content) + 1)]
            case 2:
                return content + content
            case _:
                spoilt = bytearray(content)
                for _ in range(rng.randrange(1, 9)):
                    if spoilt:
                        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
                return bytes(spoilt)

    machine = Machine()
    root = machine.write(tmp_path)
    for path, content in machine.files.items():
        (root / path).write_bytes(spoilt(content))
        assert {check.id for check in look(root).checks} == known
        (root / path).write_bytes(content)
    assert not states(look(root))
    for path, content in machine.files.items():
        (root / path).write_bytes(spoilt(content))
    json.dumps(look(root).as_dict())


# Command line


def test_json_is_stable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine()
    put(POWER_STATE, "OFF\n")(machine)
    root = machine.write(tmp_path)
    assert main(["doctor", "--root", str(root), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    checks = record.pop("checks")
    assert record == {
        "schema": 1,
        "root": str(root.resolve()),
        "platform": "orin-nx",
        "device": "0000:00:02.0",
        "status": "INACTIVE",
        "broken": "power-state",
        "failures": 1,
        "warnings": 0,
    }
    assert checks[2] == {
        "id": "power-state",
        "title": "power state",
        "kind": "link",
        "state": "FAIL",
        "saw": "kvasu_power_state is OFF",
        "expected": "kvasu_power_state ON",
        "repair": SWITCH_ON,
        "source": f"/{POWER_STATE}",
    }
    assert checks[-1]["state"] == "SKIPPED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--root", "nowhere"], "'nowhere' does not exist"),
        (["--root", "file"], "'file' is a file"),
        (["--platform", "toaster"], "choose orin-nx, agx-orin, ascend-310b, or give the path of a .toml file"),
        (["--platform", "none.toml"], "none.toml: cannot be read (No such file or directory)"),
        (["--device", "2"], "'2' is not a PCI address like 0000:00:02.0"),
        (["--device", ""], "--device is empty"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(["doctor", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.fixture
def fw_printenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A program of this name on PATH that runs a line of shell."""

    def install(line: str) -> None:
        program = tmp_path / "fw_printenv"
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(
    ("line", "state", "saw"),
    [
        ("printf 'bootdelay=3\\ngmc_kvasu=1\\n'", OK, "gmc_kvasu=1"),
        ("echo bootdelay=3", FAIL, "gmc_kvasu is not set"),
        (
            "echo 'Warning: Bad CRC, using default environment' >&2; echo gmc_kvasu=1",
            OK,
            "gmc_kvasu=1; checksum wrong, these are the built-in ones",
        ),
        (
            "echo 'Cannot access MTD device /dev/mtd0: Permission denied' >&2; exit 1",
            UNKNOWN,
            "fw_printenv: cannot be read: permission denied",
        ),
        (
            "echo 'Cannot parse config file' >&2; exit 1",
            UNKNOWN,
            "fw_printenv: malformed: no variables in 'Cannot parse config file'",
        ),
    ],
)
def test_the_boot_loaders_own_tool_is_asked_on_this_machine(
    line: str, state: State, saw: str, fw_printenv: Callable[[str], None]
) -> None:
    fw_printenv(line)
    check = look(Path("/")).checks[0]
    assert (check.state, check.saw, check.source) == (state, saw, "fw_printenv")


def test_this_machine_gets_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["root"] == "/"


def test_it_runs_without_the_gateware() -> None:
    code = "import sys; from vrex.cli import main; main(['doctor', '--root', '/proc/self/fdinfo']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"amaranth", "kv_asu.core", "numpy", "pyarrow"} & set(done.stdout.split())


# Pieces


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("gmc.kvasu=1", "1"),
        ("a gmc.kvasu=1\tb", "1"),
        ('gmc.kvasu="1"', "1"),
        ('"gmc.kvasu=1"', "1"),
        ('x="a gmc.kvasu=0" gmc.kvasu=1', "1"),
        ("gmc.kvasu=0 gmc.kvasu=1", "1"),
        ("gmc.kvasu=1 gmc.kvasu", ""),
        ("-- gmc.kvasu=1", None),
        ("gmc.kvasux=1 xgmc.kvasu=1", None),
        ('"unfinished gmc.kvasu=1', None),
    ],
)
def test_kernel_parameters(text: str, value: str | None) -> None:
    assert kernel_command_line.parameter(text, "gmc.kvasu") == value


def test_dashes_and_underscores_are_one_in_names() -> None:
    assert kernel_command_line.parameter("video-mode=7", "video_mode") == "7"


@given(st.text(alphabet='ab ="-.\t', max_size=40))
def test_setting_a_parameter_sets_it_and_keeps_the_others(text: str) -> None:
    changed = kernel_command_line.with_parameters(text, {"gmc.kvasu": "1"})
    if text.count('"') % 2 == 0:
        assert kernel_command_line.parameter(changed, "gmc.kvasu") == "1"
        assert kernel_command_line.with_parameters(changed, {"gmc.kvasu": "1"}) == changed
        before, after = (kernel_command_line.words(line) for line in (text, changed))
        assert [word for word in after if word != "gmc.kvasu=1"] == before


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("2,3", {2, 3}),
        ("2-3", {2, 3}),
        ("0-7:1/4", {0, 4}),
        ("domain,managed_irq,2-3", {2, 3}),
    ],
)
def test_cpu_lists(text: str, cpus: set[int]) -> None:
    assert kernel_command_line.isolated_by(text) == cpus


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-3:1", "0-7:1/0", "2,domain", "999999", "3-2", "0-7:3/2"])
def test_what_is_no_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a CPU|groups of none|ends before|takes more"):
        kernel_command_line.isolated_by(text)


@pytest.mark.parametrize(
    ("first", "second", "newer"),
    [(1, 0, 0), (0, 1, 1), (5, 5, 0), (255, 0, 1), (0, 255, 0), (254, 255, 1), (None, 3, 1), (3, None, 0)],
)
def test_the_newer_of_two_copies_counts(first: int | None, second: int | None, newer: int) -> None:
    copies = [
        bytes(64) if flag is None else stored_variables({"copy": str(number)}, 64, flag)
        for number, flag in enumerate((first, second))
    ]
    strings = newest(copies)
    assert strings is not None
    assert strings.startswith(f"copy={newer}".encode())


def test_no_good_copy() -> None:
    assert newest([bytes(64), b"\xff" * 64]) is None
    assert newest([b""]) is None


def test_stored_variables_in_two_places(tmp_path: Path) -> None:
    machine = Machine()
    put("etc/fw_env.config", "/dev/mtd0 0 0x100 0x1000\n/dev/mtd1 -0x100 0x100\n")(machine)
    put("dev/mtd0", stored_variables({"gmc_kvasu": "0"}, 0x100, 1))(machine)
    put("dev/mtd1", bytes(0x300) + stored_variables({"gmc_kvasu": "1"}, 0x100, 2))(machine)
    link = look(machine.write(tmp_path)).checks[0]
    assert (link.state, link.source) == (OK, "/dev/mtd0 at 0x0 and /dev/mtd1 at -0x100")


def test_interrupts_by_their_names() -> None:
    names = ("*kvasu*dma*", "*kvasu*")
    assert named_interrupts(INTERRUPTS, names) == {45: "kvasu-dma"}
    assert named_interrupts(INTERRUPTS, ("*kvasu*",)) == {45: "kvasu-dma", 46: "kvasu"}
    assert named_interrupts(INTERRUPTS.replace("kvasu-dma", "rtc, KVASU_DMA0"), names) == {45: "KVASU_DMA0"}
    assert named_interrupts(INTERRUPTS, ("nothing",)) == {}
    assert named_interrupts(INTERRUPTS, ("eth0-rx",)) == {71: "eth0-rx"}


@given(st.binary(max_size=64), st.integers(0, 0xFF0), st.integers(0, 4096))
def test_no_config_space_stops_the_walk(noise: bytes, offset: int, size: int) -> None:
    config = (config_space()[:offset] + noise + config_space()[offset + len(noise) :])[:size]
    try:
        base = find_core(config).base
    except NoCore:
        return
    assert base % 4 == 0
    assert 0x100 <= base <= 0xF80


@given(
    st.lists(st.tuples(st.sampled_from([0x000B, 0x0003]), st.sampled_from([0x4B56, 0x1234]),
                       st.sampled_from([0x4B56_0100, 0x1234_0100]), st.integers(0, 3)), max_size=4),
    st.integers(0, 3),
)  # fmt: skip
def test_the_doctor_and_the_host_find_the_same_capability(
    capabilities: list[tuple[int, int, int, int]], first_low: int
) -> None:
    """Each capability: its kind, vendor-specific id, ID register, and the reserved bits of the pointer behind it."""
    image = ConfigImage()
    image.put(0, 0x0001_4B56)
    image.put(0x100, 0x0001_0003 | (0x200 | first_low) << 20 if capabilities else 0x0001_0003)
    for number, (kind, vsec_id, identity, low) in enumerate(capabilities):
        offset, last = 0x200 + 0x100 * number, number == len(capabilities) - 1
        image.put(offset, kind | 1 << 16 | (0 if last else offset + 0x100 | low) << 20)
        image.put(offset + 4, vsec_id | 0x0801_0000)
        image.put(offset + 16, identity)
    config = bytes(image.data)
    try:
        base = find_kv_asu(image)
    except DeviceNotFoundError:
        # The doctor may still name one with our id, to say that its ID register is not right.
        with contextlib.suppress(NoCore):
            assert find_core(config).id.magic != 0x4B56
        return
    assert find_core(config).ctrl_offset == base


def test_a_mounts_tree_is_no_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "devices" / "0000:00:02.0").mkdir(parents=True)
    assert main(["doctor", "--root", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"'vrex regs dump --root {tmp_path}' reads the device in it" in error
    assert error.count("\n") == 1
