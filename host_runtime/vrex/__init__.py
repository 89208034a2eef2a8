"""V-Rex: the host side of the KV-ASU (traces, command line, runtime).

Importing this package loads nothing heavy; each piece is imported from its own module, e.g. `vrex.trace.format`.
"""
