"""A session as a cocotb test: operations spelled out, played on the gateware in a simulator beside the model."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from kv_asu.params import Params
from vrex.files import whole_file
from vrex.registers import CTRL_OFFSET, REGISTERS
from vrex.session.format import SessionMetadata, SessionWriter
from vrex.session.operation import Operation, Step

_TEST = '''\
"""{what}

Cut out of {session} by `vrex replay --extract`. Fails on a gateware that differs from the behavioural model
here. KV_ASU_VERILOG=FILE names other Verilog than the gateware's own: a whole function, with its config space.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kv_asu.params import Params
from vrex.session.lockstep import Lockstep
from vrex.transports.base import Bus

PARAMS = Params({params})


def script(bus: Bus) -> None:
    """What is done; they differ in the last call."""
{script}


def in_the_simulator(bus: Bus) -> None:
    """Called with the pins of the core, right after reset."""
    script(Lockstep(bus))


def test_gateware_answers_as_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = pytest.importorskip("kv_asu_sim.runner", reason="cocotb is not installed")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    simulator = "icarus" if shutil.which("iverilog") else "verilator"
    verilog = os.environ.get("KV_ASU_VERILOG")
    text = Path(verilog).read_text() if verilog else None
    runner.run_host(PARAMS, simulator, f"{{Path(__file__).stem}}:in_the_simulator", text=text)
'''


def session_path(prefix: Path) -> Path:
    """The name of the session file."""
    return prefix.with_name(f"{prefix.name}.parquet")


def module_path(prefix: Path) -> Path:
    """The name of the test: a module's."""
    return prefix.with_name(re.sub(r"\W", "_", prefix.name) + "_test.py")


def write_session(path: Path, steps: Sequence[Step], params: Params) -> None:
    """Write steps that the model took.

    Raises
    ------
    VrexError
        The file cannot be written.
    """
    writer = SessionWriter(path, SessionMetadata(params, "model"))
    for step in steps:
        writer.append(step)
    writer.finish()


def write_test(prefix: Path, operations: Iterable[Operation], params: Params, what: str, session: str) -> Path:
    """Write the test beside a session.

    Parameters
    ----------
    prefix : Path
        Its name is ``prefix``'s and ``_test.py``.
    operations : iterable of Operation
    params : Params
        The build.
    what : str
        A sentence: what differs.
    session : str
        The name of the session it was cut out of.

    Returns
    -------
    Path

    Raises
    ------
    VrexError
        The file cannot be written.
    """
    path = module_path(prefix)
    script = textwrap.indent("\n".join(_line(operation, params) for operation in operations), "    ")
    with whole_file(path) as temporary:
        temporary.write_text(
            _TEST.format(what=what, session=session, params=_arguments(params), script=script), encoding="utf-8"
        )
    return path


def _arguments(params: Params) -> str:
    changed = {field.name: getattr(params, field.name) for field in fields(params)}
    return ", ".join(f"{name}={value}" for name, value in changed.items() if value != getattr(Params, name))


def _line(operation: Operation, params: Params) -> str:
    match operation.kind:
        case "observe":
            return f"bus.observe({_addresses(operation)})"
        case "query_lines":
            options = f"min_tlevel={operation.min_tlevel}, boost={operation.boost}"
            return f"bus.query_lines({_addresses(operation)}, {options})"
        case "evict_lines":
            return f"bus.evict_lines({operation.value})"
        case "idle":
            return f"bus.idle({operation.value})"
        case "power_good":
            return f"bus.power_good = {bool(operation.value)}"
        case "write":
            line = f"bus.write({operation.offset:#x}, {operation.value:#x}, {operation.size})"
        case _:
            line = f"bus.read({operation.offset:#x}, {operation.size})"
    return line + _comment(operation, params)


def _addresses(operation: Operation) -> str:
    text = ", ".join(map(hex, operation.addresses.tolist()))
    if len(text) <= 80:
        return f"[{text}]"
    return "[\n" + textwrap.indent(textwrap.fill(text, 108), "    ") + ",\n]"


def _comment(operation: Operation, params: Params) -> str:
    """The register, and what is written to its fields."""
    offset = operation.offset - params.config_base - CTRL_OFFSET
    register = next((register for register in REGISTERS.values() if offset == register.OFFSET), None)
    if register is None:
        return ""
    if operation.kind == "read" or operation.size != 4:
        return f"  # {register.NAME}"
    return f"  # {register.NAME}: " + ", ".join(
        f"{name} {value}" for name, value in register(operation.value).fields().items()
    )
