"""The AXI4 snooper in a bench: a bus for cocotbext-axi to drive, and a model of the lines that a burst covers.

The model goes through a burst byte by byte, as the AXI specification has it (A3.4.1), and knows nothing of how the
gateware finds the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kv_asu.metadata import metadata
from kv_asu.params import LINE_BITS, Params
from kv_asu.tops import Top
from kv_asu_sim.runner import run_module, seed_from_environment, with_assertions

BENCH = "axi_bench"

FIXED, INCR, WRAP = range(3)

_PAGE = 1 << 12

#: What the bus has beside the signals that the snooper listens to: (name, width in bits, or in terms of the bus).
_OTHERS: tuple[tuple[str, int | str], ...] = (
    ("awid", "id"),
    ("wdata", "data"),
    ("wstrb", "strobe"),
    ("wlast", 1),
    ("wvalid", 1),
    ("wready", 1),
    ("bid", "id"),
    ("bresp", 2),
    ("bvalid", 1),
    ("bready", 1),
    ("arid", "id"),
    ("rid", "id"),
    ("rdata", "data"),
    ("rresp", 2),
    ("rlast", 1),
    ("rvalid", 1),
    ("rready", 1),
)


@dataclass(frozen=True)
class Burst:
    """What an address channel says."""

    address: int
    length: int  # AxLEN: beats less one
    size: int
    kind: int

    def bytes(self) -> Iterator[int]:
        """The addresses of its bytes, in order; a narrow or unaligned beat has fewer of them."""
        number_bytes = 1 << self.size
        beats = self.length + 1
        aligned = self.address // number_bytes * number_bytes
        wrap_boundary = self.address // (number_bytes * beats) * (number_bytes * beats)
        for beat in range(beats):
            start = aligned + beat * number_bytes
            if self.kind == FIXED:
                start = aligned
            elif self.kind == WRAP and start >= wrap_boundary + number_bytes * beats:
                start -= number_bytes * beats
            first = self.address if beat == 0 or self.kind == FIXED else start
            yield from range(first, start + number_bytes)

    def lines(self) -> list[int]:
        """The line numbers that it covers, each once, in the order in which it comes to them; only those of the page in
        which it starts.
        """
        page = self.address // _PAGE
        return list(dict.fromkeys(byte >> LINE_BITS for byte in self.bytes() if byte // _PAGE == page))


def wrapped(params: Params, top: Top, data_width: int, id_width: int) -> str:
    """A module ``axi_bench`` that has all signals of an AXI4 bus as its ports, around the Verilog of a top."""
    widths = {"id": id_width, "data": data_width, "strobe": data_width // 8}
    ports = [f"  input wire [{(widths[width] if isinstance(width, str) else width) - 1}:0] axi_{name}"
             for name, width in _OTHERS]  # fmt: skip
    for pin in metadata(params, top)["pins"]:
        ports.append(f"  {pin['direction']}put wire [{pin['width'] - 1}:0] {pin['name']}")
    ports_text = ",\n".join(ports)
    bench = f"module {BENCH} (\n{ports_text}\n);\n  {top.name} top (.*);\nendmodule\n"
    return f"{top.verilog(params)}\n{bench}"


def run(
    params: Params,
    simulator: str,
    test: str,
    *,
    top: Top,
    data_width: int = 64,
    seed: int | None = None,
    bursts: int = 200,
) -> Path:
    """Run one of the tests in `kv_asu_sim.bench_axi`, the assertions of the contract bound to the core.

    Parameters
    ----------
    params : Params
        The build; its addresses are the bus's.
    simulator : str
        "verilator" or "icarus".
    test : str
        The test's name.
    top : Top
        What is built.
    data_width : int
        Bits of the data bus.
    seed : int, optional
        By default that of the environment, or a random one.
    bursts : int
        How many.

    Returns
    -------
    Path
        The folder with the log and the results.

    Raises
    ------
    SimulatorMissing, BenchFailed
        As `kv_asu_sim.runner.run`.
    """
    seed = seed_from_environment() if seed is None else seed
    text = with_assertions(wrapped(params, top, data_width, id_width=4), params, simulator, top)
    asked = {"test": test, "seed": seed, "bursts": bursts, "params": params.asdict(), "queue_depth": top.queue_depth}
    print(f"{simulator}: {test}, {bursts} bursts, KV_ASU_SEED={seed}", flush=True)
    return run_module(text, simulator, "kv_asu_sim.bench_axi", asked, top=BENCH)


def in_region(address: int, base: int, mask: int) -> bool:
    """Whether the snooper listens for an address."""
    return (address // _PAGE ^ base) & mask == 0


def served(groups: Sequence[Sequence[int]], seen: Sequence[int]) -> int | None:
    """Lines that are missing in ``seen``, which is otherwise the groups one after the other; None if it is not.

    A group is there whole or not at all. Groups of equal lines next to each other make no difference.
    """
    missing = position = 0
    for group in groups:
        if list(seen[position : position + len(group)]) == list(group):
            position += len(group)
        else:
            missing += len(group)
    return missing if position == len(seen) else None


def pins_of(bus: Any, channel: str) -> Burst | None:
    """The burst handed over on a channel, ``ar`` or ``aw``, in this clock."""

    def value(name: str) -> int:
        return int(getattr(bus, f"axi_{channel}{name}").value)

    if not (value("valid") and value("ready")):
        return None
    return Burst(value("addr"), value("len"), value("size"), value("burst"))
