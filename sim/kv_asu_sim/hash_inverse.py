"""The table's hash run backwards: lines chosen for the slot they start from.

MurmurHash3's 32-bit finalizer is a bijection: each xor-shift and each odd multiplier has an inverse, so a line for any
home slot is computed, not searched.
"""

from __future__ import annotations

import numpy as np

from kv_asu.params import LINE_BITS, Params

_INVERSE_1 = np.uint32(pow(0x85EBCA6B, -1, 1 << 32))
_INVERSE_2 = np.uint32(pow(0xC2B2AE35, -1, 1 << 32))


def fmix32_inverse(hashed: np.ndarray) -> np.ndarray:
    """Undo MurmurHash3's 32-bit finalizer.

    Parameters
    ----------
    hashed : ndarray of uint32
        Finalizer outputs, any shape.

    Returns
    -------
    ndarray of uint32
        The inputs they came from.
    """
    h = hashed.astype(np.uint32)
    h ^= h >> np.uint32(16)  # a shift of half the width or more undoes itself
    h *= _INVERSE_2
    h ^= (h >> np.uint32(13)) ^ (h >> np.uint32(26))
    h *= _INVERSE_1
    return h ^ (h >> np.uint32(16))


def lines_with_home(
    params: Params,
    homes: np.ndarray,
    rng: np.random.Generator,
    *,
    log2_active: int | None = None,
    line_shift: int = LINE_BITS,
    hash_seed: int = 0,
) -> np.ndarray:
    """Draw one random line number for each home slot asked for.

    Parameters
    ----------
    params : Params
        The build: its address width bounds the line numbers.
    homes : ndarray of int
        Home slots, each below the number of active entries.
    rng : Generator
        Source of the free bits.
    log2_active : int, optional
        log2 of the active entries; the built size by default.
    line_shift : int
        log2 of the granule in bytes, 8 to 24.
    hash_seed : int
        The HASH_SEED register.

    Returns
    -------
    ndarray of uint64
        Line numbers in units of 256 bytes, as many as there are homes; repeats are possible but unlikely.
    """
    log2_active = params.log2_entries if log2_active is None else log2_active
    homes = np.asarray(homes, dtype=np.uint32)
    granule = np.uint32((1 << (line_shift - LINE_BITS)) - 1)
    high_width = max(params.line_width - 32, 0)
    lines = np.zeros(homes.size, dtype=np.uint64)
    missing = np.arange(homes.size)
    while missing.size:
        free = rng.integers(0, 1 << 32, missing.size, dtype=np.uint32)
        mixed = fmix32_inverse((free << np.uint32(log2_active)) | homes[missing]) ^ np.uint32(hash_seed)
        high = rng.integers(0, 1 << high_width, missing.size, dtype=np.uint32)
        if high_width:
            # the low word is mixed ^ high: its granule bits vanish when both agree there
            reach = np.uint32((1 << high_width) - 1) & granule
            high = (high & ~reach) | (mixed & reach)
        low = mixed ^ high
        fits = (low & granule) == 0
        if params.line_width < 32:
            fits &= (low >> np.uint32(params.line_width)) == 0
        lines[missing] = (high.astype(np.uint64) << np.uint64(32)) | low
        missing = missing[~fits]
    return lines
