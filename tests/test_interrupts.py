"""Ctrl-C at any moment of a command: one line, exit code 130, and what was half made says nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from test_installing import main_modules

ROOT = Path(__file__).parents[1]

#: Modules as `kv_asu.interrupts.start` takes them, each of which interrupts itself.
MOMENTS = {
    "while it is imported": "interrupt()",
    "before there is anything to clean up": "def main():\n    interrupt()",
    "after its end": "import atexit\natexit.register(interrupt)\ndef main():\n    return 0",
    "in a destructor": """
class Dropped:
    def __del__(self):
        interrupt()
def main():
    Dropped()
    print("it went on")
    return 0
""",
    "in a command with typer": """
import typer
from kv_asu import typer_command
app = typer.Typer()
app.command()(interrupt)
def main():
    return typer_command.run(app, "some", [])
""",
    "in the middle of a design": """
from amaranth.hdl import Elaboratable, Fragment
from kv_asu.command_line import ending
class Part(Elaboratable):
    def elaborate(self, platform):
        return len([Part(), interrupt()])
def main():
    return ending("some", lambda: Fragment.get(Part(), None))
""",
}


def run(folder: Path, module: str) -> subprocess.CompletedProcess[str]:
    text = f"import os, signal\ndef interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n{module}\n"
    (folder / "interrupted.py").write_text(text)
    program = "import sys; from kv_asu.interrupts import start; sys.exit(start('some', 'interrupted'))"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_line_at_any_moment(moment: str, tmp_path: Path) -> None:
    done = run(tmp_path, MOMENTS[moment])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "some: interrupted\n")


def test_what_is_under_way_cleans_up(tmp_path: Path) -> None:
    module = """
def main():
    try:
        interrupt()
    finally:
        open(os.path.join(os.path.dirname(__file__), "clean"), "w").close()
"""
    assert run(tmp_path, module).returncode == 130
    assert (tmp_path / "clean").exists()


def test_a_destructor_that_fails_is_told_as_ever(tmp_path: Path) -> None:
    module = "class Bug:\n    def __del__(self):\n        raise ValueError('so')\ndef main():\n    Bug()\n    return 5"
    done = run(tmp_path, module)
    assert done.returncode == 5
    assert "ValueError: so" in done.stderr


def test_a_command_in_the_background_is_not_interrupted(tmp_path: Path) -> None:
    module = "def main():\n    interrupt()\n    return 3"
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    program += "from kv_asu.interrupts import start; sys.exit(start('some', 'interrupted'))"
    run(tmp_path, module)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")


def test_both_commands_start_so() -> None:
    """What their modules load before it is in force is next to nothing."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"vrex": "vrex.__main__:main", "kv-asu": "kv_asu.__main__:main"}
    code = "import sys, kv_asu.__main__, vrex.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.split(".")[0] in ("kv_asu", "vrex")}
    assert ours == {"kv_asu", "kv_asu.__main__", "kv_asu.interrupts", "vrex", "vrex.__main__"}
    assert not {"dataclasses", "typer"} & set(loaded)
    for module, name in (("kv_asu", "kv-asu"), ("vrex", "vrex")):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"{name} ")


#: Interrupts the process as soon as it asks for something that takes its time to load.
SITECUSTOMIZE = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name in ("amaranth", "kv_asu.command_line", "kv_asu.installing", "numpy", "rich", "systemrdl", "typer"):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("command", sorted(main_modules() - {"-m vrex.cli"}))
def test_every_command_ends_with_a_line_while_it_loads(command: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    done = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert re.fullmatch(r"[\w-]+: interrupted\n", done.stderr), done.stderr
    assert (done.returncode, done.stdout) == (130, "")


def test_what_a_command_started_with_m_makes_says_nothing(tmp_path: Path) -> None:
    """The demo's own way through `ending`: half a design is dropped."""
    package = tmp_path / "kv_asu_sim"
    package.mkdir()
    (package / "__init__.py").write_text((ROOT / "sim" / "kv_asu_sim" / "__init__.py").read_text())
    text = "import os, signal\ndef interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n"
    (package / "some.py").write_text(f"{text}{MOMENTS['in the middle of a design']}\nraise SystemExit(main())\n")
    done = subprocess.run(
        [sys.executable, "-m", "kv_asu_sim.some"], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "some: interrupted\n")


def test_somebody_elses_command_is_left_alone(tmp_path: Path) -> None:
    """Its package may import ours; what Ctrl-C does is its own matter."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("import kv_asu_sim\n")
    (tmp_path / "theirs" / "__main__.py").write_text(
        "import signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "theirs", "kv_asu_sim"], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.stdout == "True\n"


@pytest.mark.parametrize("script", [name for name in sorted(main_modules()) if not name.startswith("-m")])
def test_a_python_without_v_rex_is_told_the_way(script: str) -> None:
    command = [sys.executable, "-I", "-S", script]  # nothing but Python's own library
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert re.fullmatch(r"\w+: this Python has no V-Rex: `make setup(-test)?`, then .*\.venv/bin/python\n", done.stderr)
