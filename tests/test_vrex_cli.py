"""The `vrex` command: results, one-line errors, exit codes, and what importing costs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from small_streams import write_stream
from vrex.cli import main
from vrex.console import progress_bar
from vrex.trace.format import TraceMetadata, write_trace


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "some.parquet"
    with write_trace(path, TraceMetadata("made up for a test")) as writer:
        writer.append(0, 0, 0, 0, np.array([7, 8, 7], np.uint64), np.array([0, 2, 5000], np.uint64))
    return path


def test_info_for_people_and_machines(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", str(trace)]) == 0
    assert "made up for a test" in capsys.readouterr().out
    assert main(["trace", "info", str(trace), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["summary"]["accesses"] == 3
    assert record["summary"]["lines"] == 2
    assert record["version"] == [1, 0]


def test_export_and_import_there_and_back(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, back = str(tmp_path / "out.zst"), str(tmp_path / "back.parquet")
    assert main(["trace", "export", str(trace), "-o", packed]) == 0
    assert main(["trace", "import", packed, "-o", back, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{packed}: 3 records, time in us\n")
    assert json.loads(out.split("\n", 1)[1])["accesses"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'; see 'vrex --help'"),
        (["doctor", "--root", ""], "--root is empty; see 'vrex --help'"),
        (["doctor", "--root="], "--root is empty"),
        (["trace", "info", ""], "an argument is empty"),
        (["trace", "make", "-o", ""], "-o is empty"),
        (["mount", ""], "an argument is empty"),
        (["trace", "info"], "Missing argument 'FILE'; see 'vrex trace info --help'"),
        (["trace", "make", "--nonsense"], "No such option: --nonsense; see 'vrex trace make --help'"),
        (["trace", "make", "-o", "x", "--layers", "12"], "'12' must name 0 to 11"),
        (["trace", "make", "-o", "x", "--heads", "1-x"], "'1-x' is not a number or a range"),
        (["trace", "make", "-o", "x", "--layers", "5-3"], "'5-3' must name 0 to 11"),
        (["trace", "make", "-o", "x", "--layers", "0-99999999999999"], "'0-99999999999999' must name 0 to 11"),
        (["trace", "make", "-o", "x", "--share", "2"], "for '--share'"),
        (["trace", "make", "-o", "x", "--share", "nan"], "for '--share'"),
        (["trace", "export", "a", "-o", "x", "--time-unit", "d"], "'d' is not one of us, ms, s"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "none.parquet"], "none.parquet: no such file"),
        (["info", "text"], "text: not a Parquet file, or cut short"),
        (["import", "text", "-o", "out"], "text: cut short, or not oracleGeneral"),
        (["export", "text", "-o", "out"], "text: not a Parquet file"),
    ],
)
def test_failures_are_one_line_and_code_1(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("hello")
    assert main(["trace", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"vrex: {message}")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_help_shows_examples_and_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("make", "info", "import", "export"):
        assert main(["trace", command, "--help"]) == 0
        assert f"vrex trace {command} " in capsys.readouterr().out.split("Examples:")[1]


@pytest.mark.parametrize(
    "command",
    ["", "trace make", "trace info", "trace import", "trace export", "doctor", "regs list", "regs get", "regs set",
     "regs watch", "replay", "mount", "run", "calibrate", "bench", "train", "sweep", "report"],
)  # fmt: skip
def test_help_names_every_option_in_full(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command.split(), "--help"]) == 0
    assert "\N{HORIZONTAL ELLIPSIS}" not in capsys.readouterr().out


def test_no_arguments_show_help_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "Usage" in shown.out + shown.err


def test_importing_vrex_loads_nothing_heavy() -> None:
    heavy = {"numpy", "pyarrow", "av", "onnx", "onnxruntime", "rich", "typer", "amaranth"}
    for module, allowed in (("vrex", set()), ("vrex.cli", {"typer", "rich"})):
        code = f"import sys, {module}; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        assert not heavy & set(loaded) - allowed


@pytest.mark.parametrize(
    "arguments", [["make", "{}", "-o", "{}"], ["export", "{}", "-o", "./{}"], ["import", "{}", "-o", "{}"]]
)
def test_a_source_is_not_written_over(
    arguments: list[str], trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trace.parent)
    before = trace.read_bytes()
    assert main(["trace", *(word.format(trace.name) for word in arguments)]) == 1
    error = capsys.readouterr().err
    assert "is what it would be made from; name another file to write" in error
    assert error.count("\n") == 1
    assert trace.read_bytes() == before


@pytest.mark.parametrize("link", ["itself", "symbolic", "hard"])
@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["run", "{source}", "--json-lines", "{written}"], "frames.jsonl"),
        (["run", "{source}", "--prometheus", "{written}"], "totals.prom"),
        (["report", "{source}", "-o", "{written}"], "page.html"),
        (["train", "{source}", "-o", "{written}"], "weights.json"),
        (["train", "other.parquet", "--clip", "{source}", "-o", "{written}"], "weights.json"),
        (["sweep", "{source}", "--out", "out"], "out/sweep.parquet"),
        (["bench", "{source}", "--out", "out", "--no-peers"], "out/figures.json"),
        (["bench", "{source}", "other.parquet", "--out", "out", "--no-peers"], "out/other-speed.png"),
    ],
)
def test_no_command_writes_over_what_it_reads(
    arguments: list[str],
    written: str,
    link: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_stream(source := Path("source.parquet"), 5, frames=2)
    if "other.parquet" in arguments:
        write_stream(Path("other.parquet"), 6, frames=2)
    before, result = source.read_bytes(), Path(written)
    result.parent.mkdir(exist_ok=True)
    if link == "symbolic":
        result.symlink_to(source.resolve())
    elif link == "hard":
        result.hardlink_to(source)
    else:
        source = source.rename(result)
    assert main([word.format(source=source, written=result) for word in arguments]) == 1
    error = capsys.readouterr().err
    assert error.endswith("is what it would be made from; name another file to write\n")
    assert error.count("\n") == 1
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "a.parquet", "--json-lines", "x", "--prometheus", "./x"],
        ["run", "a.parquet", "--json-lines", "x", "--prometheus", "link"],
        ["bench", "a.parquet", "b/a.parquet", "--out", ".", "--no-peers", "--table", "speed"],
    ],
)
def test_no_two_results_are_one_file(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b").mkdir()
    Path("link").symlink_to("x")
    for name, seed in (("a.parquet", 5), ("b/a.parquet", 6)):
        write_stream(Path(name), seed, frames=2)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.endswith("would be written twice; give each result a file of its own\n")
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b", "link"]


def test_where_no_bar_can_be_drawn_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 7))
    monkeypatch.setattr("vrex.console.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress_bar("counting", "sheep") as bar:
        for done in range(12):
            bar(done * 1000, 11_000 if done > 6 else None)
    assert capsys.readouterr().err == "counting: 4,000 sheep\ncounting: 9,000 of 11,000 sheep\n"


def test_what_is_quick_is_silent_in_a_pipe(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "info", str(trace)]) == 0
    assert capsys.readouterr().err == ""


LONG = "n" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["trace", "info", LONG],
        ["trace", "import", LONG, "-o", "x"],
        ["trace", "export", LONG, "-o", "x"],
        ["trace", "make", "-o", LONG],
        ["replay", LONG, "--transport", "model"],
        ["regs", "dump", "--root", LONG],
        ["mount", LONG],
        ["trace", "info", "two\nlines"],
        ["regs", "dump", "--root", "two\nlines"],
        ["replay", "two\r\nlines", "--transport", "model"],
        ["regs", "get", "two\nlines"],
    ],
    ids=map(str, range(11)),
)
def test_odd_names_are_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_text_is_printed(trace: Path, tmp_path: Path) -> None:
    output = os.fsencode(tmp_path) + b"/\xff.parquet"
    packed = tmp_path / "packed"
    assert main(["trace", "export", str(trace), "-o", str(packed)]) == 0
    command: list[str | bytes] = [sys.executable, "-m", "vrex", "trace", "import", str(packed), "-o", output]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONUTF8": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\\udcff.parquet: 3 accesses\n")


def without_waits(error: str) -> str:
    """Standard error without what a slow machine tells of its work."""
    return error.removeprefix("elaborating the core ...\n")


@pytest.mark.parametrize("module", ["vrex", "kv_asu"])
def test_standard_output_that_is_full_is_one_line(module: str, tmp_path: Path) -> None:
    node = tmp_path / "full"
    try:
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        node.open("rb").close()
    except PermissionError:
        pytest.skip("no device nodes here")
    arguments = ["regs", "list"] if module == "vrex" else ["info"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with node.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
            env=environment, check=False,
        )  # fmt: skip
    name = {"vrex": "vrex", "kv_asu": "kv-asu"}[module]
    assert done.returncode == 1
    assert without_waits(done.stderr) == f"{name}: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("closed", "arguments", "code", "said"),
    [
        ("<&-", ["run", "--yuv", "64x64@30"], 1, "vrex: standard input ended 0 bytes into frame 0"),
        (">&-", ["regs", "list"], 0, ""),
        (">&-", ["run", "TRACE", "--frames", "1"], 1, "has no geometry"),
        ("2>&-", ["trace", "info", "none.parquet"], 1, ""),
        ("<&- >&- 2>&-", ["trace", "info", "TRACE"], 0, ""),
    ],
)
def test_a_standard_stream_that_is_closed(closed: str, arguments: list[str], code: int, said: str, trace: Path) -> None:
    given = [str(trace) if word == "TRACE" else word for word in arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "vrex", *given],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == bool(said)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("vrex", ["--help"]),
        ("vrex", ["regs", "list"]),
        ("vrex", ["trace", "info", "TRACE"]),
        ("vrex", ["doctor", "--root", "TREE"]),
        ("kv_asu", ["info"]),
        ("kv_asu", ["verilog", "--log2-entries", "3", "--window", "2", "-o", "/dev/stdout"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_reader_that_has_seen_enough(module: str, arguments: list[str], trace: Path, tmp_path: Path) -> None:
    """As `| head` does: silent, and no code that a result has."""
    (tmp_path / "tree").mkdir()
    given = [{"TRACE": str(trace), "TREE": str(tmp_path / "tree")}.get(word, word) for word in arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", module, *given], stdout=write, stderr=subprocess.PIPE, text=True,
        env=environment, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141
    assert without_waits(done.stderr) == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from kv_asu import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vrex {__version__}\n"
