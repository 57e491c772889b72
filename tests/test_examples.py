"""Examples: what is hidden, what is false, how sure; the same for any block size, and for several knowledge bases."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaifman.constraints import parse_constraints
from gaifman.corruptions import Corruptor
from gaifman.examples import Block, Examples, Recipe, _of_atom, _of_formula
from gaifman.facts import Fact
from gaifman.graph import graph_of
from gaifman.kb import KnowledgeBase
from gaifman.neighbourhoods import Hidden
from gaifman.parser import parse_query
from gaifman.printing import relation_text
from gaifman.queries import answers
from gaifman.tables import Ints
from gaifman.witnesses import fact_of
from kbs import knowledge_bases

Row = tuple[int, ...]


def examples(kb: KnowledgeBase, query: str, recipe: Recipe | None = None, **more: object) -> Examples:
    return Examples(graph_of(kb), parse_query(query, kb), recipe or Recipe(negatives=4), **more)  # type: ignore[arg-type]


def rows(tuples: Ints) -> list[Row]:
    return [tuple(row) for row in tuples.tolist()]


def facts(hidden: Hidden, t: int) -> list[int]:
    return list(hidden.facts[hidden.starts[t] : hidden.starts[t + 1]].tolist())


def named(kb: KnowledgeBase, hidden: Hidden, t: int) -> set[str]:
    return {str(fact_of(kb, number)) for number in facts(hidden, t)}


def whole(blocks: Iterable[Block]) -> list[object]:
    """What blocks hold, one answer after another, however it was cut."""
    found: list[object] = []
    for block in blocks:
        for t, row in enumerate(rows(block.answers)):
            corrupted = np.flatnonzero(block.sources == t)
            found.append((row, float(block.targets[t]), facts(block.hidden, t)))
            found.append([(tuple(block.corrupted[c].tolist()), facts(block.unseen, int(c))) for c in corrupted])
    return found


def towns(count: int = 40) -> KnowledgeBase:
    known = [("born_in", f"p{i:02d}", f"t{i % 5}") for i in range(count)]
    return KnowledgeBase.from_facts(known + [("near", f"t{i}", f"t{(i + 1) % 5}") for i in range(5)])


# What is hidden


def test_an_answers_fact_is_hidden_from_it_and_from_all_its_corruptions() -> None:
    kb = towns()
    for block in examples(kb, "born_in(x, y)").blocks(0):
        for t, (x, y) in enumerate(rows(block.answers)):
            own = {f"born_in({kb.name(x)}, {kb.name(y)})."}
            assert named(kb, block.hidden, t) == own
            mine = np.flatnonzero(block.sources == t).tolist()
            assert len(mine) == 4
            assert all(named(kb, block.unseen, c) == own for c in mine)


def test_of_a_general_query_a_smallest_set_is_hidden_from_both() -> None:
    kb = KnowledgeBase.from_facts([("parent", "ann", c) for c in ("bob", "bea")] + [("parent", "bob", "cleo")])
    found = examples(kb, "exists z. parent(x, z) & parent(z, y)")
    (block,) = found.blocks(0)
    assert rows(block.answers) == [(kb.id("ann"), kb.id("cleo"))]
    assert named(kb, block.hidden, 0) <= {"parent(ann, bob).", "parent(bob, cleo)."}
    assert len(named(kb, block.hidden, 0)) == 1
    assert [named(kb, block.unseen, c) for c in range(4)] == [named(kb, block.hidden, 0)] * 4


def linked(kb: KnowledgeBase, *tuples: Row) -> set[int]:
    """The facts that have two different objects of one of the tuples, by their definition."""
    found, number = set(), 0
    for arity in sorted(kb.tables):
        for row in kb.tables[arity].objects.tolist():
            if any(len(set(row) & set(one)) >= 2 for one in tuples):
                found.add(number)
            number += 1
    return found


@settings(deadline=None, max_examples=60)
@given(knowledge_bases(attributes=False, facts=14), st.integers(0, 3))
def test_links_hide_every_fact_between_two_objects_of_the_tuple_or_its_answer(kb: KnowledgeBase, seed: int) -> None:
    for name, relation in kb.relations.items():
        if relation.count:
            query = f"{relation_text(name)}({', '.join('xyzu'[: relation.arity])})"
            recipe = Recipe(hide="links", negatives=3, holdout=0, seed=seed)
            found = Examples(graph_of(kb), parse_query(query), recipe)
            plain = Examples(graph_of(kb), parse_query(query), Recipe(negatives=3, holdout=0, seed=seed))
            for block, other in zip(found.blocks(0), plain.blocks(0), strict=True):
                assert rows(block.corrupted) == rows(other.corrupted)
                tuples = rows(block.answers)
                for t, row in enumerate(tuples):
                    assert facts(block.hidden, t) == sorted(linked(kb, row) | set(facts(other.hidden, t)))
                for c, source in enumerate(block.sources.tolist()):
                    both = linked(kb, tuples[source], rows(block.corrupted)[c])
                    assert facts(block.unseen, c) == sorted(both | set(facts(other.hidden, source)))


def test_a_tuple_of_one_object_has_no_links() -> None:
    kb = towns().with_facts([("town", f"t{i}") for i in range(3)])
    for block in examples(kb, "town(x)", Recipe(hide="links", negatives=5)).blocks(0):
        assert (np.diff(block.hidden.starts) == 1).all()
        assert (np.diff(block.unseen.starts) == 1).all()


# What is false


@pytest.mark.parametrize("near", [0, 0.5, 1])
@pytest.mark.parametrize("pool", ["uniform", "typed", "mixed"])
def test_known_answers_are_never_negatives(pool: str, near: float) -> None:
    kb = towns()
    found = examples(kb, "born_in(x, y)", Recipe(negatives=30, pool=pool, near=near, block=7))
    true = set(rows(found.answers))
    assert len(true) == 40
    for block in (*found.blocks(0), *found.blocks(1), found.held_out(negatives=30)):
        assert true.isdisjoint(rows(block.corrupted))
        changed = block.answers[block.sources] != block.corrupted
        assert (changed.sum(axis=1) == 1).all()


def test_what_is_only_known_is_never_a_negative_either() -> None:
    kb = KnowledgeBase.from_facts([("likes", "a", "b")], objects=["c", "d"])
    known = [row for row in itertools.product(range(4), repeat=2) if row not in ((0, 3), (0, 1))]
    found = examples(kb, "likes(x, y)", Recipe(negatives=20), known=known)
    (block,) = found.blocks(0)
    assert set(rows(block.corrupted)) == {(0, 3)}
    assert len(block.corrupted) == 20


def test_a_saturated_relation_and_a_tiny_domain_have_no_negatives() -> None:
    full = KnowledgeBase.from_facts([("likes", one, other) for one in "abc" for other in "abc"])
    (block,) = examples(full, "likes(x, y)").blocks(0)
    assert (len(block.answers), block.corrupted.shape, len(block.unseen.starts)) == (9, (0, 2), 1)
    (block,) = examples(KnowledgeBase.from_facts([("likes", "a", "a")]), "likes(x, y)").blocks(0)
    assert len(block) == 1


def test_pools_hold_all_objects_or_those_seen_at_the_position() -> None:
    kb = towns()
    people, places = set(range(40)), set(range(40, 45))
    (typed,) = examples(kb, "born_in(x, y)", Recipe(pool="typed", negatives=60)).blocks(0)
    assert set(typed.corrupted[:, 0].tolist()) == people
    assert set(typed.corrupted[:, 1].tolist()) == places
    (uniform,) = examples(kb, "born_in(x, y)", Recipe(pool="uniform", negatives=60)).blocks(0)
    assert set(uniform.corrupted[:, 1].tolist()) == people | places


def test_what_is_near_is_joined_to_what_stays_by_three_facts_at_most() -> None:
    chain = KnowledgeBase.from_facts([("next", f"o{i:02d}", f"o{i + 1:02d}") for i in range(30)])
    apart = [
        np.abs(np.diff(block.corrupted)).ravel()
        for near in (0, 1)
        for block in examples(chain, "next(x, y)", Recipe(negatives=40, pool="uniform", near=near)).blocks(0)
    ]
    far = [float((distance > 3).mean()) for distance in apart]
    assert far[0] > 0.7
    assert far[1] < far[0] - 0.2  # a stroll that comes back, or ends beside what stays, leaves it to the pool


def test_constraints_of_the_relation_are_kept() -> None:
    kb = towns().with_facts([("hamlet", "t1"), ("hamlet", "p00")])
    rules = parse_constraints("functional: born_in 1→2\ntypes: born_in _, hamlet", kb)
    recipe = Recipe(pool="typed", negatives=20)
    (block,) = examples(kb, "born_in(x, y)", recipe, constraints=rules).blocks(0)
    second = block.corrupted[:, 1] != block.answers[block.sources, 1]
    assert set(block.corrupted[second, 1].tolist()) <= {kb.id("t1"), kb.id("p00")}
    born = dict(kb.tables[2].objects[kb.tables[2].rows(0)].tolist())
    for x, y in rows(block.corrupted[~second]):
        assert born[x] != y
    (turned,) = examples(kb, "q(y, x) :- born_in(x, y)", recipe, constraints=rules).blocks(0)
    first = turned.corrupted[:, 0] != turned.answers[turned.sources, 0]
    assert set(turned.corrupted[first, 0].tolist()) <= {kb.id("t1"), kb.id("p00")}


def test_no_negatives_are_allowed() -> None:
    (block,) = examples(towns(), "born_in(x, y)", Recipe(negatives=0)).blocks(0)
    assert (len(block.answers), len(block.corrupted), len(block.sources)) == (36, 0, 0)


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


@settings(deadline=None, max_examples=30)
@given(knowledge_bases(attributes=False, smallest_arity=2, largest_arity=2, facts=10))
def test_targets_of_a_path_equal_the_definition(kb: KnowledgeBase) -> None:
    name = next(iter(kb.relations), "")
    query = parse_query(f"exists z. {relation_text(name)}(x, z) & {relation_text(name)}(z, y)") if name else None
    if query is None or not len(answers(kb, query)):
        return
    found = Examples(graph_of(kb), query)
    sure = {(f.objects[0], f.objects[1]): f.confidence for f in kb.facts(name)}
    for (x, y), target in zip(rows(found.answers), found.targets.tolist(), strict=True):
        one, other = kb.name(x), kb.name(y)
        # A path along one fact twice is that fact: it is known or not, once.
        ways = [{(one, z), (z, other)} for z in kb.objects if (one, z) in sure and (z, other) in sure]
        assert target == pytest.approx(max(float(np.prod([sure[f] for f in way])) for way in ways))


# Where answers come from


@settings(deadline=None, max_examples=60)
@given(knowledge_bases(attributes=False, facts=12), st.permutations("xyzu"))
def test_facts_taken_directly_are_what_the_engine_gives(kb: KnowledgeBase, letters: list[str]) -> None:
    graph = graph_of(kb)
    for name, relation in kb.relations.items():
        variables = sorted(letters[: relation.arity])
        text = f"q({', '.join(variables)}) :- {relation_text(name)}({', '.join(letters[: relation.arity])})"
        query = parse_query(text)
        direct, engine = _of_atom(graph, query), _of_formula(graph, query, 0)
        assert direct is not None
        assert rows(direct[0]) == rows(engine[0])
        assert direct[1].starts.tolist() == engine[1].starts.tolist()
        assert direct[1].facts.tolist() == engine[1].facts.tolist()
        assert direct[2].tolist() == engine[2].tolist()


@pytest.mark.parametrize(("query", "count"), [("near(x, x)", 1), ("near(x, 'b')", 2), ("near(x, y)", 3)])
def test_constants_and_repeated_variables_are_the_engines(query: str, count: int) -> None:
    kb = KnowledgeBase.from_facts([("near", "a", "b"), ("near", "b", "b"), ("near", "b", "c")])
    found = examples(kb, query, Recipe(holdout=0, negatives=2))
    (block,) = found.blocks(0)
    assert len(block.answers) == count
    assert (np.diff(block.hidden.starts) == 1).all()
    assert len(block.corrupted)


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
        whole(examples(kb, "born_in(x, y)", Recipe(negatives=3, hide=hide, near=near, block=size, seed=5)).blocks(2))
        for size in (1, 7, 36, 1_000)
    ]
    assert len(made[0]) == 2 * 36
    assert all(other == made[0] for other in made)


def test_an_epoch_begun_in_the_middle_goes_on_as_it_would_have() -> None:
    found = examples(towns(), "born_in(x, y)", Recipe(negatives=3, block=5))
    blocks = list(found.blocks(1))
    assert len(blocks) == len(found) == 8
    for first in range(10):
        assert whole(found.blocks(1, first)) == whole(blocks[first:])


def test_epochs_and_seeds_have_their_own_order_and_corruptions() -> None:
    kb = towns()
    orders, corrupted = set(), set()
    for seed, epoch in itertools.product(range(3), range(3)):
        recipe = Recipe(negatives=3, holdout=0, seed=seed)
        (block,) = examples(kb, "born_in(x, y)", recipe).blocks(epoch)
        orders.add(tuple(rows(block.answers)))
        corrupted.add(tuple(sorted(rows(block.corrupted))))
    assert len(orders) == len(corrupted) == 9
    assert len({frozenset(order) for order in orders}) == 1


def test_a_block_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = Corruptor.corrupted

    def counted(self: Corruptor, chosen: object, count: int, key: np.uint64) -> object:
        asked.append(count)
        return plain(self, chosen, count, key)  # type: ignore[arg-type]

    monkeypatch.setattr(Corruptor, "corrupted", counted)
    found = examples(towns(), "born_in(x, y)", Recipe(block=5))
    blocks = found.blocks(0)
    assert asked == []
    assert len(next(blocks).answers) == 5
    assert asked == [25]
    assert all(len(block.answers) <= 5 for block in blocks)
    assert len(asked) == 8


def test_an_epoch_takes_the_memory_of_one_block() -> None:
    kb = KnowledgeBase.from_facts([("r", f"o{i % 300}", f"o{i // 10}") for i in range(20_000)])
    found = examples(kb, "r(x, y)", Recipe(negatives=50, block=100))
    one = next(found.blocks(0))
    size = one.corrupted.nbytes + one.sources.nbytes + one.unseen.starts.nbytes + one.unseen.facts.nbytes
    del one
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    total = sum(len(block) for block in found.blocks(0))
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert total == found.count() - 4 * len(found.training)  # a block has each answer once, an epoch w times
    order = 5 * found.training.nbytes  # the keys and the order of all answers
    assert peak < 4 * size + order < len(found) * size / 4


def test_the_count_is_w_and_w_tilde_for_each_answer() -> None:
    found = examples(towns(), "born_in(x, y)", Recipe(positives=3, negatives=7))
    assert found.count() == 36 * 10
    assert repr(found) == "<Examples: 36 answers to born_in(x, y) in 1 block, 4 held out>"


# What is held out


@pytest.mark.parametrize(
    ("total", "recipe", "held"),
    [
        (9, Recipe(), 0),
        (10, Recipe(), 1),
        (40, Recipe(), 4),
        (40, Recipe(holdout=0), 0),
        (40, Recipe(holdout=0.5, most_held=7), 7),
        (40, Recipe(most_held=0), 0),
        (12, Recipe(holdout=0.999), 11),
    ],
)
def test_a_share_of_the_answers_is_held_out(total: int, recipe: Recipe, held: int) -> None:
    found = examples(towns(total), "born_in(x, y)", recipe)
    assert (len(found.held), len(found.training)) == (held, total - held)
    assert sorted([*found.held, *found.training]) == list(range(total))
    block = found.held_out()
    assert len(block.answers) == len(block.corrupted) == held
    assert rows(block.answers) == rows(found.answers[found.held])
    learnt = {row for block in found.blocks(0) for row in rows(block.answers)}
    assert learnt.isdisjoint(rows(block.answers))


def test_what_is_held_out_hangs_on_the_seed_and_the_tuples() -> None:
    kb = towns()
    chosen = {tuple(examples(kb, "born_in(x, y)", Recipe(seed=seed)).held.tolist()) for seed in range(20)}
    assert len(chosen) > 15
    one, other = (examples(kb, "born_in(x, y)", Recipe(block=size, negatives=n)) for size, n in ((3, 1), (50, 9)))
    assert one.held.tolist() == other.held.tolist()


def test_held_out_corruptions_are_more_when_asked_and_others_in_another_epoch() -> None:
    found = examples(towns(), "born_in(x, y)")
    more, other = found.held_out(negatives=6), found.held_out(epoch=1, negatives=6)
    assert len(more.corrupted) == 24
    assert rows(more.corrupted[::6]) == rows(found.held_out().corrupted)
    assert rows(other.corrupted) != rows(more.corrupted)
    assert len(found.held_out(negatives=0).corrupted) == 0
    assert facts(more.unseen, 5) == facts(more.hidden, 0)
