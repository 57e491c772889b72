"""A deadline stops a single question of ranked lists, wherever it is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import gaifman
from gaifman.config import Deadline
from gaifman.errors import StoppedError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.listwise import mining
from gaifman.listwise.scoring import ListwisePredictor
from gaifman.ranking.candidates import RankingOptions


class CheckedDeadline(Deadline):
    """Counts its checks, and passes at one of them."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.checks, self.last = 0, last

    def check(self) -> None:
        self.checks += 1
        if self.checks == self.last:
            self.cancel()
        super().check()


@pytest.fixture(scope="module")
def model() -> gaifman.GaifmanModel:
    """Answers from hubs: everyone visits every place."""
    facts = [("knows", f"p{i}", f"p{(3 * i) % 40}") for i in range(40)]
    facts += [("visits", f"p{i}", f"t{j}") for i in range(40) for j in range(25)]
    kb = KnowledgeBase.from_facts(facts)
    return gaifman.fit(kb, "knows(x, y)", options={"max_steps": 3, "questions": 20}, seed=1)


Ask = Callable[[gaifman.GaifmanModel, Deadline], object]
QUESTIONS: dict[str, Ask] = {
    "answers": lambda model, deadline: model.rank(None, {"x": "p7"}, RankingOptions(deadline=deadline)),
    "explanation": lambda model, deadline: model.explain("p7", "p8", deadline=deadline),
}


def steps(model: gaifman.GaifmanModel) -> int:
    """The steps that all walks of the model have looked at."""
    predictor = model.predictor
    assert isinstance(predictor, ListwisePredictor)
    return sum(space.reacher.steps for space in predictor.scorer.scorers[0]._spaces._free)


@pytest.mark.parametrize("name", QUESTIONS)
def test_work_ends_at_the_check_at_which_the_deadline_passes(
    name: str, model: gaifman.GaifmanModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = QUESTIONS[name]
    ask(model, Deadline())  # everything is prepared
    before = steps(model)
    ask(model, few := CheckedDeadline())
    work = steps(model) - before
    assert work > 3_000
    monkeypatch.setattr(mining, "STEPS_PER_CHECK", 50)
    ask(model, many := CheckedDeadline())
    assert many.checks - few.checks >= work // 200  # they are checks inside of walks
    before = steps(model)
    with pytest.raises(StoppedError):
        ask(model, CheckedDeadline(many.checks // 4))
    assert steps(model) - before < work / 2
