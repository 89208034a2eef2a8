"""The core on a board: a serial line to its config space, and a memory of requests to replay at full rate.

::

    rx ─► Receiver ─► Bridge ─┬─► cfg_ext_* ─► WholeFunction (core, full config space)
    tx ◄─ Transmitter ◄─┘     └─► TraceBuffer ─► req_*, tag_* ◄──┘
"""
