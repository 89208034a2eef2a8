"""What a core is timed under."""

from __future__ import annotations

from dataclasses import dataclass

from kv_asu.timing.liberty import SramTiming


@dataclass(frozen=True)
class Conditions:
    """What a core is timed under; nanoseconds unless it says otherwise.

    Parameters
    ----------
    macro : SramTiming
        Of the SRAM macros.
    wire_ff : float
        Femtofarads of wire for each sink of a net; 0: no wire.
    period, input_delay, output_delay : float
        The clock, and what the surroundings take of it before and after the core's pins.
    """

    macro: SramTiming
    wire_ff: float = 0.0
    period: float = 2.0
    input_delay: float = 0.2
    output_delay: float = 0.5
