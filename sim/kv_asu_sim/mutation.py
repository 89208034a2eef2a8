"""Mutation score of the core: ``python -m kv_asu_sim.mutation``.

Yosys plants small faults in the core's netlist, one behind each value of a selector, so that one compiled library holds
them all. Each is run through the streams of :mod:`kv_asu_sim.streams` against the behavioural model until a difference
shows. A fault that no stream shows is a survivor: something the core does not need, or the benches do not see.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shlex
import tempfile
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kv_asu.command_line import Parser, whole_number
from kv_asu.errors import ToolError
from kv_asu.params import Params
from kv_asu.timing import tools
from kv_asu_sim.build import BuildError
from kv_asu_sim.builds import add_build_options, params_from
from kv_asu_sim.netlist_top import around
from vrex.errors import VrexError
from vrex.files import check_file, whole_file

#: The stream that shows most faults goes first.
_FIRST = "random_mix"

_CLOCK = re.compile(r" -port (\w+_)?CLK ")

_SELECTOR = "KV_ASU_MUTANT"


class NoSuchMutant(Exception):
    """None of the mutants that were asked for has been planted."""


class Unsound(Exception):
    """Nothing can be learnt: the core without a fault differs from the model."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Parameters
    ----------
    number : int
        The selector's value, from 1 on.
    mode : str
        ``inv``, ``const0``, ``const1``, ``cnot0`` or ``cnot1``, as `yosys mutate` has them.
    block : str
        The block of the core, by its path.
    where : str
        Cell, port and bit.
    """

    number: int
    mode: str
    block: str
    where: str


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the stream that showed it and how; None and nothing for a survivor."""

    mutant: Mutant
    stream: str | None
    difference: str = ""


# ---- planting ------------------------------------------------------------------------------------------------------


def plant(params: Params, count: int, seed: int, folder: Path) -> tuple[str, list[Mutant]]:
    """The core's Verilog with faults in it, chosen by the environment variable ``KV_ASU_MUTANT`` at power-up.

    Parameters
    ----------
    params : Params
        The build.
    count : int
        How many faults yosys is asked for; it spreads them over cells, bits and modes. Those of clocks are left out.
    seed : int
        Of their choice.
    folder : Path
        To work in.

    Returns
    -------
    text : str
        Verilog with the pins of the core; 0 selects the core as it is.
    mutants : list of Mutant

    Raises
    ------
    ToolError
        Yosys is missing or fails.
    """
    from kv_asu.verilog import emit

    core = emit(params)
    (folder / "kv_asu.v").write_text(core)
    width = count.bit_length()
    tools.yosys(
        f"read_verilog -sv kv_asu.v\nprep -top kv_asu -flatten\nrename kv_asu mutated\nwrite_rtlil flat.il\n"
        f"mutate -list {count} -seed {seed} -o list.txt\n",
        folder,
        "list",
    )
    # A clock that a fault can stop comes after the others even while it is sound.
    commands = [line for line in (folder / "list.txt").read_text().splitlines() if not _CLOCK.search(line)]
    planted = [
        line.replace("mutate ", f"mutate -ctrl mutant {width} {number} ", 1)
        for number, line in enumerate(commands, start=1)
    ]
    tools.yosys("read_rtlil flat.il\n" + "\n".join(planted) + "\nwrite_verilog -noattr mutated.v\n", folder, "plant")
    mutants = [_mutant(number, line) for number, line in enumerate(commands, start=1)]
    return (folder / "mutated.v").read_text() + _selected(core, width), mutants


def _mutant(number: int, command: str) -> Mutant:
    words = shlex.split(command.replace("\\", "\\\\"))
    options = dict(zip(words[1::2], words[2::2], strict=False))
    # A cell that had no name is `$flatten\\block.\\block.$kind$file:line$number`.
    cell = options["-cell"].removeprefix("$flatten").replace("\\", "")
    wire = options.get("-wire", "").replace("\\", "")
    block = cell.split(".$")[0] if "$" in cell else cell.rpartition(".")[0]
    where = f"{cell} {options.get('-port', '')}[{options.get('-portbit', '')}]"
    return Mutant(number, options["-mode"], "kv_asu" if block.startswith("$") else block, f"{where} {wire}".strip())


def _selected(core: str, width: int) -> str:
    """A module with the core's pins around the mutated one, that reads the selector from the environment."""
    chosen = f'std::getenv(\\"{_SELECTOR}\\") ? std::atoi(std::getenv(\\"{_SELECTOR}\\")) : 0'
    selector = f"  reg [{width - 1}:0] mutant;\n  initial mutant = $c32(\"({chosen})\");\n"
    return around(core, "mutated", selector, ", .mutant(mutant)")


# ---- running -------------------------------------------------------------------------------------------------------


def judge(text: str, params: Params, seed: int, clocks: int, number: int) -> tuple[str | None, str]:
    """Run one mutant until a stream shows it: that stream and what differed, or None."""
    from kv_asu_sim.compiled import CompiledCore
    from kv_asu_sim.lockstep import lockstep
    from kv_asu_sim.scoreboard import Difference
    from kv_asu_sim.streams import NEEDS_CLOCKS, STREAMS, play

    os.environ[_SELECTOR] = str(number)
    core = CompiledCore(params, seed=seed, verilog=text)
    for stream in sorted(STREAMS, key=lambda name: name != _FIRST):
        length = max(clocks, NEEDS_CLOCKS.get(stream, 0))
        try:
            lockstep(core, play(stream, params, seed, length), np.random.default_rng(seed))
        except Difference as difference:
            return stream, str(difference).splitlines()[0]
    return None, ""


def _work(pipe: Connection, text: str, params: Params, seed: int, clocks: int) -> None:
    while (number := pipe.recv()) is not None:
        pipe.send(judge(text, params, seed, clocks, number))


class _Worker:
    """A process that judges one mutant after the other. A fault may bring the simulation down with it."""

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()

    def judge(self, mutant: Mutant) -> Verdict:
        self._pipe.send(mutant.number)
        try:
            return Verdict(mutant, *self._pipe.recv())
        except EOFError:
            self._process.join()
            self._start()
            return Verdict(mutant, _FIRST, "the simulation broke down")

    def stop(self) -> None:
        self._pipe.send(None)
        self._process.join()


def run(text: str, mutants: list[Mutant], params: Params, seed: int, clocks: int, jobs: int) -> Iterator[Verdict]:
    """Judge every mutant, ``jobs`` at a time, in the order in which they are done.

    Raises
    ------
    Unsound
        The core without a fault differs from the model: nothing could be learnt.
    """
    workers = [_Worker(text, params, seed, clocks) for _ in range(jobs)]
    idle = list(workers)

    def one(mutant: Mutant) -> Verdict:
        worker = idle.pop()
        try:
            return worker.judge(mutant)
        finally:
            idle.append(worker)

    try:
        sound = one(Mutant(0, "none", "", ""))
        if sound.stream is not None:
            raise Unsound(f"the core as it is differs in {sound.stream}: {sound.difference}")
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(one, mutants)
    finally:
        for worker in workers:
            worker.stop()


# ---- the command ---------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = Parser(
        "python -m kv_asu_sim.mutation",
        "Plant faults in the core and count those that the streams show.",
        (
            "--log2-entries 3 --window 2 --mutants 100",
            "--log2-entries 3 --window 2 --only 17 --only 23 -o build/mutants.json",
        ),
    )
    add_build_options(parser)
    parser.add_argument(
        "--mutants", type=whole_number(1), default=500, metavar="N", help="how many faults (default: %(default)s)"
    )
    parser.add_argument(
        "--clocks", type=whole_number(1), default=2000, metavar="N", help="length of each stream (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=whole_number(), default=1, metavar="N", help="of faults and streams (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=os.cpu_count() or 1, metavar="N", help="processes (default: every core)"
    )
    parser.add_argument(
        "--only", type=whole_number(1), action="append", metavar="N", help="this mutant; repeat for several"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write every verdict as JSON")
    options = parser.parse_args(arguments)
    params = params_from(parser, options)
    console = Console()

    def job() -> int:
        if options.output:
            check_file(options.output)
        began = time.monotonic()
        verdicts = _verdicts(options, params, console)
        _report(console, verdicts, time.monotonic() - began)
        if options.output:
            record = {"params": params.asdict(), "seed": options.seed, "clocks": options.clocks,
                      "verdicts": [asdict(verdict) for verdict in verdicts]}  # fmt: skip
            with whole_file(options.output) as path:
                path.write_text(json.dumps(record, indent=1) + "\n")
        return 0

    return parser.run(job, ToolError, BuildError, VrexError, Unsound, NoSuchMutant)


def _verdicts(options: Namespace, params: Params, console: Console) -> list[Verdict]:
    with tempfile.TemporaryDirectory() as folder:
        console.print(f"planting {options.mutants} faults, seed {options.seed}")
        text, mutants = plant(params, options.mutants, options.seed, Path(folder))
    from kv_asu_sim.compiled import CompiledCore

    CompiledCore(params, verilog=text)  # compiled once, before the workers ask for it
    wanted = [mutant for mutant in mutants if not options.only or mutant.number in options.only]
    if not wanted:
        raise NoSuchMutant(f"--only takes 1 to {len(mutants)}: there is no such mutant")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        judged = run(text, wanted, params, options.seed, options.clocks, min(options.jobs, len(wanted)))
        return list(progress.track(judged, total=len(wanted), description="mutants"))


def _report(console: Console, verdicts: list[Verdict], seconds: float) -> None:
    planted = Counter(verdict.mutant.block for verdict in verdicts)
    survivors = [verdict.mutant for verdict in verdicts if verdict.stream is None]
    left = Counter(mutant.block for mutant in survivors)
    for block, count in sorted(planted.items()):
        console.print(f"{block:<50} {count:5} planted {count - left[block]:5} killed", highlight=False)
    for mutant in survivors:
        console.print(f"survivor {mutant.number}: {mutant.mode} {mutant.where}", highlight=False, soft_wrap=True)
    killed = len(verdicts) - len(survivors)
    console.print(f"{killed} of {len(verdicts)} killed ({killed / len(verdicts):.1%}) in {seconds:.0f} s")


if __name__ == "__main__":
    raise SystemExit(main())
