"""What Ctrl-C does to a command: it ends with one line and exit code 130, from its first moment to its last.

Python's own way is a traceback from wherever it comes, and complaints about whatever was half made. This loads next to
nothing, so that little time passes before it is in force.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from types import FrameType

INTERRUPTED = 130  # 128 + SIGINT, as shells have it

#: The command that this process is; empty while it is none.
_name = ""


def arm(name: str) -> None:
    """From here on Ctrl-C ends this process with one line.

    A command that is not to be interrupted, as a shell has it for what runs in the background, stays so.

    Parameters
    ----------
    name : str
        The command, in front of the line.
    """
    global _name
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    _name = name
    signal.signal(signal.SIGINT, _end)  # nothing has been begun
    sys.unraisablehook = _in_destructors


def arm_if_started(package: str) -> None:
    """Arm if ``python -m`` imports a package to start one of its modules, whose own imports may take a while.

    Parameters
    ----------
    package : str
        The package, while it is imported.
    """
    if sys.argv[:1] != ["-m"]:  # which is there only until the module has been found
        return
    for option, module in pairwise(sys.orig_argv):
        if option[:1] == "-" and option[-1:] == "m" and module.partition(".")[0] == package:
            arm(module.rpartition(".")[2])
            return


def start(name: str, module: str) -> int:
    """Run the ``main`` of a module, whose import takes a while, as the command of this process.

    Parameters
    ----------
    name : str
        The command, in front of the line.
    module : str
        Where ``main`` is.

    Returns
    -------
    int
        The exit code.
    """
    arm(name)
    main = import_module(module).main
    try:
        return unwinding(main)
    except KeyboardInterrupt:
        _end()
        raise  # it was not armed


def unwinding(job: Callable[[], int]) -> int:
    """Do a job; Ctrl-C raises KeyboardInterrupt in it, so that what is under way can clean up after itself.

    Before and after there is nothing to clean up. Where `arm` was not called, everything is as Python has it.
    """
    armed = signal.getsignal(signal.SIGINT) is _end
    if armed:
        signal.signal(signal.SIGINT, _unwind)
    try:
        return int(job())
    finally:
        if armed:
            signal.signal(signal.SIGINT, _end)


def _end(*_: object) -> None:
    if _name:
        os.write(2, f"{_name}: interrupted\n".encode())
        os._exit(INTERRUPTED)


def _unwind(number: int, frame: FrameType | None) -> None:
    """Let what is under way clean up after itself."""
    warnings.simplefilter("ignore")  # Amaranth's, for one, that what is dropped now was never used
    raise KeyboardInterrupt


def _in_destructors(raised: sys.UnraisableHookArgs) -> None:
    if isinstance(raised.exc_value, KeyboardInterrupt):  # Python would go on after it
        _end()
    sys.__unraisablehook__(raised)
