"""`vrex replay` where two sides differ: the first difference, what is said of it, and what is cut out of it."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bus_script import BUILDS, play, script
from kv_asu.params import Params
from kv_asu_firmware.golden import Entry, KvAsuGolden, Query
from vrex.cli import main
from vrex.session import rules
from vrex.session.explain import Explanation, explain
from vrex.session.format import SessionReader
from vrex.session.lockstep import DifferenceError, Lockstep
from vrex.session.operation import Operation, Step, take
from vrex.session.recorder import Recorder
from vrex.session.relay import Relay
from vrex.session.replay import Difference, difference, replay
from vrex.session.shrink import Cut, shrink
from vrex.transports.base import Bus
from vrex.transports.model import ModelTransport
from vrex.transports.rtl import RtlTransport

SMALL = BUILDS["L=1"]
CTRL = SMALL.config_base + 8
WARM_UP = [Operation("write", offset=CTRL, value=1, size=4), Operation("idle", value=40)]

Plant = Callable[[ModelTransport], None]


# ---- a device with a fault: the device model, with one rule of its core changed --------------------------------------


def core(bus: ModelTransport) -> Any:
    return bus.device.model.golden


def late_level(bus: ModelTransport) -> None:
    """T3 from one count later on."""
    right = core(bus)._tlevel

    def wrong(entry: Entry) -> int:
        level: int = right(entry)
        return 2 if level == 3 and entry.count == core(bus).settings.t3_count else level

    core(bus)._tlevel = wrong


def last_free(bus: ModelTransport) -> None:
    """A new line takes the last free slot."""
    right, golden = core(bus)._place, core(bus)
    golden._place = lambda line: max(
        (slot for slot in golden.window(line) if golden.at(slot) is None), default=right(line)
    )


def no_reclaim(bus: ModelTransport) -> None:
    """A cold line never loses its slot."""
    golden = core(bus)
    golden._place = lambda line: next((slot for slot in golden.window(line) if golden.at(slot) is None), None)


def youngest_victim(bus: ModelTransport) -> None:
    """Eviction takes the other end of the cold list."""
    right, golden = core(bus)._evict, core(bus)

    def wrong(retry: bool) -> Any:
        if golden._cold:
            golden._cold.move_to_end(next(reversed(golden._cold)), last=False)
        return right(retry)

    golden._evict = wrong


def deaf_query(bus: ModelTransport) -> None:
    """A query finds no cold line."""
    right, golden = core(bus)._query, core(bus)

    def wrong(*query: Any) -> Any:
        answer = right(*query)
        return answer if answer.tlevel else answer._replace(tracked=False, hit=False)

    golden._query = wrong


def miscount(bus: ModelTransport) -> None:
    """TRACKED reads one too many."""
    right, model = bus.device.model._status, bus.device.model
    model._status = lambda path: right(path) + (path == "TRACKED.LINES")  # type: ignore[method-assign]


def silent(bus: ModelTransport) -> None:
    """The irq pin does not rise."""
    bus.__class__ = type("Silent", (ModelTransport,), {"irq": property(lambda self: False)})


def faulty(plant: Plant, params: Params = SMALL) -> Bus:
    """Stands for gateware: what is known of it is what it answers."""
    bus = ModelTransport(params)
    bus.name = "rtl"
    plant(bus)
    return bus


def session(operations: list[Operation], bus: Bus | None = None) -> list[Step]:
    bus = ModelTransport(SMALL) if bus is None else bus
    return [take(bus, operation) for operation in operations]


def found(plant: Plant, operations: list[Operation]) -> tuple[Difference, Explanation]:
    steps = session([*WARM_UP, *operations])
    result = replay(steps, faulty(plant))
    assert result.difference is not None
    return result.difference, explain(result.difference, steps, lambda: faulty(plant), SMALL)


def observe(*lines: int) -> Operation:
    return Operation("observe", np.array(lines, np.uint64) << np.uint64(8))


def colliding(count: int) -> list[int]:
    """Lines of one home slot."""
    golden = KvAsuGolden(SMALL)
    home = golden.window(0)[0]
    return [line for line in range(1000) if golden.window(line)[0] == home][:count]


# ---- the first difference, and what led to it ------------------------------------------------------------------------


def test_a_level_too_low() -> None:
    difference, told = found(late_level, [observe(7, 8), observe(*[9] * 8), observe(1)])
    assert (difference.call, difference.command) == (3, 4)
    assert difference.kind == ("observe", "tag_after")
    assert difference.clock == difference.step.clock + 4
    assert told.operation == "request to 0x900 (line 0x9)"
    assert told.decided == told.clock + SMALL.latency
    assert ("tag_after", 3, 2, 3) in told.fields
    assert told.recorded == told.model
    assert "counts to 5; after T3: count 5 >= T3.count 5 and age 0 <= T3.age 25" in told.recorded
    assert "(but after cannot be T2: T3: count 5 >= T3.count 5" in told.replayed
    assert told.line == 9
    (slot,) = (slot for slot in told.window if slot.line == 9)
    assert (slot.count, slot.age, slot.tlevel, slot.place) == (4, 0, 2, 2)
    assert told.home == told.window[0].slot
    assert len(told.window) == SMALL.window
    assert [slot.line for slot in told.neighbours] == [7, 8, 9]
    assert (told.tracked, told.cold) == (3, 0)
    asked = {row.what: (row.model, row.replayed) for row in told.told}
    assert asked["TRACKED"] == ("0x3", "0x3")
    assert asked["line 0x9"] == ("T3, count 5", "T2, count 5")
    assert told.model_parted is None


def test_another_free_slot() -> None:
    _, told = found(last_free, [observe(5)])
    home = told.home
    assert home is not None
    assert told.recorded.startswith(f"no slot yet; first free slot {home} of window {home}..")
    assert f"takes slot {told.window[1].slot}; count 1; after T1" in told.replayed
    assert [slot.line for slot in told.window] == [None, None]
    assert told.neighbours == []


def test_a_spill() -> None:
    first, second, third = colliding(3)
    _, told = found(no_reclaim, [observe(first), observe(second), Operation("idle", value=700), observe(third)])
    assert "window 0..1 is full; spill of first cold slot" in told.recorded.replace(
        f"window {told.home}..", "window 0..", 1
    ).replace(f"0..{told.window[-1].slot}", "0..1", 1)
    assert f"line {first:#x}, T0: age" in told.recorded
    assert told.replayed == "not tracked"
    assert [slot.line for slot in told.neighbours] == [first, second]
    assert [slot.tlevel for slot in told.window] == [0, 0]


def test_another_victim() -> None:
    _, told = found(
        youngest_victim, [observe(1, 2, 3), Operation("idle", value=700), Operation("evict_lines", value=2)]
    )
    assert told.operation == "evict"
    assert told.line == 1
    assert told.recorded.startswith("FOUND: line 0x1 in slot ")
    assert "is the cold list's tail; T0: age" in told.recorded
    assert told.replayed == "FOUND line 0x3 (but in the model it is number 3 of 3 cold lines from the tail)"
    assert [slot.line for slot in told.neighbours] == [1, 2, 3]
    assert told.cold == 3


def test_a_query() -> None:
    address = np.array([0x100], np.uint64)
    query = Operation("query_lines", address, min_tlevel=1, boost=True)
    _, told = found(deaf_query, [observe(1), query, Operation("idle", value=700), query._replace(boost=False), query])
    assert told.operation == "query of 0x100 (line 0x1), hit from T1 on"
    assert re.fullmatch(r"in slot \d+; T0: age \d+ > T1.age 125; hit from T1 on", told.recorded)
    assert re.fullmatch(r"not tracked \(but the model has the line in slot \d+\)", told.replayed)


def test_a_register() -> None:
    read = Operation("read", offset=CTRL + 0x34, size=4)
    difference, told = found(miscount, [observe(1, 2), read])
    assert difference.kind == ("read", "data")
    assert told.operation == f"read, TRACKED at {CTRL + 0x34:#x}"
    assert told.fields == [("LINES", 2, 3, 2)]
    assert "2 lines tracked, 0 of them cold" in told.recorded
    assert told.replayed == "the value is all it tells"
    assert dict(zip(("what", "model", "replayed"), vars(told.told[1]).values(), strict=True))["replayed"] == "0x3"
    assert told.window == []


def test_the_registers_of_a_query() -> None:
    """What is shown is of then, and not of the questions asked afterwards."""

    def undone(bus: ModelTransport) -> None:
        right, model = bus.device.model._status, bus.device.model
        model._status = lambda path: 0 if path == "QUERY.TRACKED" else right(path)  # type: ignore[method-assign]

    ask = [Operation("write", offset=CTRL + at, value=value, size=4) for at, value in ((0x3C, 0x200), (0x44, 1))]
    _, told = found(undone, [observe(1, 2), *ask, Operation("read", offset=CTRL + 0x44, size=4)])
    assert told.operation == f"read, QUERY at {CTRL + 0x44:#x}"
    assert told.line == 2
    assert ("TRACKED", 1, 0, 1) in told.fields
    assert 2 in [slot.line for slot in told.window]


def test_the_interrupt_pin() -> None:
    enable = Operation("write", offset=CTRL + 0x28, value=1, size=4)
    difference, told = found(silent, [enable, observe(*colliding(4)), Operation("idle", value=9)])
    assert difference.kind == ("", "irq")
    assert difference.command is None
    assert told.fields == [("irq", 1, 0, 1)]
    assert "IRQ_STATUS 0x1, IRQ_ENABLE 0x1" in told.recorded


def test_no_answer_at_all() -> None:
    class Deaf(ModelTransport):
        faults = (RuntimeError,)

        def evict_lines(self, count: int) -> Any:
            raise RuntimeError("clock 50: a port did not answer 1 clocks after an operation")

    steps = session([*WARM_UP, observe(1), Operation("evict_lines", value=2)])
    result = replay(steps, Deaf(SMALL))
    assert result.difference is not None
    assert result.difference.kind == ("evict_lines", "fault")
    told = explain(result.difference, steps, lambda: Deaf(SMALL), SMALL)
    assert told.replayed == "no answer: clock 50: a port did not answer 1 clocks after an operation"
    assert told.operation == "2 commands, evict_lines"


def test_a_model_that_does_not_answer_as_recorded_says_so() -> None:
    """Recorded on a faulty gateware and replayed on a right one: the model parts from the recording too."""
    steps = session([*WARM_UP, observe(*[9] * 8)], faulty(late_level))
    steps.append(steps[-1]._replace(clock=steps[-1].clock + 13))
    difference = Difference(3, steps[-1], None, steps[-1].clock, (), "made up")
    told = explain(difference, steps, lambda: ModelTransport(SMALL), SMALL)
    assert told.model_parted == 2
    assert told.told == []


def test_a_core_that_is_not_active() -> None:
    def tracks(bus: ModelTransport) -> None:
        right, golden = core(bus).clock, core(bus)

        def wrong(request: int | None = None, *others: Any) -> Any:
            answers = right(request, *others)
            if request is None or golden.active:
                return answers
            return answers._replace(tag=answers.tag._replace(tracked=True, count=1, after=1))

        golden.clock = wrong

    steps = session([observe(5)])
    result = replay(steps, faulty(tracks))
    assert result.difference is not None
    told = explain(result.difference, steps, lambda: faulty(tracks), SMALL)
    assert told.recorded == "the core is not active: not tracked"
    assert told.window == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("params", BUILDS.values(), ids=BUILDS)
def test_the_rules_say_what_the_model_does(params: Params, seed: int) -> None:
    """Over random scripts, every number in a rule is the answer's, and no right answer is called impossible."""
    bus = ModelTransport(params)
    seen = set()
    for kind, arguments in script(seed, params, 250):
        if kind not in ("observe", "query_lines", "evict_lines"):
            play(bus, (kind, arguments))
            continue
        golden = core(bus)
        model: Any = bus.device.model
        for command in range(arguments[0] if kind == "evict_lines" else len(arguments[0])):
            before = copy.deepcopy(golden)
            before.idle(1)
            if kind == "observe":
                address = int(arguments[0][command])
                tag = model.clock(address).tag
                if golden.active and not before.active:
                    continue
                rule = rules.request_rule(before, address)
                names = ("tag_line", "tag_tracked", "tag_hit", "tag_before", "tag_after", "tag_count", "tag_slot")
                row = dict(zip((*names, "tag_stamp", "spill_valid", "spill_line"), map(int, tag), strict=True))
                says = rules.request_answer(before, address, row)
                assert tag.tracked == ("not tracked" not in rule), rule
                assert tag.hit == rule.startswith("hit")
                if tag.tracked:
                    assert int(re.findall(r"after T(\d)", rule)[0]) == tag.after
                    assert int(re.findall(r"slot (\d+)", rule)[0]) == tag.slot
                if tag.hit:
                    assert int(re.findall(r"before T(\d)", rule)[0]) == tag.before
                    assert int(re.findall(r"counts to (\d+)", rule)[0]) == tag.count
                if tag.spill_valid:
                    assert f"line {tag.spill_line:#x}, T0" in rule
                seen.add(rule.split(";")[0 if tag.hit or "active" in rule else 1].split()[0] + str(tag.spill_valid))
            elif kind == "query_lines":
                query = Query(int(arguments[0][command]), arguments[1], arguments[2])
                answer = model.clock(query=query).answer
                rule = rules.query_rule(before, query)
                row = dict(zip(("answer_tracked", "answer_tlevel", "answer_hit"), map(int, answer[:3]), strict=True))
                says = rules.query_answer(before, query, row)
                assert answer.tracked == rule.startswith("in slot")
                if answer.tracked:
                    own = int(re.findall(r"; T(\d)", rule)[0])
                    assert min(own + query.boost, 3) == answer.tlevel
            else:
                victim = model.clock(evict=True).victim
                rule = rules.evict_rule(before)
                if victim.status == 2:  # straight behind requests the tail may be on its way
                    assert golden.retry_allowed()
                    continue
                assert rule.startswith("FOUND") == (victim.status == 1)
                if victim.status == 1:
                    assert f"line {victim.line:#x} in slot" in rule
                continue
            assert "but" not in says, says
    assert len(seen) >= 3, seen


# ---- cutting ---------------------------------------------------------------------------------------------------------


def long_session(seed: int) -> list[Step]:
    bus = Recorded(ModelTransport(SMALL))
    for step in script(seed, SMALL, 400):
        play(bus, step)
    return bus.steps


class Recorded(Relay):
    """A recorder into memory."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self.steps: list[Step] = []

    def _take(self, operation: Operation) -> Any:
        step = take(self.bus, operation)
        self.steps.append(step)
        return step.answer


def cut_of(plant: Plant, seed: int, budget: int = 1000) -> Cut:
    steps = long_session(seed)
    result = replay(steps, faulty(plant))
    assert result.difference is not None, "seed without the fault"
    cut = shrink(steps[: result.calls], SMALL, lambda: faulty(plant), budget=budget)
    assert cut is not None
    assert cut.difference.kind == result.difference.kind
    return cut


def free_commands(cut: Cut) -> int:
    """Commands and accesses that are not the writes in front."""
    operations = [step.operation for step in cut.steps]
    while operations and operations[0].kind == "write":
        del operations[0]
    return sum(operation.commands or operation.kind != "idle" for operation in operations)


@pytest.mark.parametrize(
    ("plant", "seed", "most"),
    [
        (late_level, 3, 6),
        (last_free, 3, 1),
        (no_reclaim, 3, 3),
        (youngest_victim, 3, 3),
        (deaf_query, 4, 2),
        (miscount, 4, 1),
    ],
)
def test_a_few_commands_are_left(plant: Plant, seed: int, most: int) -> None:
    cut = cut_of(plant, seed)
    assert free_commands(cut) <= most, [step.operation for step in cut.steps]
    assert not cut.exhausted
    again = replay(cut.steps, faulty(plant)).difference
    assert again is not None
    assert again.kind == cut.difference.kind
    assert again.call == len(cut.steps) - 1 == cut.difference.call
    assert replay(cut.steps, ModelTransport(SMALL)).difference is None


def test_cutting_is_deterministic_and_keeps_to_its_budget() -> None:
    cuts = [cut_of(late_level, 3) for _ in range(2)]
    texts = [str([step.operation for step in cut.steps]) for cut in cuts]
    assert texts[0] == texts[1]
    assert cuts[0].replays == cuts[1].replays > 20
    short = cut_of(late_level, 3, budget=10)
    assert short.exhausted
    assert short.replays == 10
    assert replay(short.steps, faulty(late_level)).difference is not None


def test_what_agrees_is_not_cut() -> None:
    assert shrink(long_session(3), SMALL, lambda: ModelTransport(SMALL)) is None


def test_lockstep_names_the_difference() -> None:
    bus = Lockstep(faulty(late_level))
    bus.write(CTRL, 1, 4)
    bus.idle(40)
    assert bus.observe([0x900] * 4)["tag_count"].tolist() == [1, 2, 3, 4]
    with pytest.raises(
        DifferenceError, match=r"call 4, observe, command 1, in clock \d+: tag_after is 0x2, the model says 0x3"
    ):
        bus.observe([0x900])


def test_a_difference_in_time() -> None:
    (step,) = session([observe(1)])
    found = difference(0, step._replace(clock=3), ModelTransport(SMALL))
    assert found is not None
    assert found.fields == (("clock", 3, 0),)


# ---- in a bench ------------------------------------------------------------------------------------------------------


def record_in_a_bench(bus: Bus) -> None:
    """Called in the simulator."""
    with Recorder(bus, os.environ["SESSION_FILE"]) as recorder:
        for step in script(3, SMALL, 60):
            play(recorder, step)


def test_a_cocotb_bench_is_recorded_and_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cocotb", reason="cocotb is not installed")
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed")
    from kv_asu_sim.runner import run_host

    recorded = tmp_path / "bench.parquet"
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("SESSION_FILE", str(recorded))
    run_host(SMALL, "icarus", "test_replay:record_in_a_bench", seed=1)
    with SessionReader(recorded) as reader:
        assert reader.metadata.transport == "cocotb"
        assert reader.metadata.commands > 100
    assert main(["replay", str(recorded), "--transport", "model"]) == 0


# ---- the whole way, on gateware --------------------------------------------------------------------------------------


def with_fault(text: str) -> str:
    """The Verilog with every line reaching T3 one count later."""
    wrong, places = re.subn(r">= (settings_+t3_count)\b", r"> \1", text)
    assert places, "the comparison with T3.COUNT is written in another way"
    return wrong


def run_pytest(test: Path, verilog: Path | None) -> subprocess.CompletedProcess[str]:
    """The produced test as its user runs it."""
    paths = [entry for entry in sys.path if entry and Path(entry) != Path(__file__).parent]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("KV_ASU_VERILOG", None)
    if verilog is not None:
        environment["KV_ASU_VERILOG"] = str(verilog)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name]
    return subprocess.run(command, cwd=test.parent, env=environment, capture_output=True, text=True, check=False)


def test_a_fault_in_the_verilog_becomes_a_small_cocotb_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cocotb", reason="cocotb is not installed")
    from kv_asu_sim.build import whole_function_verilog

    verilog, recorded = tmp_path / "faulty.sv", tmp_path / "long.parquet"
    verilog.write_text(with_fault(whole_function_verilog(SMALL)))
    with Recorder(ModelTransport(SMALL), recorded) as recorder:
        for step in script(3, SMALL, 2000):
            play(recorder, step)
    on_faulty = ["replay", str(recorded), "--transport", "rtl", "--verilog", str(verilog)]

    assert main(["replay", str(recorded), "--transport", "rtl"]) == 0
    capsys.readouterr()
    assert main([*on_faulty, "--extract", str(tmp_path / "small")]) == 1
    shown = capsys.readouterr().out
    assert "first difference at call" in shown
    assert "differs: tag_" in shown
    assert "recorded: model: hit in slot" in shown
    assert "small_test.py: the cocotb test" in shown

    assert main([*on_faulty, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["equal"]
    assert result["difference"]["line"] in [slot["line"] for slot in result["difference"]["window"]]

    small, small_test = str(tmp_path / "small.parquet"), tmp_path / "small_test.py"
    with SessionReader(small) as reader:
        assert reader.metadata.commands <= 6
    assert main(["replay", small, "--transport", "model"]) == 0
    assert main(["replay", small, "--transport", "rtl"]) == 0
    assert main(["replay", small, *on_faulty[2:]]) == 1
    capsys.readouterr()

    # Recorded on the faulty gateware and replayed on the model, it is the same difference the other way round.
    with Recorder(RtlTransport(SMALL, verilog=verilog.read_text()), recorded) as recorder:
        for step in script(3, SMALL, 2000):
            play(recorder, step)
    on_model = ["replay", str(recorded), "--transport", "model", "--extract", str(tmp_path / "other")]
    assert main([*on_model, "--verilog", str(verilog)]) == 1
    assert "replayed: model: hit in slot" in capsys.readouterr().out
    assert (tmp_path / "other_test.py").read_text().split('"""')[2] == small_test.read_text().split('"""')[2]
    assert main(on_model) == 1
    assert "gateware and model agree on these operations" in capsys.readouterr().err

    red, green = run_pytest(small_test, verilog), run_pytest(small_test, None)
    assert red.returncode == 1, red.stdout
    assert "DifferenceError: call" in red.stdout
    assert green.returncode == 0, green.stdout
