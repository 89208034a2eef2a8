"""`vrex regs` on a model and on a tree: results, one-line errors, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kv_asu.params import Params
from kv_asu_firmware.device import Device
from kv_asu_sim.build import library
from served_config import serve, tree
from vrex.cli import main
from vrex.registers import REGISTERS

SMALL = Params(log2_entries=4, window=2)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with a live device."""
    serve(monkeypatch, tree(tmp_path, SMALL), Device(SMALL))
    return tmp_path


def out(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["regs", *map(str, arguments)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def test_list_needs_no_device(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "list")
    assert "CTRL at CTRL+0x0: Control\n" in text
    assert "T1 at CTRL+0x20: T-level 1 thresholds; writable while disabled\n" in text
    assert "    5:4  DECAY          read-write          0x0  What becomes of a cold line's access counter" in text
    record = json.loads(out(capsys, "list", "--json"))
    assert list(record) == list(REGISTERS)
    assert record["T3"]["fields"]["AGE"] == {
        "low": 16, "width": 16, "access": "read-write", "reset": 25,
        "meaning": "Greatest age in ticks. A write of more than T2.AGE is refused.",
    }  # fmt: skip


def test_get(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out(capsys, "get", "t3.age", "CTRL.DECAY") == "T3.AGE 25\nCTRL.DECAY 0 (HOLD)\n"
    assert out(capsys, "get", "PARAMS.LOG2_ENTRIES", "STATUS.POWERED", "--root", root) == (
        "PARAMS.LOG2_ENTRIES 4\nSTATUS.POWERED 1\n"
    )
    assert out(capsys, "get", "T3") == "T3 0x00190005: COUNT 5, AGE 25\n"
    assert out(capsys, "get", "ID", "VSEC.VSEC_ID", "VICTIM_LO.ADDRESS", "HASH_SEED.SEED") == (
        "ID 0x4b560100: MINOR 0, MAJOR 1, MAGIC 0x4b56\nVSEC.VSEC_ID 0x4b56\nVICTIM_LO.ADDRESS 0x0\n"
        "HASH_SEED.SEED 0x0\n"
    )
    record = json.loads(out(capsys, "get", "T3", "status.active", "--json", "--device", "00:02.0", "--root", root))
    assert record == {"T3": {"value": 0x190005, "fields": {"COUNT": 5, "AGE": 25}}, "STATUS.ACTIVE": 0}


def test_what_is_set_stays_in_a_device(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "set", "CTRL.DECAY=halve", "T3.AGE=0x1e", "T3.COUNT=9", "--root", root)
    assert text == "CTRL.DECAY 1 (HALVE)\nT3.AGE 30\nT3.COUNT 9\n"
    assert out(capsys, "get", "T3", "--root", root) == "T3 0x001e0009: COUNT 9, AGE 30\n"
    assert json.loads(out(capsys, "set", "hash_seed=5", "--root", root, "--json"))["HASH_SEED"]["value"] == 5
    text = out(capsys, "get", "CTRL.DECAY", "HASH_SEED.SEED", "--root", root)
    assert text == "CTRL.DECAY 1 (HALVE)\nHASH_SEED.SEED 0x5\n"


@pytest.mark.parametrize(
    ("wrong", "code"), [("T3.AGE=99999999", 2), ("STATUS=1", 2), ("CTLR=1", 2), ("T3.AGE=x", 2), ("T1=0x100000000", 2)]
)
def test_a_usage_error_changes_nothing(wrong: str, code: int, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = out(capsys, "dump", "--root", root)
    assert main(["regs", "set", "--root", str(root), "CTRL=1", "T3.COUNT=7", wrong]) == code
    capsys.readouterr()
    assert out(capsys, "dump", "--root", root) == before


def test_assignments_are_made_in_the_order_given(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words and fields alike; fields of one register are one write, unless it is written whole in between."""
    text = out(capsys, "set", "TIMEBASE.TICK_SHIFT=4", "CTRL=1", "T3.AGE=9", "T3.COUNT=8", "--root", root)
    assert [line.split()[0] for line in text.splitlines()] == ["TIMEBASE.TICK_SHIFT", "CTRL", "T3.AGE", "T3.COUNT"]
    assert main(["regs", "set", "--root", str(root), "CTRL=1", "TIMEBASE=5", "T3.AGE=7"]) == 1
    assert "TIMEBASE can only be written while the core is disabled" in capsys.readouterr().err
    assert out(capsys, "get", "T3.AGE", "--root", root) == "T3.AGE 9\n"
    out(capsys, "set", "CTRL.ENABLE=0", "TIMEBASE=5", "CTRL=1", "CTRL.DECAY=halve", "CTRL=0", "T1=0x780001",
        "CTRL.ENABLE=1", "--root", root)  # fmt: skip
    assert out(capsys, "get", "CTRL.ENABLE", "CTRL.DECAY", "TIMEBASE.TICK_SHIFT", "T1.AGE", "--root", root).split() == [
        "CTRL.ENABLE", "1", "CTRL.DECAY", "0", "(HOLD)", "TIMEBASE.TICK_SHIFT", "5", "T1.AGE", "120",
    ]  # fmt: skip


def test_a_model_is_fresh_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regs", "set", "CTRL.DECAY=1"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "CTRL.DECAY 1 (HALVE)\n"
    assert shown.err == "vrex: set in a fresh model, which is gone; a device is --device BDF or --root DIR\n"
    assert out(capsys, "get", "CTRL.DECAY") == "CTRL.DECAY 0 (HOLD)\n"
    assert main(["regs", "--help"]) == 0
    assert "fresh device for each" in capsys.readouterr().out


def test_rtl_reads_as_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    library(Params(), full_config_space=True)  # says on standard error what it does, the first time
    capsys.readouterr()
    model = json.loads(out(capsys, "dump", "--json"))
    rtl = json.loads(out(capsys, "dump", "--json", "--transport", "rtl"))
    assert (model.pop("device"), rtl.pop("device")) == ("the device model", "the compiled RTL")
    assert rtl == model


def test_dump(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "dump", "--root", root)
    assert [line.split()[0] for line in text.splitlines() if line[0] != " "] == ["register", *REGISTERS]
    record = json.loads(out(capsys, "dump", "--root", root, "--json"))
    assert record["base"] == 0x800
    assert record["device"].endswith("devices/0000:00:02.0/config")
    assert record["registers"]["ID"] == {
        "offset": 8, "value": 0x4B560100, "fields": {"MINOR": 0, "MAJOR": 1, "MAGIC": 0x4B56}
    }  # fmt: skip


def test_watch(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("vrex.regs_cli.time.sleep", slept.append)
    text = out(capsys, "watch", "--count", "3", "--interval", "0.25", "--root", root, "--json")
    looks = [json.loads(line) for line in text.splitlines()]
    assert [look["registers"]["T3"]["value"] for look in looks] == [0x190005] * 3
    assert slept == [0.25, 0.25]
    assert out(capsys, "watch", "--count", "2").count("IRQ_STATUS") == 2


def test_watch_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One table after the other; what has changed has a star."""
    from vrex.kv_asu import KvAsu

    looks = iter(range(3))
    whole = KvAsu.registers

    def registers(asu: KvAsu) -> object:
        asu.cold_watermark = next(looks) // 2
        return whole(asu)

    monkeypatch.setattr(KvAsu, "registers", registers)
    text = out(capsys, "watch", "--count", "3", "--interval", "0")
    starred = [line.split()[0] for line in text.splitlines() if line.split()[1:2] == ["*"]]
    assert starred == ["COLD_WATERMARK"]


def test_watch_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One live table; what has changed is in another colour."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "80")

    from vrex.kv_asu import KvAsu

    looks = iter(range(2))
    whole = KvAsu.registers

    def registers(asu: KvAsu) -> object:
        asu.cold_watermark = next(looks)
        return whole(asu)

    monkeypatch.setattr(KvAsu, "registers", registers)
    text = out(capsys, "watch", "--count", "2", "--interval", "0")
    marked = [line for line in text.splitlines() if "\x1b[1;33m" in line]
    assert any("COLD_WATERMARK" in line for line in marked)
    assert not any("HASH_SEED" in line for line in marked)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "CTLR"], "there is no register CTLR; did you mean CTRL?"),
        (["get", "CTRL.ENABEL"], "'CTRL.ENABEL' is no field; CTRL has CTRL.ENABLE"),
        (["set", "T3.AGE"], "'T3.AGE' is no assignment like T3.AGE=30"),
        (["set", "T3.AGE=x"], "T3.AGE: 'x' is not a number"),
        (["set", "CTRL.DECAY=half"], "or one of HOLD, HALVE, CLEAR"),
        (["set", "CTRL.DECAY=4"], "CTRL.DECAY must be 0 to 3, not 4"),
        (["set", "T3=0x1ffffffff"], "T3 must be 0 to 0xffffffff"),
        (["set", "T3=-1"], "T3 must be 0 to 0xffffffff, not -1"),
        (["set", "T3=high"], "T3: 'high' is not a number; 0x starts a hexadecimal one"),
        (["set", "STATUS.ACTIVE=1"], "STATUS.ACTIVE can only be read (status)"),
        (["set", "STATUS=1"], "STATUS can only be read"),
        (["dump", "--transport", "usb"], "'usb' is not one of model, rtl, sysfs"),
        (["dump", "--transport", "model", "--root", "."], "model has no device or root; leave --transport out"),
        (["dump", "--device", "2.0"], "device must be a PCI address like 0000:00:02.0, not '2.0'"),
        (["watch", "--count", "0"], "for '--count'"),
        *(
            (["watch", "--interval", seconds], f"{seconds!r} is not a number of seconds, 0 to 86400")
            for seconds in ("inf", "nan", "1e300", "-1", "86401", "soon")
        ),
        (["get"], "Missing argument"),
        (["set", "CTRL.ENABLE=" + "9" * 5000], f"CTRL.ENABLE: '{'9' * 99}...{'9' * 19}' is not a number"),
        (["set", "CTRL=" + "9" * 4000], f"CTRL must be 0 to 0xffffffff, not {'9' * 100}...{'9' * 19};"),
        (["get", "A" * 5000], f"there is no register {'A' * 100}..."),
    ],
    ids=range(25),
)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["regs", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "T3.AGE=60"], "the core refused T3 0x003c0005"),
        (["set", "CTRL.ENABLE=1", "T1.AGE=60"], "T1 can only be written while the core is disabled"),
        (["set", "T3.AGE=60"], "is out of range or out of order (T3.AGE <= T2.AGE <= T1.AGE); see"),
        (["set", "TIMEBASE.TICK_SHIFT=25"], "a value is out of range; see docs/registers.md, TIMEBASE"),
        (["set", "CTRL.ENABLE=1", "T1.AGE=60"], "disable it first (CTRL.ENABLE = 0)"),
        (["dump", "--root", "none"], "none: no such folder"),
        (["dump", "--root", "file"], "file: not a folder; --root names what stands for /sys/bus/pci"),
        (["dump", "--root", ".", "--device", "00:03.0"], "there is no device 0000:00:03.0, only 0000:00:02.0"),
    ],
)
def test_failures_are_one_line_and_code_1(
    arguments: list[str], message: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    Path("file").write_text("")
    assert main(["regs", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["get", "set", "list", "dump", "watch"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regs", command, "--help"]) == 0
    assert f"vrex regs {command} " in capsys.readouterr().out.split("Examples:")[1]
