"""The `kv-asu` command: the core's Verilog, what a build is, lint, and static timing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kv_asu import PROFILES, Params, __version__, typer_command
from kv_asu.build_options import (
    ConfigClockOption,
    FullConfigSpaceOption,
    QueueDepthOption,
    TopOption,
    takes_build,
    top_of,
)
from kv_asu.errors import ToolError
from kv_asu.files import check_file, is_stream, whole_file, write_stream
from kv_asu.lint import WAIVERS, lint
from kv_asu.params import shown
from kv_asu.pci_header import SERIAL_NUMBER, pci_header
from kv_asu.tops import Top
from kv_asu.waiting import waiting

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="KV-ASU: generate the core's Verilog and look at it.",
    epilog="Example: `kv-asu verilog --profile fpga -o kv_asu.sv`",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"kv-asu {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


class CommandFailed(Exception):
    """The command cannot do what it was asked for; the message is the line that the user gets."""


def _examples(*commands: str) -> str:
    """Help's last lines."""
    return "Examples:\n\n" + "\n".join(f"- `{command}`" for command in commands)


#: What goes beside the Verilog, by its suffix.
_BESIDE = {".json": "metadata goes", ".sdc": "constraints go", ".xdc": "constraints go"}


def _output(text: str) -> Path:
    """The file to be written, by a name that is a file's."""
    if text == "-":
        raise typer.BadParameter("'-' would be a file of that name; standard output is /dev/stdout")
    if text.endswith("/") or os.path.isdir(text):
        raise typer.BadParameter(f"{text!r} is a directory; name the file in it, kv_asu.sv, say")
    return Path(text)


@app.command(
    epilog=_examples(
        "kv-asu verilog --profile asic -o kv_asu.sv",
        "kv-asu verilog --profile fpga --log2-entries 12 --config-base 0x480 -o build/kv_asu.sv",
        "kv-asu verilog --full-config-space -o build/function.sv",
        "kv-asu verilog --top axi --addr-width 40 -o build/kv_asu_axi.sv",
        "kv-asu verilog --profile fpga --config-base 0x480 --config-clock -o build/kv_asu_cdc.sv",
        "kv-asu verilog --profile asic --assertions -o build/kv_asu.sv",
    )
)
@takes_build
def verilog(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            parser=_output,
            metavar="FILE",
            help="The Verilog file; metadata goes beside it as .json, not beside a pipe or device like /dev/stdout.",
        ),
    ],
    params: Params,
    full_config_space: FullConfigSpaceOption = False,
    top: TopOption = "core",
    queue_depth: QueueDepthOption = None,
    config_clock: ConfigClockOption = False,
    with_assertions: Annotated[
        bool,
        typer.Option(
            "--assertions",
            help="Also write the contract as SystemVerilog assertions that bind to the core, as "
            "`*_assertions.sv` beside the Verilog, or behind it in a pipe.",
        ),
    ] = False,
) -> None:
    """Write the core as one SystemVerilog file, and what it is as JSON beside it."""
    around = top_of(top, queue_depth, full_config_space=full_config_space, config_clock=config_clock)
    from kv_asu import assertions, crossing_constraints

    with _writing(output):
        beside = None if is_stream(output) else output.with_suffix(".json")
    bound = output.with_name(f"{output.stem}_assertions.sv")
    others: dict[Path, Callable[[], str]] = {}
    if with_assertions:
        others[bound] = lambda: assertions.emit(params, around)
    if config_clock and beside is not None:
        others[output.with_suffix(".sdc")] = lambda: crossing_constraints.sdc(around.name)
        others[output.with_suffix(".xdc")] = lambda: crossing_constraints.xdc(around.name)
    if beside is not None:
        _check_files(output, beside, *others)

    with waiting("elaborating the core"):
        record = _record(params, around)
        text = around.verilog(params)
        written = {path: emit() for path, emit in others.items()}
    said = f"{output}: KV-ASU {__version__}, {params.profile}{around.description}, latency {params.latency}"
    if beside is None:
        with _writing(output):
            write_stream(output, "".join((text, *written.values())))
        print(said, file=sys.stderr)  # standard output may be what was written to
        return
    _write_all({output: text, beside: json.dumps(record, indent=2) + "\n", **written})
    more = f", assertions in {bound}" if with_assertions else ""
    more += f", constraints in {output.with_suffix('.sdc')} and .xdc" if config_clock else ""
    print(f"{said}; metadata in {beside}{more}")


def _check_files(verilog: Path, *others: Path) -> None:
    """See that each of the files can be written, and that no two are one: by name, or through a link."""
    places: dict[Path, Path] = {}
    for path in (verilog, *others):
        with _writing(path):
            place = check_file(path)
        if places.get(place) == path:
            raise typer.BadParameter(f"{path} is where the {_BESIDE[path.suffix]}; name the Verilog kv_asu.sv, say",
                                     param_hint="'--output'")  # fmt: skip
        if place in places:
            raise typer.BadParameter(f"{places[place]} and {path} are one file", param_hint="'--output'")
        places[place] = path


def _record(params: Params, around: Top) -> dict[str, Any]:
    """The build's metadata; wrong usage if it can be no function of its own."""
    if around.full_config_space:
        try:
            pci_header(params, SERIAL_NUMBER)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    from kv_asu.metadata import metadata

    return metadata(params, around)


@contextlib.contextmanager
def _writing(*paths: Path) -> Iterator[None]:
    """What cannot be written is named in one line."""
    try:
        yield
    except BrokenPipeError:  # whoever read it has seen enough
        raise
    except OSError as error:
        names = " and ".join(map(str, paths))
        raise CommandFailed(f"cannot write {names}: {error.strerror}; choose another place with -o") from None


def _write_all(files: dict[Path, str]) -> None:
    """Write all of the files, or none."""
    with _writing(*files), contextlib.ExitStack() as stack:
        for path, text in files.items():
            stack.enter_context(whole_file(path)).write_text(text, encoding="utf-8")


@app.command(epilog=_examples("kv-asu info", "kv-asu info --profile fpga --log2-entries 12 --json"))
@takes_build
def info(
    params: Params,
    full_config_space: FullConfigSpaceOption = False,
    top: TopOption = "core",
    queue_depth: QueueDepthOption = None,
    config_clock: ConfigClockOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Show a build's pins, its latency and its memories: what `kv-asu verilog` writes beside the Verilog."""
    around = top_of(top, queue_depth, full_config_space=full_config_space, config_clock=config_clock)
    with waiting("elaborating the core"):
        record = _record(params, around)
    if as_json:
        print(json.dumps(record))
        return
    given = ", ".join(f"{name}={shown(name, value)}" for name, value in params.asdict().items())
    print(f"KV-ASU {__version__}, {params.profile}{around.description}: {given}")
    print(f"latency {params.latency} clocks; T1.age at most {params.t1_limit} ticks; "
          f"{record['memory_bits']:,} bits in {len(record['memories'])} memories")  # fmt: skip
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True)
    table = Table("pin", "", "width", "meaning", box=None, pad_edge=False)
    for pin in record["pins"]:
        table.add_row(pin["name"], pin["direction"], str(pin["width"]), pin["meaning"])
    console.print(table)
    table = Table("memory", "words", "bits each", box=None, pad_edge=False)
    for memory in record["memories"]:
        table.add_row(memory["name"], str(memory["depth"]), str(memory["width"]))
    console.print()
    console.print(table)


@app.command("lint", epilog=_examples("kv-asu lint kv_asu.sv", "kv-asu lint fpga"))
def lint_command(
    target: Annotated[str, typer.Argument(metavar="FILE|PROFILE", help="A Verilog file, or a profile to generate.")],
) -> None:
    """Run `verilator --lint-only -Wall` with the published waivers, each of which says its reason."""
    if target not in PROFILES:
        path = Path(target)
        if not path.is_file():
            raise CommandFailed(f"{target} is neither a file nor one of the profiles {', '.join(PROFILES)}")
        _report(target, path)
        return
    from kv_asu.verilog import emit

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kv_asu.v")
        with waiting(f"generating the {target} profile"):
            path.write_text(emit(PROFILES[target]()), encoding="utf-8")
        _report(target, path)


def _report(target: str, path: Path) -> None:
    with waiting(f"{target}: verilator -Wall"):
        findings = lint(path)
    for finding in findings:
        print(finding.text, file=sys.stderr, end="")
    if findings:
        count = f"{len(findings)} complaint{'s' * (len(findings) > 1)}"
        raise CommandFailed(f"{target}: verilator has {count} that {WAIVERS} does not waive")
    print(f"{target}: no complaint from verilator -Wall; what is waived and why: {WAIVERS}")


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"{text!r} is not a number of 0 or more")
    return value


def _choice(help_text: str, *names: str) -> Any:
    def parse(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(names)}")
        return text

    return typer.Option(parser=parse, metavar="|".join(names), help=help_text)


@app.command(
    epilog=_examples(
        "kv-asu timing --pdk asap7 --liberty ~/asap7",
        "kv-asu timing --pdk asap7 --liberty ~/asap7 --corner SS --wire 1 --hash-stages 2 --table-stages 1 --json",
    )
)
@takes_build
def timing(
    pdk: Annotated[str, _choice("The process.", "asap7")],
    liberty: Annotated[
        Path,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder with its cells: RVT liberty files of asap7sc7p5t "
            "(LIB/NLDM), `*_TT.lib`, `*_TT_nldm_*.lib` or these with .gz; see docs/timing.md.",
        ),
    ],
    params: Params,
    corner: Annotated[str, _choice("Typical or slow.", "TT", "SS")] = "TT",
    wire: Annotated[
        float, typer.Option(parser=_amount, metavar="FF", help="Femtofarads of wire for each sink of a net.")
    ] = 0.0,
    clk_to_q: Annotated[
        float | None, typer.Option(parser=_amount, metavar="PS", help="Clock to data of an SRAM: TT 218, SS 310.")
    ] = None,
    setup: Annotated[
        float | None, typer.Option(parser=_amount, metavar="PS", help="Setup of an SRAM: TT 50, SS 70.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Map the core to standard cells and show its slack at 2 ns by kind of path, its cells, area and SRAM macros.

    Takes minutes. Negative slack is a result, not a failure.
    """
    from kv_asu.timing import asap7, tools
    from kv_asu.timing.conditions import Conditions
    from kv_asu.verilog import emit

    conditions = Conditions(asap7.macro_timing(corner, clk_to_q, setup), wire)
    with waiting("elaborating the core") as say:
        result = asap7.run(emit(params), liberty, corner, conditions, say=tools.saying(say))
    if as_json:
        print(json.dumps({"pdk": pdk, "profile": params.profile, **params.asdict(), **asap7.record(result)}))
        return
    print(asap7.summary(result))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Instead of the process's own.

    Returns
    -------
    int
        The exit code, as `kv_asu.typer_command.run` has it.
    """
    return typer_command.run(app, "kv-asu", arguments, CommandFailed, ToolError)


if __name__ == "__main__":
    sys.exit(main())
