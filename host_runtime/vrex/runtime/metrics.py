"""What the runtime tells of itself: a line a frame for people, JSON lines and Prometheus text for machines.

Times are modelled: they are device time of the discrete-event clock.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

#: Under this hit rate a stream is not served well.
LOW_HIT_RATE = 0.70


@dataclass
class FrameMetrics:
    """One frame.

    Parameters
    ----------
    frame : int
    latency_ms : float
        From its beginning to its end.
    lines, hits : int
        Lines retrieved, and those of them that were resident.
    level_lines, level_hits : list of int
        The same by the line's T-level, 0 to 3.
    prefetch_hits : int
        Hits on lines that were there because they had been brought ahead.
    written, moved, prefetched : int
        Lines born, brought in all, and those of these that were brought ahead.
    moved_bytes : int
        What far memory has read for them: whole blocks.
    evictions, cold_evictions : int
        Lines collected, and those of them that the core's cold list named.
    queue_depth : int
        DMA bursts queued or under way, at most.
    retrievals_ns : list of int
        Device time of each retrieval.
    """

    frame: int
    latency_ms: float = 0.0
    lines: int = 0
    hits: int = 0
    level_lines: list[int] = field(default_factory=lambda: [0] * 4)
    level_hits: list[int] = field(default_factory=lambda: [0] * 4)
    prefetch_hits: int = 0
    written: int = 0
    moved: int = 0
    prefetched: int = 0
    moved_bytes: int = 0
    evictions: int = 0
    cold_evictions: int = 0
    queue_depth: int = 0
    retrievals_ns: list[int] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Hits over lines; a frame that retrieves nothing misses nothing."""
        return self.hits / self.lines if self.lines else 1.0

    def percentile_us(self, percent: float) -> float:
        """Of the retrievals' device time, in microseconds; 0 when there were none."""
        return float(np.percentile(self.retrievals_ns, percent)) / 1000 if self.retrievals_ns else 0.0

    def __str__(self) -> str:
        return f"[Frame {self.frame}] Latency: {self.latency_ms:.1f}ms | KVHitRate: {self.hit_rate:.1%}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; retrievals as their number, median and 99th percentile."""
        values = asdict(self)
        del values["retrievals_ns"]
        return values | {
            "hit_rate": self.hit_rate,
            "retrievals": len(self.retrievals_ns),
            "retrieval_p50_us": self.percentile_us(50),
            "retrieval_p99_us": self.percentile_us(99),
        }

    def json_line(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_json())


#: Prometheus's names of what is counted, and what each is.
_COUNTED = {
    "lines": "KV lines retrieved",
    "hits": "retrieved lines that were resident",
    "prefetch_hits": "hits on lines that had been brought ahead",
    "written": "KV lines born",
    "moved": "lines brought from far memory",
    "prefetched": "lines brought ahead",
    "moved_bytes": "bytes read from far memory, in whole blocks",
    "evictions": "lines collected",
    "cold_evictions": "lines collected because the core's cold list named them",
}


class Totals:
    """Sums over the frames of a stream."""

    #: Retrievals that percentiles look back on.
    _RETRIEVALS = 10_000

    def __init__(self) -> None:
        self.frames = 0
        self.counted: Counter[str] = Counter()
        self.level_lines = [0] * 4
        self.level_hits = [0] * 4
        self._retrievals_ns: list[int] = []
        self._last = FrameMetrics(0)

    def add(self, frame: FrameMetrics) -> None:
        """A frame is over."""
        self.frames += 1
        self._last = frame
        for name in _COUNTED:
            self.counted[name] += getattr(frame, name)
        self.level_lines = [a + b for a, b in zip(self.level_lines, frame.level_lines, strict=True)]
        self.level_hits = [a + b for a, b in zip(self.level_hits, frame.level_hits, strict=True)]
        self._retrievals_ns = (self._retrievals_ns + frame.retrievals_ns)[-self._RETRIEVALS :]

    @property
    def hit_rate(self) -> float:
        """Of all frames."""
        return self.counted["hits"] / self.counted["lines"] if self.counted["lines"] else 1.0

    def percentile_us(self, percent: float) -> float:
        """Of the last retrievals' device time, in microseconds."""
        return float(np.percentile(self._retrievals_ns, percent)) / 1000 if self._retrievals_ns else 0.0

    def prometheus(self) -> str:
        """Prometheus's text format, version 0.0.4."""
        lines = []

        def metric(name: str, kind: str, what: str, *samples: tuple[str, float]) -> None:
            lines.append(f"# HELP vrex_{name} {what}")
            lines.append(f"# TYPE vrex_{name} {kind}")
            lines.extend(f"vrex_{name}{labels} {value}" for labels, value in samples)

        metric("frames_total", "counter", "frames done", ("", self.frames))
        for name, what in _COUNTED.items():
            metric(f"{name}_total", "counter", what, ("", self.counted[name]))
        for name, values in (("level_lines", self.level_lines), ("level_hits", self.level_hits)):
            what = "retrieved lines" if name == "level_lines" else "hits"
            samples = [(f'{{tlevel="{level}"}}', value) for level, value in enumerate(values)]
            metric(f"{name}_total", "counter", f"{what} by T-level", *samples)
        metric("kv_hit_rate", "gauge", "hits over lines of the last frame", ("", self._last.hit_rate))
        metric("frame_latency_ms", "gauge", "device time of the last frame, modelled", ("", self._last.latency_ms))
        metric("dma_queue_depth", "gauge", "bursts queued in the last frame, at most", ("", self._last.queue_depth))
        quantiles = [(f'{{quantile="{q}"}}', self.percentile_us(100 * q)) for q in (0.5, 0.99)]
        metric("retrieval_us", "summary", "device time of a retrieval, modelled", *quantiles)
        return "\n".join(lines) + "\n"
