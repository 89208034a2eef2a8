"""Liberty files: load the cells of a corner, merge them for abc, and write the SRAM macros' timing."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kv_asu.errors import ToolError

#: Groups that say nothing about delay; abc and dfflibmap read the file several times faster without them.
_NOT_TIMING = ("internal_power", "leakage_power", "pg_pin", "output_voltage", "input_voltage", "operating_conditions")
_GROUP = re.compile(r"[{}]")
_HEAD = re.compile(r"([A-Za-z_]\w*)\s*\(([^()]*)\)\s*$")


class LibertyError(ToolError):
    """A liberty folder that cannot be used; the message names it and the way out."""


@dataclass(frozen=True)
class SramTiming:
    """Timing of the SRAM macros, in picoseconds.

    Parameters
    ----------
    clk_to_q : float
        From the clock edge to the read data, whatever the load.
    setup : float
        Of address, data and enables before the edge.
    """

    clk_to_q: float
    setup: float


#: What a 1R1W macro of this size is taken to do in each corner.
SRAM_TIMING = {"TT": SramTiming(218, 50), "SS": SramTiming(310, 70)}

#: Femtofarads of a macro's input pin, and picoseconds of its outputs' slew.
SRAM_PIN_FF = 1.0
SRAM_SLEW = 20.0


def load(directory: Path, corner: str) -> list[str]:
    """Read the standard-cell libraries of one corner.

    Parameters
    ----------
    directory : Path
        Folder with ``*_<corner>.lib`` or ``*_<corner>_nldm_*.lib``, as ASAP7's own are called; either also ``.gz``.
    corner : str
        ``TT`` or ``SS``.

    Returns
    -------
    list of str
        The text of every file, in name order.

    Raises
    ------
    LibertyError
        The folder is missing, holds no file of that corner, or one of them cannot be read.
    """
    names = [f"*_{corner}{date}.{end}" for date in ("", "_nldm_*") for end in ("lib", "lib.gz")]
    files = sorted(file for name in names for file in directory.glob(name))
    if not files:
        raise LibertyError(
            f"no liberty file *_{corner}.lib or *_{corner}_nldm_*.lib, or .lib.gz, in {directory}; name their folder; "
            f"docs/timing.md says where they come from"
        )
    texts = []
    for file in files:
        try:
            raw = file.read_bytes()
            texts.append((gzip.decompress(raw) if file.suffix == ".gz" else raw).decode())
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise LibertyError(f"cannot read {file}: {error}") from error
    return texts


def groups(text: str) -> Iterator[tuple[str, str, int, int, int]]:
    """Walk the groups of a liberty text: (kind, argument, depth, start, end), inner groups first."""
    stack: list[tuple[str, str, int]] = []
    previous = 0
    for brace in _GROUP.finditer(text):
        if brace.group() == "{":
            head = _HEAD.search(text, previous, brace.start())
            if head is None:
                raise LibertyError(f"not a liberty group at character {brace.start()}")
            stack.append((head.group(1), head.group(2).strip().strip('"'), head.start()))
        elif stack:
            kind, argument, start = stack.pop()
            yield kind, argument, len(stack), start, brace.end()
        previous = brace.end()
    if stack:
        raise LibertyError(f"group {stack[-1][0]}({stack[-1][1]}) is not closed: the file is truncated")


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def _without(text: str, kinds: Iterable[str]) -> str:
    kinds = set(kinds)
    cuts = sorted((start, end) for kind, _, _, start, end in groups(text) if kind in kinds)
    parts, at = [], 0
    for start, end in cuts:
        if start >= at:
            parts.append(text[at:start])
            at = end
    return "".join([*parts, text[at:]])


def merge(texts: list[str], name: str = "merged", wire_ff: float = 0.0) -> str:
    """Join libraries into one with the delay tables only.

    Parameters
    ----------
    texts : list of str
        Liberty texts with the same units; the first one's header is kept.
    name : str
        Name of the library written.
    wire_ff : float
        Femtofarads of wire per sink, written as the default wire load model.

    Returns
    -------
    str
        One liberty text.

    Raises
    ------
    LibertyError
        One of the texts is no liberty library with anything in it.
    """
    header, bodies = "", []
    templates: dict[tuple[str, str], str] = {}
    for text in texts:
        text = _without(_without_comments(text), _NOT_TIMING)
        cut = [(kind, arg, start, end) for kind, arg, depth, start, end in groups(text) if depth == 1]
        if not cut:
            raise LibertyError("a liberty file without a cell: is it the standard-cell library?")
        if not header:
            header = text[text.index("{") + 1 : min(start for *_, start, _ in cut)]
        for kind, arg, start, end in cut:
            if kind == "cell":
                bodies.append(text[start:end])
            else:
                templates.setdefault((kind, arg), text[start:end])
    wire = wire_load(wire_ff) if wire_ff else ""
    header = re.sub(r"^.*(default_operating_conditions|voltage_map|comment).*$", "", header, flags=re.M)
    merged = "\n".join([f"library ({name}) {{", header, wire, *templates.values(), *bodies, "}", ""])
    return re.sub(r"\n\s*\n+", "\n", merged)


def wire_load(wire_ff: float) -> str:
    """Return a wire load model of ``wire_ff`` femtofarads a sink and no resistance (units of ASAP7: fF)."""
    return f"""wire_load ("per_sink") {{
 resistance : 0; capacitance : {wire_ff}; area : 0; slope : 1; fanout_length (1, 1);
}}
default_wire_load : "per_sink";
default_wire_load_mode : "top";"""


_SRAM_HEADER = """library (sram_macros) {
 delay_model : table_lookup;
 capacitive_load_unit (1, ff); time_unit : "1ps"; voltage_unit : "1V"; current_unit : "1mA";
 pulling_resistance_unit : "1kohm"; leakage_power_unit : "1pW";
 input_threshold_pct_fall : 50; input_threshold_pct_rise : 50;
 output_threshold_pct_fall : 50; output_threshold_pct_rise : 50;
 slew_lower_threshold_pct_fall : 10; slew_lower_threshold_pct_rise : 10;
 slew_upper_threshold_pct_fall : 90; slew_upper_threshold_pct_rise : 90;
 nom_voltage : 0.7; nom_temperature : 25; nom_process : 1;
"""


def sram_name(depth: int, width: int) -> str:
    """Return the cell name of a macro of ``depth`` words of ``width`` bits."""
    return f"sram_{depth}x{width}"


def sram_library(sizes: Iterable[tuple[int, int]], timing: SramTiming) -> str:
    """Write the liberty of 1R1W macros.

    Parameters
    ----------
    sizes : iterable of (int, int)
        Words (a power of two) and bits of each macro.
    timing : SramTiming
        One figure for every macro, independent of load: its output driver is taken to be sized for its wire.

    Returns
    -------
    str
        Liberty text; pins CLK, R_EN, R_ADDR, R_DATA, W_EN, W_ADDR, W_DATA.
    """
    sizes = sorted(set(sizes))
    widths = sorted({width for _, width in sizes} | {depth.bit_length() - 1 for depth, _ in sizes})
    types = [
        f" type (bus{width}) {{ base_type : array; data_type : bit; bit_width : {width}; bit_from : {width - 1}; "
        "bit_to : 0; downto : true; }\n"
        for width in widths
    ]
    return "".join([_SRAM_HEADER, *types, *(_sram_cell(depth, width, timing) for depth, width in sizes), "}\n"])


def _sram_cell(depth: int, width: int, timing: SramTiming) -> str:
    check = _check("setup", timing.setup) + _check("hold", 0)
    read = (
        'timing () { related_pin : "CLK"; timing_type : rising_edge; timing_sense : non_unate; '
        f"cell_rise {_scalar(timing.clk_to_q)} rise_transition {_scalar(SRAM_SLEW)} "
        f"cell_fall {_scalar(timing.clk_to_q)} fall_transition {_scalar(SRAM_SLEW)} }} "
    )
    address = depth.bit_length() - 1
    enables = "".join(
        f"  pin ({pin}) {{ direction : input; capacitance : {SRAM_PIN_FF}; {check}}}\n" for pin in ("R_EN", "W_EN")
    )
    buses = "".join(
        f"  bus ({bus}) {{ bus_type : bus{bits}; direction : input; capacitance : {SRAM_PIN_FF}; {check}}}\n"
        for bus, bits in (("R_ADDR", address), ("W_ADDR", address), ("W_DATA", width))
    )
    return (
        f" cell ({sram_name(depth, width)}) {{\n"
        "  area : 0; dont_use : true; dont_touch : true; is_macro_cell : true;\n"
        "  pin (CLK) { direction : input; clock : true; capacitance : 5; }\n"
        f"{enables}{buses}"
        f"  bus (R_DATA) {{ bus_type : bus{width}; direction : output; {read}}}\n }}\n"
    )


def _scalar(value: float) -> str:
    return f'(scalar) {{ values ("{value}"); }}'


def _check(kind: str, value: float) -> str:
    return (
        f'timing () {{ related_pin : "CLK"; timing_type : {kind}_rising; '
        f"rise_constraint {_scalar(value)} fall_constraint {_scalar(value)} }} "
    )
