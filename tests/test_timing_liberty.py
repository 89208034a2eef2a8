"""Liberty text: merging, the wire load, the SRAM macros, the delay tables read back.

`LIBERTY` is a library small enough to read: inverters, buffers, NANDs in three strengths, and a register. The tests of
the sizing pass use it too.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from kv_asu.timing import cells, liberty

SLEWS = (0.0, 100.0)
LOADS = (0.0, 50.0)
STRENGTHS = (1, 2, 8)


def delay(strength: int, slew: float, load: float) -> float:
    """Picoseconds, linear in both; one part of the delay no strength removes."""
    return 5 + 0.1 * slew + 4 * load / strength


def _table(kind: str, strength: int) -> str:
    rows = ", ".join('"' + ", ".join(str(delay(strength, slew, load)) for load in LOADS) + '"' for slew in SLEWS)
    axes = "".join(f'index_{i} ("{", ".join(map(str, axis))}"); ' for i, axis in ((1, SLEWS), (2, LOADS)))
    return f"{kind} (shared) {{ {axes} values ({rows}); }}\n"


def _timing(pin: str, head: str, strength: int) -> str:
    kinds = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
    tables = "".join(_table(kind, strength) for kind in kinds)
    return f'timing () {{ related_pin : "{pin}"; {head}\n{tables}}}\n'


def _gate(name: str, function: str, inputs: str, sense: str, strength: int) -> str:
    pins = "".join(f"pin ({pin}) {{ direction : input; capacitance : {strength}; }}\n" for pin in inputs)
    arcs = "".join(_timing(pin, f'timing_sense : "{sense}";', strength) for pin in inputs)
    power = 'internal_power () { related_pin : "A"; }'
    return (
        f"cell ({name}x{strength}) {{ area : {strength};\n{pins}"
        f'pin (Y) {{ direction : output; function : "{function}"; {power}\n{arcs}}} }}\n'
    )


def _register() -> str:
    constraints = "".join(
        f'{edge}_constraint (shared) {{ index_1 ("0, 100"); index_2 ("0, 100"); values ("{low}, 0", "{high}, 0"); }}\n'
        for edge, low, high in (("rise", 10, 12), ("fall", 11, 13))
    )
    return (
        "cell (DFFx1) { area : 4; ff (IQ, IQN) { clocked_on : CLK; next_state : D; }\n"
        "pin (CLK) { direction : input; capacitance : 1; }\n"
        f"pin (D) {{ direction : input; capacitance : 1; timing () {{ related_pin : CLK; timing_type : setup_rising;\n"
        f"{constraints}}} }}\n"
        f'pin (Q) {{ direction : output; function : "IQ";\n{_timing("CLK", "timing_type : rising_edge;", 2)}}} }}\n'
    )


def _library() -> str:
    cells = [_register()]
    for strength in STRENGTHS:
        cells += [
            _gate("INV", "!A", "A", "negative_unate", strength),
            _gate("BUF", "A", "A", "positive_unate", strength),
            _gate("NAND2", "!(A & B)", "AB", "negative_unate", strength),
        ]
    return (
        'library (small) {\n/* units of ASAP7 */\ntime_unit : "1ps"; capacitive_load_unit (1, ff);\n'
        "lu_table_template (shared) { variable_1 : input_net_transition; variable_2 : total_output_net_capacitance; "
        'index_1 ("0, 100"); index_2 ("0, 50"); }\n'
        f"{''.join(cells)}}}\n"
    )


LIBERTY = _library()

OTHER = """library (other) {
  time_unit : "1ps"; capacitive_load_unit (1, ff);
  lu_table_template (shared) { variable_1 : input_net_transition; index_1 ("1, 2"); }
  lu_table_template (only_here) { variable_1 : input_net_transition; index_1 ("1, 2"); }
  cell (LAST) { area : 7; pin (A) { direction : input; capacitance : 0.5; } pin (Y) { direction : output; } }
}
"""


def named(text: str, kind: str) -> list[str]:
    return [name for found, name, depth, _, _ in liberty.groups(text) if found == kind and depth == 1]


def test_merge_joins_the_cells_of_all_files() -> None:
    merged = liberty.merge([LIBERTY, OTHER])
    assert named(merged, "cell") == [*named(LIBERTY, "cell"), "LAST"]
    assert sorted(named(merged, "lu_table_template")) == ["only_here", "shared"]
    assert merged.count('time_unit : "1ps"') == 1
    assert len([depth for *_, depth, _, _ in liberty.groups(merged) if depth == 0]) == 1


def test_merge_leaves_out_power_and_comments() -> None:
    assert "internal_power" in LIBERTY
    assert "/*" in LIBERTY
    merged = liberty.merge([LIBERTY])
    assert "internal_power" not in merged
    assert "/*" not in merged


def test_merge_writes_the_wire_load() -> None:
    assert "wire_load" not in liberty.merge([LIBERTY])
    assert 'default_wire_load : "per_sink"' in liberty.merge([LIBERTY], wire_ff=1.5)
    assert "capacitance : 1.5;" in liberty.merge([LIBERTY], wire_ff=1.5)


def test_tables_survive_the_merge() -> None:
    library = cells.read(liberty.merge([LIBERTY], wire_ff=1))
    nand = library["NAND2x2"]
    assert (nand.area, nand.caps, nand.output, nand.function) == (2.0, {"A": 2.0, "B": 2.0}, "Y", "!(A & B)")
    falling = nand.arcs["A"][cells.EDGES.index((0, 1)), 0]  # the input rises
    assert np.allclose(falling, [[delay(2, slew, load) for load in LOADS] for slew in SLEWS])
    assert (nand.arcs["A"][cells.EDGES.index((0, 0))] == cells.NEVER).all()
    register = library["DFFx1"]
    assert register.setup is not None
    assert register.setup.tolist() == [[10, 12], [11, 13]]
    assert list(register.arcs) == ["CLK"]


@pytest.mark.parametrize("corner", ["TT", "SS"])
def test_load_takes_one_corner_packed_or_not(tmp_path: Path, corner: str) -> None:
    for name in ("TT", "SS"):
        (tmp_path / f"a_{name}.lib").write_text(f"plain {name}")
        (tmp_path / f"b_{name}.lib.gz").write_bytes(gzip.compress(f"packed {name}".encode()))
        (tmp_path / f"c_RVT_{name}_nldm_211120.lib").write_text(f"dated {name}")  # as ASAP7's own are called
    assert liberty.load(tmp_path, corner) == [f"plain {corner}", f"packed {corner}", f"dated {corner}"]


def test_load_names_what_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(liberty.LibertyError, match=r"no liberty file \*_TT.lib"):
        liberty.load(tmp_path, "TT")
    (tmp_path / "a_TT.lib.gz").write_bytes(gzip.compress(LIBERTY.encode())[:-20])
    with pytest.raises(liberty.LibertyError, match=r"cannot read .*a_TT\.lib\.gz"):
        liberty.load(tmp_path, "TT")


def test_what_is_no_library() -> None:
    with pytest.raises(liberty.LibertyError, match="truncated"):
        liberty.merge([LIBERTY[: len(LIBERTY) // 2]])
    with pytest.raises(liberty.LibertyError, match="without a cell"):
        liberty.merge(["nothing of the kind"])


def test_sram_library() -> None:
    text = liberty.sram_library({(256, 82), (2048, 22)}, liberty.SramTiming(350, 60))
    assert named(text, "cell") == ["sram_256x82", "sram_2048x22"]
    widths = sorted(int(name.removeprefix("bus")) for name in named(text, "type"))
    assert widths == [8, 11, 22, 82]  # address and data of both
    assert text.count('cell_rise (scalar) { values ("350"); }') == 2
    # Two enables, two addresses and the data written, of both.
    assert text.count('setup_rising; rise_constraint (scalar) { values ("60"); }') == 10
