"""Processes the way one writes them, from the way RTLIL has them.

RTLIL has one process for each signal, which sets a default and then what overrides it, and for a register the wire that
holds its next state. Here a process becomes one choice, in which every path assigns once:

::

    always_comb begin                         always_ff @(posedge clk)
      expr1 = kept;                             if (rst) kept <= 8'h7d;
      if (write_strobe) begin                   else if (write_strobe) kept <= merged;
        expr1 = merged;
      end
      if (rst) begin                ─►
        expr1 = 8'h7d;
      end
    end
    always_ff @(posedge clk)
      kept <= expr1;

That is shorter, and no spike of the default reaches those who read the signal: in a simulator that, like Icarus, looks
at whole vectors, two processes that read bits of each other's would wake each other for ever.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from kv_asu.verilog_choices import Choice, Part, Switch, Tangled, Value, settled

#: A branch that assigns is written in one line of at most so many characters.
_LINE = 100

_PROCESS = "  always_comb begin"
_DECLARATION = re.compile(r"^  (?:reg|wire) (?:\[(\d+):0\] )?(\w+)(?: = \S+)?;$")
_NEXT_STATE = re.compile(r"^    (\w+) <= (\w+);$")
_ASSIGNMENT = re.compile(r"(\w+)(?:\[(\d+)(?::(\d+))?\])? = (.*);")
_NOTHING = "/* empty */;"
_IF = re.compile(r"(?:end else )?if \((.*)\) begin")
_CASE = re.compile(r"casez \((.*)\)")
_NAME = re.compile(r"(?<!['.\w])[a-zA-Z_]\w*")


def with_processes(lines: Sequence[str]) -> list[str]:
    """A module's lines with its processes rewritten, and without the wires that only hold next states."""
    items = list(_items(lines))
    widths = {match[2]: int(match[1] or 0) + 1 for line in lines if (match := _DECLARATION.match(line))}
    processes = {_subject(item): item for item in items if item[0] == _PROCESS}
    readers = Counter(name for item in items for name in _mentioned(item) - {_subject(item)})
    next_states = {
        match[2]: match[1]
        for item in items
        if (match := _NEXT_STATE.match(item[-1])) and match[2] in processes and readers[match[2]] == 1
    }
    clocked = {match[2]: item[0] for item in items if (match := _NEXT_STATE.match(item[-1]))}
    written = {}
    for signal, process in processes.items():
        try:
            written[signal] = _process(process, signal, widths[signal], next_states.get(signal), clocked.get(signal))
        except Tangled:
            next_states.pop(signal, None)
            written[signal] = _computed_aside(process, signal, widths[signal], readers)
    result: list[str] = []
    for item in items:
        declaration, next_state = _DECLARATION.match(item[0]), _NEXT_STATE.match(item[-1])
        if next_state and next_state[2] in next_states:
            result += written[next_state[2]]
        elif item[0] == _PROCESS:
            result += [] if _subject(item) in next_states else written[_subject(item)]
        elif not declaration or declaration[2] not in next_states:
            assigned = declaration and written.get(declaration[2], [""])[0].startswith("  assign")
            result += [item[0].replace("reg", "wire", 1)] if assigned else item
    return result


def _items(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines one by one, but each process whole."""
    item: list[str] = []
    for line in lines:
        item.append(line)
        process = item[0].startswith("  always_")
        if not process or line == "  end" or (len(item) == 2 and not item[0].endswith("begin")):
            yield item
            item = []


def _subject(item: Sequence[str]) -> str:
    """The signal that a combinational process drives; empty for anything else."""
    match = _ASSIGNMENT.fullmatch(item[1].strip()) if item[0] == _PROCESS else None
    return match[1] if match else ""


def _mentioned(item: Sequence[str]) -> set[str]:
    return set() if _DECLARATION.match(item[0]) else set(_NAME.findall("\n".join(item)))


def _process(
    process: Sequence[str], signal: str, width: int, register: str | None, clocked: str | None
) -> list[str]:
    """The process of a signal, or of the register whose next state it is, whose process begins with ``clocked``."""
    default, *overrides = _block(iter(process[1:]), width - 1)[0]
    assert isinstance(default, Part)
    if default.text == register:
        default = Part(width - 1, 0, None)
    choice = settled(overrides, Value((default,)))
    if isinstance(choice, Value) and not register:
        return [f"  assign {signal} = {_text(choice)};"]
    head = clocked if register and clocked else "  always_comb"
    lines = _written(choice, register or signal, "<=" if register else "=")
    return [head, *(f"    {line}" for line in lines)]


def _computed_aside(process: Sequence[str], signal: str, width: int, taken: Container[str]) -> list[str]:
    """The process as it is, but on a variable of its own, which is what the signal gets at the end."""
    variable = "result"
    while variable in taken:
        variable += "_"
    body = [re.sub(rf"^( +){signal}(?=\W)", rf"\1{variable}", line) for line in process[1:-1]]
    return [f"  always_comb begin : {signal}_process", f"    logic [{width - 1}:0] {variable};", *body,
            f"    {signal} = {variable};", "  end"]  # fmt: skip


# ---- reading ---------------------------------------------------------------------------------------------------------


def _block(lines: Iterator[str], top: int) -> tuple[list[Part | Switch], str]:
    """The statements of a block, and the line that ends it; ``top`` is the highest bit of the signal."""
    statements: list[Part | Switch] = []
    for line in lines:
        if line.strip().startswith("end"):
            return statements, line.strip()
        statements.append(_statement(line.strip(), lines, top))
    raise AssertionError("a block without end")


def _statement(line: str, lines: Iterator[str], top: int) -> Part | Switch:
    """The statement that this line begins; its other lines are taken from ``lines``."""
    if assignment := _ASSIGNMENT.fullmatch(line):
        high = top if assignment[2] is None else int(assignment[2])
        low = 0 if assignment[2] is None else int(assignment[3] or high)
        return Part(high, low, assignment[4])
    branches: list[tuple[str, list[Part | Switch]]] = []
    if case := _CASE.fullmatch(line):
        for label in lines:
            if label.strip() == "endcase":
                break
            first = next(lines).strip()
            if first == "begin":
                body = _block(lines, top)[0]
            else:
                body = [] if first == _NOTHING else [_statement(first, lines, top)]
            branches.append(("" if label.strip() == "default:" else label.strip().rstrip(":"), body))
        return Switch(case[1], branches)
    while line != "end":
        condition = _IF.fullmatch(line)
        assert condition or line == "end else begin", line
        body, line = _block(lines, top)
        branches.append((condition[1] if condition else "", body))
    return Switch("", branches)


# ---- writing ---------------------------------------------------------------------------------------------------------


def _written(choice: Value | Choice, signal: str, gets: str) -> list[str]:
    """Statements; ``gets`` is ``=`` or ``<=``."""
    if isinstance(choice, Value):
        if choice.held:
            return [f"{signal} {gets} {signal};"]
        if all(part.text for part in choice.parts):
            return [f"{signal} {gets} {_text(choice)};"]
        return [f"{signal}[{part.high}:{part.low}] {gets} {part.text};" for part in choice.parts if part.text]
    bodies = [(label, _written(body, signal, gets)) for label, body in choice.branches]
    if choice.selector:
        wildcards = any("?" in label for label, _ in choice.branches)
        lines = [f"{'casez' if wildcards else 'case'} ({choice.selector})"]
        for label, body in bodies:
            lines += [f"  {line}" for line in _headed(f"{label or 'default'}:", body)]
        return [*lines, "endcase"]
    if isinstance(choice.branches[-1][1], Value) and choice.branches[-1][1].held:
        bodies.pop()
    lines = []
    for label, body in bodies:
        head = f"else if ({label})" if lines and label else f"if ({label})" if label else "else"
        if lines and lines[-1] == "end":
            head = f"{lines.pop()} {head}"
        lines += _headed(head, body)
    return lines


def _headed(head: str, body: list[str]) -> list[str]:
    if len(body) == 1 and not body[0].startswith("if") and len(head) + len(body[0]) < _LINE:
        return [f"{head} {body[0]}"]
    return [f"{head} begin", *(f"  {line}" for line in body), "end"]


def _text(value: Value) -> str:
    texts = [str(part.text) for part in value.parts]
    return texts[0] if len(texts) == 1 else "{ " + ", ".join(texts) + " }"
