"""What a trace asks of a table, against a count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vrex.trace.format
from kv_asu_sim.what_if import working_set
from vrex.trace.format import TraceMetadata, TraceReader, write_trace


@pytest.mark.parametrize("group", [3, 1000])
def test_granules_are_counted_over_groups_and_frames(
    tmp_path: Path, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vrex.trace.format, "GROUP_ROWS", group)
    frames = {0: [0, 1, 16, 17, 0, 33], 1: [1, 40, 64, 80, 96, 40, 41]}
    path = tmp_path / "some.parquet"
    with write_trace(path, TraceMetadata("made up")) as writer:
        for frame, lines in frames.items():
            start = frame * 10_000
            writer.append(
                frame, 0, 0, 0, np.array(lines, np.uint64), np.arange(start, start + len(lines), dtype=np.uint64)
            )
    with TraceReader(path) as reader:
        for shift, granule in ((8, 1), (12, 16), (15, 128)):
            found = working_set(reader, shift)
            per_frame = [{line // granule for line in lines} for lines in frames.values()]
            assert found.reads == 13
            assert found.granules == len(set.union(*per_frame))
            assert found.most_in_a_frame == max(map(len, per_frame))
            assert found.always_tracked == 1 - found.granules / 13
