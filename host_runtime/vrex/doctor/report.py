"""What the doctor has to say: checks, each with what was seen, what was expected and what repairs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from vrex.doctor.tree import Undecided, printable

#: Of the layout that `Report.as_dict` gives. Goes up when a key changes its meaning or goes away.
SCHEMA = 1

_MOST_SEEN = 400


class State(StrEnum):
    """How a check ended."""

    OK = "OK"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"
    """What was found does not decide it: a file is missing, unreadable or malformed."""
    SKIPPED = "SKIPPED"
    """It cannot hold as long as another check does not."""


class Kind(StrEnum):
    """What a check is about."""

    LINK = "link"
    """One of the four links of the boot chain; all must be OK."""
    ENVIRONMENT = "environment"
    """The machine around the core; what is not decided is a warning."""


@dataclass(frozen=True)
class Finding:
    """What looking has told."""

    ok: bool
    saw: str
    source: str
    repair: str | None = None


@dataclass(frozen=True)
class Check:
    """One check and how it ended.

    Parameters
    ----------
    id : str
        Its name for programs; never changes.
    title : str
    kind : Kind
    state : State
    saw, expected : str
    repair : str or None
        What to do, commands and lines as they are to be typed, one a line; None when nothing is to be done.
    source : str
        The files or the command that were looked at, by their paths on the machine.
    """

    id: str
    title: str
    kind: Kind
    state: State
    saw: str
    expected: str
    repair: str | None
    source: str


def check(
    id: str, title: str, kind: Kind, expected: str, look: Callable[[], Finding], collect: str | None = None
) -> Check:
    """Look, and say how it ended.

    Parameters
    ----------
    id, title, kind, expected
        As of `Check`.
    look : callable
        Returns a `Finding`, or raises `Undecided`.
    collect : str, optional
        How to get what is looked at into a copy.
    """
    try:
        found = look()
    except Undecided as why:
        repair = why.repair or collect or f"look at {why.source}"
        return _check(id, title, kind, State.UNKNOWN, why.saw, expected, repair, why.source)
    state = State.OK if found.ok else State.FAIL
    return _check(id, title, kind, state, found.saw, expected, None if found.ok else found.repair, found.source)


def _check(
    id: str, title: str, kind: Kind, state: State, saw: str, expected: str, repair: str | None, source: str
) -> Check:
    """A check fit to print, since what was seen and advised quotes files of unknown content."""
    if len(saw) > _MOST_SEEN:
        saw = f"{saw[:_MOST_SEEN]}..."
    if repair is not None:
        repair = "\n".join(map(printable, repair.split("\n")))
    return Check(id, title, kind, state, printable(saw), expected, repair, printable(source))


@dataclass(frozen=True)
class Report:
    """All checks of one machine, the links first and in order."""

    root: str
    platform: str
    device: str
    checks: tuple[Check, ...]

    def of(self, kind: Kind) -> list[Check]:
        """The checks of one kind."""
        return [check for check in self.checks if check.kind is kind]

    @property
    def broken(self) -> Check | None:
        """What keeps the core from being active: the first link that is not OK, or the core itself."""
        for link in self.of(Kind.LINK):
            if link.state is not State.OK:
                return link
        return next((check for check in self.checks if check.id == CORE_STATUS and check.state is State.FAIL), None)

    @property
    def active(self) -> bool:
        """Whether all four links hold, and the core does not say otherwise."""
        return self.broken is None

    @property
    def failures(self) -> list[Check]:
        """What must be repaired: failed checks, and links that could not be decided."""
        return [
            check
            for check in self.checks
            if check.state is State.FAIL or (check.state is State.UNKNOWN and check.kind is Kind.LINK)
        ]

    @property
    def warnings(self) -> list[Check]:
        """Checks of the environment that could not be decided."""
        return [check for check in self.of(Kind.ENVIRONMENT) if check.state is State.UNKNOWN]

    def as_dict(self) -> dict[str, Any]:
        """The report for machines: plain types, in a layout that `SCHEMA` numbers."""
        return {
            "schema": SCHEMA,
            "root": self.root,
            "platform": self.platform,
            "device": self.device,
            "status": "ACTIVE" if self.active else "INACTIVE",
            "broken": self.broken.id if self.broken else None,
            "failures": len(self.failures),
            "warnings": len(self.warnings),
            "checks": [asdict(check) for check in self.checks],
        }


#: The check whose failure means that the core is not active though every link holds.
CORE_STATUS = "core-status"
