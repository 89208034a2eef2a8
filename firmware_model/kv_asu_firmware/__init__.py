"""The firmware side of the KV-ASU: behavioural model, device model, driver. Plain Python."""

from kv_asu import interrupts

interrupts.arm_if_started(__name__)
