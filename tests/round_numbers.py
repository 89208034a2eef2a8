"""A DMA engine of round numbers, for times worked out by hand."""

from __future__ import annotations

from kv_asu_firmware.dma import DmaParams

S = 10**9

#: Round numbers: a line takes 256 B / 1 B a ns = 256 ns.
ROUND = DmaParams(
    far_bytes_per_second=S,
    far_latency_ns=1000,
    far_block_bytes=256,
    ddr_bytes_per_second=10 * S,
    cpu_percent=0,
    setup_ns=10,
    max_burst_bytes=1024,
    queue_bursts=8,
    sleep_after_ns=5 * S,
    heartbeat_ns=3 * S,
    wake_up_ns=7000,
    source="made up",
)
