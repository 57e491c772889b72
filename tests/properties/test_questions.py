"""What a question of training does not see: nothing of a hidden fact, and in blind questions no linked candidate."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.kb.tables import Longs
from gaifman.kernels.listwise import Questions
from gaifman.listwise.mining import MinedFormulas, MiningConfig, mine_formulas
from gaifman.listwise.ranker import (
    MIN_LINKED,
    ListwiseConfig,
    _ask,
    _Asked,
    _Problem,
    count_at_position,
    held_out_rows,
    statistics,
)
from gaifman.listwise.steps import StepIndex, build_steps

ARITIES = {"p": 1, "r": 2, "t": 2, "u": 3}
MINING = MiningConfig(max_steps=2)


def random_kb(rng: random.Random) -> KnowledgeBase:
    """Facts with repeated objects; half of the knowledge bases are uncertain."""
    objects = [f"o{i}" for i in range(rng.randint(2, 6))]
    chances = rng.choice([[1.0], [0.25, 0.5, 1.0]])
    facts = {
        (name, *rng.choices(objects, k=arity))
        for name, arity in ARITIES.items()
        for _ in range(rng.randint(3, 3 * len(objects)))
    }
    known = [Fact(name, tuple(rest), rng.choice(chances)) for name, *rest in sorted(facts)]
    return KnowledgeBase.from_facts(known, objects=objects)


def fact_numbers(kb: KnowledgeBase, relation: str) -> Longs:
    return kb.fact_ids(kb.content.relations.find(relation) or 0, kb.tuples(relation))


def ask(index: StepIndex, position: int, config: ListwiseConfig) -> tuple[_Asked, _Problem]:
    """The questions about r at a position, and the problem that they make."""
    held_out, facts = held_out_rows(index.kb, "r", config), index.kb.tuples("r")
    mined: tuple[MinedFormulas, ...] = (mine_formulas(index, "r", 1 - position, position, config.mining, held_out),)
    asked = _ask(index, position, facts, fact_numbers(index.kb, "r"), mined, config, held_out, None)
    return asked, _Problem(index, "r", position, mined, config, held_out, None)


def own_marks(index: StepIndex, obj: int) -> dict[int, float]:
    """The marks of an object with their values."""
    marks = index.marks
    own = slice(int(marks.starts[obj]), int(marks.starts[obj + 1]))
    return dict(zip(marks.marks[own].tolist(), marks.values[own].tolist(), strict=True))


@pytest.mark.parametrize("hide", ["facts", "links"])
@pytest.mark.parametrize("seed", range(20))
def test_marks_and_counts_of_an_answer_are_those_without_the_hidden_facts(seed: int, hide: str) -> None:
    """Once, the fact that is asked for was left out of them, and hidden links counted."""
    rng = random.Random(seed)
    index, position = build_steps(random_kb(rng)), rng.randrange(2)
    config = ListwiseConfig(MINING, hide=hide, blind_share=rng.choice([0.0, 1.0]), seed=seed)
    asked, problem = ask(index, position, config)
    answers, changes = asked.questions.answers.tolist(), problem._changes
    assert len(answers) == len(asked.unseen) == len(problem._answer_stats)
    for row, (answer, unseen) in enumerate(zip(answers, asked.unseen, strict=True)):
        left = build_steps(index.kb.without_facts([index.kb.fact_by_id(fact) for fact in unseen.tolist()]))
        counts = count_at_position(left.kb, "r", position)[[answer]], left.degrees[[answer]]
        assert problem._answer_stats[row] == pytest.approx(statistics(*counts)[0])
        own = slice(int(changes.starts[row]), int(changes.starts[row + 1]))
        seen = own_marks(index, answer)
        for mark, change in zip(changes.marks[own].tolist(), changes.values[own].tolist(), strict=True):
            seen[mark] += change
        visible = {mark: value for mark, value in seen.items() if value > 1e-6}
        assert visible == pytest.approx(own_marks(left, answer), abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_hidden_links_are_all_facts_between_the_two_objects(seed: int) -> None:
    rng = random.Random(seed)
    index, position = build_steps(random_kb(rng)), rng.randrange(2)
    facts, numbers = index.kb.tuples("r"), fact_numbers(index.kb, "r").tolist()
    for hide, share in (("facts", 1.0), ("links", 0.0)):
        asked, _ = ask(index, position, ListwiseConfig(MINING, hide=hide, blind_share=share, seed=seed))
        for row, unseen, blind in zip(asked.rows.tolist(), asked.unseen, asked.blind.tolist(), strict=True):
            pair = {*facts[row].tolist()}
            links = {n for n in range(len(index.kb)) if len(pair) == 2 and pair <= {*index.fact(n)[1]}}
            wanted = {numbers[row]} | (links if blind or hide == "links" else set())
            assert {*unseen.tolist()} == wanted


@pytest.mark.parametrize("seed", range(20))
def test_no_candidate_of_a_blind_question_is_linked_with_the_fixed_object(seed: int) -> None:
    rng = random.Random(seed)
    index, position = build_steps(random_kb(rng)), rng.randrange(2)
    facts = index.kb.tuples("r")
    config = ListwiseConfig(MINING, blind_share=0.5, seed=seed)
    asked, _ = ask(index, position, config)
    held_out = {*held_out_rows(index.kb, "r", config).tolist()}
    for number, (row, blind) in enumerate(zip(asked.rows.tolist(), asked.blind.tolist(), strict=True)):
        fixed, answer = int(facts[row, 1 - position]), int(facts[row, position])
        linked = {
            obj
            for fact in range(len(index.kb))
            for obj in index.fact(fact)[1]
            if blind and fixed in index.fact(fact)[1] and obj not in (fixed, answer)
        }
        for questions, unknown in ((asked.questions, set()), (asked.of_trial, held_out)):
            others = {
                int(pair[position])
                for other, pair in enumerate(facts.tolist())
                if pair[1 - position] == fixed and pair[position] != answer and other not in unknown
            }
            assert no_candidates(questions, number) == others | linked
    assert asked.blind.sum() in (0, round(0.5 * len(held_out)) + round(0.5 * (len(facts) - len(held_out))))


def no_candidates(questions: Questions, number: int) -> set[int]:
    """The objects that are no candidates of a question."""
    return {*questions.known[slice(*questions.known_starts[number : number + 2].tolist())].tolist()}


@pytest.mark.parametrize("linked", [0, 9, 10, 30])
def test_there_are_blind_questions_if_enough_answers_are_linked(linked: int) -> None:
    facts = [("r", f"a{i}", f"b{i}") for i in range(50)] + [("s", f"b{i}", f"a{i}") for i in range(linked)]
    index = build_steps(KnowledgeBase.from_facts(facts))
    asked, _ = ask(index, 1, ListwiseConfig(MINING, blind_share=0.2))
    assert asked.blind.sum() == (10 if linked >= MIN_LINKED * 50 else 0)
    assert len(asked.blind) == 50 + asked.blind.sum()
    for settings in (ListwiseConfig(MINING), ListwiseConfig(MINING, blind_share=0.2, hide="links")):
        assert not ask(index, 1, settings)[0].blind.any()


def test_blind_questions_are_spread_over_what_fits_into_memory() -> None:
    facts = [("r", f"a{i}", f"b{i}") for i in range(90)] + [("s", f"b{i}", f"a{i}") for i in range(90)]
    facts += [("t", f"a{i}", f"b{j}") for i in range(90) for j in range(20)]
    index = build_steps(KnowledgeBase.from_facts(facts))
    all_of_it, _ = ask(index, 1, ListwiseConfig(MINING, blind_share=0.5))
    few, _ = ask(index, 1, ListwiseConfig(MINING, blind_share=0.5, max_entries=len(all_of_it.questions.objects) // 3))
    held_out = held_out_rows(index.kb, "r", ListwiseConfig(MINING))
    assert 30 < len(few.blind) < 60
    assert np.mean(few.blind) == pytest.approx(np.mean(all_of_it.blind), abs=0.1)
    shares = [np.isin(one.rows, held_out).mean() for one in (few, all_of_it)]
    assert shares[0] == pytest.approx(shares[1], abs=0.1)
