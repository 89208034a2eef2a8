"""Everything that is made of registers.rdl: ``python -m kv_asu.registers_gen [--check]``.

Without options it writes the generated files of the source tree; with ``--check`` it writes nothing and fails when one
of them is not what it would write. The same source gives the same bytes, anywhere and at any time.

The Markdown, IP-XACT, UVM and C files are PeakRDL's. Its HTML is a folder of scripts and data, so the HTML page, which
people mail and open from disk, is the Markdown page rendered into one file.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from kv_asu.command_line import Parser
from kv_asu.installing import not_installed
from kv_asu.params import Params
from kv_asu.register_types import Access

try:
    from markdown_it import MarkdownIt
    from peakrdl_cheader.c_standards import CStandard
    from peakrdl_cheader.exporter import CHeaderExporter
    from peakrdl_ipxact import IPXACTExporter, Standard
    from peakrdl_markdown import MarkdownExporter
    from peakrdl_uvm import UVMExporter
    from systemrdl.compiler import RDLCompiler
    from systemrdl.messages import RDLCompileError
    from systemrdl.node import AddrmapNode, FieldNode, RegNode
    from systemrdl.rdltypes.builtin_enums import AccessType, OnWriteType
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"registers_gen: {not_installed(error)}")

SOURCE = Path(__file__).with_name("registers.rdl")
ROOT = SOURCE.parents[2]
MADE_BY = "Generated from registers.rdl by `python -m kv_asu.registers_gen`; do not edit."

#: The fields whose enumerations become Python ones, and their names there.
ENUMS = {"CTRL.DECAY": "Decay", "EVICT.STATUS": "VictimStatus", "COUNTER_SELECT.INDEX": "Counter"}


class MapError(Exception):
    """registers.rdl is legal SystemRDL but not a map that the core can have."""


def compile_map(source: Path = SOURCE) -> AddrmapNode:
    """Compile the SystemRDL description.

    Parameters
    ----------
    source : Path
        The SystemRDL file.

    Returns
    -------
    AddrmapNode
        The capability; its registers are elaborated with the default build's values.

    Raises
    ------
    RDLCompileError
        The file is not legal SystemRDL.
    """
    compiler = RDLCompiler()
    compiler.compile_file(str(source))
    return compiler.elaborate().top


def registers(top: AddrmapNode) -> Iterator[RegNode]:
    """Every register, by rising address."""
    for node in top.descendants():
        if isinstance(node, RegNode):
            yield node


def field_path(field: FieldNode) -> str:
    """A field's name in the map: "REGISTER.FIELD"."""
    return f"{field.parent.inst_name}.{field.inst_name}"


def find_field(top: AddrmapNode, path: str) -> FieldNode:
    """The field that ``path`` ("REGISTER.FIELD") names."""
    return next(field for register in registers(top) for field in register.fields() if field_path(field) == path)


def access(field: FieldNode) -> Access:
    """Which of the core's access kinds a field's SystemRDL properties describe.

    Raises
    ------
    MapError
        The core has no such kind of field.
    """
    software = field.get_property("sw")
    if software is AccessType.r:
        return Access.STATUS if field.is_hw_writable else Access.CONSTANT
    if software is AccessType.w and field.get_property("singlepulse"):
        return Access.WRITE_ONE_TO_DO
    if software is AccessType.rw and field.get_property("onwrite") is OnWriteType.woclr:
        return Access.WRITE_ONE_TO_CLEAR
    if software is AccessType.rw and not field.is_hw_writable and field.get_property("onwrite") is None:
        return Access.READ_WRITE
    raise MapError(f"{field_path(field)}: the core has no field of this access kind")


def allowed(field: FieldNode) -> tuple[int | str, int | str] | None:
    """The bounds in a field's ``allowed`` property."""
    text = field.get_property("allowed")
    if text is None:
        return None
    match = re.fullmatch(r"(\w+)\.\.(\w+)", text)
    if match is None:
        raise MapError(f'{field_path(field)}: allowed must read "least..greatest", not {text!r}')
    low, high = (int(bound, 0) if bound[0].isdigit() else bound for bound in match.groups())
    return low, high


def reset(field: FieldNode) -> int:
    """A field's reset value in the default build, 0 when hardware writes it."""
    value = field.get_property("reset")
    return value if isinstance(value, int) else 0


def check(top: AddrmapNode) -> None:
    """Hold the map against the build parameters and the promises of the register page.

    Raises
    ------
    MapError
        A build parameter does not exist or has another default, a default is out of its range, or a
        write-1-to-clear bit shares a register with a read-write one.
    """
    params = Params()
    for register in registers(top):
        kinds = set()
        for field in register.fields():
            path = field_path(field)
            kinds.add(access(field))
            build = field.get_property("build")
            bounds = allowed(field) or ()
            for name in (build, *bounds):
                if isinstance(name, str) and not hasattr(params, name):
                    raise MapError(f"{path}: no build parameter is called {name!r}")
            if build is not None and reset(field) != getattr(params, build):
                raise MapError(f"{path}: reset is {reset(field)}, but the default {build} is {getattr(params, build)}")
            if bounds:
                low, high = (getattr(params, bound) if isinstance(bound, str) else bound for bound in bounds)
                if not low <= reset(field) <= high:
                    raise MapError(f"{path}: reset {reset(field)} is not within {low}..{high}")
        if {Access.READ_WRITE, Access.WRITE_ONE_TO_CLEAR} <= kinds:
            raise MapError(f"{register.inst_name}: write-1-to-clear and read-write bits share a register")


def notes(node: FieldNode | RegNode) -> list[str]:
    """What the properties of a field or a register promise, in sentences for its description."""
    if isinstance(node, RegNode):
        structural = node.get_property("structural")
        return ["Writable only while CTRL.ENABLE is 0; at other times the write is refused."] if structural else []
    sentences = []
    if build := node.get_property("build"):
        fixed = access(node) is Access.CONSTANT
        sentences.append(f"{'Reads' if fixed else 'Resets to'} the build's {build}; {reset(node)} by default.")
    if bounds := allowed(node):
        sentences.append(f"Allowed: {bounds[0]} to {bounds[1]}; a write of any other value is refused.")
    if other := node.get_property("at_least"):
        sentences.append(f"A write of less than {field_path(other)} is refused.")
    if other := node.get_property("at_most"):
        sentences.append(f"A write of more than {field_path(other)} is refused.")
    return sentences


def description(node: FieldNode | RegNode) -> str:
    """The whole description of a field or a register on one line: what registers.rdl says, then the notes."""
    return " ".join([*(node.get_property("desc") or "").split(), *notes(node)])


def complete_descriptions(top: AddrmapNode) -> None:
    """Write notes and enumeration values into the descriptions, for exporters that know no more than those."""
    for register in registers(top):
        nodes: list[FieldNode | RegNode] = [register, *register.fields()]
        for node in nodes:
            text = description(node)
            if isinstance(node, FieldNode) and (encoding := node.get_property("encode")):
                values = "".join(f"[*]{member.value} {member.name}: {_oneline(member.rdl_desc)}" for member in encoding)
                text += f"[list]{values}[/list]"
            node.inst.properties["desc"] = text


def _oneline(text: str) -> str:
    return " ".join(text.split())


def _fill(text: str, indent: str = "", then: str = "") -> str:
    return textwrap.fill(
        text,
        120,
        initial_indent=indent,
        subsequent_indent=indent + then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _docstring(text: str, indent: str) -> str:
    return _fill(f'"""{text}"""', indent)


def _enums(top: AddrmapNode) -> Iterator[str]:
    for path, name in ENUMS.items():
        yield f"\n\nclass {name}(IntEnum):"
        yield f'    """Values of {path}."""\n'
        for member in find_field(top, path).get_property("encode") or ():
            yield f"    {member.name} = {member.value}"
            yield _docstring(_oneline(member.rdl_desc), "    ")


def register_map(top: AddrmapNode) -> str:
    """The gateware's table: :mod:`kv_asu.register_map`."""
    lines = [
        f'"""The register map as data. {MADE_BY}"""',
        "",
        "from enum import IntEnum",
        "",
        "from kv_asu.register_types import Access, Field, Register",
        "",
        "#: Bytes of the capability, headers included.",
        f"WINDOW_BYTES = {_hex(reset(find_field(top, 'VSEC.LENGTH')))}",
        "",
        "#: Where CTRL sits in the capability.",
        f"CTRL_OFFSET = {_hex(find_field(top, 'CTRL.ENABLE').parent.absolute_address)}",
        *_enums(top),
        "",
        "",
        "#: Every register by its name, by rising offset.",
        "REGISTERS = {",
        "    register.name: register",
        "    for register in (",
    ]
    for register in registers(top):
        structural = "structural=True, " if register.get_property("structural") else ""
        lines.append(
            f'        Register("{register.inst_name}", {_hex(register.absolute_address)}, {structural}fields=('
        )
        lines += [_fill(f"Field({_field_arguments(field)}),", " " * 12, " " * 4) for field in register.fields()]
        lines.append("        )),")
    lines += ["    )", "}", ""]
    return "\n".join(lines)


def _field_arguments(field: FieldNode) -> str:
    arguments = [_quoted(field.inst_name), str(field.low), str(field.width), f"Access.{access(field).name}"]
    if reset(field):
        arguments.append(f"reset={_hex(reset(field))}")
    if field.get_property("build"):
        arguments.append(f"build={_quoted(field.get_property('build'))}")
    if bounds := allowed(field):
        arguments.append(f"allowed=({_quoted(bounds[0])}, {_quoted(bounds[1])})")
    for order in ("at_least", "at_most"):
        if other := field.get_property(order):
            arguments.append(f"{order}={_quoted(field_path(other))}")
    return ", ".join(arguments)


def _quoted(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _hex(value: int) -> str:
    return f"0x{value:02X}"


_HOST_BASE = '''
class Field:
    """Where a field sits in its register, and how it is accessed."""

    __slots__ = ("access", "low", "name", "reset", "width")

    def __init__(self, name: str, low: int, width: int, access: str, reset: int) -> None:
        self.name = name
        self.low = low
        self.width = width
        self.access = access
        self.reset = reset


class Register(int):
    """A register's value: an integer whose fields are attributes."""

    NAME: str
    #: Bytes from CTRL, which sits 8 bytes above the capability's header.
    OFFSET: int
    #: Writable only while CTRL.ENABLE is 0.
    STRUCTURAL = False
    #: By their names in lower case, which are the attributes' names.
    FIELDS: dict[str, Field]

    @classmethod
    def of(cls, **fields: int) -> Self:
        """The register with ``fields`` as given and every other bit 0.

        Raises
        ------
        TypeError
            There is no such field.
        ValueError
            A value does not fit its field.
        """
        return cls(0).replace(**fields)

    def replace(self, **fields: int) -> Self:
        """This value with ``fields`` changed; raises as :meth:`of` does."""
        word = int(self)
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise TypeError(f"{self.NAME} has no field {name!r}, only {', '.join(self.FIELDS)}")
            field = self.FIELDS[name]
            most = (1 << field.width) - 1
            if not 0 <= value <= most:
                raise ValueError(f"{self.NAME}.{field.name} must be 0 to {most}, not {value!r}")
            word = word & ~(most << field.low) | value << field.low
        return type(self)(word)

    def fields(self) -> dict[str, int]:
        """Every field's value by its name, from the least significant on."""
        return {field.name: self >> field.low & (1 << field.width) - 1 for field in self.FIELDS.values()}

    def __repr__(self) -> str:
        return f"{self.NAME} {self:#010x} ({', '.join(f'{name} {value:#x}' for name, value in self.fields().items())})"
'''


def host_registers(top: AddrmapNode) -> str:
    """The host's register classes: :mod:`vrex.registers`."""
    ctrl = find_field(top, "CTRL.ENABLE").parent.absolute_address
    lines = [
        f'"""The KV-ASU\'s registers, for host code.\n\n{MADE_BY}\n"""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "",
        "TYPE_CHECKING = False  # what typing says to a type checker; importing that takes longer than all of this",
        "if TYPE_CHECKING:",
        "    from typing import Self",
        "",
        "#: Bytes of the capability, headers included.",
        f"WINDOW_BYTES = {_hex(reset(find_field(top, 'VSEC.LENGTH')))}",
        "",
        "#: Where CTRL sits in the capability.",
        f"CTRL_OFFSET = {_hex(ctrl)}",
        "",
        "#: What ID.MAGIC reads, and the versions of the register map that this file describes.",
        f"MAGIC = {_hex(reset(find_field(top, 'ID.MAGIC')))}",
        f"MAJOR = {reset(find_field(top, 'ID.MAJOR'))}",
        f"MINOR = {reset(find_field(top, 'ID.MINOR'))}",
        *_enums(top),
        "",
        _HOST_BASE.rstrip(),
    ]
    for register in registers(top):
        lines += [
            f"\n\nclass {_camel(register.inst_name)}(Register):",
            _docstring(f"{register.get_property('name')}. {description(register)}", "    "),
            "",
            f'    NAME = "{register.inst_name}"',
            f"    OFFSET = {_signed_hex(register.absolute_address - ctrl)}",
        ]
        if register.get_property("structural"):
            lines.append("    STRUCTURAL = True")
        lines.append("    FIELDS = {")
        for field in register.fields():
            entry = f'"{field.inst_name}", {field.low}, {field.width}, "{access(field).value}", {_hex(reset(field))}'
            lines.append(f'        "{field.inst_name.lower()}": Field({entry}),')
        lines.append("    }")
        for field in register.fields():
            kind = ENUMS.get(field_path(field), "bool" if field.width == 1 else "int")
            shifted = f"self >> {field.low}" if field.low else "self"
            lines += [
                "",
                "    @property",
                f"    def {field.inst_name.lower()}(self) -> {kind}:",
                _docstring(description(field), "        "),
                f"        return {kind}({shifted} & 0x{(1 << field.width) - 1:X})",
            ]
    names = ", ".join(_camel(register.inst_name) for register in registers(top))
    lines += [
        "",
        "",
        "#: Every register by its name, by rising offset.",
        "REGISTERS: dict[str, type[Register]] = {",
        "    register.NAME: register",
        "    for register in (",
        _fill(f"{names},", " " * 8),
        "    )",
        "}",
        "",
    ]
    return "\n".join(lines)


def _camel(name: str) -> str:
    return name.title().replace("_", "")


def _signed_hex(value: int) -> str:
    return f"{'-' if value < 0 else ''}{_hex(abs(value))}"


def _exported(export: Callable[[str], None], name: str) -> str:
    """What an exporter that writes files would write into one called ``name``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        export(str(path))
        return path.read_text(encoding="utf-8").rstrip() + "\n"


def c_header(top: AddrmapNode) -> str:
    """Offsets, masks and positions for C."""

    def export(path: str) -> None:
        # Names by place, not by type: registers that look alike still get their own.
        CHeaderExporter().export(top, path, std=CStandard.gnu11, reuse_typedefs=False)

    return f"// {MADE_BY}\n{_exported(export, 'kv_asu_regs.h')}"


def ip_xact(top: AddrmapNode) -> str:
    """IP-XACT (IEEE 1685-2014) for register tools."""
    version = f"{reset(find_field(top, 'ID.MAJOR'))}.{reset(find_field(top, 'ID.MINOR'))}"
    exporter = IPXACTExporter(vendor="v-rex", library="kv_asu", version=version, standard=Standard.IEEE_1685_2014)
    return _exported(lambda path: exporter.export(top, path), "kv_asu.xml")


def uvm_package(top: AddrmapNode) -> str:
    """The register model for UVM benches, as a package; the default build's reset values."""
    text = _exported(lambda path: UVMExporter().export(top, path), "kv_asu_ral_pkg.sv")
    body = text.partition("\npackage ")[2]  # below the exporter's own comment
    return f"// {MADE_BY}\npackage {body}"


def markdown_page(top: AddrmapNode) -> str:
    """The register page."""
    text = _exported(lambda path: MarkdownExporter().export(top, path), "registers.md")
    body = text.partition("-->")[2].strip()  # the comment names the source by its path on this machine
    # There is no address but config space's, and there the capability sits where a board puts it.
    body = body.replace("- Absolute Address:", "- From the capability:").replace("- Base Offset:", "- From its block:")
    return f"<!-- {MADE_BY} -->\n\n# KV-ASU registers\n\n{body}\n"


def html_page(top: AddrmapNode) -> str:
    """The register page as one HTML file."""
    body = MarkdownIt("commonmark").enable("table").render(markdown_page(top).partition("-->")[2].strip())
    return _HTML.format(made_by=MADE_BY, body=body)


_HTML = """<!DOCTYPE html>
<!-- {made_by} -->
<html lang="en">
<head>
<meta charset="utf-8">
<title>KV-ASU registers</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ border: 1px solid #bbb; padding: .2em .7em; text-align: left; }}
th {{ background: #eee; }}
h2, h3 {{ border-bottom: 1px solid #ccc; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""

#: Every generated file of the source tree, and what makes it. Those below the gateware's table and the host's classes
#: want complete descriptions.
PYTHON_FILES: dict[str, Callable[[AddrmapNode], str]] = {
    "rtl/kv_asu/register_map.py": register_map,
    "host_runtime/vrex/registers.py": host_registers,
}
EXPORTED_FILES: dict[str, Callable[[AddrmapNode], str]] = {
    "firmware_model/include/kv_asu_regs.h": c_header,
    "docs/registers.md": markdown_page,
    "docs/registers.html": html_page,
    "docs/kv_asu.xml": ip_xact,
    "docs/kv_asu_ral_pkg.sv": uvm_package,
}


def generate(source: Path = SOURCE) -> dict[str, str]:
    """Make every generated file.

    Returns
    -------
    dict of str to str
        Contents by path from the root of the source tree.

    Raises
    ------
    RDLCompileError, MapError
        The source is not legal SystemRDL, or not a map that the core can have.
    """
    top = compile_map(source)
    check(top)
    files = {path: make(top) for path, make in PYTHON_FILES.items()}
    complete_descriptions(top)
    return files | {path: make(top) for path, make in EXPORTED_FILES.items()}


def stale(files: dict[str, str], root: Path) -> list[str]:
    """The paths under ``root`` whose contents are not those in ``files``."""

    def current(path: str) -> str | None:
        file = root / path
        return file.read_text(encoding="utf-8") if file.is_file() else None

    return [path for path, text in files.items() if current(path) != text]


def write(path: Path, text: str) -> None:
    """Replace a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def main(arguments: list[str] | None = None, *, source: Path = SOURCE, root: Path = ROOT) -> int:
    """The command; returns its exit code."""
    parser = Parser("python -m kv_asu.registers_gen", "Generate the register files.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a generated file is stale")
    options = parser.parse_args(arguments)
    if not (root / "pyproject.toml").is_file():
        print(f"{root} is not the source tree: run this from a checkout", file=sys.stderr)
        return 1

    def job() -> int:
        try:
            files = generate(source)
        except (RDLCompileError, MapError) as error:
            print(f"{source.name}: {error}", file=sys.stderr)
            return 1
        outdated = stale(files, root)
        for path in outdated:
            if options.check:
                print(f"{path} is stale: run python -m kv_asu.registers_gen", file=sys.stderr)
            else:
                write(root / path, files[path])
                print(f"wrote {path}")
        return 1 if options.check and outdated else 0

    return parser.run(job)


if __name__ == "__main__":
    sys.exit(main())
