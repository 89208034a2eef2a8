"""The four links of the boot chain, in the order in which they must hold."""

from __future__ import annotations

from vrex.doctor.config_space import ALL_ONES
from vrex.doctor.environment_image import image_variables, printed_variables
from vrex.doctor.kernel_command_line import parameter
from vrex.doctor.machine import Machine, NoAnswer, first_found
from vrex.doctor.report import Check, Finding, Kind, check
from vrex.doctor.tree import Malformed, quoted

_ON, _OFF = ("on", "1"), ("off", "0")


def boot_links(machine: Machine) -> list[Check]:
    """Check the four links."""
    boot = machine.platform.boot
    return [
        check(
            "boot-loader-variable",
            "boot loader variable",
            Kind.LINK,
            f"{boot.variable}=1",
            lambda: _boot_loader_variable(machine),
            "sudo apt-get install libubootenv-tool, then run vrex doctor with sudo"
            if machine.tree.live
            else machine.collect("", "fw_printenv", "/fw_printenv.txt"),
        ),
        check(
            "kernel-command-line",
            "kernel command line",
            Kind.LINK,
            f"{boot.parameter}=1",
            lambda: _kernel_command_line(machine),
            machine.collect("/proc/cmdline"),
        ),
        check(
            "power-state",
            "power state",
            Kind.LINK,
            "kvasu_power_state ON",
            lambda: _power_state(machine),
            machine.collect(boot.power_state),
        ),
        check(
            "config-space",
            "config space",
            Kind.LINK,
            "CTRL bit 0 (ENABLE) set",
            lambda: _enabled(machine),
            machine.collect(machine.config_path),
        ),
    ]


def _boot_loader_variable(machine: Machine) -> Finding:
    """The stored variables, by the boot loader's own tool or from where they are stored.

    On this machine the tool is asked first: it knows where they are. In a copy, they themselves say more than what
    somebody has once printed.
    """
    name = machine.platform.boot.variable

    def stored() -> tuple[dict[str, str], str, str]:
        return *image_variables(machine.tree, machine.platform.boot.environment_config), ""

    def printed() -> tuple[dict[str, str], str, str]:
        said = machine.tree.output("fw_printenv")
        variables = printed_variables(said.text)
        if not variables and f'"{name}" not defined' not in said.text:
            raise Malformed(said.source, f"no variables in {quoted(said.text)}")
        note = "; checksum wrong, these are the built-in ones" if "Bad CRC" in said.text else ""
        return variables, said.source, note

    order = (printed, stored) if machine.tree.live else (stored, printed)
    variables, source, note = first_found(*order)
    value = variables.get(name)
    saw = f"{name} is not set" if value is None else f"{name}={value}"
    return Finding(value == "1", saw + note, source, f"sudo fw_setenv {name} 1\nsudo reboot")


def _kernel_command_line(machine: Machine) -> Finding:
    name = machine.platform.boot.parameter
    line, source = machine.command_line()
    value = parameter(line, name)
    saw = _set_or_not(name, value)
    passed = machine.passed_by_boot_loader()
    if passed is not None and parameter(passed, name) != value:
        saw += f"; the boot loader has passed: {_set_or_not(name, parameter(passed, name))}"
    return Finding(value == "1", saw, source, None if value == "1" else machine.append_repair())


def _set_or_not(name: str, value: str | None) -> str:
    if value is None:
        return f"{name} is not there"
    return f"{name}={value}" if value else f"{name} has no value"


def _power_state(machine: Machine) -> Finding:
    path = machine.platform.boot.power_state
    driver = path.rsplit("/", 1)[0]
    if not machine.tree.exists(path) and machine.tree.exists(driver.rsplit("/", 1)[0]):
        if machine.tree.exists(driver):
            saw, repair = f"{path}: not found", "the driver is too old to switch the core's power; install its update"
        else:
            saw, repair = f"{driver}: not found: the driver is not loaded", "sudo modprobe gmc"
        return Finding(False, saw, path, f"{repair}\n{_switch_on(path)}")
    state = machine.tree.line(path)
    if state.lower() not in _ON + _OFF:
        raise Malformed(path, f"ON or OFF expected, not {quoted(state)}")
    return Finding(state.lower() in _ON, f"kvasu_power_state is {state}", path, _switch_on(path))


def _switch_on(path: str) -> str:
    return f"sudo sh -c 'echo 1 > {path}'"


def _enabled(machine: Machine) -> Finding:
    source = machine.config_path
    try:
        core = machine.core
    except NoAnswer as why:
        return Finding(False, f"CTRL cannot be read: {why.saw}", source, why.repair)
    saw = f"CTRL at {core.ctrl_offset:#x} reads {core.ctrl:#010x}"
    if core.ctrl == ALL_ONES:
        return Finding(False, f"{saw}: nobody answers there", source, machine.look_again)
    repair = f"sudo setpci {machine.selected} {core.ctrl_offset:x}.l=1:1"
    return Finding(bool(core.ctrl.enable), saw, source, repair)
