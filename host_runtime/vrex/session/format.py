"""The session file: Parquet (zstd) with one row per call on the bus, written and read in chunks.

A row has the call's kind, the clock it began in, its arguments, its answers and the ``irq`` pin behind it; addresses
and answers of a port's commands are lists, one element a command. Which build and transport it was, and how much there
is, travel as JSON in the file's key-value metadata. Memory stays bounded by one row group, or by the longest call;
pages carry checksums, so that a damaged file is an error and never a wrong number.

A file appears whole or not at all. It does when the recorder is closed, when the script around it ends in an exception,
and when the interpreter ends without having closed it; a process that is killed leaves an unfinished, hidden ``.part``
file that nobody can read.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kv_asu
from kv_asu.params import Params
from kv_asu_firmware.integers import setting
from vrex.errors import VrexError
from vrex.files import whole_file
from vrex.session.operation import KINDS, PORTS, Answer, Operation, Step, duration

#: A reader takes any minor version of its own major one.
VERSION = (1, 0)

#: Calls, and commands on the ports, after which a row group is written.
GROUP_CALLS, GROUP_COMMANDS = 1 << 16, 1 << 18

#: What long jobs report to: units done, and units in all (None while unknown).
Progress = Callable[[int, int | None], None]

_KEY = b"vrex.session"


def _records(row: np.dtype) -> pa.DataType:
    fields = [pa.field(name, pa.from_numpy_dtype(row[name]), nullable=False) for name in row.names or ()]
    return pa.list_(pa.field("element", pa.struct(fields), nullable=False))


_LISTS = {"addresses": pa.list_(pa.field("element", pa.uint64(), nullable=False))}
_LISTS |= {kind: _records(row) for kind, row in PORTS.items()}
_SCALARS = {
    "kind": pa.string(),
    "clock": pa.uint64(),
    "min_tlevel": pa.uint8(),
    "boost": pa.bool_(),
    "offset": pa.uint16(),
    "size": pa.uint8(),
    "value": pa.uint64(),
    "data": pa.uint32(),
    "irq": pa.bool_(),
}
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in (_SCALARS | _LISTS).items()])

#: Columns that hardly change from one element to the next.
_DELTA = ("clock", "addresses.list.element", *(f"observe.list.element.{name}" for name in ("tag_line", "tag_stamp")))


def no_progress(done: int, total: int | None) -> None:
    """Report to nobody."""


class SessionError(VrexError):
    """A session cannot be read or written; the text names the file, the thing and the way out."""


@dataclass(frozen=True)
class SessionMetadata:
    """What a session is.

    Attributes
    ----------
    params : Params
        The build that was driven.
    transport : str
        The name of the transport it was driven over.
    program : str
        The version of this software.
    calls, commands, clocks : int
        Calls on the bus, commands on its ports, and clocks from reset to the end of the last call; counted by the
        writer.
    """

    params: Params
    transport: str
    program: str = field(default=f"vrex {kv_asu.__version__}")
    calls: int = 0
    commands: int = 0
    clocks: int = 0

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values, as stored."""
        return {"version": list(VERSION), **vars(self), "params": self.params.asdict()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SessionMetadata:
        """The inverse of `to_json`; raises ValueError, TypeError, KeyError or OverflowError when it makes no sense."""
        for name in ("transport", "program"):
            if not str(data[name]).isprintable():
                raise ValueError(f"{name} is no name")
        counts = {name: setting(name, data[name], 0) for name in ("calls", "commands", "clocks")}
        return cls(Params(**data["params"]), str(data["transport"]), str(data["program"]), **counts)


class _OwnersFile(io.FileIO):
    """A file that a child made by `os.fork` cannot write to: what closes its copies on its way out would end the file.

    Parameters
    ----------
    path : Path
    mode : str
    """

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._process = os.getpid()

    def write(self, data: Any, /) -> int:
        """Write, or do as if."""
        return super().write(data) if os.getpid() == self._process else memoryview(data).nbytes


class SessionWriter:
    """Takes a session's steps one by one.

    Parameters
    ----------
    path : path
    metadata : SessionMetadata
        Its numbers are counted here.

    Raises
    ------
    VrexError
        The file cannot be written; there is none then.
    """

    def __init__(self, path: str | os.PathLike[str], metadata: SessionMetadata) -> None:
        self.path = Path(path)
        self._metadata = metadata
        self._stack = contextlib.ExitStack()
        with self._stack:
            temporary = self._stack.enter_context(whole_file(self.path))
            file = self._stack.enter_context(io.BufferedWriter(_OwnersFile(temporary, "wb")))
            self._parquet = self._stack.enter_context(
                pq.ParquetWriter(
                    file,
                    _SCHEMA,
                    compression="zstd",
                    use_dictionary=["kind", "offset", "value"],
                    column_encoding=dict.fromkeys(_DELTA, "DELTA_BINARY_PACKED"),
                    write_page_checksum=True,
                    store_schema=False,
                )
            )
            self._stack = self._stack.pop_all()
        self._process = os.getpid()
        self._pending: list[Step] = []
        self._pending_commands = 0
        self._failure: VrexError | None = None

    def append(self, step: Step) -> None:
        """Add a step."""
        if self._failure:
            raise self._failure
        self._pending.append(step)
        self._pending_commands += step.operation.commands
        if len(self._pending) >= GROUP_CALLS or self._pending_commands >= GROUP_COMMANDS:
            self._flush()

    def _flush(self) -> None:
        with self._nothing_on_failure():
            self._parquet.write_table(_table(self._pending), row_group_size=GROUP_CALLS)
        counted = self._metadata
        self._metadata = replace(
            counted,
            calls=counted.calls + len(self._pending),
            commands=counted.commands + self._pending_commands,
            clocks=_end(self._pending[-1], counted.params),
        )
        self._pending, self._pending_commands = [], 0

    def finish(self) -> None:
        """Write what is pending, and the metadata: the file is there then, unless writing has failed before.

        In a child of the process that opened it: nothing, the file is its parent's.
        """
        if self._failure or os.getpid() != self._process:
            return
        if self._pending:
            self._flush()
        with self._nothing_on_failure():
            self._parquet.add_key_value_metadata({_KEY.decode(): json.dumps(self._metadata.to_json())})
        self._stack.close()

    @contextlib.contextmanager
    def _nothing_on_failure(self) -> Iterator[None]:
        """What stops the writing takes the unfinished file away."""
        try:
            yield
        except OSError as error:
            failure = VrexError(f"{self.path}: cannot be written ({error.strerror or error}); choose another place")
            self._failure = failure
            with contextlib.suppress(VrexError):
                self._stack.__exit__(VrexError, failure, None)
            raise failure from None


def _table(steps: list[Step]) -> pa.Table:
    """Steps as rows."""
    operations = [step.operation for step in steps]
    scalars: dict[str, list[Any]] = {name: [getattr(op, name) for op in operations] for name in Operation._fields}
    scalars["clock"] = [step.clock for step in steps]
    scalars["irq"] = [step.irq for step in steps]
    scalars["data"] = [step.answer if isinstance(step.answer, int) else 0 for step in steps]
    columns = [pa.array(scalars[name], kind) for name, kind in _SCALARS.items()]
    columns.append(_list_column("addresses", [operation.addresses for operation in operations]))
    for port, row in PORTS.items():
        nothing = np.empty(0, row)
        columns.append(_list_column(port, [step.answer if step.operation.kind == port else nothing for step in steps]))
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _list_column(name: str, parts: Iterable[Any]) -> pa.Array:
    arrays = list(parts)
    offsets = np.zeros(len(arrays) + 1, np.int32)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    flat = np.concatenate(arrays)
    kind = _LISTS[name]
    if flat.dtype.names is None:
        values = pa.array(flat)
    else:
        fields = [np.ascontiguousarray(flat[field]) for field in flat.dtype.names]
        values = pa.StructArray.from_arrays([pa.array(field) for field in fields], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind)


class SessionReader:
    """Reads a session.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    metadata : SessionMetadata

    Raises
    ------
    SessionError
        On opening: missing, not a session, cut short, of a newer version. While reading: damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._parquet = pq.ParquetFile(self.path, page_checksum_verification=True)
        except FileNotFoundError:
            raise SessionError(
                f"{self.path}: no such file; record one with vrex.open(..., record={str(self.path)!r})"
            ) from None
        except OSError as error:
            raise SessionError(f"{self.path}: cannot be read ({_first_line(error)}); check the file") from None
        except (pa.ArrowException, ValueError):
            raise SessionError(
                f"{self.path}: not a Parquet file, or cut short; copy it again, or record it again"
            ) from None
        try:
            self.metadata = self._read_metadata()
        except SessionError:
            self.close()
            raise

    def _read_metadata(self) -> SessionMetadata:
        stored = (self._parquet.metadata.metadata or {}).get(_KEY)
        if stored is None:
            raise SessionError(
                f"{self.path}: a Parquet file but not a V-Rex session; record one with vrex.open(..., record=...)"
            )
        try:
            data = json.loads(stored)
            major, minor = data["version"]
        except (ValueError, TypeError, KeyError):
            raise SessionError(f"{self.path}: its metadata is damaged; record it again") from None
        if major != VERSION[0]:
            raise SessionError(
                f"{self.path}: session format {major}.{minor}, this program reads {VERSION[0]}.x; "
                "record it again, or use the program that wrote it"
            )
        try:
            metadata = SessionMetadata.from_json(data)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise SessionError(
                f"{self.path}: its metadata is damaged ({_first_line(error)}); record it again"
            ) from None
        found = self._parquet.schema_arrow
        for column in _SCHEMA:
            index = found.get_field_index(column.name)
            if index < 0 or found.field(index).type != column.type:
                given = "missing" if index < 0 else f"of type {found.field(index).type}"
                raise SessionError(f"{self.path}: column {column.name} is {given}; record it again")
        if metadata.calls != self._parquet.metadata.num_rows:
            raise SessionError(
                f"{self.path}: says {metadata.calls} calls and holds {self._parquet.metadata.num_rows}; record it again"
            )
        return metadata

    def steps(self) -> Iterator[Step]:
        """Every step, in order.

        Raises
        ------
        SessionError
            A part of the file is damaged, or holds what no recorder writes; at the end: it is not as long as it says.
        """
        commands = clocks = 0
        for group in range(self._parquet.metadata.num_row_groups):
            try:
                steps = _steps(self._parquet.read_row_group(group, columns=_SCHEMA.names), self.metadata)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise SessionError(
                    f"{self.path}: damaged in row group {group} ({_first_line(error)}); "
                    "copy it again, or record it again"
                ) from None
            yield from steps
            if steps:
                commands += sum(step.operation.commands for step in steps)
                clocks = _end(steps[-1], self.metadata.params)
        for what, said, held in (
            ("commands", self.metadata.commands, commands),
            ("clocks", self.metadata.clocks, clocks),
        ):
            if said != held:
                raise SessionError(f"{self.path}: says {said} {what} and holds {held}; record it again")

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()

    def __enter__(self) -> SessionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(step: Step, params: Params) -> int:
    """The clock after a step."""
    return step.clock + duration(step.operation, params)


def _steps(table: pa.Table, metadata: SessionMetadata) -> list[Step]:
    """Rows as steps; ValueError for what no recorder writes."""
    for name in table.column_names:
        if table.column(name).null_count:
            raise ValueError(f"{name} is missing in a row")
    scalars = {name: table.column(name).to_pylist() for name in _SCALARS}
    addresses = _list_parts(table.column("addresses"), np.dtype(np.uint64))
    answers = {port: _list_parts(table.column(port), row) for port, row in PORTS.items()}
    steps = []
    for index, kind in enumerate(scalars["kind"]):
        if kind not in KINDS:
            raise ValueError(f"no operation is called {kind!r}")
        arguments = {name: scalars[name][index] for name in Operation._fields if name in scalars and name != "kind"}
        operation = Operation(kind, addresses[index], **arguments)
        operation.check(metadata.params)
        if kind == "idle" and operation.value > metadata.clocks:
            raise ValueError(f"{operation.value} clocks pass in a session of {metadata.clocks}")
        answer: Answer = None
        if kind in PORTS:
            rows = answers[kind][index]
            if len(rows) != operation.commands:
                raise ValueError(f"{operation.commands} commands have {len(rows)} answers")
            answer = rows
        elif kind == "read":
            answer = scalars["data"][index]
        steps.append(Step(operation, scalars["clock"][index], answer, scalars["irq"][index]))
    return steps


def _list_parts(column: pa.ChunkedArray, row: np.dtype) -> list[Any]:
    """Each element of a list column as an array of its own."""
    lists = column.combine_chunks()
    flat = lists.values
    if flat.null_count or (row.names is not None and any(flat.field(name).null_count for name in row.names)):
        raise ValueError("an element of a list is missing")
    if row.names is None:
        values = flat.to_numpy(zero_copy_only=False).astype(row, copy=False)
    else:
        values = np.empty(len(flat), row)
        for name in row.names:
            values[name] = flat.field(name).to_numpy(zero_copy_only=False)
    offsets = lists.offsets.to_pylist()
    return [values[start:end] for start, end in zip(offsets, offsets[1:], strict=False)]


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
