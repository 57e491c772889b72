"""Processes: a forked child queries what its parent has queried, and everything a user holds pickles."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gaifman
from forked import in_child
from gaifman.errors import KnowledgeBaseError
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.models import SklearnModel, TorchModel
from gaifman.queries.engine import Engine, get_engine
from gaifman.threads import PerProcess, ProcessLock, cached_property
from processes import run
from trained import FEW, towns, worker

QUERY = "works_in(x, y)"
HANG = 30.0
"""Seconds after which a child is taken to hang; it needs less than one."""


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Another thread holds the lock inside the block."""
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_a_forked_child_queries_a_kb_that_its_parent_has_queried() -> None:
    """It hung for ever: the threads that run statements are not in the child."""
    kb = towns()
    expected = list(gaifman.query(kb, QUERY))
    assert in_child(lambda: list(gaifman.query(kb, QUERY)), timeout=HANG) == expected

    def ask_and_fork() -> tuple[int, int]:
        return gaifman.count(kb, QUERY), in_child(lambda: gaifman.count(kb, QUERY), timeout=HANG)

    assert in_child(ask_and_fork, timeout=2 * HANG) == (len(expected), len(expected))
    assert list(gaifman.query(kb, QUERY)) == expected


def test_a_forked_child_uses_an_engine_of_its_parent() -> None:
    with Engine(towns(), memory_mb=200, threads=1) as engine:
        expected = gaifman.count(engine, QUERY)

        def count_and_close() -> tuple[int, int | None]:
            memory = engine.database.memory_mb
            with engine:
                return gaifman.count(engine, QUERY), memory

        assert in_child(count_and_close, timeout=HANG) == (expected, 200)
        assert gaifman.count(engine, QUERY) == expected


def test_a_forked_child_drops_a_kb_of_its_parent_without_a_crash() -> None:
    kbs = [towns()]
    gaifman.count(kbs[0], QUERY)
    folder = Path(get_engine(kbs[0]).database.temp_dir)

    def drop() -> bool:
        kbs.clear()
        gc.collect()
        return folder.exists()

    assert in_child(drop, timeout=HANG)
    assert folder.exists()


def test_a_child_that_exits_leaves_the_folder_of_its_parent(tmp_path: Path) -> None:
    """`os.fork` and `sys.exit` run what is registered for the end of Python, multiprocessing does not."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, gaifman\n"
        "from gaifman.queries.engine import get_engine\n"
        "kb = gaifman.KnowledgeBase.from_facts([('p', 'a')])\n"
        "assert gaifman.count(kb, 'p(x)') == 1\n"
        "if (child := os.fork()) == 0:\n"
        "    assert gaifman.count(kb, 'p(x)') == 1\n"
        "    sys.exit(0)\n"
        "print(os.waitpid(child, 0)[1], os.path.isdir(get_engine(kb).database.temp_dir), gaifman.count(kb, 'p(x)'))\n"
    )
    assert run([sys.executable, str(script)], check=True, timeout=120).stdout == "0 True 1\n"


def test_locks_that_another_thread_holds_at_the_fork_are_free_in_the_child() -> None:
    kb, model = towns(), worker()
    expected = model.answers(x="p01", top=3).as_dict()
    for lock, ask in (
        (kb.resources._lock, lambda: gaifman.count(kb, QUERY)),
        (type(kb).__dict__["schema"].lock, lambda: len(towns().schema.relations)),
        (model._lock, lambda: model.answers(x="p01", top=3).as_dict()),
        (model._compile()._lock, lambda: model.answers(x="p01", top=3).as_dict()),
    ):
        with held(lock):
            found = in_child(ask, timeout=HANG)
        assert found == (expected if isinstance(found, dict) else ask())


def test_a_fork_waits_for_a_kernel_that_another_thread_compiles() -> None:
    from numba.core.compiler_lock import global_compiler_lock

    taken = threading.Event()

    def compile_for_a_while() -> None:
        with global_compiler_lock:
            taken.set()
            threading.Event().wait(0.2)

    thread = threading.Thread(target=compile_for_a_while)
    thread.start()
    taken.wait()
    assert in_child(lambda: global_compiler_lock._lock.acquire(timeout=HANG))
    thread.join()


def test_all_locks_of_the_library_are_free_in_a_child() -> None:
    """Server, command line and jobs belong to one process."""
    source = Path(gaifman.__file__).parent
    unsafe = re.compile(r"threading\.R?Lock\(|from functools import .*cached_property|@functools\.cached_property")
    files = [path.relative_to(source) for path in source.rglob("*.py") if unsafe.search(path.read_text())]
    assert [str(path) for path in files if path.parts[0] not in ("server", "cli", "jobs")] == []


def test_a_value_per_process_is_made_once_for_all_threads() -> None:
    value, lock = PerProcess(list[int]), ProcessLock()
    with lock, lock:
        value.get().append(1)
    assert value.get() == [1]
    assert in_child(lambda: (value.get(), value.get())) == ([], [])
    assert isinstance(copy.deepcopy(lock), ProcessLock)


def test_a_cached_property_is_computed_once() -> None:
    class Counter:
        calls = 0

        @cached_property
        def value(self) -> int:
            self.calls += 1
            return self.calls

    counter = Counter()
    assert (counter.value, counter.value) == (1, 1)


# Pickles and copies


def rank_and_count(model: Any, kb: KnowledgeBase) -> tuple[dict[str, Any], int]:
    """What a worker of a pool would do."""
    return model.answers("works_in(x, y)", x="p01", top=3).as_dict(), gaifman.count(kb, QUERY)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_model_with_its_kb_is_passed_to_another_process(method: str) -> None:
    model = worker()
    expected = rank_and_count(model, model.kb)
    assert in_child(rank_and_count, model, model.kb, method=method) == expected


def clones() -> list[Callable[[Any], Any]]:
    """The ways to copy an object."""
    return [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


def test_models_and_completions_pickle_and_copy_also_after_use() -> None:
    completion, lists = gaifman.complete(towns(), ["works_in"], **FEW), gaifman.complete(towns(), ["works_in"])
    for model in (worker(), completion, lists):
        expected = model.answers("works_in(x, y)", x="p01").as_dict()
        for clone in clones():
            other = clone(model)
            assert other.kb == model.kb
            assert other.held_out_report is not None
            assert other.answers("works_in(x, y)", x="p01").as_dict() == expected
            arrays, meta = other.state()
            assert meta == model.state()[1]
            assert all(np.array_equal(array, model.state()[0][name]) for name, array in arrays.items())


def test_untrained_models_and_other_base_models_pickle() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    blank = pickle.loads(pickle.dumps(gaifman.GaifmanModel("works_in(x, y)", radius=2)))
    assert (str(blank.query), blank.config.radius) == ("works_in(x, y)", 2)
    layers = [["Linear", 4], ["ReLU"], ["Linear", 1]]
    for base in (SklearnModel(LogisticRegression()), SklearnModel(DecisionTreeClassifier()), TorchModel(layers)):
        model = gaifman.fit(towns(), "works_in(x, y)", base=base, draws=2, min_examples=0)
        for clone in clones():
            assert str(clone(model).probability("p01", "t1")) == str(model.probability("p01", "t1"))


def test_what_models_return_pickles() -> None:
    model = worker()
    for value in (
        model.answers(x="p01"),
        model.explain("p01", "t1"),
        model.probability("p01", "t1"),
        model.config,
        gaifman.query(model.kb, QUERY),
        gaifman.parse_query("exists z. works_in(x, z)"),
        gaifman.Budget(rows=3),
    ):
        for clone in clones():
            assert repr(clone(value)) == repr(value)


def test_an_engine_pickles_as_its_kb_and_settings_and_a_database_says_why_not() -> None:
    kb = towns()
    with Engine(kb, memory_mb=100, threads=1) as engine:
        for clone in clones():
            with clone(engine) as other:
                assert (other.kb, other.database.memory_mb) == (kb, 100)
                assert other.database is not engine.database
                assert gaifman.count(other, QUERY) == gaifman.count(engine, QUERY)
        for clone in clones():
            with pytest.raises(KnowledgeBaseError, match="cannot be copied or pickled"):
                clone(engine.database)
    assert pickle.loads(pickle.dumps(get_engine(kb))).kb == kb
    with pytest.raises(KnowledgeBaseError, match="the engine is closed"):
        pickle.dumps(engine)


def test_a_closed_engine_is_one_clear_error() -> None:
    kb = towns()
    with Engine(kb) as engine:
        batches = gaifman.stream(engine, QUERY, batch_size=1)
        next(batches)
    for ask in (gaifman.query, gaifman.count, gaifman.exists, gaifman.stream):
        with pytest.raises(KnowledgeBaseError, match="the engine is closed"):
            ask(engine, QUERY)
    with pytest.raises(KnowledgeBaseError, match="the engine is closed"):
        next(batches)
    engine.close()
    get_engine(kb).close()
    assert gaifman.count(kb, QUERY) > 0
