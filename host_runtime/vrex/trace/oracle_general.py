"""libCacheSim's oracleGeneral format, in and out, plain or zstd-compressed (`.zst`).

A file is a row of 24-byte little-endian records without a header: u32 time, u64 object id, u32 size, i64 virtual time
of the object's next access. Virtual time counts requests from 1, as libCacheSim's own `traceConv` does; -1 means never
again. The unit of `time` is nowhere written, so both ways take it.

Nothing in such a file says what it is. An import refuses what no trace can be: a length that is no multiple of 24
bytes, times that run backwards, and a next access that is not ahead of its record. It must be a number above the
record's own position counted from 0 (so converters that count from 0 are good, too, and what was cut off a longer trace
or sampled from it) and below 2^48, or one of the values that say "never" or "not known": -1, -2 and 2^63 - 1. Sizes and
ids are not looked at: real traces have objects of 0 bytes, and of gigabytes, and ids of any 64 bits.

Our line number is the object id, a line's 256 bytes the size. Both ways run in bounded memory, but for one entry per
distinct line when exporting: the next access is found by reading the trace from its end.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kv_asu.params import LINE_BITS
from vrex.files import check_not_source, whole_file
from vrex.trace.address_map import LINE_BYTES
from vrex.trace.format import Progress, TraceError, TraceMetadata, TraceReader, no_progress, write_trace
from vrex.trace.timing import ORIN_NX, PS_PER_NS

RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
NEVER = -1

#: What libCacheSim and its converters write where there is no next access, or none is known.
_NO_NEXT = (NEVER, -2, np.iinfo(np.int64).max)
#: More requests than any trace has: petabytes of records.
_MOST_REQUESTS = 1 << 48
#: How a zstd-compressed file begins.
_ZSTD = bytes.fromhex("28b52ffd")

_LAST_LINE = (1 << (64 - LINE_BITS)) - 1
_RECORDS_AT_ONCE = 1 << 16


class TimeUnit(StrEnum):
    """What a record's time counts."""

    us = "us"
    ms = "ms"
    s = "s"

    @property
    def ns(self) -> int:
        """Nanoseconds in one."""
        return {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}[self.value]


def next_accesses(lines: npt.NDArray[np.uint64], first: int, later: dict[int, int]) -> npt.NDArray[np.int64]:
    """Virtual time of each access's next access to the same line.

    Parameters
    ----------
    lines : numpy.ndarray of uint64, shape (n,)
        Consecutive accesses.
    first : int
        Virtual time of the first of them.
    later : dict
        For each line accessed after these: the virtual time of its first access there. Updated to include these, so
        that the accesses before can be asked about next.

    Returns
    -------
    numpy.ndarray of int64, shape (n,)
        -1 where there is none.
    """
    order = np.argsort(lines, kind="stable")
    grouped = lines[order]
    times = order + first
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    following = np.r_[times[1:], NEVER]
    lasts = np.r_[starts[1:], len(lines)] - 1
    following[lasts] = [later.get(line, NEVER) for line in grouped[starts].tolist()]
    later.update(zip(grouped[starts].tolist(), times[starts].tolist(), strict=True))
    result = np.empty(len(lines), np.int64)
    result[order] = following
    return result


def export_oracle_general(
    trace: Path, output: Path, unit: TimeUnit = TimeUnit.us, progress: Progress = no_progress
) -> int:
    """Write a trace in libCacheSim's format.

    Parameters
    ----------
    trace, output : Path
        The output is zstd-compressed if its name ends in `.zst`.
    unit : TimeUnit
        Of the records' time.
    progress : callable
        Told the accesses done, and how many there are.

    Returns
    -------
    int
        Records written.

    Raises
    ------
    VrexError
        The trace cannot be read, is too long for 32 bits of time, or the output cannot be written, or is the trace.
    """
    check_not_source(output, trace)
    compress = output.suffix == ".zst"
    with (
        TraceReader(trace) as reader,
        whole_file(output) as temporary,
        tempfile.TemporaryFile(dir=output.parent) if compress else open(temporary, "wb") as plain,
    ):
        total = start = len(reader)
        later: dict[int, int] = {}
        for chunk in reader.groups_backwards():
            start -= chunk.accesses
            time = chunk.time_ns // np.uint64(unit.ns)
            if time[-1] > np.iinfo(np.uint32).max:
                raise TraceError(f"{trace}: lasts longer than 32 bits of {unit.value}; choose a longer --time-unit")
            records = np.empty(chunk.accesses, RECORD)
            records["time"] = time
            records["id"] = chunk.line
            records["size"] = LINE_BYTES
            records["next"] = next_accesses(chunk.line, start + 1, later)
            plain.seek(start * RECORD.itemsize)
            plain.write(records.tobytes())
            progress(total - start, total)
        if compress:
            plain.seek(0)
            with pa.output_stream(str(temporary), compression="zstd") as packed:
                shutil.copyfileobj(plain, packed, _RECORDS_AT_ONCE * RECORD.itemsize)
    return total


def import_oracle_general(
    source: Path, output: Path, unit: TimeUnit = TimeUnit.us, progress: Progress = no_progress
) -> TraceMetadata:
    """Read libCacheSim's format into a trace.

    Object ids become line numbers (of which there are 2^56: longer ids keep their low 56 bits, and the metadata counts
    them); every record is one access to one line, whatever its size. Records of one time unit follow each other one
    line-time (2.5 ns) apart, so that no two meet in a clock of the core. Frame, layer, head and tile are not known: 0.

    Parameters
    ----------
    source, output : Path
        The source is taken as zstd-compressed if its name ends in `.zst`.
    unit : TimeUnit
        Of the records' time.
    progress : callable
        Told the accesses done, and how many there are.

    Returns
    -------
    TraceMetadata
        As written.

    Raises
    ------
    VrexError
        The source is missing, empty, cut short, damaged or something else, or the output cannot be written, or is the
        source.
    """
    check_not_source(output, source)
    step_ps = ORIN_NX.line_ps
    what = (
        "Imported from libCacheSim's oracleGeneral: object ids as line numbers; frame, layer, head and tile are "
        "unknown and 0; times have the source's resolution, accesses of one unit spaced by one line-time."
    )
    made: dict[str, Any] = {"imported": source.name, "ids_cut_to_56_bits": 0}
    timing = {"name": "imported", "time_unit": unit.value, "line_ps": step_ps}
    earliest_ps = last_time = 0
    total = source.stat().st_size // RECORD.itemsize if source.suffix != ".zst" and source.exists() else None
    with write_trace(output, TraceMetadata(what, None, made, timing)) as writer:
        for records in _records(source):
            done = writer.metadata.accesses
            time = records["time"].astype(np.int64)
            if time[0] < last_time or (time[1:] < time[:-1]).any():
                raise TraceError(f"{source}: times run backwards after record {done}; sort the records by time")
            last_time = int(time[-1])
            _check_next(source, records["next"], done)
            made["ids_cut_to_56_bits"] += int((records["id"] > _LAST_LINE).sum())
            spacing = np.arange(len(records), dtype=np.int64) * step_ps
            base = np.maximum(time * (unit.ns * PS_PER_NS), earliest_ps)
            asked_ps = np.maximum.accumulate(base - spacing) + spacing
            earliest_ps = int(asked_ps[-1]) + step_ps
            lines = records["id"] & np.uint64(_LAST_LINE)
            writer.append(0, 0, 0, 0, lines, (asked_ps // PS_PER_NS).astype(np.uint64))
            progress(writer.metadata.accesses, total)
        if not writer.metadata.accesses:
            raise TraceError(f"{source}: holds no records; give a file of 24-byte oracleGeneral records")
    return writer.metadata


def _check_next(source: Path, following: npt.NDArray[np.int64], first: int) -> None:
    """See that next accesses are ahead of their records, the first of which has this position in the file."""
    position = first + np.arange(len(following))
    sane = np.isin(following, _NO_NEXT) | ((following > position) & (following < _MOST_REQUESTS))
    if not sane.all():
        wrong = int(np.argmin(sane))
        raise TraceError(
            f"{source}: not oracleGeneral: record {first + wrong + 1} says that its next access is request "
            f"{following[wrong]}; give a file of 24-byte records (u32 time, u64 id, u32 size, i64 next access)"
        )


def _records(source: Path) -> Iterator[npt.NDArray[np.void]]:
    """The file's records, some at a time."""
    size = _RECORDS_AT_ONCE * RECORD.itemsize
    try:
        with _open(source) as stream:
            first = True
            while block := stream.read(size):
                if first and block.startswith(_ZSTD):
                    raise TraceError(f"{source}: compressed with zstd; let its name end in .zst")
                first = False
                if len(block) % RECORD.itemsize:
                    raise TraceError(
                        f"{source}: cut short, or not oracleGeneral: "
                        f"its last record has {len(block) % RECORD.itemsize} of {RECORD.itemsize} bytes; fetch it again"
                    )
                yield np.frombuffer(block, RECORD)
    except FileNotFoundError:
        raise TraceError(f"{source}: no such file; give an oracleGeneral file") from None
    except OSError as error:
        reason = (error.strerror or str(error)).splitlines()[0]
        raise TraceError(f"{source}: cannot be read ({reason}); check the file") from None


@contextlib.contextmanager
def _open(source: Path) -> Iterator[IO[bytes]]:
    with open(source, "rb") as file:
        if source.suffix == ".zst":
            with pa.CompressedInputStream(file, "zstd") as unpacked:
                yield unpacked
        else:
            yield file
