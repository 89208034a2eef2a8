"""`vrex mount`: a live device for lspci and setpci."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kv_asu.build_options import takes_build
from kv_asu.params import Params

if TYPE_CHECKING:
    from vrex.transports.base import Bus

EXAMPLES = """Examples:

- `mkdir mnt; vrex mount mnt`
- `vrex mount --transport rtl --log2-entries 12 mnt`
- `vrex mount --trace examples/traces/bikes.parquet mnt`
"""

_TRANSPORTS = ("model", "rtl")


def _transport(text: str) -> str:
    if text not in _TRANSPORTS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(_TRANSPORTS)}")
    return text


@takes_build
def mount(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder.")],
    params: Params,
    transport: Annotated[
        str, typer.Option(parser=_transport, metavar="|".join(_TRANSPORTS), help="What to serve.")
    ] = "model",
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Play this trace into the device meanwhile, over and over, in its own time or as fast as the device "
            "goes; a device that is slower, as compiled gateware is, has its pauses cut.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is served as one JSON object.")] = False,
) -> None:
    """Serve a live device, just reset, as a tree like /sys/bus/pci, for real `lspci` and `setpci`.

    Serves until interrupted, and unmounts on the way out; only who serves it may look into it. The device's clock runs
    while it is accessed, for 4096 clocks (8 us) between two calls of a program, and with `--trace` with the traffic.
    Never leave `-O sysfs.path=DIR` out: a bare `setpci -s 00:02.0` writes to whatever your machine has there.

    With it, in another terminal, `lspci -A linux-sysfs -O sysfs.path=DIR -s 00:02.0 -vvv` shows the device, and
    `setpci -A linux-sysfs -O sysfs.path=DIR -s 00:02.0 ECAP_VNDR+8.l=1` enables it.

    A server that was killed while a program had the device open leaves DIR mounted: `fusermount3 -u DIR`.
    """
    from vrex.console import progress_bar
    from vrex.mount.serving import IDLE_CLOCKS, check_folder, check_fuse, serve
    from vrex.mount.traffic import Traffic
    from vrex.mount.turns import Turns

    if folder == Path():  # "." is what lies under the mount, to whoever stands in it
        folder = folder.resolve()
    check_folder(folder)
    check_fuse()
    turns = Turns()
    with contextlib.ExitStack() as cleanup:
        bus = cleanup.enter_context(_open(transport, params))
        traffic = Traffic(bus, trace, turns, _warn) if trace else None

        def mounted() -> None:
            with contextlib.suppress(BrokenPipeError):
                print(_record(folder, bus, trace) if as_json else _what_is_there(folder, bus, trace), flush=True)
            if traffic:
                bar = cleanup.enter_context(progress_bar("traffic", "reads"))
                cleanup.callback(traffic.stop)
                traffic.start(bar)

        serve(bus, folder, turns=turns, idle_clocks=0 if traffic else IDLE_CLOCKS, mounted=mounted)
    _say(f"{folder}: unmounted")


def _open(transport: str, params: Params) -> Bus:
    from vrex.transports import open_transport

    try:
        return cast("Bus", open_transport(transport, params=params))
    except ValueError as error:  # a build that can be no function of its own
        raise typer.BadParameter(str(error)) from None


def _what_is_there(folder: Path, bus: Bus, trace: Path | None) -> str:
    from vrex.transports.sysfs import DEVICE

    params, place = bus.params, shlex.quote(str(folder))
    pciutils = f"-A linux-sysfs -O sysfs.path={place} -s {DEVICE.removeprefix('0000:')}"
    return "\n".join(
        [
            f"{folder}: {bus} as {DEVICE}, {params.entries} slots, window {params.window}, latency {params.latency}"
            + (f", under the traffic of {trace}" if trace else ""),
            f"  lspci {pciutils} -vvv",
            f"  setpci {pciutils} ECAP_VNDR+8.l=1    # CTRL: enable; then the same without =1",
            f"  vrex regs watch --root {place}",
            "Ctrl-C unmounts and ends.",
        ]
    )


def _record(folder: Path, bus: Bus, trace: Path | None) -> str:
    from vrex.transports.sysfs import DEVICE

    record: dict[str, Any] = {
        "folder": str(folder),
        "device": DEVICE,
        "transport": bus.name,
        "trace": str(trace) if trace else None,
        "params": bus.params.asdict(),
    }
    return json.dumps(record)


def _say(text: str) -> None:
    from vrex.console import stderr

    stderr.print(text, markup=False, highlight=False, soft_wrap=True)


def _warn(text: str) -> None:
    _say(f"vrex: {text}")
