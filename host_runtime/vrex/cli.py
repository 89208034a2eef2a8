"""The `vrex` command: sub-commands, and errors that read as one line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from kv_asu import __version__, typer_command
from vrex.bench.cli import EXAMPLES as BENCH_EXAMPLES
from vrex.bench.cli import bench
from vrex.calibrate.cli import EXAMPLES as CALIBRATE_EXAMPLES
from vrex.calibrate.cli import calibrate
from vrex.doctor.cli import EXAMPLES as DOCTOR_EXAMPLES
from vrex.doctor.cli import doctor
from vrex.errors import VrexError
from vrex.mount.cli import EXAMPLES as MOUNT_EXAMPLES
from vrex.mount.cli import mount
from vrex.regs_cli import app as regs_app
from vrex.report.cli import EXAMPLES as REPORT_EXAMPLES
from vrex.report.cli import report
from vrex.run.cli import EXAMPLES as RUN_EXAMPLES
from vrex.run.cli import run
from vrex.session.cli import EXAMPLES as REPLAY_EXAMPLES
from vrex.session.cli import replay
from vrex.sweep.cli import EXAMPLES as SWEEP_EXAMPLES
from vrex.sweep.cli import sweep
from vrex.trace.cli import app as trace_app
from vrex.train.cli import EXAMPLES as TRAIN_EXAMPLES
from vrex.train.cli import train

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="V-Rex: KV cache retrieval for streaming video LLMs, managed by the KV-ASU.",
    epilog="Example: `vrex trace info examples/traces/bikes.parquet`",
)
app.add_typer(trace_app, name="trace")
app.command(epilog=DOCTOR_EXAMPLES)(doctor)
app.add_typer(regs_app, name="regs")
app.command(epilog=REPLAY_EXAMPLES)(replay)
app.command(epilog=MOUNT_EXAMPLES)(mount)
app.command(epilog=RUN_EXAMPLES)(run)
app.command(epilog=CALIBRATE_EXAMPLES)(calibrate)
app.command(epilog=BENCH_EXAMPLES)(bench)
app.command(epilog=SWEEP_EXAMPLES)(sweep)
app.command(epilog=TRAIN_EXAMPLES)(train)
app.command(epilog=REPORT_EXAMPLES)(report)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vrex {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Instead of the process's own.

    Returns
    -------
    int
        The exit code, as `kv_asu.typer_command.run` has it.
    """
    if arguments is None:  # an asked-for end cleans up after itself too; Python would just stop
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return typer_command.run(app, "vrex", arguments, VrexError)


if __name__ == "__main__":
    sys.exit(main())
