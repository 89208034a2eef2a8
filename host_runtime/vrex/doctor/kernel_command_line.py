"""The kernel's command line, read as the kernel reads it, and the line of ``extlinux.conf`` that it comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Words are separated by white space outside double quotes.
_WORD = re.compile(r'(?:"[^"]*(?:"|$)|[^\s"])+')


def words(command_line: str) -> list[str]:
    """The words of a command line, quotes left as they are."""
    return _WORD.findall(command_line)


def _name_and_value(word: str) -> tuple[str, str | None]:
    """A word as name and value, one pair of quotes around the value or the whole removed."""
    if word.startswith('"'):
        word = word[1:].removesuffix('"')
    name, equals, value = word.partition("=")
    if value.startswith('"'):
        value = value[1:].removesuffix('"')
    return _comparable(name), value if equals else None


def _comparable(name: str) -> str:
    return name.replace("-", "_")  # the kernel takes one for the other


def parameter(command_line: str, name: str) -> str | None:
    """The value of a kernel parameter: its last one; what follows ``--`` is not the kernel's.

    Returns
    -------
    str or None
        The value, empty when the parameter is there without one; None when it is not there.
    """
    found = None
    for word in words(command_line):
        if word == "--":
            break
        key, value = _name_and_value(word)
        if key == _comparable(name):
            found = value or ""
    return found


def with_parameters(command_line: str, wanted: dict[str, str]) -> str:
    """The command line with parameters set, each to be found once; everything else stays as it is."""
    ours = {_comparable(name) for name in wanted}
    before = words(command_line)
    after: list[str] = []
    if "--" in before:
        split = before.index("--")
        before, after = before[:split], before[split:]
    kept = [word for word in before if _name_and_value(word)[0] not in ours]
    return " ".join([*kept, *(f"{name}={value}" for name, value in wanted.items()), *after])


@dataclass(frozen=True)
class BootEntry:
    """What ``extlinux.conf`` boots unless somebody chooses: the label, and its APPEND line.

    ``line`` counts from 1 and is None when the entry has no APPEND line; ``start`` is the line up to the arguments.
    """

    label: str
    line: int | None
    start: str
    arguments: str


def default_entry(extlinux: str) -> BootEntry | None:
    """Find the default entry in the text of ``extlinux.conf``; None when there is no entry, or not the default one."""
    default = None
    labels: dict[str, BootEntry] = {}
    label = None
    for number, line in enumerate(extlinux.splitlines(), start=1):
        match = re.match(r"\s*(\w+)\s+(?=\S)", line)
        if match is None:
            continue
        rest = line[match.end() :].rstrip()
        match match[1].upper():
            case "DEFAULT":
                default = rest
            case "LABEL":
                label = rest
                labels.setdefault(label, BootEntry(label, None, "      APPEND ", ""))
            case "APPEND" if label is not None:
                labels[label] = BootEntry(label, number, line[: match.end()], rest)
    if default is not None:
        return labels.get(default)
    return next(iter(labels.values()), None)


def cpu_list(text: str) -> set[int]:
    """Read a list of CPUs as the kernel writes it: ``2-3,5``, with strides like ``0-7:1/2``; empty is none.

    Raises
    ------
    ValueError
        It is no such list.
    """
    cpus: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5})(?::(\d{1,5})/(\d{1,5}))?)?", part)
        if match is None:
            raise ValueError(f"{part!r} is not a CPU or a range of them")
        first, last, used, group = (int(number) if number else None for number in match.groups())
        assert first is not None
        if last is not None and last < first:
            raise ValueError(f"{part!r} ends before it starts")
        if group == 0:
            raise ValueError(f"{part!r} counts in groups of none")
        if group is not None and used is not None and used > group:
            raise ValueError(f"{part!r} takes more than there are in a group")
        for cpu in range(first, (first if last is None else last) + 1):
            if group is None or used is None or (cpu - first) % group < used:
                cpus.add(cpu)
    return cpus


def isolated_by(isolcpus: str) -> set[int]:
    """The CPUs that a value of ``isolcpus`` takes from the scheduler, its leading flags left aside.

    Raises
    ------
    ValueError
        It names no CPUs.
    """
    parts = isolcpus.split(",")
    while parts and parts[0] in ("nohz", "domain", "managed_irq"):
        parts.pop(0)
    return cpu_list(",".join(parts))
