"""The scoreboard sees every kind of fault: each is planted once in what the real core answered."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu.register_map import REGISTERS, VictimStatus
from kv_asu_firmware.config_space import ConfigSpaceModel
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.lockstep import lockstep
from kv_asu_sim.pins import OUTPUTS
from kv_asu_sim.scoreboard import Difference, Scoreboard, Seen, Taken
from kv_asu_sim.streams import play, register_number

PARAMS = Params(log2_entries=4, window=4)
Plant = Callable[[np.ndarray, np.ndarray], None]


class FaultyCore(CompiledCore):
    """The core with a fault at its output pins."""

    def __init__(self, plant: Plant) -> None:
        super().__init__(PARAMS, seed=1)
        self._plant = plant

    def run(self, operations: np.ndarray) -> np.ndarray:
        outputs = super().run(operations)
        self._plant(operations, outputs)
        return outputs


def compare(plant: Plant, stream: str = "churn", clocks: int = 1000) -> Scoreboard:
    return lockstep(FaultyCore(plant), play(stream, PARAMS, 3, clocks), np.random.default_rng(1))


def nothing(rows: np.ndarray, outputs: np.ndarray) -> None:
    """No fault."""


def late(where: np.ndarray) -> int:
    """A place well into the run, where the port has been busy for a while."""
    places = np.flatnonzero(where)
    return int(places[len(places) // 2])


def flipped(pin: str, valid: str) -> Plant:
    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        place = late(outputs[valid])
        outputs[pin][place] ^= 1

    return plant


@pytest.mark.parametrize("stream", ["churn", "register_ports", "life_cycle"])
def test_no_fault_no_difference(stream: str) -> None:
    board = compare(nothing, stream, 3000)
    assert board.compared["clocks"] > 2900
    assert min(board.compared[kind] for kind in ("requests", "queries", "evicts", "reads")) > 50


@pytest.mark.parametrize("pin", [name for name in OUTPUTS.names or () if name not in ("irq", "tag_stamp")])
def test_every_pin_is_compared(pin: str) -> None:
    prefix = pin.split("_")[0].replace("spill", "tag")
    valid = "cfg_ext_read_data_valid" if prefix == "cfg" else f"{prefix}_valid"
    with pytest.raises(Difference, match=r"clock \d+: "):
        compare(flipped(pin, valid))


def test_what_was_seen_is_shown_by_name() -> None:
    with pytest.raises(Difference) as caught:
        compare(flipped("tag_count", "tag_tracked"))
    last = str(caught.value).splitlines()[-1]
    assert re.search(r"  =>  (.*  )?tag line=[0-9a-f]+ tracked=1 hit=[01] before=\d .*spill_line=[0-9a-f]+", last), last


def test_stamp_is_compared() -> None:
    with pytest.raises(Difference, match="stamp is"):
        compare(flipped("tag_stamp", "tag_tracked"))


def test_irq_is_compared() -> None:
    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        outputs["irq"][rows["rst"] == 0] ^= 1

    with pytest.raises(Difference, match="irq is"):
        compare(plant)


@pytest.mark.parametrize("port", ["tag", "answer", "victim"])
def test_late_answer(port: str) -> None:
    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        columns = [name for name in OUTPUTS.names or () if name.startswith(port)]
        outputs[columns] = np.roll(outputs[columns], 1)

    with pytest.raises(Difference, match=r"no answer came|nobody asked"):
        compare(plant)


def test_unlawful_retry() -> None:
    """RETRY in place of EMPTY, long after anything was touched."""

    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        outputs["victim_status"][late((outputs["victim_valid"] == 1) & (outputs["victim_status"] == 0))] = 2

    with pytest.raises(Difference, match="RETRY"):
        compare(plant, "evict_every_clock")


def test_lost_victim_is_found_at_the_next() -> None:
    """RETRY in place of FOUND, where it is legal: the core has taken the line all the same."""

    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        place = late((outputs["victim_valid"] == 1) & (outputs["victim_status"] == 1))
        outputs["victim_status"][place], outputs["victim_line"][place] = 2, 0

    with pytest.raises(Difference):
        compare(plant)


def in_read(name: str, change: int) -> Plant:
    """Change what the reads of a register say."""

    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        read = (rows["cfg_ext_read_received"] == 1) & (rows["cfg_ext_register_number"] == register_number(PARAMS, name))
        after = np.flatnonzero(read) + 1
        outputs["cfg_ext_read_data"][after[after < len(outputs)]] += np.uint32(change)

    return plant


@pytest.mark.parametrize("name", REGISTERS)
def test_every_register_is_compared(name: str) -> None:
    with pytest.raises(Difference, match=f"{name} reads"):
        compare(in_read(name, 64 if name in ("COLD", "TRACKED") else 1 << 4), "list_ends", 200)


@pytest.mark.parametrize("name", ["COLD", "TRACKED", "COUNTER_LO"])
def test_quiet_counts_are_exact(name: str) -> None:
    """Once nothing has happened for long enough, a count may not be off by one."""
    with pytest.raises(Difference, match=f"{name} reads"):
        compare(in_read(name, 1), "list_ends", 200)


def test_silent_register_port() -> None:
    def plant(rows: np.ndarray, outputs: np.ndarray) -> None:
        outputs["cfg_ext_read_data_valid"] = 0

    with pytest.raises(Difference, match="reads nothing"):
        compare(plant)


def test_slow_victims() -> None:
    """A core with L = 1 that fetches the next tail for a clock: each RETRY is lawful, the rate is not."""
    core, board = ConfigSpaceModel(PARAMS), Scoreboard(PARAMS)
    board.clock(Taken(reset=True), Seen())
    operation, fetching = Taken(), False

    def clock(taken: Taken) -> None:
        nonlocal operation, fetching
        tag, _, victim = core.clock(operation.request, None, operation.evict, operation.evict and fetching)
        fetching = victim is not None and victim.status == VictimStatus.FOUND
        board.clock(taken, Seen(tag, None, victim))
        if taken.write:
            core.write_dword(*taken.write[:3])
        operation = taken

    for name, value in (("T3", 0), ("T2", 0), ("T1", 1 << 16), ("TIMEBASE", 0), ("CTRL", 1)):
        clock(Taken(write=(register_number(PARAMS, name), value, 0xF, 0)))
    for _ in range(20):
        clock(Taken())
    for line in range(PARAMS.entries):
        clock(Taken(request=line << 8))

    def drain() -> None:
        for _ in range(3 * PARAMS.entries):
            clock(Taken(evict=True))

    with pytest.raises(Difference, match="victims come too slowly"):
        drain()


def test_unanswered_at_the_end() -> None:
    board = Scoreboard(PARAMS)
    board.clock(Taken(reset=True), Seen())
    board.clock(Taken(), Seen())
    board.clock(Taken(request=0x1000), Seen())
    with pytest.raises(Difference, match="unanswered"):
        board.finish()


def test_never_reset() -> None:
    board = Scoreboard(PARAMS)
    board.clock(Taken(), Seen())
    with pytest.raises(Difference, match="never left reset"):
        board.finish()


def test_message_shows_what_came_before() -> None:
    with pytest.raises(Difference) as caught:
        compare(flipped("tag_count", "tag_tracked"))
    assert len(str(caught.value).splitlines()) == 18
    assert "request 0x" in str(caught.value)
    assert "count is" in str(caught.value)
