"""Session files: what was done on a memory bus, and what it answered, to be played again elsewhere.

`recorder.Recorder` records, `format` keeps, `replay` plays and compares, `explain` says what led to a difference,
`shrink` and `extract` cut it down to a session file and a cocotb test. Each is imported from its own module.
"""
