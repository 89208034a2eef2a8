"""The memories of the Verilog: nothing depends on what a read returns that meets a write to the same word.

Macros and block RAMs differ in it: the old word, the new one, or neither. Here they return the new word inverted.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu_sim.build import verilog
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.scoreboard import Difference
from kv_asu_sim.streams import STREAMS, play

SEED = 5
CLOCKS = 1500

_PORTS = re.compile(
    r"if \((?P<enable>[^\n]+)\) (?P<memory>\w+)\[(?P<to>\w+)\] <= (?P<word>[^\n]+);(?P<between>.{0,200}?)"
    r"(?P<out>\w+) <= (?P=memory)\[(?P<where>\w+)\];",
    re.DOTALL,
)


def spoiled(params: Params, meets: str) -> str:
    """The core's Verilog with reads that return an inverted word when they meet a write."""
    text, memories = _PORTS.subn(
        lambda port: (
            f"if ({port['enable']}) {port['memory']}[{port['to']}] <= {port['word']};{port['between']}"
            f"{port['out']} <= ({port['enable']}) && {meets.format(**port.groupdict())} "
            f"? ~({port['word']}) : {port['memory']}[{port['where']}];"
        ),
        verilog(params),
    )
    assert memories == len(re.findall(r"^  reg \[[^\]]+\] \w+ \[[^\]]+\];", text, re.MULTILINE)) > 20
    return text


@pytest.mark.parametrize("stages", [(0, 0), (1, 2)])
def test_a_read_that_meets_a_write_may_return_anything(stages: tuple[int, int]) -> None:
    params = Params(log2_entries=3, window=2, hash_stages=stages[0], table_stages=stages[1])
    core = CompiledCore(params, verilog=spoiled(params, "{to} == {where}"))
    for stream in STREAMS:
        lockstep(core, play(stream, params, SEED, CLOCKS), np.random.default_rng(SEED))


def test_other_reads_may_not() -> None:
    """The same with the neighbouring word spoiled, too: the streams see it."""
    params = Params(log2_entries=3, window=2)
    core = CompiledCore(params, verilog=spoiled(params, "({to} ^ {where}) < 2"))
    with pytest.raises(Difference):
        lockstep(core, play("churn", params, SEED, CLOCKS), np.random.default_rng(SEED))
