"""The cocotb tests of the core: one for each stream that the runner asked for.

The runner (:mod:`kv_asu_sim.runner`) passes build, streams, length and seed in ``KV_ASU_BENCH`` as JSON.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import cocotb

from kv_asu.params import Params
from kv_asu_sim.bench import Bench
from kv_asu_sim.streams import NEEDS_CLOCKS, play

_ASKED = json.loads(os.environ["KV_ASU_BENCH"])
_PARAMS = Params(**_ASKED["params"])


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(stream=[cocotb.Param(name, name) for name in _ASKED["streams"]])
async def plays(dut: Any, stream: str) -> None:
    """Every answer to a stream is the reference's, L clocks after its operation."""
    random.seed(_ASKED["seed"])
    clocks = max(_ASKED["clocks"], NEEDS_CLOCKS.get(stream, 0))
    bench = Bench(dut, _PARAMS)
    await bench.run(play(stream, _PARAMS, _ASKED["seed"], clocks))
    bench.coverage.save(Path(f"coverage-{stream}.json"))
