"""`vrex sweep`: a grid of points, each kept; on this machine, and on a Dask cluster whose workers may die."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sweep_faults
from small_streams import write_stream
from vrex.bench.hit_rate import TLevelTape, hit_rates
from vrex.bench.jobs import new_watch
from vrex.bench.stream import Stream
from vrex.cli import main
from vrex.errors import VrexError
from vrex.runtime.policy import ALL
from vrex.sweep import workers
from vrex.sweep.measure import Result, measure
from vrex.sweep.points import Axes, Job, Source, jobs
from vrex.sweep.store import Store

TESTS = Path(__file__).parent
has_dask = importlib.util.find_spec("distributed") is not None


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stream(tmp_path_factory.mktemp("traces") / "small.parquet", 31, frames=5)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Jobs run in this process, and are listed."""
    done: list[Job] = []

    def run(to_do: list[Job], count: int) -> Iterator[workers.Outcome]:
        for job in to_do:
            done.append(job)
            yield measure(job)

    monkeypatch.setattr(workers, "in_processes", run)
    return done


def axes(**given: Any) -> Axes:
    usual: dict[str, Any] = {
        "policy": ["v-rex"], "log2_entries": [11], "line_shift": [None], "tick_shift": [None], "counts": [(5, 3)],
        "ages": [(25, 50, 125)], "residency": [0.3],
    }  # fmt: skip
    return Axes(**usual | given)


def sweep(trace: Path, out: Path, *arguments: str) -> int:
    return main(["sweep", str(trace), "--transport", "model", "--out", str(out), *arguments])


def test_figures_are_those_of_the_bench(trace: Path, tmp_path: Path, here: list[Job]) -> None:
    assert sweep(trace, tmp_path, "--residency", "0.1,0.3", "--policy", "v-rex,tlevels,driver") == 0
    stream = Stream(trace)
    tape = TLevelTape(new_watch(stream, "model", 11))
    expected = {
        (name, each.residency): each.hits
        for name, predictors in (("v-rex", ALL), ("tlevels", replace(ALL, history=False, lstm=False)))
        for each in hit_rates(stream, [0.1, 0.3], predictors, tape)
    }
    points = json.loads((tmp_path / "sweep.json").read_text())["points"]
    found = {(point["policy"], point["residency"]): point["hits"] for point in points}
    assert {key: hits for key, hits in found.items() if key[0] != "driver"} == expected
    assert len(points) == 6
    assert all(point["reads"] == stream.reads and point["hit_rate"] < 1 for point in points)


def test_the_files_say_the_same(
    trace: Path, tmp_path: Path, here: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--residency", "0.1,0.3,0.5", "--line-shift", "auto,12", "--counts", "5/3,2/1")
    assert sweep(trace, tmp_path, *arguments) == 0
    shown = capsys.readouterr().out
    assert "best on small at 0.5: 0." in shown
    assert "ages 25/50/125" in " ".join(shown.split())
    assert sweep(trace, tmp_path, *arguments, "--json") == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert points == json.loads((tmp_path / "sweep.json").read_text())["points"]
    assert points == pq.read_table(tmp_path / "sweep.parquet").to_pylist()
    with open(tmp_path / "sweep.csv", newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [{name: str(value) for name, value in point.items()} for point in points]
    assert {point["motion"] for point in points} == {False}
    assert {(point["LINE_SHIFT"], point["T3.COUNT"]) for point in points} == {(8, 5), (8, 2), (12, 80), (12, 32)}
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_points_with_motion_are_others_than_those_without(
    trace: Path, tmp_path: Path, here: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep(trace, tmp_path) == 0
    assert json.loads((tmp_path / "sweep.json").read_text())["points"][0]["motion"] is False
    motion = np.zeros((Stream(trace).frames, 16))
    monkeypatch.setattr("vrex.bench.inputs._motion", lambda stream, clip: motion)
    assert sweep(trace, tmp_path) == 0
    assert len(here) == 2
    assert json.loads((tmp_path / "sweep.json").read_text())["points"][0]["motion"] is True
    assert sweep(trace, tmp_path) == 0
    assert len(here) == 2


def test_what_is_measured_stays_measured(trace: Path, tmp_path: Path, here: list[Job]) -> None:
    assert sweep(trace, tmp_path, "--residency", "0.1,0.3", "--ages", "25/50/125,5/10/20") == 0
    assert [len(job.points) for job in here] == [2, 2]
    here.clear()
    assert sweep(trace, tmp_path, "--residency", "0.1,0.2,0.3", "--ages", "5/10/20,5/10/40") == 0
    assert sorted((job.points[0].settings.ages, [point.residency for point in job.points]) for job in here) == [
        ((5, 10, 20), [0.2]),
        ((5, 10, 40), [0.1, 0.2, 0.3]),
    ]
    here.clear()
    damaged, *_ = sorted((tmp_path / "points").iterdir())
    damaged.write_text(damaged.read_text()[:-20])
    assert sweep(trace, tmp_path, "--residency", "0.1,0.2,0.3", "--ages", "25/50/125,5/10/20,5/10/40") == 0
    assert sum(len(job.points) for job in here) == 2  # the damaged one, and 0.2 at 25/50/125
    here.clear()
    other = write_stream(tmp_path / "small.parquet", 32, frames=5)  # the same name
    assert sweep(other, tmp_path, "--residency", "0.3") == 0
    assert len(here) == 1


def test_a_point_is_everything_that_counts(trace: Path) -> None:
    stream = Stream(trace)
    source = Source.of(stream)
    (point,) = axes().points(source, "model")
    others = {
        "policy": "tlevels", "log2_entries": 12, "residency": 0.31, "transport": "rtl", "trace": "f" * 64,
        "motion": "e" * 64, "version": "0", "settings": replace(point.settings, ages=(25, 50, 126)),
    }  # fmt: skip
    changed = [replace(point, **{name: value}) for name, value in others.items()]  # type: ignore[arg-type]
    assert len({each.key for each in [point, *changed]}) == 9
    named = axes(line_shift=[None, point.settings.line_shift], tick_shift=[point.settings.tick_shift, None])
    assert named.points(source, "model") == [point]  # what follows from the stream is no other point
    (settings,) = {point.settings for point in axes(tick_shift=[1]).points(source, "model")}
    assert (settings.tick_shift, settings.coarser) == (1, 1)  # a simulated clock is no longer than a tick


def test_ages_reach_the_core(trace: Path) -> None:
    stream = Stream(trace)
    settings = replace(new_watch(stream, "model", 11).settings, ages=(1, 2, 3))
    from vrex.kv_asu import KvAsu
    from vrex.runtime.core_watch import CoreWatch
    from vrex.transports.model import ModelTransport

    bus = ModelTransport()
    CoreWatch(bus, settings)
    device = KvAsu(bus)
    assert [device.read_field(f"{name}.AGE") for name in ("T3", "T2", "T1")] == [1, 2, 3]
    assert [device.read_field(f"{name}.COUNT") for name in ("T3", "T2")] == [settings.t3_count, settings.t2_count]


def test_a_pass_that_fails_is_told_and_loses_no_other(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In two real processes."""
    monkeypatch.setattr(workers, "measure", sweep_faults.fail_on_large_granules)
    assert sweep(trace, tmp_path, "--line-shift", "8,12,10", "--jobs", "2") == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == "vrex: 1 of 3 passes failed, the first: granules of 4 KiB, says the test; none"
    assert "best on small" in said.out
    assert len(list((tmp_path / "points").iterdir())) == 2


def test_a_process_that_is_killed_is_told(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "measure", sweep_faults.die_once)
    monkeypatch.setenv(sweep_faults.MARK, str(tmp_path / "mark"))
    assert sweep(trace, tmp_path, "--line-shift", "8,12", "--jobs", "1") == 1
    assert "a worker process was killed" in capsys.readouterr().err
    assert sweep(trace, tmp_path, "--line-shift", "8,12", "--jobs", "1") == 0
    assert len(list((tmp_path / "points").iterdir())) == 2


def test_workers_check_the_trace(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "gone.parquet"
    path.write_bytes(trace.read_bytes())
    (job,) = jobs(source := Source.of(Stream(path)), axes().points(source, "model"))
    write_stream(path, 33, frames=5)
    with pytest.raises(VrexError, match="is not what it was when the sweep began"):
        measure(job)
    path.unlink()
    with pytest.raises(VrexError, match="put traces where all workers see them"):
        measure(job)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--residency", "0.1,2"], "'2' is not a share from 0.001 to 1"),
        (["--residency", "nan"], "'nan' is not a share"),
        (["--policy", "lru"], "'lru' is not one of v-rex, tlevels, driver"),
        (["--line-shift", "auto,7"], "'7' is not 8 to 24 or auto"),
        (["--log2-entries", ","], "'' is not 3 to 16"),
        (["--counts", "5"], "'5' is not of the form T3/T2, like 5/3"),
        (["--ages", "50/25/125"], "ages in ticks rise from T3 to T1, which is 1 to 240"),
        (["--ages", "25/50/241"], "ages in ticks rise"),
        (["--scheduler", "farm"], "'farm' is not of the form tcp://HOST:PORT"),
        (["--scheduler", "tcp://farm:8786", "--jobs", "2"], "a scheduler has its own workers"),
    ],
)
def test_usage(arguments: list[str], said: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(trace), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_without_dask_one_line_says_what_brings_it(
    trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vrex.extras.find_spec", lambda name: None if name == "distributed" else object())
    assert main(["sweep", str(trace), "--scheduler", "tcp://127.0.0.1:8786"]) == 1
    error = capsys.readouterr().err
    way_out = "run `make setup-test` in V-Rex's folder"
    assert error == f"vrex: vrex sweep --scheduler needs distributed, which is not installed: {way_out}\n"


def test_results_are_kept_whole(trace: Path, tmp_path: Path) -> None:
    (point,) = axes().points(Source.of(Stream(trace)), "model")
    store = Store(tmp_path / "points")
    assert store.get(point) is None
    store.put(point, Result(10, 7))
    assert store.get(point) == Result(10, 7)
    assert store.get(replace(point, residency=0.4)) is None
    (tmp_path / "points" / f"{point.key}.json").write_text('{"point": {}, "result": {"reads": 1, "hits": 1}}')
    assert store.get(point) is None
    (tmp_path / "file").touch()
    with pytest.raises(VrexError, match="cannot be written"):
        Store(tmp_path / "file" / "points")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and two workers on loopback, in processes of their own: its address, and the workers."""
    if not has_dask:
        pytest.skip("dask and distributed are not installed: make setup-test")
    monkeypatch.setenv("DASK_LOGGING__DISTRIBUTED", "critical")
    monkeypatch.setenv(sweep_faults.MARK, str(tmp_path / "mark"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *sys.path]))
    told = tmp_path / "scheduler.json"
    program, place = [sys.executable, "-m", "dask"], ["--no-dashboard", "--scheduler-file", str(told)]
    processes = [subprocess.Popen([*program, "scheduler", "--host", "127.0.0.1", "--port", "0", *place], cwd=tmp_path)]
    try:
        workers = [*program, "worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", *place]
        processes += [subprocess.Popen(workers, cwd=tmp_path) for _ in range(2)]
        while not told.exists():
            assert processes[0].poll() is None, "the scheduler ended"
            time.sleep(0.1)
        yield json.loads(told.read_text())["address"], processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def test_a_killed_worker_loses_nothing(
    trace: Path,
    tmp_path: Path,
    cluster: tuple[str, list[subprocess.Popen[bytes]]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    address, processes = cluster
    arguments = ("--residency", "0.1,0.3", "--line-shift", "8,10,12")
    monkeypatch.setattr(workers, "measure", sweep_faults.die_once)
    assert sweep(trace, tmp_path / "there", *arguments, "--scheduler", address) == 0
    assert address in capfd.readouterr().err
    assert sorted(process.poll() is None for process in processes) == [False, True]
    monkeypatch.undo()
    assert sweep(trace, tmp_path / "here", *arguments, "--jobs", "1") == 0
    files = sorted(path.name for path in (tmp_path / "here" / "points").iterdir())
    assert len(files) == 6
    for name in [*(f"points/{file}" for file in files), "sweep.csv"]:
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert sweep(trace, tmp_path / "there", *arguments, "--scheduler", address) == 0  # nothing to do, no worker asked
    assert "6 of them measured before, 0 to do" in capfd.readouterr().err


@pytest.mark.skipif(not has_dask, reason="dask and distributed are not installed: make setup-test")
def test_no_scheduler_is_one_line(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "_PATIENCE", 0.5)
    assert sweep(trace, tmp_path, "--scheduler", "tcp://127.0.0.1:1") == 1
    assert "vrex: tcp://127.0.0.1:1: no Dask scheduler answers (" in capsys.readouterr().err
