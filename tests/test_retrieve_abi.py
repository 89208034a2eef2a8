"""The struct of NV_KV_RETRIEVE: as specified, as the C and C++ compilers see it, and as Linux encodes its request."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kv_asu_firmware import retrieve_abi
from kv_asu_firmware.retrieve_abi import (
    HEADER_FILE,
    NO_PATCH,
    NV_KV_RETRIEVE,
    RETRIEVE,
    VERSION,
    Flag,
    Kind,
    Status,
    iowr,
    main,
    new_buffer,
    read_reply,
)

#: The specification's list, once more: offset and bytes.
LAYOUT = {
    "version": (0, 4),
    "size": (4, 4),
    "stream": (8, 4),
    "layer": (12, 2),
    "head": (14, 2),
    "first_token": (16, 4),
    "token_count": (20, 4),
    "kind": (24, 1),
    "min_tlevel": (25, 1),
    "flags": (26, 2),
    "frame": (28, 4),
    "patch_row": (32, 2),
    "patch_column": (34, 2),
    "lines": (36, 4),
    "hits": (40, 4),
    "queued": (44, 4),
    "device_time_ns": (48, 8),
    "reserved": (56, 16),
}


def test_the_struct_is_the_specified_one() -> None:
    assert RETRIEVE.fields is not None
    assert {name: (where[1], where[0].itemsize) for name, where in RETRIEVE.fields.items()} == LAYOUT
    assert RETRIEVE.itemsize == 72
    for name, (offset, size) in LAYOUT.items():
        assert offset % min(size, 8) == 0, f"{name} is not naturally aligned"
    assert (VERSION, [*Kind], [*Flag]) == (1, [1, 2, 3], [1, 2, 4])
    assert {name: bits.value for name, bits in Status.__members__.items()} == {
        "TLEVEL": 0b11,
        "RESIDENT": 1 << 2,
        "QUEUED": 1 << 3,
        "TRACKED": 1 << 4,
    }


def test_fields_are_little_endian_on_every_host() -> None:
    buffer = new_buffer(lines=2, layer=0x0102, first_token=0x0A0B0C0D)
    assert buffer[:8] == bytes([1, 0, 0, 0, 74, 0, 0, 0])
    assert buffer[12:14] == b"\x02\x01"
    assert buffer[16:20] == b"\x0d\x0c\x0b\x0a"
    assert buffer[24] == Kind.BOTH
    assert len(buffer) == 74


def test_the_request_code_is_the_one_linux_makes() -> None:
    # Direction 3 (both) in bits 31-30, size in 29-16, type in 15-8, number in 7-0.
    assert NV_KV_RETRIEVE == 0b11 << 30 | 72 << 16 | 0x4B << 8 | 1 == 0xC0484B01
    assert iowr("T", 0x2A, 4) == 0xC004542A


@pytest.mark.parametrize(("fields", "message"), [({"lair": 1}, "'lair'"), ({"layer": 65536}, "0 to 65535, not 65536")])
def test_a_buffer_with_a_wrong_field_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_buffer(lines=1, **fields)


def test_a_reply_is_read_back() -> None:
    buffer = new_buffer(lines=3, frame=7)
    np.frombuffer(buffer, RETRIEVE, count=1)["lines"] = 2
    buffer[72:74] = b"\x05\x18"
    struct, status = read_reply(buffer)
    assert struct["frame"] == 7
    assert status.tolist() == [Status.RESIDENT | 1, Status.QUEUED | Status.TRACKED]


def test_doctest() -> None:
    assert doctest.testmod(retrieve_abi).failed == 0


def test_the_committed_header_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err
    copy = tmp_path / HEADER_FILE.name
    monkeypatch.setattr(retrieve_abi, "HEADER_FILE", copy)
    assert main(["--check"]) == 1
    assert "is stale" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0
    copy.write_text(copy.read_text().replace("uint32_t stream", "uint64_t stream"))
    assert main(["--check"]) == 1
    monkeypatch.setattr(retrieve_abi, "HEADER_FILE", tmp_path / "absent" / copy.name)
    assert main([]) == 1
    assert "checkout" in capsys.readouterr().err


# The same struct through a compiler

C = ("gcc", "cc", "clang"), "c11", "c"
CXX = ("g++", "c++", "clang++"), "c++11", "c++"
COMPILER_FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(HEADER_FILE.parent)]


def compiler(names: tuple[str, ...]) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(names)} is on PATH")
    return found


def program() -> str:
    """Prints every offset and size, the request code and the constants, one a line."""
    numbers = [f"offsetof(struct kv_retrieve, {name})" for name in LAYOUT]
    numbers += [f"sizeof(((struct kv_retrieve *)0)->{name})" for name in LAYOUT]
    numbers += ["sizeof(struct kv_retrieve)", "(size_t)(kv_retrieve_status(&request) - (uint8_t *)&request)"]
    numbers += ["NV_KV_RETRIEVE", "KV_RETRIEVE_VERSION", "KV_RETRIEVE_NO_PATCH"]
    numbers += [f"KV_RETRIEVE_{name}" for name in (*Kind.__members__, *Flag.__members__)]
    numbers += [f"KV_RETRIEVE_STATUS_{name}" for name in Status.__members__]
    if sys.platform == "linux":
        numbers += ["_IOWR('K', 1, struct kv_retrieve)"]
    prints = "\n".join(f'    printf("%lu\\n", (unsigned long)({number}));' for number in numbers)
    include = "#include <sys/ioctl.h>\n" if sys.platform == "linux" else ""
    return (
        f'#include "{HEADER_FILE.name}"\n#include "{HEADER_FILE.name}"\n#include <stdio.h>\n{include}'
        f"int main(void)\n{{\n    struct kv_retrieve request;\n{prints}\n    return 0;\n}}\n"
    )


@pytest.mark.parametrize(("names", "standard", "language"), [C, CXX], ids=["c", "c++"])
def test_compiled_the_header_agrees_with_python(
    names: tuple[str, ...], standard: str, language: str, tmp_path: Path
) -> None:
    source, binary = tmp_path / "layout.txt", tmp_path / "layout"
    source.write_text(program())
    command = [compiler(names), f"-std={standard}", *COMPILER_FLAGS, "-x", language, str(source), "-o", str(binary)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    printed = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout.split()

    assert RETRIEVE.fields is not None
    expected = [RETRIEVE.fields[name][1] for name in LAYOUT]
    expected += [RETRIEVE[name].itemsize for name in LAYOUT]
    expected += [72, 72, NV_KV_RETRIEVE, VERSION, NO_PATCH, *Kind, *Flag, *Status.__members__.values()]
    if sys.platform == "linux":
        expected += [NV_KV_RETRIEVE]
    assert list(map(int, printed)) == expected


@pytest.mark.parametrize(("names", "standard", "language"), [C, CXX], ids=["c", "c++"])
def test_the_header_itself_notices_a_field_out_of_place(
    names: tuple[str, ...], standard: str, language: str, tmp_path: Path
) -> None:
    source = tmp_path / HEADER_FILE.name
    source.write_text(HEADER_FILE.read_text().replace("uint16_t layer", "uint32_t layer"))
    command = [compiler(names), f"-std={standard}", "-fsyntax-only", "-x", language, str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode != 0
    assert "offsetof(struct kv_retrieve, head) == 14" in built.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_page_compiles(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "driver.md").read_text()
    program = tmp_path / "page.c"
    program.write_text(page.split("```c\n")[1].split("```")[0])
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{HEADER_FILE.parent}"]
    command = ["cc", *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
