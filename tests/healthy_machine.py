"""A board on which everything is right, as the files it shows; tests break one thing or another."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

from kv_asu.params import Params
from kv_asu_firmware.config_space import ConfigSpaceModel

PARAMS = Params(log2_entries=4, window=2)
CTRL = PARAMS.config_base + 8

CONFIG = "sys/bus/pci/devices/0000:00:02.0/config"
GPU = "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu"
CAMERA_RULE = "etc/udev/rules.d/90-vrex-camera.rules"

EXTLINUX = """\
TIMEOUT 30
DEFAULT primary

MENU TITLE L4T boot options

LABEL primary
      MENU LABEL primary kernel
      LINUX /boot/Image
      INITRD /boot/initrd
      APPEND ${cbootargs} root=PARTUUID=1234 rw rootwait console=ttyTCU0,115200 gmc.kvasu=1 isolcpus=2,3

LABEL backup
      LINUX /boot/Image.backup
      APPEND ${cbootargs} root=PARTUUID=1234 rw
"""
COMMAND_LINE = "root=PARTUUID=1234 rw rootwait console=ttyTCU0,115200 gmc.kvasu=1 isolcpus=2,3"

INTERRUPTS = """\
           CPU0       CPU1       CPU2       CPU3
 26:     176204     170233          0          0     GICv3  27 Level     arch_timer
 45:          0          0     884213          0     GICv3 211 Level     kvasu-dma
 46:         12          0          0          0  ITS-MSI 32768 Edge     kvasu
 71:     930112          0          0          0  ITS-MSI 524288 Edge     eth0-tx, eth0-rx
IPI0:     41323      33107        911        902       Rescheduling interrupts
"""

NVPMODEL = """\
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=1 NAME=10W >
CPU_ONLINE CORE_0 1
< PM_CONFIG DEFAULT=1 >
"""


def stored_variables(variables: dict[str, str], size: int = 0x2000, flag: int | None = None) -> bytes:
    """Boot loader variables as they are stored, with a byte of flags where there are two copies."""
    flags = b"" if flag is None else bytes([flag])
    strings = b"".join(f"{name}={value}".encode() + b"\0" for name, value in variables.items()) + b"\0"
    strings = strings.ljust(size - 4 - len(flags), b"\xff")
    return zlib.crc32(strings).to_bytes(4, "little") + flags + strings


@cache
def config_space(enable: bool = True, powered: bool = True) -> bytes:
    """All 4096 bytes of the device model's config space."""
    device = ConfigSpaceModel(PARAMS, full=True)
    device.power_good = powered
    device.write(CTRL, int(enable), 4)
    device.idle(100)
    return b"".join((device.read_dword(number) or 0).to_bytes(4, "little") for number in range(1024))


def with_word(config: bytes, offset: int, value: int) -> bytes:
    """A config space with one DWORD changed."""
    return config[:offset] + value.to_bytes(4, "little") + config[offset + 4 :]


class Machine:
    """Files and symbolic links by their paths below the root."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            "etc/fw_env.config": b"# device offset size\n/dev/mtd0 0x1000 0x2000\n",
            "dev/mtd0": bytes(0x1000) + stored_variables({"bootdelay": "3", "gmc_kvasu": "1"}),
            "proc/cmdline": f"{COMMAND_LINE}\n".encode(),
            "sys/firmware/devicetree/base/chosen/bootargs": f"{COMMAND_LINE}\0".encode(),
            "sys/firmware/devicetree/base/compatible": b"nvidia,p3767-0001\0nvidia,tegra234\0",
            "boot/extlinux/extlinux.conf": EXTLINUX.encode(),
            "sys/bus/platform/drivers/gmc/kvasu_power_state": b"ON\n",
            "sys/bus/platform/drivers/gmc/bind": b"",
            CONFIG: config_space(),
            "sys/class/dmi/id/bios_version": b"36.3.0-gcid-36191598\n",
            "etc/nv_tegra_release": (
                b"# R36 (release), REVISION: 3.0, GCID: 36191598, BOARD: generic, EABI: aarch64, DATE: Mon May  6\n"
                b"# KERNEL_VARIANT: oot\n"
            ),
            "var/lib/nvpmodel/status": b"pmode:0000",
            "etc/nvpmodel.conf": NVPMODEL.encode(),
            f"{GPU}/governor": b"performance\n",
            f"{GPU}/max_freq": b"1000000000\n",
            "sys/devices/system/cpu/isolated": b"2-3\n",
            "proc/interrupts": INTERRUPTS.encode(),
            "proc/irq/45/smp_affinity": b"04\n",
            "proc/irq/45/smp_affinity_list": b"2\n",
            "proc/irq/71/smp_affinity": b"ff\n",
            "proc/irq/71/smp_affinity_list": b"0-7\n",
            CAMERA_RULE: (
                b'SUBSYSTEM=="video4linux", ACTION=="add", '
                b'RUN+="/usr/bin/v4l2-ctl -d $devnode --set-fmt-video=width=1920,height=1080"\n'
            ),
            "sys/class/video4linux/video0/name": b"vi-output, imx219 9-0010\n",
        }
        # As on the board: the first is absolute, and in a copy must not lead out of it.
        self.links = {
            "proc/device-tree": "/sys/firmware/devicetree/base",
            "sys/class/devfreq/17000000.gpu": "../../devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
        }

    def write(self, root: Path) -> Path:
        """Write everything under a folder."""
        for path, target in self.links.items():
            link = root / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        self.rewrite(root, {})
        return root

    def rewrite(self, root: Path, there: dict[str, bytes]) -> None:
        """Write what differs from the files that are there; folders that get empty go away."""
        for path in there.keys() - self.files.keys():
            file = root / path
            file.unlink()
            for folder in file.parents:
                if folder == root or any(folder.iterdir()):
                    break
                folder.rmdir()
        for path, content in self.files.items():
            if there.get(path) != content:
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
