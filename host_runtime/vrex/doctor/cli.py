"""`vrex doctor`: the command, and the report for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from vrex.doctor.report import Check, Report

EXAMPLES = """Examples:

- `sudo vrex doctor`
- `vrex doctor --root customer/ --platform agx-orin --json`
"""

_STYLES = {"OK": "green", "FAIL": "bold red", "UNKNOWN": "yellow", "SKIPPED": "dim"}


def doctor(
    root: Annotated[
        Path,
        typer.Option(exists=True, file_okay=False, help="Folder that stands for /: a copy of another machine's files."),
    ] = Path("/"),
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="orin-nx, agx-orin, ascend-310b, or a platform file; as the device tree says unless given.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="BDF", help="The core's PCI address; the platform's unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Find what keeps the core from being active, or the machine from being fast, and say what repairs it.

    The four links of the boot chain come first, in order; then the environment. Ends with 0 when all links hold and
    nothing in the environment is wrong, with 1 otherwise. What cannot be decided counts as broken for a link and is a
    warning in the environment.
    """
    from vrex.doctor.examination import examine, platform_name
    from vrex.doctor.tree import Tree
    from vrex.platforms import PlatformError, load_platform, pci_address

    if (root / "devices").is_dir() and not (root / "sys").exists():
        raise typer.BadParameter(
            f"{root} looks like what 'vrex mount' serves, which is no whole machine; 'vrex regs dump --root {root}' "
            "reads the device in it",
            param_hint="'--root'",
        )
    tree = Tree(root)
    try:
        chosen = load_platform(platform or platform_name(tree))
    except PlatformError as error:
        raise typer.BadParameter(str(error), param_hint="'--platform'") from None
    try:
        address = None if device is None else pci_address(device)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--device'") from None
    report = examine(tree, chosen, address)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        _print(report)
    raise typer.Exit(1 if report.failures else 0)


def _print(report: Report) -> None:
    from rich.console import Console
    from rich.text import Text

    from vrex.doctor.report import Kind, State

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"{report.root} as {report.platform}, core at {report.device}"))
    for title, kind in (("Boot chain", Kind.LINK), ("Environment", Kind.ENVIRONMENT)):
        console.print(Text(f"\n{title}", style="bold"))
        for number, check in enumerate(report.of(kind), start=1):
            console.print(_lines(check, f"{number}. " if kind is Kind.LINK else ""))
    console.print()
    broken = report.broken
    if broken is None:
        console.print(Text("KV-ASU Status: ACTIVE", style="bold green"))
    else:
        why = "cannot be decided" if broken.state == "UNKNOWN" else broken.saw
        console.print(Text(f"KV-ASU Status: INACTIVE ({broken.title}: {why})", style="bold red"))
    states = [check.state for check in report.checks]
    for state, what in ((State.FAIL, "to repair"), (State.UNKNOWN, "not decided")):
        if state in states:
            console.print(Text(f"{states.count(state)} {what}"))


def _lines(check: Check, number: str) -> Text:
    from rich.text import Text

    text = Text()
    text.append(f"{check.state:8}", style=_STYLES[check.state])
    text.append(f"{number}{check.title}: {check.saw}")
    text.append(f"\n{'':8}expected {check.expected}; from {check.source}", style="dim")
    if check.repair is not None:
        text.append(f"\n{'':8}repair:", style="bold")
        for line in check.repair.split("\n"):
            text.append(f"\n{'':10}{line}")
    return text
