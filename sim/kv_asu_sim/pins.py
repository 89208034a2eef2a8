"""The core's pins as rows: one numpy record holds every input, or every output, of one clock.

Streams, compiled RTL, cocotb benches and scoreboard speak in these rows, so a stream runs unchanged on each of them.
"""

from __future__ import annotations

import numpy as np

from kv_asu_firmware.ports import ANSWER, TAG, VICTIM

#: Every input pin but the clock, by its name.
INPUTS = np.dtype(
    [
        ("rst", "u1"),
        ("power_good", "u1"),
        ("req_valid", "u1"),
        ("req_addr", "u8"),
        ("query_valid", "u1"),
        ("query_addr", "u8"),
        ("query_min_tlevel", "u1"),
        ("query_boost", "u1"),
        ("evict_valid", "u1"),
        ("cfg_ext_read_received", "u1"),
        ("cfg_ext_write_received", "u1"),
        ("cfg_ext_register_number", "u2"),
        ("cfg_ext_function_number", "u1"),
        ("cfg_ext_write_data", "u4"),
        ("cfg_ext_write_byte_enable", "u1"),
    ]
)

#: Every output pin, by its name.
OUTPUTS = np.dtype(
    [
        ("tag_valid", "u1"),
        *((name, TAG[name]) for name in TAG.names or ()),
        ("answer_valid", "u1"),
        *((name, ANSWER[name]) for name in ANSWER.names or ()),
        ("victim_valid", "u1"),
        *((name, VICTIM[name]) for name in VICTIM.names or ()),
        ("cfg_ext_read_data", "u4"),
        ("cfg_ext_read_data_valid", "u1"),
        ("irq", "u1"),
    ]
)
