"""Twins: one object is replaced, the rest of the query holds, and the whole does not."""

from __future__ import annotations

import random

import numpy as np

import long_queries as queries_long
from gaifman.config import Budget, ExampleConfig
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import all_free_variables
from gaifman.logic.parser import parse_query
from gaifman.logic.semantics import holds
from gaifman.queries.answers import answers
from gaifman.sampling.examples import TrainingExamples
from gaifman.sampling.hiding import hide
from gaifman.sampling.negatives import NegativeSampler
from gaifman.sampling.rng import make_key
from gaifman.sampling.twins import TwinSampler, find_slots
from generators import over_seeds


@over_seeds(150)
def test_twins_fulfil_the_rest_of_the_query_and_are_no_answers(seed: int) -> None:
    rng = random.Random(seed + 11_000)
    kb, query = queries_long.knowledge(rng), queries_long.question(rng)
    found = answers(kb, query, budget=Budget(combinations=10**9)).tuples
    if not query.variables or not len(found):
        return
    hidden, graph, structure = hide(kb, query, found, seed=seed), build_graph(kb), kb.structure()
    sampler, twins = NegativeSampler(kb, found), TwinSampler(graph, query, found, hidden)
    rows = np.arange(len(found))
    made = twins.sample(rows, 2, make_key(seed, "test"), sampler, found)
    assert (np.diff(made.sources) >= 0).all()
    assert np.bincount(made.sources, minlength=1).max() <= 2
    slots = find_slots(kb, query)
    for twin, source in list(zip(made.tuples, made.sources, strict=True))[:10]:
        assert (twin != found[source]).sum() == 1
        names = {v: kb.object_name(obj) for v, obj in zip(query.variables, twin.tolist(), strict=True)}
        assert not holds(structure, query.formula, names)
        (replaced,) = np.flatnonzero(twin != found[source]).tolist()
        fitting = [slot for slot in slots if replaced in slot.positions]
        assert any(
            query.variables[replaced] not in all_free_variables(slot.relaxed) or holds(structure, slot.relaxed, names)
            for slot in fitting
        )


def test_twins_of_some_answers_do_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(0)
    facts = sorted({("r", f"o{a}", f"o{b}") for a, b in rng.integers(0, 40, (200, 2))})
    kb = KnowledgeBase.from_facts([*facts, *(("p", f"o{n}") for n in range(0, 40, 2))])
    query = parse_query("r(x, y) & p(x)", kb)
    found = answers(kb, query).tuples
    twins = TwinSampler(build_graph(kb), query, found, hide(kb, query, found))
    sampler, key = NegativeSampler(kb, found), make_key(0, "test")
    rows = np.arange(len(found))
    all_of_them, last = twins.sample(rows, 2, key, sampler, found), twins.sample(rows[-5:], 2, key, sampler, found)
    expected = all_of_them.tuples[all_of_them.sources >= len(rows) - 5]
    assert last.tuples.tolist() == expected.tolist()


def test_the_number_that_is_hidden_from_an_answer_is_hidden_from_its_negatives() -> None:
    """Otherwise a missing age would mean that the tuple is an answer."""
    names = [f"o{n}" for n in range(40)]
    kb = KnowledgeBase.from_facts([("person", o) for o in names], {("age", o): float(n) for n, o in enumerate(names)})
    examples = TrainingExamples(kb, parse_query("person(x) & age(x) >= 20", kb), ExampleConfig(holdout=0))
    for block in examples.blocks(0):
        for negative, source in enumerate(block.sources.tolist()):
            (number,) = block.hidden.of(source).tolist()
            own = block.negatives_hidden.of(negative).tolist()
            moved = number - int(block.answers[source, 0]) + int(block.negatives[negative, 0])
            assert own == sorted({number, moved})


def test_no_answer_with_the_hidden_fact_of_a_held_out_one_is_trained_on() -> None:
    """From the others a model would know that the fact is true: on random facts the AUC was 0.7."""
    facts = [("p", f"a{n}") for n in range(20)] + [("r", f"a{n}", f"b{m}") for n in range(20) for m in range(8)]
    kb = KnowledgeBase.from_facts(facts, objects=[f"c{n}" for n in range(9)])
    query = parse_query("p(x) & exists z. r(x, z) & r(x, y)", kb)
    examples = TrainingExamples(kb, query, ExampleConfig(holdout=0.3))
    hidden = hide(kb, query, examples.answers).first()
    assert len(examples.held_out_rows) == round(0.3 * len(examples.answers))
    assert len(examples.training_rows) >= len(examples.answers) / 2
    assert not set(hidden[examples.held_out_rows].tolist()) & set(hidden[examples.training_rows].tolist())
