"""The core's pins as rows: one numpy record holds every input, or every output, of one clock.

Streams, compiled RTL, cocotb benches and scoreboard speak in these rows, so a stream runs unchanged on each of them.
"""

from __future__ import annotations

import numpy as np

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
        ("tag_line", "u8"),
        ("tag_tracked", "u1"),
        ("tag_hit", "u1"),
        ("tag_before", "u1"),
        ("tag_after", "u1"),
        ("tag_count", "u2"),
        ("tag_slot", "u2"),
        ("tag_stamp", "u2"),
        ("spill_valid", "u1"),
        ("spill_line", "u8"),
        ("answer_valid", "u1"),
        ("answer_tracked", "u1"),
        ("answer_tlevel", "u1"),
        ("answer_hit", "u1"),
        ("victim_valid", "u1"),
        ("victim_status", "u1"),
        ("victim_line", "u8"),
        ("cfg_ext_read_data", "u4"),
        ("cfg_ext_read_data_valid", "u1"),
        ("irq", "u1"),
    ]
)
