"""`vrex replay`: a session played on another transport, every answer compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vrex.errors import VrexError

if TYPE_CHECKING:
    from vrex.session.explain import Explanation, Slot
    from vrex.session.format import SessionReader
    from vrex.session.replay import Difference, Replay
    from vrex.session.shrink import Cut
    from vrex.transports.base import Bus

EXAMPLES = """Examples:

- `vrex replay long.parquet --transport rtl`
- `vrex replay long.parquet --transport rtl --verilog my_kv_asu.v --extract small`
"""

#: The transports that start from reset, by themselves.
_TRANSPORTS = ("model", "rtl")

#: Where Verilog for ``--verilog`` comes from.
_WRITE_IT = "write it with `kv-asu verilog --full-config-space`"


def _transport(text: str) -> str:
    if text not in _TRANSPORTS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(_TRANSPORTS)}")
    return text


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A session file, as vrex.open(..., record=FILE) writes.")
    ],
    transport: Annotated[
        str, typer.Option(parser=_transport, metavar="|".join(_TRANSPORTS), help="What to play it on.")
    ],
    verilog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Verilog to compile as `rtl` instead of the gateware's own: the core with its full config space.",
            show_default=False,
        ),
    ] = None,
    extract: Annotated[
        Path | None,
        typer.Option(
            metavar="PREFIX",
            help="Cut what differs down to PREFIX.parquet, a session, and PREFIX_test.py, a cocotb test.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="Replays that cutting may take.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Play a recorded session on another transport and compare every answer.

    Exit code 0 when all are equal. Else 1, and the first difference is shown: both answers, the table window and the
    neighbourhood in the recency list as the behavioural model has them, and the rule that fired on either side.
    """
    from vrex.console import progress_bar
    from vrex.session.explain import explain
    from vrex.session.format import SessionReader
    from vrex.session.replay import replay as play

    if extract is not None:
        _check_prefix(extract, file, *([] if verilog is None else [verilog]))
    if verilog is not None and transport != "rtl" and extract is None:
        raise typer.BadParameter(
            f"nothing compiles Verilog on the {transport}; say --transport rtl, or --extract to cut what differs down",
            param_hint="'--verilog'",
        )
    with SessionReader(file) as reader:
        metadata = reader.metadata
        fresh = _opener(transport, reader, verilog)
        with fresh() as bus, progress_bar("replaying", "calls") as bar:
            result = play(reader.steps(), bus, calls=metadata.calls, progress=bar)
        record: dict[str, Any] = {
            "file": str(file),
            "recorded": metadata.transport,
            "replayed": transport,
            "equal": result.difference is None,
            "calls": result.calls,
            "compared": dict(result.compared),
            "clocks": result.clocks,
        }
        if result.difference is None:
            typer.echo(json.dumps(record) if as_json else _equal(record))
            return
        explanation = explain(result.difference, reader.steps(), fresh, metadata.params)
        record["difference"] = _numbers(result.difference) | explanation.to_json()
        if not as_json:
            _show(record, result.difference, explanation)
        if extract is not None:
            cut = _cut(reader, result, transport, verilog, budget)
            record["extracted"] = _write(extract, cut, reader)
            if not as_json:
                typer.echo(_extracted(record["extracted"]))
    if as_json:
        typer.echo(json.dumps(record))
    raise typer.Exit(1)


def _check_prefix(prefix: Path, *sources: Path) -> None:
    """See before the work that its two files can be put there, and that neither is one of the sources."""
    from vrex.files import check_outputs
    from vrex.session.extract import module_path, session_path

    if prefix.name in ("", ".."):
        raise typer.BadParameter(f"{prefix} is a folder; say {prefix / 'small'}", param_hint="'--extract'")
    check_outputs(session_path(prefix), module_path(prefix), sources=sources)


def _opener(transport: str, reader: SessionReader, verilog: Path | None) -> Callable[[], Bus]:
    """What gives a bus just reset, again and again."""
    params = reader.metadata.params
    if transport == "model":
        from vrex.transports.model import ModelTransport

        return lambda: ModelTransport(params)

    from vrex.transports.rtl import RtlTransport

    try:
        rtl = RtlTransport(params, verilog=None if verilog is None else _text(verilog))
    except VrexError as error:
        raise error if verilog is None else VrexError(f"{verilog}: {error}") from None
    if rtl.core.read(0, 4) is None:
        raise VrexError(f"{verilog}: no config space around the core; {_WRITE_IT}")

    def fresh() -> Bus:
        rtl.power_up()
        return rtl

    return fresh


def _text(verilog: Path) -> str:
    """What is in the file; `VrexError` says what is wrong with it."""
    try:
        return verilog.read_text()
    except UnicodeError:
        raise VrexError(f"is no text; {_WRITE_IT}") from None
    except OSError as error:
        raise VrexError(f"cannot be read ({error.strerror}); {_WRITE_IT}") from None


def _cut(reader: SessionReader, result: Replay, transport: str, verilog: Path | None, budget: int) -> Cut:
    """The fewest operations on which the gateware, on whichever side it is, differs from the model."""
    from vrex.console import progress_bar
    from vrex.session.shrink import shrink

    gateware = transport if transport != "model" else reader.metadata.transport
    if gateware == "model":
        raise VrexError(
            f"{reader.path}: recorded and replayed on the model, by {reader.metadata.program} and this program: "
            "there is no gateware to test"
        )
    steps = [step for step, _ in zip(reader.steps(), range(result.calls), strict=False)]
    with progress_bar("cutting", "replays") as bar:
        cut = shrink(steps, reader.metadata.params, _opener("rtl", reader, verilog), budget=budget, progress=bar)
    if cut is None:
        raise VrexError(
            f"{reader.path}: gateware and model agree on these operations, so that there is nothing to cut: "
            "name the Verilog that differs with --verilog"
        )
    return cut


def _write(prefix: Path, cut: Cut, reader: SessionReader) -> dict[str, Any]:
    from vrex.session.extract import session_path, write_session, write_test

    params = reader.metadata.params
    session = session_path(prefix)
    write_session(session, cut.steps, params)
    kind, name = cut.difference.kind
    what = f"Model and gateware differ: {name}{' of ' + kind if kind else ''}."
    test = write_test(prefix, [step.operation for step in cut.steps], params, what, reader.path.name)
    return {
        "session": str(session),
        "test": str(test),
        "calls": len(cut.steps),
        "commands": sum(step.operation.commands for step in cut.steps),
        "replays": cut.replays,
        "exhausted": cut.exhausted,
    }


# ---- for people ----------------------------------------------------------------------------------------------------


def _equal(record: dict[str, Any]) -> str:
    compared = ", ".join(f"{count:,} {name}" for name, count in record["compared"].items()) or "no answers"
    return (
        f"{record['file']}: equal over {record['calls']:,} calls ({compared}) and {record['clocks']:,} clocks; "
        f"recorded on {record['recorded']}, replayed on {record['replayed']}"
    )


def _extracted(extracted: dict[str, Any]) -> str:
    more = "; the budget is used up, so it may not be the least" if extracted["exhausted"] else ""
    lines = (
        f"cut to {extracted['calls']} calls with {extracted['commands']} commands in {extracted['replays']} replays",
        f"{extracted['session']}: the session",
        f"{extracted['test']}: the cocotb test, fails on this gateware",
    )
    return lines[0] + more + "\n" + "\n".join(lines[1:])


def _numbers(difference: Difference) -> dict[str, Any]:
    return {"call": difference.call, "command": difference.command}


def _show(record: dict[str, Any], difference: Difference, explanation: Explanation) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(soft_wrap=True, highlight=False)
    command = "" if difference.command is None else f", command {difference.command + 1}"
    sides = f"recorded: {record['recorded']}", f"replayed: {record['replayed']}"
    console.print(f"{record['file']}: first difference at call {difference.call + 1}{command}", markup=False)
    console.print(
        f"{explanation.operation}; clock {explanation.clock}, decided in clock {explanation.decided}, "
        f"tick {explanation.tick}\n",
        markup=False,
    )

    def table(*columns: str) -> Table:
        made = Table(*columns, box=None, pad_edge=False, header_style="bold")
        made.columns[0].no_wrap = True
        return made

    if explanation.fields:
        by_model = any(model not in (recorded, replayed) for _, recorded, replayed, model in explanation.fields)
        answers = table("answer", *sides, *(["model"] if by_model else []))
        for name, *values in explanation.fields:
            differs = values[0] != values[1]
            shown = [_value(name, value) for value in values[: 3 if by_model else 2]]
            answers.add_row(name, *shown, style="bold yellow" if differs else None)
        console.print(answers)
        differing = [name for name, recorded, replayed, _ in explanation.fields if recorded != replayed]
        console.print(f"differs: {', '.join(differing)}", markup=False)
    console.print("\nrule", style="bold")
    console.print(f"{sides[0]}: {explanation.recorded}", markup=False)
    console.print(f"{sides[1]}: {explanation.replayed}", markup=False)
    if explanation.model not in (explanation.recorded, explanation.replayed):
        console.print(f"the model: {explanation.model}", markup=False)
    if explanation.model_parted is not None:
        console.print(
            f"The model does not answer as recorded from call {explanation.model_parted + 1} on: its state below may "
            "not be the one that led here.",
            markup=False,
        )
    columns = ("slot", "line", "count", "touched", "age", "T-level", "in list")
    if explanation.window:
        console.print(f"\nwindow of line {explanation.line:#x}, in probe order (model, before)", style="bold")
        window = table(*columns)
        for slot in explanation.window:
            window.add_row(*_slot(slot))
        console.print(window)
    console.print(
        f"\nrecency list, least recently used first: {explanation.tracked} lines, {explanation.cold} of them cold "
        "(model, before)",
        style="bold",
    )
    if explanation.neighbours:
        neighbours = table(*columns)
        for slot in explanation.neighbours:
            neighbours.add_row(*_slot(slot), style="bold" if slot.line == explanation.line else None)
        console.print(neighbours)
    if explanation.told:
        console.print("\nasked right afterwards", style="bold")
        told = table("", "model", sides[1])
        for row in explanation.told:
            told.add_row(row.what, row.model, row.replayed, style=None if row.model == row.replayed else "bold yellow")
        console.print(told)
    console.print()


def _slot(slot: Slot) -> list[str]:
    if slot.line is None:
        return [str(slot.slot), "free"]
    numbers = (slot.count, slot.touched, slot.age)
    return [str(slot.slot), f"{slot.line:#x}", *map(str, numbers), f"T{slot.tlevel}", str(slot.place)]


def _value(name: str, value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value:#x}" if name.endswith("line") or name == "data" or value > 0xFFFF else str(value)
