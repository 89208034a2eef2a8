"""Pack what a hardware project takes: ``make release`` writes dist/kv_asu-VERSION.tar.gz and the folder it is made of.

The same sources give the same bytes: no dates, no names of machines or people.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path

from kv_asu import PROFILES, __version__, assertions, crossing_constraints
from kv_asu.metadata import metadata
from kv_asu.tops import Top

ROOT = Path(__file__).parents[1]
NAME = f"kv_asu-{__version__}"

#: Files of the source tree, and the folder each goes to.
COPIED = {
    "LICENSE": ".",
    "CHANGELOG.md": ".",
    "rtl/kv_asu/verilator.vlt": "lint",
    "rtl/kv_asu/registers.rdl": "registers",
    "docs/integration.md": "docs",
    "docs/assertions.md": "docs",
    "docs/axi_snooper.md": "docs",
    "docs/clock_crossing.md": "docs",
    "docs/programmers_guide.md": "docs",
    "docs/theory_of_operation.md": "docs",
    "docs/glossary.md": "docs",
    "docs/registers.md": "registers",
    "docs/registers.html": "registers",
    "docs/kv_asu.xml": "registers",
    "docs/kv_asu_ral_pkg.sv": "registers",
    "host_runtime/vrex/registers.py": "registers",
    "firmware_model/include/kv_asu_regs.h": "include",
    "firmware_model/include/kv_asu_retrieve.h": "include",
    "examples/verilog_project/kv_asu.sdc": "constraints",
    "examples/verilog_project/kv_asu.xdc": "constraints",
}

_README = f"""# KV-ASU {__version__}

| folder | |
|---|---|
| `rtl/asic`, `rtl/fpga` | the core in either profile, its metadata, assertions to bind |
| `rtl/asic_function`, `rtl/fpga_function` | the same with a whole PCI function's config space around it |
| `rtl/asic_axi`, `rtl/fpga_axi` | the same with a listener at an AXI4 bus, `kv_asu_axi`: `docs/axi_snooper.md` |
| `rtl/asic_cdc`, `rtl/fpga_cdc` | the same with a clock of its own for config space, `kv_asu_cdc`, and constraints: \
`docs/clock_crossing.md` |
| `docs` | begin with `integration.md`; pages that it links and that are not here are the project's |
| `registers` | the SystemRDL source and what is generated from it: pages, IP-XACT, UVM, Python |
| `include` | C headers: registers, and the NV_KV_RETRIEVE call |
| `constraints` | SDC and XDC to start from, for the core alone |
| `lint` | Verilator waivers, each with its reason |
| `kv_asu.core` | FuseSoC: `v-rex:memory:kv_asu`, of the fpga profile unless the flag `asic` is set; target `lint` |

The files are SystemVerilog: `iverilog -g2012 -s kv_asu rtl/asic/kv_asu.sv`, `read_verilog -sv` in yosys and Vivado.
What is new in {__version__} is under the topmost heading of `CHANGELOG.md`, called Unreleased until it has a date.

`SHA256SUMS` is for `sha256sum -c`. Other sizes and addresses: `kv-asu verilog` of the project.
"""

_CORE = f"""CAPI=2:
name: v-rex:memory:kv_asu:{__version__}
description: KV-ASU, finds the hot and the cold lines of a KV cache from the memory controller's requests

filesets:
  asic:
    files: [rtl/asic/kv_asu.sv]
    file_type: systemVerilogSource
  fpga:
    files: [rtl/fpga/kv_asu.sv]
    file_type: systemVerilogSource
  lint:
    files:
      - lint/verilator.vlt: {{file_type: vlt}}

targets:
  default:
    filesets: ["asic ? (asic)", "!asic ? (fpga)"]
    toplevel: kv_asu
  lint:
    filesets: [lint, asic]
    toplevel: kv_asu
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
"""


#: What is around the core, by the ending of its folder.
TOPS = {
    "": Top(),
    "_function": Top(full_config_space=True),
    "_axi": Top(axi=True),
    "_cdc": Top(config_clock=True),
}


def gateware() -> dict[str, str]:
    """Every generated file by its place."""
    files = {}
    for profile, params_of in PROFILES.items():
        params = params_of()
        for ending, top in TOPS.items():
            folder = f"rtl/{profile}{ending}"
            print(f"... {folder}", file=sys.stderr, flush=True)
            place = f"{folder}/{top.name}"
            files[f"{place}.sv"] = top.verilog(params)
            files[f"{place}.json"] = json.dumps(metadata(params, top), indent=2) + "\n"
            files[f"{place}_assertions.sv"] = assertions.emit(params, top)
            if top.config_clock:
                files[f"{place}.sdc"] = crossing_constraints.sdc(top.name)
                files[f"{place}.xdc"] = crossing_constraints.xdc(top.name)
    return files


def pack(dist: Path) -> Path:
    """Write the folder and the archive; returns the archive's path.

    Parameters
    ----------
    dist : Path
        Where both go; an older release of this version is replaced.
    """
    folder = dist / NAME
    shutil.rmtree(folder, ignore_errors=True)
    files = {"README.md": _README, "kv_asu.core": _CORE, **gateware()}
    for source, place in COPIED.items():
        files[str(Path(place, Path(source).name))] = (ROOT / source).read_text(encoding="utf-8")
    sums = "".join(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items()))
    for name, text in {**files, "SHA256SUMS": sums}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    archive = dist / f"{NAME}.tar.gz"
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(dist), recursive=False, filter=_nobodys)
    return archive


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


if __name__ == "__main__":
    print(pack(ROOT / "dist"))
