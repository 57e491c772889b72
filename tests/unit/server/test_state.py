"""What is served changes with an addition, wholly or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gaifman.cancellation import Deadline, no_deadline
from gaifman.config import DEFAULT_BUDGET, Budget, ServerLimits
from gaifman.errors import KnowledgeBaseError, OutputError, StoppedError
from gaifman.kb.facts import Fact
from gaifman.queries.engine import Engine
from gaifman.server.schemas import AddFactsResponse, AnswersRequest, QueryRequest
from gaifman.server.service import Service
from gaifman.server.state import EditsFile, ServerState
from trained import towns, worker

NEW = Fact("lives_in", ("p00", "t4"))


def desk_at(path: Path, **limits: int) -> ServerState:
    """A desk with a model, which keeps what is added in a file."""
    edits = EditsFile(path)
    return ServerState(Service(edits.apply_to(towns()), worker(), ServerLimits(**limits)), edits, "token")


def test_the_next_answer_knows_what_was_added_and_so_does_the_next_server(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts")
    before = desk.service
    asked = QueryRequest(query="lives_in('p00', y)")
    assert before.query(asked, no_deadline()).answers == [["t0"]]
    assert desk.add_facts([NEW, NEW, Fact("person", ("p00",))]) == AddFactsResponse(
        added=1, already_known=2, total_facts=len(before.kb) + 1
    )
    assert desk.service.query(asked, no_deadline()).answers == [["t0"], ["t4"]]
    assert before.query(asked, no_deadline()).answers == [["t0"]], "who began before is not disturbed"
    desk.close()
    again = desk_at(tmp_path / "new.facts")
    assert again.service.query(asked, no_deadline()).answers == [["t0"], ["t4"]]
    again.close()


def test_ranked_answers_change_without_training(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts")
    who = AnswersRequest(bindings={"x": "nobody"}, top=5)
    desk.add_facts([Fact("person", ("nobody",)), Fact("lives_in", ("nobody", "t3"))], allow_new_objects=True)
    first = desk.service.answers(who, no_deadline()).answers[0]
    assert first.names == ["t3"]
    desk.close()


def test_all_or_none(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts", max_new_facts=2)
    before = desk.service
    for wrong in ([NEW, Fact("livs_in", ("p00", "t4"))], [NEW, NEW, NEW]):
        with pytest.raises(KnowledgeBaseError):
            desk.add_facts(wrong)
    assert desk.service is before
    assert not (tmp_path / "new.facts").exists()
    desk.close()


def test_what_is_not_on_the_disk_is_not_served(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts")
    (tmp_path / "new.facts").mkdir()
    before = desk.service
    with pytest.raises(OutputError):
        desk.add_facts([NEW])
    assert desk.service is before
    desk.close()


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts")
    before = len(desk.service.kb)
    jobs = [
        threading.Thread(
            target=desk.add_facts, args=([Fact("person", (f"q{n}",))],), kwargs={"allow_new_objects": True}
        )
        for n in range(8)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert len(desk.service.kb) == before + 8
    assert len(EditsFile(tmp_path / "new.facts")) == 8
    desk.close()


def test_a_server_that_takes_over_knows_what_the_one_before_it_added_last(tmp_path: Path) -> None:
    """It was read before the lock was taken: the fact in between was acknowledged, and lost with the next addition."""
    first = desk_at(tmp_path / "new.facts")
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
    """With two confidences it was counted twice."""
    desk = desk_at(tmp_path / "new.facts")
    before = len(desk.service.kb)
    twice = [Fact(NEW.relation, NEW.objects, confidence) for confidence in (0.25, 0.75, 0.5)]
    assert desk.add_facts(twice) == AddFactsResponse(added=1, already_known=2, total_facts=before + 1)
    assert desk.added == 1
    assert (tmp_path / "new.facts").read_text() == "0.75::lives_in(p00, t4).\n"
    desk.close()


def test_nothing_is_added_where_nothing_may_be(tmp_path: Path) -> None:
    desk = ServerState(Service(towns()), EditsFile(tmp_path / "new.facts"))
    assert not desk.editable
    assert not desk.check_token("")
    with pytest.raises(KnowledgeBaseError, match="read-only"):
        desk.add_facts([NEW])
    with pytest.raises(KnowledgeBaseError, match="requires a file"):
        ServerState(Service(towns()), None, "token")


@pytest.mark.parametrize("guess", ["", "toke", "tokens", "tökén", "\ud800"])
def test_another_token_is_not_trusted(guess: str, tmp_path: Path) -> None:
    desk = desk_at(tmp_path / "new.facts")
    assert desk.check_token("token")
    assert not desk.check_token(guess)
    desk.close()


def test_an_addition_that_comes_too_late_is_none(tmp_path: Path) -> None:
    desk, deadline = desk_at(tmp_path / "new.facts"), Deadline(60)
    before = desk.service
    deadline.cancel()
    with pytest.raises(StoppedError):
        desk.add_facts([NEW], deadline=deadline)
    assert desk.service is before
    assert not (tmp_path / "new.facts").exists()
    desk.close()


@pytest.mark.parametrize("last", [1, 2, 3])
def test_an_addition_that_is_stopped_leaves_nothing_behind(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once left a whole knowledge base with its engine in memory."""

    class Asking(Deadline):
        """Stops the work when it has been asked so often."""

        asked = 0

        def limit_budget(self, budget: Budget = DEFAULT_BUDGET) -> Budget:
            self.asked += 1
            if self.asked == last:
                self.cancel()
            return super().limit_budget(budget)

    desk, closed = desk_at(tmp_path / "new.facts"), list[Engine]()
    close = Engine.close

    def counted(engine: Engine) -> None:
        closed.append(engine)
        close(engine)

    monkeypatch.setattr(Engine, "close", counted)
    before = desk.service
    with pytest.raises(StoppedError):
        desk.add_facts([NEW], deadline=Asking())
    assert desk.service is before
    assert (NEW in desk.service.kb, len(desk.edits or ())) == (False, 0)
    assert len({id(engine) for engine in closed}) == (last > 1), "the engine of what came to nothing"
    assert before.engine not in closed
    assert desk.add_facts([NEW]).added == 1
    desk.close()
