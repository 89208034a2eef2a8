"""Which tokens, or which bits of them, a tile reads when it may read only so many bytes, and what its output loses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]

#: Elements that share a scale and a zero point, each of fp16, in INT4.
INT4_GROUP = 32

#: Bytes of an INT4 element over those of an fp16 one, scales and zero points included.
INT4_SHARE = (4 * INT4_GROUP + 2 * 16) / (16 * INT4_GROUP)

#: First tokens that a sliding window keeps for ever.
SINKS = 4


def attend(queries: Floats, keys: Floats, values: Floats, stands_for: Floats | None = None) -> Floats:
    """Attention's output over the tokens given.

    Parameters
    ----------
    queries : numpy.ndarray, shape (q, d)
    keys, values : numpy.ndarray, shape (n, d)
        Scaled so that queries @ keys.T are the logits.
    stands_for : numpy.ndarray, shape (n,), optional
        How many tokens each stands for; one unless given.

    Returns
    -------
    numpy.ndarray, shape (q, d)
    """
    logits = queries @ keys.T
    weights = softmax(logits if stands_for is None else logits + np.log(stands_for))
    output: Floats = weights @ values
    return output


def softmax(logits: Floats) -> Floats:
    """By rows."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    normal: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normal


def int4(values: Floats) -> Floats:
    """What is left of rows (n, d) in 4 bits an element, asymmetric, by groups of `INT4_GROUP`."""
    groups = values.reshape(len(values), -1, INT4_GROUP)
    low = groups.min(axis=2, keepdims=True).astype(np.float16).astype(np.float32)
    scale = ((groups.max(axis=2, keepdims=True) - low) / 15).astype(np.float16).astype(np.float32)
    steps = np.clip(np.round((groups - low) / np.where(scale, scale, 1)), 0, 15)
    return np.asarray(steps * scale + low, np.float32).reshape(values.shape)


def heaviest(mass: npt.NDArray[np.floating], count: int) -> Tokens:
    """The heaviest tokens, ascending."""
    return np.sort(np.argsort(-mass, kind="stable")[:count])


def heaviest_and_sample(mass: npt.NDArray[np.floating], count: int) -> tuple[Tokens, Floats]:
    """Half of the count for the heaviest tokens, half for an even sample of the others, which stands for all of these.

    Attention that is spread thinly over many tokens is not lost then, only coarser.

    Returns
    -------
    tokens : numpy.ndarray of int
        Ascending.
    stands_for : numpy.ndarray
        How many tokens each stands for.
    """
    heavy = heaviest(mass, (count + 1) // 2)
    others = np.setdiff1d(np.arange(len(mass)), heavy)
    sampled = even_sample(others, count - len(heavy))
    tokens = np.concatenate([heavy, sampled])
    each = np.append(np.ones(len(heavy)), np.full(len(sampled), len(others) / max(1, len(sampled))))
    order = np.argsort(tokens)
    return tokens[order], each[order].astype(np.float32)


def even_sample(tokens: Tokens, count: int) -> Tokens:
    """So many of the tokens, evenly spread."""
    count = min(count, len(tokens))
    places = (np.arange(count) + 0.5) * (len(tokens) / max(1, count))
    return tokens[places.astype(np.int64)]


def window(tokens: int, count: int) -> Tokens:
    """The first few tokens, and the latest."""
    sinks = np.arange(min(SINKS, count, tokens))
    return np.union1d(sinks, np.arange(max(0, tokens - (count - len(sinks))), tokens))


def whole_frames(tokens: int, per_frame: int, count: int) -> Tokens:
    """Every so-manieth frame, the latest one always: as many as fit, at least one."""
    frames = tokens // per_frame
    kept = np.unique(np.linspace(frames - 1, 0, max(1, count // per_frame)).round().astype(np.int64))
    return (kept[:, np.newaxis] * per_frame + np.arange(per_frame)).reshape(-1)


def spread_patches(tokens: int, per_frame: int, count: int) -> Tokens:
    """The same patches of every frame, evenly spread."""
    each = max(1, count * per_frame // tokens)
    patches = np.unique(np.linspace(0, per_frame - 1, each).round().astype(np.int64))
    return (np.arange(tokens // per_frame)[:, np.newaxis] * per_frame + patches).reshape(-1)


@dataclass
class HeavyHitters:
    """H2O-like pruning of one head: what is pruned is gone. Half of the budget is for the latest tokens.

    Parameters
    ----------
    share : float
        Tokens it keeps, as a share of all so far.
    """

    share: float
    kept: Tokens = field(default_factory=lambda: np.zeros(0, np.int64))
    _mass: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def grow(self, tokens: int) -> Tokens:
        """A frame's tokens have come; those that are kept now, ascending."""
        new = np.arange(len(self._mass), tokens)
        self._mass = np.append(self._mass, np.zeros(len(new)))
        candidates = np.concatenate([self.kept, new])
        budget = max(1, round(self.share * tokens))
        recent = candidates[-(budget // 2) :] if budget // 2 else candidates[:0]
        others = candidates[: len(candidates) - len(recent)]
        heavy = others[heaviest(self._mass[others], budget - len(recent))]
        self.kept = np.concatenate([heavy, recent])
        return self.kept

    def see(self, mass: npt.NDArray[np.floating]) -> None:
        """Attention that the kept tokens were given: shape (kept,)."""
        self._mass[self.kept] += mass


class Error:
    """Relative error of outputs: the root of the squared differences over the squared outputs, summed over all."""

    def __init__(self) -> None:
        self._difference = self._output = 0.0

    def add(self, output: Floats, exact: Floats) -> None:
        """Count one output."""
        self._difference += float(((output - exact) ** 2).sum())
        self._output += float((exact**2).sum())

    def include(self, other: Error) -> None:
        """Count what another has counted."""
        self._difference += other._difference
        self._output += other._output

    @property
    def relative(self) -> float:
        """0 when nothing was lost."""
        return float(np.sqrt(self._difference / self._output)) if self._output else 0.0
