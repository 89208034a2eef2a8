"""Table 4: what attention's output loses when it reads fewer bytes: retrieval against INT4, pruning and sampling."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from vrex.bench.fidelity import (
    INT4_SHARE,
    Error,
    Floats,
    HeavyHitters,
    attend,
    even_sample,
    heaviest,
    heaviest_and_sample,
    int4,
    softmax,
    spread_patches,
    whole_frames,
    window,
)
from vrex.bench.jobs import Bars
from vrex.bench.knobs import BenchKnobs
from vrex.bench.table import Table

DEFINITION = (
    "Relative error of attention's output (root of squared differences over squared outputs) on the clip's own "
    "queries, keys and values in the last {measured} of {frames} frames, layers {layers}, all heads, by the share "
    "of the KV bytes that a tile reads, against full attention over fp16 KV. Retrieval: a tile's tokens with the "
    "most attention, found with the exact attention, which a kernel has to predict, or by what the same tile "
    "attended to in the frame before (its own frame's tokens by how that frame attended to its own). And sample: "
    "half of the bytes for these tokens, half for an even sample of the others, each weighed as the number that "
    "it stands for. INT4: all tokens at 4 bits, groups of 32 with scale and zero point, {int4:.1%} of the bytes "
    "whatever the column. H2O-like: half heavy hitters, half latest; what is pruned is gone. Window: 4 sinks and "
    "the latest. DINOv2 ViT-S/14 over consecutive frames, not a video LLM."
)


def fidelity_table(clip: Path, knobs: BenchKnobs, bars: Bars) -> Table:
    """Measure it.

    Parameters
    ----------
    clip : Path
    knobs : BenchKnobs
    bars : callable
        Progress.

    Raises
    ------
    TraceError
        The clip or the model cannot be read, or a package is missing.
    """
    from vrex.trace.packaged import packaged_file
    from vrex.trace.video import Clip
    from vrex.trace.vit import PICTURE_SIZE, VIT_S14_FILE, QueryKeyModel

    budgets = [float(share) for share in knobs.fidelity["budgets"]]
    layers = tuple(knobs.trace["layers"])
    video = Clip(clip)
    frames = min(int(knobs.fidelity["frames"]), video.frames)
    first = max(1, frames - int(knobs.fidelity["measured"]))
    model = QueryKeyModel(packaged_file(*VIT_S14_FILE).path, layers, values=True)
    measures: dict[int, Heads] = {}
    with bars("fidelity", "frames") as bar:
        for frame, picture in enumerate(video.pictures(PICTURE_SIZE, frames)):
            tensors = [tensor.astype(np.float32) for tensor in model.attention_inputs(picture)]
            for layer in range(len(layers)):
                measures.setdefault(layer, Heads(budgets, int(knobs.trace["tile"])))
                measures[layer].add(*(tensor[layer] for tensor in tensors), measured=frame >= first)
            bar(frame + 1, frames)
    errors: dict[str, list[Error]] = merged([heads.errors for heads in measures.values()], len(budgets))
    definition = DEFINITION.format(
        measured=frames - first, frames=frames, layers=", ".join(map(str, layers)), int4=INT4_SHARE
    )
    columns = ("method", *(f"{share:.0%}" for share in budgets))
    table = Table("fidelity", f"Output error at equal bytes, {clip.name}", definition, columns)
    table.rows = [(name, *(error.relative for error in row)) for name, row in errors.items()]
    return table


class Heads:
    """One layer's heads over the frames of a stream.

    Parameters
    ----------
    budgets : list of float
        Shares of the KV bytes that a tile may read.
    tile : int
        Queries of a tile.

    Attributes
    ----------
    errors : dict
        By method, one for each budget.
    """

    def __init__(self, budgets: list[float], tile: int) -> None:
        self._budgets = budgets
        self._tile = tile
        self._keys: list[Floats] = []
        self._values: list[Floats] = []
        self._pruned: dict[tuple[int, float], HeavyHitters] = {}
        self._before: dict[tuple[int, int], Floats] = {}  # by head and tile, the attention of the frame before
        self.errors: dict[str, list[Error]] = defaultdict(lambda: [Error() for _ in budgets])

    def add(self, queries: Floats, keys: Floats, values: Floats, *, measured: bool) -> None:
        """One frame: each shape (heads, tokens a frame, head size)."""
        self._keys.append(keys)
        self._values.append(values)
        past_keys, past_values = np.concatenate(self._keys, axis=1), np.concatenate(self._values, axis=1)
        per_frame = queries.shape[1]
        for head in range(len(queries)):
            self._add_head(head, queries[head], past_keys[head], past_values[head], per_frame, measured)

    def _add_head(
        self, head: int, queries: Floats, keys: Floats, values: Floats, per_frame: int, measured: bool
    ) -> None:
        tokens = len(keys)
        pruned = {share: self._hitters(head, share).grow(tokens) for share in self._budgets}
        given = {share: np.zeros(len(kept)) for share, kept in pruned.items()}
        coarse = (int4(keys), int4(values)) if measured else None
        for number, start in enumerate(range(0, len(queries), self._tile)):
            asking = queries[start : start + self._tile]
            for share, kept in pruned.items():
                given[share] += softmax(asking @ keys[kept].T).sum(axis=0)
            mass = softmax(asking @ keys.T).sum(axis=0)
            before = self._before.get((head, number))
            expected = mass if before is None else np.append(before, before[-per_frame:])
            self._before[head, number] = mass
            if coarse is None:
                continue
            exact = attend(asking, keys, values)
            quantised = attend(asking, *coarse)
            for column, share in enumerate(self._budgets):
                count = max(1, round(share * tokens))
                chosen = {
                    "retrieval, exact": heaviest(mass, count),
                    "retrieval, by the frame before": heaviest(expected, count),
                    "H2O-like": pruned[share],
                    "window with sinks": window(tokens, count),
                    "frame sampling": whole_frames(tokens, per_frame, count),
                    "token sampling": even_sample(np.arange(tokens), count),
                    "patch sampling": spread_patches(tokens, per_frame, count),
                }
                for name, by in (("exact", mass), ("by the frame before", expected)):
                    read, each = heaviest_and_sample(by, count)
                    output = attend(asking, keys[read], values[read], each)
                    self.errors[f"retrieval and sample, {name}"][column].add(output, exact)
                for name, read in chosen.items():
                    self.errors[name][column].add(attend(asking, keys[read], values[read]), exact)
                self.errors["INT4"][column].add(quantised, exact)
        for share, mass in given.items():
            self._hitters(head, share).see(mass)

    def _hitters(self, head: int, share: float) -> HeavyHitters:
        return self._pruned.setdefault((head, share), HeavyHitters(share))


def merged(layers: list[dict[str, list[Error]]], columns: int) -> dict[str, list[Error]]:
    """Errors of all layers together."""
    result: dict[str, list[Error]] = {}
    for errors in layers:
        for name, row in errors.items():
            sums = result.setdefault(name, [Error() for _ in range(columns)])
            for total, error in zip(sums, row, strict=True):
                total.include(error)
    return result
