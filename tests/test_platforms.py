"""Platform files: what comes along is right and agrees with the models; what is wrong in a user's own is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vrex.platforms
from kv_asu.params import Params
from kv_asu_sim.machine import ORIN_NX_NVME
from vrex.platforms import NAMES, PlatformError, load_platform, pci_address, read_platform, recognised, version
from vrex.trace.timing import ORIN_NX

FOLDER = Path(vrex.platforms.__file__).parent
TEXT = (FOLDER / "orin-nx.toml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_each_platform_loads(name: str) -> None:
    platform = load_platform(name)
    assert platform.name == name
    assert platform.pci.config_base == Params().config_base
    assert platform.boot.variable == "gmc_kvasu"
    assert platform.boot.parameter == "gmc.kvasu"
    for tier in (platform.cache, platform.near, platform.far):
        assert tier.source
    assert load_platform(str(FOLDER / f"{name}.toml")).near == platform.near


def test_no_file_is_left_out() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(NAMES)


def test_orin_nx_agrees_with_the_models() -> None:
    platform = load_platform("orin-nx")
    assert platform.name == ORIN_NX.name
    assert platform.near.bytes_per_second == ORIN_NX.bytes_per_second == ORIN_NX_NVME.near_bytes_per_second
    assert platform.compute.operations_per_second == ORIN_NX.flops_per_second
    far = (ORIN_NX_NVME.far_bytes_per_second, ORIN_NX_NVME.far_latency_ns, ORIN_NX_NVME.far_block_bytes)
    assert (platform.far.bytes_per_second, platform.far.latency_ns, platform.far.block_bytes) == far


def test_what_applies_to_which_board() -> None:
    orin_nx, ascend = load_platform("orin-nx").environment, load_platform("ascend-310b").environment
    assert None not in vars(orin_nx).values()
    assert vars(load_platform("agx-orin").environment) == vars(orin_nx)
    applies = {name for name, value in vars(ascend).items() if value is not None}
    assert applies == {"cpus", "interrupt", "camera"}


def test_not_stated_is_none() -> None:
    assert load_platform("ascend-310b").near.bytes_per_second is None
    assert load_platform("orin-nx").near.latency_ns is None


def test_boards_are_recognised_by_one_file_only() -> None:
    entries = [entry for name in NAMES for entry in load_platform(name).compatible]
    assert len(set(entries)) == len(entries)
    assert recognised(["nvidia,p3701-0005", "nvidia,tegra234", ""]) == "agx-orin"
    assert recognised(["somebody,else"]) == "orin-nx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "NVIDIA Jetson Orin NX, 8 GB class"', "", "title must be a line of text, but it is missing"),
        ('title = "', 'title = "\\n', "title must be a line of text, not '\\nNVIDIA"),
        ("compatible = [", "compatible = [1, ", "compatible must be a list of texts, not [1,"),
        (
            "bytes_per_second = 102_400_000_000",
            "bytes_per_second = 0",
            'memory.near.bytes_per_second must be a positive number, or "not stated", not 0',
        ),
        (
            "bytes_per_second = 102_400_000_000",
            'bytes_per_second = "unknown"',
            "memory.near.bytes_per_second must be a positive number, or \"not stated\", not 'unknown'",
        ),
        (
            "bytes_per_second = 102_400_000_000",
            "bytes_per_second = true",
            "memory.near.bytes_per_second must be a positive number",
        ),
        ("latency_ns", "latency_us", "memory.far.latency_us is unknown; here belong block_bytes, bytes_per_second, "),
        ("[compute]", "[computer]", "compute must be a table, but it is missing"),
        ("[memory.cache]", "[memory.caches]", "memory.cache must be a table, but it is missing"),
        ("[memory.near]", "[memory.more]\n[memory.near]", "memory.more is unknown; here belong cache, far, near"),
        ('"0000:00:02.0"', '"2"', "pci.device must be a PCI address like \"0000:00:02.0\", not '2'"),
        ('"0000:00:02.0"', "2", 'pci.device must be a PCI address like "0000:00:02.0", not 2'),
        ("0x7F8", "0x7F9", "pci.config_base must be a number from 256 to 3968 in steps of 4, not 2041"),
        ("0x7F8", "0xFF8", "pci.config_base must be a number from 256 to 3968 in steps of 4, not 4088"),
        ('"gmc_kvasu"', '"gmc kvasu"', "boot.variable must be a name without spaces, not 'gmc kvasu'"),
        ('"/boot/ext', '"boot/ext', "boot.extlinux must be an absolute path, not 'boot/extlinux/extlinux.conf'"),
        ('"/boot/ext', '"/../boot/ext', "boot.extlinux must be an absolute path"),
        ('"32.7.3"', "32.7", 'environment.boot_loader.minimum must be a version like "36.3", not 32.7'),
        ('"32.7.3"', '"r32"', "environment.boot_loader.minimum must be a version like \"36.3\", not 'r32'"),
        ("mode = 0", "mode = -1", "environment.power_mode.mode must be a number from 0 to 99, not -1"),
        ("[environment.gpu]", "[environment.npu]", "environment.npu is unknown; here belong boot_loader, camera, cpus"),
        ("max_freq_hz = 1_000_000_000", "", "environment.gpu.max_freq_hz must be a number from 1 to"),
        ("isolated = [2, 3]", "isolated = [3, 2]", "cpus.isolated must be a list of CPU numbers in ascending order"),
        ("isolated = [2, 3]", "isolated = []", "cpus.isolated must be a list of CPU numbers in ascending order"),
        ("isolated = [2, 3]", "isolated = [true]", "cpus.isolated must be a list of CPU numbers in ascending order"),
        ("cpu = 2", "cpu = 2.0", "environment.interrupt.cpu must be a number from 0 to 8191, not 2.0"),
        (
            'names = ["*kvasu*dma*", "*gmc*dma*", "*kvasu*"]',
            "names = []",
            "interrupt.names must be a list of one pattern",
        ),
        ("width = 1920", "", "environment.camera.width must be a number from 1 to 65535, but it is missing"),
        ("title", "= title", "not a TOML file: Invalid statement (at line 5, column 1)"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(PlatformError, match=f"^own.toml: .*{re.escape(message)}") as error:
        read_platform(TEXT.replace(old, new, 1), "own", "own.toml")
    assert "\n" not in str(error.value)


def test_every_key_is_needed_or_its_absence_means_something() -> None:
    """A line left out is an error, unless the field may be absent."""
    optional = {"latency_ns", "block_bytes", "extlinux"}
    lines = TEXT.splitlines()
    for number, line in enumerate(lines):
        key = line.partition(" = ")[0]
        if not re.fullmatch(r"\w+", key) or line.endswith("["):
            continue
        text = "\n".join(lines[:number] + lines[number + 1 :])
        if key in optional:
            read_platform(text, "own", "own.toml")
        else:
            with pytest.raises(PlatformError, match=rf"^own.toml: [\w.]*{key} must be .*, but it is missing$"):
                read_platform(text, "own", "own.toml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toaster", "'toaster' is not a platform; choose orin-nx, agx-orin, ascend-310b, or give the path"),
        ("none.toml", "none.toml: cannot be read"),
        ("./", "./: cannot be read"),
        ("binary.toml", "binary.toml: not a TOML file: it is not UTF-8 text"),
    ],
)
def test_files_that_are_none(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PlatformError, match=re.escape(message)):
        load_platform(name)


@given(st.integers(0, len(TEXT)), st.text(max_size=6))
def test_any_text_is_read_or_refused_in_one_line(position: int, noise: str) -> None:
    try:
        read_platform(TEXT[:position] + noise + TEXT[position + len(noise) :], "own", "own.toml")
    except PlatformError as error:
        refusal = str(error)
    else:
        return
    assert refusal.startswith("own.toml: ")
    assert "\n" not in refusal


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(PlatformError, match=r"^own.toml: not a"):
        read_platform("a = " + "[" * 100_000, "own", "own.toml")


@pytest.mark.parametrize(
    ("text", "full"),
    [("00:02.0", "0000:00:02.0"), ("0004:01:1f.7", "0004:01:1f.7"), ("00:0A.0", "0000:00:0a.0")],
)
def test_pci_addresses(text: str, full: str) -> None:
    assert pci_address(text) == full


@pytest.mark.parametrize(
    "text", ["", "2", "00:02", "00:20.0", "00:02.8", "0:02.0", "00:02.0 ", "/00:02.0", "00:02.0\n"]
)
def test_what_is_no_pci_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not a PCI address"):
        pci_address(text)


def test_versions_compare_as_numbers() -> None:
    assert version("36.10") > version("36.3") == version("36.3.0") > version("32.7.4") > version("32.7.3")
    for text in ("", "36.", "R36", "36.3-x", "3" * 20):
        with pytest.raises(ValueError, match="is not a version"):
            version(text)
