"""Command-line options that choose a build of the core."""

from __future__ import annotations

import argparse

from kv_asu.params import PROFILES, Params


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose a build of the core."""
    parser.add_argument("--profile", choices=sorted(PROFILES), default="asic")
    parser.add_argument("--log2-entries", type=int)
    parser.add_argument("--window", type=int)
    parser.add_argument("--stages", type=int, nargs=2, metavar=("HASH", "TABLE"))
    parser.add_argument("--stamp-width", type=int)
    parser.add_argument("--addr-width", type=int)


def params_from(arguments: argparse.Namespace) -> Params:
    """The build that :func:`add_build_options` describes; ValueError when there is no such build."""
    hash_stages, table_stages = arguments.stages or (None, None)
    changes = {
        "log2_entries": arguments.log2_entries,
        "window": arguments.window,
        "hash_stages": hash_stages,
        "table_stages": table_stages,
        "stamp_width": arguments.stamp_width,
        "addr_width": arguments.addr_width,
    }
    return PROFILES[arguments.profile](**{name: value for name, value in changes.items() if value is not None})
