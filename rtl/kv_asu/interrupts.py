"""What Ctrl-C does to a command: it ends with one line and exit code 130, from its first moment to its last.

Python's own way is a traceback from wherever it comes, and complaints about whatever was half made. This loads next to
nothing, so that little time passes before it is in force.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from importlib import import_module
from types import FrameType

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


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
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what runs in the background
        return int(import_module(module).main())

    def end(*_: object) -> None:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    def ignored(raised: sys.UnraisableHookArgs) -> None:
        if isinstance(raised.exc_value, KeyboardInterrupt):  # in a destructor: Python would go on after it
            end()
        sys.__unraisablehook__(raised)

    signal.signal(signal.SIGINT, end)  # nothing has been begun
    sys.unraisablehook = ignored
    main = import_module(module).main
    try:
        signal.signal(signal.SIGINT, _unwind)
        code = int(main())
    except KeyboardInterrupt:
        end()
    signal.signal(signal.SIGINT, end)  # nothing is left to do
    return code


def _unwind(number: int, frame: FrameType | None) -> None:
    """Let what is under way clean up after itself."""
    warnings.simplefilter("ignore")  # Amaranth's, for one, that what is dropped now was never used
    raise KeyboardInterrupt
