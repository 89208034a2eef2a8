"""V-Rex: the host side of the KV-ASU (traces, command line, registers, runtime).

Importing this package loads nothing heavy; `KvAsu` and `open`, which is `KvAsu.open`, are loaded when they are asked
for, and each other piece is imported from its own module, e.g. `vrex.trace.format`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vrex.kv_asu import KvAsu

__all__ = ["KvAsu", "open"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vrex.kv_asu import KvAsu

    return KvAsu if name == "KvAsu" else KvAsu.open


def __dir__() -> list[str]:
    return [*globals(), *__all__]
