"""A device served by `vrex mount` in a process of its own, and the programs that look at it from others.

Every wait is bounded, so that a mount that hangs is a failure and no standstill.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: Seconds for what takes a fraction of one on an idle machine.
PATIENCE = 60

SMALL = ("--log2-entries", "4", "--window", "2")

_PROBE = """
import os, sys, mfusepy
class Nothing(mfusepy.Operations):
    use_ns = True
    def init(self, path): os._exit(0)
mfusepy.FUSE(Nothing(), sys.argv[1], foreground=True, nothreads=True, auto_unmount=True)
"""


@cache
def no_fuse() -> str:
    """Why FUSE cannot be had on this machine, found out without the command under test; empty where it can."""
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed"
    if shutil.which("fusermount3") is None:
        return "fuse3 is not installed"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _PROBE, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        # fusermount takes it away by itself, in its own time.
        subprocess.run(["fusermount3", "-u", "-z", folder], capture_output=True, timeout=PATIENCE, check=False)
    return "" if done.returncode == 0 else f"no FUSE here: {(done.stderr.strip() or 'no reason').splitlines()[0]}"


def skip_without_fuse() -> None:
    if reason := no_fuse():
        pytest.skip(reason)


def start(folder: Path, *options: object) -> subprocess.Popen[str]:
    """A server, ready or not yet."""
    command = [sys.executable, "-m", "vrex", "mount", "--json", *map(str, options), str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, process_group=0
    )


def wait_until_ready(server: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says that it serves."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], 10 * PATIENCE)  # a build may have to be compiled
    assert ready, "the server does not get ready"
    line = server.stdout.readline()
    if not line:
        raise AssertionError(f"the server ended with {server.wait(PATIENCE)}: {server.communicate()[1]}")
    record: dict[str, Any] = json.loads(line)
    return record


def stop(server: subprocess.Popen[str], folder: Path) -> None:
    """End it whatever state it is in, and leave nothing mounted."""
    server.terminate()
    try:
        server.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate(timeout=PATIENCE)
        raise
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(folder)], capture_output=True, timeout=PATIENCE, check=False)


@contextmanager
def mounted(folder: Path, *options: object) -> Iterator[dict[str, Any]]:
    """A device in a folder while the block runs; what the server says of it. Skips where there is no FUSE."""
    skip_without_fuse()
    server = start(folder, *options)
    try:
        yield wait_until_ready(server)
    finally:
        stop(server, folder)


def pciutils(program: str, folder: Path, *arguments: str) -> str:
    """What lspci or setpci prints for the device."""
    command = [program, "-A", "linux-sysfs", "-O", f"sysfs.path={folder}", "-s", "00:02.0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    # Where no kernel modules are installed, lspci cannot name drivers.
    assert [line for line in done.stderr.splitlines() if "libkmod" not in line] == []
    return done.stdout


def lspci(folder: Path, *arguments: str) -> str:
    return pciutils("lspci", folder, *arguments)


def setpci(folder: Path, *arguments: str) -> list[str]:
    """The lines it prints, one for each register read."""
    return pciutils("setpci", folder, *arguments).split()
