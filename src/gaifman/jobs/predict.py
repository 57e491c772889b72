"""Find missing facts and write them to a file; an interrupted search is resumed relation by relation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gaifman.completion import Completion
from gaifman.config import ProgressCallback
from gaifman.io.results import result_format
from gaifman.jobs.run import RECORD, Run, WorkStopped, check_same_settings
from gaifman.missing import MissingFacts, Proposals, ProposalStore, SearchOptions, write_missing


class RunProposals(ProposalStore):
    """Keeps what is proposed of each relation in the folder of a run."""

    def __init__(self, run: Run) -> None:
        self._run, self._done = run, run.finished_tasks()

    def load(self, relation: str) -> Proposals | None:
        """What was proposed before the interruption."""
        return Proposals.from_arrays(self._run.load_task(relation)[0]) if relation in self._done else None

    def save(self, relation: str, found: Proposals) -> None:
        """Keep what is proposed."""
        self._run.save_task(relation, found.arrays(), {})


@dataclass(frozen=True, slots=True)
class MissingSearch:
    """A search for missing facts whose result is a file."""

    model: Completion
    """The completion, with the knowledge base to complete."""
    model_file: Path
    """Its file."""
    target: Path
    """The file to write; the end of its name says the format."""
    relations: Sequence[str] | None
    """The relations to look at; None for all."""
    options: SearchOptions

    def settings(self) -> dict[str, Any]:
        """What the proposals of a relation depend on."""
        return {
            "search": "missing facts",
            "model": hashlib.sha256(self.model_file.read_bytes()).hexdigest(),
            "kb": self.model.kb.fingerprint,
            "above": self.options.above,
        }


def predict_to_file(
    search: MissingSearch,
    *,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    force: bool = False,
) -> MissingFacts:
    """Find missing facts and write them. Raises WorkStopped if it is to stop; the same call continues then."""
    target, file_format = search.target, result_format(search.target)

    def report(phase: str, done: int, total: int | None) -> None:
        if should_stop():
            raise WorkStopped
        if progress:
            progress(phase, done, total)

    with _open(run_folder(target), search.settings(), force=force) as run:
        found = search.model.find_missing(
            search.relations, search.options, threads=threads, progress=report, store=RunProposals(run)
        )
        found = replace(found, model_name=search.model_file.name)
        run.finish(target, lambda path: write_missing(found, path, file_format, compressed=target.suffix == ".gz"))
    return found


def run_folder(target: Path) -> Path:
    """The folder of an unfinished search."""
    return Path(f"{target}.run")


def _open(folder: Path, settings: dict[str, Any], *, force: bool) -> Run:
    """Start a run, or continue the one that is there, if it is of the same search."""
    if force or not (folder / RECORD).exists():
        return Run.create(folder, settings, force=force)
    run = Run.open(folder)
    try:
        hint = "--force starts again"
        check_same_settings(folder, run.settings, settings, "an unfinished search with other settings", hint)
    except Exception:
        run.close()
        raise
    return run
