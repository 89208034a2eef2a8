"""Traces from CSV: tables of accesses, and what logic analysers export.

A file begins with comments (lines that begin with ``;``, ``#`` or ``//``), then a header, then perhaps a row of
radices, as Vivado's ILA writes it. The separator is a comma, a semicolon or a tab. Columns are named by the header, or
by their number from 1. What is needed:

- *an address* (or a line number): one column, or one of each bit, ``D0..D31`` from the least significant on. Numbers
  with 0x or 32'h before them, or an h behind, are hexadecimal; others as the row of radices says, or the caller.
- *a time*, whose unit stands in the header (``Time [s]``, ``nanoseconds``, ``time_ns``) or is given. Without any, rows
  are one period apart. Times before a trigger are negative; then the first row is moved to 0.
- *valid*, perhaps: rows count where all such columns are 1. With a *clock*, only rows count in which it has risen.

Columns frame, layer, head and tile are taken over where they exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from kv_asu.params import LINE_BITS
from vrex.files import check_not_source
from vrex.trace.format import Progress, TraceError, TraceMetadata, no_progress, write_trace

#: Nanoseconds of each unit of time.
UNITS = {"ps": 0.001, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

#: Accesses of one nanosecond follow each other a clock of the core apart.
STEP_NS = 2

#: More than a century; beyond it, sums would no longer fit 63 bits.
_MOST_NS = float(1 << 62)

_COMMENTS = (";", "#", "//")
_SEPARATORS = ",;\t"
_HEAD_BYTES = 1 << 16
_LONG_UNITS = {
    "seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns", "picoseconds": "ps",
}  # fmt: skip
_TIME = re.compile(r"(?:time|timestamp|start_time|t)[\s_]*[\[(]?(ps|ns|us|µs|ms|s)?[\])]?", re.IGNORECASE)
_ADDRESS = ("address", "addr", "araddr", "line")
_VALID = ("valid", "arvalid")
_OWNERS = ("frame", "layer", "head", "tile")
_NUMBER = re.compile(r"(?:0x|[0-9]*'h)([0-9a-f_]+)|([0-9a-f_]+)h", re.IGNORECASE)
_TRUE, _FALSE = {"1", "true", "high", "h"}, {"0", "false", "low", "l", "x", "z", "u", ""}


@dataclass(frozen=True)
class Columns:
    """Which columns are what; what is not given is found by its name.

    Parameters
    ----------
    address : str, optional
        A column, or "first..last" for one of each bit, the least significant first.
    time : str, optional
    valid : tuple of str
    clock : str, optional
    time_unit : str, optional
        A key of `UNITS`, where the header does not tell.
    period_ns : float, optional
        From row to row, in files without times.
    radix : int
        Of numbers that do not say theirs: 10 or 16.
    """

    address: str | None = None
    time: str | None = None
    valid: tuple[str, ...] = ()
    clock: str | None = None
    time_unit: str | None = None
    period_ns: float | None = None
    radix: int = 10


@dataclass
class _Head:
    """The beginning of a file: its separator, its columns, where its rows begin, and radices where they are told."""

    separator: str
    names: list[str]
    skip: int
    radices: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Layout:
    """Columns by their index."""

    address: list[int]
    radix: int
    is_line: bool
    time: int | None
    unit_ns: float
    valid: list[int]
    clock: int | None
    owners: dict[str, int]

    @property
    def wanted(self) -> list[int]:
        """All of them."""
        single = [index for index in (self.time, self.clock) if index is not None]
        return sorted({*self.address, *self.valid, *self.owners.values(), *single})


def import_csv(
    source: Path, output: Path, columns: Columns | None = None, progress: Progress = no_progress
) -> TraceMetadata:
    """Read a CSV file into a trace; memory stays bounded.

    Parameters
    ----------
    source, output : Path
    columns : Columns, optional
    progress : callable
        Told the bytes read, and how many there are.

    Returns
    -------
    TraceMetadata
        As written.

    Raises
    ------
    VrexError
        The source is missing or is no such file, a column is not there, a value makes no sense (with its row), times
        run backwards, or the output cannot be written.
    """
    columns = columns or Columns()
    check_not_source(output, source)
    head = _head(source)
    layout = _layout(source, head, columns)
    what = (
        "Imported from CSV: " + ("line numbers" if layout.is_line else "addresses") + " as they stand there; "
        "accesses that would meet in a clock of the core follow each other a clock apart."
    )
    named = {"address": [head.names[index] for index in layout.address], "rows": 0, "time_moved_ns": 0}
    made: dict[str, Any] = {"imported": source.name, **named}
    timing = {"name": "imported", "clock_ns": STEP_NS}
    rows, earliest, moved, clock_was = 0, 0, None, 1
    last = -np.inf
    total = source.stat().st_size
    with write_trace(output, TraceMetadata(what, None, made, timing)) as writer:
        for cells, done in _cells(source, head, layout.wanted):
            reader = _Reader(source, head, cells, rows)
            is_access = np.ones(reader.count, bool)
            for index in layout.valid:
                is_access &= reader.bits(index) == 1
            if layout.clock is not None:
                level = reader.bits(layout.clock)
                is_access &= (level == 1) & (np.r_[clock_was, level[:-1]] == 0)
                clock_was = int(level[-1])
            if layout.time is None:
                times = (rows + np.arange(reader.count)) * layout.unit_ns
            else:
                times = reader.times(layout.time, layout.unit_ns)
                backwards = np.flatnonzero(np.diff(times, prepend=last) < 0)
                if len(backwards):
                    raise TraceError(f"{reader.where(int(backwards[0]))}: times run backwards; sort the rows by time")
                last = times[-1]
            if moved is None:
                moved = max(0.0, -float(times[0]))
                made["time_moved_ns"] = round(moved)
            chosen = np.flatnonzero(is_access)
            rows += reader.count
            made["rows"] = rows
            progress(done, total)
            if not len(chosen):
                continue
            number = reader.numbers(layout, chosen)
            line = number if layout.is_line else number >> np.uint64(LINE_BITS)
            spacing = np.arange(len(chosen), dtype=np.int64) * STEP_NS
            base = np.maximum(np.round(times[chosen] + moved).astype(np.int64), earliest)
            asked = np.maximum.accumulate(base - spacing) + spacing
            earliest = int(asked[-1]) + STEP_NS
            frame, layer, head_number, tile = (reader.owner(layout.owners.get(name), name, chosen) for name in _OWNERS)
            writer.append(frame, layer, head_number, tile, line, asked.astype(np.uint64))
        if not writer.metadata.accesses:
            if not rows:
                raise TraceError(f"{source}: has a header and no rows; export it again")
            deciding = [*layout.valid, *([] if layout.clock is None else [layout.clock])]
            names = ", ".join(head.names[index] for index in deciding)
            raise TraceError(f"{source}: none of its {rows:,} rows is an access by {names}; name other columns")
    return writer.metadata


class _Reader:
    """A batch of rows: cells as text, columns as numbers, and where each row is in the file."""

    def __init__(self, source: Path, head: _Head, cells: dict[int, list[str]], before: int) -> None:
        self._source, self._head, self._cells = source, head, cells
        self._before = before
        self.count = len(next(iter(cells.values())))

    def where(self, row: int) -> str:
        """A row, by its line in the file."""
        return f"{self._source}, line {self._head.skip + self._before + row + 1}"

    def bits(self, index: int) -> npt.NDArray[np.int8]:
        """A column of 0 and 1."""
        texts = self._cells[index]
        known = {text: self._bit(text.strip().lower()) for text in set(texts)}
        levels = np.array([known[text] for text in texts], np.int8)
        if (levels < 0).any():
            self._refuse(int(np.argmax(levels < 0)), index, "is neither 0 nor 1")
        return levels

    @staticmethod
    def _bit(text: str) -> int:
        return 1 if text in _TRUE else 0 if text in _FALSE else -1

    def times(self, index: int, unit_ns: float) -> npt.NDArray[np.float64]:
        """A column of times, in nanoseconds."""
        texts = self._cells[index]
        try:
            times = np.array(texts, np.float64)
        except ValueError:
            self._refuse(self._first(texts, float), index, "is no time")
        possible = np.abs(times) < _MOST_NS / unit_ns
        if not possible.all():  # a number that is none, or too large
            self._refuse(int(np.argmin(possible)), index, "is no time")
        return times * unit_ns

    def numbers(self, layout: _Layout, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Addresses, or line numbers, of chosen rows."""
        if len(layout.address) > 1:
            number = np.zeros(len(chosen), np.uint64)
            for place, index in enumerate(layout.address):
                number |= self.bits(index)[chosen].astype(np.uint64) << np.uint64(place)
            return number
        index = layout.address[0]
        most = 64 - LINE_BITS * layout.is_line
        return self._integers(index, chosen, most, layout.radix, "address")

    def owner(self, index: int | None, name: str, chosen: npt.NDArray[np.int64]) -> npt.ArrayLike:
        """A frame, layer, head or tile, of chosen rows; 0 where there is no such column."""
        return 0 if index is None else self._integers(index, chosen, 32 if name == "frame" else 16, 10, name)

    def _integers(
        self, index: int, chosen: npt.NDArray[np.int64], bits: int, radix: int, what: str
    ) -> npt.NDArray[np.uint64]:
        texts = self._cells[index]

        def parse(text: str) -> int:
            value = _number(text, radix)
            if value >> bits:
                raise ValueError
            return value

        try:
            return np.array([parse(texts[row]) for row in chosen.tolist()], np.uint64)
        except ValueError:
            row = int(chosen[self._first([texts[row] for row in chosen.tolist()], parse)])
            hint = "; --radix 16 reads hexadecimal ones" if radix == 10 and what == "address" else ""
            self._refuse(row, index, f"is no {what} of {bits} bits, to base {radix}{hint}")

    @staticmethod
    def _first(texts: Sequence[str], parse: Callable[[str], object]) -> int:
        """The first text that cannot be parsed."""
        for row, text in enumerate(texts):
            try:
                parse(text)
            except ValueError:
                return row
        raise AssertionError("all of them can be")

    def _refuse(self, row: int, index: int, why: str) -> NoReturn:
        text = self._cells[index][row]
        raise TraceError(f"{self.where(row)}: {self._head.names[index]} {text[:40]!r} {why}")


def _number(text: str, radix: int) -> int:
    """An unsigned number; raises ValueError."""
    text = text.strip()
    if match := _NUMBER.fullmatch(text):
        return int(match[1] or match[2], 16)
    if not text[:1].isalnum():  # int() would take a sign
        raise ValueError
    return int(text, radix)


def _head(source: Path) -> _Head:
    try:
        with open(source, "rb") as file:
            beginning = file.read(_HEAD_BYTES)
    except OSError as error:
        raise TraceError(f"{source}: cannot be read ({error.strerror}); give a CSV file") from None
    try:
        text = beginning.decode("utf-8-sig", "strict" if len(beginning) < _HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise TraceError(f"{source}: is no text in UTF-8; export it as such, or choose another --format")
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith(_COMMENTS):
            continue
        separator = max(_SEPARATORS, key=line.count)
        names = [name.strip().strip('"').strip() for name in line.split(separator)]
        if all(re.fullmatch(r"[-+.0-9e]+|0x[0-9a-f]+", name, re.IGNORECASE) for name in names):
            raise TraceError(f"{source}: has no header, its first row is {line[:40]!r}; put the columns' names there")
        radices = lines[number + 1].split(separator) if len(lines) > number + 1 else []
        if radices and radices[0].strip().lower().startswith("radix"):
            words = [word.strip().upper() for word in radices]
            return _Head(separator, names, number + 2, {i: 16 for i, word in enumerate(words) if word == "HEX"})
        return _Head(separator, names, number + 1)
    raise TraceError(f"{source}: has no header: there is nothing in it but comments; export it again")


def _layout(source: Path, head: _Head, columns: Columns) -> _Layout:
    def find(name: str, option: str) -> int:
        if name in head.names:
            return head.names.index(name)
        if name.isdecimal() and 1 <= int(name) <= len(head.names):
            return int(name) - 1
        shown = ", ".join(head.names[:12]) + (", ..." if len(head.names) > 12 else "")
        raise TraceError(f"{source}: has no column {name!r} for --{option}; it has {shown}")

    def guess(names: tuple[str, ...], option: str) -> list[int]:
        # A bus of a design, like top/u0/araddr[31:0], is known by its last part.
        plain = [
            re.sub(r"\s*\[[0-9]+:[0-9]+\]$", "", name).lower().split("/")[-1].split(".")[-1] for name in head.names
        ]
        found = [index for index, name in enumerate(plain) if name in names]
        if len(found) > 1:
            names_found = " and ".join(head.names[index] for index in found)
            raise TraceError(f"{source}: {names_found} may all be it; name one with --{option}")
        return found

    address = guess(_ADDRESS, "address") if columns.address is None else []
    if columns.address is not None:
        first, dots, end = columns.address.partition("..")
        start = find(first, "address")
        stop = find(end, "address") if dots else start
        address = list(range(start, stop + 1)) if start <= stop else list(range(start, stop - 1, -1))
        if len(address) > 64:
            raise TraceError(
                f"{source}: --address {columns.address} are {len(address)} bits; an address has 64 at most"
            )
    if not address:
        find("address", "address")
    time, unit = _time(source, head, columns, find)
    valid = [find(name, "valid") for name in columns.valid] or guess(_VALID, "valid")
    lower = [name.lower() for name in head.names]
    return _Layout(
        address=address,
        radix=head.radices.get(address[0], columns.radix),
        is_line=len(address) == 1 and lower[address[0]] == "line",
        time=time,
        unit_ns=unit,
        valid=valid,
        clock=None if columns.clock is None else find(columns.clock, "clock"),
        owners={name: lower.index(name) for name in _OWNERS if name in lower},
    )


def _time(source: Path, head: _Head, columns: Columns, find: Callable[[str, str], int]) -> tuple[int | None, float]:
    """The column of times, and nanoseconds of its unit; or none, and those of a row."""
    if columns.period_ns is not None:
        return None, columns.period_ns
    index = find(columns.time, "time") if columns.time is not None else None
    if index is None:
        known = [i for i, name in enumerate(head.names) if _TIME.fullmatch(name) or name.lower() in _LONG_UNITS]
        if not known:
            raise TraceError(
                f"{source}: no column is named time; name it with --time, or give --period from row to row"
            )
        index = known[0]
    name = head.names[index].lower()
    told = _LONG_UNITS.get(name)
    if match := _TIME.fullmatch(name) or re.search(r"[\[(_](ps|ns|us|µs|ms|s)[\])]?$", name):
        told = match[1] or told
    if name == "start_time":
        told = "s"  # a table of Saleae's analysers
    told = (told or "").replace("µ", "u") or columns.time_unit
    if told is None:
        raise TraceError(f"{source}: column {head.names[index]} says no unit; give --time-unit {', '.join(UNITS)}")
    return index, UNITS[told]


def _cells(source: Path, head: _Head, wanted: list[int]) -> Iterator[tuple[dict[int, list[str]], int]]:
    """The rows, some at a time: wanted columns' cells as text, and the bytes read so far."""
    names = [str(index) for index in range(len(head.names))]
    chosen = [names[index] for index in wanted]
    read = pyarrow.csv.ReadOptions(column_names=names, skip_rows=head.skip)
    parse = pyarrow.csv.ParseOptions(delimiter=head.separator)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(chosen, pa.string()), include_columns=chosen, strings_can_be_null=False
    )
    with open(source, "rb") as file:
        try:
            with pyarrow.csv.open_csv(file, read, parse, convert) as batches:
                for batch in batches:
                    if batch.num_rows:
                        cells = {index: batch.column(place).to_pylist() for place, index in enumerate(wanted)}
                        yield cells, file.tell()
        except (pa.ArrowInvalid, OSError) as error:
            if "Empty CSV" in str(error):
                return
            reason = str(error).splitlines()[0]
            raise TraceError(f"{source}: is no table of {len(names)} columns ({reason}); export it again") from None
