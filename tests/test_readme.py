"""The README's snippets run, and its commands are there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
PAGES = {"README.md": README, "docs/timing.md": (ROOT / "docs" / "timing.md").read_text()}


def blocks(*languages: str, page: str = README) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.M | re.S)
    return [text for language, text in found if language in languages]


@pytest.mark.parametrize("snippet", blocks("python"))
def test_python_snippets_run(snippet: str) -> None:
    exec(compile(snippet, "README.md", "exec"), {})


def commands(page: str = README) -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh", "", page=page) for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_as_printed(page: str) -> None:
    """In the repository's folder, with nothing on PATH but what a machine has: also those inside a line."""
    for command in commands(PAGES[page]):
        assert re.match(r"(sudo )?(\.venv/bin/(kv-asu|vrex|python)|make) ", command), command
    assert not re.findall(r"(?<![\w/.])(?:python (?:-m|\S+\.py)|kv-asu timing).*", PAGES[page])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a clone has, and this environment as its .venv."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not in a clone")
    folder = tmp_path_factory.mktemp("fresh") / "clone"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return folder


#: Commands that a test of its own stands for, or that want what a test machine need not have.
LONG = {
    ".venv/bin/python -m kv_asu_sim.lockstep": "seconds for each stream: test_coverage.py plays them all",
    ".venv/bin/python -m kv_asu_sim.runner": "a simulator's build: test_cocotb_bench.py",
    ".venv/bin/vrex doctor --root": "a copy of a machine: test_doctor.py",
    ".venv/bin/vrex trace make": "a clip of one's own: test_trace_maker.py",
    ".venv/bin/python examples/traces/make_pictures.py": "the same clip: test_picture.py",
    ".venv/bin/python -m kv_asu_sim.demo --trace": "the trace made from it",
    ".venv/bin/python -m kv_asu_sim.demo --granule": "half a minute: test_demo.py",
}


def test_quick_commands_run_in_a_fresh_checkout(checkout: Path) -> None:
    """One after the other, as a reader types them: nothing may be missing that they do not make themselves."""
    paths = os.pathsep.join(str(checkout / name) for name in ("rtl", "sim", "firmware_model", "host_runtime"))
    ran = []
    for command in commands():
        if not command.startswith(".venv/bin/") or any(command.startswith(long) for long in LONG):
            continue
        done = subprocess.run(shlex.split(command), cwd=checkout, env={**os.environ, "PYTHONPATH": paths},
                              capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        ran.append(command)
    assert [command for command in ran if "-o build/kv_asu.sv" in command]
    assert (checkout / "build" / "kv_asu.sv").is_file()
    assert len(ran) >= 4
    assert all(any(command.startswith(long) for command in commands()) for long in LONG)


def test_the_chinese_page_is_level() -> None:
    """The same commands and Python, the same figures and links: only the words around them differ."""
    assert commands(CHINESE) == commands()
    code = [re.sub(r" *#.*", "", block) for block in blocks("python")]
    assert [re.sub(r" *#.*", "", block) for block in blocks("python", page=CHINESE)] == code
    assert CHINESE.count("\n## ") == README.count("\n## ")
    tables = [re.findall(r"^\|.*\|$", page, flags=re.M) for page in (README, CHINESE)]
    assert len(tables[0]) == len(tables[1])
    for english, chinese in zip(*tables, strict=True):
        for cell, other in zip(english.split("|"), chinese.split("|"), strict=True):
            assert re.findall(r"`[^`]*`", cell) == re.findall(r"`[^`]*`", other)
            assert sorted(re.findall(r"\d[\d,.]*\d|\d", cell)) == sorted(re.findall(r"\d[\d,.]*\d|\d", other)), other
    links = [
        set(re.findall(r"\]\((docs/[^)]+|examples/[^)]+|firmware_model/[^)]+)\)", page)) for page in (README, CHINESE)
    ]
    assert {link.replace(".zh-CN", "") for link in links[1]} == links[0]


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith(".venv/bin/")])
def test_commands_know_their_options(command: str) -> None:
    """Each names a program and options that exist: its help must list every option."""
    program, *words = shlex.split(command.removeprefix(".venv/bin/"))
    if program == "python":
        named = words[:2] if words[0] == "-m" else words[:1]
        program, words = f"python {' '.join(named)}", words[len(named) :]
        start = [sys.executable, *named]
    else:
        start = [str(Path(sys.executable).parent / program)]
    subcommands = [word for word in words[:2] if re.fullmatch("[a-z]+", word) and not Path(ROOT / word).exists()]
    text = subprocess.run(
        [*start, *subcommands, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    for option in (word for word in words if word.startswith("-")):
        assert option in text, f"{command}: {option} is not an option of {program} {' '.join(subcommands)}"


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith("make ")])
def test_make_targets_exist(command: str) -> None:
    target = command.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.M)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
