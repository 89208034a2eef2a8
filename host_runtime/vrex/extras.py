"""Packages that only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from kv_asu.installing import way_out
from vrex.errors import VrexError


def need(command: str, *packages: str) -> None:
    """See before the work that packages are installed.

    Raises
    ------
    VrexError
        One is not.
    """
    for package in packages:
        if find_spec(package) is None:
            raise VrexError(f"{command} needs {package}, which is not installed: {way_out(package)}")
