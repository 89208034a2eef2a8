"""The device as software sees it: the register file of the capability around the behavioural model.

What a register is, and which writes it refuses, comes from :mod:`kv_asu.register_map`; what is written here is what
each action does and where each status comes from. Call `ConfigSpaceModel.clock` once a clock; a read or a write that
follows it belongs to that clock, so that a write acts from the next clock on, as in the gateware.
"""

from __future__ import annotations

from kv_asu.params import LINE_BITS, Params
from kv_asu.register_map import REGISTERS, WINDOW_BYTES, VictimStatus
from kv_asu.register_types import Access, Field, Register
from kv_asu_firmware.golden import COUNTERS, Answer, Clock, KvAsuGolden, Query, Victim
from kv_asu_firmware.pci_function import CONFIG_BYTES, FIRST_FREE, PciFunction

#: The registers that set the core's behaviour, by the setting.
_SETTINGS = {
    "CTRL.ENABLE": "enable",
    "CTRL.DECAY": "decay",
    "CTRL.RECLAIM_OFF": "reclaim_off",
    "GEOMETRY.LOG2_ACTIVE": "log2_active",
    "GEOMETRY.LINE_SHIFT": "line_shift",
    "TIMEBASE.TICK_SHIFT": "tick_shift",
    "T3.COUNT": "t3_count",
    "T3.AGE": "t3_age",
    "T2.COUNT": "t2_count",
    "T2.AGE": "t2_age",
    "T1.AGE": "t1_age",
    "HASH_SEED.SEED": "hash_seed",
}

_BY_OFFSET = {register.offset: register for register in REGISTERS.values()}

#: Clocks from a register's write to the first in which its operation can be given to the port.
_START_CLOCKS = 2


class _Turn:
    """A register's turn on a hardware port: it waits for the first clock that the port's user leaves idle."""

    def __init__(self, until_told: int = 0) -> None:
        self._until_told = until_told
        self._clocks: int | None = None  # from now to the first clock it can be decided in; None when that is over
        self._telling = 0  # clocks until the register is told of the decision
        self.done = False

    @property
    def running(self) -> bool:
        return self._clocks is not None or self._telling > 0

    def start(self, latency: int) -> None:
        self._clocks = _START_CLOCKS + latency
        self._telling = 0
        self.done = False

    def repeat(self, latency: int) -> None:
        """The operation came to nothing in this clock."""
        self._clocks = latency + 1 + self._until_told
        self._telling = 0
        self.done = False

    def comes(self, port_idle: bool) -> bool:
        """Whether the register's operation is decided in the clock that begins."""
        if self._telling:
            self._telling -= 1
            self.done = not self._telling
        if self._clocks is None:
            return False
        self._clocks = max(self._clocks - 1, 0)
        if self._clocks or not port_idle:
            return False
        self._clocks = None
        self._telling = self._until_told
        self.done = not self._telling
        return True


class ConfigSpaceModel:
    """Capability and registers, clocked together with the core they control.

    Parameters
    ----------
    params : Params
        The build.
    full : bool
        Put the header and the standard capabilities of a whole PCI function around the capability. Without them every
        access outside the capability is silent, as at the ``cfg_ext`` port.

    Attributes
    ----------
    golden : KvAsuGolden
        The core. Its settings are those of the registers.
    messages : list of (int, int)
        The MSI writes that ``irq`` has caused, as address and data, oldest first. Only with ``full``.

    Raises
    ------
    ValueError
        With ``full``: the capability lies over the standard ones, or points to another behind it.
    """

    #: The class of the core; a subclass may have one that keeps the gateware's time where the contract leaves it open.
    CORE: type[KvAsuGolden] = KvAsuGolden

    def __init__(self, params: Params, full: bool = False) -> None:
        if full and params.config_base < FIRST_FREE:
            raise ValueError(
                f"config_base must be at least {FIRST_FREE:#x} in a full config space, not {params.config_base:#x}"
            )
        if full and params.config_next:
            raise ValueError(f"config_next must be 0 in a full config space, not {params.config_next:#x}")
        self.params = params
        self.golden = self.CORE(params)
        self.messages: list[tuple[int, int]] = []
        self._function = None
        if full:
            version = REGISTERS["ID"].reset_value(params)
            self._function = PciFunction(
                vendor_id=params.vendor_id,
                extended=params.config_base,
                version=(version >> 8 & 0xF) << 4 | version & 0xF,
            )
        self._values = {
            f"{register.name}.{field.name}": field.reset_value(params)
            for register in REGISTERS.values()
            for field in register.fields
            if field.access in (Access.READ_WRITE, Access.WRITE_ONE_TO_CLEAR)
        }
        self._power_good = True
        self._asleep = False  # the power state as the core has it: a clock late
        self._run = False  # enabled and powered
        self._clocks_to_active: int | None = None
        self._query_turn = _Turn()
        self._query_address = 0
        self._query_answer = Answer(False, 0, False, 0)
        self._evict_turn = _Turn(until_told=int(params.list_follows))
        self._victim = self._victim_told = Victim(VictimStatus.EMPTY, 0)
        self._snapshot = [0] * len(COUNTERS)
        self._events: set[str] = set()  # the bits of IRQ_STATUS that the last clock set
        self._signalled = False

    # The core's clock and pins

    def clock(
        self,
        request: int | None = None,
        query: Query | None = None,
        evict: bool = False,
        evict_retry: bool = False,
    ) -> Clock:
        """Advance one clock, as `KvAsuGolden.clock` does, and give the ports' idle clocks to the registers.

        Returns
        -------
        Clock
            The answers at the pins: those to the registers' operations are not among them.
        """
        if self._clocks_to_active is not None:
            if self._clocks_to_active == 0:
                self.golden.activate()
                self._clocks_to_active = None
            else:
                self._clocks_to_active -= 1
        register_query = self._query_turn.comes(port_idle=query is None)
        register_evict = self._evict_turn.comes(port_idle=not evict)
        if register_query:
            query = Query(self._query_address)
        self._events.clear()
        cold_before = self.golden.cold
        answers = self.golden.clock(request, query, evict or register_evict, evict and evict_retry)
        if register_query and answers.answer is not None:
            self._query_answer = answers.answer
            answers = answers._replace(answer=None)
        if register_evict and answers.victim is not None:
            if answers.victim.status == VictimStatus.RETRY:
                self._evict_turn.repeat(self.params.latency)
            else:
                self._victim = answers.victim
            answers = answers._replace(victim=None)
        if self._evict_turn.done:
            self._victim_told = self._victim
        if self.golden.active and answers.tag is not None and not answers.tag.tracked:
            self._set_event("UNTRACKED")
        self._watch_cold(cold_before)
        self._signal()
        self._follow_power_state()
        return answers

    def idle(self, clocks: int) -> None:
        """Advance some clocks without operations at the pins."""
        while clocks and self._changing:
            self.clock()
            clocks -= 1
        if clocks:
            # All but the last at once; the last as any other, for the events that belong to it.
            cold_before = self.golden.cold
            self.golden.idle(clocks - 1)
            self._watch_cold(cold_before)
            self.clock()

    @property
    def _changing(self) -> bool:
        """Something other than a line growing cold is to happen at the registers."""
        return (
            self._clocks_to_active is not None
            or self._query_turn.running
            or self._evict_turn.running
            or (self._function is not None and self._function.sleeping != self._asleep)
        )

    @property
    def power_good(self) -> bool:
        """The pin. Setting it belongs to the last clock, as a write does."""
        return self._power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self._power_good = value
        self._start_or_stop()

    @property
    def irq(self) -> bool:
        """The pin: an enabled bit of IRQ_STATUS is set."""
        return any(
            self._values[f"IRQ_STATUS.{field.name}"] & self._values[f"IRQ_ENABLE.{field.name}"]
            for field in REGISTERS["IRQ_STATUS"].fields
        )

    def _follow_power_state(self) -> None:
        """A core in D3hot has no power."""
        if self._function is not None and self._function.sleeping != self._asleep:
            self._asleep = self._function.sleeping
            self._start_or_stop()

    @property
    def _powered(self) -> bool:
        return self._power_good and not self._asleep

    def _start_or_stop(self, flush: bool = False) -> None:
        """Follow ENABLE, power and FLUSH: the table is emptied a row a clock, then what is in flight drains."""
        was_running = self._run
        self._run = self._powered and bool(self._values["CTRL.ENABLE"])
        if not self._run:
            self.golden.deactivate()
            self._clocks_to_active = None
        elif flush or not was_running:
            self.golden.deactivate()
            rows = (1 << self.golden.settings.log2_active) // self.params.window
            self._clocks_to_active = rows + self.params.latency + 2

    def _watch_cold(self, before: int) -> None:
        """COLD_HIGH: the cold lines rose to the watermark. No count is below a watermark of 0, so 0 is off."""
        if before < self._values["COLD_WATERMARK.LINES"] <= self.golden.cold:
            self._set_event("COLD_HIGH")

    def _set_event(self, name: str) -> None:
        self._values[f"IRQ_STATUS.{name}"] = 1
        self._events.add(name)

    def _signal(self) -> None:
        """Send the MSI when ``irq`` rises, or when MSI is enabled while it is high."""
        if self._function is None:
            return
        message = self._function.message if self.irq else None
        if message is not None and not self._signalled:
            self.messages.append(message)
        self._signalled = message is not None

    # Config space

    def read(self, offset: int, size: int) -> int | None:
        """Read 1, 2 or 4 bytes, as of the last clock. Reading changes nothing.

        Parameters
        ----------
        offset, size : int
            Bytes from the start of config space, and how many; aligned to the size.

        Returns
        -------
        int or None
            The value; None where nobody answers.

        Raises
        ------
        ValueError
            The access is not aligned, of another size, or outside config space.
        """
        _check_access(offset, size)
        dword = self.read_dword(offset // 4)
        return None if dword is None else dword >> 8 * (offset % 4) & (1 << 8 * size) - 1

    def write(self, offset: int, value: int, size: int) -> None:
        """Write 1, 2 or 4 bytes, in the last clock: they act from the next clock on.

        Parameters
        ----------
        offset, size : int
            As for `read`.
        value : int
            What to write; bits beyond the size are left out.

        Raises
        ------
        ValueError
            As for `read`.
        """
        _check_access(offset, size)
        byte = offset % 4
        self.write_dword(offset // 4, (value & (1 << 8 * size) - 1) << 8 * byte, (1 << size) - 1 << byte)

    def read_dword(self, number: int) -> int | None:
        """Read a DWORD by its number, as the ``cfg_ext`` port does."""
        offset = 4 * number - self.params.config_base
        if 0 <= offset < WINDOW_BYTES:
            register = _BY_OFFSET.get(offset)
            return 0 if register is None else sum(self._value(register, f) << f.low for f in register.fields)
        return None if self._function is None else self._function.read_dword(4 * number)

    def write_dword(self, number: int, value: int, byte_enable: int = 0xF) -> None:
        """Write the enabled bytes of a DWORD by its number, as the ``cfg_ext`` port does."""
        offset = 4 * number - self.params.config_base
        if 0 <= offset < WINDOW_BYTES:
            register = _BY_OFFSET.get(offset)
            if register is not None and byte_enable:
                self._write_register(register, value, _byte_mask(byte_enable))
        elif self._function is not None:
            self._function.write_dword(4 * number, value, byte_enable)
        self._signal()

    def _write_register(self, register: Register, value: int, mask: int) -> None:
        merged = {
            f"{register.name}.{field.name}": _bits(field, (self._read_write(register) & ~mask) | (value & mask))
            for field in register.fields
            if field.access is Access.READ_WRITE
        }
        if self._refuses(register, merged):
            self._values["IRQ_STATUS.CONFIG_ERROR"] = 1
            return
        self._values |= merged
        for path in merged.keys() & _SETTINGS.keys():
            setattr(self.golden.settings, _SETTINGS[path], merged[path])
        done = {
            field.name
            for field in register.fields
            if field.access in (Access.WRITE_ONE_TO_CLEAR, Access.WRITE_ONE_TO_DO) and _bits(field, value & mask)
        }
        match register.name:
            case "CTRL":
                self._control(done)
            case "IRQ_STATUS":
                for name in done - self._events:  # set and cleared in one clock, a bit stays set
                    self._values[f"IRQ_STATUS.{name}"] = 0
            case "QUERY" if done and not self._query_turn.running:
                address = self._values["QUERY_HI.ADDRESS"] << 32 | self._values["QUERY_LO.ADDRESS"]
                self._query_address = address & (1 << self.params.addr_width) - 1  # the wires there are
                self._query_turn.start(self.params.latency)
            case "EVICT" if done and not self._evict_turn.running:
                self._evict_turn.start(self.params.latency)

    def _refuses(self, register: Register, merged: dict[str, int]) -> bool:
        """Whether a write that would leave ``merged`` in the register's fields must not happen."""
        if register.structural and self._values["CTRL.ENABLE"]:
            return True
        for field in register.fields:
            if field.access is Access.READ_WRITE:
                value = merged[f"{register.name}.{field.name}"]
                least, most = field.bounds(self.params)
                least = max(least, self._values[field.at_least] if field.at_least else 0)
                most = min(most, self._values[field.at_most] if field.at_most else most)
                if not least <= value <= most:
                    return True
        return False

    def _control(self, actions: set[str]) -> None:
        """What a write to CTRL starts; a snapshot takes what a clear in the same write is about to zero."""
        self._start_or_stop(flush="FLUSH" in actions)
        if "SNAPSHOT" in actions:
            self._snapshot = list(self.golden.counters.values())
        if "CLEAR" in actions:
            self.golden.clear_counters()

    def _read_write(self, register: Register) -> int:
        """The register's read-write fields as they stand."""
        fields = (field for field in register.fields if field.access is Access.READ_WRITE)
        return sum(self._values[f"{register.name}.{field.name}"] << field.low for field in fields)

    def _value(self, register: Register, field: Field) -> int:
        """What a field reads."""
        match field.access:
            case Access.CONSTANT:
                return field.reset_value(self.params)
            case Access.WRITE_ONE_TO_DO:
                return 0
            case Access.STATUS:
                return self._status(f"{register.name}.{field.name}")
            case _:
                return self._values[f"{register.name}.{field.name}"]

    def _status(self, path: str) -> int:
        """What a field reads that the core sets."""
        golden = self.golden
        match path:
            case "STATUS.ACTIVE":
                return int(golden.active)
            case "STATUS.BUSY":
                return int(self._run and not golden.active)
            case "STATUS.COLD_AVAILABLE":
                return int(golden.cold > 0)
            case "STATUS.POWERED":
                return int(self._powered)
            case "TRACKED.LINES":
                return golden.tracked
            case "COLD.LINES":
                return golden.cold
            case "QUERY.DONE":
                return int(self._query_turn.done)
            case "QUERY.TRACKED":
                return int(self._query_answer.tracked)
            case "QUERY.TLEVEL":
                return self._query_answer.tlevel
            case "QUERY.COUNT":
                return self._query_answer.count
            case "EVICT.DONE":
                return int(self._evict_turn.done)
            case "EVICT.STATUS":
                return self._victim_told.status
            case "VICTIM_LO.ADDRESS":
                return self._victim_told.line << LINE_BITS & 0xFFFFFFFF
            case "VICTIM_HI.ADDRESS":
                return self._victim_told.line << LINE_BITS >> 32
            case "COUNTER_LO.VALUE":
                return self._snapshot[self._values["COUNTER_SELECT.INDEX"]] & 0xFFFFFFFF
            case "COUNTER_HI.VALUE":
                return self._snapshot[self._values["COUNTER_SELECT.INDEX"]] >> 32 & 0xFFFFFFFF
        raise LookupError(f"no source for status field {path}")


def _bits(field: Field, word: int) -> int:
    return (word & field.mask) >> field.low


def _byte_mask(byte_enable: int) -> int:
    return sum(0xFF << 8 * byte for byte in range(4) if byte_enable >> byte & 1)


def _check_access(offset: int, size: int) -> None:
    if size not in (1, 2, 4):
        raise ValueError(f"size must be 1, 2 or 4 bytes, not {size!r}")
    if offset % size or not 0 <= offset < CONFIG_BYTES:
        raise ValueError(f"offset must be a multiple of {size} below {CONFIG_BYTES:#x}, not {offset:#x}")
