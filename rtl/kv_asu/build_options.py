"""The options of a command line that choose a build of the core."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kv_asu.params import PROFILES, Params
from kv_asu.tops import QUEUE_DEPTH, Top

#: What `--top` may be.
TOPS = ("core", "axi")

#: What each number is, as `--help` says it.
_NUMBERS = {
    "log2_entries": "log2 of the table's slots, 3 to 16.",
    "window": "Slots probed in parallel: 2, 4, 8 or 16.",
    "hash_stages": "Pipeline registers in the hash, 0 to 6.",
    "table_stages": "Pipeline registers behind the table memories, 0 to 2.",
    "stamp_width": "Bits of a time stamp, 8 to 16.",
    "addr_width": "Bits of a request address, 32 to 64.",
    "config_base": "Where the capability sits in config space, like 0x7F8.",
    "config_next": "Where the next capability sits, 0 if this is the last.",
    "vendor_id": "The vendor id of header and capability.",
    "vsec_id": "The vendor-specific capability's id; host programs look for 0x4B56 unless told.",
    "function": "The function number the core answers to.",
}


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number; 0x starts a hexadecimal one") from None


def _profile(text: str) -> str:
    if text not in PROFILES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(PROFILES)}")
    return text


def _top(text: str) -> str:
    if text not in TOPS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(TOPS)}")
    return text


def _options() -> dict[str, tuple[Any, Any]]:
    """Each option's annotation and default."""
    choice = typer.Option(
        parser=_profile,
        metavar="|".join(PROFILES),
        help="What the numbers not given are. A build with other "
        "stages, or another stamp width, than a profile's is called custom.",
    )
    numbers = {
        name: (Annotated[int | None, typer.Option(parser=_number, metavar="N", help=text, show_default=False)], None)
        for name, text in _NUMBERS.items()
    }
    return {"profile": (Annotated[str, choice], "asic")} | numbers


def takes_build(command: Callable[..., None]) -> Callable[..., None]:
    """Give a typer command the options that choose a build, in the place of its parameter ``params``.

    Parameters
    ----------
    command : callable
        Has a parameter ``params``, which is given the `Params`. Wrong usage ends the command before it is called.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "params":
            parameters += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in _options().items()
            ]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def with_options(*, profile: str, **arguments: Any) -> None:
        numbers = {name: arguments.pop(name) for name in _NUMBERS}
        command(params=_params(profile, numbers), **arguments)

    # What typer reads: inspect.signature and get_type_hints.
    with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


FullConfigSpaceOption = Annotated[
    bool,
    typer.Option(
        "--full-config-space",
        help="The core as a whole PCI function, with header and standard capabilities, for where no PCIe hard block "
        "has them.",
    ),
]

TopOption = Annotated[
    str,
    typer.Option(
        parser=_top,
        metavar="|".join(TOPS),
        help="The core alone, or with a listener at an AXI4 bus in the place of its request port.",
    ),
]
QueueDepthOption = Annotated[
    int | None,
    typer.Option(
        parser=_number,
        metavar="N",
        help="Bursts that can wait in the listener's queue, 4 to 1024; 32 unless given.",
        show_default=False,
    ),
]
ConfigClockOption = Annotated[
    bool,
    typer.Option(
        "--config-clock",
        help="Give config space and irq a clock of their own, as a PCIe hard block has; its constraints go beside the "
        "Verilog as .sdc and .xdc.",
    ),
]


def top_of(top: str, queue_depth: int | None, *, full_config_space: bool, config_clock: bool) -> Top:
    """What is around the core.

    Raises
    ------
    typer.BadParameter
        There is no such build.
    """
    if queue_depth is not None and top != "axi":
        raise typer.BadParameter(f"the {top} has no queue; say --top axi", param_hint="'--queue-depth'")
    try:
        depth = QUEUE_DEPTH if queue_depth is None else queue_depth
        return Top(full_config_space, top == "axi", depth, config_clock)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _params(profile: str, numbers: dict[str, int | None]) -> Params:
    try:
        return PROFILES[profile](**{name: value for name, value in numbers.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
