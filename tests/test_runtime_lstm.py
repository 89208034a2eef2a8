"""The LSTM: regions of lines, sequences, derivatives against differences, training that learns and repeats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from small_streams import GRID, write_stream
from vrex.bench.hit_rate import TLevelTape
from vrex.bench.jobs import new_watch
from vrex.bench.stream import Stream
from vrex.cli import main
from vrex.errors import VrexError
from vrex.runtime.lstm import INPUTS, MOST_PARAMETERS, STEPS, RegionLstm, Regions
from vrex.runtime.policy import Predictors, RetrievalPolicy
from vrex.trace.address_map import AddressMap, PatchGrid
from vrex.train.training import gradient, loss, sequences, train


def some_lstm(seed: int = 1) -> RegionLstm:
    rng = np.random.default_rng(seed)
    return RegionLstm(rng.normal(size=(12, 8)), rng.normal(size=12), rng.normal(size=4))


def test_parameters() -> None:
    assert some_lstm().parameters == 112 <= MOST_PARAMETERS
    with pytest.raises(ValueError, match="at most 128 parameters, not 165"):
        RegionLstm(np.zeros((16, 9)), np.zeros(16), np.zeros(5))
    with pytest.raises(ValueError, match="of one cell of 3 units"):
        RegionLstm(np.zeros((12, 9)), np.zeros(12), np.zeros(4))


def test_one_step_by_hand() -> None:
    cell, bias = np.zeros((4, 6)), np.array([0.0, 0.0, 0.0, 1.0])
    lstm = RegionLstm(cell, bias, np.array([2.0, 0.5]))
    state = 0.5 * np.tanh(1.0)  # gates at 0 are half open
    output = 0.5 * np.tanh(state)
    assert lstm.probability(np.zeros((1, 1, INPUTS)))[0] == pytest.approx(1 / (1 + np.exp(-(2 * output + 0.5))))


def test_derivatives_are_differences() -> None:
    rng = np.random.default_rng(2)
    lstm = some_lstm()
    inputs, read = rng.random((7, STEPS, INPUTS)), rng.random(7)
    for weight, slope in zip((lstm.cell, lstm.bias, lstm.readout), gradient(lstm, inputs, read), strict=True):
        for index in np.ndindex(weight.shape):
            kept = weight[index]
            weight[index] = kept + 1e-6
            above = loss(lstm, inputs, read)
            weight[index] = kept - 1e-6
            below = loss(lstm, inputs, read)
            weight[index] = kept
            assert slope[index] == pytest.approx((above - below) / 2e-6, abs=1e-7)


def test_training_learns_and_repeats() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.random((600, STEPS, INPUTS))
    read = (inputs[:, -2, 2] > 0.5).astype(float)  # what was a step ago decides
    lstm = train(inputs, read, 60, seed=5)
    assert loss(lstm, inputs, read) < 0.3
    assert np.array_equal(lstm.cell, train(inputs, read, 60, seed=5).cell)
    assert not np.array_equal(lstm.cell, train(inputs, read, 60, seed=6).cell)


def test_regions_of_a_picture() -> None:
    kv = AddressMap(layers=1, heads=1, head_size=64, max_tokens=514)
    regions = Regions(kv, PatchGrid(16, 16, leading=1), some_lstm())
    assert regions.of_line[:6].tolist() == [-1, 0, 0, 0, 0, 1]
    assert regions.of_line[256] == 15
    assert regions.of_line[257] == -1
    levels = np.zeros(514, np.uint8)
    levels[1:5] = 3  # a quarter of region 0's first row, in one of two frames
    shares = regions.shares(levels, 4)
    assert shares[0].tolist() == [28 / 32, 0, 0, 4 / 32]
    assert shares.sum(axis=1).tolist() == [1.0] * 16
    assert regions.shares(levels[:1], 4).sum() == 0


def test_what_is_watched_is_remembered_for_five_frames() -> None:
    kv = AddressMap(layers=1, heads=2, head_size=64, max_tokens=257)
    regions = Regions(kv, PatchGrid(16, 16, leading=1), some_lstm())
    for frame in range(7):
        fed = regions.watch(0, np.full(257, frame % 4, np.uint8), np.full(16, 4.0 * frame))
    assert fed.shape == (16, STEPS, INPUTS)
    assert fed[3, :, :4].argmax(axis=1).tolist() == [2, 3, 0, 1, 2]
    assert fed[3, :, 4].tolist() == [0.5, 0.75, 1, 1, 1]
    assert not regions.watch(1, np.zeros(257, np.uint8), np.zeros(16))[:, :-1].any()  # the other head's own


def test_the_policy_hears_it() -> None:
    kv = AddressMap(layers=1, heads=1, head_size=64, max_tokens=257)
    grid = PatchGrid(16, 16, leading=1)
    cell = np.zeros((12, 8))
    cell[9:, 3] = 20  # T-level 3 is all that it looks at
    lstm = RegionLstm(cell, np.zeros(12), np.array([20.0, 20.0, 20.0, -5.0]))
    hot = np.where(np.arange(257) < 129, 3, 0).astype(np.uint8)
    policy = RetrievalPolicy(
        kv, 1, Predictors(tlevels=False, history=False), lambda first, count: hot[first : first + count],
        regions=Regions(kv, grid, lstm),
    )  # fmt: skip
    policy.write(0, np.arange(257))
    for frame in range(6):
        policy.read(frame, 0, 0, np.arange(1, 129))
    policy.end_visit()
    assert policy.likely[1:129].min() > 0.8
    assert policy.likely[129:].max() < 0.2


def test_the_weights_that_come_with_it() -> None:
    lstm = RegionLstm.load()
    assert lstm.parameters <= MOST_PARAMETERS
    assert lstm.made["seed"] == 1
    assert lstm.made["loss"] < lstm.made["loss_of_the_mean"]
    assert not {"bikes.parquet", "bikes.mp4"} & {*lstm.made["traces"], *lstm.made["clips"]}  # what we measure on


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"made": {}, "cell": [[1]], "bias": [1], "readout": [NaN]}'])
def test_files_that_are_no_weights(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.json").write_text(text)
    with pytest.raises(VrexError, match="no weights of the LSTM"):
        RegionLstm.load(tmp_path / "w.json")
    with pytest.raises(VrexError, match=r"no-such\.json: cannot be read"):
        RegionLstm.load(tmp_path / "no-such.json")


def test_sequences_end_in_what_is_read_next(tmp_path: Path) -> None:
    stream = Stream(write_stream(tmp_path / "in.parquet", 9, frames=4))
    motion = np.arange(4 * 16).reshape(4, 16) / 8
    inputs, read = sequences(stream, TLevelTape(new_watch(stream, "model", 8)), motion)
    assert inputs.shape == (3 * 4 * 16, STEPS, INPUTS)
    assert read.shape == (3 * 4 * 16,)
    assert inputs[:16, -1, 4].tolist() == (motion[0] / 16).tolist()
    assert 0 <= read.min() < read.max() <= 1
    # frames 0 and 1 have read a region's line each: of GRID's 16 patches, one region has one in a frame
    assert set(np.unique(read[:64])) <= {0.0, 0.5, 1.0}
    assert GRID.rows == 4


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_stream(tmp_path / "in.parquet", 10, frames=5)
    command = ["train", str(trace), "--transport", "model", "--log2-entries", "8", "--epochs", "3", "-o"]
    assert main([*command, str(tmp_path / "a.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == 112
    assert main([*command, str(tmp_path / "b.json")]) == 0
    assert "112 parameters from 192 sequences" in capsys.readouterr().out
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
    RegionLstm.load(tmp_path / "a.json")
    assert main([*command, str(tmp_path / "c.json"), "--clip", "a.mp4", "--clip", "b.mp4"]) == 2
    one = write_stream(tmp_path / "one.parquet", 10, frames=1)
    assert main(["train", str(one), "--transport", "model", "-o", str(tmp_path / "c.json")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert "2 clips for 1 traces" in errors[0]
    assert "too few frames" in errors[1]
