"""The compiled RTL against the behavioural model, clock by clock: ``python -m kv_asu_sim.lockstep``.

The same streams and the same scoreboard as the cocotb bench, without a simulator in between: some ten times as fast.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import Params
from kv_asu.waiting import waiting
from kv_asu_sim.builds import add_build_options, add_stream_options, params_from, streams_from
from kv_asu_sim.compiled import BuildError, CompiledCore, LatencyError
from kv_asu_sim.coverage import Coverage
from kv_asu_sim.pins import INPUTS, OUTPUTS
from kv_asu_sim.scoreboard import Difference, Scoreboard, Seen, Taken
from kv_asu_sim.streams import NEEDS_CLOCKS, play

#: Clocks that are run before they are compared.
BATCH = 1 << 14


def lockstep(
    core: CompiledCore, rows: Iterable[np.ndarray], rng: np.random.Generator, coverage: Coverage | None = None
) -> Scoreboard:
    """Play rows on the compiled core and compare every clock.

    Parameters
    ----------
    core : CompiledCore
        The core; whatever it did before, the rows begin with a reset.
    rows : iterable of ndarray of INPUTS
        Blocks of clocks.
    rng : Generator
        Fills the payload pins while they are not valid.
    coverage : Coverage, optional
        Collects what the rows have met.

    Returns
    -------
    Scoreboard
        With what it has compared.

    Raises
    ------
    Difference
        At the first clock in which core and model differ.
    """
    scoreboard = Scoreboard(core.params, coverage)
    for batch in _batches(rows):
        try:
            outputs = core.run(_with_junk(batch, core.params, rng))
        except LatencyError as error:
            raise Difference(str(error)) from None
        for taken, seen in zip(_taken(batch), _seen(outputs), strict=True):
            scoreboard.clock(taken, seen)
    scoreboard.finish()
    return scoreboard


def _batches(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    pieces: list[np.ndarray] = []
    clocks = 0
    for block in blocks:
        pieces.append(block)
        clocks += len(block)
        if clocks >= BATCH:
            yield np.concatenate(pieces)
            pieces, clocks = [], 0
    if pieces:
        yield np.concatenate(pieces)


def _with_junk(rows: np.ndarray, params: Params, rng: np.random.Generator) -> np.ndarray:
    """The rows with random payloads where nothing is valid: nobody may look at them."""
    rows = rows.copy()
    config = rows["cfg_ext_read_received"] | rows["cfg_ext_write_received"]
    for valid, payload, width in (
        (rows["req_valid"], "req_addr", params.addr_width),
        (rows["query_valid"], "query_addr", params.addr_width),
        (rows["query_valid"], "query_min_tlevel", 2),
        (rows["query_valid"], "query_boost", 1),
        (rows["cfg_ext_write_received"], "cfg_ext_write_data", 32),
        (rows["cfg_ext_write_received"], "cfg_ext_write_byte_enable", 4),
        (config, "cfg_ext_register_number", 10),
        (config, "cfg_ext_function_number", 8),
    ):
        junk = rng.integers(0, 1 << width, len(rows), dtype=np.uint64)
        np.copyto(rows[payload], junk.astype(INPUTS[payload]), where=valid == 0)
    return rows


def _columns(rows: np.ndarray, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(rows[name].tolist() for name in names), strict=True))


def _where(rows: np.ndarray, valid: str, values: list) -> list:
    return [value if here else None for here, value in zip(rows[valid].tolist(), values, strict=True)]


def _taken(rows: np.ndarray) -> Iterator[Taken]:
    address = ("cfg_ext_register_number", "cfg_ext_function_number")
    data = ("cfg_ext_write_data", "cfg_ext_write_byte_enable")
    return map(
        Taken,
        _where(rows, "req_valid", rows["req_addr"].tolist()),
        _where(rows, "query_valid", _columns(rows, "query_addr", "query_min_tlevel", "query_boost")),
        (rows["evict_valid"] != 0).tolist(),
        _where(rows, "cfg_ext_write_received", _columns(rows, address[0], *data, address[1])),
        _where(rows, "cfg_ext_read_received", _columns(rows, *address)),
        (rows["rst"] != 0).tolist(),
        (rows["power_good"] != 0).tolist(),
    )


def _seen(rows: np.ndarray) -> Iterator[Seen]:
    assert OUTPUTS.names is not None
    tag = [name for name in OUTPUTS.names if name.startswith(("tag_", "spill_")) and name != "tag_valid"]
    return map(
        Seen,
        _where(rows, "tag_valid", _columns(rows, *tag)),
        _where(rows, "answer_valid", _columns(rows, "answer_tracked", "answer_tlevel", "answer_hit")),
        _where(rows, "victim_valid", _columns(rows, "victim_status", "victim_line")),
        _where(rows, "cfg_ext_read_data_valid", rows["cfg_ext_read_data"].tolist()),
        rows["irq"].tolist(),
    )


_EXAMPLES = (
    "--log2-entries 3 --window 2 --stream all",
    "--profile fpga --stream churn --stream mass_expiry --clocks 100000 --seed 1",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = Parser(
        "python -m kv_asu_sim.lockstep", "Run streams through the compiled RTL and the behavioural model.", _EXAMPLES
    )
    add_build_options(parser)
    add_stream_options(parser)
    parser.add_argument(
        "--clocks",
        type=whole_number(1),
        default=20_000,
        metavar="N",
        help="length of each stream (default: %(default)s)",
    )
    parser.add_argument("--seed", type=whole_number(), metavar="N", help="default: random")
    parser.add_argument("--keep-going", action="store_true", help="go on with the next stream after a difference")
    options = parser.parse_args(arguments)
    params = params_from(parser, options)
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed

    def job() -> int:
        core = CompiledCore(params, seed=seed % (2**31 - 1))
        different = 0
        for stream in streams_from(options):
            clocks = max(options.clocks, NEEDS_CLOCKS.get(stream, 0))
            began = time.perf_counter()
            try:
                with waiting(f"{stream}: {clocks:,} clocks"):
                    board = lockstep(core, play(stream, params, seed, clocks), np.random.default_rng(seed))
            except Difference as difference:
                print(f"{stream}: --seed {seed}: {difference}", flush=True)
                different += 1
                if not options.keep_going:
                    return 1
                continue
            rate = board.compared["clocks"] / (time.perf_counter() - began)
            counts = ", ".join(f"{count} {name}" for name, count in board.compared.items())
            print(f"{stream}: equal over {counts}; {rate:,.0f} clocks/s, --seed {seed}", flush=True)
        return 1 if different else 0

    return parser.run(job, BuildError)


if __name__ == "__main__":
    raise SystemExit(main())
