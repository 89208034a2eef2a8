"""`KvAsu`: one KV-ASU from a script, over any transport.

>>> with KvAsu.open("model") as asu:
...     asu.enable()
...     tags = asu.bus.observe(addresses)      # on a board the GPU makes the traffic
...     for address in asu.cold_lines():
...         ...
...     print(asu.counters().hits)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kv_asu_firmware.integers import integer
from vrex.capabilities import VSEC_ID, find_kv_asu
from vrex.errors import (
    ConfigRefusedError,
    DeviceGoneError,
    KvAsuTimeoutError,
    NoPowerError,
    VersionError,
    VrexError,
)
from vrex.register_access import RegisterFile, find_field, find_register
from vrex.registers import (
    MAJOR,
    MINOR,
    REGISTERS,
    T1,
    T2,
    T3,
    Cold,
    ColdWatermark,
    Counter,
    CounterHi,
    CounterLo,
    CounterSelect,
    Ctrl,
    Decay,
    Evict,
    Geometry,
    HashSeed,
    Id,
    IrqEnable,
    IrqStatus,
    Limits,
    Params,
    Query,
    QueryHi,
    QueryLo,
    Register,
    Status,
    Timebase,
    Tracked,
    VictimHi,
    VictimLo,
    VictimStatus,
)
from vrex.transports import open_transport
from vrex.transports.base import Bus, Transport

if TYPE_CHECKING:
    from typing import Self

R = TypeVar("R", bound=Register)

_Threshold = T3 | T2 | T1

_ALL_ONES = 0xFFFFFFFF


@dataclass(frozen=True)
class Threshold:
    """When a line reaches a T-level: touched at least ``count`` times, the last time at most ``age`` clocks ago."""

    count: int
    age: int


@dataclass(frozen=True)
class Thresholds:
    """The three T-levels' thresholds; a line whose age is over ``t1.age`` is cold."""

    t3: Threshold
    t2: Threshold
    t1: Threshold


@dataclass(frozen=True)
class Counters:
    """Every counter as of one clock; what each counts is told in `vrex.registers.Counter`."""

    cycles: int
    requests: int
    hits: int
    level0: int
    level1: int
    level2: int
    level3: int
    inserts: int
    untracked: int
    spills: int
    rescues: int
    demotions: int
    evictions: int
    queries: int
    query_hits: int


@dataclass(frozen=True)
class QueryResult:
    """What the core knows of a line; an untracked one has T-level and count 0."""

    tracked: bool
    tlevel: int
    count: int


class KvAsu:
    """One KV-ASU.

    Opening one only reads. What writes (everything that sets, enables, queries, evicts or takes counters) takes the
    transport's lock, if it has one, and keeps it until `close`.

    Parameters
    ----------
    transport : Transport
        The PCI function it is in.
    timeout : float, optional
        How long to wait for the core, in the transport's time unit, 0 or more; the transport's own patience unless
        given.
    vsec_id : int
        The id of the core's capability, for a core built with another than the default.

    Attributes
    ----------
    transport : Transport
    base : int
        The offset of CTRL in config space.
    regs : RegisterFile
        The registers by name: ``asu.regs.ctrl.read()``.

    Raises
    ------
    DeviceNotFoundError
        There is no KV-ASU in it.
    DeviceGoneError
        It reads all ones.
    VersionError
        Its register map has another major version.
    """

    __slots__ = ("__weakref__", "_unanswered", "base", "regs", "timeout", "transport")

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(type(self), name):  # a setting mistyped would be one that never acts
            raise AttributeError(f"a KvAsu has nothing called {name}{_meant(type(self), name)}", name=name, obj=self)
        if name == "timeout":
            value = _finite(value)
        super().__setattr__(name, value)

    def __init__(self, transport: Transport, *, timeout: float | None = None, vsec_id: int = VSEC_ID) -> None:
        self.transport = transport
        self.timeout = transport.patience if timeout is None else timeout
        self.base = find_kv_asu(transport, integer("vsec_id", vsec_id))
        self.regs = RegisterFile(self._read, self._write_checked)
        self._unanswered: set[type[Register]] = set()  # operations given up, which the core may still be at
        version = self._read(Id)
        if version.major != MAJOR:
            raise VersionError(
                f"{transport}: its register map is version {version.major}.{version.minor}, this program's "
                f"{MAJOR}.{MINOR}; install the vrex release for version {version.major}"
            )

    @classmethod
    def open(
        cls,
        transport: str = "model",
        *,
        timeout: float | None = None,
        vsec_id: int = VSEC_ID,
        record: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Self:
        """Open a transport by its name and the KV-ASU behind it.

        Parameters
        ----------
        transport : str
            "model", "rtl", "sysfs", "cocotb" or "uart".
        timeout, vsec_id
            As for the class.
        record : path, optional
            A session file of everything that is done from here to `close`; `vrex replay` plays it.
        **options
            What the transport takes: see `vrex.transports`.

        Raises
        ------
        ValueError, TypeError
            There is no such transport or option.
        VrexError
            It cannot be opened, or as for the class.
        """
        opened = open_transport(transport, **options)
        try:
            if record is not None:
                opened = _recorded(opened, record)
            return cls(opened, timeout=timeout, vsec_id=vsec_id)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Give back the transport."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bus(self) -> Bus:
        """The memory bus in front of the core.

        Raises
        ------
        VrexError
            The transport has none: on a board, the GPU makes the traffic.
        """
        return _bus(self.transport)

    # Life cycle

    @property
    def status(self) -> Status:
        """What the core is doing."""
        return self._read(Status)

    @property
    def enabled(self) -> bool:
        """Whether software asked for it to run."""
        return self._read(Ctrl).enable

    def enable(self, timeout: float | None = None) -> None:
        """Start from an empty table, and wait until requests are tracked. An enabled core just goes on.

        Parameters
        ----------
        timeout : float, optional
            How long to wait, in the transport's time unit, 0 or more; here and below `KvAsu.timeout` unless given.

        Raises
        ------
        NoPowerError
            It has no power; it stays enabled and starts when power comes.
        KvAsuTimeoutError
            It does not become active.
        """
        patience = self._patience(timeout)
        self.regs[Ctrl].modify(enable=1)
        self._wait_active("enable", patience)

    def disable(self, timeout: float | None = None) -> None:
        """Stop; the table is forgotten, the counters stay.

        Raises
        ------
        KvAsuTimeoutError
            It stays active.
        """
        patience = self._patience(timeout)
        self.regs[Ctrl].modify(enable=0)
        self._wait("disable", lambda: not self.status & (_ACTIVE | _BUSY), patience)

    def flush(self, timeout: float | None = None) -> None:
        """Empty the table, and wait until requests are tracked again. Of a core that is not enabled it is empty.

        Raises
        ------
        NoPowerError, KvAsuTimeoutError
            As for `enable`.
        """
        patience = self._patience(timeout)
        if self.enabled:
            self.regs[Ctrl].modify(flush=1)
            self._wait_active("flush", patience)

    def _wait_active(self, what: str, patience: float) -> None:
        def active() -> bool:
            status = self.status
            if not status.powered:
                raise NoPowerError(
                    f"{self.transport}: {what}: the core has no power (STATUS.POWERED is 0), so it stays inactive; "
                    "see `vrex doctor`"
                )
            return status.active and not status.busy

        self._wait(what, active, patience)

    # Settings

    @property
    def params(self) -> Params:
        """How the core was built."""
        return self._read(Params)

    @property
    def limits(self) -> Limits:
        """What the build can keep."""
        return self._read(Limits)

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds, ages in clocks."""
        shift = self.tick_shift
        values: list[_Threshold] = [self._read(T3), self._read(T2), self._read(T1)]
        return Thresholds(*(Threshold(value.count, value.age << shift) for value in values))

    def set_thresholds(
        self,
        *,
        t3_count: int | None = None,
        t3_age: int | None = None,
        t2_count: int | None = None,
        t2_age: int | None = None,
        t1_age: int | None = None,
    ) -> None:
        """Set thresholds; those not given stay. Nothing is written unless all can be.

        The order T3.age <= T2.age <= T1.age holds all the while, so this may be done while the core runs; only T1 has
        to wait until it is disabled.

        Parameters
        ----------
        t3_count, t2_count : int
            Least access counts, 0 to 65535.
        t3_age, t2_age, t1_age : int
            Greatest ages, in clocks: multiples of ``2**tick_shift``.

        Raises
        ------
        TypeError
            A value is no integer.
        ValueError
            A value cannot be had beside the others, with the nearest that can.
        ConfigRefusedError
            ``t1_age`` while the core is enabled.
        """
        shift = self.tick_shift
        old: dict[type[_Threshold], _Threshold] = {T3: self._read(T3), T2: self._read(T2), T1: self._read(T1)}
        given = {T3: _integer("t3_age", t3_age), T2: _integer("t2_age", t2_age), T1: _integer("t1_age", t1_age)}
        counts = {T3: _integer("t3_count", t3_count), T2: _integer("t2_count", t2_count), T1: None}
        ages: dict[type[_Threshold], int] = {}
        most = self.limits.t1_age
        below = [T2, T3]
        for register in (T1, T2, T3):  # each has room up to the one above, which stands already
            age = given[register]
            if age is None:
                most = ages[register] = old[register].age
            else:
                # Those below take theirs away; what is asked for them and is too much has its own error.
                wanted = [(old[lower].age, given[lower]) for lower in below]
                taken = [stands if asked is None else -(-asked >> shift) for stands, asked in wanted]
                least = max([int(register is T1), *(ticks for ticks in taken if ticks <= most)])
                most = ages[register] = _ticks(f"{register.NAME.lower()}_age", age, shift, least=least, most=most)
            below = below[1:]
        new = {
            register: value.replace(age=ages[register], **({} if (n := counts[register]) is None else {"count": n}))
            for register, value in old.items()
        }
        if new[T1] != old[T1]:
            self._check_disabled(T1)
        for register in (T1, T2, T3):  # what gets longer makes room from above,
            if ages[register] > old[register].age:
                self._write_checked(register, new[register])
        for register in (T3, T2, T1):  # what gets shorter from below
            if new[register] != old[register] and ages[register] <= old[register].age:
                self._write_checked(register, new[register])

    @property
    def tick_shift(self) -> int:
        """A tick is ``2**tick_shift`` clocks. Setting it keeps the thresholds' ages in ticks; the core is disabled."""
        return self._read(Timebase).tick_shift

    @tick_shift.setter
    def tick_shift(self, value: int) -> None:
        self.regs[Timebase].modify(tick_shift=value)

    @property
    def entries(self) -> int:
        """Slots in use, a power of two. Set while the core is disabled."""
        return 1 << self._read(Geometry).log2_active

    @entries.setter
    def entries(self, value: int) -> None:
        self.regs[Geometry].modify(log2_active=_log2("entries", value))

    @property
    def granule(self) -> int:
        """Bytes that one slot stands for, a power of two, 256 or more. Set while the core is disabled."""
        return 1 << self._read(Geometry).line_shift

    @granule.setter
    def granule(self, value: int) -> None:
        self.regs[Geometry].modify(line_shift=_log2("granule", value))

    @property
    def hash_seed(self) -> int:
        """What the hash starts from, 32 bits. Set while the core is disabled."""
        return self._read(HashSeed).seed

    @hash_seed.setter
    def hash_seed(self, value: int) -> None:
        self.regs[HashSeed].modify(seed=value)

    @property
    def decay(self) -> Decay:
        """What becomes of a cold line's counter when the line is touched again."""
        return self._read(Ctrl).decay

    @decay.setter
    def decay(self, value: Decay) -> None:
        self.regs[Ctrl].modify(decay=value)

    @property
    def reclaim_off(self) -> bool:
        """A new line never takes the slot of a cold one."""
        return self._read(Ctrl).reclaim_off

    @reclaim_off.setter
    def reclaim_off(self, value: bool) -> None:
        self.regs[Ctrl].modify(reclaim_off=value)

    # Interrupts

    @property
    def irq_status(self) -> IrqStatus:
        """What happened since it was last cleared."""
        return self._read(IrqStatus)

    def clear_irq(self, status: int = 0b111) -> None:
        """Clear the bits of IRQ_STATUS that are set in ``status``."""
        self._write(IrqStatus, self.regs[IrqStatus].check_word(status))
        self._read(IrqStatus)  # a device that has gone takes any write

    @property
    def irq_enable(self) -> IrqEnable:
        """Which bits of IRQ_STATUS raise the interrupt; set with ``IrqEnable.of(cold_high=1)``."""
        return self._read(IrqEnable)

    @irq_enable.setter
    def irq_enable(self, value: int) -> None:
        self.regs[IrqEnable].write(value)

    @property
    def cold_watermark(self) -> int:
        """COLD_HIGH is set when the cold lines rise to this many; 0 is off."""
        return self._read(ColdWatermark).lines

    @cold_watermark.setter
    def cold_watermark(self, value: int) -> None:
        self.regs[ColdWatermark].modify(lines=value)

    # What it knows

    @property
    def tracked(self) -> int:
        """Lines that have a slot."""
        return self._read(Tracked).lines

    @property
    def cold(self) -> int:
        """Lines at T-level 0; may lag by a tick and 8 clocks."""
        return self._read(Cold).lines

    def counters(self) -> Counters:
        """Every counter, all as of one clock."""
        self._write(Ctrl, self._read(Ctrl).replace(snapshot=1))
        values = []
        for counter in Counter:
            self._write(CounterSelect, counter)
            values.append(self._read(CounterLo).value | self._read(CounterHi).value << 32)
        return Counters(*values)

    def clear_counters(self) -> None:
        """Zero every counter."""
        self.regs[Ctrl].modify(clear=1)

    def query(self, address: int, timeout: float | None = None) -> QueryResult:
        """Ask for a line's T-level without touching it.

        Parameters
        ----------
        address : int
            A byte address in it.
        timeout : float, optional
            How long to wait, in the transport's time unit.

        Raises
        ------
        ValueError
            The address is negative, or has more bits than the build.
        KvAsuTimeoutError
            The query port is never idle.
        """
        patience = self._patience(timeout)
        width = self.params.addr_width
        address = integer("address", address)
        if not 0 <= address < 1 << width:
            raise ValueError(f"address must be 0 to 2^{width}-1, not {address:#x}")
        if Query in self._unanswered:  # its answer would be taken for ours
            self._finish(Query, patience)
        self._write(QueryLo, address & _ALL_ONES)
        self._write(QueryHi, address >> 32)
        answer = self._operate(Query, patience)
        return QueryResult(answer.tracked, answer.tlevel, answer.count)

    def evict(self, timeout: float | None = None) -> int | None:
        """Take the coldest line out of the table. A victim that comes after a timeout is the next call's.

        Returns
        -------
        int or None
            Its byte address; None when no line is cold.

        Raises
        ------
        KvAsuTimeoutError
            The evict port is never idle, or requests touch the tail of the cold list all the time.
        """
        if self._operate(Evict, self._patience(timeout)).status != VictimStatus.FOUND:
            return None
        return self._read(VictimLo).address | self._read(VictimHi).address << 32

    def cold_lines(self) -> Iterator[int]:
        """Evict line after line until none is cold; yields each one's byte address, the least recently used first.

        A line is out of the table when it is yielded. Traffic may make lines cold as fast as they are taken: stop when
        there are enough. Raises as `evict`.
        """
        while (address := self.evict()) is not None:
            yield address

    # Registers

    def registers(self) -> dict[str, Register]:
        """Every register by its name, as read one after the other; reading changes nothing."""
        return {name: self._read(register) for name, register in REGISTERS.items()}

    def read_field(self, path: str) -> int:
        """A field by its path, like ``CTRL.DECAY``: an enumeration's member, a bool or a number.

        Raises
        ------
        ValueError
            There is no such field.
        """
        register, name = find_field(path)
        value: int = getattr(self._read(register), name)
        return value

    def write_fields(self, values: Mapping[str, int]) -> None:
        """Write fields by their paths; those of one register in one write, in the order of first mention.

        Raises as `assign`.
        """
        self.assign(values)

    def assign(self, assignments: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        """Write fields, by paths like ``CTRL.DECAY``, and whole registers, by names, in the order given.

        Fields of one register are one write, at the first's place, unless the whole register is written between them.

        Parameters
        ----------
        assignments : mapping, or iterable of pairs
            Values by path or name.

        Raises
        ------
        TypeError, ValueError
            There is no such field or register, it can only be read, or the value does not fit. Found before anything is
            written.
        ConfigRefusedError
            The core refused a write; those before it have happened.
        """
        writes: list[tuple[type[Register], int | dict[str, int]]] = []
        last: dict[type[Register], dict[str, int]] = {}  # where more fields of a register go
        for path, value in _pairs(assignments):
            if "." not in path:
                register = find_register(path)
                writes.append((register, self.regs[register].check_word(value)))
                last.pop(register, None)
                continue
            register, name = find_field(path)
            checked = self.regs[register].check_fields({name: value})
            if register not in last:
                last[register] = {}
                writes.append((register, last[register]))
            last[register] |= checked
        for register, what in writes:
            if isinstance(what, int):
                self.regs[register].write(what)
            else:
                self.regs[register].modify(**what)

    # The machinery

    def _read(self, register: type[R]) -> R:
        word = self.transport.read(self.base + register.OFFSET, 4)
        if word == _ALL_ONES and self.transport.read(self.base + Id.OFFSET, 4) == _ALL_ONES:
            self._unanswered.clear()  # whatever answers here again, it has not been asked
            raise DeviceGoneError(
                f"{self.transport}: {register.NAME} reads all ones: the device has gone; see `vrex doctor`"
            )
        return register(word)

    def _write(self, register: type[Register], word: int) -> None:
        self.transport.write(self.base + register.OFFSET, word, 4)

    def _write_checked(self, register: type[Register], word: int) -> None:
        """Write a register and see that the core took it."""
        if register.STRUCTURAL:
            self._check_disabled(register)
        error_before = self.irq_status.config_error
        self._write(register, word)
        if not self.irq_status.config_error:
            return
        if error_before:  # not ours for sure: compare
            written = [field for field in register.FIELDS.values() if field.access == "read-write"]
            now, wanted = self._read(register).fields(), register(word).fields()
            if all(now[field.name] == wanted[field.name] for field in written):
                return
        else:
            self._write(IrqStatus, IrqStatus.of(config_error=1))
        raise ConfigRefusedError(
            f"{self.transport}: the core refused {register(word)!r}: a value is out of range"
            f"{_ORDER.get(register, '')}; see docs/registers.md, {register.NAME}"
        )

    def _check_disabled(self, register: type[Register]) -> None:
        if self.enabled:
            raise ConfigRefusedError(
                f"{self.transport}: {register.NAME} can only be written while the core is disabled; "
                "disable it first (CTRL.ENABLE = 0)"
            )

    def _operate(self, register: type[R], patience: float) -> R:
        """Start what a register does, unless it is still at it, and wait for the answer."""
        if register not in self._unanswered:
            self._write(register, 1)
            self._unanswered.add(register)
        return self._finish(register, patience)

    def _finish(self, register: type[R], patience: float) -> R:
        answer = register(0)

        def done() -> bool:
            nonlocal answer
            answer = self._read(register)
            return bool(answer & _DONE)

        self._wait(register.NAME.lower(), done, patience)
        self._unanswered.discard(register)
        return answer

    def _patience(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else _finite(timeout)

    def _wait(self, what: str, done: Callable[[], bool], patience: float) -> None:
        """Look until ``done`` or the time is up; the last look is made after it is."""
        end = self.transport.now() + patience
        while True:
            late = self.transport.now() >= end
            if done():
                return
            if late:
                raise KvAsuTimeoutError(
                    f"{self.transport}: {what}: no answer within {patience:g} {self.transport.time_unit}; "
                    "see `vrex doctor`, or give it more time"
                )
            self.transport.pause()


def _pairs(assignments: object) -> Iterator[tuple[str, int]]:
    """Paths and values; raises TypeError for what is none."""
    given = assignments.items() if isinstance(assignments, Mapping) else assignments
    for pair in given if isinstance(given, Iterable) and not isinstance(given, str) else [given]:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)) or isinstance(pair, str):
            raise TypeError(f"an assignment must be a pair like ('CTRL.DECAY', 1), not {pair!r}")
        yield pair[0], pair[1]


def _meant(kind: type, name: str) -> str:
    """What can be set and is called nearly so."""
    from difflib import get_close_matches

    settable = [key for key, value in vars(kind).items() if getattr(value, "fset", None)]
    near = get_close_matches(name, [*settable, "timeout"], 1)
    return f"; did you mean {near[0]}?" if near else ""


def _bus(transport: Transport) -> Bus:
    if not isinstance(transport, Bus):
        raise VrexError(f"{transport}: no memory bus here, the GPU makes the traffic; use model or rtl")
    return transport


def _recorded(transport: Transport, path: str | os.PathLike[str]) -> Bus:
    from vrex.session.recorder import Recorder

    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"record must be a path, not {path!r}")
    return Recorder(_bus(transport), path)


#: What else may be wrong with a value that is refused.
_ORDER = dict.fromkeys((T3, T2, T1), " or out of order (T3.AGE <= T2.AGE <= T1.AGE)")

_ACTIVE = Status.of(active=1)
_BUSY = Status.of(busy=1)
_DONE = Evict.of(done=1)  # the same bit in QUERY


def _finite(timeout: object) -> float:
    """A timeout; every wait has an end."""
    try:
        if isinstance(timeout, str | bytes) or not 0 <= (value := float(timeout)) < float("inf"):  # type: ignore[arg-type]
            raise ValueError(f"timeout must be a finite number, 0 or more, not {timeout!r}")
    except TypeError:
        raise TypeError(f"timeout must be a finite number, 0 or more, not {timeout!r}") from None
    return value


def _integer(name: str, value: int | None) -> int | None:
    return None if value is None else integer(name, value)


def _ticks(name: str, clocks: int, shift: int, *, least: int, most: int) -> int:
    """An age in ticks."""
    tick = 1 << shift
    if clocks % tick == 0 and least <= clocks >> shift <= most:
        return clocks >> shift
    below = min(max(clocks >> shift, least), most)
    above = below if clocks <= below << shift else min(below + 1, most)
    nearest = dict.fromkeys((below << shift, above << shift))
    raise ValueError(
        f"{name} must be {least << shift} to {most << shift} clocks (T3.AGE <= T2.AGE <= T1.AGE <= LIMITS.T1_AGE) in "
        f"steps of {tick} (TICK_SHIFT is {shift}), not {clocks}; nearest: {' and '.join(map(str, nearest))}"
    )


def _log2(name: str, value: int) -> int:
    value = integer(name, value)
    if value < 1 or value & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value!r}")
    return value.bit_length() - 1
