"""Hit rates on streams small enough to be worked out by hand, or by a plain model."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from small_streams import write_stream
from vrex.bench.driver_alone import driver_hit_rates
from vrex.bench.hit_rate import Follower, Pool, TLevelTape, hit_rates
from vrex.bench.jobs import new_watch
from vrex.bench.knobs import FROZEN, BenchKnobs
from vrex.bench.peers import ONLINE, peer_hit_rates
from vrex.bench.stream import Birth, Stream
from vrex.cli import main
from vrex.errors import VrexError
from vrex.runtime.policy import Predictors, RetrievalPolicy
from vrex.trace.address_map import AddressMap

pytest.importorskip("libcachesim", reason="libcachesim is not installed")

SHARES = (0.1, 0.3, 0.6)


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return Stream(write_stream(tmp_path_factory.mktemp("traces") / "small.parquet", 7, frames=10))


def plain_lru(stream: Stream, places: int) -> int:
    """Hits of LRU, births included in the recency."""
    pool: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for event in stream.events():
        lines = np.concatenate([*event.heads.values()]) if isinstance(event, Birth) else event.lines
        for line in lines.tolist():
            if line in pool:
                hits += 1
                pool.move_to_end(line)
                continue
            pool[line] = None
            if len(pool) > places:
                pool.popitem(last=False)
    return hits


def plain_belady(stream: Stream, places: int) -> int:
    """Hits when the line whose next use is farthest goes out."""
    sequence = [
        line
        for event in stream.events()
        for line in (np.concatenate([*event.heads.values()]) if isinstance(event, Birth) else event.lines).tolist()
    ]
    following = [len(sequence)] * len(sequence)
    seen: dict[int, int] = {}
    for index in reversed(range(len(sequence))):
        following[index] = seen.get(sequence[index], len(sequence))
        seen[sequence[index]] = index
    pool: dict[int, int] = {}
    hits = 0
    for index, line in enumerate(sequence):
        hits += line in pool
        if line not in pool and len(pool) == places:
            del pool[max(pool, key=pool.__getitem__)]
        pool[line] = following[index]
    return hits


def test_lru_and_belady_of_the_peers_are_what_they_say(stream: Stream) -> None:
    results = peer_hit_rates(stream, SHARES, ("LRU", "Belady"))
    hits = [result.hits for result in results]
    assert hits[:3] == [plain_lru(stream, stream.places(share)) for share in SHARES]
    # equally far lines make Belady's choice, not its hits; libcachesim's looks at a sample of lines
    assert hits[3:] == pytest.approx([plain_belady(stream, stream.places(share)) for share in SHARES], rel=0.02)


def test_every_peer_gives_a_share(stream: Stream) -> None:
    results = peer_hit_rates(stream, SHARES, ONLINE)
    assert [result.policy for result in results[::3]] == list(ONLINE)
    for result in results:
        assert 0 <= result.rate <= 1  # 0: the window of a W-TinyLFU so small has no room for a line
        assert result.hits + result.moved == result.reads


def test_too_few_places_for_the_peers_are_told(tmp_path: Path) -> None:
    stream = Stream(write_stream(tmp_path / "one.parquet", 9, frames=1))
    with pytest.raises(VrexError, match="10% is 6 lines, too few for libcachesim's policies, which need 12"):
        peer_hit_rates(stream, [0.5, 0.1], ["S3-FIFO"])
    assert hit_rates(stream, [0.1], Predictors(tlevels=False))[0].rate > 0  # ours does not mind


def test_with_room_for_all_everything_hits(stream: Stream) -> None:
    (result,) = hit_rates(stream, [1.0], Predictors(tlevels=False))
    assert (result.hits, result.moved) == (stream.reads, 0)


def test_a_still_stream_gets_close_to_belady(tmp_path: Path) -> None:
    stream = Stream(write_stream(tmp_path / "still.parquet", 8, frames=12, still=1.0))
    ours = hit_rates(stream, SHARES[1:], Predictors(tlevels=False))
    bound = peer_hit_rates(stream, SHARES[1:], ("Belady",))
    for ours_here, bound_here in zip(ours, bound, strict=True):
        assert ours_here.hits <= bound_here.hits
        assert ours_here.rate > 0.9 * bound_here.rate


def test_residencies_do_not_disturb_each_other(stream: Stream) -> None:
    together = hit_rates(stream, SHARES, Predictors(tlevels=False))
    assert together == [hit_rates(stream, [share], Predictors(tlevels=False))[0] for share in SHARES]


def test_rtl_or_model_give_the_same(stream: Stream) -> None:
    by_model = hit_rates(stream, SHARES, core=TLevelTape(new_watch(stream, "model", 8)))
    core = TLevelTape(new_watch(stream, "model", 8))
    assert [hit_rates(stream, SHARES, core=core) for _ in range(2)] == [by_model] * 2  # said again
    assert by_model == hit_rates(stream, SHARES, core=TLevelTape(new_watch(stream, "rtl", 8)))
    by_tlevels = Predictors(history=False)
    cold = hit_rates(stream, SHARES, Predictors(history=False, tlevels=False))
    assert hit_rates(stream, SHARES, by_tlevels, TLevelTape(new_watch(stream, "model", 8))) != cold  # they have a say


def test_the_driver_alone(stream: Stream) -> None:
    results = driver_hit_rates(stream, (*SHARES, 1.0), lambda: new_watch(stream, "model", 8))
    rates = [result.rate for result in results]
    assert rates == sorted(rates)
    assert rates[-1] == 1
    assert rates[0] < 1


def test_a_pool_never_holds_more_than_its_places() -> None:
    kv = AddressMap(layers=1, heads=1, head_size=64, max_tokens=64)
    policy = RetrievalPolicy(kv, 1, Predictors(tlevels=False))
    policy.write(0, np.arange(64))
    rng = np.random.default_rng(11)
    for places in (1, 7, 63):
        pool = Pool(policy, places)
        pool.admit(np.arange(64))
        for frame in range(20):
            lines = np.flatnonzero(rng.random(64) < 0.5)
            policy.read(frame, 0, 0, lines)
            pool.ask(lines)
            assert len(pool.resident) <= places
            assert len(set(pool.resident.tolist())) == len(pool.resident)
            if len(lines) <= places:
                assert set(lines.tolist()) <= set(pool.resident.tolist())  # what is in use stays


def test_what_comes_ahead_is_moved_and_hits(stream: Stream) -> None:
    (plain,), (ahead,) = (hit_rates(stream, [0.3], Predictors(tlevels=False), prefetch=p) for p in (None, 0.6))
    assert plain.prefetched == plain.useful == 0
    assert 0 < ahead.useful <= ahead.prefetched
    assert ahead.hits > plain.hits
    assert ahead.moved == ahead.reads - ahead.hits + ahead.prefetched
    # each useful line is a hit that would have been a miss, or was there all the same
    assert ahead.hits - plain.hits <= ahead.useful


def test_peers_are_asked_for_the_same_lines_ahead(stream: Stream) -> None:
    """LRU with a prefetcher, worked out plainly."""
    follower = Follower(stream, Predictors(tlevels=False), prefetch=0.6)
    (result,) = peer_hit_rates(stream, [0.3], ["LRU"], follower)
    pool: OrderedDict[int, None] = OrderedDict()
    hits = brought = 0

    def get(line: int) -> bool:
        hit = line in pool
        pool[line] = None
        pool.move_to_end(line)
        if len(pool) > stream.places(0.3):
            pool.popitem(last=False)
        return hit

    for event, places, ahead in Follower(stream, Predictors(tlevels=False), prefetch=0.6):
        brought += sum(not get(line) for line in ahead.tolist())
        found = sum(get(line) for line in places.tolist())
        hits += 0 if isinstance(event, Birth) else found
    assert (result.hits, result.prefetched) == (hits, brought)
    assert result.moved == stream.reads - hits + brought


def test_the_command(stream: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    knobs = tmp_path / "knobs.toml"
    frozen = (
        FROZEN.read_text()
        .replace("300_000", "500")
        .replace("[0.05, 0.10, 0.15, 0.20, 0.37]", "[0.3]")
        .replace("[11, 16]", "[8]")
    )
    knobs.write_text(frozen.replace("[0.10, 0.15, 0.20]", "[0.3]"))
    command = ["bench", str(stream.path), "--transport", "model", "--knobs", str(knobs), "--out", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    rows = figures["traces"]["small.parquet"]["tables"]["hit-rate"]["rows"]
    rates = {row["policy"]: row["30%"] for row in rows}
    assert rates["V-Rex"] == hit_rates(stream, [0.3], core=TLevelTape(new_watch(stream, "model", 8)))[0].rate
    assert rates["V-Rex as a share of Belady"] == pytest.approx(rates["V-Rex"] / rates["Belady"])
    assert set(ONLINE) < set(rates)
    rows = figures["traces"]["small.parquet"]["tables"]["prefetch"]["rows"]
    ahead = {row["policy"]: (row["30% hit rate"], row["30% moved"]) for row in rows}
    assert ahead["V-Rex"] == pytest.approx((rates["V-Rex"], 1 - rates["V-Rex"]))
    assert ahead["LRU"] == pytest.approx((rates["LRU"], 1 - rates["LRU"]))
    assert ahead["LRU, ahead if likely 0.9"][0] != rates["LRU"]
    assert json.loads((tmp_path / "out" / "figures.json").read_text()) == figures
    assert (tmp_path / "out" / "small-hit-rate.png").stat().st_size > 1000
    assert main([*command, "--no-peers"]) == 0
    assert "V-Rex without history" in capsys.readouterr().out


def test_what_is_measured_is_kept_when_it_is_stopped(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vrex.bench.latency_table.latency_table", stopped)
    command = ["bench", str(stream.path), "--transport", "model", "--table", "reuse", "--table", "latency"]
    assert main([*command, "--out", str(tmp_path)]) == 130
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert list(figures["traces"]["small.parquet"]["tables"]) == ["reuse"]
    assert "F1" in capsys.readouterr().out


def test_wrong_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--table", "speeed"]) == 2
    assert main(["bench", str(tmp_path / "none.mp4"), "--out", str(tmp_path)]) == 1
    assert main(["bench", "--out", str(tmp_path / "none.mp4" / "x"), "--knobs", str(tmp_path / "none.toml")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "'speeed' is not one of hit-rate, prefetch, reuse" in errors[0]
    assert "none.mp4: cannot be read" in errors[1]
    assert "none.toml: cannot be read" in errors[2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[hit_rate]", "[hitrate]", r"\[hit_rate\] must have residencies"),
        ("frames = 48", "frames = 48\nextra = 1", r"\[trace\] must have frames, layers"),
        ("share = 0.5", "share = 1.5", "trace.share must be like 0.5, not 1.5"),
        ("frames = 48", "frames = true", "trace.frames must be like 48, not True"),
        ("log2_entries = [11, 16]", "log2_entries = []", "hit_rate.log2_entries must be like"),
        ("[trace]", "[trace", "no TOML"),
    ],
)
def test_knobs_are_checked(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "knobs.toml"
    path.write_text(FROZEN.read_text().replace(old, new, 1))
    with pytest.raises(VrexError, match=message):
        BenchKnobs.read(path)
