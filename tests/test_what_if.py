"""What a trace asks of a table, against a count by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vrex.trace.format
from kv_asu.command_line import Parser
from kv_asu_sim.what_if import WorkingSet, add_options, from_options, working_set
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
            assert found.span_ns == 10_006
            assert found.always_tracked == 1 - found.granules / 13


@pytest.mark.parametrize(
    ("tick", "between_ns", "coarser"),
    [
        (18, 870, 7),
        (18, 511, 6),
        (18, 512, 7),
        (18, 8, 1),
        (18, 3, 0),
        (2, 870, 2),
        (0, 870, 0),
        (31, 8, 7),
        (26, 8, 2),
    ],
)
def test_simulated_clocks_leave_room_for_the_trace(tick: int, between_ns: int, coarser: int) -> None:
    """Half of them stay idle, as long as one stands for a clock at least, a tick at most, and TICK_SHIFT can be had."""
    parser = Parser("python -m some", "")
    add_options(parser)
    chosen = from_options(parser, parser.parse_args(["--tick", str(tick)]))
    fitted = chosen.for_trace(WorkingSet(1000, 10, 10, between_ns * 1000))
    assert fitted.log2_coarser == coarser
    assert fitted.settings.tick_shift == tick - coarser
    assert fitted.simulated_ns == 2 << coarser
    assert fitted.tick_ns == chosen.tick_ns == 2 << tick
