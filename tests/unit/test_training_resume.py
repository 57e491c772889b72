"""Learning again gives the same bits: on more threads, after every interruption, from several knowledge bases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gaifman.errors import KnowledgeBaseError
from gaifman.features import evaluator as evaluation
from gaifman.io.model_file import canonical_json
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.models import SklearnModel
from gaifman.models.base import BaseModel
from gaifman.models.mlp import MLP, Logistic
from gaifman.sampling import neighbourhoods as drawing
from gaifman.training import Scorer, Trainer, TrainingConfig
from training_cases import SMALL, Notes, Recorder, Saved, Scripted, Stopped, people, source, trainer


def bits(scorer: Scorer) -> bytes:
    """All parameters."""
    inputs = scorer.scaler
    arrays = [inputs.columns, inputs.kinds, inputs.centres, inputs.scales]
    state = scorer.base.state()
    told = repr([None if np.isnan(loss) else loss for loss in scorer.losses]).encode()
    return b"".join([told, *(array.tobytes() for array in (*arrays, *(state[name] for name in sorted(state))))])


# Threads


@pytest.mark.parametrize("size", [6, None])
def test_the_same_bits_for_one_thread_and_two(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(**{**SMALL.as_dict(), "size": size, "patience": 2})
    one = trainer(source(people(), config, phi="default"), config)
    expected = one.train()
    held = one.held_out(expected)
    # Blocks so small that two threads have enough to do: what one block has must not hang on the others.
    monkeypatch.setattr(drawing, "MEMBERS_PER_BLOCK", 64)
    monkeypatch.setattr(evaluation, "ROWS_PER_BLOCK", 5)
    for threads in (1, 2, 3):
        other = trainer(source(people(), config, phi="default"), config, threads=threads)
        found = other.train()
        assert bits(found) == bits(expected)
        judged = other.held_out(found)
        assert judged.means.tobytes() == held.means.tobytes()
        assert judged.targets.tobytes() == held.targets.tobytes()


def test_the_seed_changes_the_model_and_training_twice_does_not() -> None:
    one = trainer(source(people(), SMALL))
    first = bits(one.train())
    assert bits(one.train()) == first
    other = TrainingConfig(**{**SMALL.as_dict(), "seed": 1})
    assert bits(trainer(source(people(), other), other).train()) != first


def test_the_order_of_the_facts_does_not_matter() -> None:
    kb = people()
    told = KnowledgeBase.from_facts(list(kb.facts())[::-1], objects=kb.objects)
    again = trainer(source(told, SMALL)).train()
    assert bits(again) == bits(trainer(source(kb, SMALL)).train())


# Interruptions


def network() -> BaseModel:
    return MLP([6], epochs=3, batch_size=16)


def hasty() -> BaseModel:
    """One that soon gets worse on what is held out."""
    return MLP([12], "relu", learning_rate=0.5, epochs=9, batch_size=8, dropout=0)


def gathering() -> BaseModel:
    return SklearnModel(LogisticRegression())


def scripted() -> BaseModel:
    return Scripted([0.2, 0.4, 0.5, 0.39, 0.6, 0.6])


MAKERS: list[tuple[Callable[[], BaseModel], int]] = [
    (network, 0),
    (network, 1),
    (lambda: Logistic(epochs=2), 0),
    (hasty, 1),
    (hasty, 2),
    (gathering, 0),
    (gathering, 2),
    (scripted, 2),
]


def made(make: Callable[[], BaseModel], config: TrainingConfig) -> Trainer:
    return trainer(source(people(48), config, block=12), config, make())


@pytest.mark.parametrize("make", MAKERS, ids=lambda pair: f"{pair[0].__name__}, patience {pair[1]}")
def test_interrupted_at_any_block_and_resumed_the_bits_are_the_same(make: tuple[Callable[[], BaseModel], int]) -> None:
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": make[1]})
    notes = Notes()
    expected = bits(made(make[0], config).train(notes))
    assert len(notes.blocks) >= 4
    for stop in range(1, len(notes.blocks) + 1):
        saved = interrupted(make[0], config, stop, None)
        later = Notes(start=saved)
        assert bits(made(make[0], config).train(later)) == expected, f"stopped after block {stop}"
        assert later.blocks == notes.blocks[stop:]
        assert later.begun == [(notes.begun[0][0], sum(notes.blocks[:stop]))]
        told = notes.epochs[-len(later.epochs) :]
        assert [repr(one) for one in later.epochs] == [repr(one) for one in told]


def interrupted(make: Callable[[], BaseModel], config: TrainingConfig, stop: int, start: Saved | None) -> Saved:
    notes = Notes(stop_after=stop, start=start)
    with pytest.raises(Stopped):
        made(make, config).train(notes)
    assert notes.kept is not None
    return notes.kept


def test_interrupted_again_and_again_after_every_block() -> None:
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 2})
    notes = Notes()
    expected = bits(made(hasty, config).train(notes))
    saved: Saved | None = None
    for _ in notes.blocks:
        saved = interrupted(hasty, config, 1, saved)
    assert bits(made(hasty, config).train(Notes(start=saved))) == expected


def test_patience_was_put_to_the_test_above() -> None:
    """The hasty one does stop early, and does not end with its last state."""
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 2})
    notes = Notes()
    made(hasty, config).train(notes)
    held = [float(loss) for _, _, loss in notes.epochs if loss is not None]
    assert 2 < len(held) < 9
    assert np.argmin(held) == len(held) - 3


def test_a_saved_state_can_be_kept_in_a_file_and_does_not_change_while_learning_goes_on() -> None:
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 2})
    for make in (hasty, gathering):
        kept: list[tuple[Saved, str]] = []

        class Keeping(Notes):
            def on_block(self, examples: int, state: Callable[[], Saved], kept: list[tuple[Saved, str]] = kept) -> None:
                found = state()
                kept.append((found, shown(found)))

        made(make, config).train(Keeping())
        assert len(kept) >= 4
        assert all(shown(found) == text for found, text in kept)
        assert len({text for _, text in kept}) == len(kept)


def shown(saved: Saved) -> str:
    """As a model file would hold it: `canonical_json` refuses what JSON cannot say."""
    return canonical_json({"meta": saved[1], "arrays": {name: array.tolist() for name, array in saved[0].items()}})


def test_a_loss_that_is_not_known_is_nan_also_after_an_interruption() -> None:
    saved = interrupted(gathering, SMALL, 2, None)
    assert saved[1]["sums"] == [None, None]
    (loss,) = made(gathering, SMALL).train(Notes(start=saved)).losses
    assert np.isnan(loss)


def test_a_model_that_is_fitted_at_the_end_of_its_epoch() -> None:
    """It was asked before, and had nothing to say."""
    config = TrainingConfig(**{**SMALL.as_dict(), "patience": 1})
    notes = Notes()
    made(gathering, config).train(notes)
    ((_, _, held),) = notes.epochs
    assert held is not None
    assert 0 < held < 0.7


# Several knowledge bases


def test_training_on_several_knowledge_bases() -> None:
    given = [source(people(40, prefix=prefix), SMALL, features=Recorder) for prefix in ("a", "b")]
    one = trainer(given)
    notes = Notes()
    scorer = one.train(notes)
    assert one.examples_per_epoch == 2 * 36 * 5
    assert sum(notes.blocks) == 3 * one.examples_per_epoch
    for each in given:
        assert isinstance(each.evaluator, Recorder)
        taught = {tuple(row) for seen in each.evaluator.seen for row in seen.tuples.tolist()}
        training = {tuple(row) for row in each.examples.answers[each.examples.training_rows].tolist()}
        assert training <= taught
    held = one.held_out(scorer)
    assert held.targets.tolist() == ([1.0] * 4 + [0.0] * 4) * 2
    alone = trainer(given[0]).train()
    assert bits(alone) != bits(scorer)
    assert bits(trainer(given).train()) == bits(scorer)


def test_several_knowledge_bases_interrupted_at_any_block() -> None:
    def both() -> Trainer:
        return trainer([source(people(n, prefix=prefix), SMALL, block=12) for n, prefix in ((20, "a"), (40, "b"))])

    notes = Notes()
    expected = bits(both().train(notes))
    for stop in range(1, len(notes.blocks) + 1):
        stopped = Notes(stop_after=stop)
        with pytest.raises(Stopped):
            both().train(stopped)
        assert bits(both().train(Notes(start=stopped.kept))) == expected


def test_knowledge_bases_of_other_features_are_refused() -> None:
    one, other = (source(people(20), SMALL, phi=phi) for phi in ("works_in(s1, s2)", "knows(s1, s2)"))
    with pytest.raises(KnowledgeBaseError, match="the features of all knowledge bases must be the same"):
        trainer([one, other])
    with pytest.raises(KnowledgeBaseError, match="at least one"):
        trainer([])


def test_training_on_formulas_and_on_single_objects() -> None:
    cases = {
        "exists z. works_in(x, z) & lives_in(x, z)": "each r. exists y. r(s1, y)\neach r. r(y, s1)",
        "exists z. knows(x, z) & lives_in(z, y)": "paper",
        "town(x)": "lives_in(y, s1)\nworks_in(y, s1)\nknows(s1, y)",
    }
    for query, phi in cases.items():
        one = trainer(source(people(), SMALL, query, phi))
        notes = Notes()
        scorer = one.train(notes)
        assert np.isfinite(scorer.losses).all()
        assert scorer.scaler.width > 0, query
        assert notes.blocks
