"""The bench's free knobs, from one file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrex.errors import VrexError

FROZEN = Path(__file__).with_name("knobs.toml")


@dataclass(frozen=True)
class BenchKnobs:
    """`knobs.toml`, table by table; each value is named there.

    Parameters
    ----------
    trace, hit_rate, prefetch, reuse, latency, speed, fidelity : dict
    """

    trace: dict[str, Any]
    hit_rate: dict[str, Any]
    prefetch: dict[str, Any]
    reuse: dict[str, Any]
    latency: dict[str, Any]
    speed: dict[str, Any]
    fidelity: dict[str, Any]

    @classmethod
    def read(cls, path: Path = FROZEN) -> BenchKnobs:
        """Read a file of the frozen one's form.

        Raises
        ------
        VrexError
            It cannot be read, or has other names in it than the frozen one, or values of another type.
        """
        frozen, given = _toml(FROZEN), _toml(path)
        for section, names in frozen.items():
            if not isinstance(given.get(section), dict) or given[section].keys() != names.keys():
                raise VrexError(f"{path}: [{section}] must have {', '.join(names)}; begin with a copy of {FROZEN}")
            for name, value in names.items():
                if not _alike(given[section][name], value):
                    raise VrexError(f"{path}: {section}.{name} must be like {value!r}, not {given[section][name]!r}")
        if unknown := given.keys() - frozen.keys():
            raise VrexError(f"{path}: there is no [{min(unknown)}]; begin with a copy of {FROZEN}")
        return cls(**given)


def _alike(value: Any, model: Any) -> bool:
    """Whether a value has the type of another; lists may be of any length but 0, numbers are positive."""
    if isinstance(model, list):
        return isinstance(value, list) and bool(value) and all(_alike(item, model[0]) for item in value)
    if isinstance(model, float):
        most = 1 if model <= 1 else float("inf")  # what is no share has no upper end
        return isinstance(value, float | int) and not isinstance(value, bool) and 0 < value <= most
    return type(value) is type(model) and (not isinstance(value, int) or value >= 0)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise VrexError(f"{path}: cannot be read ({error.strerror}); give a file like {FROZEN}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise VrexError(f"{path}: no TOML ({str(error).splitlines()[0]}); begin with a copy of {FROZEN}") from None
