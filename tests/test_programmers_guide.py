"""The programmer's guide: its Python, its commands and its C program run, against a device model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu_firmware.device import Device
from served_config import serve, tree
from vrex.cli import main
from vrex.registers import REGISTERS, Counter
from vrex.session.format import SessionReader

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "programmers_guide.md").read_text()
DEVICE = "00:02.0"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, flags=re.M | re.S)


def commands(program: str) -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith(program + " ")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_runs_and_what_it_records_replays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile("\n".join(blocks("python")), "programmers_guide.md", "exec"), {})
    with SessionReader(place / "run.parquet") as reader:
        assert reader.metadata.commands == 100
    (command,) = commands("vrex replay")
    assert main(shlex.split(command)[1:]) == 0
    assert "run.parquet: equal over" in capsys.readouterr().out


def test_regs_commands_run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them in order, on one device."""
    params = Params()
    device = Device(params)
    serve(monkeypatch, tree(place / "mnt", params), device)
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    lines = commands("vrex regs")
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        if "--device" in words:
            words += ["--root", "mnt"]
        if words[:2] == ["regs", "get"]:
            device.idle(params.rows + 16)
        assert main(words) == 0, capsys.readouterr().err
    assert naps == [0.5] * 10
    assert device.model.golden.settings.t3_count == 4
    shown = capsys.readouterr().out
    assert "STATUS 0x00000009: ACTIVE 1, BUSY 0" in shown
    assert "CTRL.DECAY 1 (HALVE)" in shown


def test_vrex_commands_know_their_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for line in commands("vrex"):
        words = shlex.split(line)[1:]
        code = main([*words[: 2 if words[0] == "regs" else 1], "--help"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.out


def test_setpci_addresses_are_the_registers() -> None:
    """Each command's comment names the registers at its places in the capability, wherever that is."""
    offsets = {8 + register.OFFSET: name for name, register in REGISTERS.items()}
    lines = re.findall(r"^setpci (.*)$", GUIDE, flags=re.M)
    assert len(lines) >= 8
    for line in lines:
        command, comment = line.split("#")
        assert "-A linux-sysfs -O sysfs.path=mnt -s 00:02.0" in command
        named = [offsets[int(address, 16)] for address in re.findall(r"\bECAP_VNDR\+(\w+)\.l", command)]
        assert len(named) == command.count(".l")
        assert named == [word for word in re.findall(r"\w+", comment) if word in REGISTERS]
    assert "ECAP_VNDR+20.l=00140004" in GUIDE
    assert int(REGISTERS["T3"].of(count=4, age=20)) == 0x00140004
    assert f"INDEX {int(Counter.HITS)}, hits" in GUIDE


#: Between a program and its config file: what it reads and writes goes over a socket to whoever stands for the device.
SHIM = """
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct access { uint32_t write, offset, size, value; };

static ssize_t ask(uint32_t write, void *buffer, size_t size, off_t offset)
{
    struct access access = {write, offset, size, write ? *(uint32_t *)buffer : 0};
    int device = atoi(getenv("CONFIG_SOCKET"));
    if (send(device, &access, sizeof access, 0) != sizeof access ||
        recv(device, &access, sizeof access, MSG_WAITALL) != sizeof access)
        return -1;
    if (!write)
        *(uint32_t *)buffer = access.value;
    return size;
}

ssize_t pread(int file, void *data, size_t size, off_t offset) { return ask(0, data, size, offset); }
ssize_t pread64(int file, void *data, size_t size, off_t offset) { return ask(0, data, size, offset); }
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) { return ask(1, (void *)data, size, offset); }
ssize_t pwrite64(int file, const void *data, size_t size, off_t offset) { return ask(1, (void *)data, size, offset); }
"""


def build(place: Path) -> None:
    """Compile the guide's program with the guide's command."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    (program,) = blocks("c")
    (place / "kv_asu.c").write_text(program)
    (place / "firmware_model").symlink_to(ROOT / "firmware_model")
    (command,) = commands("cc")
    subprocess.run([*shlex.split(command), "-Werror"], cwd=place, check=True, capture_output=True)


def run(place: Path, device: Device) -> str:
    """Run the program with a device model behind its config file."""
    (place / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "shim.c", "-o", "shim.so"], cwd=place, check=True)
    (place / "config").touch()
    ours, theirs = socket.socketpair()

    def answer() -> None:
        while access := ours.recv(16):
            write, offset, size, value = struct.unpack("<4I", access)
            if write:
                device.write(offset, value, size)
            else:
                value = device.read(offset, size)
            ours.sendall(struct.pack("<4I", write, offset, size, value))

    with ours:
        thread = threading.Thread(target=answer)
        thread.start()
        with theirs:
            environment = {"LD_PRELOAD": str(place / "shim.so"), "CONFIG_SOCKET": str(theirs.fileno())}
            done = subprocess.run(
                ["./kv_asu", "config"],
                cwd=place,
                env={**os.environ, **environment},
                pass_fds=[theirs.fileno()],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        thread.join()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_c_program_works_on_a_device(place: Path) -> None:
    build(place)
    params = Params(log2_entries=4, window=2, config_base=0x400)
    device = Device(params)
    device.write(params.config_base + 8, 1, 4)
    device.idle(40)
    device.observe(np.array([0x8000_0000_0100, 0x200, 0x8000_0000_0100], np.uint64))
    device.idle(600)
    assert run(place, device).splitlines() == ["requests 3", "hits 1", "cold 0x200", "cold 0x800000000100"]
    assert device.model.golden.settings.t3_count == 4
    assert device.model.golden.settings.t3_age == 20
    assert run(place, Device(params)).splitlines() == ["requests 0", "hits 0"], "it enables the core itself"


def test_the_c_program_on_no_device(place: Path) -> None:
    """A plain file, as it stands: the right errors, and an end."""
    build(place)

    def told(config: bytes) -> tuple[int, str, bytes]:
        path = place / "image"
        path.write_bytes(config)
        done = subprocess.run(["./kv_asu", "image"], cwd=place, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr, path.read_bytes()

    assert told(bytes(0x1000))[:2] == (1, "no KV-ASU of this register map\n")
    assert told(b"\xff" * 0x1000)[:2] == (1, "no KV-ASU of this register map\n")
    assert told(b"")[0] == 1
    device = Device(Params())
    image = b"".join(device.read(offset, 4).to_bytes(4, "little") for offset in range(0, 0x1000, 4))
    code, error, after = told(image)
    assert (code, error) == (1, "the core does not answer\n")
    assert after[0x800] == 1
    assert after[0x818:0x81C] == bytes.fromhex("04001400")


def test_registers_exist() -> None:
    named = re.findall(r"\b([A-Z][A-Z0-9_]+)\.([A-Z][A-Z0-9_]+)\b", GUIDE)
    assert len(named) > 20
    for register, field in named:
        assert field.lower() in REGISTERS[register].FIELDS, f"{register}.{field}"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)\)", GUIDE))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
