"""A bench around config space in a clock of its own, which also counts what reaches the core."""

from __future__ import annotations

from pathlib import Path

from kv_asu.metadata import metadata
from kv_asu.params import Params
from kv_asu.tops import Top
from kv_asu_sim.runner import run_module, seed_from_environment, with_assertions

BENCH = "crossing_bench"

TOP = Top(config_clock=True)

#: Those of `kv_asu_sim.bench_crossing`.
TESTS = ("accesses", "counted", "interrupts", "overrun", "resets")

#: A name, the periods of cfg_clk and clk in ps, and the jitter in percent of a period.
Clocks = tuple[str, int, int, int]


def wrapped(params: Params) -> str:
    """A module ``crossing_bench`` with the pins of ``kv_asu_cdc`` and the number of accesses given to the core."""
    pins = metadata(params, TOP)["pins"]
    ports = ",\n".join(
        [f"  {pin['direction']}put wire [{pin['width'] - 1}:0] {pin['name']}" for pin in pins]
        + [f"  output reg [31:0] given_{kind}s = 32'd0" for kind in ("read", "write")]
    )
    bench = f"""module {BENCH} (
{ports}
);
  {TOP.name} top (.*);
  always @(posedge clk) begin
    if (top.crossing_core_cfg_ext_read_received) given_reads <= given_reads + 1;
    if (top.crossing_core_cfg_ext_write_received) given_writes <= given_writes + 1;
  end
endmodule
"""
    return f"{TOP.verilog(params)}\n{bench}"


def run(
    params: Params,
    simulator: str,
    *,
    clocks: list[Clocks],
    accesses: int,
    resets: int,
    seed: int | None = None,
    text: str | None = None,
) -> Path:
    """Run the tests of `kv_asu_sim.bench_crossing`, the assertions of the contract bound to the core.

    Parameters
    ----------
    params : Params
        The build.
    simulator : str
        "verilator" or "icarus".
    clocks : list of Clocks
        The pairs of clocks to run them at.
    accesses : int
        The length of the tests without resets.
    resets : int
        How many resets in that of resets.
    seed : int, optional
        By default that of the environment, or a random one.
    text : str, optional
        Instead of what `wrapped` gives.

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
    text = with_assertions(wrapped(params) if text is None else text, params, simulator, TOP)
    print(f"{simulator}: {len(clocks)} pairs of clocks, KV_ASU_SEED={seed}", flush=True)
    asked = {"seed": seed, "params": params.asdict(), "clocks": clocks, "accesses": accesses, "resets": resets}
    expected = len(TESTS) * len(clocks)
    return run_module(text, simulator, "kv_asu_sim.bench_crossing", asked, expected=expected, top=BENCH)
