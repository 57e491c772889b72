"""Commands that let people decide about proposed facts: review and add."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaifman.cli.console import (
    MAX_LISTED,
    InputOptions,
    check_overwrite,
    input_options,
    output_options,
    print_fields,
    print_json,
    print_more,
    print_rows,
    print_stopped,
    print_table,
)
from gaifman.config import check_fraction
from gaifman.errors import escape_unprintable, plural

if TYPE_CHECKING:
    from gaifman.io.proposals import ProposalTable
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.review import Additions

KEYS = {"a": "accept", "r": "reject", "s": "skip", "u": "undo", "q": "save and quit"}
PROMPT = ", ".join(f"{key} {word}" for key, word in KEYS.items())
SAVED_TOGETHER = 2_000
"""Up to this many rows the file is saved after each decision; of larger tables, after as many rows are decided as take
about as long."""
END_OF_INPUT = "\x04"
"""What Ctrl-D is on a terminal."""
REVIEWED = ".reviewed"
NOT_SHOWN = ("probability", "accept", "rank", "model")
"""Columns that are not shown below a fact."""


@dataclass
class Walk:
    """A walk through the rows of a table that have no decision yet."""

    table: ProposalTable
    target: Path
    decisions: list[bool | None] = field(init=False)
    probabilities: list[float | None] = field(init=False)
    skipped: set[int] = field(default_factory=set)
    history: list[int] = field(default_factory=list)
    """The rows that were decided or skipped, in order."""
    unsaved: int = 0

    def __post_init__(self) -> None:
        rows = range(len(self.table))
        self.decisions = [self.table.decision(row) for row in rows]
        self.probabilities = [self.table.probability(row) for row in rows]

    def left(self) -> list[int]:
        """The rows that are still to be asked about."""
        return [row for row, own in enumerate(self.decisions) if own is None and row not in self.skipped]

    def decide(self, row: int, key: str) -> None:
        """Accept, reject or skip a row."""
        if key == "s":
            self.skipped.add(row)
        else:
            self.decisions[row] = key == "a"
        self.history.append(row)
        self._count()

    def undo(self) -> bool:
        """Take the last step back; return whether there was one."""
        if not self.history:
            return False
        row = self.history.pop()
        self.skipped.discard(row)
        self.decisions[row] = None
        self._count()
        return True

    def accept_above(self, least: float) -> int:
        """Accept rows with such probabilities and without conflicts; return how many."""
        count = 0
        for row in self.left():
            p = self.probabilities[row]
            if p is not None and p >= least and not self.table.cell(row, "conflicts"):
                self.decisions[row] = True
                count += 1
        self.unsaved += count
        return count

    def _count(self) -> None:
        self.unsaved += 1
        if self.unsaved * SAVED_TOGETHER >= len(self.table):
            self.save()

    def save(self) -> None:
        """Write the table with the decisions."""
        self.table.with_decisions(self.decisions).save(self.target)
        self.unsaved = 0

    def counts(self) -> dict[str, int]:
        """How many rows are decided, and how many not."""
        return {
            "accepted": sum(own is True for own in self.decisions),
            "rejected": sum(own is False for own in self.decisions),
            "undecided": sum(own is None for own in self.decisions),
        }


@click.command(short_help="Accept or reject proposed facts, one by one.")
@click.argument("proposals", metavar="FILE")
@click.option("-o", "--output", metavar="REVIEWED", help="The file with the decisions.  [default: FILE.reviewed.csv]")
@click.option(
    "--accept-above",
    type=click.FloatRange(0, 1),
    metavar="P",
    help="Accept facts with this probability or a larger one that have no conflicts, without asking.",
)
@click.option("--force", is_flag=True, help="Replace REVIEWED if it is the review of other facts.")
@output_options
def review(proposals: str, output: str | None, accept_above: float | None, force: bool, as_json: bool) -> None:
    """Show the facts that `gaifman predict` wrote to FILE, and ask for each whether it is true.

    \b
    Examples:
      gaifman review missing.csv
      gaifman review missing.csv -o checked.csv --accept-above 0.95
      printf 'a r s q' | gaifman review missing.csv

    Keys: a accept, r reject, s skip, u undo, q save and quit. The same command continues where it stopped: facts with a
    decision are not shown again. FILE is not changed; REVIEWED has the same columns and `accept`, with yes or no.
    Standard input can have the keys. `gaifman add` brings the decisions into the knowledge base.
    """
    from gaifman.io.proposals import read_proposals

    if accept_above is not None:
        check_fraction("accept-above", accept_above)  # click lets nan pass
    target = reviewed_file(proposals, output)
    walk = Walk(_continued(read_proposals(proposals), target, force), target)
    total = len(walk.table)
    with _saved_on_interrupt(walk, as_json), _single_keys():
        if accept_above is not None:
            count = walk.accept_above(accept_above)
            click.echo(f"accepted without asking: {plural(count, 'fact')} with {accept_above:g} or more", err=True)
        _ask(walk, total)
    body = walk.counts()
    if as_json:
        print_json({"written": str(target), **body})
    elif not print_rows(lambda: {name: [count] for name, count in body.items()}):
        print_fields([(name, count) for name, count in body.items()])
    click.echo(f"wrote {target}; to add the accepted facts: gaifman add KB {shlex.quote(str(target))}", err=True)


def reviewed_file(proposals: str, output: str | None) -> Path:
    """The file with the decisions; a file that is one already is continued.

    >>> reviewed_file("missing.parquet", None), reviewed_file("missing.reviewed.csv", None)
    (PosixPath('missing.reviewed.csv'), PosixPath('missing.reviewed.csv'))
    """
    from gaifman.io.files import check_writable
    from gaifman.io.proposals import table_format

    path = Path(proposals)
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    own = path if stem.endswith(REVIEWED) else path.with_name(f"{stem}{REVIEWED}.csv")
    target = own if output is None else Path(output)
    table_format(target)
    check_writable(target)
    return target


def _continued(table: ProposalTable, target: Path, force: bool) -> ProposalTable:
    """The table with the decisions that the target has already, if it is of the same facts."""
    from gaifman.errors import OutputError
    from gaifman.io.proposals import read_proposals

    keys = [table.key(row) for row in range(len(table))]
    if not target.exists() or force:
        return table
    before = read_proposals(target)
    if [before.key(row) for row in range(len(before))] != keys:
        raise OutputError(
            f"{target} already exists, and it is not a review of the same facts",
            hint="--force replaces it; or write another file: -o REVIEWED",
        )
    return before


@contextmanager
def _saved_on_interrupt(walk: Walk, as_json: bool) -> Iterator[None]:
    """Save the decisions, also after Ctrl-C or an error; after Ctrl-C, print how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(err=True)
        walk.save()
        print_stopped("review", shlex.join(["gaifman", *(word for word in sys.argv[1:] if word != "--force")]), as_json)
        sys.exit(128 + signal.SIGINT)
    except BaseException:
        if walk.unsaved:
            walk.save()
        raise
    walk.save()


def _ask(walk: Walk, total: int) -> None:
    """Ask about one row after the other until all are decided or the keys end."""
    left = walk.left()
    if left:
        click.echo(f"{plural(len(left), 'fact')} of {total:,} to decide. Keys: {PROMPT}", err=True)
    while left:
        row = left[0]
        click.echo(f"\n{_describe(walk.table, row)}", err=True)
        key = _read_key(f"[{len(left):,} left] ")
        if key == "q":
            return
        if key == "u":
            click.echo("undone" if walk.undo() else "nothing to undo", err=True)
        else:
            walk.decide(row, key)
        left = walk.left()


def _describe(table: ProposalTable, row: int) -> str:
    """A fact with its probability, and below what the table says about it."""
    from gaifman.predict import format_probability
    from gaifman.review import statement

    p = table.probability(row)
    head = [click.style(escape_unprintable(statement(table.shown_key(row))), bold=True)]
    head += [] if p is None else [format_probability(p)]
    used = {table.facts.relation, *table.facts.objects, *table.labels.values(), *map(table.column, NOT_SHOWN)}
    used |= {table.column(name) for name in ("reason", "facts") if table.column(f"{name}_labels") is not None}
    said = [
        f"  {escape_unprintable(name.strip().removesuffix('_labels'))}: {escape_unprintable(cell)}"
        for i, (name, cell) in enumerate(zip(table.names, table.rows[row], strict=True))
        if i not in used and cell.strip()
    ]
    return "\n".join(["  ".join(head), *said])


@contextmanager
def _single_keys() -> Iterator[None]:
    """On a terminal, read keys without Enter; what is typed ahead is kept, and Ctrl-C works."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _read_key(prompt: str) -> str:
    """The next key of the terminal, or of standard input; its end means save and quit."""
    from gaifman.errors import InputError

    click.echo(prompt, nl=False, err=True)
    while character := sys.stdin.read(1):
        key = character.lower()
        if key in KEYS or key == END_OF_INPUT:
            break
        if sys.stdin.isatty():
            click.echo(f"\nKeys: {PROMPT}\n{prompt}", nl=False, err=True)
        elif not key.isspace():
            click.echo(err=True)
            raise InputError(f"{key!r} is no key of the review", hint=f"keys: {PROMPT}")
    key = character.lower() if character.lower() in KEYS else "q"
    click.echo(KEYS[key], err=True)
    return key


@click.command(short_help="Add reviewed facts to a knowledge base.")
@click.argument("kb")
@click.argument("reviewed")
@click.option("-o", "--output", metavar="NEW", help="The file to write.  [default: beside KB, as in KB.reviewed.tsv]")
@click.option("--model", default="", metavar="NAME", help="Name of the model, where REVIEWED has no column `model`.")
@click.option("--date", metavar="DAY", help="Day of the decisions, such as 2026-05-01.  [default: today]")
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
@click.option("--force", is_flag=True, help="Replace NEW if it exists.")
@input_options
@output_options
def add(
    kb: str,
    reviewed: str,
    output: str | None,
    model: str,
    date: str | None,
    dry_run: bool,
    force: bool,
    reading: InputOptions,
    as_json: bool,
) -> None:
    """Write KB with the accepted facts of REVIEWED, and with its rejected ones as known negatives.

    \b
    Examples:
      gaifman add family.tsv missing.reviewed.csv --dry-run
      gaifman add family.tsv missing.reviewed.csv
      gaifman add demo missing.reviewed.csv -o countries.facts --model countries.gaifman

    REVIEWED is a table of proposed facts with a column `accept`: yes, 1, true or x, and no, 0 or false; rows with
    nothing there are left for later. Accepted facts keep where they come from: the model, the day and the probability.
    Known negatives are never proposed again, and the next training takes them as false. KB is not changed.
    """
    from gaifman.io.files import check_writable
    from gaifman.io.proposals import read_proposals
    from gaifman.review import check_date, plan_additions

    check_date(date)
    target = _new_file(kb, output)
    if not dry_run:
        check_overwrite(str(target), force=force)
        check_writable(target)
    known = reading.read(kb)
    additions = plan_additions(known, read_proposals(reviewed), model, date)
    if not dry_run:
        _write(kb, target, additions.apply(known), additions, reading)
    _print_additions(additions, target, dry_run, as_json)


def _new_file(kb: str, output: str | None) -> Path:
    """The file to write: by default beside the knowledge base."""
    from gaifman.errors import OutputError
    from gaifman.io.additions import reviewed_path

    if output is not None:
        return Path(output)
    if not Path(kb).is_file():
        raise OutputError(f"there is no file beside which the new facts of {kb} can be", hint="write -o NEW.facts")
    return reviewed_path(Path(kb))


def _write(kb: str, target: Path, new: KnowledgeBase, additions: Additions, reading: InputOptions) -> None:
    from gaifman.cli.console import DEMO_FILE
    from gaifman.io import write
    from gaifman.io.additions import write_additions

    source = Path(kb) if Path(kb).is_file() else DEMO_FILE if kb == "demo" else None
    if source is None:
        write(new, target)
    else:
        decided = additions.accepted, additions.rejected
        write_additions(source, target, new, *decided, reading.file_format, reading.iris)  # type: ignore[arg-type]


def _print_additions(additions: Additions, target: Path, dry_run: bool, as_json: bool) -> None:
    """Print how many facts are new, known, rejected or left, and the conflicts."""
    from gaifman.review import statement

    if as_json:
        print_json({"written": None if dry_run else str(target), **additions.as_dict()})
        return
    if not print_rows(additions.columns):
        print_fields(_counted(additions))
        rows = [(statement(key), "; ".join(map(str, found))) for key, found in additions.conflicts.items()]
        if rows:
            print_table("Accepted facts with conflicts", ["fact", "conflicts"], rows[:MAX_LISTED])
            print_more(len(rows) - MAX_LISTED, "facts", "--format csv lists them")
    click.echo(f"dry run: {target} is not written" if dry_run else f"wrote {target}", err=True)


def _counted(additions: Additions) -> list[tuple[str, object]]:
    again = f" ({len(additions.reconsidered):,} rejected before)" if additions.reconsidered else ""
    return [
        ("new facts", f"{len(additions.accepted):,}{again}"),
        ("already known", len(additions.known)),
        ("new known negatives", len(additions.rejected)),
        ("already rejected", len(additions.known_negatives)),
        ("undecided", additions.undecided),
        ("with conflicts", len(additions.conflicts)),
    ]
