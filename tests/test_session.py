"""Session files: what is recorded comes back, plays again, and every way a file or a device can be bad."""

from __future__ import annotations

import errno
import gc
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vrex
import vrex.session.format
from bus_script import BUILDS, play, script
from kv_asu.params import Params
from served_config import tree
from vrex.cli import main
from vrex.errors import VrexError
from vrex.session.format import SessionError, SessionMetadata, SessionReader
from vrex.session.operation import KINDS, Operation, Step, take
from vrex.session.recorder import Recorder
from vrex.session.replay import replay
from vrex.trace.format import TraceMetadata, write_trace
from vrex.transports import open_transport
from vrex.transports.base import Bus
from vrex.transports.model import ModelTransport

SMALL = BUILDS["L=1"]


def record(path: Path, params: Params = SMALL, seed: int = 1, steps: int = 300, transport: str = "model") -> None:
    """A random script, recorded."""
    with Recorder(bus(transport, params), path) as recorder:
        for step in script(seed, params, steps):
            play(recorder, step)


def bus(transport: str, params: Params = SMALL) -> Bus:
    opened = open_transport(transport, params=params)
    assert isinstance(opened, Bus)
    return opened


def steps_of(path: Path) -> list[Step]:
    with SessionReader(path) as reader:
        return list(reader.steps())


def plain(steps: list[Step]) -> list[object]:
    """Steps as values that compare."""

    def value(field: object) -> object:
        return field.tolist() if isinstance(field, np.ndarray) else field

    return [
        (
            [value(field) for field in step.operation],
            step.clock,
            value(step.answer),
            step.irq,
        )
        for step in steps
    ]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "some.parquet"
    record(path)
    return path


# ---- recording and reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", BUILDS.values(), ids=BUILDS)
def test_a_session_comes_back_as_it_went(params: Params, tmp_path: Path) -> None:
    record(tmp_path / "some.parquet", params, steps=900)
    device = ModelTransport(params)
    expected = []
    for kind, arguments in script(1, params, 900):
        operation = {
            "observe": lambda lines: Operation("observe", lines),
            "query_lines": lambda lines, least, boost: Operation("query_lines", lines, least, boost),
            "evict_lines": lambda count: Operation("evict_lines", value=count),
            "read": lambda offset, size: Operation("read", offset=offset, size=size),
            "write": lambda offset, value, size: Operation("write", offset=offset, value=value, size=size),
            "idle": lambda clocks: Operation("idle", value=clocks),
            "power_good": lambda level: Operation("power_good", value=int(level)),
        }[kind](*arguments)  # type: ignore[operator]
        expected.append(take(device, operation))
    steps = steps_of(tmp_path / "some.parquet")
    assert plain(steps) == plain(expected)
    assert {step.operation.kind for step in steps} == set(KINDS)
    with SessionReader(tmp_path / "some.parquet") as reader:
        assert reader.metadata == SessionMetadata(
            params,
            "model",
            calls=len(expected),
            commands=sum(step.operation.commands for step in expected),
            clocks=device.clock,
        )


def test_group_borders_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "one.parquet")
    monkeypatch.setattr(vrex.session.format, "GROUP_CALLS", 7)
    record(tmp_path / "many.parquet")
    assert pq.ParquetFile(tmp_path / "one.parquet").num_row_groups == 1
    assert pq.ParquetFile(tmp_path / "many.parquet").num_row_groups > 20
    assert plain(steps_of(tmp_path / "one.parquet")) == plain(steps_of(tmp_path / "many.parquet"))


def test_memory_is_bounded_by_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrex.session.format, "GROUP_COMMANDS", 2000)
    addresses = np.arange(100, dtype=np.uint64) << np.uint64(8)

    def peak(calls: int) -> int:
        tracemalloc.start()
        with Recorder(ModelTransport(SMALL), tmp_path / "long.parquet") as recorder:
            for _ in range(calls):
                recorder.observe(addresses)
        top = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes()
        tracemalloc.stop()
        return top

    peak(20)
    assert peak(600) < 2 * peak(60)  # what is kept of each call makes it 10; what Python keeps to use again is not that


def test_what_the_caller_changes_afterwards_is_kept_as_it_was(tmp_path: Path) -> None:
    addresses = np.array([0x100, 0x200], np.uint64)
    with Recorder(ModelTransport(SMALL), tmp_path / "some.parquet") as recorder:
        tags = recorder.observe(addresses)
        addresses[:] = 0
        tags["tag_line"] = 7
    (step,) = steps_of(tmp_path / "some.parquet")
    assert step.operation.addresses.tolist() == [0x100, 0x200]
    assert isinstance(step.answer, np.ndarray)
    assert step.answer["tag_line"].tolist() == [1, 2]


def test_a_host_script_is_recorded_from_the_first_access(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    with vrex.open("model", params=SMALL, record=path) as asu:
        asu.enable()
        asu.bus.observe([0x100])
        assert asu.bus.name == "model"
        assert str(asu.transport) == "the device model"
    steps = steps_of(path)
    assert (steps[0].operation.kind, steps[0].clock) == ("read", 0)
    assert steps[-1].operation.kind == "observe"


def test_a_run_that_fails_is_kept_up_to_there(tmp_path: Path) -> None:
    def run() -> None:
        with Recorder(ModelTransport(SMALL), tmp_path / "some.parquet") as recorder:
            recorder.idle(3)
            recorder.evict_lines(-1)

    with pytest.raises(ValueError, match="count must not be negative"):
        run()
    assert [step.operation.kind for step in steps_of(tmp_path / "some.parquet")] == ["idle"]


def test_a_recorder_that_nobody_closes_is_finished(tmp_path: Path) -> None:
    Recorder(ModelTransport(SMALL), tmp_path / "some.parquet").idle(3)
    gc.collect()
    assert len(steps_of(tmp_path / "some.parquet")) == 1


@pytest.mark.parametrize("leave", ["raise SystemExit", "asu.close()", "del asu", "asu.bus.idle(1)"])
def test_a_child_leaves_its_parents_recording_alone(leave: str, tmp_path: Path) -> None:
    script = """
        import os, sys
        import vrex

        asu = vrex.open("model", log2_entries=4, window=2, record="some.parquet")
        asu.bus.observe([0x100])
        if not os.fork():
            LEAVE
            sys.exit()
        print(os.waitstatus_to_exitcode(os.wait()[1]), os.listdir())
        asu.bus.observe([0x200, 0x300])
        asu.close()
    """
    script = textwrap.dedent(script).replace("LEAVE", leave)
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    steps = steps_of(tmp_path / "some.parquet")
    assert [step.operation.commands for step in steps if step.operation.kind == "observe"] == [1, 2]
    code, names = run.stdout.split(maxsplit=1)
    assert names.count(".part") == 1
    assert int(code) == ("idle" in leave)
    said = "and this is a child of it; open a device of its own here"
    assert (said in run.stderr) == ("idle" in leave)


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    model = ModelTransport(SMALL)
    model.idle(5)
    with pytest.raises(ValueError, match="begin at reset, not after 5 clocks"):
        Recorder(model, tmp_path / "x.parquet")
    tree(tmp_path / "root", SMALL)
    with pytest.raises(VrexError, match="no memory bus here"):
        vrex.open("sysfs", root=tmp_path / "root", record=tmp_path / "x.parquet")
    with pytest.raises(TypeError, match="only a bus will do"):
        Recorder(open_transport("sysfs", root=tmp_path / "root"), tmp_path / "x.parquet")  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(VrexError, match="cannot be written"):
        Recorder(ModelTransport(SMALL), tmp_path / "file" / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrex.session.format, "GROUP_CALLS", 2)
    recorder = Recorder(ModelTransport(SMALL), tmp_path / "some.parquet")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(recorder._writer._parquet, "write_table", full)
    recorder.idle(1)
    for _ in range(2):
        with pytest.raises(VrexError, match=r"some.parquet: cannot be written \(No space left on device\)"):
            recorder.idle(1)
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def other(path: Path, kind: str) -> Path:
    """Something that is no file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        except PermissionError:
            pytest.skip("no device nodes here")
    return path


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "device"])
def test_only_a_file_is_replaced(kind: str, linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name must be short
    path = other(Path("there"), kind)
    before = path.stat()
    if linked:
        path = Path("link")
        path.symlink_to("there")
    with pytest.raises(VrexError, match=rf"^{path}: cannot be written \(it is a {kind}.*\); choose another place$"):
        vrex.open("model", params=SMALL, record=path)
    assert (Path("there").stat().st_mode, Path("there").stat().st_ino) == (before.st_mode, before.st_ino)
    assert len(list(tmp_path.iterdir())) == 1 + linked


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_stays_and_leads_to_the_session(exists: bool, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/some.parquet")
    if exists:
        (tmp_path / "far" / "some.parquet").write_text("old")
    record(tmp_path / "link", steps=3)
    assert (tmp_path / "link").is_symlink()
    assert steps_of(tmp_path / "far" / "some.parquet")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "link", "some.parquet"]


def test_two_recorders_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """The last to close has the name; the other's was whole until then."""
    first, second = (Recorder(ModelTransport(SMALL), tmp_path / "some.parquet") for _ in range(2))
    first.idle(3)
    second.idle(5)
    for recorder, clocks in ((second, 5), (first, 3)):
        recorder.close()
        assert [step.operation.value for step in steps_of(tmp_path / "some.parquet")] == [clocks]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    record(tmp_path / ("n" * 247 + ".parquet"), steps=3)
    assert len(list(tmp_path.iterdir())) == 1


def test_what_fails_when_nobody_listens_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    Recorder(ModelTransport(SMALL), tmp_path / "folder" / "x.parquet").idle(1)  # never closed
    gc.collect()
    recorder = Recorder(ModelTransport(SMALL), tmp_path / "folder" / "y.parquet")
    recorder.idle(1)
    shutil.rmtree(tmp_path / "folder")
    del recorder
    gc.collect()
    error = capsys.readouterr().err
    assert error.startswith(f"vrex: {tmp_path / 'folder' / 'y.parquet'}: cannot be written (")
    assert error.count("\n") == 1


# ---- bad files -----------------------------------------------------------------------------------------------------


def fails(path: Path, match: str) -> None:
    with pytest.raises(SessionError, match=match) as caught:
        steps_of(path)
    assert "\n" not in str(caught.value)


def test_other_files_are_named(session: Path, tmp_path: Path) -> None:
    fails(tmp_path / "none.parquet", r"none.parquet: no such file; record one with vrex.open")
    (tmp_path / "text").write_text("hello")
    fails(tmp_path / "text", "not a Parquet file, or cut short")
    fails(tmp_path, "cannot be read|not a Parquet file")
    with write_trace(tmp_path / "trace.parquet", TraceMetadata("a trace")) as writer:
        writer.append(0, 0, 0, 0, np.array([7], np.uint64), np.array([0], np.uint64))
    fails(tmp_path / "trace.parquet", "a Parquet file but not a V-Rex session")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda data: data | {"version": [2, 0]},
            "session format 2.0, this program reads 1.x; record it again, or use",
        ),
        (lambda data: data | {"version": "x"}, "its metadata is damaged"),
        (lambda data: data | {"params": {"window": 3}}, r"damaged \(window must be one of"),
        (lambda data: data | {"params": {"wind": 3}}, "its metadata is damaged"),
        (lambda data: data | {"calls": 1}, "says 1 calls and holds"),
        (lambda data: data | {"commands": data["commands"] + 1}, r"says \d+ commands and holds \d+; record it again"),
        (lambda data: data | {"clocks": data["clocks"] + 1}, r"says \d+ clocks and holds \d+; record it again"),
        (lambda data: data | {"clocks": str(data["clocks"])}, r"its metadata is damaged \(clocks must be an integer"),
        (lambda data: data | {"commands": 1.5}, r"its metadata is damaged \(commands must be an integer"),
        (lambda data: {"version": [1, 9]}, "its metadata is damaged"),
        (lambda data: data | {"clocks": float("inf")}, "its metadata is damaged"),
        (lambda data: data | {"transport": "two\nlines"}, r"its metadata is damaged \(transport is no name\)"),
        (lambda data: data | {"program": "\x1b[31mred"}, r"its metadata is damaged \(program is no name\)"),
    ],
    ids=[
        "newer",
        "no version",
        "no such build",
        "no such parameter",
        "other calls",
        "other commands",
        "other clocks",
        "text",
        "a part",
        "nothing else",
        "endless",
        "two lines",
        "colours",
    ],
)
def test_other_metadata(change: Callable[[dict], dict], match: str, session: Path, tmp_path: Path) -> None:
    table = pq.read_table(session)
    data = json.loads(pq.ParquetFile(session).metadata.metadata[b"vrex.session"])
    other = tmp_path / "other.parquet"
    pq.write_table(table.replace_schema_metadata({"vrex.session": json.dumps(change(data))}), other)
    fails(other, match)


def test_a_newer_minor_version_is_read(session: Path, tmp_path: Path) -> None:
    data = json.loads(pq.ParquetFile(session).metadata.metadata[b"vrex.session"])
    data |= {"version": [1, 7], "more": 1}
    other = tmp_path / "other.parquet"
    table = pq.read_table(session).append_column("more", pa.array([0] * data["calls"]))
    pq.write_table(table.replace_schema_metadata({"vrex.session": json.dumps(data)}), other)
    assert plain(steps_of(other)) == plain(steps_of(session))


def edited(session: Path, other: Path, column: str, row: int, value: object) -> Path:
    """A session with one value changed."""
    table = pq.read_table(session)
    values = table.column(column).to_pylist()
    values[row] = value
    field = table.schema.field(column)
    if value is None:
        field = field.with_nullable(True)
    index = table.schema.get_field_index(column)
    pq.write_table(table.set_column(index, field, pa.array(values, field.type)), other)
    return other


@pytest.mark.parametrize(
    ("kind", "column", "value", "match"),
    [
        ("read", "offset", 5000, "offset must be a multiple of 4 below 0x1000, not 5000"),
        ("read", "offset", 257, "offset must be a multiple of 4"),
        ("read", "size", 3, "size must be 1, 2 or 4 bytes, not 3"),
        ("write", "size", 0, "size must be 1, 2 or 4 bytes, not 0"),
        ("write", "value", 1 << 40, "value of write must fit 4 bytes, not 1099511627776"),
        ("query_lines", "min_tlevel", 200, "min_tlevel of query_lines must be 0 to 3, not 200"),
        ("query_lines", "addresses", [1 << 63], "an address of query_lines has more than 40 bits"),
        ("observe", "addresses", [(1 << 40) + 256], "an address of observe has more than 40 bits"),
        ("observe", "addresses", [], "0 commands have 1 answers"),
        ("idle", "addresses", [256], "idle has no addresses"),
        ("idle", "value", 1 << 40, "1099511627776 clocks pass in a session of"),
        ("evict_lines", "value", 1 << 60, "1152921504606846976 commands have"),
        ("power_good", "value", 2, "value of power_good must be 0 or 1, not 2"),
        ("read", "min_tlevel", None, "min_tlevel is missing in a row"),
        ("observe", "addresses", None, "addresses is missing in a row"),
    ],
)
def test_an_edited_argument_is_named(
    kind: str, column: str, value: object, match: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.parquet"
    with Recorder(ModelTransport(replace(SMALL, addr_width=40)), path) as recorder:
        recorder.idle(9)
        recorder.observe([256])
        recorder.query_lines([256])
        recorder.evict_lines(1)
        recorder.write(recorder.params.config_base + 8, 1, 4)
        recorder.read(recorder.params.config_base + 8, 4)
        recorder.power_good = False
    row = next(index for index, step in enumerate(steps_of(path)) if step.operation.kind == kind)
    other = edited(path, tmp_path / "other.parquet", column, row, value)
    fails(other, rf"damaged in row group 0 \({match}.*; copy it again, or record it again")
    assert main(["replay", str(other), "--transport", "model"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"vrex: {other}: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_edited_is_an_error_or_a_difference(
    seed: int, session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    table = pq.read_table(session)
    values: dict[str, Callable[[], object]] = {
        "kind": lambda: chance.choice([*KINDS, "", "x"]),
        "clock": lambda: chance.getrandbits(chance.randrange(1, 65)),
        "min_tlevel": lambda: chance.getrandbits(8),
        "boost": lambda: chance.random() < 0.5,
        "offset": lambda: chance.getrandbits(16),
        "size": lambda: chance.getrandbits(3),
        "value": lambda: chance.getrandbits(chance.randrange(1, 65)),
        "data": lambda: chance.getrandbits(32),
        "irq": lambda: chance.random() < 0.5,
        "addresses": lambda: [chance.getrandbits(chance.randrange(1, 65)) for _ in range(chance.randrange(3))],
    }
    for _ in range(12):
        column = chance.choice(list(values))
        other = edited(session, tmp_path / "other.parquet", column, chance.randrange(table.num_rows), values[column]())
        code = main(["replay", str(other), "--transport", "model", "--json"])
        captured = capsys.readouterr()
        if code and not captured.out:
            assert captured.err.startswith("vrex: ")
            assert captured.err.count("\n") == 1
        else:
            assert json.loads(captured.out)["equal"] is (code == 0)


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("kind", pa.array(["reset"]), "no operation is called 'reset'"),
        ("observe", None, "1 commands have 0 answers"),
        ("clock", pa.array([1], pa.int8()), "column clock is of type int8"),
    ],
)
def test_what_no_recorder_writes(column: str, value: pa.Array | None, match: str, tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    with Recorder(ModelTransport(SMALL), path) as recorder:
        recorder.observe([0x100])
    table = pq.read_table(path)
    index = table.column_names.index(column)
    if value is None:
        value = pa.array([[]], table.schema.field(column).type)
    pq.write_table(table.set_column(index, table.schema.field(column).with_type(value.type), value), path)
    fails(path, match)


@pytest.fixture(scope="module")
def whole_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("session") / "some.parquet"
    record(path, steps=100)
    return path


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_cut_short_is_an_error(whole_session: Path, data: st.DataObject) -> None:
    path, whole = whole_session.with_name("cut.parquet"), whole_session.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    fails(path, "cut short|damaged|cannot be read")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_an_error_or_means_the_same(whole_session: Path, data: st.DataObject) -> None:
    path, whole = whole_session.with_name("damaged.parquet"), whole_session.read_bytes()
    expected = plain(steps_of(whole_session))
    place = data.draw(st.integers(0, len(whole) - 1))
    other = bytearray(whole)
    other[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(other)
    try:
        steps = steps_of(path)
    except SessionError:
        return
    assert plain(steps) == expected


# ---- replay --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize(("recorded", "replayed"), [("model", "rtl"), ("rtl", "model"), ("rtl", "rtl")])
def test_model_and_gateware_replay_each_other(params: Params, recorded: str, replayed: str, tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    record(path, params, transport=recorded)
    steps = steps_of(path)
    result = replay(steps, bus(replayed, params))
    assert result.difference is None
    assert result.calls == len(steps)
    assert result.compared["requests"] > 300
    assert min(result.compared[name] for name in ("queries", "evicts", "reads")) > 20


def test_the_command_says_equal_in_one_line(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(session), "--transport", "model"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{session}: equal over ")
    assert out.count("\n") == 1
    assert "requests" in out
    assert out.endswith("recorded on model, replayed on model\n")
    assert main(["replay", str(session), "--transport", "rtl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["equal"]
    assert (result["recorded"], result["replayed"]) == ("model", "rtl")
    assert result["compared"]["requests"] > 300
    assert main(["replay", "--help"]) == 0
    assert "vrex replay long.parquet" in capsys.readouterr().out


WRITE_IT = "write it with `kv-asu verilog --full-config-space`"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["some.parquet"], 2, "Missing option '--transport'"),
        (["some.parquet", "--transport", "sysfs"], 2, "'sysfs' is not one of model, rtl"),
        (["none.parquet", "--transport", "model"], 1, "none.parquet: no such file"),
        (
            ["some.parquet", "--transport", "rtl", "--verilog", "none.sv"],
            1,
            f"none.sv: cannot be read (No such file or directory); {WRITE_IT}",
        ),
        (
            ["some.parquet", "--transport", "rtl", "--verilog", "cut.sv"],
            1,
            "cut.sv: the Verilog does not compile (line 4: ",
        ),
        (["some.parquet", "--transport", "rtl", "--verilog", "cut.sv"], 1, f"); {WRITE_IT}"),
        (["some.parquet", "--transport", "rtl", "--verilog", "pins.sv"], 1, "pins.sv: the Verilog does not compile ("),
        (["some.parquet", "--transport", "rtl", "--verilog", "binary.sv"], 1, f"binary.sv: is no text; {WRITE_IT}"),
        (
            ["some.parquet", "--transport", "model", "--extract", "/proc/zz"],
            1,
            "(/proc takes no files); choose another",
        ),
        (
            ["some.parquet", "--transport", "rtl", "--verilog", "empty.sv"],
            1,
            f"empty.sv: the Verilog has no module kv_asu; {WRITE_IT}",
        ),
        (["some.parquet", "--transport", "model", "--budget", "0"], 2, "for '--budget'"),
        (["some.parquet", "--transport", "model", "--verilog", "empty.sv"], 2, "nothing compiles Verilog on the model"),
        (["some.parquet", "--transport", "model", "--extract", "."], 2, ". is a folder; say small"),
        (["some.parquet", "--transport", "model", "--extract", ".."], 2, ".. is a folder; say ../small"),
        (["some.parquet", "--transport", "model", "--extract", "empty.sv/x"], 1, "empty.sv is no folder)"),
        (["some.parquet", "--transport", "model", "--extract", "some"], 1, "some.parquet: is what it would be made"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    code: int,
    message: str,
    session: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(session.parent)
    monkeypatch.setattr("kv_asu.waiting.PATIENCE", 600)  # what takes long says so in a line more
    Path("empty.sv").write_text("")
    Path("cut.sv").write_text("module kv_asu (\n  input wire clk\n);\n  reg")
    Path("pins.sv").write_text("module kv_asu (\n  input wire clk\n);\nendmodule\n")
    Path("binary.sv").write_bytes(b"\xff\x00")
    assert main(["replay", *arguments]) == code
    error = capsys.readouterr().err
    assert error.startswith("vrex: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_core_without_config_space_is_named(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kv_asu_sim.build import verilog

    (tmp_path / "core.sv").write_text(verilog(SMALL))
    assert main(["replay", str(session), "--transport", "rtl", "--verilog", str(tmp_path / "core.sv")]) == 1
    assert f"core.sv: no config space around the core; {WRITE_IT}" in capsys.readouterr().err
