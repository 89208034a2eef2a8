"""`vrex regs`: the registers by name, over any transport."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from vrex.kv_asu import KvAsu
    from vrex.registers import Register

#: The transports that a command can open by itself.
_TRANSPORTS = ("model", "rtl", "sysfs", "uart")

_DAY = 86_400

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="The core's registers by name. `model` and `rtl` make a fresh device for each command, just reset: what one "
    "command sets, the next does not find. A real device, or a tree like `/sys/bus/pci`, keeps it.",
)


def _transport(text: str) -> str:
    if text not in _TRANSPORTS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(_TRANSPORTS)}")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _DAY:
        raise typer.BadParameter(f"{text!r} is not a number of seconds, 0 to {_DAY}")
    return value


TransportOption = Annotated[
    str | None,
    typer.Option(
        parser=_transport,
        metavar="|".join(_TRANSPORTS),
        help="What to talk to; without, sysfs if --device or --root is given, uart if --port is, else a fresh model.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option(metavar="BDF", help="PCI address of the device; 00:02.0 unless given.", show_default=False)
]
RootOption = Annotated[
    str | None, typer.Option(metavar="DIR", help="What stands for /sys/bus/pci.", show_default=False)
]
PortOption = Annotated[
    str | None, typer.Option(metavar="TTY", help="Serial port of a board, like /dev/ttyUSB0.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def _examples(*commands: str) -> str:
    """Help's last lines."""
    return "Examples:\n\n" + "\n".join(f"- `{command}`" for command in commands)


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    """A wrong name, address or value is wrong usage."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _open(transport: str | None, device: str | None, root: str | None, port: str | None) -> KvAsu:
    from vrex.kv_asu import KvAsu

    given = {"device": device, "root": root, "port": port}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    transport = transport or ("uart" if port is not None else "sysfs" if options else "model")
    for proper, names, what in (("sysfs", ("device", "root"), "device or root"), ("uart", ("port",), "port")):
        if transport != proper and any(name in options for name in names):
            raise typer.BadParameter(f"{transport} has no {what}; leave --transport out, or say {proper}",
                                     param_hint="'--transport'")  # fmt: skip
    with _usage():
        return KvAsu.open(transport, **options)


@app.command("list", epilog=_examples("vrex regs list", "vrex regs list --json"))
def list_(as_json: JsonOption = False) -> None:
    """List every register and field: bits, name, access, reset value in the default build, meaning."""
    from vrex.registers import REGISTERS

    if as_json:
        typer.echo(json.dumps({name: _description(register) for name, register in REGISTERS.items()}, indent=2))
        return
    for name, register in REGISTERS.items():
        when = "; writable while disabled" if register.STRUCTURAL else ""
        typer.echo(f"{name} at CTRL{register.OFFSET:+#x}: {_sentence(register.__doc__)}{when}")
        for attribute, field in register.FIELDS.items():
            meaning = _sentence(getattr(register, attribute).__doc__)
            bits = _bits(field.low, field.width)
            typer.echo(f"  {bits:>5}  {field.name:<14} {field.access:<16} {field.reset:>#6x}  {meaning}")


@app.command(epilog=_examples("vrex regs get CTRL", "vrex regs get T3.AGE CTRL.DECAY --device 00:02.0 --json"))
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME[.FIELD]...", help="Registers and fields.")],
    transport: TransportOption = None,
    device: DeviceOption = None,
    root: RootOption = None,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print registers or fields."""
    from vrex.register_access import find_field, find_register

    with _usage():
        for name in names:
            find_field(name) if "." in name else find_register(name)
    with _open(transport, device, root, port) as asu:
        values = {name.upper(): _get(asu, name) for name in names}
    _print_values(values, as_json)


@app.command(
    "set",
    epilog=_examples(
        "vrex regs set CTRL.DECAY=halve T3.AGE=30 --device 00:02.0",
        "vrex regs set IRQ_STATUS.COLD_HIGH=1 --root mnt",
    ),
)
def set_(
    assignments: Annotated[
        list[str],
        typer.Argument(metavar="NAME[.FIELD]=VALUE...", help="Values: 30, 0x1e, or a name that the field knows."),
    ],
    transport: TransportOption = None,
    device: DeviceOption = None,
    root: RootOption = None,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write fields and whole registers, in the order given; then print what they read.

    Fields of one register are one write. Nothing is written unless every name and value is right.
    """
    from vrex.register_access import field_value, find_field, find_register

    values: list[tuple[str, int]] = []
    with _usage():
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise ValueError(f"{assignment!r} is no assignment like T3.AGE=30")
            if "." in name:
                register, attribute = find_field(name)
                values.append((f"{register.NAME}.{register.FIELDS[attribute].name}", field_value(name, text)))
            else:
                values.append((find_register(name).NAME, _word(name, text)))
    with _open(transport, device, root, port) as asu:
        with _usage():
            asu.assign(values)
        read = {name: _get(asu, name) for name, _ in values}
    _print_values(read, as_json)
    if asu.transport.name != "sysfs":
        typer.echo(f"vrex: set in a fresh {asu.transport.name}, which is gone; a device is --device BDF or --root DIR",
                   err=True)  # fmt: skip


@app.command(epilog=_examples("vrex regs dump", "vrex regs dump --root mnt --json"))
def dump(
    transport: TransportOption = None,
    device: DeviceOption = None,
    root: RootOption = None,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print every register. Reading changes nothing."""
    with _open(transport, device, root, port) as asu:
        registers = asu.registers()
        where = {"device": str(asu.transport), "base": asu.base}
    if as_json:
        typer.echo(json.dumps({**where, "registers": _record(registers)}))
    else:
        _print(_register_table(registers, {}))


@app.command(epilog=_examples("vrex regs watch --device 00:02.0", "vrex regs watch --count 10 --interval 0.5 --json"))
def watch(
    transport: TransportOption = None,
    device: DeviceOption = None,
    root: RootOption = None,
    port: PortOption = None,
    interval: Annotated[
        float, typer.Option(parser=_seconds, metavar="SECONDS", help="Time between two looks, at most a day.")
    ] = 1.0,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Looks; until interrupted unless given.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at every register again and again; what has changed since the last look is marked with a `*`.

    Only reads, so it may run beside the program that uses the core. With --json: one object a line.
    """
    with _open(transport, device, root, port) as asu:
        looks = _looks(asu, interval, count)
        if as_json:
            for registers in looks:
                typer.echo(json.dumps({"time": time.time(), "registers": _record(registers)}))
            return
        before: dict[str, Register] = {}
        with _live() as show:
            for registers in looks:
                show(_register_table(registers, before))
                before = registers


def _looks(asu: KvAsu, interval: float, count: int | None) -> Iterator[dict[str, Register]]:
    look = 0
    while True:
        yield asu.registers()
        look += 1
        if look == count:
            return
        time.sleep(interval)


@contextlib.contextmanager
def _live() -> Iterator[Any]:
    """A table that takes the place of the last; where there is no terminal, one after the other."""
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal:
        yield _print
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda table: live.update(table, refresh=True)


def _get(asu: KvAsu, name: str) -> Any:
    if "." in name:
        return asu.read_field(name)
    register = asu.regs[name.upper()].read()
    return {"value": int(register), "fields": register.fields()}


def _print_values(values: dict[str, Any], as_json: bool) -> None:
    """Fields are decimal but for addresses and the like; registers are hexadecimal words, their fields behind them."""
    if as_json:
        typer.echo(json.dumps({name: int(value) if "." in name else value for name, value in values.items()}))
        return
    for name, value in values.items():
        typer.echo(f"{name} {_shown(name, value)}" if "." in name else _register_line(name, value))


def _word(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not a number; 0x starts a hexadecimal one") from None


def _record(registers: dict[str, Register]) -> dict[str, Any]:
    return {
        name: {"offset": value.OFFSET, "value": int(value), "fields": value.fields()}
        for name, value in registers.items()
    }


def _description(register: type[Register]) -> dict[str, Any]:
    fields = {
        field.name: {
            "low": field.low,
            "width": field.width,
            "access": field.access,
            "reset": field.reset,
            "meaning": " ".join((getattr(register, attribute).__doc__ or "").split()),
        }
        for attribute, field in register.FIELDS.items()
    }
    meaning = " ".join((register.__doc__ or "").split())
    return {"offset": register.OFFSET, "structural": register.STRUCTURAL, "meaning": meaning, "fields": fields}


def _register_table(registers: dict[str, Register], before: dict[str, Register]) -> Table:
    from rich.table import Table

    table = Table("register", "offset", "value", "fields", box=None, pad_edge=False)
    for name, value in registers.items():
        changed = bool(before) and before[name] != value
        fields = ", ".join(f"{field} {_number(field, number)}" for field, number in value.fields().items())
        offset, word = f"{value.OFFSET:+#x}", f"{int(value):#010x}"
        # The mark is in the text too: colours are lost in a pipe.
        table.add_row(name + " *" * changed, offset, word, fields, style="bold yellow" if changed else None)
    return table


def _register_line(name: str, value: dict[str, Any]) -> str:
    fields = ", ".join(f"{field} {_number(field, number)}" for field, number in value["fields"].items())
    return f"{name} {value['value']:#010x}: {fields}"


def _shown(name: str, value: int) -> str:
    number = _number(name.rpartition(".")[2], value)
    return f"{number} ({value.name})" if isinstance(value, IntEnum) else number


#: Fields that are no amounts.
_HEXADECIMAL = ("ADDRESS", "MAGIC", "VSEC_ID", "SEED")


def _number(field: str, value: int) -> str:
    return f"{value:#x}" if field in _HEXADECIMAL else str(int(value))


def _bits(low: int, width: int) -> str:
    return str(low) if width == 1 else f"{low + width - 1}:{low}"


def _sentence(text: str | None) -> str:
    """A docstring's beginning."""
    return " ".join((text or "").split()).split(". ")[0].rstrip(".")


def _print(table: Table) -> None:
    from rich.console import Console

    Console(soft_wrap=True).print(table)
