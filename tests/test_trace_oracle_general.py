"""libCacheSim's oracleGeneral: records byte by byte, exact next accesses, both ways, and bad files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vrex.trace.format
import vrex.trace.oracle_general
from vrex.errors import VrexError
from vrex.trace.format import TraceError, TraceMetadata, TraceReader, write_trace
from vrex.trace.oracle_general import TimeUnit, export_oracle_general, import_oracle_general

#: time 1 us, 1 us, 2 us, 9 us; lines 7, 8, 7, 8; next accesses counted from 1.
RECORDS = bytes.fromhex(
    "01000000 0700000000000000 00010000 0300000000000000"
    "01000000 0800000000000000 00010000 0400000000000000"
    "02000000 0700000000000000 00010000 ffffffffffffffff"
    "09000000 0800000000000000 00010000 ffffffffffffffff"
)


def write(path: Path, lines: list[int], times: list[int]) -> Path:
    with write_trace(path, TraceMetadata("made up")) as writer:
        writer.append(0, 0, 0, 0, np.array(lines, np.uint64), np.array(times, np.uint64))
    return path


def read(path: Path) -> tuple[list[int], list[int]]:
    with TraceReader(path) as reader:
        chunks = list(reader.chunks())
    lines = [line for chunk in chunks for line in chunk.line.tolist()]
    return lines, [time for chunk in chunks for time in chunk.time_ns.tolist()]


def test_export_writes_these_very_bytes(tmp_path: Path) -> None:
    trace = write(tmp_path / "in.parquet", [7, 8, 7, 8], [1000, 1999, 2500, 9000])
    assert export_oracle_general(trace, tmp_path / "out") == 4
    assert (tmp_path / "out").read_bytes() == RECORDS
    assert export_oracle_general(trace, tmp_path / "out.zst") == 4
    with pa.input_stream(str(tmp_path / "out.zst"), compression="zstd") as stream:
        assert stream.read() == RECORDS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out", "out.zst"]


def test_export_in_another_unit(tmp_path: Path) -> None:
    trace = write(tmp_path / "in.parquet", [7, 7], [1_999_999_999, 2_000_000_000])
    export_oracle_general(trace, tmp_path / "out", TimeUnit.s)
    assert list(struct.iter_unpack("<IQIq", (tmp_path / "out").read_bytes())) == [(1, 7, 256, 2), (2, 7, 256, -1)]


@pytest.mark.parametrize("name", ["in.oracleGeneral", "in.oracleGeneral.zst"])
def test_import_reads_these_very_bytes(tmp_path: Path, name: str) -> None:
    with pa.output_stream(str(tmp_path / name), compression="zstd" if name.endswith(".zst") else None) as stream:
        stream.write(RECORDS)
    metadata = import_oracle_general(tmp_path / name, tmp_path / "out.parquet")
    # the second record shares its microsecond with the first: one line-time, 2.5 ns, later
    assert read(tmp_path / "out.parquet") == ([7, 8, 7, 8], [1000, 1002, 2000, 9000])
    assert metadata.geometry is None
    assert metadata.made == {"imported": name, "ids_cut_to_56_bits": 0}


def test_crowded_units_push_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrex.trace.oracle_general, "_RECORDS_AT_ONCE", 100)
    times = [0] * 500 + [1] * 2 + [5]
    (tmp_path / "in").write_bytes(b"".join(struct.pack("<IQIq", time, 1, 1, -1) for time in times))
    import_oracle_general(tmp_path / "in", tmp_path / "out.parquet")
    assert read(tmp_path / "out.parquet")[1] == [n * 5 // 2 for n in range(502)] + [5000]


def test_long_ids_keep_their_low_56_bits_and_are_counted(tmp_path: Path) -> None:
    ids = [(1 << 56) - 1, 1 << 56, (0xAB << 56) | 5]
    (tmp_path / "in").write_bytes(b"".join(struct.pack("<IQIq", 0, identity, 1, -1) for identity in ids))
    metadata = import_oracle_general(tmp_path / "in", tmp_path / "out.parquet")
    assert read(tmp_path / "out.parquet")[0] == [(1 << 56) - 1, 0, 5]
    assert metadata.made["ids_cut_to_56_bits"] == 2


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 90), st.integers(0, 999), st.integers(4, 30), st.booleans())
def test_next_accesses_equal_a_naive_search(
    tmp_path_factory: pytest.TempPathFactory, count: int, seed: int, group: int, packed: bool
) -> None:
    lines = np.random.default_rng(seed).integers(0, 12, count).tolist()
    folder = tmp_path_factory.mktemp("oracle")
    out = folder / ("out.zst" if packed else "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vrex.trace.format, "GROUP_ROWS", group)
        trace = write(folder / "in.parquet", lines, list(range(0, 2500 * len(lines), 2500)))
        export_oracle_general(trace, out)
    with pa.input_stream(str(out), compression="zstd" if packed else None) as stream:
        records = list(struct.iter_unpack("<IQIq", stream.read()))
    assert [record[1] for record in records] == lines
    for index, record in enumerate(records):
        after = lines[index + 1 :]
        assert record[3] == (index + 1 + after.index(lines[index]) + 1 if lines[index] in after else -1)
    import_oracle_general(out, folder / "back.parquet")
    assert read(folder / "back.parquet") == (lines, [n * 2500 // 1000 * 1000 for n in range(len(lines))])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut", RECORDS[:-1], "cut short, or not oracleGeneral: its last record has 23 of 24 bytes"),
        ("empty", b"", "holds no records"),
        ("garbage.zst", b"no zstd at all, whatever its name", "cannot be read"),
        ("back", RECORDS[48:] + RECORDS[:48], "times run backwards after record 0"),
        ("zeros", bytes(48), "not oracleGeneral: record 1 says that its next access is request 0"),
        ("text", b"a line of text, 24 bytes" * 5, "not oracleGeneral: record 1 says that its next access is req"),
        ("picture", np.random.default_rng(1).bytes(24 * 100), "(times run backwards|not oracleGeneral)"),
        ("behind", RECORDS[:72] + struct.pack("<IQIq", 9, 8, 256, 3), "not oracleGeneral: record 4 .* request 3;"),
        ("far", struct.pack("<IQIq", 9, 8, 256, 1 << 48), "not oracleGeneral: record 1 .* request 281474976710656;"),
        ("minus", struct.pack("<IQIq", 9, 8, 256, -3), "not oracleGeneral: record 1 .* request -3;"),
        ("packed", pa.Codec("zstd").compress(RECORDS, asbytes=True), "compressed with zstd; let its name end in .zst"),
    ],
)
def test_bad_files_are_one_line_and_leave_nothing(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    source = tmp_path / name
    source.write_bytes(content)
    with pytest.raises(TraceError, match=f"{name}: {message}") as caught:
        import_oracle_general(source, tmp_path / "out.parquet")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    "records",
    [
        [(0, 7, 0, -1), (0, 8, 1 << 31, (1 << 63) - 1), (0, (1 << 64) - 1, 5, -2)],  # no next; any size and id
        [(5, 7, 1, 1), (5, 7, 1, 2), (6, 7, 1, -1)],  # counted from 0
        [(5, 7, 1, 900), (5, 7, 1, 901), (6, 7, 1, (1 << 48) - 1)],  # the beginning of a longer one, or a sample
        [(1_700_000_000, 7, 1, 2), (1_700_000_000, 7, 1, -1)],  # seconds since 1970
    ],
)
def test_what_real_traces_have_is_taken(tmp_path: Path, records: list[tuple[int, int, int, int]]) -> None:
    (tmp_path / "in").write_bytes(b"".join(struct.pack("<IQIq", *record) for record in records))
    assert import_oracle_general(tmp_path / "in", tmp_path / "out", TimeUnit.s).accesses == len(records)


def test_positions_count_on_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vrex.trace.oracle_general, "_RECORDS_AT_ONCE", 3)
    records = [(0, 7, 1, number + 1) for number in range(8)]
    (tmp_path / "in").write_bytes(b"".join(struct.pack("<IQIq", *record) for record in records))
    assert import_oracle_general(tmp_path / "in", tmp_path / "out").accesses == 8
    records[6] = (0, 7, 1, 6)
    (tmp_path / "in").write_bytes(b"".join(struct.pack("<IQIq", *record) for record in records))
    with pytest.raises(TraceError, match="record 7 says that its next access is request 6"):
        import_oracle_general(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("link", [None, "symbolic", "hard"])
def test_nothing_is_written_over_its_source(tmp_path: Path, link: str | None) -> None:
    trace = write(tmp_path / "in.parquet", [7, 8], [0, 2000])
    (tmp_path / "in.oracleGeneral").write_bytes(RECORDS)
    for source, work in ((trace, export_oracle_general), (tmp_path / "in.oracleGeneral", import_oracle_general)):
        before = source.read_bytes()
        output = source if link is None else tmp_path / "other"
        if link == "symbolic":
            output.symlink_to(source)
        elif link == "hard":
            output.hardlink_to(source)
        with pytest.raises(VrexError, match="is what it would be made from; name another file to write"):
            work(source, output)
        assert source.read_bytes() == output.read_bytes() == before
        if link:
            output.unlink()


def test_zstd_of_several_frames_is_read_to_its_end(tmp_path: Path) -> None:
    records = struct.pack("<IQIq", 3, 5, 256, -1) * 200_001
    source = tmp_path / "in.zst"
    with open(source, "wb") as file:
        for part in (records[:1_000_001], records[1_000_001:]):  # the border lies inside a record
            file.write(pa.Codec("zstd").compress(part, asbytes=True))
    assert import_oracle_general(source, tmp_path / "out.parquet").accesses == 200_001


def test_cut_zstd_is_noticed(tmp_path: Path) -> None:
    trace = write(tmp_path / "in.parquet", list(range(3000)), list(range(0, 30000, 10)))
    source = tmp_path / "out.zst"
    export_oracle_general(trace, source)
    whole = source.read_bytes()
    for keep in range(1, len(whole), 997):
        source.write_bytes(whole[:keep])
        with pytest.raises(TraceError):
            import_oracle_general(source, tmp_path / "back.parquet")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none: no such file"):
        import_oracle_general(tmp_path / "none", tmp_path / "out.parquet")
    with pytest.raises(TraceError, match="cannot be read"):
        import_oracle_general(tmp_path, tmp_path / "out.parquet")


def test_a_trace_too_long_for_the_unit_is_refused(tmp_path: Path) -> None:
    trace = write(tmp_path / "in.parquet", [1], [(1 << 32) * 1000])
    with pytest.raises(TraceError, match="longer than 32 bits of us; choose a longer --time-unit"):
        export_oracle_general(trace, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert export_oracle_general(trace, tmp_path / "out", TimeUnit.ms) == 1
