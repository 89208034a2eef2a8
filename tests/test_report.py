"""`vrex report`: what is on the page, and how it behaves in a browser."""

from __future__ import annotations

import base64
import html.parser
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chromium
from made_clips import scene, window, write_clip
from small_streams import GRID, write_stream
from vrex.bench.hit_rate import TLevelTape, hit_rates
from vrex.bench.hit_rate_table import PREDICTORS
from vrex.bench.jobs import new_watch
from vrex.bench.stream import Stream
from vrex.cli import main
from vrex.report.contributions import contributions
from vrex.report.heat import FULL_SCALE, HeatMap
from vrex.report.page import histogram, page
from vrex.run.replay import Replay, Shape, cache_for
from vrex.runtime.policy import ALL

FRAMES = 6


@pytest.fixture
def browser() -> type[chromium.Page]:
    """Opens pages; skips where there is no Chromium, when the test runs: the testplan names it either way."""
    if chromium.PROGRAM is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    return chromium.Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip, a trace, and the pages of both together and of the trace alone."""
    folder = tmp_path_factory.mktemp("report")
    write_clip(folder / "clip.mp4", [window(scene(1), 4 * frame, 8 * frame) for frame in range(FRAMES)])
    trace = write_stream(folder / "small.parquet", 41, frames=FRAMES)
    usual = ["report", str(trace), "--residency", "0.4", "--log2-entries", "11"]
    assert main([*usual, "-o", str(folder / "both.html"), "--clip", str(folder / "clip.mp4")]) == 0
    assert main([*usual, "-o", str(folder / "alone.html"), "--no-predictors", "--frames", "4"]) == 0
    return folder


class _Script(html.parser.HTMLParser):
    """The text of the page's data."""

    def __init__(self) -> None:
        super().__init__()
        self.data = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data += data


def data_of(path: Path) -> dict[str, Any]:
    script = _Script()
    script.feed(path.read_text(encoding="utf-8"))
    data: dict[str, Any] = json.loads(script.data)
    return data


def test_what_is_on_the_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(folder / "small.parquet"), "--residency", "0.4", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    data = data_of(folder / "alone.html")
    counted = ("lines", "hits", "moved", "prefetched", "written", "evictions")
    for shown, expected in zip(data["frames"], run["frames"][:4], strict=True):
        assert {name: shown[name] for name in counted} == {name: expected[name] for name in counted}
    assert data["pictures"] == []
    assert data["predictors"] == []
    assert sum(count for _, count in data["retrievals"]) == sum(frame["retrievals"] for frame in data["frames"])
    registers = {each["name"]: each for each in data["registers"]}
    assert "ENABLE 0x1" in registers["CTRL"]["fields"]
    assert registers["T1"]["fields"] == "COUNT 0x1, AGE 0x7d"
    data = data_of(folder / "both.html")
    assert len(data["pictures"]) == FRAMES
    assert all(base64.b64decode(each.split(",")[1]).startswith(b"\xff\xd8") for each in data["pictures"])
    assert [each["name"] for each in data["predictors"]] == list(PREDICTORS)


def test_a_clip_is_traced_and_shown(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maker has its own tests and needs a model; here it gives a trace that is there."""

    def make(clip: Path, output: Path, *_: object, **__: object) -> None:
        output.write_bytes((folder / "small.parquet").read_bytes())

    monkeypatch.setattr("vrex.run.sources.make_trace", make)
    usual = ["--log2-entries", "11", "--no-predictors", "--frames", "2"]
    assert main(["report", str(folder / "clip.mp4"), "-o", str(tmp_path / "page.html"), *usual]) == 0
    data = data_of(tmp_path / "page.html")
    assert data["name"] == "clip.mp4"
    assert len(data["pictures"]) == len(data["frames"]) == 2


def test_contributions_are_the_benchs_hit_rates(folder: Path) -> None:
    stream = Stream(folder / "small.parquet")
    found = dict(contributions(stream, stream.places(0.4), FRAMES, "model", 11))
    (expected,) = hit_rates(stream, [0.4], ALL, TLevelTape(new_watch(stream, "model", 11)))
    (without,) = hit_rates(stream, [0.4], replace(ALL, history=False), TLevelTape(new_watch(stream, "model", 11)))
    reads = np.zeros(FRAMES)
    for event in stream.events():
        reads[event.frame] += len(getattr(event, "lines", ()))
    assert np.dot(found[""], reads) / reads.sum() == pytest.approx(expected.rate)
    assert np.dot(found["history"], reads) / reads.sum() == pytest.approx(without.rate)
    assert expected.rate != without.rate


def test_heat_is_what_the_query_port_says(folder: Path) -> None:
    """Look by look, against T-levels asked for token by token, while next to no time passes."""
    stream = Stream(folder / "small.parquet")
    cache = cache_for(Shape.of(stream), "model", share=0.4, looks_per_frame=1 << 16)  # asking takes next to no time
    heat = HeatMap(cache, GRID, depth=3)
    expected = np.zeros((FRAMES, 3, GRID.rows * GRID.columns))
    for metrics in Replay(stream, cache, 2, True).run():
        heat.look(metrics.frame)
        for back in range(min(3, metrics.frame + 1)):
            for patch in range(GRID.rows * GRID.columns):
                token = (metrics.frame - back) * GRID.tokens_per_frame + GRID.leading + patch
                levels = [int(cache.tlevels(layer, head, token, 1)[0]) for layer in range(2) for head in range(2)]
                expected[metrics.frame, back, patch] = FULL_SCALE * np.mean(levels) / 3
    found = np.frombuffer(heat.bytes(), np.uint8).reshape(expected.shape)
    assert heat.frames == list(range(FRAMES))
    assert np.abs(found - expected).max() <= 0.5
    assert found.max() > 0
    assert (found[0, 1:] == 0).all()  # before the first frame there was none


def test_retrievals_by_time() -> None:
    assert histogram([]) == []
    assert histogram([1024, 1025, 2048, 5000]) == [("1.02", 1), ("2.05", 2), ("4.1", 0), ("8.19", 1)]
    assert histogram([0]) == [("0.001", 1)]


def test_names_cannot_end_the_script() -> None:
    text = page({"name": "</script><script>alert(1)</script><!--"})
    assert "alert(1)</script>" not in text
    assert json.loads(text.partition('id="data">')[2].partition("</script>")[0])["name"].startswith("</script>")


def test_errors_are_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(write_stream(tmp_path / "t.parquet", 1, frames=2, made={"clip_sha256": "0" * 64}))
    out, clip = str(tmp_path / "page.html"), str(folder / "clip.mp4")
    assert main(["report", trace, "-o", out, "--clip", clip]) == 1
    assert main(["report", trace, "-o", out, "--clip", str(tmp_path / "none.mp4")]) == 1
    assert main(["report", trace, "-o", trace]) == 1
    assert main(["report", str(tmp_path / "none.parquet"), "-o", out]) == 1
    assert main(["report", trace, "-o", out, "--residency", "nan"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 5
    assert "is not the clip that" in errors[0]
    assert "none.mp4: cannot be read (No such file or directory)" in errors[1]
    assert "is what it would be made from" in errors[2]
    assert not (tmp_path / "page.html").exists()


PICTURE = "document.getElementById('picture').toDataURL()"


def move(slider: str, value: int) -> str:
    """A script that moves a slider as a hand does."""
    return (
        f"{{ const slider = document.getElementById('{slider}'); slider.value = {value}; "
        f"slider.dispatchEvent(new Event('input')); {PICTURE} }}"
    )


@pytest.mark.parametrize(("name", "frames"), [("both.html", FRAMES), ("alone.html", 4)])
def test_the_page_in_a_browser(folder: Path, name: str, frames: int, browser: type[chromium.Page]) -> None:
    with browser(folder / name) as shown:
        pictures = [shown.run(move("frame", frame)) for frame in range(frames)]
        assert len(set(pictures)) == frames  # the scrubber changes the picture
        assert shown.run(move("frame", 0)) == pictures[0]
        assert shown.run(move("later", 2)) != pictures[0]
        assert shown.run("document.getElementById('later-says').textContent") == "2"
        shown.run(move("later", 0))
        faint = shown.run(move("overlay", 10))
        assert (faint != pictures[0]) == (name == "both.html")  # without frames there is nothing to see through it
        figures = data_of(folder / name)["frames"]
        shown.run(move("frame", 3))
        told = shown.run("document.getElementById('now').textContent")
        assert f"hit rate{100 * figures[3]['hit_rate']:.1f}%" in told
        cursor = "document.querySelector('.cursor').getAttribute('x1')"
        at_three = shown.run(cursor)
        shown.run(move("frame", 1))
        assert shown.run(cursor) != at_three
        assert shown.run("document.querySelectorAll('#registers tr').length") > 20
        assert shown.run("document.querySelectorAll('figure svg').length") == 6 + (name == "both.html")
        assert shown.run("document.documentElement.scrollWidth <= window.innerWidth")
        shown.run("document.getElementById('play').click()")
        moved = "const look = setInterval(() => frame.value === '1' || (clearInterval(look), done()), 5)"
        shown.run(f"new Promise(done => {{ {moved} }})")
        shown.run("document.getElementById('play').click()")
        assert shown.told == []
        assert shown.requested == [(folder / name).resolve().as_uri()]


def test_the_browser_tells_of_what_a_page_must_not_do(tmp_path: Path, browser: type[chromium.Page]) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<link rel=icon href='data:,'><img src='http://127.0.0.1:9/x.png'><script>nothing.at.all</script>")
    with browser(bad) as shown:
        shown.run("console.error('said so')")
        assert any("ReferenceError" in told for told in shown.told)
        assert any("said so" in told for told in shown.told)
        assert "http://127.0.0.1:9/x.png" in shown.requested
