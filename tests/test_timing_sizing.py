"""The sizing pass: the netlist computes what it did before, faster; and its timing is that of the tables."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

from kv_asu.timing import cells, liberty, resizing, sizing
from kv_asu.timing.cell_library import CellLibrary
from kv_asu.timing.conditions import Conditions
from kv_asu.timing.liberty import SramTiming
from kv_asu.timing.netlist import Cell, Netlist, is_constant
from kv_asu.timing.timing_graph import Graph
from test_timing_liberty import LIBERTY, delay

LIBRARY = cells.read(liberty.merge([LIBERTY]))
MASK = (1 << 256) - 1  # 256 vectors at once, one a bit


def random_netlist(seed: int, gates: int = 150) -> Netlist:
    """Gates whose inputs are mostly a few popular nets, some registers, a macro; all of the smallest strength."""
    rng = random.Random(seed)
    netlist = Netlist("kv_asu", inputs={"clk": ["clk"], "a": [f"a[{i}]" for i in range(6)]})
    registers = [f"q{i}" for i in range(5)]
    read = [f"d{i}" for i in range(4)]
    nets = [*netlist.inputs["a"], *registers, *read]
    for i in range(gates):
        kind = rng.choice(["INVx1", "BUFx1", "NAND2x1", "NAND2x1"])
        inputs = "AB" if kind.startswith("NAND2") else "A"
        picks = {pin: rng.choice(nets[:8] if rng.random() < 0.3 else nets[-20:]) for pin in inputs}
        netlist.cells[f"u{i}"] = Cell(kind, {**picks, "Y": f"n{i}"})
        nets.append(f"n{i}")
    for q in registers:
        netlist.cells[f"r_{q}"] = Cell("DFFx1", {"CLK": "clk", "D": rng.choice(nets[-60:]), "Q": q})
    netlist.cells["memory"] = Cell("sram_16x4", {
        "CLK": "clk", "R_EN": "1'b1", "W_EN": nets[-1], "R_ADDR": nets[-5:-1], "W_ADDR": nets[-9:-5],
        "W_DATA": nets[20:24], "R_DATA": read,
    })  # fmt: skip
    netlist.outputs = {"y": [*nets[-8:], "1'b0"], "z": [nets[9]]}
    return netlist


def simulate(netlist: Netlist, seed: int) -> dict[tuple[str, str], list[int]]:
    """One clock of 256 random vectors: what arrives at the outputs and at the pins of registers and macros."""
    rng = random.Random(seed)
    values = {"1'b0": 0, "1'b1": MASK}
    for bits in netlist.inputs.values():
        values |= {bit: rng.getrandbits(256) for bit in bits}
    for cell in netlist.cells.values():
        for pin in ("Q", "R_DATA"):
            if pin in cell.pins:
                values |= {net: rng.getrandbits(256) for net in cell.nets(pin)}
    waiting = [cell for cell in netlist.cells.values() if "Y" in cell.pins]
    while waiting:
        ready = [cell for cell in waiting if all(cell.net(pin) in values for pin in cell.pins if pin != "Y")]
        assert ready, "a net has no driver"
        for cell in ready:
            inputs = [values[cell.net(pin)] for pin in sorted(cell.pins) if pin != "Y"]
            name = cell.type.rpartition("x")[0]
            both = inputs[0] & inputs[-1]
            assert cell.net("Y") not in values, "a net has two drivers"
            values[cell.net("Y")] = both if name == "BUF" else ~both & MASK
        waiting = [cell for cell in waiting if cell.net("Y") not in values]
    seen = {("output", port): [values[bit] for bit in bits] for port, bits in netlist.outputs.items()}
    for name, cell in netlist.cells.items():
        for pin in cell.pins if cell.is_macro else ("D",) if cell.is_register else ():
            seen[name, pin] = [values[net] for net in cell.nets(pin)]
    return seen


def conditions(wire_ff: float) -> Conditions:
    return Conditions(SramTiming(218, 50), wire_ff, period=0.5)


@pytest.mark.parametrize("wire_ff", [0.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_sizing_keeps_the_function_and_wins_time(seed: int, wire_ff: float) -> None:
    netlist = random_netlist(seed)
    before = copy.deepcopy(netlist)
    slack = Graph(before, CellLibrary(LIBRARY), conditions(wire_ff)).time()
    found = sizing.optimize(netlist, LIBRARY, conditions(wire_ff))
    assert found > slack + 10
    assert any(cell.type.endswith("x8") for cell in netlist.cells.values())
    assert any(name.startswith("buf_") for name in netlist.cells)
    for vectors in range(3):
        assert simulate(netlist, vectors) == simulate(before, vectors)
    # What the pass believes is what a fresh look at its netlist says.
    assert Graph(netlist, CellLibrary(LIBRARY), conditions(wire_ff)).time() == pytest.approx(found)


def test_what_does_not_help_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing, "_score", lambda graph: 0.0)
    graph = Graph(random_netlist(0), CellLibrary(LIBRARY), conditions(0))
    slack, kinds = graph.time(), graph.kind.copy()
    assert resizing.resize(graph, 10) == slack
    assert (graph.kind == kinds).all()


def test_timing_of_a_chain() -> None:
    netlist = Netlist("kv_asu", inputs={"clk": ["clk"], "a": ["a"]}, outputs={"y": ["y"]})
    netlist.cells["u0"] = Cell("INVx1", {"A": "a", "Y": "n"})
    netlist.cells["u1"] = Cell("INVx2", {"A": "n", "Y": "y"})
    first = delay(1, 0.0, 2 + 3)  # the second one's pin and 3 fF of wire; the slew is the delay in this library
    second = delay(2, first, 3)
    graph = Graph(netlist, CellLibrary(LIBRARY), Conditions(SramTiming(218, 50), 3.0))
    assert graph.time() == pytest.approx(2000 - 200 - 500 - first - second)


def test_timing_from_register_to_register() -> None:
    netlist = Netlist("kv_asu", inputs={"clk": ["clk"]}, outputs={})
    netlist.cells["r"] = Cell("DFFx1", {"CLK": "clk", "D": "q", "Q": "q"})
    out = delay(2, 0.0, 1)
    setup = 11 + 2 * out / 100
    graph = Graph(netlist, CellLibrary(LIBRARY), Conditions(SramTiming(218, 50)))
    assert graph.time() == pytest.approx(2000 - out - setup)


def test_look_up_extrapolates() -> None:
    library = CellLibrary(LIBRARY)
    rows = np.array([library.row[library.number["NAND2x8"], "B"]])
    found = library.look_up(rows, np.full((1, 4), 250.0), np.array([120.0]))
    assert found[0, cells.EDGES.index((1, 0))] == pytest.approx(delay(8, 250, 120))


def test_loop_is_refused() -> None:
    netlist = Netlist("kv_asu", inputs={"clk": ["clk"]}, outputs={})
    netlist.cells["u0"] = Cell("INVx1", {"A": "n", "Y": "n"})
    with pytest.raises(ValueError, match="combinational loop"):
        Graph(netlist, CellLibrary(LIBRARY), conditions(0))


def test_constants_are_no_nets() -> None:
    assert is_constant("1'b0")
    assert "1'b0" not in Graph(random_netlist(0), CellLibrary(LIBRARY), conditions(0)).net
