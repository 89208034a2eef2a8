"""The pages on doctor and troubleshooting, in both languages: commands, registers and output are as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from healthy_machine import COMMAND_LINE, EXTLINUX, Machine
from kv_asu.cli import main as kv_asu_main
from vrex.cli import main
from vrex.doctor.examination import examine
from vrex.doctor.tree import Tree
from vrex.platforms import load_platform
from vrex.registers import REGISTERS, Counter

ROOT = Path(__file__).parents[1]
DOCTOR, ENGLISH, CHINESE = (
    (ROOT / "docs" / name).read_text() for name in ("doctor.md", "troubleshooting.md", "troubleshooting.zh-CN.md")
)
README, README_CHINESE = ((ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md"))
PAGES = {"doctor": DOCTOR, "English": ENGLISH, "Chinese": CHINESE, "README": README_CHINESE}


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a language, also those inside lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page, flags=re.M | re.S)
    return [re.sub(rf"^{indent}", "", text, flags=re.M) for indent, text in found]


def commands(page: str) -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


def ours() -> list[str]:
    lines = [line for page in PAGES.values() for line in commands(page)]
    lines += [code for page in (ENGLISH, CHINESE) for code in re.findall(r"`([^`\n]*vrex [a-z]+ [^`\n]*)`", page)]
    words = [line.removeprefix("sudo ") for line in lines]
    return sorted({line.removeprefix(".venv/bin/") for line in words if line.startswith((".venv/bin/", "vrex "))})


@pytest.mark.parametrize("command", ours())
def test_commands_know_their_options(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names a program, a sub-command and options that exist."""
    monkeypatch.setenv("COLUMNS", "200")
    program, *words = shlex.split(command)
    if program == "python":
        named = words[:2] if words[0] == "-m" else words[:1]
        start = [sys.executable, *named, "--help"]
        text = subprocess.run(start, capture_output=True, text=True, check=True, cwd=ROOT).stdout
        words = words[len(named) :]
    else:
        main_of = {"vrex": main, "kv-asu": kv_asu_main}[program]
        subcommands = [word for word in words[:2] if re.fullmatch("[a-z]+", word)]
        code = main_of([*subcommands, "--help"])
        shown = capsys.readouterr()
        if "No such command 'regs'" in shown.err:
            pytest.skip("this vrex has no regs command")
        assert code == 0, shown.err
        text = shown.out
    for option in (word for word in words if word.startswith("-")):
        assert option in text


def test_doctors_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Machine().write(tmp_path / "customer")
    Path("my-board.toml").write_text((ROOT / "host_runtime/vrex/platforms/agx-orin.toml").read_text())
    lines = [line for line in ours() if line.startswith("vrex doctor")]
    assert len(lines) >= 5
    for line in lines:
        at_another_address = "--device" in line
        expected = {0} if "customer" in line and not at_another_address else {0, 1}
        assert main(shlex.split(line)[1:]) in expected, line


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_the_example_is_what_doctor_prints(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()
    without = COMMAND_LINE.replace(" gmc.kvasu=1", "").encode()
    machine.files["proc/cmdline"] = machine.files["sys/firmware/devicetree/base/chosen/bootargs"] = without
    machine.files["boot/extlinux/extlinux.conf"] = EXTLINUX.replace(" gmc.kvasu=1", "").encode()
    machine.write(tmp_path / "customer")
    (example,) = blocks(page, "text")
    command, *lines = example.splitlines()
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[2:]) == 1
    out = capsys.readouterr().out
    assert "\n".join(lines[:-1]) in out
    assert f"\n{lines[-1]}\n" in out


def test_making_a_copy_works(tmp_path: Path) -> None:
    """The copy of this machine tells what this machine tells, as far as the two can be compared."""
    (script,) = [block for block in blocks(DOCTOR, "sh") if "cp --parents" in block]
    program = f'sudo() {{ "$@"; }}\n{script}'
    subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, check=False)
    platform = load_platform("orin-nx")
    here, copy = (examine(Tree(root), platform) for root in (Path("/"), tmp_path / "customer"))
    compared = ("kernel-command-line", "isolated-cpus", "dma-interrupt", "pci-device")
    for one, other in zip(here.checks, copy.checks, strict=True):
        if one.id in compared:
            assert (one.state, one.saw, one.source) == (other.state, other.saw, other.source)


def test_both_languages_say_the_same() -> None:
    assert commands(ENGLISH) == commands(CHINESE)
    for pattern in (r"^#+ ", r"^\d\. ", r"^```"):
        assert len(re.findall(pattern, ENGLISH, re.M)) == len(re.findall(pattern, CHINESE, re.M))
    code = r"`([^`\n]+)`"
    assert set(re.findall(code, ENGLISH)) - set(re.findall(code, CHINESE)) == set()


def test_the_chinese_quick_start_follows_the_readme() -> None:
    assert set(commands(README_CHINESE)) <= set(commands(README))
    assert commands(README_CHINESE)[:2] == commands(README)[:2]

    def code(block: str) -> list[str]:
        return [line.split("#")[0].rstrip() for line in block.splitlines()]

    assert list(map(code, blocks(README_CHINESE, "python"))) == list(map(code, blocks(README, "python")))


def test_registers_and_counters_exist() -> None:
    for page in (ENGLISH, CHINESE):
        named = re.findall(r"\b([A-Z][A-Z0-9_]+)\.([A-Z][A-Z0-9_]+)\b", page)
        assert len(named) > 8
        for register, field in named:
            assert field.lower() in REGISTERS[register].FIELDS, f"{register}.{field}"
        for list_of_names in re.findall(r"regs get ([A-Z_0-9 ]+) --", page):
            assert set(list_of_names.split()) <= REGISTERS.keys()
        counters = {counter.name.lower() for counter in Counter}
        for name in ("requests", "hits", "level0", "rescues", "untracked", "spills", "cycles"):
            assert name in counters
            assert name in page


@pytest.mark.parametrize(
    "name", ["docs/doctor.md", "docs/troubleshooting.md", "docs/troubleshooting.zh-CN.md", "README.zh-CN.md"]
)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_table_of_places_names_every_check(tmp_path: Path) -> None:
    report = examine(Tree(Machine().write(tmp_path)), load_platform("orin-nx"))
    table = DOCTOR[DOCTOR.index("## Where it looks") : DOCTOR.index("## Making a copy")]
    for check in report.checks:
        assert f"`{check.id}`" in table
