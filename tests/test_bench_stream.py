"""A trace as births and reads: each line born once, before it is read; the reads as in the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from small_streams import FRAME_NS, GRID, write_stream
from vrex.bench.stream import Birth, Read, Stream
from vrex.trace.format import TraceError, TraceMetadata, TraceReader, write_trace


@pytest.mark.parametrize("head_size", [16, 64, 128])
def test_every_line_is_born_before_it_is_read(tmp_path: Path, head_size: int) -> None:
    stream = Stream(write_stream(tmp_path / "in.parquet", 1, head_size=head_size))
    born: set[int] = set()
    for event in stream.events():
        if isinstance(event, Birth):
            born.update(np.concatenate([*event.heads.values()]).tolist())
        else:
            assert born.issuperset(event.lines.tolist())
    assert len(born) == stream.lines


def test_births_come_layer_by_layer(tmp_path: Path) -> None:
    stream = Stream(write_stream(tmp_path / "in.parquet", 2, frames=2))
    births = [(event.frame, tuple(event.heads)) for event in stream.events() if isinstance(event, Birth)]
    assert births == [(0, (0, 1)), (0, (2, 3)), (1, (0, 1)), (1, (2, 3))]


def test_reads_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_stream(tmp_path / "in.parquet", 3)
    chunks = TraceReader.chunks
    monkeypatch.setattr(TraceReader, "chunks", lambda self, rows=7: chunks(self, 7))  # tiles span many chunks
    stream = Stream(path)
    reads = [event for event in stream.events() if isinstance(event, Read)]
    assert len(reads) == 6 * 2 * 2 * 3
    assert [(read.frame, read.group, read.tile) for read in reads[:5]] == [
        (0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1)
    ]  # fmt: skip
    with TraceReader(path) as reader:
        lines = np.concatenate([chunk.line for chunk in chunks(reader)])
    assert np.array_equal(np.concatenate([read.lines for read in reads]), lines)
    assert stream.reads == len(lines)


def test_what_is_known_beforehand(tmp_path: Path) -> None:
    stream = Stream(write_stream(tmp_path / "in.parquet", 4))
    assert stream.groups == (0, 1, 2, 3)
    assert (stream.frames, stream.tiles, stream.frame_ns) == (6, 3, FRAME_NS)
    assert stream.lines == 4 * 6 * GRID.tokens_per_frame
    assert stream.places(0.25) == stream.lines // 4
    assert stream.places(1e-9) == 1


def test_what_is_no_stream(tmp_path: Path) -> None:
    with write_trace(tmp_path / "flat.parquet", TraceMetadata("made up")) as writer:
        writer.append(0, 0, 0, 0, np.array([7], np.uint64), np.array([0], np.uint64))
    with pytest.raises(TraceError, match="has no geometry"):
        Stream(tmp_path / "flat.parquet")
    write_stream(tmp_path / "empty.parquet", 5, frames=1)
    with TraceReader(tmp_path / "empty.parquet") as reader:
        metadata = replace(reader.metadata, accesses=0)
    with write_trace(tmp_path / "empty.parquet", metadata):
        pass
    with pytest.raises(TraceError, match="holds no accesses"):
        Stream(tmp_path / "empty.parquet")
