"""The core behind a PCI Express root complex: enumeration, config TLPs and interrupt messages in a cocotb bench.

The root complex, its TLPs and the way they take are cocotbext-pcie's. The core is an endpoint integrated in it,
function 00:02.0, in one of two ways:

- `WholeFunction`: the exported full config space; every config TLP reaches its pins.
- `BehindHardBlock`: the bare core; header and standard capabilities are a hard block's, which hands through what
  belongs to the core's capability.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, Lock, RisingEdge, with_timeout
from cocotb.utils import get_sim_time
from cocotbext.pcie.core import RootComplex
from cocotbext.pcie.core.caps import MsiCapability, PciExtCap
from cocotbext.pcie.core.endpoint import Endpoint
from cocotbext.pcie.core.utils import PcieId

from kv_asu.params import Params
from kv_asu.register_map import WINDOW_BYTES
from kv_asu_firmware.pci_function import DEVICE_ID, SERIAL_NUMBER
from kv_asu_sim.bench import PERIOD_PS
from kv_asu_sim.drivers import ConfigMaster
from vrex.transports.cocotb import CocotbTransport, simulate

ADDRESS = PcieId(0, 2, 0)

#: Nanoseconds within which a config TLP must be completed. One takes a few clocks of 2 ns.
TLP_TIMEOUT_NS = 200

#: Nanoseconds for all of enumeration.
ENUMERATION_TIMEOUT_NS = 100_000

_DSN = 0x0003


class CoreEndpoint(Endpoint, ABC):
    """An endpoint some of whose config space is the core's, behind its ``cfg_ext`` pins.

    Parameters
    ----------
    dut : handle
        The core, its clock running.
    params : Params
        Its build.
    window : range
        The DWORDs behind the pins.
    """

    def __init__(self, dut: Any, params: Params, window: range) -> None:
        super().__init__()
        self.pcie_id = ADDRESS
        self._dut = dut
        self._window = window
        self._pins = ConfigMaster(dut, params.function)
        self._one_at_a_time = Lock()

    def match_tlp_secondary(self, tlp: object) -> bool:
        """Nothing is behind it; the root complex asks everything on its bus."""
        return False

    async def read_config_register(self, reg: int) -> int:
        """A DWORD of config space, by its number."""
        if reg not in self._window:
            value: int | None = await super().read_config_register(reg)
            return value or 0  # some of its capabilities leave registers out
        async with self._one_at_a_time:
            await RisingEdge(self._dut.clk)
            return await self._pins.read(reg)

    async def write_config_register(self, reg: int, data: int, mask: int) -> None:
        """Write the bytes of a DWORD that ``mask`` names, one bit each."""
        if reg not in self._window:
            await super().write_config_register(reg, data, mask)
            return
        async with self._one_at_a_time:
            await RisingEdge(self._dut.clk)
            await self._pins.write(reg, data, mask)

    @abstractmethod
    async def send_messages(self) -> None:
        """Send the memory writes that are the core's interrupts, for ever."""


class WholeFunction(CoreEndpoint):
    """The core in its own full config space."""

    def __init__(self, dut: Any, params: Params) -> None:
        super().__init__(dut, params, range(1024))
        self.bus_master_enable = True  # the gateware sees to it, and sends nothing while it is not

    async def send_messages(self) -> None:
        dut = self._dut
        while True:
            await FallingEdge(dut.clk)
            if dut.msi_valid.value == 1:
                await self.mem_write(int(dut.msi_address.value), int(dut.msi_data.value).to_bytes(4, "little"))


class BehindHardBlock(CoreEndpoint):
    """The bare core, its capability in the config space of a hard block."""

    def __init__(self, dut: Any, params: Params) -> None:
        first = params.config_base // 4
        super().__init__(dut, params, range(first, first + WINDOW_BYTES // 4))
        self.vendor_id = self.subsystem_vendor_id = params.vendor_id
        self.device_id = self.subsystem_id = DEVICE_ID
        self.class_code = 0x058000
        self.pcie_cap.pcie_device_type = 9  # integrated in the root complex
        self._msi = MsiCapability()
        self._msi.msi_64bit_address_capable = True
        self.register_capability(self._msi)
        self.register_extended_capability(_SerialNumber(params.config_base))

    async def send_messages(self) -> None:
        """On each rise of ``irq``, as a wrapper around a hard block does."""
        before = 0
        while True:
            await FallingEdge(self._dut.clk)
            irq = int(self._dut.irq.value)
            if irq > before and self._msi.msi_enable and self.bus_master_enable:
                await self._msi.issue_msi_interrupt()
            before = irq


class _SerialNumber(PciExtCap):
    """A Device Serial Number at 0x100, which links to the core's capability."""

    def __init__(self, link: int) -> None:
        super().__init__()
        self.cap_id = _DSN
        self.cap_ver = 1
        self.length = 3
        self.next_cap = link

    async def _read_register(self, reg: int) -> int:
        return SERIAL_NUMBER >> 32 * (reg - 1) & 0xFFFF_FFFF

    async def _write_register(self, reg: int, data: int, mask: int) -> None:
        pass


class ConfigTlpTransport(CocotbTransport):
    """The core's pins in a bench, but its config space by config TLPs of a root complex.

    A register access takes as many clocks as its TLPs do, so numbers of clocks are not those of the other buses.

    Parameters
    ----------
    dut : handle
    endpoint : CoreEndpoint
        The core.
    params : Params

    Attributes
    ----------
    root_complex : RootComplex
    messages : int
        Interrupts that have reached the root complex.
    """

    def __init__(self, dut: Any, endpoint: CoreEndpoint, params: Params) -> None:
        super().__init__(dut, params)
        self.messages = 0
        logging.getLogger("cocotb.pcie").setLevel(logging.ERROR)  # an empty slot is worth a warning to it
        self.root_complex = RootComplex()
        self.root_complex.append_endpoint(endpoint)
        self._endpoint = endpoint

    def __str__(self) -> str:
        return f"the simulated {self._dut._name} at {ADDRESS}"

    async def enumerate(self) -> None:
        """Let the root complex find the function, as it would any other, and enable its interrupt.

        Raises
        ------
        AssertionError
            It finds something else than one function with the capabilities it should have.
        TimeoutError
            It takes for ever.
        """
        cocotb.start_soon(self._endpoint.send_messages())
        found = self.root_complex.enumerate(timeout=TLP_TIMEOUT_NS)
        await with_timeout(cocotb.start_soon(found), ENUMERATION_TIMEOUT_NS, "ns")
        logging.getLogger("cocotb.pcie").setLevel(logging.WARNING)  # two lines for each access otherwise
        devices = self.root_complex.host_bridge.bus.devices
        assert [device.pcie_id for device in devices] == [ADDRESS], devices
        (device,) = devices
        assert (device.vendor_id, device.device_id) == (self.params.vendor_id, DEVICE_ID)
        assert device.class_code == 0x058000, hex(device.class_code)
        assert {cap for cap, _ in device.capabilities} == {0x01, 0x05, 0x10}, device.capabilities
        extended = [(_DSN, 0x100), (0x000B, self.params.config_base)]
        assert device.ext_capabilities == extended, device.ext_capabilities
        await with_timeout(cocotb.start_soon(self._enable(device)), ENUMERATION_TIMEOUT_NS, "ns")
        await RisingEdge(self._dut.clk)

    async def _enable(self, device: Any) -> None:
        await device.enable_device()
        await device.set_master()
        assert await device.enable_msi_range(1, 1) == 1
        device.msi_vectors[0].cb.append(self._count_message)

    async def _count_message(self) -> None:
        self.messages += 1

    def _read(self, offset: int, size: int) -> int:
        return simulate(self._read_by_tlp, offset, size)

    def _write(self, offset: int, value: int, size: int) -> None:
        simulate(self._write_by_tlp, offset, value.to_bytes(size, "little"))

    async def _read_by_tlp(self, offset: int, size: int) -> int:
        began = get_sim_time("ps")
        data = await self.root_complex.config_read(ADDRESS, offset, size, timeout=TLP_TIMEOUT_NS)
        await self._to_the_clock(began)
        return int.from_bytes(data, "little")

    async def _write_by_tlp(self, offset: int, data: bytes) -> None:
        began = get_sim_time("ps")
        await self.root_complex.config_write(ADDRESS, offset, data, timeout=TLP_TIMEOUT_NS)
        await self._to_the_clock(began)

    async def _to_the_clock(self, began: float) -> None:
        """Back to behind a rising edge, with the clocks counted that the TLPs took."""
        await self._middle()
        await RisingEdge(self._dut.clk)
        self._clock += round(get_sim_time("ps") - began) // PERIOD_PS
