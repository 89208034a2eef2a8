"""The latency page: what its measurements find, that it is current, and that the wave picture says what was seen."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from kv_asu.params import Params
from kv_asu_sim import latency
from kv_asu_sim.compiled import CompiledCore
from kv_asu_sim.latency import Histogram, draw, measure_compiled, stale

SMALL = Params(log2_entries=4, window=4)
DEEP = Params(log2_entries=6, window=16, hash_stages=1, table_stages=1, stamp_width=9, addr_width=40)


@pytest.mark.parametrize("params", [SMALL, DEEP], ids=["L = 1", "L = 3"])
def test_every_answer_takes_l_clocks(params: Params) -> None:
    histogram = measure_compiled(CompiledCore(params, seed=1), 20_000, 1, stretch=4000)
    assert {clocks for _, clocks in histogram.counts} == {params.latency}
    assert histogram.counts["request", params.latency] >= 20_000
    assert min(histogram.counts.values()) > 4_000
    assert histogram.unanswered() == 0


def rows(**valid: list[int]) -> tuple[np.ndarray, np.ndarray]:
    core = CompiledCore(SMALL)
    inputs, outputs = core.operations(8), core.run(core.operations(8))
    for name, clocks in valid.items():
        (inputs if name in (inputs.dtype.names or ()) else outputs)[name][clocks] = 1
    return inputs, outputs


def test_a_late_answer_has_a_bin_of_its_own() -> None:
    histogram = Histogram()
    histogram.add(*rows(req_valid=[0, 1, 7], tag_valid=[1, 3]))
    assert histogram.counts == {("request", 1): 1, ("request", 2): 1}
    assert histogram.unanswered() == 1
    histogram.add(*rows(tag_valid=[0]))
    assert histogram.counts["request", 1] == 2
    with pytest.raises(ValueError, match="query: more answers than operations"):
        histogram.add(*rows(answer_valid=[3]))


def test_the_page_is_current() -> None:
    assert not stale(), "docs/latency.md was made from other Verilog or other streams: run make latency"


def test_another_core_makes_it_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "verilog", lambda params: "another")
    assert stale()


def test_the_picture_shows_what_was_seen() -> None:
    samples = [
        {"ps": 2000 * clock, "req_valid": valid, "req_addr": address, "tag_valid": tag, "tag_count": count}
        for clock, (valid, address, tag, count) in enumerate([(0, 7, 0, 0), (1, 0x1200, 0, 0), (0, 5, 1, 3)])
    ]
    svg = draw(samples, "a < b")
    texts = [node.text for node in ElementTree.fromstring(svg).iter() if (node.tag.endswith("}text"))]
    assert texts[0] == "a < b"
    assert texts.count("1200") == 1
    assert not {"7", "5"} & set(texts), "an address that is not valid is nobody's business"
    assert {"0", "2", "4", "3", "req_valid", "tag_count"} <= set(texts)
