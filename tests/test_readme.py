"""The README's snippets run, and its commands are there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.M | re.S)


@pytest.mark.parametrize("snippet", blocks("python"))
def test_python_snippets_run(snippet: str) -> None:
    exec(compile(snippet, "README.md", "exec"), {})


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.mark.parametrize("command", [line for line in commands() if line.startswith(".venv/bin/")])
def test_commands_know_their_options(command: str) -> None:
    """Each names a program and options that exist: its help must list every option."""
    program, *words = shlex.split(command.removeprefix(".venv/bin/"))
    if program == "python":
        program, words = f"python -m {words[1]}", words[2:]
        start = [sys.executable, "-m", program.split()[-1]]
    else:
        start = [str(Path(sys.executable).parent / program)]
    subcommands = [word for word in words[:2] if re.fullmatch("[a-z]+", word) and not Path(ROOT / word).exists()]
    text = subprocess.run(
        [*start, *subcommands, "--help"], capture_output=True, text=True, check=True, env={"COLUMNS": "200"}
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
