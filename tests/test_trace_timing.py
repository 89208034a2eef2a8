"""The paced time model, worked by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from vrex.trace.timing import ORIN_NX, PacedClock, Platform, Transformer

#: 256 bytes at 64 GB/s are 4 ns; 1000 operations at 1 TFLOP/s are 1 ns.
PLATFORM = Platform("hand", bytes_per_second=64_000_000_000, flops_per_second=1_000_000_000_000, source="round numbers")
MODEL = Transformer(layers=1, heads=2, head_size=5, mlp_size=40)


def test_orin_nx_takes_two_and_a_half_nanoseconds_a_line() -> None:
    assert ORIN_NX.line_ps == 2500


def test_flops_by_hand() -> None:
    # hidden size 10: QKV 10 x 30, output 10 x 10, MLP 10 x 40 and 40 x 10; 3 tokens; 2 operations each
    assert MODEL.dense_flops(3) == 2 * 3 * (300 + 100 + 400 + 400)
    # scores 7 x 5 x 11 and weighted values 7 x 11 x 5, 2 operations each
    assert MODEL.tile_flops(queries=7, keys=11) == 4 * 7 * 5 * 11
    # a DINOv2 ViT-S layer has 1.77 M weights in its products, each used twice a token
    vit = Transformer(layers=12, heads=6, head_size=64, mlp_size=1536)
    assert vit.dense_flops(1) == 2 * (4 * 384 * 384 + 2 * 384 * 1536)


def test_lines_tiles_layers_and_frames_by_hand() -> None:
    clock = PacedClock(PLATFORM, MODEL, Fraction(1_000_000))  # a frame a microsecond
    clock.start_frame(0)
    clock.run_dense(tokens=3)  # 7200 operations: 7.2 ns
    assert clock.read_tile(queries=7, keys=3, lines=3).tolist() == [7, 11, 15]  # 7.2, 11.2, 15.2; then 0.42 ns
    assert clock.read_tile(queries=7, keys=2, lines=4).tolist() == [19, 23, 27, 31]  # from 7.2 + 12 + 0.42 = 19.62
    clock.start_frame(1)
    assert clock.read_tile(queries=1, keys=300, lines=300)[[0, -1]].tolist() == [1000, 1000 + 299 * 4]
    assert clock.late_frames == 0
    clock.start_frame(2)  # arrives at 2000 while frame 1 runs to 1000 + 1200 + 6
    assert clock.read_tile(queries=1, keys=1, lines=1).tolist() == [2206]
    assert clock.late_frames == 1


def test_no_two_accesses_meet_in_a_two_nanosecond_clock() -> None:
    clock = PacedClock(ORIN_NX, MODEL, Fraction(30))
    clock.start_frame(0)
    times = np.concatenate([clock.read_tile(queries=1, keys=n, lines=n) for n in (1, 7, 100, 3)])
    assert len(np.unique(times // 2)) == len(times)
