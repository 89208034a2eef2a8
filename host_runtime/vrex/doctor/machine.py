"""The machine that is looked at: its files, its platform, and what several checks want to know of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from vrex.doctor.config_space import Core, NoCore, find_core, vendor_and_device
from vrex.doctor.kernel_command_line import cpu_list, default_entry, isolated_by, parameter, with_parameters
from vrex.doctor.tree import PADDING, Empty, Malformed, Missing, Tree, Undecided, printable, quoted
from vrex.platforms import Platform, version

Found = TypeVar("Found")

_CMDLINE = "/proc/cmdline"
_BOOTARGS = "/proc/device-tree/chosen/bootargs"
_ISOLATED = "/sys/devices/system/cpu/isolated"
_PCI_DEVICES = "/sys/bus/pci/devices"
#: What the kernel shows of a config space: all of it, all that a conventional device has, what everybody may read.
_CONFIG_BYTES, _LEGACY_CONFIG_BYTES, _HEADER_BYTES = 4096, 256, 64


def first_found(*looks: Callable[[], Found]) -> Found:
    """What the first of several places has, the most authoritative one first.

    Only what is missing is passed over: a place that is there and cannot be understood is not made good by another.

    Raises
    ------
    Undecided
        As the places raise it; `Missing` when all are missing.
    """
    sources: list[str] = []
    for look in looks:
        try:
            return look()
        except Missing as missing:
            sources.extend(missing.sources)
    raise Missing(*sources)


def version_in(text: str, pattern: str, source: str) -> str:
    """The version that a pattern's groups find in a text.

    Raises
    ------
    Malformed
        There is none.
    """
    match = re.search(pattern, text, re.MULTILINE)
    try:
        found = ".".join(match.groups()) if match else ""
        version(found)
    except (TypeError, ValueError):
        raise Malformed(source, f"no version in {quoted(text)}") from None
    return found


class NoAnswer(Exception):
    """The PCI function certainly does not answer as the core; the message says what was seen instead.

    Parameters
    ----------
    saw, repair : str
    """

    def __init__(self, saw: str, repair: str) -> None:
        super().__init__(saw)
        self.saw = saw
        self.repair = repair


class Machine:
    """A tree of files with the platform it is a machine of.

    Parameters
    ----------
    tree : Tree
    platform : Platform
    device : str
        The core's PCI address in full.
    """

    def __init__(self, tree: Tree, platform: Platform, device: str) -> None:
        self.tree = tree
        self.platform = platform
        self.device = device

    def collect(self, path: str, command: str | None = None, saved: str | None = None) -> str:
        """How to get at what is missing: a file, or what a command says, saved under a name."""
        if self.tree.live:
            return f"this machine has no {path}; is it a board of platform {self.platform.name}?"
        return f"on the board: sudo {command or f'cat {path}'}; put what it says into the tree as {(saved or path)[1:]}"

    # The kernel's command line

    def command_line(self) -> tuple[str, str]:
        """The command line of the running kernel, and where it was read.

        ``/proc/cmdline`` decides, since it is what the drivers are given. What the boot loader has passed stands in for
        it where it is missing, or empty, as copies of procfs made by tar are.
        """
        try:
            return self.tree.line(_CMDLINE), _CMDLINE
        except (Missing, Empty) as first:
            try:
                return self.tree.line(_BOOTARGS), _BOOTARGS
            except Missing:
                if isinstance(first, Empty):
                    raise first from None
                raise Missing(_CMDLINE, _BOOTARGS) from None

    def passed_by_boot_loader(self) -> str | None:
        """What the boot loader has passed to the kernel; None when that cannot be told."""
        try:
            return self.tree.line(_BOOTARGS)
        except Undecided:
            return None

    def isolated(self) -> tuple[set[int], str]:
        """The CPUs that the scheduler leaves alone, and where that was read."""

        def by_kernel() -> tuple[set[int], str]:
            text = self.tree.text(_ISOLATED)
            if not text:  # an empty list is an empty line; this is a copy without its contents
                raise Missing(_ISOLATED)
            try:
                return cpu_list(text.strip(PADDING)), _ISOLATED
            except ValueError as error:
                raise Malformed(_ISOLATED, str(error)) from None

        def by_command_line() -> tuple[set[int], str]:
            line, source = self.command_line()
            try:
                return isolated_by(parameter(line, "isolcpus") or ""), source
            except ValueError as error:
                raise Malformed(source, f"isolcpus: {error}") from None

        return first_found(by_kernel, by_command_line)

    def append_repair(self) -> str:
        """How the command line gets all that it lacks: the line of ``extlinux.conf``, one for both checks."""
        boot, cpus = self.platform.boot, self.platform.environment.cpus
        wanted = {}
        try:
            if parameter(self.command_line()[0], boot.parameter) != "1":
                wanted[boot.parameter] = "1"
        except Undecided:
            wanted[boot.parameter] = "1"
        if cpus is not None:
            try:
                isolated = self.isolated()[0]
            except Undecided:
                isolated = set()
            if not isolated.issuperset(cpus.isolated):
                wanted["isolcpus"] = ",".join(map(str, cpus.isolated))
        arguments = " ".join(f"{name}={value}" for name, value in wanted.items())
        if boot.extlinux is None:
            return f"add to the kernel's command line where this board's boot loader keeps it: {arguments}\nsudo reboot"
        try:
            entry = default_entry(self.tree.text(boot.extlinux))
        except Undecided as why:
            return f"add to the APPEND line of {boot.extlinux} ({printable(why.saw)}): {arguments}\nsudo reboot"
        if entry is None:
            return (
                f"{boot.extlinux} has no default entry; add to the APPEND line of the one that boots: {arguments}\n"
                "sudo reboot"
            )
        lacking = {name: value for name, value in wanted.items() if parameter(entry.arguments, name) != value}
        if not lacking:
            return (
                f"{boot.extlinux} has it in line {entry.line} already\nsudo reboot\n"
                f"if it is still missing then, entry {quoted(entry.label)} is not what boots"
            )
        where = f"line {entry.line} must read" if entry.line else f"add under LABEL {printable(entry.label)}"
        line = entry.start + with_parameters(entry.arguments, lacking)
        return f"in {boot.extlinux}, {where}:\n{line}\nsudo reboot"

    # The PCI function

    @cached_property
    def config(self) -> bytes:
        """The function's config space, as much of it as there is.

        Raises
        ------
        NoAnswer
            No such device, or nothing answers.
        Undecided
            The tree does not tell, or we may not read it.
        """
        folder = f"{_PCI_DEVICES}/{self.device}"
        if not self.tree.exists(_PCI_DEVICES):
            raise Missing(_PCI_DEVICES)
        if not self.tree.exists(folder):
            raise NoAnswer(
                f"no PCI device {self.device}", self._elsewhere or "sudo sh -c 'echo 1 > /sys/bus/pci/rescan'"
            )
        config = self._config_of(self.device)
        if config[:4] == b"\xff\xff\xff\xff":
            raise NoAnswer("the device reads all ones: it has gone", self.look_again)
        if config[:4] == bytes(4):
            raise NoAnswer("the device reads all zeros", self._elsewhere or "load the core's image and rescan")
        return config

    def _config_of(self, device: str) -> bytes:
        path = f"{_PCI_DEVICES}/{device}/config"
        config = self.tree.read(path, size=_CONFIG_BYTES + 1)
        if len(config) not in (_HEADER_BYTES, _LEGACY_CONFIG_BYTES, _CONFIG_BYTES):  # compressed, or a dump, say
            size = f"{len(config)}" if len(config) <= _CONFIG_BYTES else f"more than {_CONFIG_BYTES}"
            raise Malformed(path, f"{size} bytes, {_CONFIG_BYTES} expected")
        return config

    @property
    def config_path(self) -> str:
        """The file of the function's config space."""
        return f"{_PCI_DEVICES}/{self.device}/config"

    @property
    def look_again(self) -> str:
        """What to do about something that reads all ones: nobody answers there."""
        return (
            f"sudo sh -c 'echo 1 > {_PCI_DEVICES}/{self.device}/remove'\nsudo sh -c 'echo 1 > /sys/bus/pci/rescan'\n"
            "if it still reads all ones, take the power off and on"
        )

    @property
    def selected(self) -> str:
        """How setpci is told the function: by address and ids, so that it never writes to another that sits there."""
        vendor, device = vendor_and_device(self.config)
        return f"-s {self.device} -d {vendor:04x}:{device:04x}"

    @cached_property
    def core(self) -> Core:
        """The core's registers; raises as `config` does."""
        config = self.config
        try:
            return find_core(config)
        except NoCore as why:
            if len(config) == _HEADER_BYTES:
                raise Undecided(
                    f"{self.config_path}: 64 bytes: permission to read the rest was denied",
                    self.config_path,
                    "run vrex doctor with sudo" if self.tree.live else "copy the file again with sudo",
                ) from None
            vendor, device = vendor_and_device(config)
            if len(config) <= _LEGACY_CONFIG_BYTES:
                raise NoAnswer(
                    f"{vendor:04x}:{device:04x} at {self.device} has {len(config)} bytes of config space: "
                    "the extended one is out of reach",
                    self._elsewhere
                    or "the PCI host bridge must map extended config space (ECAM); see: sudo dmesg | grep -i ecam",
                ) from None
            raise NoAnswer(
                f"{vendor:04x}:{device:04x} at {self.device}: {why}",
                self._elsewhere or "name the core's device with --device; to find it: lspci -d 4b56:",
            ) from None

    @cached_property
    def _elsewhere(self) -> str | None:
        """A hint when the core answers at another address."""
        try:
            names = self.tree.entries(_PCI_DEVICES)
        except Undecided:
            return None
        for name in names:
            try:
                find_core(self._config_of(name))
            except (NoCore, Undecided):
                continue
            return f"the core is at {name}: vrex doctor --device {name}"
        return None
