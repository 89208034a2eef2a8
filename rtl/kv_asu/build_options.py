"""The options of a command line that choose a build of the core."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kv_asu.params import PROFILES, Params


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number; 0x starts a hexadecimal one") from None


def _profile(text: str) -> str:
    if text not in PROFILES:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(PROFILES)}")
    return text


def _option(help_text: str) -> Any:
    return typer.Option(parser=_number, metavar="N", help=help_text, show_default=False)


ProfileOption = Annotated[
    str, typer.Option(parser=_profile, metavar="|".join(PROFILES), help="What the numbers not given are.")
]
Log2EntriesOption = Annotated[int | None, _option("log2 of the table's slots, 3 to 16.")]
WindowOption = Annotated[int | None, _option("Slots probed in parallel: 2, 4, 8 or 16.")]
HashStagesOption = Annotated[int | None, _option("Pipeline registers in the hash, 0 to 6.")]
TableStagesOption = Annotated[int | None, _option("Pipeline registers behind the table memories, 0 to 2.")]
StampWidthOption = Annotated[int | None, _option("Bits of a time stamp, 8 to 16.")]
AddrWidthOption = Annotated[int | None, _option("Bits of a request address, 32 to 64.")]
ConfigBaseOption = Annotated[int | None, _option("Where the capability sits in config space, like 0x7F8.")]
FullConfigSpaceOption = Annotated[
    bool,
    typer.Option(
        "--full-config-space",
        help="The core as a whole PCI function, with header and standard capabilities, for where no PCIe hard block "
        "has them.",
    ),
]


def params_of(profile: str, **given: int | None) -> Params:
    """The build that a profile is with the numbers that were given.

    Raises
    ------
    typer.BadParameter
        There is no such build.
    """
    try:
        return PROFILES[profile](**{name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
