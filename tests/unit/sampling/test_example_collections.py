"""Examples of several, random and real knowledge bases; invalid settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmark_data as data
from example_cases import examples, rows, towns, whole
from gaifman.config import ExampleConfig, SamplingConfig
from gaifman.errors import FormulaError, KnowledgeBaseError
from gaifman.io import read
from gaifman.kb.gaifman_graph import build_graph
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import format_relation
from gaifman.logic.parser import parse_query
from gaifman.sampling.constraints import parse_constraints
from gaifman.sampling.examples import ExampleCollection, TrainingExamples
from gaifman.sampling.neighbourhoods import draw_neighbourhoods
from kbs import knowledge_bases
from uncompiled import both

# Several knowledge bases


def three() -> list[TrainingExamples]:
    return [
        examples(towns(count), "born_in(x, y)", ExampleConfig(negatives=2, block_size=4, seed=3))
        for count in (40, 15, 8)
    ]


def test_a_collection_shuffles_the_blocks_of_all() -> None:
    parts = three()
    collection = ExampleCollection(parts)
    made = list(collection.blocks(0))
    assert len(made) == len(collection) == sum(map(len, parts)) == 9 + 4 + 2
    assert collection.count() == sum(part.count() for part in parts)
    owners = [owner for owner, _ in made]
    assert owners != sorted(owners)
    for number, part in enumerate(parts):
        own = [block for owner, block in made if owner == number]
        assert whole(own) == whole(part.blocks(0))
    assert [owner for owner, _ in collection.blocks(1)] != owners


def test_a_collection_begun_in_the_middle_goes_on_as_it_would_have() -> None:
    collection = ExampleCollection(three())
    made = list(collection.blocks(2))
    for first in range(len(made) + 2):
        later = list(collection.blocks(2, first))
        assert [owner for owner, _ in later] == [owner for owner, _ in made[first:]]
        assert whole(block for _, block in later) == whole(block for _, block in made[first:])


def test_a_collection_of_one_is_that_one() -> None:
    alone = three()[0]
    made = list(ExampleCollection([alone]).blocks(5, 2))
    assert {owner for owner, _ in made} == {0}
    assert whole(block for _, block in made) == whole(alone.blocks(5, 2))


def test_a_collection_has_one_query_and_one_seed() -> None:
    one = examples(towns(), "born_in(x, y)")
    with pytest.raises(KnowledgeBaseError, match="at least one knowledge base"):
        ExampleCollection([])
    with pytest.raises(KnowledgeBaseError, match="one query and one seed, got born_in"):
        ExampleCollection([one, examples(towns(), "near(x, y)")])
    with pytest.raises(KnowledgeBaseError, match=r"with seed 0 and .* with seed 1"):
        ExampleCollection([one, examples(towns(), "born_in(x, y)", ExampleConfig(negatives=4, seed=1))])


# Random knowledge bases


@settings(max_examples=80)
@given(
    knowledge_bases(attributes=False, facts=14, isolated=True),
    st.sampled_from(["uniform", "typed", "mixed"]),
    st.sampled_from(["facts", "links"]),
    st.integers(1, 5),
)
def test_the_laws_hold_for_every_relation(kb: KnowledgeBase, pool: str, hide: str, block: int) -> None:
    graph = build_graph(kb)
    for name, relation in kb.relations.items():
        query = parse_query(f"{format_relation(name)}({', '.join('xyzu'[: relation.arity])})")
        config = ExampleConfig(negative_sampling=pool, hide=hide, negatives=3, holdout=0.3, block_size=block)
        if not relation.count:
            with pytest.raises(KnowledgeBaseError, match="has no answers"):
                TrainingExamples(graph.kb, query, config)
            continue
        found = TrainingExamples(graph.kb, query, config)
        true, trained, seen = set(rows(found.answers)), set(rows(found.answers[found.training_rows])), []
        assert true.isdisjoint(rows(found.held_out_block().negatives))
        for one in found.blocks(1):
            assert len(one.answers) <= block
            assert trained.isdisjoint(rows(one.negatives))
            assert ((one.answers[one.sources] != one.negatives).sum(axis=1) == 1).all()
            assert (np.bincount(one.sources, minlength=1) <= 3).all()
            hidden, unseen = one.hidden.select(one.sources), one.negatives_hidden
            for c in range(len(one.sources)):
                least = hidden.facts[hidden.starts[c] : hidden.starts[c + 1]]
                assert set(least) <= set(unseen.facts[unseen.starts[c] : unseen.starts[c + 1]])
            draw_neighbourhoods(
                graph, one.negatives, SamplingConfig(size=3), one.negatives_hidden
            )  # what draws takes it as it is
            seen += rows(one.answers)
        assert len(seen) == len(set(seen))
        assert {*seen, *rows(found.held_out_block().answers)} == true


@pytest.mark.parametrize("width", [1, 2, 3])
def test_tuples_of_one_two_and_three_objects(width: int) -> None:
    tuples = list(itertools.islice(itertools.product("abcdef", repeat=width), 0, 6**width, 5))
    kb = KnowledgeBase.from_facts([("r", *row) for row in tuples], objects=list("abcdef"))
    found = examples(kb, f"r({', '.join('xyz'[:width])})", ExampleConfig(negatives=6, holdout=0))
    true = set(rows(found.answers))
    for block in found.blocks(0):
        assert len(block.negatives) == 6 * len(block.answers)
        assert true.isdisjoint(rows(block.negatives))
        places = (block.answers[block.sources] != block.negatives).argmax(axis=1)
        assert set(places.tolist()) == set(range(width))


def test_a_head_can_have_constraints() -> None:
    kb = KnowledgeBase.from_facts([("parent", f"a{i}", f"b{i % 3}") for i in range(6)])
    query = parse_query("sibling(x, y) :- parent(x, z), parent(y, z), x != y", kb)
    rules = parse_constraints("functional: sibling 1→2", kb, query=query)
    (block,) = TrainingExamples(kb, query, ExampleConfig(negatives=8), rules).blocks(0)
    first = block.negatives[:, 0] != block.answers[block.sources, 0]
    seen = {row[0] for row in rows(block.answers)}
    assert set(block.negatives[first, 0].tolist()) <= seen


# What is refused


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positives": 0}, "positives must be an integer of at least 1, got 0"),
        ({"negatives": -1}, "negatives must be an integer of at least 0"),
        ({"negatives": 2.5}, "negatives must be an integer"),
        ({"block_size": 0}, "block_size must be an integer of at least 1"),
        ({"block_size": True}, "block_size must be an integer"),
        ({"max_held_out": -1}, "max_held_out must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"seed": 2**64}, "seed must be an integer from 0 to"),
        ({"negative_sampling": "type"}, "negative_sampling must be one of uniform, typed, mixed, got 'type'"),
        ({"negative_sampling": 3}, "negative_sampling must be one of"),
        ({"hide": "link"}, "hide must be one of auto, facts, links, got 'link'"),
        ({"holdout": 1.0}, "holdout must be a number, at least 0 and below 1, got 1.0"),
        ({"holdout": -0.1}, "holdout must be a number"),
        ({"holdout": float("nan")}, "holdout must be a number"),
        ({"holdout": "much"}, "holdout must be a number"),
        ({"hard_negative_fraction": 1.5}, "hard_negative_fraction must be a number, at least 0 and at most 1, got 1.5"),
        ({"hard_negative_fraction": "much"}, "hard_negative_fraction must be a number"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(KnowledgeBaseError) as error:
        ExampleConfig(**wrong)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_choices_have_suggestions() -> None:
    with pytest.raises(KnowledgeBaseError) as error:
        ExampleConfig(hide="link")
    assert error.value.suggestions == ("links",)


def test_queries_without_answers_or_variables_are_refused() -> None:
    kb = towns()
    with pytest.raises(KnowledgeBaseError, match="has no answers to train on"):
        examples(kb, "born_in(x, y) & born_in(y, x)")
    with pytest.raises(KnowledgeBaseError, match="has no answers"):
        examples(kb.without_facts(kb.facts("near")), "near(x, y)")
    with pytest.raises(KnowledgeBaseError, match="has no free variables"):
        examples(kb, "exists x, y. born_in(x, y)")
    with pytest.raises(FormulaError, match="no relation born_im"):
        TrainingExamples(kb, parse_query("born_im(x, y)"))
    with pytest.raises(FormulaError, match="born_in has 2 "):
        TrainingExamples(kb, parse_query("born_in(x)"))


def test_known_tuples_of_another_shape_are_refused() -> None:
    with pytest.raises(KnowledgeBaseError, match="known tuples must have 2 objects, got 3"):
        examples(towns(), "born_in(x, y)", known=[[0, 1, 2]])
    with pytest.raises(KnowledgeBaseError, match="objects are numbered from 0"):
        examples(towns(), "born_in(x, y)", known=[[0, 1_000]])


def test_epochs_and_blocks_are_counted_from_0() -> None:
    found = examples(towns(), "born_in(x, y)")
    for call in (lambda: found.blocks(-1), lambda: found.blocks(0, -1), lambda: found.held_out_block(-1)):
        with pytest.raises(KnowledgeBaseError, match="must be an integer of at least 0, got -1"):
            call()
    with pytest.raises(KnowledgeBaseError, match="negatives must be an integer"):
        found.held_out_block(0, -2)
    with pytest.raises(KnowledgeBaseError, match="epoch must be an integer"):
        ExampleCollection([found]).blocks(-1)


# Without the compiler

SCRIPT = """
import json, warnings
warnings.simplefilter("ignore")  # 64-bit overflow is intended
from gaifman.sampling.examples import ExampleConfig
from gaifman.kb.knowledge_base import KnowledgeBase
from example_cases import examples, whole
facts = [("r", f"o{i * i % 17}", f"o{i * 5 % 13}", f"o{i % 7}") for i in range(30)]
facts += [("q", f"o{i * 3 % 17}", f"o{i % 13}") for i in range(30)]
kb = KnowledgeBase.from_facts(facts)
config = ExampleConfig(negatives=3, hide="links", block_size=8)
print(json.dumps([whole(examples(kb, query, config).blocks(0)) for query in ("r(x, y, z)", "q(x, y)")]))
"""


def test_examples_are_the_same_uncompiled() -> None:
    compiled, plain = both(SCRIPT)
    assert compiled == plain


# Real data


class TestData:
    pytestmark = data.NEEDED

    def test_no_known_fact_of_fb15k_is_a_negative(self) -> None:
        kb = read(data.DATA / "FB15k" / "train.txt.gz")
        graph, table = build_graph(kb), kb.fact_tables[2]
        known = table.relation.astype(np.int64) << 40 | table.objects[:, 0].astype(np.int64) << 20 | table.objects[:, 1]
        counts = np.diff(table.starts)
        for number in [*np.argsort(-counts)[:8].tolist(), *np.argsort(counts)[:40].tolist()]:
            name = kb.content.relations[number]
            found = TrainingExamples(graph.kb, parse_query(f"{format_relation(name)}(x, y)"))
            made = 0
            for block in found.blocks(0):
                tuples = block.negatives.astype(np.int64)
                packed = np.int64(number) << 40 | tuples[:, 0] << 20 | tuples[:, 1]
                assert not np.isin(packed, known).any()
                made += len(tuples) + 5 * len(block.answers)
            assert made == found.count()
