"""All checks of one machine, in order."""

from __future__ import annotations

from vrex.doctor.environment import environment
from vrex.doctor.links import boot_links
from vrex.doctor.machine import Machine
from vrex.doctor.report import Report
from vrex.doctor.tree import Tree, Undecided
from vrex.platforms import Platform, recognised

_COMPATIBLE = "/proc/device-tree/compatible"


def platform_name(tree: Tree) -> str:
    """The platform that the machine's device tree names, or the default one."""
    try:
        return recognised(tree.text(_COMPATIBLE).split("\0"))
    except Undecided:
        return recognised(())


def examine(tree: Tree, platform: Platform, device: str | None = None) -> Report:
    """Look at a machine.

    Parameters
    ----------
    tree : Tree
        Its files.
    platform : Platform
    device : str, optional
        The core's PCI address in full; the platform's unless given.

    Returns
    -------
    Report
        Whatever the files hold: what cannot be read or understood is a check that could not be decided.
    """
    machine = Machine(tree, platform, device or platform.pci.device)
    links = boot_links(machine)
    return Report(str(tree.root), platform.name, machine.device, (*links, *environment(machine, links)))
