"""Adding facts to a server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gaifman.config import DEFAULT_BUDGET, Budget, Deadline, no_deadline
from gaifman.errors import KnowledgeBaseError, OutputError, StoppedError
from gaifman.kb.knowledge_base import Fact
from gaifman.queries.engine import Engine
from gaifman.server.edits import EditsFile
from gaifman.server.middleware import ServerLimits
from gaifman.server.schemas import AddFactsResponse, AnswersRequest, QueryRequest
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from trained import towns, worker

NEW = Fact("lives_in", ("p00", "t4"))


def state_at(path: Path, **limits: int) -> ServerState:
    """Return the state of a server with a model that can add facts."""
    edits = EditsFile(path)
    return ServerState(Service(edits.apply_to(towns()), worker(), ServerLimits(**limits)), edits, "token")


def test_added_facts_count_at_once_and_after_a_restart(tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts")
    before = state.service
    asked = QueryRequest(query="lives_in('p00', y)")
    assert before.query(asked, no_deadline()).answers == [["t0"]]
    assert state.add_facts([NEW, NEW, Fact("person", ("p00",))]) == AddFactsResponse(
        added=1, already_known=2, total_facts=len(before.kb) + 1
    )
    assert state.service.query(asked, no_deadline()).answers == [["t0"], ["t4"]]
    assert before.query(asked, no_deadline()).answers == [["t0"]], "a running request keeps its service"
    state.close()
    again = state_at(tmp_path / "new.facts")
    assert again.service.query(asked, no_deadline()).answers == [["t0"], ["t4"]]
    again.close()


def test_ranked_answers_change_without_training(tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts")
    who = AnswersRequest(bindings={"x": "nobody"}, top=5)
    state.add_facts([Fact("person", ("nobody",)), Fact("lives_in", ("nobody", "t3"))], allow_new_objects=True)
    first = state.service.answers(who, no_deadline()).answers[0]
    assert first.names == ["t3"]
    state.close()


def test_all_or_none(tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts", max_new_facts=2)
    before = state.service
    for wrong in ([NEW, Fact("livs_in", ("p00", "t4"))], [NEW, NEW, NEW]):
        with pytest.raises(KnowledgeBaseError):
            state.add_facts(wrong)
    assert state.service is before
    state.close()
    assert not (tmp_path / "new.facts").exists()


def test_facts_that_cannot_be_written_are_not_served(tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts")
    (tmp_path / "new.facts").unlink()
    (tmp_path / "new.facts").mkdir()
    before = state.service
    with pytest.raises(OutputError, match="removed or replaced"):
        state.add_facts([NEW])
    assert state.service is before
    state.close()


def test_concurrent_additions_lose_nothing(tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts")
    before = len(state.service.kb)
    jobs = [
        threading.Thread(
            target=state.add_facts, args=([Fact("person", (f"q{n}",))],), kwargs={"allow_new_objects": True}
        )
        for n in range(8)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len(state.service.kb) == before + 8
    assert len(EditsFile(tmp_path / "new.facts")) == 8
    state.close()


def test_a_server_reads_what_the_previous_one_added_last(tmp_path: Path) -> None:
    """The file was once read before it was locked: a fact added in between was lost."""
    first = state_at(tmp_path / "new.facts")
    edits = EditsFile(tmp_path / "new.facts")
    service = Service(edits.apply_to(towns()), worker())
    first.add_facts([NEW])
    first.close()
    second = ServerState(service, edits, "token")
    assert NEW in second.service.kb
    second.add_facts([Fact("person", ("t0",))])
    second.close()
    assert NEW in EditsFile(tmp_path / "new.facts").kb


def test_a_fact_that_is_repeated_is_added_once_with_its_highest_confidence(tmp_path: Path) -> None:
    """It was once counted twice."""
    state = state_at(tmp_path / "new.facts")
    before = len(state.service.kb)
    twice = [Fact(NEW.relation, NEW.objects, confidence) for confidence in (0.25, 0.75, 0.5)]
    assert state.add_facts(twice) == AddFactsResponse(added=1, already_known=2, total_facts=before + 1)
    assert state.added == 1
    state.close()
    assert [str(fact) for fact in EditsFile(tmp_path / "new.facts").kb.facts()] == ["0.75::lives_in(p00, t4)."]


def test_a_read_only_server_adds_nothing(tmp_path: Path) -> None:
    state = ServerState(Service(towns()), EditsFile(tmp_path / "new.facts"))
    assert not state.editable
    assert not state.check_token("")
    with pytest.raises(KnowledgeBaseError, match="read-only"):
        state.add_facts([NEW])
    with pytest.raises(KnowledgeBaseError, match="requires a file"):
        ServerState(Service(towns()), None, "token")


@pytest.mark.parametrize("guess", ["", "toke", "tokens", "tökén", "\ud800"])
def test_another_token_is_not_trusted(guess: str, tmp_path: Path) -> None:
    state = state_at(tmp_path / "new.facts")
    assert state.check_token("token")
    assert not state.check_token(guess)
    state.close()


def test_nothing_is_added_after_the_deadline(tmp_path: Path) -> None:
    state, deadline = state_at(tmp_path / "new.facts"), Deadline(60)
    before = state.service
    deadline.cancel()
    with pytest.raises(StoppedError):
        state.add_facts([NEW], deadline=deadline)
    assert state.service is before
    state.close()
    assert not (tmp_path / "new.facts").exists()


@pytest.mark.parametrize("last", [1, 2, 3])
def test_an_addition_that_is_stopped_leaves_nothing_behind(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once left a knowledge base and its engine in memory."""

    class Asking(Deadline):
        """Cancels itself at a given check."""

        asked = 0

        def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
            self.asked += 1
            if self.asked == last:
                self.cancel()
            return super().limit_budget(budget)

    state, closed = state_at(tmp_path / "new.facts"), list[Engine]()
    close = Engine.close

    def counted(engine: Engine) -> None:
        closed.append(engine)
        close(engine)

    monkeypatch.setattr(Engine, "close", counted)
    before = state.service
    with pytest.raises(StoppedError):
        state.add_facts([NEW], deadline=Asking())
    assert state.service is before
    assert (NEW in state.service.kb, len(state.edits or ())) == (False, 0)
    assert len({id(engine) for engine in closed}) == (last > 1), "the engine of what came to nothing"
    assert before.engine not in closed
    assert state.add_facts([NEW]).added == 1
    state.close()
