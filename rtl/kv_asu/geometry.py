"""Masks for the part of the table in use and for the granule, worked out ahead of the paths that need them."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.params import LINE_BITS, Params


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
        for bit in range(p.log2_entries - p.log2_window):
            m.d.sync += self.row_mask[bit].eq(self.log2_active > bit + p.log2_window)
        for bit in range(p.line_width):
            m.d.sync += self.granule_mask[bit].eq(self.line_shift <= bit + LINE_BITS)
        return m
