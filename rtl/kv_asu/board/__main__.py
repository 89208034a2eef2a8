"""The bitstream for a ULX3S: ``python -m kv_asu.board``, or ``make board``."""

from __future__ import annotations

import sys
from pathlib import Path

from kv_asu.command_line import Parser, whole_number
from kv_asu.errors import ToolError
from kv_asu.params import Params
from kv_asu.timing import tools
from kv_asu.waiting import waiting


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        "python -m kv_asu.board",
        "Make the bitstream for a ULX3S-85F: yosys, nextpnr, ecppack. Takes ten minutes or more.",
        ("", "--log2-entries 8 --folder build/small_board"),
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("build/board"), metavar="DIR",
        help="where everything goes (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--log2-entries", type=whole_number(), metavar="N",
        help=f"log2 of the table's slots (default: {Params.fpga().log2_entries}); a smaller table is built sooner",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=whole_number(), default=1, metavar="N", help="for place and route (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    changes = {} if options.log2_entries is None else {"log2_entries": options.log2_entries}
    try:
        params = Params.fpga(**changes)
    except ValueError as error:
        parser.error(str(error))

    def job() -> int:
        from kv_asu.board import ulx3s

        with waiting("looking for the tools") as say:
            report = ulx3s.build(options.folder, params, seed=options.seed, say=tools.saying(say))
        print(report)
        return 0

    return parser.run(job, ToolError)


if __name__ == "__main__":
    sys.exit(main())
