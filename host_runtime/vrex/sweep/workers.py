"""Where a sweep's jobs run: processes on this machine, or a Dask cluster that exists already."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from vrex.errors import VrexError
from vrex.extras import need
from vrex.sweep.measure import Result, measure
from vrex.sweep.points import Job, Point

#: What came of a job: its points' results, or why there are none.
Outcome = list[tuple[Point, Result]] | VrexError

#: Seconds to wait for a scheduler to answer.
_PATIENCE = 10


def in_processes(jobs: Sequence[Job], count: int) -> Iterator[Outcome]:
    """Run jobs in so many processes; gives each one's outcome as it ends.

    Raises
    ------
    VrexError
        A process was killed.
    """
    context = multiprocessing.get_context("spawn")
    # Control-C reaches every process of a terminal: this one takes care of the others.
    pool = ProcessPoolExecutor(
        min(count, len(jobs)), context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        futures = [pool.submit(measure, job) for job in jobs]
        for future in as_completed(futures):
            try:
                yield _outcome(future)
            except BrokenProcessPool:
                raise VrexError(
                    "a worker process was killed, perhaps for want of memory; what was done is kept: "
                    "run it again, with fewer --jobs"
                ) from None
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():  # whoever stops a sweep does not wait for its jobs' end
            process.terminate()
        raise


def _outcome(future: Future[list[tuple[Point, Result]]]) -> Outcome:
    try:
        return future.result()
    except VrexError as error:
        return error


def on_cluster(jobs: Sequence[Job], address: str, tell: Callable[[str], None]) -> Iterator[Outcome]:
    """Run jobs on the workers of a Dask scheduler; gives each one's outcome as it ends.

    A job whose worker dies is begun again on another.

    Parameters
    ----------
    jobs : sequence of Job
    address : str
        Of the scheduler, like tcp://host:8786.
    tell : callable
        Given a line about the cluster.

    Raises
    ------
    VrexError
        Dask is not installed; the scheduler does not answer, or has gone.
    """
    need("vrex sweep --scheduler", "distributed")
    import distributed

    for logger in ("distributed", "distributed.client"):  # what goes wrong is told below, in a line
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise VrexError(f"{address}: no Dask scheduler answers ({reason}); begin one with 'dask scheduler'") from None
    with client:
        workers = len(client.nthreads())
        tell(f"{address}: {workers} workers" if workers else f"{address}: no workers yet; waiting for the first")
        futures = client.map(measure, jobs, key=[f"vrex-sweep-{job.key}" for job in jobs])
        for future in distributed.as_completed(futures, loop=client.loop):
            yield _cluster_outcome(future, address)


def _cluster_outcome(future: Any, address: str) -> Outcome:
    import distributed

    try:
        measured: list[tuple[Point, Result]] = future.result()
        return measured
    except VrexError as error:
        return error
    except distributed.scheduler.KilledWorker as error:
        return VrexError(f"every worker that began a job died, {error.last_worker.address} last; see that worker's log")
    except (distributed.client.FutureCancelledError, OSError):
        raise VrexError(f"{address}: the scheduler has gone; what was done is kept: run it again") from None
    except ImportError as error:
        raise VrexError(f"{address}: workers lack {error.name}; begin them in V-Rex's environment") from None
