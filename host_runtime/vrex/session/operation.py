"""What can be done on a `Bus`, as values: an operation, and the step it made in a session."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kv_asu.params import Params
from kv_asu_firmware.device import LINK_CLOCKS, READ_CLOCKS, WRITE_CLOCKS
from kv_asu_firmware.ports import ANSWER, TAG, VICTIM
from vrex.transports.base import Bus, check_access

#: What an operation answered: records of a port, a register's value, or nothing.
Answer = NDArray[np.void] | int | None

#: The operations that are one command a clock, and the records that answer them.
PORTS = {"observe": TAG, "query_lines": ANSWER, "evict_lines": VICTIM}

#: All kinds of operations, each the name of what does it on a `Bus`.
KINDS = (*PORTS, "read", "write", "idle", "power_good")

_NONE = np.empty(0, np.uint64)


class Operation(NamedTuple):
    """One call on a bus.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    addresses : ndarray of uint64, shape (n,)
        Of "observe" and "query_lines".
    min_tlevel, boost : int, bool
        Of "query_lines".
    offset, size : int
        Of "read" and "write", in bytes.
    value : int
        What "write" writes, how many commands "evict_lines" gives, how many clocks "idle" takes, the level that
        "power_good" sets.
    """

    kind: str
    addresses: NDArray[np.uint64] = _NONE
    min_tlevel: int = 0
    boost: bool = False
    offset: int = 0
    size: int = 0
    value: int = 0

    @property
    def commands(self) -> int:
        """Commands it gives on a port, one a clock; 0 for what is no port's."""
        return self.value if self.kind == "evict_lines" else len(self.addresses)

    def first(self, commands: int) -> Operation:
        """The same with its first commands only."""
        if self.kind == "evict_lines":
            return self._replace(value=commands)
        return self._replace(addresses=self.addresses[:commands])

    def check(self, params: Params) -> None:
        """See that a bus of this build takes it; raises `ValueError`."""
        kind = self.kind
        if len(self.addresses):
            if kind not in ("observe", "query_lines"):
                raise ValueError(f"{kind} has no addresses")
            if int(self.addresses.max()) >> params.addr_width:
                raise ValueError(f"an address of {kind} has more than {params.addr_width} bits")
        if kind == "query_lines" and self.min_tlevel not in range(4):
            raise ValueError(f"min_tlevel of {kind} must be 0 to 3, not {self.min_tlevel}")
        if kind in ("read", "write"):
            check_access(self.offset, self.size)
        if kind == "write" and self.value >> 8 * self.size:
            raise ValueError(f"value of {kind} must fit {self.size} bytes, not {self.value}")
        if kind == "power_good" and self.value not in (0, 1):
            raise ValueError(f"value of {kind} must be 0 or 1, not {self.value}")

    def play(self, bus: Bus) -> Answer:
        """Do it; what it answered."""
        match self.kind:
            case "observe":
                return bus.observe(self.addresses)
            case "query_lines":
                return bus.query_lines(self.addresses, min_tlevel=self.min_tlevel, boost=self.boost)
            case "evict_lines":
                return bus.evict_lines(self.value)
            case "read":
                return bus.read(self.offset, self.size)
            case "write":
                bus.write(self.offset, self.value, self.size)
            case "idle":
                bus.idle(self.value)
            case "power_good":
                bus.power_good = bool(self.value)
        return None


class Step(NamedTuple):
    """An operation that was done.

    Attributes
    ----------
    operation : Operation
    clock : int
        Clocks since reset when it began.
    answer : ndarray of the port's records, int or None
    irq : bool
        The ``irq`` pin in its last clock.
    """

    operation: Operation
    clock: int
    answer: Answer
    irq: bool


def take(bus: Bus, operation: Operation) -> Step:
    """Do an operation and tell what came of it."""
    clock = bus.clock
    answer = operation.play(bus)
    return Step(operation, clock, answer, bus.irq)


def duration(operation: Operation, params: Params) -> int:
    """Clocks that a call takes."""
    match operation.kind:
        case "observe":
            return operation.commands + params.latency + LINK_CLOCKS
        case "query_lines" | "evict_lines":
            return operation.commands + params.latency
        case "read":
            return READ_CLOCKS
        case "idle":
            return operation.value
        case _:
            return WRITE_CLOCKS
