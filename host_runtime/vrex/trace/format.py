"""The trace file: Parquet (zstd) with one row per line read, written and read in chunks.

Columns, in kernel order: frame, layer, head, tile, line (the KV line's number, address >> 8) and time_ns (when the
kernel asks for it). What the trace is, its geometry and how it was made travel as JSON in the file's key-value
metadata. Memory stays bounded by one row group whatever the length; pages carry checksums, so that a damaged file is
an error and never a wrong number.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from vrex.errors import VrexError
from vrex.files import whole_file
from vrex.trace.address_map import LINE_BYTES, AddressMap, PatchGrid

#: A reader takes any minor version of its own major one.
VERSION = (1, 0)

#: What long jobs report to: units done, and units in all (None while unknown).
Progress = Callable[[int, int | None], None]

_KEY = b"vrex.trace"
_SCHEMA = pa.schema(
    [
        pa.field("frame", pa.uint32(), nullable=False),
        pa.field("layer", pa.uint16(), nullable=False),
        pa.field("head", pa.uint16(), nullable=False),
        pa.field("tile", pa.uint16(), nullable=False),
        pa.field("line", pa.uint64(), nullable=False),
        pa.field("time_ns", pa.uint64(), nullable=False),
    ]
)
_DTYPES = {column.name: column.type.to_pandas_dtype() for column in _SCHEMA}

#: Rows of a row group: the unit of memory when writing and reading.
GROUP_ROWS = 1 << 18


def no_progress(done: int, total: int | None) -> None:
    """Report to nobody."""


def is_trace(path: Path) -> bool:
    """Whether a file begins like Parquet."""
    return _beginning(path).startswith(b"PAR1")


def is_clip(path: Path) -> bool:
    """Whether a file begins like MP4 or MOV, Matroska or WebM, or AVI."""
    beginning = _beginning(path)
    return beginning[4:8] == b"ftyp" or beginning.startswith((b"\x1aE\xdf\xa3", b"RIFF"))


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError:
        return b""


class TraceError(VrexError):
    """A trace cannot be read, written or made; the text names the file, the thing and the way out."""


class Chunk(NamedTuple):
    """Consecutive accesses, one array element each."""

    frame: npt.NDArray[np.uint32]
    layer: npt.NDArray[np.uint16]
    head: npt.NDArray[np.uint16]
    tile: npt.NDArray[np.uint16]
    line: npt.NDArray[np.uint64]
    time_ns: npt.NDArray[np.uint64]

    @property
    def accesses(self) -> int:
        """How many."""
        return len(self.line)


@dataclass(frozen=True)
class Geometry:
    """What the lines of a trace mean: the address map, and the patches of a frame."""

    address_map: AddressMap
    grid: PatchGrid

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, by name."""
        kv = asdict(self.address_map)
        return kv | {
            "line_bytes": LINE_BYTES,
            "tokens_per_frame": self.grid.tokens_per_frame,
            "grid": asdict(self.grid),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Geometry:
        """The inverse of `to_json`; raises ValueError, TypeError or KeyError when the numbers make no sense."""
        if data["line_bytes"] != LINE_BYTES:
            raise ValueError(f"line_bytes must be {LINE_BYTES}, not {data['line_bytes']!r}")
        kv = {name: data[name] for name in ("layers", "heads", "head_size", "max_tokens", "dtype")}
        return cls(AddressMap(**kv, bases=tuple(data["bases"])), PatchGrid(**data["grid"]))


@dataclass(frozen=True)
class TraceMetadata:
    """What a trace is.

    Parameters
    ----------
    what : str
        In words: where the accesses come from, and what they are not.
    geometry : Geometry or None
        None when lines have no known owner (a trace imported from elsewhere).
    made : dict
        How it was made, so that it can be made again: command, clip, model, versions, knobs.
    timing : dict
        The time model's name and numbers.
    frames, accesses : int
        Filled in by the writer.
    """

    what: str
    geometry: Geometry | None = None
    made: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)
    frames: int = 0
    accesses: int = 0

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values, as stored."""
        return {
            "version": list(VERSION),
            "what": self.what,
            "frames": self.frames,
            "accesses": self.accesses,
            "geometry": self.geometry and self.geometry.to_json(),
            "timing": self.timing,
            "made": self.made,
        }


class TraceWriter:
    """Takes a trace's accesses chunk by chunk; `write_trace` gives one.

    Attributes
    ----------
    metadata : TraceMetadata
        With `frames` and `accesses` as counted so far. What is here at the end is what the file says.
    """

    def __init__(self, path: Path, metadata: TraceMetadata, parquet: pq.ParquetWriter) -> None:
        self.metadata = metadata
        self._path = path
        self._parquet = parquet
        self._pending: list[Chunk] = []
        self._pending_rows = 0
        self._last_ns = 0

    def append(
        self,
        frame: npt.ArrayLike,
        layer: npt.ArrayLike,
        head: npt.ArrayLike,
        tile: npt.ArrayLike,
        line: npt.NDArray[np.uint64],
        time_ns: npt.NDArray[np.uint64],
    ) -> None:
        """Add accesses; all but `line` (n,) and `time_ns` (n,) may be single numbers that hold for all of them.

        Raises
        ------
        TraceError
            Times run backwards.
        """
        if not len(line):
            return
        columns = zip(_SCHEMA.names, (frame, layer, head, tile, line, time_ns), strict=True)
        chunk = _chunk(np.broadcast_to(np.asarray(value, _DTYPES[name]), line.shape) for name, value in columns)
        if _runs_backwards(chunk.time_ns, self._last_ns):
            raise TraceError(
                f"{self._path}: times run backwards after access {self.metadata.accesses}; sort the accesses"
            )
        self._last_ns = int(chunk.time_ns[-1])
        self._pending.append(chunk)
        self._pending_rows += chunk.accesses
        self.metadata = replace(
            self.metadata,
            frames=max(self.metadata.frames, int(chunk.frame.max()) + 1),
            accesses=self.metadata.accesses + chunk.accesses,
        )
        if self._pending_rows >= GROUP_ROWS:
            self._flush(GROUP_ROWS)

    def _flush(self, multiple: int) -> None:
        """Write the pending rows down to what does not fill a multiple, so that groups have one size."""
        pending = _chunk(np.concatenate(columns) for columns in zip(*self._pending, strict=True))
        whole = pending.accesses // multiple * multiple
        rows = pa.table([column[:whole] for column in pending], schema=_SCHEMA)
        self._parquet.write_table(rows, row_group_size=GROUP_ROWS)
        self._pending = [_chunk(column[whole:].copy() for column in pending)]
        self._pending_rows = pending.accesses - whole

    def finish(self) -> None:
        """Write what is pending, and the metadata."""
        if self._pending_rows:
            self._flush(1)
        self._parquet.add_key_value_metadata({_KEY.decode(): json.dumps(self.metadata.to_json())})


@contextlib.contextmanager
def write_trace(path: str | os.PathLike[str], metadata: TraceMetadata) -> Iterator[TraceWriter]:
    """Write a trace; the file appears whole under its name, or not at all.

    Parameters
    ----------
    path : path
    metadata : TraceMetadata
        Its `frames` and `accesses` are counted by the writer.

    Raises
    ------
    VrexError
        The file cannot be written.
    """
    path = Path(path)
    with (
        whole_file(path) as temporary,
        open(temporary, "wb") as file,
        pq.ParquetWriter(
            file,
            _SCHEMA,
            compression="zstd",
            compression_level=19,
            use_dictionary=["frame", "layer", "head", "tile"],
            column_encoding={"line": "DELTA_BINARY_PACKED", "time_ns": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
            store_schema=False,
        ) as parquet,
    ):
        writer = TraceWriter(path, metadata, parquet)
        yield writer
        writer.finish()


class TraceReader:
    """Reads a trace chunk by chunk.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    metadata : TraceMetadata

    Raises
    ------
    TraceError
        On opening: missing, not a trace, truncated, of another version, with other columns. While reading: damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._parquet = pq.ParquetFile(self.path, page_checksum_verification=True)
        except FileNotFoundError:
            raise TraceError(f"{self.path}: no such file; make one with 'vrex trace make'") from None
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read ({_first_line(error)}); check the file") from None
        except (pa.ArrowException, ValueError):
            if is_clip(self.path):
                raise TraceError(f"{self.path}: a clip, not a trace; 'vrex trace make' makes one of it") from None
            raise TraceError(
                f"{self.path}: not a Parquet file, or cut short; copy or make it again, "
                "or import another format with 'vrex trace import'"
            ) from None
        try:
            self.metadata = self._read_metadata()
        except TraceError:
            self.close()
            raise

    def _read_metadata(self) -> TraceMetadata:
        stored = (self._parquet.metadata.metadata or {}).get(_KEY)
        if stored is None:
            raise TraceError(f"{self.path}: a Parquet file but not a V-Rex trace; make one with 'vrex trace make'")
        try:
            data = json.loads(stored)
            major, minor = data["version"]
        except (ValueError, TypeError, KeyError):
            raise TraceError(f"{self.path}: its metadata is damaged; make it again with 'vrex trace make'") from None
        if major != VERSION[0]:
            raise TraceError(
                f"{self.path}: trace format {major}.{minor}, this program reads {VERSION[0]}.x; "
                "make it again with 'vrex trace make', or use the program that wrote it"
            )
        found = self._parquet.schema_arrow
        for column in _SCHEMA:
            index = found.get_field_index(column.name)
            if index < 0 or found.field(index).type != column.type:
                given = "missing" if index < 0 else f"of type {found.field(index).type}"
                raise TraceError(
                    f"{self.path}: column {column.name} is {given}, expected {column.type}; "
                    "make it again with 'vrex trace make'"
                )
        try:
            geometry = data["geometry"] and Geometry.from_json(data["geometry"])
            metadata = TraceMetadata(
                str(data["what"]), geometry, dict(data["made"]), dict(data["timing"]), data["frames"], data["accesses"]
            )
        except (ValueError, TypeError, KeyError) as error:
            raise TraceError(f"{self.path}: its metadata is damaged ({_first_line(error)}); make it again") from None
        if metadata.accesses != self._parquet.metadata.num_rows:
            raise TraceError(
                f"{self.path}: says {metadata.accesses} accesses and holds {self._parquet.metadata.num_rows}; "
                "copy or make it again"
            )
        return metadata

    def __len__(self) -> int:
        """Accesses in the trace."""
        return self.metadata.accesses

    def chunks(self, rows: int = 1 << 16) -> Iterator[Chunk]:
        """All accesses in order, at most `rows` at a time.

        Raises
        ------
        TraceError
            A page is damaged, or times run backwards.
        """
        last_ns = done = 0
        for chunk in self._pieces(rows):
            if _runs_backwards(chunk.time_ns, last_ns):
                raise TraceError(f"{self.path}: times run backwards after access {done}; make it again")
            last_ns = int(chunk.time_ns[-1])
            done += chunk.accesses
            yield chunk

    def _pieces(self, rows: int) -> Iterator[Chunk]:
        for group in range(self._parquet.metadata.num_row_groups):
            # Group by group: one iterator over the whole file would keep what it has read until its end.
            batches = self._parquet.iter_batches(rows, row_groups=[group], columns=_SCHEMA.names)
            while True:
                with self._damage_named(group):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    chunk = _chunk(batch.column(name).to_numpy() for name in _SCHEMA.names)
                yield chunk

    def groups_backwards(self) -> Iterator[Chunk]:
        """The row groups, last first (each in forward order): for what depends on the future."""
        for group in reversed(range(self._parquet.metadata.num_row_groups)):
            with self._damage_named(group):
                table = self._parquet.read_row_group(group, columns=_SCHEMA.names)
            yield _chunk(table.column(name).to_numpy() for name in _SCHEMA.names)

    @contextlib.contextmanager
    def _damage_named(self, group: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TraceError(
                f"{self.path}: damaged in row group {group} ({_first_line(error)}); copy or make it again"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _chunk(columns: Iterable[npt.NDArray[Any]]) -> Chunk:
    return Chunk(*columns)


def _runs_backwards(times: npt.NDArray[np.uint64], before: int) -> bool:
    return int(times[0]) < before or bool((times[1:] < times[:-1]).any())


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
