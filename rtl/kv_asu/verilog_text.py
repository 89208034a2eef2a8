"""From the Verilog that yosys writes to Verilog that reads well: the same nets, said with less."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kv_asu.verilog_expressions import with_expressions
from kv_asu.verilog_processes import with_processes

#: A simulation that defines this macro starts memories from random contents.
RANDOM_MACRO = "KV_ASU_RANDOM_MEMORIES"

_MODULE = re.compile(r"^module (\w+)\((.*?)\);\n(.*?)^endmodule$", re.MULTILINE | re.DOTALL)
_ESCAPED = re.compile(r"\\(\S+) ")
_IDENTIFIER = re.compile(r"(?<!['.\w])[a-zA-Z_]\w*")
_DECLARATION = re.compile(r"^  (input|output|wire|reg) (\[\d+:0\] )?(\w+)( = \S+)?;$")
_ASSIGNMENT = re.compile(r"^  assign (\w+) = (.*);$")
_MEMORY = re.compile(r"^  reg (?:\[(?P<top>\d+):0\] )?(?P<name>\w+) \[(?P<last>\d+):0\];$")
_COLLISIONS = '  (* no_rw_check, rw_addr_collision = "no" *)'  # in yosys' words and in Vivado's
_READ_PORT = re.compile(
    r"^  reg (?:\[\d+:0\] )?(\w+);\n"
    r"  (always_ff @\(posedge \w+\)) begin\n    \1 <= (.*);\n  end\n"
    r"  assign (\w+) = \1;\n", re.MULTILINE)  # fmt: skip
_READ_PORT_WITH_ENABLE = re.compile(
    r"^  reg (?:\[\d+:0\] )?(\w+);\n"
    r"  (always_ff @\(posedge \w+\)) begin\n    (if \(.*\)) begin\n      \1 <= (.*);\n    end\n  end\n"
    r"  assign (\w+) = \1;\n", re.MULTILINE)  # fmt: skip
_WRITE_PORT = re.compile(
    r"^  (always_ff @\(posedge \w+\)) begin\n    (if \(.*\))\n      (.*;)\n  end\n", re.MULTILINE)  # fmt: skip


def tidy(text: str, pins: Sequence[str]) -> str:
    """Every module, with its ports at its head, plain identifiers, and nothing that nobody reads.

    Parameters
    ----------
    text : str
        What ``write_verilog -sv -norename -noattr`` wrote.
    pins : sequence of str
        The order of ports; those not named come as they are.
    """
    text = _with_plain_identifiers(text)
    modules = []
    for name, ports, body in _MODULE.findall(text):
        order = [port.strip() for port in ports.split(",")]
        lines = _with_memory_ports(body).splitlines()
        lines = with_expressions(_without_unread(with_processes(lines), set(order)))
        order.sort(key=lambda port: pins.index(port) if port in pins else len(pins))
        header, lines = _with_ports_in_header(lines, order)
        modules.append("\n".join([f"module {name} (", *header, ");", *_with_memories(lines), "endmodule"]))
    return "\n\n".join(modules) + "\n"


def _with_plain_identifiers(text: str) -> str:
    r"""No ``\escaped `` identifiers: ``a.b[1]`` is a__b_1, ``$7`` is expr7, a keyword gets an underscore."""
    taken = set(_IDENTIFIER.findall(_ESCAPED.sub("", text)))
    plain: dict[str, str] = {}
    for escaped in dict.fromkeys(_ESCAPED.findall(text)):
        name = re.sub(r"^\$(?=\d+$)", "expr", escaped).lstrip("$")
        name = re.sub(r"\W", "_", name.replace(".", "__").replace("]", ""))
        while name in taken or name == escaped:
            name += "_"
        taken.add(name)
        plain[escaped] = name
    return _ESCAPED.sub(lambda match: plain[match[1]], text)


def _with_memory_ports(body: str) -> str:
    """Ports of memories as one statement each; the word read bears the name of the wire it would be assigned to."""
    for *_, word in _READ_PORT.findall(body) + _READ_PORT_WITH_ENABLE.findall(body):
        body = re.sub(rf"^  wire (.*\b{word};)$", r"  reg \1", body, flags=re.MULTILINE)
    body = _READ_PORT.sub(r"  \2\n    \4 <= \3;\n", body)
    body = _READ_PORT_WITH_ENABLE.sub(r"  \2\n    \3 \5 <= \4;\n", body)
    return _WRITE_PORT.sub(r"  \1\n    \2 \3\n", body)


def _without_unread(lines: list[str], ports: set[str]) -> list[str]:
    """Drop the wires that are only ever assigned, and what is assigned to them."""
    while True:
        uses = Counter(name for line in lines for name in set(_IDENTIFIER.findall(line)))
        # Two uses are the declaration and the assignment.
        assigned = {match[1] for line in lines if (match := _ASSIGNMENT.match(line))}
        dead = {name for name in assigned - ports if uses[name] == 2}
        if not dead:
            return lines
        lines = [line for line in lines if _subject(line) not in dead]


def _subject(line: str) -> str | None:
    """What the line declares or assigns."""
    declaration, assignment = _DECLARATION.match(line), _ASSIGNMENT.match(line)
    return declaration[3] if declaration else assignment[1] if assignment else None


def _with_ports_in_header(lines: list[str], order: list[str]) -> tuple[list[str], list[str]]:
    """The lines of the port list, each with direction and width, and the lines left in the body."""
    directions: dict[str, str] = {}
    declared: dict[str, str] = {}
    body = []
    for line in lines:
        match = _DECLARATION.match(line)
        if match and match[1] in ("input", "output"):
            directions[match[3]] = match[1]
        elif match and match[3] in directions:
            declared[match[3]] = f"{match[1]} {match[2] or ''}{match[3]}{match[4] or ''}"
        else:
            body.append(line)
    header = [f"  {directions[port]} {declared[port]}," for port in order]
    header[-1] = header[-1].rstrip(",")
    return header, body


def _with_memories(lines: Iterable[str]) -> Iterator[str]:
    """What tools should know of memories.

    Nothing depends on what a read returns that meets a write to its word, so none has to build what the Verilog says of
    it. They are not cleared by reset, and the core does not mind what they hold, as long as it is not X.
    """
    for line in lines:
        if not (match := _MEMORY.match(line)):
            yield line
            continue
        width, name = int(match["top"] or 0) + 1, match["name"]
        words = (width + 31) // 32
        random = "$urandom" if words == 1 else "{" + ", ".join(["$urandom"] * words) + "}"
        yield _COLLISIONS
        yield line
        yield "`ifndef SYNTHESIS"
        yield f"  initial for (int i = 0; i <= {match['last']}; i++)"
        yield f"`ifdef {RANDOM_MACRO}"
        yield f"    {name}[i] = {width}'({random});"
        yield "`else"
        yield f"    {name}[i] = {width}'d0;"
        yield "`endif"
        yield "`endif"
