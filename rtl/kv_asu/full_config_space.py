"""A whole PCI function's config space around the core's capability, for where no hard block provides one."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from kv_asu.cfg_ext import PINS, cfg_ext_members
from kv_asu.params import Params
from kv_asu.pci_header import CONFIG_SPACE_BYTES, D3HOT, SERIAL_NUMBER, pci_header
from kv_asu.register_file import RegisterFile


class FullConfigSpace(wiring.Component):
    """Header and standard capabilities; the core's capability answers behind it.

    Every DWORD of the function's 4096 bytes is answered, with 0 where nothing is. A message is sent when ``irq`` rises,
    and when messages become possible while it is high: they need MSI enabled, Bus Master set, and D0. ``irq`` that
    stays high is told once, so a handler reads IRQ_STATUS again after clearing it, until it is 0.

    Parameters
    ----------
    params : Params
        The build of the core.
    serial_number : int
        64-bit EUI-64 of the device.

    Members
    -------
    cfg_ext_* : the configuration-extend port
    core_cfg_ext_* : the other side of the core's configuration-extend port
    irq : In(1)
        The core's interrupt.
    sleeping : Out(1)
        The function is in D3hot: the core must not be active. Its settings are kept.
    msi_valid : Out(1)
        One clock for each message.
    msi_address, msi_data : Out(64), Out(16)
        With ``msi_valid``: the memory write that is the message; 0 otherwise.

    Raises
    ------
    ValueError
        As :func:`kv_asu.pci_header.pci_header`.
    """

    def __init__(self, params: Params, *, serial_number: int = SERIAL_NUMBER) -> None:
        self.params = params
        self.registers = pci_header(params, serial_number)
        super().__init__(
            {
                **cfg_ext_members(),
                **cfg_ext_members("core_cfg_ext_", flip=True),
                "irq": In(1),
                "sleeping": Out(1),
                "msi_valid": Out(1),
                "msi_address": Out(64),
                "msi_data": Out(16),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.header = header = RegisterFile(self.registers, self.params, base=0, window=CONFIG_SPACE_BYTES)
        for name, _, direction in PINS:
            if direction is In:
                pin = getattr(self, f"cfg_ext_{name}")
                m.d.comb += getattr(header, f"cfg_ext_{name}").eq(pin)
                m.d.comb += getattr(self, f"core_cfg_ext_{name}").eq(pin)
        m.d.comb += [
            # Whoever does not answer shows 0.
            self.cfg_ext_read_data.eq(header.cfg_ext_read_data | self.core_cfg_ext_read_data),
            self.cfg_ext_read_data_valid.eq(header.cfg_ext_read_data_valid | self.core_cfg_ext_read_data_valid),
            self.sleeping.eq(header.values.pm_control.power_state == D3HOT),
        ]
        self._message(m, header)
        return m

    def _message(self, m: Module, header: RegisterFile) -> None:
        """Tell of the interrupt, by a memory write instead of a wire."""
        values = header.values
        due = self.irq & values.msi.enable & values.command.bus_master & ~self.sleeping
        told = Signal()
        m.d.sync += told.eq(due)
        m.d.comb += self.msi_valid.eq(due & ~told)
        with m.If(self.msi_valid):
            m.d.comb += [
                self.msi_address.eq(Cat(Const(0, 2), values.msi_address_lo.address, values.msi_address_hi.address)),
                self.msi_data.eq(values.msi_data.data),
            ]
