"""Wrong arguments: every public function and method takes them, or refuses them with one clear error."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from gaifman.errors import ArgumentError, GaifmanError
from gaifman.evaluation.proposals import Candidates, SetTest
from gaifman.kb.knowledge_base import KnowledgeBase
from trained import FEW, towns, worker

WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 5, 10**30, 1.5, float("nan"), float("inf"), "", "nonsense", "a\0b", b"bytes", (), ("p01", "t1"),
    [], [None], [[1]], {}, {1: 2}, {"x": None}, {"x": "p01"}, object(), KnowledgeBase, Path("nowhere/file.tsv"),
    np.zeros(3), np.zeros((2, 2), np.int64) - 5, len, iter("ab"), Exception("x"),
)  # fmt: skip
"""Values that some parameter cannot take."""
LIBRARY: Any = gaifman
MODEL: Any = worker
"""Without types, so that mypy lets wrong arguments pass."""
PLAIN = ("Callback",)
"""Classes whose methods a user overrides: they do nothing with their arguments."""


@cache
def small() -> KnowledgeBase:
    """A knowledge base on which everything is fast."""
    return towns(12)


def valid(folder: Path) -> dict[str, Any]:
    """Parameter → an argument that fits."""
    kb = small()
    return {
        "kb": kb, "kbs": [kb], "query": "works_in(x, y)", "text": "works_in(x, y)",
        "facts": [("works_in", "p01", "t1")],
        "path": str(folder / "out.tsv"), "sources": folder / "kb.tsv", "bindings": {"x": "p01"}, "answer": ["t1"],
        "options": {"epochs": 1, "hidden": [4]}, "relation": "works_in", "relations": ["works_in"], "obj": "p01",
        "attribute": "age", "objects": "p01", "name": "p01", "number": 1, "fact_id": 1, "tuples": [("p01", "t1")],
        "model": worker(), "test": towns(12, sure=False), "min_examples": 0, "draws": 2, "size": 4, "positives": 1,
        "negatives": 1, "config": gaifman.TrainingConfig(), "schema": kb.schema, "base_epochs": 2, "examples": 3,
        "purpose": "test", "settings": {"seed": 1}, "grouping": "relation", "arity": 2, "features": (),
        "counts": [1, 2], "table": kb.fact_tables[2], "row": 0, "content": kb.content, "message": "wrong",
        "rows": np.array([0]), "answers": ["t1"], "arrays": worker().state()[0], "meta": worker().state()[1],
        "value": "p01", "object_id": 1,
        "accepted": {}, "rejected": {}, "file_format": "csv",
        "scorer": worker().scorer, "calibration": worker().calibration, "known": "mark", "rules": (),
    }  # fmt: skip


def public_callables(name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function of `gaifman.__all__`; of a class the constructor and every public method."""
    member = getattr(gaifman, name)
    if not inspect.isabstract(member):
        yield name, member
    if inspect.isclass(member) and name not in PLAIN:
        for method in sorted(
            n for n in dir(member) if not n.startswith("_") and n not in (*dir(Exception), *dir(tuple))
        ):
            if callable(getattr(member, method)):
                yield f"{name}.{method}", bound(member, method)


def bound(cls: type, method: str) -> Callable[..., Any]:
    """The method of an example of a class, made anew for each call."""
    own = inspect.getattr_static(cls, method)
    if isinstance(own, classmethod | staticmethod):
        return getattr(cls, method)  # type: ignore[no-any-return]

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(example(cls), method)(*arguments, **named)

    call.__signature__ = inspect.signature(getattr(example(cls), method))  # type: ignore[attr-defined]
    return call


@cache
def evaluation() -> gaifman.Evaluation:
    """An evaluation of a small model."""
    return gaifman.evaluate(completion(), small(), small(), relations=["works_in"])


@cache
def completion() -> gaifman.Completion:
    """A small completion."""
    return gaifman.complete(small(), ["works_in"], **FEW)


@cache
def missing_facts() -> gaifman.MissingFacts:
    """What a small completion of ranked lists finds."""
    return gaifman.complete(small(), ["works_in"]).missing(above=0.01)


@cache
def explanation() -> gaifman.Explanation:
    """Why a tuple is an answer."""
    return worker().explain("p01", "t1")


@cache
def description() -> gaifman.Description:
    """The demo described, beside itself as test facts."""
    return gaifman.describe(gaifman.demo(), test=small())


@cache
def found_constraint() -> Any:
    """A constraint that the demo suggests."""
    return gaifman.find_constraints(gaifman.demo(), ["capital"])[0]


def example(cls: type) -> Any:
    """An object of a public class; a model is a copy, because it can be trained again."""
    model = worker()
    found: dict[str, Callable[[], Any]] = {
        "Answer": lambda: model.answers(x="p01")[0],
        "Completion": completion,
        "Conflict": lambda: gaifman.Conflict("functional: r 1→2", "conflicts with r(a, b)", "always", 0.1),
        "Constraints": lambda: gaifman.parse_constraints("functional: works_in 1->2"),
        "FoundConstraint": found_constraint,
        "Description": lambda: gaifman.describe(small()),
        "Engine": lambda: gaifman.Engine(small(), threads=1),
        "Estimate": lambda: model.probability("p01", "t1"),
        "Estimates": lambda: model.probabilities([("p01", "t1")]),
        "Evaluation": evaluation,
        "Explanation": explanation,
        "Fact": lambda: gaifman.Fact("works_in", ("p01", "t1")),
        "FeatureSet": lambda: gaifman.parse_phi("works_in(s1, s2)"),
        "GaifmanModel": lambda: copy.copy(model),
        "KnowledgeBase": small,
        "MissingFact": lambda: gaifman.MissingFact("works_in", ("p01", "t1"), 0.5, 1),
        "MissingFacts": missing_facts,
        "Leakage": lambda: description().leakage[0],
        "Model": lambda: copy.copy(model),
        "ProposalTest": lambda: gaifman.ProposalTest(Candidates.concatenate([]), 0, 0.1, SetTest.concatenate([]), 0.0),
        "RankedAnswers": lambda: model.answers(x="p01"),
        "Reason": lambda: explanation().reasons[0],
        "RelationLink": lambda: description().links[0],
        "Split": lambda: small().split(),
        "TrainingConfig": gaifman.TrainingConfig,
    }
    if issubclass(cls, GaifmanError):
        return cls("wrong")
    return found.get(cls.__name__, cls)()


def calls(function: Callable[..., Any], fitting: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """For each parameter, calls with a wrong value for it and fitting ones for the rest."""
    parameters = inspect.signature(function).parameters.values()
    for wrong in parameters:
        for value in WRONG:
            arguments: list[Any] = []
            named: dict[str, Any] = {}
            for parameter in parameters:
                own = value if parameter is wrong else fitting.get(parameter.name, parameter.default)
                if own is parameter.empty and inspect.isclass(function):
                    own = getattr(example(function), parameter.name)
                if parameter.kind is parameter.VAR_POSITIONAL:
                    arguments += [own, *([] if parameter is wrong else ["t1"])] if own is not parameter.empty else []
                elif parameter.kind is parameter.VAR_KEYWORD:
                    named |= {"x": own} if parameter is wrong else {}
                elif parameter.kind is parameter.KEYWORD_ONLY:
                    named |= {parameter.name: own}
                else:
                    assert own is not parameter.empty, f"{function} needs an example of {parameter.name}"
                    arguments.append(own)
            yield f"{wrong.name}={value!r:.60}", arguments, named


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small file."""
    (tmp_path / "kb.tsv").write_text("p01\tworks_in\tt1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(set(gaifman.__all__) - {"__version__"}))
def test_a_public_function_takes_wrong_types_or_refuses_them_with_one_error(name: str, folder: Path) -> None:
    """There were AttributeErrors, TypeErrors and worse from deep inside."""
    fitting, failures = valid(folder), []
    for called, function in public_callables(name):
        for words, arguments, named in calls(function, fitting):
            try:
                done = function(*arguments, **named)
                if inspect.isgenerator(done):
                    next(done, None)
            except GaifmanError as error:
                if not error.message or len(error.message) > 400:
                    failures.append(f"{called}({words}): {error!r:.300}")
            except Exception as error:
                failures.append(f"{called}({words}): {type(error).__name__}: {error!s:.200}")
    assert not failures, f"{len(failures)} raw errors\n" + "\n".join(failures)


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: LIBRARY.query("demo", "p(x)"), "kb must be a KnowledgeBase or an Engine, got 'demo'", "demo()"),
        (lambda: LIBRARY.query("kb.tsv", "p(x)"), "got 'kb.tsv'", "read it first: gaifman.read('kb.tsv')"),
        (lambda: LIBRARY.query("works_in(x, y)", small()), "kb must be", "the order is kb, query"),
        (lambda: LIBRARY.query(small(), None), "query must be a string or a Query, got None", "write a formula"),
        (lambda: LIBRARY.count(worker(), "p(x)"), "got a GaifmanModel", ".kb"),
        (lambda: LIBRARY.query(small(), "works_in(x, y)", x=5), "x must be a string, got 5", ""),
        (lambda: LIBRARY.fit("path", "p(x)"), "kb must be a KnowledgeBase", "gaifman.read('path')"),
        (lambda: LIBRARY.fit([small(), "path"], "p(x)"), "a sequence of KnowledgeBases", ""),
        (lambda: LIBRARY.load(None), "path must be a string or a path, got None", ""),
        (lambda: LIBRARY.KnowledgeBase.from_facts(None), "facts must be an iterable of Facts or tuples, got None", ""),
        (lambda: MODEL().probability(("p01", "t1")), "got ('p01', 't1')", "probability('p01', 't1')"),
        (lambda: MODEL().with_kb("kb.tsv"), "kb must be a KnowledgeBase, got 'kb.tsv'", "read it first"),
        (lambda: LIBRARY.complete(small(), "works_in"), "relations must be an iterable of strings", "['works_in']"),
        (lambda: LIBRARY.write("kb.tsv", small()), "kb must be a KnowledgeBase", "the order is kb, path"),
    ],
)
def test_the_message_says_what_to_write_instead(call: Callable[[], Any], message: str, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_bare_classifier_is_refused_with_the_wrapper_to_use() -> None:
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ArgumentError) as caught:
        gaifman.fit(small(), "works_in(x, y)", base=LogisticRegression())
    assert caught.value.message == "base must be a string or a BaseModel, got a LogisticRegression"
    assert caught.value.hint == "wrap it: gaifman.models.SklearnModel(LogisticRegression(…))"


def test_a_model_loaded_with_the_wrong_kind_of_kb_is_refused_at_once(tmp_path: Path) -> None:
    worker().save(tmp_path / "m.gaifman")
    for wrong in ("kb.tsv", [small()], worker(), 5):
        with pytest.raises(ArgumentError, match="kb must be a KnowledgeBase or None"):
            gaifman.load(tmp_path / "m.gaifman", wrong)  # type: ignore[arg-type]


def test_every_public_function_checks_its_arguments() -> None:
    """A new one cannot be forgotten: it has the decorator, or no argument to check."""
    bare = [
        name
        for name in set(gaifman.__all__) - {"__version__"}
        if inspect.isfunction(function := getattr(gaifman, name))
        and not hasattr(function, "__wrapped__")
        and inspect.signature(function).parameters
    ]
    assert bare == []
