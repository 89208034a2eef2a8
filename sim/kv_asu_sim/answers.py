"""What one operation of a port is answered, as numpy records: the device model's, which the compiled RTL shares."""

from __future__ import annotations

from kv_asu_firmware.ports import ANSWER, TAG, VICTIM

__all__ = ["ANSWER", "TAG", "VICTIM"]
