"""The T-level rule: how likely a line is to be used again soon, from its counter and its age."""

from __future__ import annotations

from amaranth.hdl import Array, Mux, Value
from amaranth.lib import data

from kv_asu.layouts import MAX_COUNT


def t_level(count: Value, age: Value, thresholds: data.View) -> Value:
    """T-level of a line with access counter ``count`` and ``age`` ticks since its last touch.

    ``thresholds`` has ``t3_count``, ``t3_age``, ``t2_count``, ``t2_age`` and ``t1_age``, with
    ``t3_age <= t2_age <= t1_age``. The three levels are tested side by side, not one after the other.
    """
    sure = (count >= thresholds.t3_count) & (age <= thresholds.t3_age)
    likely = (count >= thresholds.t2_count) & (age <= thresholds.t2_age)
    warm = age <= thresholds.t1_age
    return Mux(sure, 3, Mux(likely, 2, warm))


def count_when_touched(count: Value, cold: Value, settings: data.View) -> Value:
    """The access counter after a touch: of a ``cold`` line it first decays as ``settings.decay`` says.

    Whether it is cold takes longest to know: both ends are worked out beside it.
    """

    def counted(kept: Value) -> Value:
        return Mux(kept == MAX_COUNT, MAX_COUNT, kept + 1)

    return Mux(cold, counted(_decayed(count, settings)), counted(count))


def t_level_when_touched(count: Value, cold: Value, settings: data.View) -> Value:
    """T-level of a line touched in this very clock: its age is 0, which no threshold excludes. ``count`` is before."""

    def level(kept: Value) -> Value:
        return Mux(kept + 1 >= settings.t3_count, 3, Mux(kept + 1 >= settings.t2_count, 2, 1))

    return Mux(cold, level(_decayed(count, settings)), level(count))


def _decayed(count: Value, settings: data.View) -> Value:
    return Array([count, count >> 1, 0, 0])[settings.decay]
