"""The firmware side of the KV-ASU: behavioural model, device model, driver. Plain Python."""
