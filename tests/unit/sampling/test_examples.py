"""Examples: hidden facts, negatives, targets; the same for any block size."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_cases import Row, examples, facts, named, rows, towns, whole
from gaifman.config import ExampleConfig
from gaifman.kb.knowledge_base import Fact, KnowledgeBase
from gaifman.logic.ast import format_relation
from gaifman.logic.parser import parse_query
from gaifman.queries.answers import answers
from gaifman.sampling.constraints import parse_constraints
from gaifman.sampling.examples import TrainingExamples, _answers_of_atom, _answers_of_formula
from gaifman.sampling.negatives import NegativeSampler
from kbs import knowledge_bases

# What is hidden


def test_the_fact_of_an_answer_is_hidden_from_it_and_its_negatives() -> None:
    kb = towns()
    for block in examples(kb, "born_in(x, y)", ExampleConfig(negatives=4, holdout=0)).blocks(0):
        for t, (x, y) in enumerate(rows(block.answers)):
            own = {f"born_in({kb.object_name(x)}, {kb.object_name(y)})."}
            assert named(kb, block.hidden, t) == own
            mine = np.flatnonzero(block.sources == t).tolist()
            assert len(mine) == 4
            assert all(named(kb, block.negatives_hidden, c) == own for c in mine)


def test_of_a_general_query_a_smallest_set_is_hidden_from_both() -> None:
    kb = KnowledgeBase.from_facts([("parent", "ann", c) for c in ("bob", "bea")] + [("parent", "bob", "cleo")])
    found = examples(kb, "exists z. parent(x, z) & parent(z, y)")
    (block,) = found.blocks(0)
    assert rows(block.answers) == [(kb.object_id("ann"), kb.object_id("cleo"))]
    assert named(kb, block.hidden, 0) <= {"parent(ann, bob).", "parent(bob, cleo)."}
    assert len(named(kb, block.hidden, 0)) == 1
    assert [named(kb, block.negatives_hidden, c) for c in range(4)] == [named(kb, block.hidden, 0)] * 4


def linked(kb: KnowledgeBase, *tuples: Row) -> set[int]:
    """The facts that have two different objects of one of the tuples, by their definition."""
    found, number = set(), 0
    for arity in sorted(kb.fact_tables):
        for row in kb.fact_tables[arity].objects.tolist():
            if any(len(set(row) & set(one)) >= 2 for one in tuples):
                found.add(number)
            number += 1
    return found


@settings(max_examples=60)
@given(knowledge_bases(attributes=False, facts=14), st.integers(0, 3))
def test_links_hide_every_fact_between_two_objects_of_the_tuple_or_its_answer(kb: KnowledgeBase, seed: int) -> None:
    for name, relation in kb.relations.items():
        if relation.count:
            query = f"{format_relation(name)}({', '.join('xyzu'[: relation.arity])})"
            config = ExampleConfig(hide="links", negatives=3, holdout=0, seed=seed)
            found = TrainingExamples(kb, parse_query(query), config)
            plain = TrainingExamples(kb, parse_query(query), ExampleConfig(negatives=3, holdout=0, seed=seed))
            for block, other in zip(found.blocks(0), plain.blocks(0), strict=True):
                assert rows(block.negatives) == rows(other.negatives)
                tuples = rows(block.answers)
                for t, row in enumerate(tuples):
                    assert facts(block.hidden, t) == sorted(linked(kb, row) | set(facts(other.hidden, t)))
                for c, source in enumerate(block.sources.tolist()):
                    both = linked(kb, tuples[source], rows(block.negatives)[c])
                    assert facts(block.negatives_hidden, c) == sorted(both | set(facts(other.hidden, source)))


def test_a_tuple_of_one_object_has_no_links() -> None:
    kb = towns().with_facts([("town", f"t{i}") for i in range(3)])
    for block in examples(kb, "town(x)", ExampleConfig(hide="links", negatives=5)).blocks(0):
        assert (np.diff(block.hidden.starts) == 1).all()
        assert (np.diff(block.negatives_hidden.starts) == 1).all()


# What is false


@pytest.mark.parametrize("near", [0, 0.5, 1])
@pytest.mark.parametrize("pool", ["uniform", "typed", "mixed"])
def test_known_answers_are_never_negatives(pool: str, near: float) -> None:
    kb = towns()
    found = examples(
        kb,
        "born_in(x, y)",
        ExampleConfig(negatives=30, negative_sampling=pool, hard_negative_fraction=near, block_size=7),
    )
    assert len(found.answers) == 40
    trained, held_out = rows(found.answers[found.training_rows]), found.held_out_block(negatives=30)
    for block in (*found.blocks(0), *found.blocks(1), held_out):
        assert set(trained).isdisjoint(rows(block.negatives))
        changed = block.answers[block.sources] != block.negatives
        assert (changed.sum(axis=1) == 1).all()
    assert set(rows(found.answers)).isdisjoint(rows(held_out.negatives))


@pytest.mark.parametrize("hide", ["facts", "links"])
@pytest.mark.parametrize("query", ["likes(x, y)", "exists z. likes(x, z) & likes(z, y)"])
def test_held_out_answers_are_drawn_as_negatives_in_training_as_missing_facts_are(query: str, hide: str) -> None:
    names = "abcdefgh"
    kb = KnowledgeBase.from_facts([("likes", x, y) for x, y in itertools.product(names, names) if (x, y) > (y, x)])
    found = examples(kb, query, ExampleConfig(negatives=20, holdout=0.3, hide=hide))
    held_out, drawn = set(rows(found.answers[found.held_out_rows])), set()
    own = dict(zip(rows(found.answers), range(len(found.answers)), strict=True))
    for epoch in range(3):
        for block in found.blocks(epoch):
            for c, (row, source) in enumerate(zip(rows(block.negatives), block.sources.tolist(), strict=True)):
                hidden = facts(block.negatives_hidden, c)
                assert len(set(hidden)) == len(hidden)
                assert set(hidden) >= set(facts(block.hidden, source))
                if row in held_out:  # what makes it true is hidden, as if it were missing
                    drawn.add(row)
                    assert set(hidden) >= set(facts(found._hidden, own[row]))
    assert drawn == held_out


def test_early_stopping_and_calibration_share_no_held_out_answer() -> None:
    found = examples(towns(100), "born_in(x, y)", ExampleConfig(holdout=0.25))
    stopping, measured = found.split_held_out()
    assert (len(stopping), len(measured)) == (12, 13)
    assert sorted([*stopping, *measured]) == found.held_out_rows.tolist()
    assert rows(found.held_out_block(rows=measured).answers) == rows(found.answers[measured])
    other = examples(towns(100), "born_in(x, y)", ExampleConfig(holdout=0.25, seed=1))
    assert other.split_held_out()[0].tolist() != stopping.tolist()


def test_what_is_only_known_is_never_a_negative_either() -> None:
    kb = KnowledgeBase.from_facts([("likes", "a", "b")], objects=["c", "d"])
    known = [row for row in itertools.product(range(4), repeat=2) if row not in ((0, 3), (0, 1))]
    found = examples(kb, "likes(x, y)", ExampleConfig(negatives=20), known=known)
    (block,) = found.blocks(0)
    assert set(rows(block.negatives)) == {(0, 3)}
    assert len(block.negatives) == 20


def test_a_saturated_relation_and_a_tiny_domain_have_no_negatives() -> None:
    full = KnowledgeBase.from_facts([("likes", one, other) for one in "abc" for other in "abc"])
    (block,) = examples(full, "likes(x, y)").blocks(0)
    assert (len(block.answers), block.negatives.shape, len(block.negatives_hidden.starts)) == (9, (0, 2), 1)
    (block,) = examples(KnowledgeBase.from_facts([("likes", "a", "a")]), "likes(x, y)").blocks(0)
    assert len(block) == 1


def test_pools_hold_all_objects_or_those_seen_at_the_position() -> None:
    kb = towns()
    people, places = set(range(40)), set(range(40, 45))
    found = examples(kb, "born_in(x, y)", ExampleConfig(negative_sampling="typed", negatives=60))
    (typed,) = found.blocks(0)
    assert set(typed.negatives[:, 0].tolist()) == people - set(found.answers[found.held_out_rows, 0].tolist())
    assert set(typed.negatives[:, 1].tolist()) == places
    (uniform,) = examples(kb, "born_in(x, y)", ExampleConfig(negative_sampling="uniform", negatives=60)).blocks(0)
    assert set(uniform.negatives[:, 1].tolist()) == people | places


def test_a_hard_negative_is_at_most_three_facts_from_what_stays() -> None:
    chain = KnowledgeBase.from_facts([("next", f"o{i:02d}", f"o{i + 1:02d}") for i in range(30)])
    apart = [
        np.abs(np.diff(block.negatives)).ravel()
        for near in (0, 1)
        for block in examples(
            chain, "next(x, y)", ExampleConfig(negatives=40, negative_sampling="uniform", hard_negative_fraction=near)
        ).blocks(0)
    ]
    far = [float((distance > 3).mean()) for distance in apart]
    assert far[0] > 0.7
    assert far[1] < far[0] - 0.2  # a walk that comes back, or ends beside what stays, leaves it to the pool


def test_constraints_of_the_relation_are_kept() -> None:
    kb = towns().with_facts([("hamlet", "t1"), ("hamlet", "p00")])
    rules = parse_constraints("functional: born_in 1→2\ntypes: born_in _, hamlet", kb)
    config = ExampleConfig(negative_sampling="typed", negatives=20)
    (block,) = examples(kb, "born_in(x, y)", config, constraints=rules).blocks(0)
    second = block.negatives[:, 1] != block.answers[block.sources, 1]
    assert set(block.negatives[second, 1].tolist()) <= {kb.object_id("t1"), kb.object_id("p00")}
    born = dict(kb.fact_tables[2].objects[kb.fact_tables[2].rows(0)].tolist())
    for x, y in rows(block.negatives[~second]):
        assert born[x] != y
    (turned,) = examples(kb, "q(y, x) :- born_in(x, y)", config, constraints=rules).blocks(0)
    first = turned.negatives[:, 0] != turned.answers[turned.sources, 0]
    assert set(turned.negatives[first, 0].tolist()) <= {kb.object_id("t1"), kb.object_id("p00")}


def test_no_negatives_are_allowed() -> None:
    (block,) = examples(towns(), "born_in(x, y)", ExampleConfig(negatives=0)).blocks(0)
    assert (len(block.answers), len(block.negatives), len(block.sources)) == (36, 0, 0)


# How sure


def test_the_target_of_a_fact_is_its_confidence() -> None:
    kb = KnowledgeBase.from_facts([Fact("likes", ("a", "b"), 0.25), ("likes", "b", "c"), ("near", "a", "c")])
    (block,) = examples(kb, "likes(x, y)").blocks(0)
    sure = {row: float(target) for row, target in zip(rows(block.answers), block.targets, strict=True)}
    assert sure == {(0, 1): 0.25, (1, 2): 1.0}
    assert block.targets.dtype == np.float32


def test_the_target_of_an_answer_is_its_surest_witness() -> None:
    kb = KnowledgeBase.from_facts(
        [Fact("r", ("a", "b"), 0.5), Fact("r", ("b", "d"), 0.5), Fact("r", ("a", "c"), 0.75), ("r", "c", "d")]
    )
    found = examples(kb, "exists z. r(x, z) & r(z, y)")
    assert found.targets.tolist() == [0.75]
    assert examples(kb, "r(x, y) & ~r(y, x)").targets.tolist() == [1.0] * 4
    assert examples(kb, "r(x, 'd')").targets.tolist() == [0.5, 1.0]
    assert examples(kb, "r(x, y) | x = y").targets.tolist() == [1.0, 0.5, 0.75, 1.0, 0.5, 1.0, 1.0, 1.0]


@settings(max_examples=30)
@given(knowledge_bases(attributes=False, smallest_arity=2, largest_arity=2, facts=10))
def test_targets_of_a_path_equal_the_definition(kb: KnowledgeBase) -> None:
    name = next(iter(kb.relations), "")
    query = parse_query(f"exists z. {format_relation(name)}(x, z) & {format_relation(name)}(z, y)") if name else None
    if query is None or not len(answers(kb, query)):
        return
    found = TrainingExamples(kb, query)
    sure = {(f.objects[0], f.objects[1]): f.confidence for f in kb.facts(name)}
    for (x, y), target in zip(rows(found.answers), found.targets.tolist(), strict=True):
        one, other = kb.object_name(x), kb.object_name(y)
        # A path along one fact twice is that fact: it is known or not, once.
        ways = [{(one, z), (z, other)} for z in kb.objects if (one, z) in sure and (z, other) in sure]
        assert target == pytest.approx(max(float(np.prod([sure[f] for f in way])) for way in ways))


# Where answers come from


@settings(max_examples=60)
@given(knowledge_bases(attributes=False, facts=12), st.permutations("xyzu"))
def test_facts_taken_directly_are_what_the_engine_gives(kb: KnowledgeBase, letters: list[str]) -> None:
    for name, relation in kb.relations.items():
        variables = sorted(letters[: relation.arity])
        text = f"q({', '.join(variables)}) :- {format_relation(name)}({', '.join(letters[: relation.arity])})"
        query = parse_query(text)
        direct, engine = _answers_of_atom(kb, query), _answers_of_formula(kb, query, 0)
        assert direct is not None
        assert rows(direct[0]) == rows(engine[0])
        assert direct[1].hidden.starts.tolist() == engine[1].hidden.starts.tolist()
        assert direct[1].hidden.facts.tolist() == engine[1].hidden.facts.tolist()
        assert direct[2].tolist() == engine[2].tolist()


@pytest.mark.parametrize(("query", "count"), [("near(x, x)", 1), ("near(x, 'b')", 2), ("near(x, y)", 3)])
def test_constants_and_repeated_variables_are_the_engines(query: str, count: int) -> None:
    kb = KnowledgeBase.from_facts([("near", "a", "b"), ("near", "b", "b"), ("near", "b", "c")])
    found = examples(kb, query, ExampleConfig(holdout=0, negatives=2))
    (block,) = found.blocks(0)
    assert len(block.answers) == count
    assert (np.diff(block.hidden.starts) == 1).all()
    assert len(block.negatives)


def test_the_order_of_the_facts_in_the_input_does_not_matter() -> None:
    kb = towns()
    again = KnowledgeBase.from_facts(reversed(list(kb.facts())))
    one, other = examples(kb, "born_in(x, y)"), examples(again, "born_in(x, y)")
    assert whole(one.blocks(3)) == whole(other.blocks(3))


# Blocks


@pytest.mark.parametrize(("hide", "near"), [("facts", 0), ("links", 0), ("facts", 0.5)])
def test_blocks_of_any_size_hold_the_same_in_the_same_order(hide: str, near: float) -> None:
    kb = towns()
    made = [
        whole(
            examples(
                kb,
                "born_in(x, y)",
                ExampleConfig(negatives=3, hide=hide, hard_negative_fraction=near, block_size=size, seed=5),
            ).blocks(2)
        )
        for size in (1, 7, 36, 1_000)
    ]
    assert len(made[0]) == 2 * 36
    assert all(other == made[0] for other in made)


def test_an_epoch_begun_in_the_middle_goes_on_as_it_would_have() -> None:
    found = examples(towns(), "born_in(x, y)", ExampleConfig(negatives=3, block_size=5))
    blocks = list(found.blocks(1))
    assert len(blocks) == len(found) == 8
    for first in range(10):
        assert whole(found.blocks(1, first)) == whole(blocks[first:])


def test_epochs_and_seeds_have_their_own_order_and_negatives() -> None:
    kb = towns()
    orders, corrupted = set(), set()
    for seed, epoch in itertools.product(range(3), range(3)):
        config = ExampleConfig(negatives=3, holdout=0, seed=seed)
        (block,) = examples(kb, "born_in(x, y)", config).blocks(epoch)
        orders.add(tuple(rows(block.answers)))
        corrupted.add(tuple(sorted(rows(block.negatives))))
    assert len(orders) == len(corrupted) == 9
    assert len({frozenset(order) for order in orders}) == 1


def test_blocks_are_made_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = NegativeSampler.sample

    def counted(self: NegativeSampler, chosen: object, count: int, key: np.uint64) -> object:
        asked.append(count)
        return plain(self, chosen, count, key)  # type: ignore[arg-type]

    found = examples(towns(), "born_in(x, y)", ExampleConfig(block_size=5))
    monkeypatch.setattr(NegativeSampler, "sample", counted)
    blocks = found.blocks(0)
    assert asked == []
    assert len(next(blocks).answers) == 5
    assert asked == [25]
    assert all(len(block.answers) <= 5 for block in blocks)
    assert len(asked) == 8


def test_an_epoch_takes_the_memory_of_one_block() -> None:
    kb = KnowledgeBase.from_facts([("r", f"o{i % 300}", f"o{i // 10}") for i in range(20_000)])
    found = examples(kb, "r(x, y)", ExampleConfig(negatives=50, block_size=100))
    one = next(found.blocks(0))
    size = (
        one.negatives.nbytes
        + one.sources.nbytes
        + one.negatives_hidden.starts.nbytes
        + one.negatives_hidden.facts.nbytes
    )
    del one
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    total = sum(len(block) for block in found.blocks(0))
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert total == found.count() - 4 * len(found.training_rows)  # a block has each answer once, an epoch w times
    order = 5 * found.training_rows.nbytes  # the keys and the order of all answers
    assert peak < 4 * size + order < len(found) * size / 4


def test_the_count_is_w_and_w_tilde_for_each_answer() -> None:
    found = examples(towns(), "born_in(x, y)", ExampleConfig(positives=3, negatives=7))
    assert found.count() == 36 * 10
    assert repr(found) == "<TrainingExamples: 36 answers to born_in(x, y) in 1 block, 4 held out>"


# What is held out


@pytest.mark.parametrize(
    ("total", "config", "held"),
    [
        (9, ExampleConfig(), 0),
        (10, ExampleConfig(), 1),
        (40, ExampleConfig(), 4),
        (40, ExampleConfig(holdout=0), 0),
        (40, ExampleConfig(holdout=0.5, max_held_out=7), 7),
        (40, ExampleConfig(max_held_out=0), 0),
        (12, ExampleConfig(holdout=0.999), 11),
    ],
)
def test_a_share_of_the_answers_is_held_out(total: int, config: ExampleConfig, held: int) -> None:
    found = examples(towns(total), "born_in(x, y)", config)
    assert (len(found.held_out_rows), len(found.training_rows)) == (held, total - held)
    assert sorted([*found.held_out_rows, *found.training_rows]) == list(range(total))
    block = found.held_out_block()
    assert len(block.answers) == len(block.negatives) == held
    assert rows(block.answers) == rows(found.answers[found.held_out_rows])
    trained = {row for block in found.blocks(0) for row in rows(block.answers)}
    assert trained.isdisjoint(rows(block.answers))


def test_the_hold_out_depends_on_the_seed_and_the_tuples() -> None:
    kb = towns()
    chosen = {
        tuple(examples(kb, "born_in(x, y)", ExampleConfig(seed=seed)).held_out_rows.tolist()) for seed in range(20)
    }
    assert len(chosen) > 15
    one, other = (
        examples(kb, "born_in(x, y)", ExampleConfig(block_size=size, negatives=n)) for size, n in ((3, 1), (50, 9))
    )
    assert one.held_out_rows.tolist() == other.held_out_rows.tolist()


def test_held_out_negatives_depend_on_their_number_and_the_epoch() -> None:
    found = examples(towns(), "born_in(x, y)")
    more, other = found.held_out_block(negatives=6), found.held_out_block(epoch=1, negatives=6)
    assert len(more.negatives) == 24
    assert rows(more.negatives[::6]) == rows(found.held_out_block().negatives)
    assert rows(other.negatives) != rows(more.negatives)
    assert len(found.held_out_block(negatives=0).negatives) == 0
    assert facts(more.negatives_hidden, 5) == facts(more.hidden, 0)
