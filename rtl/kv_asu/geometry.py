"""Masks for the part of the table in use and for the granule, worked out ahead of the paths that need them."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.params import LINE_BITS, MAX_LINE_SHIFT, Params


class Geometry(wiring.Component):
    """Members: ``log2_active``, ``line_shift`` in; ``row_mask`` (rows in use, less one) and ``granule_mask`` (the bits
    of a line number that count) a clock later. Neither register changes while the core is enabled. Both masks
    come out of reset as the registers do: the whole table, a line.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        super().__init__(
            {
                "log2_active": In(5),
                "line_shift": In(5),
                "row_mask": Out(params.log2_entries - params.log2_window, init=params.rows - 1),
                "granule_mask": Out(params.line_width, init=(1 << params.line_width) - 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        cleared = (1 << (self.line_shift - LINE_BITS)[:5]) - 1  # LINE_SHIFT is 24 at most: these bits alone change
        changing = MAX_LINE_SHIFT - LINE_BITS
        m.d.sync += [
            self.row_mask.eq((1 << (self.log2_active - p.log2_window)[:5]) - 1),
            self.granule_mask.eq(Cat(~cleared[:changing], Const(-1, p.line_width - changing))),
        ]
        return m
