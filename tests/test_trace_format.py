"""The trace file: round trip, chunk borders, bounded memory, and every way a file can be bad."""

from __future__ import annotations

import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vrex.trace.format
from vrex.cli import main
from vrex.errors import VrexError
from vrex.trace.address_map import AddressMap, PatchGrid
from vrex.trace.format import _SCHEMA, Chunk, Geometry, TraceError, TraceMetadata, TraceReader, is_clip, write_trace
from vrex.trace.summary import summarize

GEOMETRY = Geometry(AddressMap(layers=3, heads=2, head_size=64, max_tokens=70), PatchGrid(rows=2, columns=3, leading=1))
METADATA = TraceMetadata("made up for a test", GEOMETRY, {"command": "none"}, {"name": "paced", "line_ps": 2500})


def accesses(count: int, seed: int = 0) -> Chunk:
    """Any lines, frames in order, times that never run backwards."""
    random = np.random.default_rng(seed)
    return Chunk(
        np.sort(random.integers(0, 9, count)).astype(np.uint32),
        random.integers(0, 3, count).astype(np.uint16),
        random.integers(0, 2, count).astype(np.uint16),
        random.integers(0, 5, count).astype(np.uint16),
        random.integers(0, 1 << 56, count, dtype=np.uint64),
        np.cumsum(random.integers(0, 1000, count)).astype(np.uint64),
    )


def write(path: Path, chunk: Chunk, *cuts: int) -> None:
    """Write a trace in the pieces that the cuts make of it."""
    with write_trace(path, METADATA) as writer:
        for start, end in zip((0, *cuts), (*cuts, chunk.accesses), strict=True):
            frame, layer, head, tile, line, time_ns = chunk
            piece = slice(start, end)
            writer.append(frame[piece], layer[piece], head[piece], tile[piece], line[piece], time_ns[piece])


def read(path: Path, rows: int = 1 << 16) -> Chunk:
    with TraceReader(path) as reader:
        return Chunk(*(np.concatenate(columns) for columns in zip(*reader.chunks(rows), strict=True)))


def same(left: Chunk, right: Chunk) -> bool:
    pairs: list[tuple[np.ndarray, np.ndarray]] = list(zip(left, right, strict=True))
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "some.parquet"
    write(path, accesses(5000))
    return path


def test_a_trace_comes_back_as_it_went_in(trace: Path) -> None:
    assert same(read(trace), accesses(5000))
    with TraceReader(trace) as reader:
        assert reader.metadata == replace(METADATA, frames=9, accesses=5000)
        assert len(reader) == 5000


def test_single_numbers_hold_for_a_whole_tile(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    with write_trace(path, METADATA) as writer:
        writer.append(4, 3, 2, 1, np.array([8, 9], np.uint64), np.array([10, 10], np.uint64))
        writer.append(5, 0, 0, 0, np.array([], np.uint64), np.array([], np.uint64))
    assert [column.tolist() for column in read(path)] == [[4, 4], [3, 3], [2, 2], [1, 1], [8, 9], [10, 10]]


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    with write_trace(path, METADATA):
        pass
    with TraceReader(path) as reader:
        assert list(reader.chunks()) == []
        assert summarize(reader).accesses == 0


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 99), st.lists(st.integers(0, 99), max_size=5), st.integers(9, 50), st.integers(1, 100))
def test_pieces_groups_and_chunks_do_not_show(
    tmp_path_factory: pytest.TempPathFactory, count: int, cuts: list[int], group: int, rows: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "some.parquet"
    chunk = accesses(count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vrex.trace.format, "GROUP_ROWS", group)
        write(path, chunk, *sorted(min(cut, count) for cut in cuts))
    with TraceReader(path) as reader:
        pieces = list(reader.chunks(rows))
        assert all(piece.accesses <= rows for piece in pieces)
        assert same(Chunk(*(np.concatenate(columns) for columns in zip(*pieces, strict=True))), chunk)
        backwards = list(reader.groups_backwards())[::-1]
        assert [piece.accesses for piece in backwards[:-1]] == [group] * (len(backwards) - 1)
        assert same(Chunk(*(np.concatenate(columns) for columns in zip(*backwards, strict=True))), chunk)


def test_the_same_accesses_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", accesses(5000))
    write(tmp_path / "b.parquet", accesses(5000), 17, 400)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_memory_is_bounded_whatever_the_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrex.trace.format, "GROUP_ROWS", 1 << 13)

    def peaks(pieces: int) -> tuple[int, int]:
        """The most that Python held while writing, and Arrow while reading."""
        path = tmp_path / f"{pieces}.parquet"
        tracemalloc.start()
        with write_trace(path, METADATA) as writer:
            for piece in range(pieces):
                line = accesses(1 << 13, piece).line
                writer.append(piece, 0, 0, 0, line, np.full(1 << 13, piece, np.uint64))
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        before = pa.total_allocated_bytes()
        with TraceReader(path) as reader:
            reading = max(pa.total_allocated_bytes() - before for _ in reader.chunks(1 << 10))
        return writing, reading

    short, long = peaks(4), peaks(64)
    assert long[0] < 1.3 * short[0] + 100_000
    assert long[1] < 1.3 * short[1] + 100_000


@pytest.mark.parametrize("keep", [0, 3, 4, 1000, -1])
def test_a_truncated_file_is_one_clear_line(trace: Path, keep: int) -> None:
    trace.write_bytes(trace.read_bytes()[:keep])
    with pytest.raises(TraceError, match=r"some\.parquet: not a Parquet file, or cut short; .*again") as caught:
        TraceReader(trace)
    assert "\n" not in str(caught.value)


def test_any_damaged_byte_is_an_error_or_harmless(trace: Path) -> None:
    """Flip bytes all over the file: what is read is right, or a TraceError of one line, and nothing else."""
    whole = trace.read_bytes()
    right = accesses(5000)
    refused = []
    for position in np.linspace(0, len(whole) - 1, 150).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        trace.write_bytes(damaged)
        try:
            assert same(read(trace), right)
        except TraceError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(str(trace) in message and "\n" not in message for message in refused)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_garbage_is_one_clear_line(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    path = tmp_path_factory.mktemp("trace") / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(TraceError, match="a clip, not a trace" if is_clip(path) else "not a Parquet file"):
        TraceReader(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file; make one"):
        TraceReader(tmp_path / "none.parquet")
    with pytest.raises(TraceError, match="cannot be read"):
        TraceReader(tmp_path)


def rewritten(trace: Path, table: pa.Table, **changes: object) -> None:
    """Put other columns, or other metadata, into a trace."""
    data = json.loads(pq.read_metadata(trace).metadata[b"vrex.trace"]) | changes
    with pq.ParquetWriter(trace, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"vrex.trace": json.dumps(data)})


def test_wrong_columns_are_named(trace: Path) -> None:
    table = pq.read_table(trace)
    rewritten(trace, table.drop_columns(["line"]))
    with pytest.raises(TraceError, match="column line is missing, expected uint64"):
        TraceReader(trace)
    rewritten(trace, table.set_column(3, "tile", table["tile"].cast(pa.int32())))
    with pytest.raises(TraceError, match="column tile is of type int32, expected uint16"):
        TraceReader(trace)


def test_wrong_versions_are_named(trace: Path) -> None:
    table = pq.read_table(trace)
    rewritten(trace, table, version=[2, 1])
    with pytest.raises(TraceError, match=r"trace format 2\.1, this program reads 1\.x"):
        TraceReader(trace)
    rewritten(trace, table, version=[1, 7])
    assert same(read(trace), accesses(5000))


def test_a_flipped_byte_in_the_footer_is_never_a_traceback(trace: Path) -> None:
    good = trace.read_bytes()
    refused = 0
    for place in range(max(0, len(good) - 3000), len(good)):
        trace.write_bytes(good[:place] + bytes([good[place] ^ 0x80]) + good[place + 1 :])
        try:
            TraceReader(trace).close()
        except TraceError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "changes",
    [
        {"version": None},
        {"geometry": 5},
        {"geometry": {"layers": 0}},
        {"geometry": GEOMETRY.to_json() | {"line_bytes": 64}},
        {"made": 3},
    ],
)
def test_nonsense_metadata_is_refused(trace: Path, changes: dict[str, object]) -> None:
    rewritten(trace, pq.read_table(trace), **changes)
    with pytest.raises(TraceError, match="metadata is damaged"):
        TraceReader(trace)


def test_missing_rows_are_noticed(trace: Path) -> None:
    rewritten(trace, pq.read_table(trace).slice(0, 4999))
    with pytest.raises(TraceError, match="says 5000 accesses and holds 4999"):
        TraceReader(trace)


def test_other_parquet_files_are_not_traces(trace: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), trace)
    with pytest.raises(TraceError, match="a Parquet file but not a V-Rex trace"):
        TraceReader(trace)


def test_times_that_run_backwards_are_refused_both_ways(trace: Path, tmp_path: Path) -> None:
    line = np.array([1], np.uint64)
    with (  # noqa: PT012
        pytest.raises(TraceError, match="times run backwards after access 1"),
        write_trace(tmp_path / "new.parquet", METADATA) as writer,
    ):
        writer.append(0, 0, 0, 0, line, np.array([5], np.uint64))
        writer.append(0, 0, 0, 0, line, np.array([4], np.uint64))
    table = pq.read_table(trace)
    rewritten(trace, table.set_column(5, "time_ns", table["time_ns"].combine_chunks()[::-1]))
    with pytest.raises(TraceError, match="times run backwards"):
        read(trace)


def test_a_failure_leaves_no_file_and_keeps_the_old_one(tmp_path: Path, trace: Path) -> None:
    before = trace.read_bytes()
    with pytest.raises(RuntimeError), write_trace(trace, METADATA) as writer:  # noqa: PT012
        writer.append(*accesses(10))
        raise RuntimeError
    assert trace.read_bytes() == before
    assert list(tmp_path.iterdir()) == [trace]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "such.parquet"
    with (
        pytest.raises(VrexError, match=r"such\.parquet: cannot be written \(.*file is no folder\)"),
        write_trace(path, METADATA),
    ):
        pass


def test_missing_folders_are_made_and_vanish_with_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "made" / "here" / "some.parquet"
    with pytest.raises(RuntimeError), write_trace(path, METADATA):
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with write_trace(path, METADATA) as writer:
        writer.append(*accesses(10))
    assert [file.name for file in path.parent.iterdir()] == ["some.parquet"]


def test_summary_counts_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    with write_trace(path, METADATA) as writer:
        writer.append(0, 0, 0, 0, np.array([1, 2, 3], np.uint64), np.array([10, 12, 15], np.uint64))
        writer.append(0, 0, 0, 1, np.array([2, 3], np.uint64), np.array([40, 42], np.uint64))
        writer.append(1, 0, 0, 1, np.array([9], np.uint64), np.array([99], np.uint64))
    with TraceReader(path) as reader:
        summary = summarize(reader)
    assert (summary.accesses, summary.frames, summary.tiles, summary.lines, summary.line_bytes) == (6, 2, 3, 4, 1024)
    assert (summary.reused, summary.first_ns, summary.last_ns, summary.closest_ns) == (2 / 6, 10, 99, 2)


def test_what_the_page_shows_writes_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[1] / "docs" / "traces.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for snippet in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(snippet, {})
    for name, accesses in (("own", 2 * 17 * (1 + 2 + 3 + 4)), ("bus", 3)):
        with TraceReader(f"{name}.parquet") as reader:
            assert summarize(reader).accesses == accesses
    assert main(["run", "own.parquet", "--residency", "1", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["frames"]) == 4
    assert main(["run", "bus.parquet"]) == 1
    assert "has no geometry to tell what is born when (see docs/traces.md)" in capsys.readouterr().err
    for column in _SCHEMA:
        assert f"`{column.name}`" in page
