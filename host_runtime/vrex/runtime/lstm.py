"""The LSTM that says how likely a patch region's lines are read in the next frame; numpy is all it needs.

For each (layer, head) and each region of the picture it is fed, for the last 5 frames: which share of the region's
lines was at T-level 0, 1, 2 and 3, and how much moved there. One cell of 3 units, 112 parameters, for all of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vrex.errors import VrexError
from vrex.runtime.motion import REGIONS
from vrex.trace.address_map import LINE_BYTES, AddressMap, PatchGrid

#: Frames it looks back, and what it is fed for each: shares of four T-levels, and motion.
STEPS = 5
INPUTS = 5
MOST_PARAMETERS = 128

#: Motion that counts as 1, in pixels at 1080p.
MUCH_MOTION = 16.0

WEIGHTS = Path(__file__).with_name("lstm_weights.json")

Floats = npt.NDArray[np.float64]


@dataclass
class RegionLstm:
    """The cell and its read-out.

    Parameters
    ----------
    cell : numpy.ndarray, shape (4 * units, INPUTS + units)
        Rows: input gate, forget gate, output gate, candidate.
    bias : numpy.ndarray, shape (4 * units,)
    readout : numpy.ndarray, shape (units + 1,)
        The last one is its bias.
    made : dict
        How the weights were made.
    """

    cell: Floats
    bias: Floats
    readout: Floats
    made: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        units = self.units
        shapes = (self.cell.shape, self.bias.shape, self.readout.shape)
        if shapes != ((4 * units, INPUTS + units), (4 * units,), (units + 1,)):
            raise ValueError(f"weights must be of one cell of {units} units, not of shapes {shapes}")
        if self.parameters > MOST_PARAMETERS:
            raise ValueError(f"the LSTM must have at most {MOST_PARAMETERS} parameters, not {self.parameters}")

    @property
    def units(self) -> int:
        """Of the cell."""
        return len(self.readout) - 1

    @property
    def parameters(self) -> int:
        """How many numbers it is."""
        return self.cell.size + self.bias.size + self.readout.size

    def probability(self, inputs: npt.NDArray[np.floating[Any]]) -> Floats:
        """Of each sequence, how likely its region's lines are read next.

        Parameters
        ----------
        inputs : numpy.ndarray, shape (n, steps, INPUTS)
            The latest step last.

        Returns
        -------
        numpy.ndarray, shape (n,)
        """
        state, output = np.zeros((len(inputs), self.units)), np.zeros((len(inputs), self.units))
        for step in range(inputs.shape[1]):
            gates = np.concatenate([inputs[:, step], output], axis=1) @ self.cell.T + self.bias
            let_in, keep, let_out, candidate = np.split(gates, 4, axis=1)
            state = sigmoid(keep) * state + sigmoid(let_in) * np.tanh(candidate)
            output = sigmoid(let_out) * np.tanh(state)
        return sigmoid(output @ self.readout[:-1] + self.readout[-1])

    def save(self, path: Path) -> None:
        """Write the weights, and how they were made, as JSON."""
        from vrex.files import whole_file

        numbers = {name: np.round(getattr(self, name), 5).tolist() for name in ("cell", "bias", "readout")}
        with whole_file(path) as scratch:
            scratch.write_text(json.dumps({"made": self.made, **numbers}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> RegionLstm:
        """Read weights.

        Raises
        ------
        VrexError
            The file cannot be read, or holds no such weights.
        """
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            arrays = [np.array(stored[name], np.float64) for name in ("cell", "bias", "readout")]
            if not all(np.isfinite(array).all() for array in arrays):
                raise ValueError("a weight is not finite")
            return cls(arrays[0], arrays[1], arrays[2], dict(stored["made"]))
        except OSError as error:
            raise VrexError(f"{path}: cannot be read ({error.strerror}); make weights with 'vrex train'") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise VrexError(f"{path}: no weights of the LSTM ({error}); make some with 'vrex train'") from None


class Regions:
    """Patch regions of a stream's lines, what the LSTM is fed about them, and what it says.

    Parameters
    ----------
    kv : AddressMap
    grid : PatchGrid
        How a frame's tokens tile its picture.
    lstm : RegionLstm, optional
        The one that comes with this package unless given.
    """

    #: Probabilities that part what the LSTM says into four.
    PARTS = (0.05, 0.15, 0.35)

    def __init__(self, kv: AddressMap, grid: PatchGrid, lstm: RegionLstm | None = None) -> None:
        self._lstm = lstm or RegionLstm.load()
        lines = -(-kv.max_tokens * kv.bytes_per_token // LINE_BYTES)
        tokens = np.minimum(np.arange(lines) * LINE_BYTES // kv.bytes_per_token, kv.max_tokens - 1)
        _, row, column = grid.patches(tokens)
        region = row * REGIONS[0] // grid.rows * REGIONS[1] + column * REGIONS[1] // grid.columns
        #: Of each line of a group, its region; -1 for those that have no place in a picture.
        self.of_line: npt.NDArray[np.int64] = np.where(row < 0, -1, region)
        self._past: dict[int, Floats] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return REGIONS[0] * REGIONS[1]

    def shares(self, values: npt.NDArray[Any], kinds: int) -> Floats:
        """Of each region, which share of its lines has each value.

        Parameters
        ----------
        values : numpy.ndarray of int, shape (lines,)
            Of a group's lines from its first on, each below `kinds`.

        Returns
        -------
        numpy.ndarray, shape (regions, kinds)
            0 for a region that has no lines.
        """
        region = self.of_line[: len(values)]
        placed = region >= 0
        cells = region[placed] * kinds + values[placed].astype(np.int64)
        counts = np.bincount(cells, minlength=self.count * kinds).reshape(self.count, kinds)
        shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def watch(self, group: int, levels: npt.NDArray[np.uint8], motion: Floats) -> Floats:
        """One more frame of a group: its sequences, the latest step last.

        Parameters
        ----------
        group : int
        levels : numpy.ndarray, shape (lines,)
            T-levels of its written lines.
        motion : numpy.ndarray, shape (regions,)
            In pixels at 1080p.

        Returns
        -------
        numpy.ndarray, shape (regions, STEPS, INPUTS)
        """
        now = np.concatenate([self.shares(levels, 4), np.minimum(motion / MUCH_MOTION, 1)[:, np.newaxis]], axis=1)
        past = self._past.get(group)
        if past is None:
            past = np.zeros((self.count, STEPS, INPUTS))
        self._past[group] = np.concatenate([past[:, 1:], now[:, np.newaxis]], axis=1)
        return self._past[group]

    def judge(self, group: int, levels: npt.NDArray[np.uint8], motion: Floats) -> npt.NDArray[np.uint8]:
        """One more frame of a group: of each of its lines, 0 to 3 by how likely its region is read; shape (lines,)."""
        likely = self._lstm.probability(self.watch(group, levels, motion))
        part = np.searchsorted(self.PARTS, likely).astype(np.uint8)
        return np.append(part, 0).astype(np.uint8)[self.of_line[: len(levels)]]  # -1: the one appended


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x))."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
