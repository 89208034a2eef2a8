"""cocotb monitors: they watch pins and never drive one.

Pins are read at the falling edge, in the middle of the clock period that the next rising edge samples: by then both
what a driver put on them and what the core answers stand still, in every simulator.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from kv_asu_sim.scoreboard import Difference, Seen, Taken


class UnknownValue(AssertionError):
    """A pin is X or Z where it must not be."""


def _level(handle: Any) -> int:
    try:
        return int(handle.value)
    except ValueError:
        raise UnknownValue(f"{handle._name} is {handle.value}") from None


class PortMonitor:
    """Watches a valid pin and its payload.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    valid : str
        The valid pin's name.
    payload : iterable of str
        The payload pins' names.
    always : bool
        Look for X on the payload even while it is not valid, as the core promises for its outputs.
    """

    def __init__(self, dut: Any, valid: str, payload: Iterable[str] = (), *, always: bool = False) -> None:
        self._valid = getattr(dut, valid)
        self._payload = [getattr(dut, name) for name in payload]
        self._always = always

    def sample(self) -> tuple[int, ...] | None:
        """The payload, or None while there is none.

        Raises
        ------
        UnknownValue
            A pin that must be known is not.
        """
        if _level(self._valid):
            return tuple(map(_level, self._payload))
        if self._always:
            for handle in self._payload:
                _level(handle)
        return None


class InputMonitor:
    """Watches every input pin."""

    def __init__(self, dut: Any) -> None:
        self._rst, self._power_good = dut.rst, dut.power_good
        self._request = PortMonitor(dut, "req_valid", ["req_addr"])
        self._query = PortMonitor(dut, "query_valid", ["query_addr", "query_min_tlevel", "query_boost"])
        self._evict = PortMonitor(dut, "evict_valid")
        address = ["cfg_ext_register_number", "cfg_ext_function_number"]
        data = ["cfg_ext_write_data", "cfg_ext_write_byte_enable"]
        self._write = PortMonitor(dut, "cfg_ext_write_received", [address[0], *data, address[1]])
        self._read = PortMonitor(dut, "cfg_ext_read_received", address)

    def sample(self) -> Taken:
        """What the pins carry in this clock."""
        request = self._request.sample()
        return Taken(
            request=None if request is None else request[0],
            query=self._query.sample(),  # type: ignore[arg-type]
            evict=self._evict.sample() is not None,
            write=self._write.sample(),  # type: ignore[arg-type]
            read=self._read.sample(),  # type: ignore[arg-type]
            reset=bool(_level(self._rst)),
            power_good=bool(_level(self._power_good)),
        )


class OutputMonitor:
    """Watches every output pin.

    Parameters
    ----------
    dut : SimHandleBase
        The core.
    always : bool
        Look for X in every clock on every pin; for simulators that have X.
    """

    def __init__(self, dut: Any, *, always: bool) -> None:
        self._irq = dut.irq
        tag = ["line", "tracked", "hit", "before", "after", "count", "slot", "stamp"]
        self._tag = PortMonitor(
            dut, "tag_valid", [*(f"tag_{name}" for name in tag), "spill_valid", "spill_line"], always=always
        )
        self._answer = PortMonitor(
            dut, "answer_valid", ["answer_tracked", "answer_tlevel", "answer_hit"], always=always
        )
        self._victim = PortMonitor(dut, "victim_valid", ["victim_status", "victim_line"], always=always)
        self._read_data = PortMonitor(dut, "cfg_ext_read_data_valid", ["cfg_ext_read_data"], always=always)

    def sample(self) -> Seen:
        """What the pins carry in this clock."""
        data = self._read_data.sample()
        return Seen(
            tag=self._tag.sample(),
            answer=self._answer.sample(),  # type: ignore[arg-type]
            victim=self._victim.sample(),  # type: ignore[arg-type]
            read_data=None if data is None else data[0],
            irq=_level(self._irq),
        )


class LatencyMeter:
    """Measures how long each answer takes, in clocks and in time, by pairing the n-th operation with the n-th answer.

    Parameters
    ----------
    latency : int
        The clocks an answer must take.
    period_ps : int
        The clock's period.

    Attributes
    ----------
    histogram : Counter of (str, int, int)
        Answers by port, clocks and picoseconds.
    """

    def __init__(self, latency: int, period_ps: int) -> None:
        self._right = (latency, latency * period_ps)
        self.histogram: Counter[tuple[str, int, int]] = Counter()
        self._waiting: dict[str, deque[tuple[int, int]]] = {port: deque() for port in ("request", "query", "evict")}

    def sample(self, clock: int, time_ps: int, taken: Taken, seen: Seen) -> None:
        """One clock of pins.

        Raises
        ------
        Difference
            An answer came too early, too late, or without an operation.
        """
        if taken.reset:
            for queue in self._waiting.values():
                queue.clear()
            return
        for port, operation, answer in (
            ("request", taken.request is not None, seen.tag is not None),
            ("query", taken.query is not None, seen.answer is not None),
            ("evict", taken.evict, seen.victim is not None),
        ):
            queue = self._waiting[port]
            if answer:
                if not queue:
                    raise Difference(f"clock {clock}: an answer to no {port}")
                began, began_ps = queue.popleft()
                took = (clock - began, time_ps - began_ps)
                self.histogram[port, *took] += 1
                if took != self._right:
                    raise Difference(
                        f"clock {clock}: the answer to a {port} took {took[0]} clocks, {took[1]} ps, "
                        f"not {self._right[0]} clocks, {self._right[1]} ps"
                    )
            if operation:
                queue.append((clock, time_ps))

    def finish(self) -> None:
        """Check that no operation is left without an answer.

        Raises
        ------
        Difference
            One is.
        """
        left = {port: len(queue) for port, queue in self._waiting.items() if queue}
        if left:
            raise Difference(f"operations without an answer at the end: {left}")
