"""Files that come inside Python packages, found without importing the packages."""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kv_asu.installing import way_out
from vrex.trace.format import TraceError


@dataclass(frozen=True)
class PackagedFile:
    """A file inside an installed distribution."""

    path: Path
    distribution: str
    version: str


def packaged_file(distribution: str, name: str) -> PackagedFile:
    """Find a distribution's file by the end of its path.

    The package is not imported: its own code and dependencies are none of our business.

    Raises
    ------
    TraceError
        The distribution is not installed, or has no such file.
    """
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise TraceError(f"{name}: needs package {distribution}: {way_out(distribution)}") from None
    for file in found.files or ():
        if file.as_posix().endswith(name):
            return PackagedFile(Path(str(found.locate_file(file))), distribution, found.version)
    raise TraceError(f"{name}: not in package {distribution} {found.version}: {way_out(distribution)}")


def import_extra(module: str) -> ModuleType:
    """Import a module of the video extra.

    Raises
    ------
    TraceError
        It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise TraceError(f"making traces needs Python package {module}: {way_out(module)}") from None
