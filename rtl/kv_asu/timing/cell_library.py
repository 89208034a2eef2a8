"""The delay tables of all cells in one set of arrays, so that many arcs are looked up at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kv_asu.timing.cells import CellTiming

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class CellLibrary:
    """Every cell's arcs stacked, one row per (cell, input pin).

    Parameters
    ----------
    cells : dict
        By name; those without arcs, the tie cells, are left out. All tables are of one shape.

    Attributes
    ----------
    cells : list of CellTiming
        A cell's *kind* is its place here.
    number : dict
        Name to kind.
    row : dict
        (kind, input pin) to row.
    pins : list of str
        The input pin of each row.
    caps : ndarray
        Femtofarads of each row's pin.
    family : dict
        Kind to the kinds with the same function and pins, itself included, the smallest first.
    buffers : list of int
        Kinds of the buffers.
    """

    def __init__(self, cells: dict[str, CellTiming]) -> None:
        self.cells = [cell for cell in cells.values() if cell.arcs]
        self.number = {cell.name: kind for kind, cell in enumerate(self.cells)}
        arcs = [(kind, pin) for kind, cell in enumerate(self.cells) for pin in cell.arcs]
        self.row = {arc: row for row, arc in enumerate(arcs)}
        self.pins = [pin for _, pin in arcs]
        self.caps = np.array([self.cells[kind].caps[pin] for kind, pin in arcs])
        self._slews = np.array([self.cells[kind].slews for kind, _ in arcs])
        self._loads = np.array([self.cells[kind].loads for kind, _ in arcs])
        tables = np.array([self.cells[kind].arcs[pin] for kind, pin in arcs])
        # (row, edge, slew, load) in one flat first axis, delay and slew in the second: one gather per corner.
        self._flat = np.ascontiguousarray(tables.transpose(0, 1, 3, 4, 2)).reshape(-1, 2)
        self.family = self._families()
        self.buffers = [
            kind for kind, cell in enumerate(self.cells) if cell.function in ("A", "(A)") and list(cell.arcs) == ["A"]
        ]

    def _families(self) -> dict[int, list[int]]:
        groups: dict[tuple[str, ...], list[int]] = {}
        for kind, cell in enumerate(self.cells):
            if cell.function:
                groups.setdefault((cell.function, cell.output, *sorted(cell.arcs)), []).append(kind)
        ordered = [sorted(group, key=lambda kind: self.cells[kind].area) for group in groups.values()]
        return {kind: group for group in ordered for kind in group}

    def look_up(self, rows: Index, slew: Array, load: Array) -> Array:
        """Interpolate, or extrapolate, in both directions.

        Parameters
        ----------
        rows : ndarray
            (n) rows.
        slew : ndarray
            (n, 4) picoseconds at the input, by `EDGES`.
        load : ndarray
            (n) femtofarads at the output.

        Returns
        -------
        ndarray
            (n, 4, 2) picoseconds of delay and of output slew.
        """
        slews, loads = self._slews[rows], self._loads[rows]
        n, across, down = np.arange(len(rows)), slews.shape[1], loads.shape[1]
        j = np.clip((loads <= load[:, None]).sum(1) - 1, 0, down - 2)
        below = loads[n, j]
        along_load = ((load - below) / (loads[n, j + 1] - below))[:, None, None]
        i = np.clip((slews[:, None, :] <= slew[:, :, None]).sum(2) - 1, 0, across - 2)
        before = slews[n[:, None], i]
        along_slew = ((slew - before) / (slews[n[:, None], i + 1] - before))[:, :, None]
        at = ((rows[:, None] * 4 + np.arange(4)) * across + i) * down + j[:, None]
        low, high = self._flat.take(at, 0), self._flat.take(at + down, 0)
        low += (self._flat.take(at + 1, 0) - low) * along_load
        high += (self._flat.take(at + down + 1, 0) - high) * along_load
        low += (high - low) * along_slew
        return low
