"""Runs the proofs: `make formal`, or `python -m formal --help` in tests/."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from formal.plants import PLANTS, Plant, planted
from formal.proofs import all_proofs
from formal.prover import Proof, Verdict, run, to_rtlil
from kv_asu.errors import ToolError
from kv_asu.timing import tools

BUILD = Path(__file__).resolve().parents[2] / "build" / "formal"


def main(
    only: Annotated[str, typer.Option(help="Only proofs whose label has this text.")] = "",
    plant: Annotated[str, typer.Option(help="Plant this fault, or all in turn: its proof must fail.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Solvers at a time.")] = 2,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds for each.")] = 3600,
    list_: Annotated[bool, typer.Option("--list", help="Say what there is, and do nothing.")] = False,
) -> None:
    """Prove the invariants of the core; write the table to build/formal/proofs.md."""
    proofs = [proof for proof in all_proofs() if only in proof.label]
    plants = [fault for fault in PLANTS if plant in ("all", fault.name)]
    if list_:
        for proof in proofs:
            typer.echo(proof.label)
        for fault in PLANTS:
            typer.echo(f"--plant {fault.name!r}: {fault.build}: {fault.group}")
        return
    if plant and not plants:
        raise typer.BadParameter(f"there is no {plant!r}; --list shows them", param_hint="--plant")
    if not proofs:
        raise typer.BadParameter(f"no proof has {only!r} in its label; --list shows them", param_hint="--only")
    try:
        good = _plant(plants, jobs, timeout) if plant else _prove(proofs, jobs, timeout)
    except ToolError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(0 if good else 1)


def _run_all(work: list[tuple[Proof, Plant | None]], jobs: int, timeout: int) -> list[Verdict]:
    """The verdicts, in order, with a line for each as it comes."""
    console = Console(soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    verdicts: dict[int, Verdict] = {}
    tools.need("yices-smt2", "yowasp-sby")
    shutil.rmtree(BUILD, ignore_errors=True)
    elaborating = Lock()  # what stands in for a block does so for the whole process

    def one(number: int) -> Verdict:
        proof, plant = work[number]
        with elaborating, planted(plant) if plant else nullcontext():
            design = to_rtlil(proof)
        folder = BUILD / re.sub(r"[^\w.=-]+", "_", f"{number:03} {proof.label}")
        return run(proof, folder, design, timeout=timeout)

    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(jobs) as pool:
        task = progress.add_task("proofs", total=len(work))
        futures = {pool.submit(one, number): number for number in range(len(work))}
        for future in as_completed(futures):
            number = futures[future]
            proof, plant = work[number]
            verdict = verdicts[number] = future.result()
            what = f"{plant.name}: {proof.label}" if plant else proof.label
            why = "timeout" if verdict.timed_out else ", ".join(verdict.broken)
            progress.console.print(f"{verdict.seconds:6.1f} s  {verdict.status:10}  {what}  {why}", highlight=False)
            progress.advance(task)
    return [verdicts[number] for number in range(len(work))]


def _prove(proofs: list[Proof], jobs: int, timeout: int) -> bool:
    """Whether all hold; the parts of a group make one row of the table."""
    verdicts = _run_all([(proof, None) for proof in proofs], jobs, timeout)
    groups: dict[tuple[str, str], list[tuple[Proof, Verdict]]] = {}
    for proof, verdict in zip(proofs, verdicts, strict=True):
        groups.setdefault((proof.name, proof.group), []).append((proof, verdict))
    rows = ["| build | claims | mode | seconds | verdict |", "|---|---|---|--:|---|"]
    for (name, group), done in groups.items():
        proof = done[0][0]
        steps = max((verdict.induction or 0 for _, verdict in done), default=0)
        mode = f"cover within {proof.depth} clocks" if group == "covers" else f"induction, k = {steps}"
        bad = [verdict for _, verdict in done if verdict.status != "proved"]
        word = "reached" if group == "covers" else "proved"
        verdict_text = ("timeout" if bad[0].timed_out else "**fails**") if bad else word
        rows.append(f"| {name} | {group} | {mode} | {sum(v.seconds for _, v in done):.0f} | {verdict_text} |")
    (BUILD / "proofs.md").write_text("\n".join(rows) + "\n")
    good = sum(verdict.status == "proved" for verdict in verdicts)
    typer.echo(f"{good} of {len(proofs)} runs proved; table: build/formal/proofs.md")
    return good == len(proofs)


def _plant(plants: list[Plant], jobs: int, timeout: int) -> bool:
    """Whether each fault has a counterexample in one of the runs of its group."""
    work: list[tuple[Proof, Plant | None]] = [
        (proof, plant)
        for plant in plants
        for proof in all_proofs()
        if (proof.name, proof.group) == (plant.build, plant.group)
    ]
    verdicts = _run_all(work, jobs, timeout)
    seen = {plant.name for (_, plant), verdict in zip(work, verdicts, strict=True) if plant and verdict.broken}
    missed = [plant.name for plant in plants if plant.name not in seen]
    typer.echo(f"{len(seen)} of {len(plants)} faults found" + (f"; missed: {', '.join(missed)}" if missed else ""))
    return not missed


if __name__ == "__main__":
    typer.run(main)
