"""Builds small enough for the solver."""

from __future__ import annotations

from dataclasses import dataclass

from kv_asu.params import Params


@dataclass(frozen=True)
class ProofParams(Params):
    """Eight slots and narrow lines and stamps, which :class:`Params` would refuse; any ``addr_width`` from 9 on."""

    addr_width: int = 12
    log2_entries: int = 3
    window: int = 2
    stamp_width: int = 4

    def __post_init__(self) -> None:
        """Nothing is checked: what is proved here is not built."""


def small(window: int, *, follows: bool, stamp_width: int = 4) -> ProofParams:
    """Eight slots, with the list in step with the decisions (L = 1) or following them (table_stages = 2)."""
    return ProofParams(window=window, table_stages=2 if follows else 0, stamp_width=stamp_width)
