"""The machine around the core: versions, clocks, CPUs, interrupts, camera, and the core's own word."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Iterator

from vrex.doctor.config_space import ALL_ONES, sleeps
from vrex.doctor.kernel_command_line import cpu_list
from vrex.doctor.machine import Machine, NoAnswer, first_found, version_in
from vrex.doctor.report import CORE_STATUS, Check, Finding, Kind, State, check
from vrex.doctor.tree import Malformed, Missing, Undecided, quoted
from vrex.platforms import BootLoader, Camera, Cpus, Gpu, Interrupt, L4t, PowerMode, version
from vrex.registers import MAGIC, MAJOR, MINOR

_BIOS_VERSION = "/sys/class/dmi/id/bios_version"
_ESRT_VERSION = "/sys/firmware/efi/esrt/entries/entry0/fw_version"
_PACKAGES = "/var/lib/dpkg/status"
_INTERRUPTS = "/proc/interrupts"
_UDEV_RULES = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")
_DEVICE_TREE = "/proc/device-tree"
_VIDEO_DEVICES = "/sys/class/video4linux"
_CAMERA_RULE = "/etc/udev/rules.d/90-vrex-camera.rules"


def environment(machine: Machine, links: list[Check]) -> Iterator[Check]:
    """Check what the platform file asks for, then the PCI function and the core.

    Parameters
    ----------
    machine : Machine
    links : list of Check
        The boot chain's: the core's own word counts once they all hold.
    """
    asked = machine.platform.environment
    if asked.boot_loader is not None:
        yield _boot_loader(machine, asked.boot_loader)
    if asked.l4t is not None:
        yield _l4t(machine, asked.l4t)
    if asked.power_mode is not None:
        yield _power_mode(machine, asked.power_mode)
    if asked.gpu is not None:
        yield from _gpu(machine, asked.gpu)
    if asked.cpus is not None:
        yield _isolated_cpus(machine, asked.cpus)
    if asked.interrupt is not None:
        yield _dma_interrupt(machine, asked.interrupt)
    if asked.camera is not None:
        yield _camera(machine, asked.camera)
    pci = _pci_device(machine)
    yield pci
    yield _register_map(machine) if pci.state is State.OK else _skipped(_REGISTER_MAP, pci)
    broken = next((link for link in links if link.state is not State.OK), None)
    yield _core_status(machine) if broken is None else _skipped(_CORE_STATUS, broken)


def _not_older(found: str, source: str, minimum: str, update: str) -> Finding:
    return Finding(version(found) >= version(minimum), found, source, update)


def _boot_loader(machine: Machine, asked: BootLoader) -> Check:
    """UEFI tells its version in the DMI table, in its table of resources (to root), and through its own tool."""
    tree = machine.tree

    def by_dmi() -> tuple[str, str]:
        return version_in(tree.line(_BIOS_VERSION), r"(\d+(?:\.\d+)+)", _BIOS_VERSION), _BIOS_VERSION

    def by_resource_table() -> tuple[str, str]:
        text = tree.line(_ESRT_VERSION)
        if re.fullmatch(r"[0-9]{1,10}", text) is None:
            raise Malformed(_ESRT_VERSION, f"a number expected, not {quoted(text)}")
        number = int(text)
        return f"{number >> 16}.{number >> 8 & 0xFF}.{number & 0xFF}", _ESRT_VERSION

    def by_tool() -> tuple[str, str]:
        said = tree.output("nvbootctrl", "dump-slots-info")
        return version_in(said.text, r"^Current version: *(\d+(?:\.\d+)+)", said.source), said.source

    def look() -> Finding:
        update = (
            f"update the boot loader to {asked.minimum} or newer: "
            "sudo apt-get install --reinstall nvidia-l4t-bootloader, then sudo reboot"
        )
        return _not_older(*first_found(by_dmi, by_resource_table, by_tool), asked.minimum, update)

    collect = machine.collect(_BIOS_VERSION, "nvbootctrl dump-slots-info", "/nvbootctrl.txt")
    return check("boot-loader", "boot loader", Kind.ENVIRONMENT, f"{asked.minimum} or newer", look, collect)


def _l4t(machine: Machine, asked: L4t) -> Check:
    """The release file names the installed Jetson Linux; without it the package database does."""
    tree = machine.tree

    def by_release() -> tuple[str, str]:
        return version_in(
            tree.text(asked.release), r"R(\d+) *\(release\), *REVISION: *([\d.]+)", asked.release
        ), asked.release

    def by_package() -> tuple[str, str]:
        for paragraph in tree.text(_PACKAGES).split("\n\n"):
            if paragraph.startswith(f"Package: {asked.package}\n"):
                return version_in(paragraph, r"^Version: *(\d+(?:\.\d+)+)", _PACKAGES), _PACKAGES
        raise Missing(f"{asked.package} in {_PACKAGES}")

    def look() -> Finding:
        update = f"flash Jetson Linux {asked.minimum} or newer (JetPack 6.0 is 36.3)"
        return _not_older(*first_found(by_release, by_package), asked.minimum, update)

    collect = machine.collect(asked.release)
    return check("l4t", "L4T", Kind.ENVIRONMENT, f"{asked.minimum} or newer", look, collect)


def _power_mode(machine: Machine, asked: PowerMode) -> Check:
    """The mode that nvpmodel remembers to have set; its word; the default that a boot sets when it remembers none."""
    tree = machine.tree

    def pick(text: str, pattern: str, source: str) -> tuple[int, str]:
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise Malformed(source, f"no power mode in {quoted(text)}")
        return int(match[1]), source

    def remembered() -> tuple[int, str]:
        return pick(tree.text(asked.status), r"pmode:\s*([0-9]{1,6})\b", asked.status)

    def by_tool() -> tuple[int, str]:
        said = tree.output("nvpmodel", "-q")
        return pick(said.text, r"^\s*([0-9]{1,6})\s*$", said.source)

    def default() -> tuple[int, str]:
        return pick(tree.text(asked.config), r"^\s*<\s*PM_CONFIG\s+DEFAULT=([0-9]{1,6})\s*>", asked.config)

    def look() -> Finding:
        mode, source = first_found(remembered, by_tool, default)
        return Finding(mode == asked.mode, f"mode {mode}{name(mode)}", source, f"sudo nvpmodel -m {asked.mode}")

    def name(mode: int) -> str:
        try:
            config = tree.text(asked.config)
        except Undecided:
            return ""
        match = re.search(rf"^\s*<\s*POWER_MODEL\s+ID={mode}\s+NAME=(\w+)\s*>", config, re.MULTILINE)
        return f" ({match[1]})" if match else ""

    collect = machine.collect(asked.status)
    return check("power-mode", "power mode", Kind.ENVIRONMENT, f"mode {asked.mode}", look, collect)


def _gpu(machine: Machine, asked: Gpu) -> Iterator[Check]:
    """A GPU whose clock follows the load lets the DMA engine down when it matters."""
    tree = machine.tree

    def folder() -> str:
        for path in asked.devfreq:
            if tree.exists(path):
                return path
        raise Missing(f"{asked.devfreq[0]} or another devfreq folder of the GPU")

    def governor() -> Finding:
        path = f"{folder()}/governor"
        found = tree.line(path)
        repair = f"sudo sh -c 'echo {asked.governor} > {path}'"
        return Finding(found == asked.governor, found, path, repair)

    def number(path: str) -> int:
        text = tree.line(path)
        if re.fullmatch(r"[0-9]{1,18}", text) is None:
            raise Malformed(path, f"a frequency in Hz expected, not {quoted(text)}")
        return int(text)

    def offered(path: str) -> int | None:
        """The highest frequency the GPU offers; None when it does not say."""
        try:
            words = tree.line(path).split()
            return max(int(word) for word in words if word.isdecimal() and len(word) < 19)
        except (Undecided, ValueError):
            return None

    def max_freq() -> Finding:
        path = f"{folder()}/max_freq"
        found = number(path)
        highest = offered(f"{folder()}/available_frequencies")
        # A GPU that cannot run at this clock is set right when it runs at the highest it has.
        asked_hz = asked.max_freq_hz if highest is None else min(asked.max_freq_hz, highest)
        saw = f"{found / 1e6:g} MHz" + (
            f", the highest is {highest / 1e6:g} MHz" if highest and highest < asked.max_freq_hz else ""
        )
        return Finding(found >= asked_hz, saw, path, f"sudo sh -c 'echo {asked_hz} > {path}'")

    yield check(
        "gpu-governor",
        "GPU governor",
        Kind.ENVIRONMENT,
        asked.governor,
        governor,
        machine.collect(f"{asked.devfreq[0]}/governor"),
    )
    expected = f"{asked.max_freq_hz / 1e6:g} MHz or more"
    yield check(
        "gpu-max-freq",
        "GPU maximum frequency",
        Kind.ENVIRONMENT,
        expected,
        max_freq,
        machine.collect(f"{asked.devfreq[0]}/max_freq"),
    )


def _isolated_cpus(machine: Machine, asked: Cpus) -> Check:
    """The kernel's own list says what it made of the command line; without it, the command line."""
    wanted = ",".join(map(str, asked.isolated))

    def look() -> Finding:
        isolated, source = machine.isolated()
        ok = isolated.issuperset(asked.isolated)
        saw = f"CPUs {','.join(map(str, sorted(isolated)[:64]))}" if isolated else "no CPU is isolated"
        return Finding(ok, saw, source, None if ok else machine.append_repair())

    collect = machine.collect("/proc/cmdline")
    return check("isolated-cpus", "isolated CPUs", Kind.ENVIRONMENT, f"isolcpus={wanted}", look, collect)


def named_interrupts(text: str, patterns: tuple[str, ...]) -> dict[int, str]:
    """The interrupts of a ``/proc/interrupts`` whose names fit the first pattern that fits any: number to name.

    A line is number, counts of each CPU, chip, hardware number, trigger and the names of the handlers.
    """
    names: dict[int, list[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9]{1,9}):(?:\s+[0-9]+)*\s+(.*)", line)
        if match is not None:
            names[int(match[1])] = re.split(r"[\s,]+", match[2].strip())
    for pattern in patterns:
        found = {
            number: word
            for number, words in names.items()
            for word in words
            if fnmatch.fnmatchcase(word.lower(), pattern.lower())
        }
        if found:
            return found
    return {}


def _dma_interrupt(machine: Machine, asked: Interrupt) -> Check:
    """Mask and list say one thing in two ways, so either decides; mixed up, ``2`` as a mask is CPU 1."""
    tree = machine.tree
    mask = 1 << asked.cpu

    def by_mask(path: str) -> set[int]:
        text = tree.line(path)
        if re.fullmatch(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{8}){0,255}", text) is None:
            raise Malformed(path, f"{quoted(text)} is not a mask of CPUs")
        bits = int(text.replace(",", ""), 16)
        return {cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1}

    def by_list(path: str) -> set[int]:
        try:
            return cpu_list(tree.line(path))
        except ValueError as error:
            raise Malformed(path, str(error)) from None

    def affinity(number: int) -> tuple[bool, str]:
        """Whether the CPU is the one, and what was read. One that is wrong tells, whatever is with the other."""
        ok, says, undecided = True, [], list[Undecided]()
        for name, file, cpus_in in (("mask", "smp_affinity", by_mask), ("list", "smp_affinity_list", by_list)):
            try:
                cpus = cpus_in(f"/proc/irq/{number}/{file}")
            except Undecided as why:
                undecided.append(why)
                continue
            ok = ok and cpus == {asked.cpu}
            says.append(f"{name} is CPU {_cpus(cpus)}")
        if ok:
            for reason in undecided:
                if not (says and isinstance(reason, Missing)):
                    raise reason
        return ok, ", ".join(says)

    def look() -> Finding:
        text = tree.text(_INTERRUPTS)
        if "CPU" not in text:
            raise Malformed(_INTERRUPTS, "it names no CPUs")
        found = named_interrupts(text, asked.names)
        if not found:
            return Finding(
                False,
                f"no interrupt named like {asked.names[0]}; a network card's is not it",
                _INTERRUPTS,
                "load the driver (sudo modprobe gmc) and look again",
            )
        wrong: list[tuple[int, str]] = []
        right: list[tuple[int, str]] = []
        for number, name in found.items():
            ok, says = affinity(number)
            (right if ok else wrong).append((number, f"interrupt {number} ({name}): {says}"))
        repair = "\n".join(
            [
                *(f"sudo sh -c 'echo {mask:x} > /proc/irq/{number}/smp_affinity'" for number, _ in wrong),
                f"this is a mask ({mask:x}); the same as a list is {asked.cpu} in smp_affinity_list",
                "if irqbalance runs, it moves it again: sudo systemctl disable --now irqbalance",
            ]
        )
        saw = "; ".join(says for _, says in (wrong or right))
        return Finding(not wrong, saw, f"{_INTERRUPTS}, /proc/irq/N/smp_affinity, smp_affinity_list", repair)

    expected = f"CPU {asked.cpu}: {mask:x} in smp_affinity, {asked.cpu} in smp_affinity_list"
    collect = machine.collect(_INTERRUPTS) + "; the same for /proc/irq/N/smp_affinity or smp_affinity_list"
    return check("dma-interrupt", "DMA interrupt", Kind.ENVIRONMENT, expected, look, collect)


def _cpus(cpus: set[int]) -> str:
    return ",".join(map(str, sorted(cpus)[:16])) or "none"


def _camera(machine: Machine, asked: Camera) -> Check:
    """Locked is a camera that offers one size, or that a udev rule sets to one size whenever it appears.

    Neither is no proof that nobody sets another: a program that opens the camera may lock it, and files do not tell.
    """
    tree = machine.tree

    def rules() -> dict[tuple[int, int], str]:
        sizes = {}
        for folder in _UDEV_RULES:
            for path in tree.glob(folder, "*.rules"):
                for line in tree.text(path).splitlines():
                    match = re.search(r"--set-fmt-video=\S*?width=(\d{1,5}),height=(\d{1,5})", line)
                    if match and not line.lstrip().startswith("#"):
                        sizes[int(match[1]), int(match[2])] = path
        return sizes

    def offered() -> dict[tuple[int, int], str]:
        """The sizes of the sensor modes in the device tree, as Tegra's camera driver reads them."""
        sizes = {}
        for folder in tree.folders(_DEVICE_TREE):
            sensor, _, name = folder.rpartition("/")
            if re.fullmatch(r"mode\d{1,2}", name) and tree.exists(f"{folder}/active_w"):
                with contextlib.suppress(Undecided, ValueError):
                    width, height = (int(tree.line(f"{folder}/active_{side}")[:5]) for side in "wh")
                    sizes[width, height] = sensor
        return sizes

    def look() -> Finding:
        size = f"width={asked.width},height={asked.height}"
        repair = (
            f"write to {_CAMERA_RULE}:\n"
            'SUBSYSTEM=="video4linux", ACTION=="add", ATTR{index}=="0", '
            f'RUN+="/usr/bin/v4l2-ctl -d $devnode --set-fmt-video={size}"\n'
            "sudo udevadm control --reload && sudo udevadm trigger --action=add --subsystem-match=video4linux"
        )
        for sizes, how in ((rules(), "udev rules set"), (offered(), "the sensor offers")):
            if sizes:
                saw = f"{how} " + " and ".join(f"{width}x{height}" for width, height in sorted(sizes))
                return Finding(len(sizes) == 1, saw, ", ".join(dict.fromkeys(sizes.values())), repair)
        cameras = "there is a camera" if any(tree.glob(_VIDEO_DEVICES, "video*")) else "no camera is to be seen"
        raise Undecided(
            f"{cameras}, and no udev rule sets its size", ", ".join((*_UDEV_RULES[:1], _VIDEO_DEVICES)), repair
        )

    return check("camera", "camera", Kind.ENVIRONMENT, "locked to one resolution", look)


def _pci_device(machine: Machine) -> Check:
    base = machine.platform.pci.config_base

    def look() -> Finding:
        try:
            core = machine.core
        except NoAnswer as why:
            return Finding(False, why.saw, machine.config_path, why.repair)
        elsewhere = "" if core.base == base else f"; the platform file says {base:#x}"
        return Finding(True, f"{machine.device} answers, capability at {core.base:#x}{elsewhere}", machine.config_path)

    expected = f"{machine.device} answers and has the KV-ASU capability"
    collect = machine.collect(machine.config_path)
    return check("pci-device", "PCI device", Kind.ENVIRONMENT, expected, look, collect)


_REGISTER_MAP = ("register-map", "register map", f"version {MAJOR}.x")
_CORE_STATUS = (CORE_STATUS, "core's status", "STATUS has POWERED, and ACTIVE or BUSY")


def _skipped(names: tuple[str, str, str], because: Check) -> Check:
    id, title, expected = names
    saw = f"not looked at: {because.title} comes first"
    return Check(id, title, Kind.ENVIRONMENT, State.SKIPPED, saw, expected, None, because.source)


def _register_map(machine: Machine) -> Check:
    """Host and hardware must agree on the major version; a newer minor one only adds."""

    def look() -> Finding:
        register = machine.core.id
        if not register:
            raise Undecided(
                "ID reads 0, so there is no version to compare", machine.config_path, "load the core's current image"
            )
        if register.magic != MAGIC:
            return Finding(
                False, f"ID reads {register:#010x}, not our registers", machine.config_path, "load the core's image"
            )
        saw = f"the core has {register.major}.{register.minor}, this vrex {MAJOR}.{MINOR}"
        repair = "update vrex" if register.major > MAJOR else "update the core's image"
        return Finding(register.major == MAJOR, saw, machine.config_path, repair)

    id, title, expected = _REGISTER_MAP
    return check(id, title, Kind.ENVIRONMENT, expected, look)


def _core_status(machine: Machine) -> Check:
    """Every link holds; what remains is whether the core agrees."""

    def look() -> Finding:
        status = machine.core.status
        if machine.core.id.magic != MAGIC:
            raise Undecided(
                "ID does not read as ours, so STATUS tells nothing", machine.config_path, "see register map"
            )
        if status == ALL_ONES:
            saw = f"STATUS reads {status:#010x}: nobody answers there"
            return Finding(False, saw, machine.config_path, machine.look_again)
        on = [name.upper() for name, value in status.fields().items() if value]
        saw = f"STATUS reads {status:#010x} ({', '.join(on) or 'nothing set'})"
        power_state = machine.platform.boot.power_state
        repair = (
            "the core has no power although the driver says ON; switch it off and on:\n"
            f"sudo sh -c 'echo 0 > {power_state}; echo 1 > {power_state}'"
        )
        if sleeps(machine.config):
            saw += "; the function sleeps (D3hot)"
            folder = machine.config_path.rpartition("/")[0]
            repair = f"sudo sh -c 'echo on > {folder}/power/control'\nsudo setpci {machine.selected} CAP_PM+4.b=0:3"
        if status.powered and not (status.active or status.busy):
            raise Undecided(f"{saw}: neither running nor starting", machine.config_path, "read it again: vrex doctor")
        return Finding(bool(status.powered), saw, machine.config_path, repair)

    id, title, expected = _CORE_STATUS
    return check(id, title, Kind.ENVIRONMENT, expected, look)
