"""What is said while a person waits: lines for a file, a spinner on a terminal, one display for all that is nested."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import ClassVar

import pytest

from kv_asu import waiting as module
from kv_asu.waiting import waiting


class Timer:
    """Stands for `threading.Timer`: what is due goes off when the clock is moved on."""

    due: ClassVar[list[Timer]] = []
    daemon = False

    def __init__(self, seconds: float, tell: Callable[[], None]) -> None:
        assert seconds == module.PATIENCE
        self.tell = tell

    def start(self) -> None:
        self.due.append(self)

    def cancel(self) -> None:
        if self in self.due:
            self.due.remove(self)

    @classmethod
    def pass_time(cls) -> None:
        while cls.due:
            cls.due.pop().tell()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> type[Timer]:
    monkeypatch.setattr(threading, "Timer", Timer)
    return Timer


def test_what_is_quick_is_not_told(timers: type[Timer], capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("for it") as now:
        now("for more")
    timers.pass_time()
    assert capsys.readouterr() == ("", "")


def test_what_takes_its_time_is_told_once(timers: type[Timer], capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("for it") as now:
        timers.pass_time()
        now("for it")
        timers.pass_time()
        now("for what was told already", told=True)
        timers.pass_time()
        now("for more")
        with waiting("for what is inside") as inner:
            timers.pass_time()
            inner("for the rest of it")
            timers.pass_time()
        timers.pass_time()
    timers.pass_time()
    told = ["for it", "for what is inside", "for the rest of it", "for more"]
    assert capsys.readouterr().err.splitlines() == [f"{text} ..." for text in told]


def test_an_error_ends_it(timers: type[Timer], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="so it is"), waiting("for it"), waiting("for what is inside"):
        raise ValueError("so it is")
    timers.pass_time()
    with waiting("for another"):
        timers.pass_time()
    assert capsys.readouterr().err == "for another ...\n"


def test_on_a_terminal_it_is_drawn_and_erased() -> None:
    """Also when what is waited for prints its results there."""
    program = (
        "from kv_asu.waiting import waiting\n"
        "with waiting('for it'):\n"
        "    with waiting('for what is inside'):\n"
        "        print('a result')\n"
    )
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment | {"TERM": "xterm", "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    lines = shown.decode().split("\r\n")
    assert any("for it" in line for line in lines), lines
    (result,) = (line for line in lines if "a result" in line)
    assert result.endswith("\x1b[2Ka result"), lines
    assert "\x1b[2K" in lines[-1], "nothing is left"
