"""Command-line options that choose a build of the core, and streams for it."""

from __future__ import annotations

import argparse

from kv_asu.command_line import Parser, whole_number
from kv_asu.params import PROFILES, Params
from kv_asu_sim.streams import STREAMS


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose a build of the core."""
    group = parser.add_argument_group("the build")
    group.add_argument(
        "--profile", choices=sorted(PROFILES), default="asic", help="what is not given (default: %(default)s)"
    )
    group.add_argument("--log2-entries", type=whole_number(), metavar="N", help="log2 of the table's slots, 3 to 16")
    group.add_argument("--window", type=whole_number(), metavar="N", help="slots probed in parallel: 2, 4, 8 or 16")
    group.add_argument(
        "--stages", type=whole_number(), nargs=2, metavar=("HASH", "TABLE"),
        help="pipeline registers in the hash, 0 to 6, and behind the table's memories, 0 to 2",
    )  # fmt: skip
    group.add_argument("--stamp-width", type=whole_number(), metavar="N", help="bits of a time stamp, 8 to 16")
    group.add_argument("--addr-width", type=whole_number(), metavar="N", help="bits of a request address, 32 to 64")


def params_from(parser: Parser, arguments: argparse.Namespace) -> Params:
    """The build that :func:`add_build_options` describes; wrong usage when there is no such build."""
    hash_stages, table_stages = arguments.stages or (None, None)
    changes = {
        "log2_entries": arguments.log2_entries,
        "window": arguments.window,
        "hash_stages": hash_stages,
        "table_stages": table_stages,
        "stamp_width": arguments.stamp_width,
        "addr_width": arguments.addr_width,
    }
    try:
        return PROFILES[arguments.profile](**{name: value for name, value in changes.items() if value is not None})
    except ValueError as error:
        parser.error(str(error))


class _List(argparse.Action):
    """Says what each stream is, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        width = max(map(len, STREAMS))
        for name, stream in STREAMS.items():
            print(f"{name:<{width}}  {(stream.__doc__ or '').splitlines()[0]}")
        parser.exit()


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """Options that choose streams."""
    parser.add_argument(
        "--stream", action="append", choices=[*STREAMS, "all"], metavar="NAME",
        help="a stream that --list names, or all, the default; repeat for several",
    )  # fmt: skip
    parser.add_argument("--list", action=_List, nargs=0, help="say what each stream is, and end")


def streams_from(arguments: argparse.Namespace) -> list[str]:
    """The streams that :func:`add_stream_options` chooses."""
    asked = arguments.stream or ["all"]
    return list(STREAMS) if "all" in asked else asked
