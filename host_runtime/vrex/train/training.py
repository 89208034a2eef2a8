"""Training of the LSTM: sequences from traces, back-propagation by hand, Adam; in numpy, the same for every seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vrex.bench.hit_rate import TLevelTape
from vrex.bench.stream import Read, Stream
from vrex.runtime.lstm import INPUTS, STEPS, Floats, RegionLstm, Regions, sigmoid
from vrex.trace.format import Progress, no_progress

UNITS = 3


def sequences(
    stream: Stream, core: TLevelTape, motion: Floats | None = None, progress: Progress = no_progress
) -> tuple[Floats, Floats]:
    """What the LSTM would have been fed along a stream, and what came of it.

    Parameters
    ----------
    stream : Stream
    core : TLevelTape
        The core, freshly programmed for the stream.
    motion : numpy.ndarray, shape (frames, regions), optional
        In pixels at 1080p; nothing moves unless given.
    progress : callable
        Told the lines asked for so far, and how many there are.

    Returns
    -------
    inputs : numpy.ndarray, shape (n, STEPS, INPUTS)
    read : numpy.ndarray, shape (n,)
        The share of the region's lines that the next visit read.
    """
    kv, per_frame = stream.geometry.address_map, stream.geometry.grid.tokens_per_frame
    regions = Regions(kv, stream.geometry.grid, _random_lstm(np.random.default_rng(0)))
    still = np.zeros(regions.count)
    inputs: list[Floats] = []
    targets: list[Floats] = []
    fed: dict[int, Floats] = {}
    reads: list[Read] = []
    done = 0

    def end_visit() -> None:
        frame, group = reads[0].frame, reads[0].group
        first = int(kv.lines(*divmod(group, kv.heads), 0)[0])
        count = min((frame + 1) * per_frame, kv.max_tokens) * kv.bytes_per_token // 256
        read = np.zeros(count, np.int64)
        read[np.concatenate([tile.lines for tile in reads]).astype(np.int64) - first] = 1
        if group in fed:
            inputs.append(fed[group])
            targets.append(regions.shares(read, 2)[:, 1])
        moved = still if motion is None or frame >= len(motion) else motion[frame]
        fed[group] = regions.watch(group, core.tlevels(first, count), moved).copy()

    for event in stream.events():
        if not isinstance(event, Read):
            continue
        if reads and (reads[0].frame, reads[0].group) != (event.frame, event.group):
            end_visit()
            reads = []
        reads.append(event)
        core.read(event.lines, int(event.time_ns[0]))
        done += len(event.lines)
        progress(done, stream.reads)
    end_visit()
    if not inputs:
        return np.zeros((0, STEPS, INPUTS)), np.zeros(0)
    return np.concatenate(inputs), np.concatenate(targets)


def loss(lstm: RegionLstm, inputs: Floats, read: Floats) -> float:
    """Cross entropy of what it says against what came, in nats."""
    said = np.clip(lstm.probability(inputs), 1e-9, 1 - 1e-9)
    return float(-np.mean(read * np.log(said) + (1 - read) * np.log(1 - said)))


def gradient(lstm: RegionLstm, inputs: Floats, read: Floats) -> tuple[Floats, Floats, Floats]:
    """The loss's derivatives by cell, bias and readout."""
    count, units = len(inputs), lstm.units
    state, output = np.zeros((count, units)), np.zeros((count, units))
    steps: list[tuple[Floats, ...]] = []
    for step in range(inputs.shape[1]):
        fed = np.concatenate([inputs[:, step], output], axis=1)
        raw = np.split(fed @ lstm.cell.T + lstm.bias, 4, axis=1)
        let_in, keep, let_out, candidate = sigmoid(raw[0]), sigmoid(raw[1]), sigmoid(raw[2]), np.tanh(raw[3])
        before, state = state, keep * state + let_in * candidate
        output = let_out * np.tanh(state)
        steps.append((fed, let_in, keep, let_out, candidate, before, state))
    error = (sigmoid(output @ lstm.readout[:-1] + lstm.readout[-1]) - read) / count
    by_readout = np.append(error @ output, error.sum())
    by_output, by_state = np.outer(error, lstm.readout[:-1]), np.zeros((count, units))
    by_cell, by_bias = np.zeros_like(lstm.cell), np.zeros_like(lstm.bias)
    for fed, let_in, keep, let_out, candidate, before, state in reversed(steps):
        bent = np.tanh(state)
        by_state = by_state + by_output * let_out * (1 - bent**2)
        by_gates = np.concatenate(
            [
                by_state * candidate * let_in * (1 - let_in),
                by_state * before * keep * (1 - keep),
                by_output * bent * let_out * (1 - let_out),
                by_state * let_in * (1 - candidate**2),
            ],
            axis=1,
        )
        by_cell += by_gates.T @ fed
        by_bias += by_gates.sum(axis=0)
        by_output = by_gates @ lstm.cell[:, INPUTS:]
        by_state = by_state * keep
    return by_cell, by_bias, by_readout


def train(
    inputs: Floats,
    read: Floats,
    epochs: int,
    seed: int,
    made: dict[str, Any] | None = None,
    progress: Progress = no_progress,
) -> RegionLstm:
    """Fit the LSTM with Adam, in batches of 256.

    Parameters
    ----------
    inputs, read
        As from `sequences`.
    epochs : int
        How often all of them are seen.
    seed : int
        The first weights and the order follow from it.
    made : dict, optional
        How, for the weights' file.
    progress : callable
        Told the epochs done, and how many there are.
    """
    rng = np.random.default_rng(seed)
    lstm = _random_lstm(rng)
    weights = [lstm.cell, lstm.bias, lstm.readout]
    mean = [np.zeros_like(weight) for weight in weights]
    square = [np.zeros_like(weight) for weight in weights]
    step = 0
    for epoch in range(epochs):
        rate = 0.02 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        for batch in np.array_split(rng.permutation(len(inputs)), -(-len(inputs) // 256)):
            step += 1
            slopes: Sequence[Floats] = gradient(lstm, inputs[batch], read[batch])
            for weight, slope, m, v in zip(weights, slopes, mean, square, strict=True):
                m += 0.1 * (slope - m)
                v += 0.001 * (slope**2 - v)
                weight -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        progress(epoch + 1, epochs)
    lstm.made = made or {}
    return lstm


def _random_lstm(rng: np.random.Generator) -> RegionLstm:
    bias = np.zeros(4 * UNITS)
    bias[UNITS : 2 * UNITS] = 1  # remember, to begin with
    cell = rng.normal(0, 0.3, (4 * UNITS, INPUTS + UNITS))
    return RegionLstm(cell, bias, np.append(rng.normal(0, 0.3, UNITS), 0.0))
