"""A plugin of pytest: lists what has been collected, and whether its marks skip it here."""

from __future__ import annotations

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    for item in session.items:
        print(f"collected {'skip' if _skipped(item) else 'run'} {item.nodeid}")


def _skipped(item: pytest.Item) -> bool:
    """Marks only: what a test finds out when it runs is in the report of the run."""
    if next(item.iter_markers("skip"), None) is not None:
        return True
    conditions = [mark.args[0] if mark.args else mark.kwargs.get("condition") for mark in item.iter_markers("skipif")]
    return any(condition for condition in conditions)
