"""A config file with a device model behind it, for the `sysfs` transport, where nothing can be mounted.

The file is real: it is opened, locked and looked at as any other. What is read from it and written to it goes to the
model instead of the file system; so this covers the transport, and nothing of a kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kv_asu.params import Params
from kv_asu_firmware.device import Device
from vrex.transports import sysfs


def tree(root: Path, params: Params, device: str = "0000:00:02.0") -> Path:
    """A `/sys/bus/pci` with one device, whose config file holds what a model reads; the file's path."""
    model = Device(params)
    folder = root / "devices" / device
    folder.mkdir(parents=True)
    config = folder / "config"
    config.write_bytes(b"".join(model.read(offset, 4).to_bytes(4, "little") for offset in range(0, 0x1000, 4)))
    return config


def serve(monkeypatch: pytest.MonkeyPatch, config: Path, device: Device) -> None:
    """Let what the transport reads from and writes to a config file be the device's."""

    class ServedOs:
        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

        def pread(self, file: int, size: int, offset: int) -> bytes:
            if not os.path.sameopenfile(file, served):
                return os.pread(file, size, offset)
            return device.read(offset, size).to_bytes(size, "little")

        def pwrite(self, file: int, data: bytes, offset: int) -> int:
            if not os.path.sameopenfile(file, served):
                return os.pwrite(file, data, offset)
            device.write(offset, int.from_bytes(data, "little"), len(data))
            return len(data)

    served = os.open(config, os.O_RDONLY)
    monkeypatch.setattr(sysfs, "os", ServedOs())
