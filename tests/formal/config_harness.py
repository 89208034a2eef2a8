"""The configuration-extend port of the core's capability: what is answered when, and what a write can do."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In

from formal.claims import Claims
from kv_asu.config_space import ConfigSpace
from kv_asu.layouts import settings_layout
from kv_asu.params import LINE_BITS, Params
from kv_asu.register_map import REGISTERS, WINDOW_BYTES

#: The settings that can be read back, by register and field.
SETTINGS = {
    "enable": ("CTRL", "ENABLE"),
    "decay": ("CTRL", "DECAY"),
    "reclaim_off": ("CTRL", "RECLAIM_OFF"),
    "log2_active": ("GEOMETRY", "LOG2_ACTIVE"),
    "line_shift": ("GEOMETRY", "LINE_SHIFT"),
    "tick_shift": ("TIMEBASE", "TICK_SHIFT"),
    "t3_count": ("T3", "COUNT"),
    "t3_age": ("T3", "AGE"),
    "t2_count": ("T2", "COUNT"),
    "t2_age": ("T2", "AGE"),
    "t1_age": ("T1", "AGE"),
    "hash_seed": ("HASH_SEED", "SEED"),
}


class ConfigHarness:
    """Free accesses, and a core that reports anything.

    Attributes
    ----------
    claims : Claims
        Complete once elaborated.
    ports : list of Signal
        The free inputs.
    """

    def __init__(self) -> None:
        self._params = Params()
        self.claims = Claims()
        self.ports: list[Signal] = []

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, claims = self._params, self.claims
        m.submodules.config = config = ConfigSpace(p)
        for path, member, value in config.signature.flatten(config):
            if member.flow is In:
                free = Signal(Value.cast(value).shape(), name="__".join(map(str, path)))
                self.ports.append(free)
                m.d.comb += Value.cast(value).eq(free)

        settings = config.settings
        self._claim_reads(m, config)

        # The last access, and what it met.
        wrote = Signal()
        met = Signal(settings_layout(p))
        first = Signal(init=1)
        m.d.sync += [
            first.eq(0),
            met.eq(settings),
            wrote.eq(
                config.cfg_ext_write_received
                & (config.cfg_ext_function_number == p.function)
                & config.cfg_ext_write_byte_enable.any()
                & self._in_window(config.cfg_ext_register_number)
            ),
        ]
        same = Value.cast(met) == Value.cast(settings)
        claims.claim("writes", "settings change by writes only", first | wrote | same)
        locked = ~met.enable | (
            (met.log2_active == settings.log2_active)
            & (met.line_shift == settings.line_shift)
            & (met.tick_shift == settings.tick_shift)
            & (met.hash_seed == settings.hash_seed)
        )
        claims.claim("writes", "structural settings are locked while enabled", first | locked)
        claims.claim("settings", "thresholds are in order", self._in_order(settings))
        claims.claim("settings", "T1.age is legal", (settings.t1_age >= 1) & (settings.t1_age <= p.t1_limit))
        claims.claim(
            "settings",
            "the active table is legal",
            (settings.log2_active >= p.min_log2_active) & (settings.log2_active <= p.log2_entries),
        )
        claims.claim(
            "settings", "the granule is legal", (settings.line_shift >= LINE_BITS) & (settings.line_shift <= 24)
        )
        claims.claim("settings", "the tick is legal", settings.tick_shift <= 24)
        claims.claim("settings", "the decay is legal", settings.decay <= 2)
        claims.cover("a structural write is refused", ~first & met.enable & wrote & same)
        claims.cover("thresholds at their limit", settings.t3_age == p.t1_limit)
        return m

    @staticmethod
    def _in_order(settings: data.View) -> Value:
        return (settings.t3_age <= settings.t2_age) & (settings.t2_age <= settings.t1_age)

    def _in_window(self, number: Value) -> Value:
        base = self._params.config_base // 4
        return (number >= base) & (number < base + WINDOW_BYTES // 4)

    def _claim_reads(self, m: Module, config: ConfigSpace) -> None:
        """One answer for each read in the next clock; none without; a read held up to its answer is one read."""
        p, claims = self._params, self.claims
        asked = Signal()  # a read stood at the port in the last clock,
        number = Signal.like(config.cfg_ext_register_number)  # of this register,
        answered = Signal()  # while an answer was given
        answered_number = Signal.like(number)  # to a read of that one
        valid = config.cfg_ext_read_data_valid
        m.d.sync += [
            asked.eq(
                config.cfg_ext_read_received
                & (config.cfg_ext_function_number == p.function)
                & self._in_window(config.cfg_ext_register_number)
            ),
            number.eq(config.cfg_ext_register_number),
            answered.eq(valid),
            answered_number.eq(number),
        ]
        held = answered & (answered_number == number)
        claims.claim("reads", "no answer without a read", ~valid | asked)
        claims.claim("reads", "a new read is answered in the next clock", ~asked | held | valid)
        claims.claim("reads", "a held read is answered once", ~held | ~valid)
        claims.claim("reads", "no data without an answer", valid | (config.cfg_ext_read_data == 0))
        for name, (register, field_name) in SETTINGS.items():
            field = next(field for field in REGISTERS[register].fields if field.name == field_name)
            then = Signal.like(Value.cast(config.settings[name]), name=f"{name}_then")
            m.d.sync += then.eq(config.settings[name])
            read = config.cfg_ext_read_data[field.low : field.low + field.width]
            this = valid & (number == (p.config_base + REGISTERS[register].offset) // 4)
            claims.claim("reads", f"{register} {field_name} reads what it was", ~this | (read == then))
        claims.cover("two reads in two clocks", valid & answered)
        claims.cover("a held read", held & asked)
