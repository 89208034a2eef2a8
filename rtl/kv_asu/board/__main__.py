"""The bitstream for a ULX3S: ``python -m kv_asu.board``, or ``make board``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kv_asu.errors import ToolError
from kv_asu.installing import not_installed
from kv_asu.params import Params


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="kv_asu.board", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/board"), help="where everything goes")
    parser.add_argument("--log2-entries", type=int, help="log2 of the table's slots")
    parser.add_argument("--seed", type=int, default=1, help="for place and route")
    options = parser.parse_args(arguments)
    changes = {} if options.log2_entries is None else {"log2_entries": options.log2_entries}
    try:
        params = Params.fpga(**changes)
    except ValueError as error:
        parser.error(str(error))
    try:
        from kv_asu.board import ulx3s

        print(ulx3s.build(options.folder, params, seed=options.seed, say=_say))
    except ModuleNotFoundError as error:
        print(f"kv_asu.board: {not_installed(error)}", file=sys.stderr)
        return 1
    except (ToolError, OSError) as error:
        print(f"kv_asu.board: {error}", file=sys.stderr)
        return 1
    return 0


def _say(step: str) -> None:
    print(f"... {step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
