"""The register map's single source: what it says, what is made of it, and that the made files are current."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from kv_asu import registers_gen
from kv_asu.params import Params
from kv_asu.register_map import CTRL_OFFSET, REGISTERS, Counter, Decay, VictimStatus
from kv_asu.register_types import Access
from vrex import registers as host

# registers.md's table: offset from CTRL, access, value after reset of a default build.
MAP = {
    "CTRL": (0x00, 0),
    "STATUS": (0x04, 0),
    "ID": (0x08, 0x4B56_0100),
    "PARAMS": (0x0C, 64 << 19 | 8 << 14 | 1 << 10 | 8 << 5 | 11),
    "GEOMETRY": (0x10, 8 << 8 | 11),
    "TIMEBASE": (0x14, 2),
    "T3": (0x18, 25 << 16 | 5),
    "T2": (0x1C, 50 << 16 | 3),
    "T1": (0x20, 125 << 16 | 1),
    "IRQ_STATUS": (0x24, 0),
    "IRQ_ENABLE": (0x28, 0),
    "COLD_WATERMARK": (0x2C, 0),
    "HASH_SEED": (0x30, 0),
    "TRACKED": (0x34, 0),
    "COLD": (0x38, 0),
    "QUERY_LO": (0x3C, 0),
    "QUERY_HI": (0x40, 0),
    "QUERY": (0x44, 0),
    "EVICT": (0x48, 0),
    "VICTIM_LO": (0x4C, 0),
    "VICTIM_HI": (0x50, 0),
    "COUNTER_SELECT": (0x54, 0),
    "COUNTER_LO": (0x58, 0),
    "COUNTER_HI": (0x5C, 0),
    "LIMITS": (0x60, 240),
}

SOURCE = registers_gen.SOURCE.read_text()


def test_the_map_is_the_specified_one() -> None:
    assert list(REGISTERS) == ["CAPABILITY", "VSEC", *MAP]
    for name, (offset, reset) in MAP.items():
        assert REGISTERS[name].offset == CTRL_OFFSET + offset, name
        assert REGISTERS[name].reset_value(Params()) == reset, name
    assert {name for name, register in REGISTERS.items() if register.structural} == {
        "GEOMETRY",
        "TIMEBASE",
        "T1",
        "HASH_SEED",
    }


def test_every_field_agrees_with_the_source() -> None:
    top = registers_gen.compile_map()
    fields = {
        (node.inst_name, field.inst_name): (node.absolute_address, field.low, field.width)
        for node in registers_gen.registers(top)
        for field in node.fields()
    }
    assert fields == {
        (register.name, field.name): (register.offset, field.low, field.width)
        for register in REGISTERS.values()
        for field in register.fields
    }
    assert fields == {
        (register.NAME, field.name): (register.OFFSET + host.CTRL_OFFSET, field.low, field.width)
        for register in host.REGISTERS.values()
        for field in register.FIELDS.values()
    }


def test_everything_is_described() -> None:
    for register in registers_gen.registers(registers_gen.compile_map()):
        assert register.get_property("name"), register.inst_name
        assert register.get_property("desc"), register.inst_name
        for field in register.fields():
            assert field.get_property("desc"), registers_gen.field_path(field)


def test_write_one_to_clear_never_shares_with_read_write() -> None:
    for register in REGISTERS.values():
        kinds = {field.access for field in register.fields}
        assert not {Access.WRITE_ONE_TO_CLEAR, Access.READ_WRITE} <= kinds, register.name


def test_generated_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert registers_gen.main(["--check"]) == 0, capsys.readouterr().err


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with current files."""
    (tmp_path / "pyproject.toml").touch()
    assert registers_gen.main([], root=tmp_path) == 0
    return tmp_path


def test_a_stale_file_fails_the_check(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert registers_gen.main(["--check"], root=tree) == 0
    page = tree / "docs" / "registers.md"
    text = page.read_text()
    page.write_text(text.replace("CTRL", "CONTROL", 1))
    (tree / "docs" / "kv_asu.xml").unlink()
    capsys.readouterr()
    assert registers_gen.main(["--check"], root=tree) == 1
    assert capsys.readouterr().err.splitlines() == [
        "docs/registers.md is stale: run python -m kv_asu.registers_gen",
        "docs/kv_asu.xml is stale: run python -m kv_asu.registers_gen",
    ]
    assert registers_gen.main([], root=tree) == 0
    assert page.read_text() == text
    assert not list(tree.rglob("*.new"))


def test_the_same_bytes_from_another_place(tmp_path: Path) -> None:
    """Another process, hash seed, folder and file name: nothing of them gets into the files."""
    source = tmp_path / "elsewhere.rdl"
    source.write_text(SOURCE)
    program = (
        "import sys, pathlib, hashlib\n"
        "from kv_asu import registers_gen\n"
        "files = registers_gen.generate(pathlib.Path(sys.argv[1]))\n"
        "print(hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest())\n"
    )
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": paths}
    command = [sys.executable, "-c", program]
    first, second = (
        subprocess.run(
            [*command, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for path in (source, registers_gen.SOURCE)
    )
    assert first == second


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('build = "window"', 'build = "windows"', "PARAMS.WINDOW: no build parameter is called 'windows'"),
        ("} STAMP_WIDTH[18:14] = 8", "} STAMP_WIDTH[18:14] = 9", "PARAMS.STAMP_WIDTH: reset is 9, but"),
        ('allowed = "8..24"', 'allowed = "8-24"', "GEOMETRY.LINE_SHIFT: allowed must read"),
        ("} TICK_SHIFT[4:0] = 2", "} TICK_SHIFT[4:0] = 25", "TIMEBASE.TICK_SHIFT: reset 25 is not within 0..24"),
        ("RECLAIM_OFF[6:6]", "RECLAIM_OFF[6:6] = 0; field { hw = rw; } X[7:7]", "CTRL.X: the core has no field"),
        ("RECLAIM_OFF[6:6]", "RECLAIM_OFF[6:6] = 0; field { onwrite = woclr; } X[7:7]", "CTRL: write-1-to-clear and"),
        ("STATUS @ 0x04", "STATUS @ 0x00", "registers.rdl: "),
        ("addrmap kv_asu {", "addrmap kv_asu (", "registers.rdl: "),
    ],
    ids=["build", "reset", "range", "default", "kind", "mixed kinds", "overlap", "syntax"],
)
def test_a_map_the_core_cannot_have(
    old: str, new: str, message: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tree / "registers.rdl"
    source.write_text(SOURCE.replace(old, new, 1))
    assert source.read_text() != SOURCE
    before = {path: path.read_bytes() for path in tree.rglob("*.*")}
    capsys.readouterr()
    assert registers_gen.main([], source=source, root=tree) == 1
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tree.rglob("*.*")} == before


def test_outside_a_source_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert registers_gen.main([], root=tmp_path) == 1
    assert "is not the source tree: run this from a checkout" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_c_header_compiles_and_has_the_offsets(tmp_path: Path) -> None:
    checks = "\n".join(
        f'_Static_assert(offsetof(kv_asu__REGISTERS_t, {name}) == {offset}, "{name}");'
        for name, (offset, _) in MAP.items()
    )
    masks = "\n".join(
        f'_Static_assert(KV_ASU__REGISTERS__{register.name}__{field.name}_bm == {field.mask:#x}u, "{field.name}");'
        for register in REGISTERS.values()
        if register.name in MAP
        for field in register.fields
    )
    masks += "".join(
        f'\n_Static_assert(KV_ASU__REGISTERS__{path.replace(".", "__")}__{member.name} == {member.value}, "{member}");'
        for path, kind in (("CTRL.DECAY", Decay), ("EVICT.STATUS", VictimStatus), ("COUNTER_SELECT.INDEX", Counter))
        for member in kind
    )
    program = tmp_path / "offsets.c"
    program.write_text(
        f'#include <stddef.h>\n#include "kv_asu_regs.h"\n'
        f'_Static_assert(offsetof(kv_asu_t, REGISTERS) == {CTRL_OFFSET}, "CTRL");\n{checks}\n{masks}\n'
    )
    include = registers_gen.ROOT / "firmware_model" / "include"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-fsyntax-only", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_ip_xact_has_every_field() -> None:
    tree = ElementTree.parse(registers_gen.ROOT / "docs" / "kv_asu.xml")
    space = {"ipxact": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
    assert len(tree.findall(".//ipxact:register", space)) == len(REGISTERS)
    assert len(tree.findall(".//ipxact:field", space)) == sum(len(register.fields) for register in REGISTERS.values())


def test_uvm_package_has_every_field() -> None:
    text = (registers_gen.ROOT / "docs" / "kv_asu_ral_pkg.sv").read_text()
    kinds = {
        Access.CONSTANT: ("RO", 0),
        Access.STATUS: ("RO", 1),
        Access.READ_WRITE: ("RW", 0),
        Access.WRITE_ONE_TO_CLEAR: ("W1C", 1),
        Access.WRITE_ONE_TO_DO: ("WO", 1),
    }
    instances = dict(re.findall(r"rand (kv_asu_*\w*__\w+) (\w+);", text))
    found = {}
    for kind, body in re.findall(r"class (\w+) extends uvm_reg;(.*?)endclass", text, re.DOTALL):
        name = instances[kind]
        for field, *numbers in re.findall(r'this\.(\w+)\.configure\(this, (\d+), (\d+), "(\w+)", ([01]),', body):
            found[name, field] = (int(numbers[0]), int(numbers[1]), numbers[2], int(numbers[3]))
    assert found == {
        (register.name, field.name): (field.width, field.low, *kinds[field.access])
        for register in REGISTERS.values()
        for field in register.fields
    }
    assert text.startswith("// Generated from registers.rdl by")


def test_pages_name_everything_and_need_nothing_else() -> None:
    page = (registers_gen.ROOT / "docs" / "registers.md").read_text()
    html = (registers_gen.ROOT / "docs" / "registers.html").read_text()
    for register in REGISTERS.values():
        for name in (register.name, *(field.name for field in register.fields)):
            assert name in page
            assert name in html
    assert not re.search(r"<script|<link|<img|src=|href=|url\(", html)


def test_host_values() -> None:
    ctrl = host.Ctrl(0x61)
    assert (ctrl.enable, ctrl.flush, ctrl.decay, ctrl.reclaim_off) == (True, False, host.Decay.CLEAR, True)
    assert host.Ctrl.of(enable=True, decay=host.Decay.HALVE) == 0x11
    assert host.T3(0).replace(age=25, count=5) == MAP["T3"][1]
    assert host.T3(0x0019_0005).replace(age=1) == 0x0001_0005
    assert isinstance(host.T3(0).replace(age=25), host.T3)
    assert host.Evict(0x6).status is host.VictimStatus.FOUND
    assert repr(host.Timebase(7)) == "TIMEBASE 0x00000007 (TICK_SHIFT 0x7)"
    assert host.Query(0xBEEF_0026).fields() == {"START": 0, "DONE": 1, "TRACKED": 1, "TLEVEL": 2, "COUNT": 0xBEEF}
    with pytest.raises(TypeError, match="CTRL has no field 'enabled', only enable, flush"):
        host.Ctrl.of(enabled=1)
    with pytest.raises(ValueError, match=r"TIMEBASE.TICK_SHIFT must be 0 to 31, not 32"):
        host.Timebase.of(tick_shift=32)


def test_host_offsets_are_from_ctrl() -> None:
    offsets = {name: register.OFFSET for name, register in host.REGISTERS.items() if name in MAP}
    assert offsets == {name: offset for name, (offset, _) in MAP.items()}
    assert (host.Capability.OFFSET, host.Vsec.OFFSET) == (-8, -4)
    assert (host.MAGIC, host.MAJOR, host.MINOR) == (0x4B56, 1, 0)


def test_host_registers_load_at_once() -> None:
    """Under 10 ms of CPU from compiled code, and nothing but enum from the standard library."""
    program = (
        "import __future__, enum, sys, time, vrex\n"
        "before = set(sys.modules)\n"
        "start = time.process_time()\n"
        "import vrex.registers\n"
        "print(time.process_time() - start, *(set(sys.modules) - before))\n"
    )
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    outputs = [
        subprocess.run(
            [sys.executable, "-S", "-c", program],
            env={"PYTHONPATH": paths, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(4)
    ]
    assert {name for output in outputs for name in output[1:]} == {"vrex.registers"}
    assert min(float(output[0]) for output in outputs) < 0.010
