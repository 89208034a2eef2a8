"""The runtime's figures: the line a frame, JSON lines, Prometheus text."""

from __future__ import annotations

import json
import re

import pytest

from vrex.runtime.metrics import FrameMetrics, Totals


def some_frame(number: int) -> FrameMetrics:
    frame = FrameMetrics(number, latency_ms=118.34, lines=1000, hits=927, prefetch_hits=12, written=4, moved=80)
    frame.level_lines, frame.level_hits = [100, 200, 300, 400], [27, 200, 300, 400]
    frame.retrievals_ns = list(range(1000, 101_000, 1000))
    return frame


def test_the_line_of_a_frame() -> None:
    assert str(some_frame(47)) == "[Frame 47] Latency: 118.3ms | KVHitRate: 92.7%"
    assert str(FrameMetrics(0)) == "[Frame 0] Latency: 0.0ms | KVHitRate: 100.0%"


def test_json_lines() -> None:
    line = some_frame(47).json_line()
    assert "\n" not in line
    values = json.loads(line)
    assert (values["frame"], values["hit_rate"], values["retrievals"]) == (47, 0.927, 100)
    assert values["retrieval_p50_us"] == pytest.approx(50.5)
    assert values["retrieval_p99_us"] == pytest.approx(99.01)


def test_prometheus() -> None:
    totals = Totals()
    totals.add(some_frame(0))
    totals.add(some_frame(1))
    text = totals.prometheus()
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) vrex_\w+ .+|vrex_\w+(\{\w+="[\d.]+"\})? [\d.]+', line), line
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples["vrex_frames_total"] == "2"
    assert samples["vrex_lines_total"] == "2000"
    assert samples['vrex_level_hits_total{tlevel="0"}'] == "54"
    assert samples["vrex_kv_hit_rate"] == "0.927"
    assert float(samples['vrex_retrieval_us{quantile="0.99"}']) == pytest.approx(99.5, abs=1)
    assert totals.hit_rate == 0.927


def test_before_the_first_frame() -> None:
    assert Totals().hit_rate == 1
    assert "vrex_frames_total 0" in Totals().prometheus()
