"""`make release`: the same bytes each time, whole, and FuseSoC takes it."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from kv_asu.lint import _verilator
from kv_asu.params import Params

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """tools/release.py, with builds that are quick to write."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = {"log2_entries": 3, "window": 2}
    module.PROFILES = {"asic": lambda: Params.asic(**small), "fpga": lambda: Params.fpga(**small)}  # type: ignore[attr-defined]
    module.gateware = functools.cache(module.gateware)  # type: ignore[attr-defined]
    return module


@pytest.fixture(scope="module")
def archive(release: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    packed = release.pack(tmp_path_factory.mktemp("dist"))
    assert isinstance(packed, Path)
    return packed


def test_what_is_in_it(release: ModuleType, archive: Path) -> None:
    with tarfile.open(archive) as tar:
        files = {entry.name for entry in tar if entry.isfile()}
        assert {(entry.uid, entry.uname, entry.mtime) for entry in tar} == {(0, "", 0)}
    tops = {"": "kv_asu", "_function": "kv_asu", "_axi": "kv_asu_axi", "_cdc": "kv_asu_cdc"}
    builds = [f"rtl/{profile}{what}/{name}" for profile in ("asic", "fpga") for what, name in tops.items()]
    expected = {f"{build}{end}" for build in builds for end in (".sv", ".json", "_assertions.sv")}
    expected |= {f"{build}{end}" for build in builds if build.endswith("_cdc") for end in (".sdc", ".xdc")}
    expected |= {str(Path(place, Path(source).name)) for source, place in release.COPIED.items()}
    expected |= {"README.md", "kv_asu.core", "SHA256SUMS"}
    assert files == {f"{release.NAME}/{name}" for name in expected}


def test_its_sums(release: ModuleType, archive: Path) -> None:
    folder = archive.parent / release.NAME
    sums = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert sorted(name for _, name in sums) == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS"
    )
    for digest, name in sums:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_the_same_bytes_again(release: ModuleType, archive: Path, tmp_path: Path) -> None:
    assert release.pack(tmp_path).read_bytes() == archive.read_bytes()


def test_its_page_names_every_folder_and_says_which_version(release: ModuleType, archive: Path) -> None:
    folder = archive.parent / release.NAME
    page = (folder / "README.md").read_text()
    tops = {str(path.parent.relative_to(folder)) for path in folder.glob("rtl/*/*.sv")}
    named = set(re.findall(r"`([a-z_/]+)`", page))
    assert tops | {path.name for path in folder.iterdir() if path.is_dir() and path.name != "rtl"} <= named
    assert f"KV-ASU {release.__version__}" in page
    assert f"What is new in {release.__version__}" in page
    assert (folder / "docs" / "integration.md").is_file()


def test_nothing_of_this_machine(release: ModuleType, archive: Path) -> None:
    for path in (archive.parent / release.NAME).rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert str(ROOT) not in text
            assert str(Path.home()) not in text or Path.home() == Path("/")


@pytest.mark.skipif(importlib.util.find_spec("fusesoc") is None, reason="fusesoc is not installed")
def test_fusesoc_lints_it(release: ModuleType, archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "core"
    shutil.copytree(archive.parent / release.NAME, folder)
    command, environment = _verilator()
    (tmp_path / "verilator").write_text(f'#!/bin/sh\nexec {" ".join(map(str, command))} "$@"\n')
    (tmp_path / "verilator").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "fusesoc.main", "--cores-root", ".", "run", "--target=lint", "v-rex:memory:kv_asu"],
        cwd=folder, env={**environment, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout
