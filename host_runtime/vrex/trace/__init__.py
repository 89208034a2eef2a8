"""The trace room: KV lines in the order an attention kernel reads them.

`address_map` places tokens in memory, `format` is the file, `timing` says when each line is asked for, `maker` makes
a trace of a clip, `oracle_general` speaks to libCacheSim. Heavy packages are imported only by the modules that need
them, so import from those.
"""
