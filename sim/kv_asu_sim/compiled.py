"""The core's Verilog compiled into this process: numpy arrays in, numpy arrays out, register accesses in between.

>>> core = CompiledCore(Params())
>>> core.write(core.params.config_base + 8, 1, 2)      # CTRL.ENABLE
>>> core.idle(300)                                     # the table is emptied
>>> tags = core.request(addresses)                     # one a clock; tags["tag_hit"], tags["tag_before"], ...
>>> core.read(core.params.config_base + 8 + 0x34, 4)   # TRACKED

Time is counted in clocks, and every call says how many it takes, so that a model can keep in step: an
operation of clock c is answered in clock c + L.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kv_asu.params import Params
from kv_asu_firmware.integers import count, integer
from kv_asu_firmware.ports import address_array
from kv_asu_sim.answers import ANSWER, TAG, VICTIM
from kv_asu_sim.build import BuildError, library
from kv_asu_sim.pins import INPUTS, OUTPUTS

__all__ = ["ANSWER", "INPUTS", "OUTPUTS", "READ_CLOCKS", "TAG", "VICTIM", "WRITE_CLOCKS", "BuildError", "CompiledCore",
           "LatencyError"]  # fmt: skip

#: Clocks a register read takes: one for the request, one in which the answer is taken.
READ_CLOCKS = 2
#: Clocks a register write takes.
WRITE_CLOCKS = 1

#: Clocks simulated between two looks at Ctrl-C.
_STRETCH = 1 << 20

_NO_FAULT = (1 << 64) - 1


class LatencyError(Exception):
    """A port did not answer exactly L clocks after each operation, and only then."""


class CompiledCore:
    """One instance of the core, freshly powered up (memories and registers random) and reset for one clock.

    Any number of instances, of the same or of different parameters, live side by side; each is to be used by one thread
    at a time. The interpreter lock is released while clocks run.

    Parameters
    ----------
    params : Params
        The build. The first use of each takes about half a minute of compiling; later ones load it from a cache.
    seed : int
        What registers and memories hold at power-up follows from it, 0 to 2**31 - 2.
    full_config_space : bool
        With a whole PCI function's config space around the core's capability: every DWORD of it answers.
    verilog : str, optional
        The Verilog to compile, with the pins of the core or of the whole function, instead of the gateware's own.

    Raises
    ------
    BuildError
        The library cannot be built: Verilator or a C++ compiler is missing, or the cache cannot be written.
    TypeError
        The parameters are no `Params`, the seed no integer, or the Verilog no text.
    ValueError
        The seed is out of range.
    """

    def __init__(
        self, params: Params, *, seed: int = 0, full_config_space: bool = False, verilog: str | None = None
    ) -> None:
        if not isinstance(params, Params):
            raise TypeError(f"params must be a kv_asu.Params, not {params!r}")
        if not (verilog is None or isinstance(verilog, str)):
            raise TypeError(f"verilog must be the text of it, not {verilog!r}")
        seed = integer("seed", seed)
        if not 0 <= seed < 2**31 - 1:
            raise ValueError(f"seed must be 0 to {2**31 - 2}, not {seed!r}")
        self.params = params
        self._library = _load(library(params, full_config_space=full_config_space, text=verilog))
        self._seed = seed
        self._delete = lambda: None
        self.power_up()

    def power_up(self) -> None:
        """Begin anew: registers and memories hold what follows from the seed, and are reset for one clock."""
        self._delete()
        # Verilator reads seed 0 as "choose one".
        self._core = ctypes.c_void_p(self._library.core_new(self._seed + 1))
        self._delete = weakref.finalize(self, self._library.core_delete, self._core)
        self._power_good = True
        self._owed = 0
        self.reset()

    @property
    def clock(self) -> int:
        """Clocks since power-up."""
        return self._library.core_clock(self._core)

    @property
    def irq(self) -> bool:
        """The ``irq`` pin in the last clock."""
        return bool(self._library.core_irq(self._core))

    @property
    def power_good(self) -> bool:
        """The ``power_good`` pin; acts from the next clock on."""
        return self._power_good

    @power_good.setter
    def power_good(self, value: bool) -> None:
        self._power_good = bool(value)
        self._library.core_power_good(self._core, self._power_good)

    def reset(self, clocks: int = 1) -> None:
        """Hold ``rst`` for some clocks. Operations in flight are not answered."""
        left = _check_count("clocks", clocks)
        while left:
            stretch = min(left, _STRETCH)
            self._library.core_reset(self._core, stretch)
            left -= stretch
        self._owed = 0

    def idle(self, clocks: int) -> None:
        """Let clocks pass without an operation."""
        self._begin()
        left = _check_count("clocks", clocks)
        while left:
            stretch = min(left, _STRETCH)
            self._library.core_idle(self._core, stretch)
            left -= stretch
        self._end()

    def operations(self, clocks: int) -> NDArray[np.void]:
        """Rows for :meth:`run`, shape (clocks,) of :data:`INPUTS`: no operation, ``power_good`` as it stands."""
        rows = np.zeros(_check_count("clocks", clocks), INPUTS)
        rows["power_good"] = self._power_good
        return rows

    def run(self, operations: NDArray[np.void]) -> NDArray[np.void]:
        """Drive every input pin, one row a clock.

        Parameters
        ----------
        operations : ndarray, shape (n,), dtype INPUTS
            The inputs of each clock. ``rst`` and ``power_good`` are theirs too; afterwards both are as before.

        Returns
        -------
        ndarray, shape (n,), dtype OUTPUTS
            The outputs of the same clocks: the operation of row i is answered in row i + L. The answers to the last L
            rows are still to come: add L rows of none, see :meth:`operations`.

        Raises
        ------
        TypeError
            The rows are not of dtype INPUTS.
        ValueError
            A field holds more than its pin can carry.
        LatencyError
            An answer was early, late or missing.
        """
        self._begin()
        if not isinstance(operations, np.ndarray) or operations.dtype != INPUTS or operations.ndim != 1:
            raise TypeError("operations must be a one-dimensional array of dtype kv_asu_sim.pins.INPUTS")
        rows = np.ascontiguousarray(operations)
        _check_pins(rows, self.params)
        outputs = np.empty(len(rows), OUTPUTS)
        self._library.core_run(self._core, len(rows), rows.ctypes.data, outputs.ctypes.data)
        self._end()
        return outputs

    def request(self, addresses: ArrayLike, at: ArrayLike | None = None, *, drain: bool = True) -> NDArray[np.void]:
        """Present memory requests and give their answers in order.

        Takes the clocks up to the last request, that of the request, and with ``drain`` L more.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.
        at : array of uint64, shape (n,), optional
            The clock (see :attr:`clock`) of each, strictly increasing and not in the past; without, one a clock from
            now on. Clocks between them are idle.
        drain : bool
            False: stop right after the last request and leave up to L answers to the next call, so that a long stream
            can be cut anywhere. Until they are drained, only ``request`` and ``reset`` may follow.

        Returns
        -------
        ndarray of dtype TAG
            One row per request of this call, and of earlier ones not yet answered; shorter by those left to the next.

        Raises
        ------
        TypeError
            ``at`` is no array of integers.
        ValueError
            ``at`` does not increase, lies in the past or has another shape than ``addresses``.
        LatencyError
            An answer was early, late or missing.
        """
        lines = address_array(addresses, self.params)
        clocks = None if at is None else _clocks(at, lines.shape, self.clock)
        tags = np.empty(len(lines) + self._owed, TAG)
        pointer = None if clocks is None else clocks.ctypes.data
        answered = self._library.core_request(
            self._core, len(lines), lines.ctypes.data, pointer, drain, tags.ctypes.data
        )
        self._owed = len(tags) - answered
        self._end()
        return tags[:answered]

    def query_lines(self, addresses: ArrayLike, *, min_tlevel: int = 0, boost: bool = False) -> NDArray[np.void]:
        """Ask for lines' T-levels without touching them, one a clock; takes n + L clocks.

        Parameters
        ----------
        addresses : array of uint64, shape (n,)
            Byte addresses.
        min_tlevel : int
            0 to 3: from which T-level on ``answer_hit`` is 1.
        boost : bool
            Raise the T-level of tracked lines by one.

        Returns
        -------
        ndarray, shape (n,), dtype ANSWER
        """
        self._begin()
        if min_tlevel not in range(4):
            raise ValueError(f"min_tlevel must be 0 to 3, not {min_tlevel!r}")
        lines = address_array(addresses, self.params)
        answers = np.empty(len(lines), ANSWER)
        self._library.core_query(
            self._core, len(lines), lines.ctypes.data, int(min_tlevel), bool(boost), answers.ctypes.data
        )
        self._end()
        return answers

    def evict(self, count: int) -> NDArray[np.void]:
        """Give evict commands in consecutive clocks; takes count + L clocks.

        Returns
        -------
        ndarray, shape (count,), dtype VICTIM
            One row per command, also those answered EMPTY or RETRY.
        """
        self._begin()
        victims = np.empty(_check_count("count", count), VICTIM)
        self._library.core_evict(self._core, len(victims), victims.ctypes.data)
        self._end()
        return victims

    def read(self, offset: int, size: int) -> int | None:
        """Read config space; takes :data:`READ_CLOCKS`.

        Parameters
        ----------
        offset : int
            In bytes from the start of config space, aligned to ``size``.
        size : int
            1, 2 or 4 bytes.

        Returns
        -------
        int or None
            None: the core is silent there.
        """
        self._begin()
        offset, size = integer("offset", offset), integer("size", size)
        shift, _ = _access(offset, size)
        data = ctypes.c_uint32()
        answered = self._library.core_read(self._core, self.params.function, offset >> 2, ctypes.byref(data))
        self._end()
        return (data.value >> shift) & ((1 << 8 * size) - 1) if answered else None

    def write(self, offset: int, value: int, size: int) -> None:
        """Write config space; takes :data:`WRITE_CLOCKS`. Parameters as for :meth:`read`."""
        self._begin()
        offset, value, size = integer("offset", offset), integer("value", value), integer("size", size)
        shift, enable = _access(offset, size)
        if not 0 <= value < 1 << 8 * size:
            raise ValueError(f"value must fit {size} bytes, not {value!r}")
        self._library.core_write(self._core, self.params.function, offset >> 2, value << shift, enable)
        self._end()

    def _begin(self) -> None:
        if self._owed:
            raise RuntimeError(f"{self._owed} requests are still to be answered: finish with request([], drain=True)")

    def _end(self) -> None:
        fault = self._library.core_fault(self._core)
        if fault != _NO_FAULT:
            raise LatencyError(
                f"clock {fault}: a port did not answer {self.params.latency} clocks after an operation, or unasked"
            )


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(path))
    core, rows, count = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
    integer, clocks, word = ctypes.c_int, ctypes.c_uint64, ctypes.c_uint32
    for name, result, arguments in (
        ("core_new", core, (integer,)),
        ("core_delete", None, (core,)),
        ("core_clock", clocks, (core,)),
        ("core_fault", clocks, (core,)),
        ("core_irq", integer, (core,)),
        ("core_power_good", None, (core, integer)),
        ("core_idle", None, (core, clocks)),
        ("core_reset", None, (core, clocks)),
        ("core_run", None, (core, count, rows, rows)),
        ("core_request", count, (core, count, rows, rows, integer, rows)),
        ("core_query", count, (core, count, rows, integer, integer, rows)),
        ("core_evict", count, (core, count, rows)),
        ("core_read", integer, (core, word, word, ctypes.POINTER(word))),
        ("core_write", None, (core, word, word, word, word)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


#: Bits of the pins that have fewer than their columns of `INPUTS`.
_PIN_BITS = dict.fromkeys((name for name in INPUTS.names or () if INPUTS[name] == np.uint8), 1) | {
    "query_min_tlevel": 2,
    "cfg_ext_register_number": 10,
    "cfg_ext_function_number": 8,
    "cfg_ext_write_byte_enable": 4,
}


def _check_pins(rows: NDArray[np.void], params: Params) -> None:
    if not len(rows):
        return
    for name, bits in (*_PIN_BITS.items(), ("req_addr", params.addr_width), ("query_addr", params.addr_width)):
        most = int(rows[name].max())
        if most >> bits:
            row = int(np.argmax(rows[name]))
            raise ValueError(f"{name} must be 0 to {(1 << bits) - 1:#x}, not {most:#x} in row {row}")


def _check_count(name: str, value: int) -> int:
    number = count(name, value)
    if number >> 64:
        raise ValueError(f"{name} must fit 64 bits, not {number!r}")
    return number


def _clocks(at: ArrayLike, shape: tuple[int, ...], now: int) -> NDArray[np.uint64]:
    given = np.asarray(at)
    if given.size and given.dtype.kind not in "ui":
        raise TypeError(f"at must be an array of integers, not of {given.dtype}")
    if given.dtype.kind == "i" and (given < 0).any():
        raise ValueError(f"at must not begin before the present clock {now}, not {int(given.min())}")
    clocks = np.ascontiguousarray(given, np.uint64)
    if clocks.shape != shape:
        raise ValueError(f"at must have one clock per address: shape {shape}, not {clocks.shape}")
    if clocks.size and int(clocks[0]) < now:
        raise ValueError(f"at must not begin before the present clock {now}, not {int(clocks[0])}")
    if (clocks[1:] <= clocks[:-1]).any():
        raise ValueError("at must increase strictly: the port takes one request a clock")
    return clocks


def _access(offset: int, size: int) -> tuple[int, int]:
    """Bit position in the DWORD, and byte enables."""
    if size not in (1, 2, 4):
        raise ValueError(f"size must be 1, 2 or 4 bytes, not {size!r}")
    if offset not in range(0, 4096, size):
        raise ValueError(f"offset must be 0 to 0xfff and aligned to {size} bytes, not {offset!r}")
    lane = offset & 3
    return 8 * lane, ((1 << size) - 1) << lane
