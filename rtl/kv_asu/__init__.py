"""The KV-ASU gateware. Importing the package costs nothing: what is asked of it is loaded then, Amaranth by the modules
that need it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kv_asu.params import PROFILES, Params

if sys.argv[:1] == ["-m"]:
    from kv_asu import interrupts

    interrupts.arm_if_started(__name__)

__version__ = "1.0.0"
__all__ = ["PROFILES", "Params", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kv_asu import params

    return getattr(params, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
