"""The command `gaifman demo`: hold out facts of the bundled knowledge base, and show how many come back."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaifman.cli.console import json_option, print_json, work_progress
from gaifman.cli.kb import kb_summary
from gaifman.config import ProgressCallback

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gaifman.completion import Completion
    from gaifman.evaluation.evaluate import Evaluation
    from gaifman.explain.explanation import Explanation, Reason
    from gaifman.kb.knowledge_base import Fact, KnowledgeBase

HOLD_OUT_EVERY = 20
"""One fact in this many is held out."""
MIN_FACTS = 150
"""Smallest relation of the trial: of fewer facts, hardly any would be held out."""
FINDS = 5
"""Facts to show, of different relations."""
POOR_RANK = 10
"""A find stands at this rank or below when the most frequent object comes first, whichever of its objects is asked."""
REASONS = 2
"""Formulas of the explanation."""
SEED = 1
WIDTH = 100
"""Columns of the output."""
NEXT_COMMANDS = (
    "gaifman train demo -o countries.gaifman",
    "gaifman answer countries.gaifman demo \"capital('france', y)\"",
    "gaifman explain countries.gaifman demo \"capital('france', y)\" --answer paris",
    "gaifman serve demo countries.gaifman --open",
)
SENTENCES = {
    "borders": "{0} borders {1}",
    "capital": "the capital of {0} is {1}",
    "city_in": "{0} is a city in {1}",
    "city_on": "{0} lies on the {1}",
    "coast_on": "{0} has a coast on the {1}",
    "drives_on": "traffic in {0} drives on the {1}",
    "flows_through": "the {0} flows through {1}",
    "former_colony_of": "{0} was a colony of {1}",
    "in_time_zone": "the time of {0} is {1}",
    "landscape_in": "the landscape {0} lies partly in {1}",
    "largest_city": "the largest city of {0} is {1}",
    "located_in": "{0} is in {1}",
    "majority_religion": "the religion of most people in {0} is {1}",
    "member_of": "{0} is a member of {1}",
    "native_to": "{0} is native to {1}",
    "official_language": "an official language of {0} is {1}",
    "plays_football_in": "{0} plays football in {1}",
    "uses_currency": "{0} uses the {1}",
    "was_part_of": "{0} belonged to the former {1}",
}
"""Relations of the bundled knowledge base in words."""
SMALL_WORDS = frozenset({"al", "and", "for", "in", "of", "on", "the"})
WITH_ARTICLE = frozenset(
    {
        "bahamas",
        "central_african_republic",
        "comoros",
        "democratic_republic_of_the_congo",
        "dominican_republic",
        "gambia",
        "maldives",
        "marshall_islands",
        "netherlands",
        "philippines",
        "republic_of_the_congo",
        "seychelles",
        "solomon_islands",
        "united_arab_emirates",
        "united_kingdom",
        "united_states",
    }
)
"""Countries whose names have an article."""
ACRONYMS = frozenset(
    {"afc", "apec", "caf", "cptpp", "g20", "g7", "nato", "oecd", "ofc", "opec", "osce", "uefa", "us", "utc"}
)

FactsByRelation = dict[str, list[tuple[str, ...]]]
"""Relation → objects of facts."""


@dataclass(frozen=True, slots=True)
class Score:
    """How often the right object of a question stands first, and among the first three."""

    relation: str
    """The relation, or `all`."""
    questions: int
    first: float
    """Share of the questions whose right object stands first."""
    top_3: float
    """Share of the questions whose right object is among the first three."""
    popularity_first: float
    """The same share if the most frequent object is put first."""
    popularity_top_3: float


@dataclass(frozen=True, slots=True)
class Find:
    """A held-out fact that the model thinks probable, though popularity does not and no fact links its objects."""

    fact: Fact
    """The fact."""
    probability: float
    popularity_rank: float
    """Its better rank by popularity, of those of its two objects."""
    explanation: Explanation

    @property
    def sentence(self) -> str:
        """The fact in words."""
        return fact_sentence(self.fact.relation, self.fact.objects)

    @property
    def reason(self) -> Reason | None:
        """The formula that raises its probability most, rather one whose facts are few and name both objects."""
        return self.explanation.best_reason

    def as_dict(self) -> dict[str, Any]:
        """The find as JSON types."""
        return {
            "fact": str(self.fact).removesuffix("."),
            "sentence": self.sentence,
            "probability": self.probability,
            "popularity_rank": self.popularity_rank,
            "reason": self.reason.as_dict() if self.reason else None,
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """What came back of the held-out facts."""

    relations: tuple[Score, ...]
    """The scores of each relation: its held-out facts are asked for their second object."""
    total: Score
    """The scores of these questions."""
    both: Score
    """The scores of the questions for the first and for the second object."""
    recurring: int
    """Of the latter, questions whose right object stands in other facts of the relation too, at the same position."""
    recurring_top_2: float
    """Share of these questions whose right object stands first or second."""
    finds: tuple[Find, ...]
    """The most probable finds, of different relations."""

    def as_dict(self) -> dict[str, Any]:
        """The trial as JSON types; the explanation is that of the first find."""
        return {
            "relations": [asdict(score) for score in self.relations],
            "all": asdict(self.total),
            "both_positions": asdict(self.both),
            "recurring": {"questions": self.recurring, "top_2": self.recurring_top_2},
            "finds": [find.as_dict() for find in self.finds],
            "explanation": self.finds[0].explanation.as_dict() if self.finds else None,
        }


@click.command(short_help="Hold out facts of a bundled knowledge base, and find them again.")
@json_option
def demo(as_json: bool) -> None:
    """Hold out facts about the world's countries, train on the rest, and show how many come back.

    \b
    Example:
      gaifman demo

    Shows, for each relation, how often the right answer stands first; five facts that were found although no fact links
    their objects; and why one of them was. Takes about twenty seconds; the first time, kernels are compiled too.
    """
    from gaifman.io import demo as load_demo
    from gaifman.kernels.jit import TRAIN_FUNCTIONS

    kb = load_demo()
    if as_json:
        print_json({"kb": kb_summary(kb), **run_trial(kb).as_dict(), "next": [*NEXT_COMMANDS]})
        return
    with work_progress("items", TRAIN_FUNCTIONS) as report:
        trial = run_trial(kb, progress=report)
    click.echo("\n".join(demo_lines(kb, trial)))


# The trial


def run_trial(kb: KnowledgeBase, offset: int = 0, progress: ProgressCallback | None = None) -> Trial:
    """Hold out facts, train on the rest, and ask for the objects of each held-out fact.

    `offset` chooses the facts to hold out, from 0 to `HOLD_OUT_EVERY` - 1.
    """
    from gaifman.completion import train_completion
    from gaifman.evaluation.evaluate import evaluate, evaluate_popularity
    from gaifman.kb.knowledge_base import KnowledgeBase
    from gaifman.training import TrainingConfig

    held_out = hold_out_facts(kb, offset)
    test = KnowledgeBase.from_facts([(name, *objects) for name, own in held_out.items() for objects in own])
    rest = kb.without_facts(test.facts())
    store = _counting_store(len(held_out), progress)
    completion = train_completion(rest, TrainingConfig(seed=SEED), held_out, store=store)
    evaluation = evaluate(completion, rest, test, progress=progress)
    popularity = evaluate_popularity(completion, rest, test)
    facts = ranked_facts(evaluation, test)
    recurring = recurring_objects(evaluation, facts, rest)
    top_2 = evaluation.filtered.realistic[recurring] <= 2
    _report(progress, "explaining finds")
    return Trial(
        relation_scores(evaluation, popularity),
        _score("all", evaluation, popularity, evaluation.position == 1),
        _score("all", evaluation, popularity),
        len(top_2),
        round(float(top_2.mean()), 6) if len(top_2) else 0.0,
        tuple(islice(find_facts(completion, rest, popularity, facts), FINDS)),
    )


def hold_out_facts(kb: KnowledgeBase, offset: int = 0) -> FactsByRelation:
    """Return the facts to hold out: one in `HOLD_OUT_EVERY` of each larger binary relation, the first at `offset`.

    The inverse of a held-out fact of the same relation is held out too: it would give the fact away.
    """
    held_out: FactsByRelation = {}
    for relation in kb.relations.values():
        if relation.arity == 2 and relation.count >= MIN_FACTS:
            facts = [fact.objects for fact in kb.facts(relation.name)]
            chosen = set(facts[offset::HOLD_OUT_EVERY])
            held_out[relation.name] = [pair for pair in facts if pair in chosen or pair[::-1] in chosen]
    return held_out


def ranked_facts(evaluation: Evaluation, test: KnowledgeBase) -> list[Fact]:
    """Return the test facts in the order of their indices in the evaluation, which ranks all of them."""
    return [fact for name in evaluation.relations for fact in test.facts(name)]


def recurring_objects(evaluation: Evaluation, facts: Sequence[Fact], rest: KnowledgeBase) -> npt.NDArray[np.bool_]:
    """Return shape (ranks,): whether the right object has the same position in a fact of `rest` of the relation."""
    import numpy as np

    names = {fact.relation for fact in facts}
    seen = {(name, *each) for name in names for fact in rest.facts(name) for each in enumerate(fact.objects)}
    ranks = zip(evaluation.fact.tolist(), evaluation.position.tolist(), strict=True)
    return np.array([(facts[at].relation, place, facts[at].objects[place]) in seen for at, place in ranks], bool)


def relation_scores(evaluation: Evaluation, popularity: Evaluation) -> tuple[Score, ...]:
    """Return the scores of each relation, sorted by name, for questions for the second object."""
    asked = evaluation.position == 1
    return tuple(
        _score(name, evaluation, popularity, asked & (evaluation.relation == number))
        for number, name in enumerate(evaluation.relations)
    )


def _score(
    name: str, evaluation: Evaluation, popularity: Evaluation, rows: npt.NDArray[np.bool_] | None = None
) -> Score:
    """Return the shares of ranks, of all or of some rows; both evaluations rank the same facts."""
    own, other = evaluation.metrics(rows), popularity.metrics(rows)
    shares = [round(each.hits[most].value, 6) for each in (own, other) for most in (1, 3)]
    return Score(name, own.ranks, *shares)


def find_facts(
    completion: Completion, rest: KnowledgeBase, popularity: Evaluation, facts: Sequence[Fact]
) -> Iterator[Find]:
    """Yield the most probable find of each relation, the most probable first.

    A find is a held-out fact with two objects that no fact of `rest` links, and that popularity ranks poorly.
    """
    import numpy as np

    best_rank = np.full(len(facts), np.inf)
    np.minimum.at(best_rank, popularity.fact, popularity.filtered.realistic)
    linked = {frozenset(pair) for fact in rest.facts() for pair in _pairs(fact.objects)}
    probability = np.array(
        list(chain.from_iterable(_probabilities(completion, name, facts) for name in popularity.relations))
    )
    taken = set[str]()
    for number in np.argsort(-probability, kind="stable").tolist():
        fact = facts[number]
        surprising = best_rank[number] >= POOR_RANK and frozenset(fact.objects) not in linked
        if surprising and fact.relation not in taken:
            taken.add(fact.relation)
            reasons = completion.explain(fact.relation, *fact.objects)
            yield Find(fact, float(probability[number]), float(best_rank[number]), reasons)


def _pairs(objects: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((one, other) for number, one in enumerate(objects) for other in objects[:number])


def _probabilities(completion: Completion, relation: str, facts: Sequence[Fact]) -> list[float]:
    own = [fact.objects for fact in facts if fact.relation == relation]
    return [float(value) for value in completion.probabilities(relation, own).values]


def _report(progress: ProgressCallback | None, phase: str, done: int = 0, total: int | None = None) -> None:
    if progress:
        progress(phase, done, total)


def _counting_store(total: int, progress: ProgressCallback | None) -> Any:
    """Return a store that reports how many relations are trained."""
    from gaifman.completion import PartStore

    done = count(1)  # called by several threads
    _report(progress, "training relations", 0, total)

    class CountingStore(PartStore):
        """Reports each relation."""

        def save(self, relation: str, part: Any) -> None:
            """Count a trained relation."""
            _report(progress, "training relations", next(done), total)

    return CountingStore()


# The output


def demo_lines(kb: KnowledgeBase, trial: Trial) -> Iterator[str]:
    """Yield the lines of the output, which fit on a screen."""
    yield _bold("Can a model find facts that it was never told?")
    yield f"The bundled knowledge base has {len(kb):,} facts about countries, their cities, rivers and organisations."
    yield (
        f"Held out: {trial.total.questions:,} of them, one in {HOLD_OUT_EVERY} of each of {len(trial.relations)} "
        "relations. Models are trained on the rest."
    )
    yield "For each held-out fact they are asked a question such as capital('qatar', y), and rank all objects."
    yield ""
    yield from _score_lines(trial)
    yield ""
    yield _bold(
        f"{len(trial.finds)} finds: held out, popularity ranks them low, and no other fact links the two objects"
    )
    for find in trial.finds:
        yield from _find_lines(find)
    if trial.finds:
        yield ""
        yield from _explanation_lines(trial.finds[0])
    yield ""
    yield _bold("Next")
    yield from (f"  {line}" for line in (*activation_hint(), *NEXT_COMMANDS))


def _score_lines(trial: Trial) -> Iterator[str]:
    """Yield a table of two halves, side by side, and the sums."""
    half, total = -(-len(trial.relations) // 2), trial.total
    header = f"{'relation':18}{'held out':>9}{'first':>7}{'top 3':>7}{'popular':>8}"
    yield _bold(f"{header}  {header}")
    yield f"{'─' * len(header)}  {'─' * len(header)}"
    for left, right in zip(trial.relations[:half], [*map(_score_line, trial.relations[half:]), ""], strict=False):
        yield f"{_score_line(left)}  {right}".rstrip()
    first, top_3 = (click.style(f"{share:.0%}", fg="green") for share in (total.first, total.top_3))
    yield f"All: {first} of the right answers stand first, {top_3} among the first three. With the most frequent object"
    yield (
        f"first (popular) it would be {total.popularity_first:.0%} and {total.popularity_top_3:.0%}. Of objects that "
        "other facts of the relation name too, asked"
    )
    both = f"{trial.recurring_top_2:.0%} stand first or second"
    yield f"from both sides, as in coast_on('peru', y) and coast_on(x, 'red_sea'), {both}."


def _score_line(score: Score) -> str:
    shares = f"{score.first:>7.0%}{score.top_3:>7.0%}{score.popularity_first:>8.0%}"
    return f"{score.relation:18}{score.questions:>9}{shares}"


def _find_lines(find: Find) -> Iterator[str]:
    """Yield a find with its probability, and its best reason."""
    from gaifman.predict import format_probability

    probability = click.style(f"{format_probability(find.probability):>6}", fg="green")
    yield f"{probability}  {find.sentence[0].upper()}{find.sentence[1:]}."
    if find.reason:
        yield click.style(f"        because {_facts(find.reason, find.fact.objects, 16)}", dim=True)


def _explanation_lines(find: Find) -> Iterator[str]:
    """Yield the strongest formulas for a find, with facts that make them true, and what it depends on."""
    estimate, other = find.explanation.estimate, find.explanation.counterfactual
    yield _bold(f"Why {str(find.fact).removesuffix('.')}?") + " The strongest formulas, in log-odds, and their facts:"
    for reason in [reason for reason in find.explanation.supporting if reason.facts][:REASONS]:
        yield f"  {reason.effect:+.1f}  {_fit(reason.formula, 8)}"
        yield click.style(f"        {_facts(reason, find.fact.objects, 8)}", dim=True)
    if other and other.estimate.value < estimate.value:
        yield f"  Without {_fit(' '.join(map(str, other.facts)), 40)} its probability is {other.estimate}."


def _facts(reason: Reason, objects: Sequence[str], used: int) -> str:
    """Return the facts of a reason that connect the objects, or all, in one line: as many as fit."""
    from gaifman.explain.explanation import linking_facts

    facts = linking_facts(reason.facts, objects) or reason.facts
    texts = [str(fact).removesuffix(".") for fact in facts]
    width = WIDTH - used
    if len(", ".join(texts)) <= width:
        return ", ".join(texts)
    ends = accumulate(len(text) + 2 for text in texts)
    return ", ".join([*(text for text, end in zip(texts, ends, strict=True) if end < width), "…"])


def _fit(text: str, used: int) -> str:
    """Return the text, cut so that the line fits."""
    return text if len(text) <= WIDTH - used else text[: WIDTH - used - 1] + "…"


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def fact_sentence(relation: str, objects: Sequence[str]) -> str:
    """Return a fact in words.

    >>> fact_sentence("city_on", ("kampala", "lake_victoria")), fact_sentence("borders", ("france", "spain"))
    ('Kampala lies on Lake Victoria', 'France borders Spain')
    """
    sentence = SENTENCES.get(relation, f"{{0}} {relation.replace('_', ' ')} {{1}}")
    return sentence.format(*map(display_name, objects)).replace("the Lake", "Lake")


def display_name(name: str) -> str:
    """Return the name of an object with capitals and spaces.

    >>> [display_name(name) for name in ("republic_of_the_congo", "rub_al_khali", "nato")]
    ['the Republic of the Congo', 'Rub al Khali', 'NATO']
    """
    words = (word.upper() if word in ACRONYMS else word.capitalize() for word in name.split("_"))
    text = " ".join(word.lower() if word.lower() in SMALL_WORDS else word for word in words)
    return f"the {text}" if name in WITH_ARTICLE else text


def activation_hint() -> list[str]:
    """Return the command that puts `gaifman` on the path, if it is not there: `make` installs into .venv."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("gaifman") or not activate.exists():
        return []
    here = Path.cwd()
    return [f". {activate.relative_to(here) if activate.is_relative_to(here) else activate}"]
