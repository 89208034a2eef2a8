"""A board without a board: the whole top, compiled and clocked in a thread, its serial line a pseudo terminal.

Host code opens the terminal as it would open ``/dev/ttyUSB0``. The wire between the two may be a bad one.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import threading
import tty
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import kv_asu
from kv_asu.params import Params
from kv_asu_sim.build import compiled_library, kept_verilog

if TYPE_CHECKING:
    from typing import Self

_HARNESS = Path(__file__).with_name("board_harness.cpp")
_MODULE = "kv_asu_board"

#: Clocks of a bit. A real board has more; fewer say the same sooner.
CLOCKS_PER_BIT = 4
#: log2 of the places of the trace memory; a real board has more.
LOG2_DEPTH = 6
CLOCK_KHZ = 40_000

#: Clocks between two looks at the terminal.
_STRETCH = 4000

#: Seconds to wait for the host while nothing happens.
_REST = 0.01


class Wire:
    """What happens to bytes on their way: nothing, unless told.

    Parameters
    ----------
    seed : int
        What happens follows from it.
    flipped, lost, noise : float
        The chance of a byte to have a bit flipped, to be lost, and to have a byte of noise before it.
    """

    def __init__(self, seed: int = 0, *, flipped: float = 0.0, lost: float = 0.0, noise: float = 0.0) -> None:
        self._chance = random.Random(seed)
        self._flipped, self._lost, self._noise = flipped, lost, noise
        self.faults = 0

    def carry(self, data: Iterable[int]) -> bytes:
        """What arrives."""
        arrived = bytearray()
        for byte in data:
            if self._chance.random() < self._noise:
                self.faults += 1
                arrived.append(self._chance.getrandbits(8))
            if self._chance.random() < self._lost:
                self.faults += 1
                continue
            if self._chance.random() < self._flipped:
                self.faults += 1
                byte ^= 1 << self._chance.randrange(8)
            arrived.append(byte)
        return bytes(arrived)


class SimulatedBoard:
    """The board's top, powered up with random contents and reset; runs while it is open as a context.

    Parameters
    ----------
    params : Params
        The build of the core. The first use of each takes about half a minute of compiling.
    wire : Wire, optional
        What the bytes go over, both ways.
    seed : int
        What registers and memories hold at power-up follows from it.

    Attributes
    ----------
    port : str
        The terminal to open.

    Raises
    ------
    kv_asu_sim.build.BuildError
        It cannot be compiled.
    """

    def __init__(self, params: Params, wire: Wire | None = None, *, seed: int = 0) -> None:
        self.wire = wire or Wire()
        self._library = _load(_library(params))
        self._board = self._library.board_new(seed, CLOCKS_PER_BIT)
        self._terminal, self._other_end = os.openpty()  # the other end stays open, so that hosts may come and go
        tty.setraw(self._other_end)
        self.port = os.ttyname(self._other_end)
        self._stop = threading.Event()
        self._reset = threading.Event()
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._library.board_delete(self._board)
        os.close(self._terminal)
        os.close(self._other_end)

    def unplug(self) -> None:
        """The board falls silent: its clock stops."""
        self._stop.set()
        self._thread.join()

    def reset(self) -> None:
        """As its button does."""
        self._reset.set()

    def _run(self) -> None:
        received = ctypes.create_string_buffer(_STRETCH)
        quiet = False
        while not self._stop.is_set():
            sent = b""
            if select.select([self._terminal], [], [], _REST if quiet else 0)[0]:
                sent = self.wire.carry(os.read(self._terminal, 4096))
            if self._reset.is_set():
                self._reset.clear()
                self._library.board_reset(self._board)
            count = self._library.board_run(self._board, _STRETCH, sent, len(sent), received)
            if count:
                os.write(self._terminal, self.wire.carry(received.raw[:count]))
            quiet = not sent and not count


def board_verilog(params: Params) -> str:
    """The Verilog of the board's top as it is simulated, kept like the core's."""

    def emitted() -> str:
        from kv_asu.board.top import Board
        from kv_asu.verilog import emit_component

        board = Board(params, clocks_per_bit=CLOCKS_PER_BIT, clock_khz=CLOCK_KHZ, log2_depth=LOG2_DEPTH)
        return emit_component(board, f"KV-ASU {kv_asu.__version__}, board", params, _MODULE)

    return kept_verilog(params, f"board {CLOCKS_PER_BIT} {LOG2_DEPTH}", emitted)


def _library(params: Params) -> Path:
    doing = f"compiling the board ({params.entries:,} slots); a minute, once"
    return compiled_library(_MODULE, board_verilog(params), _MODULE, _HARNESS, {}, doing)


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    board, size, pointer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
        ("board_new", board, (ctypes.c_int, ctypes.c_uint)),
        ("board_delete", None, (board,)),
        ("board_reset", None, (board,)),
        ("board_irq", ctypes.c_int, (board,)),
        ("board_run", size, (board, ctypes.c_uint64, pointer, size, pointer)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
