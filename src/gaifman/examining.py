"""One relation after another: the ranks of its test facts, what tells them from corruptions, and how both are kept.

What was found of a relation can be kept in the folder of a [run](runs.md), at once when it is done: an evaluation that
was stopped goes on with the relations that are left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaifman.corruptions import Corruptor
from gaifman.errors import InputError
from gaifman.kb import KnowledgeBase
from gaifman.keys import start
from gaifman.measures import Filters, Ranks, ranks
from gaifman.modelfile import canonical
from gaifman.runfolder import RECORD, shown
from gaifman.runs import Run
from gaifman.subjects import Subject
from gaifman.tables import Floats, Ints, Longs

Report = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What was found of one subject, for each number of draws that was asked for."""

    ranks: Longs
    """Shape (counts, 2, 3, ranks), int64: filtered and raw; the columns of `Ranks`; place after place, fact after
    fact."""
    scores: Floats
    """Shape (counts, tuples), float64: of the test facts, then of their corruptions."""
    targets: Floats
    """Shape (tuples,), float64: 1 for test facts, 0 for corruptions."""

    def ranked(self, count: int, raw: bool) -> Ranks:
        """The ranks with one of the numbers of draws, by its place among them."""
        return Ranks(*self.ranks[count, int(raw)])


class _Stopped(Exception):
    """Another thread has failed, or the whole was stopped."""


class Tally:
    """Counts ranks of all threads, tells whoever wants to know, and says when to stop."""

    def __init__(self, total: int, report: Report | None, done: int = 0) -> None:
        self._done, self._total, self._report = done, total, report
        self._guard, self._stopped = threading.Lock(), False
        if done:
            self.add(0)

    def add(self, count: int) -> None:
        """So many more ranks."""
        with self._guard:
            if self._stopped:
                raise _Stopped
            self._done += count
            if self._report:
                self._report("ranking", self._done, self._total)

    def stop(self) -> None:
        """Whoever adds to it from now on is stopped."""
        self._stopped = True


def shelf(folder: Path | str, about: Mapping[str, Any]) -> Run:
    """The run that keeps what is found; where the folder has been used for something else, an error says so.

    `about` is what the ranks follow from, under names that a person understands.
    """
    folder, wanted = Path(folder), json.loads(canonical(about))
    if not (folder / RECORD).exists():
        return Run.create(folder, wanted)
    again = f"name another folder, or remove {shown(folder)} and rank again"
    try:
        run = Run.open(folder)
    except InputError as error:
        raise InputError(error.message, hint=again) from None
    other = [name for name in wanted if run.settings.get(name) != wanted[name]]
    if other or run.settings.keys() != wanted.keys():
        run.close()
        why = ", ".join(other) or "what was asked"
        raise InputError(f"{shown(folder)} keeps the ranks of another evaluation; what differs: {why}", hint=again)
    return run


class Examiner:
    """Asks all that is asked of subjects, each by one thread, and keeps it where there is a shelf."""

    def __init__(self, kb: KnowledgeBase, pool: str, seed: int, run: Run | None = None) -> None:
        self._kb, self._pool, self._seed, self._run = kb, pool, seed, run

    def examined(self, subjects: Sequence[Subject], threads: int, report: Report | None) -> list[Part]:
        """What comes of each subject, in their order."""
        done = self._run.done() if self._run else set()
        sizes = [(subject.tuples.size, subject.name in done) for subject in subjects]
        tally = Tally(sum(size for size, _ in sizes), report, sum(size for size, kept in sizes if kept))
        self._log("start", kept=len(done), relations=len(subjects), threads=threads)
        found = abreast(subjects, threads, tally, lambda subject: self._part(subject, subject.name in done, tally))
        self._log("end")
        return found

    def _part(self, subject: Subject, kept: bool, tally: Tally) -> Part:
        if self._run is None:
            return self._asked(subject, tally)
        if kept:
            arrays = self._run.taken(subject.name)[0]
            return Part(arrays["ranks"], arrays["scores"], arrays["targets"])
        part = self._asked(subject, tally)
        self._run.keep(subject.name, {"ranks": part.ranks, "scores": part.scores, "targets": part.targets}, {})
        self._log("relation", relation=subject.name, ranks=subject.tuples.size)
        return part

    def _log(self, event: str, **fields: Any) -> None:
        if self._run:
            self._run.log(event, **fields)

    def _asked(self, subject: Subject, tally: Tally) -> Part:
        found = ranked(subject, len(self._kb.objects), tally)
        corrupted = self._corrupted(subject)
        scores = np.concatenate([subject.ranker.judged(tuples) for tuples in (subject.tuples, corrupted)], axis=1)
        targets = np.repeat([1.0, 0.0], [len(subject), len(corrupted)])
        return Part(found, np.where(np.isnan(scores), -np.inf, scores), targets)

    def _corrupted(self, subject: Subject) -> Ints:
        """One corruption of each test fact, where there is one that is not known to be true."""
        both = np.concatenate([subject.known, subject.tuples])
        rows = np.unique(both, axis=0, return_inverse=True)[1].ravel()[len(subject.known) :]
        corruptor = Corruptor(self._kb, subject.known, pool=self._pool)
        return corruptor.corrupted(rows.astype(np.int64), 1, start(self._seed, "classification", subject.name)).tuples


def abreast(subjects: Sequence[Subject], threads: int, tally: Tally, work: Callable[[Subject], Part]) -> list[Part]:
    """What comes of each subject, in their order; the largest are begun first, so that none is left for the end."""
    if threads < 2 or len(subjects) < 2:
        return [work(subject) for subject in subjects]
    order = sorted(range(len(subjects)), key=lambda number: (-subjects[number].tuples.size, number))
    with ThreadPoolExecutor(threads) as pool:
        futures = {number: pool.submit(work, subjects[number]) for number in order}
        try:
            for future in as_completed(futures.values()):
                future.result()
        except BaseException:
            tally.stop()  # what one thread cannot do, the others need not go on for
            pool.shutdown(cancel_futures=True)
            raise
    return [futures[number].result() for number in range(len(subjects))]


def ranked(subject: Subject, objects: int, tally: Tally) -> Longs:
    """Shape (counts, 2, 3, ranks), int64: as `Part.ranks`; facts that differ at the place alone share their scores."""
    width = subject.tuples.shape[1]
    found, step = list[Longs](), max(1, subject.ranker.cells // objects)
    for position in range(width):
        filters, rest = Filters(subject.known, subject.tuples, position), subject.tuples.copy()
        rest[:, position] = 0
        asked, which = np.unique(rest, axis=0, return_inverse=True)
        which = which.ravel()
        order = np.argsort(which, kind="stable")
        blocks = []
        for begin in range(0, len(asked), step):
            scores = subject.ranker.scores(asked[begin : begin + step], position)
            first, last = np.searchsorted(which[order], [begin, begin + step])
            for at in range(first, last, step):
                rows = order[at : min(at + step, last)]
                blocks.append(_columns(scores[:, which[rows] - begin], filters, rows, subject.tuples[rows, position]))
            tally.add(int(last - first))
        found.append(np.concatenate(blocks, axis=3)[..., np.argsort(order)])
    return np.ascontiguousarray(np.concatenate(found, axis=3))


def _columns(scores: Floats, filters: Filters, rows: Longs, right: Ints) -> Longs:
    """Shape (counts, 2, 3, rows), int64: of some facts, whose scores are (counts, rows, objects)."""
    found = []
    for own in scores:
        raw = ranks(own, right)
        both = raw.without(filters.of(rows), own, right), raw
        found.append([(each.better, each.tied, each.candidates) for each in both])
    return np.array(found, np.int64)
