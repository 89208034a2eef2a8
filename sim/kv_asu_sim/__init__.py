"""Benches, bus models, scoreboard, and the core compiled into the process."""

from kv_asu import interrupts

interrupts.arm_if_started(__name__)
