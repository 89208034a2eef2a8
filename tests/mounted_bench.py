"""Host code for a bench that looks at the core in the simulator with real lspci and setpci, through a mount."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np

from live_mount import PATIENCE, lspci, setpci
from vrex.kv_asu import KvAsu, Threshold
from vrex.mount.serving import serve
from vrex.transports.base import Transport


def setpci_reaches_the_pins(transport: Transport) -> None:
    """What setpci writes is what the core then does at its request port."""
    said: list[object] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        looking = threading.Thread(target=_look, args=(folder, said), daemon=True)
        serve(transport, folder, mounted=looking.start)  # the simulator goes on while it reads or writes the device
        looking.join(PATIENCE)
    assert not looking.is_alive()
    print("said:", said)
    text, *values = said
    assert "Capabilities: [7f8 v1] Vendor Specific Information: ID=4b56 Rev=1 Len=080" in str(text), text
    assert values == [["0000"], ["0001", "00140005"], ["00000009"]]
    asu = KvAsu(transport)
    assert asu.thresholds.t3 == Threshold(5, 80)
    tags = asu.bus.observe(np.array([256, 256, 512], np.uint64))
    assert tags["tag_tracked"].tolist() == [1, 1, 1]
    assert tags["tag_hit"].tolist() == [0, 1, 0]


def _look(folder: Path, said: list[object]) -> None:
    try:
        said.append(lspci(folder, "-vvv"))
        said.append(setpci(folder, "ECAP_VNDR+8.w"))
        setpci(folder, "0x81a.b=14", "0x800.w=1")
        said.append(setpci(folder, "0x800.w", "ECAP_VNDR+20.l"))
        said.append(setpci(folder, "0x804.l"))
    except (AssertionError, subprocess.SubprocessError) as error:
        said.append(error)
    finally:
        subprocess.run(["fusermount3", "-u", "-z", folder], check=True, timeout=PATIENCE)
