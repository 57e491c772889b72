"""The engine: its tables, its limits, and that nothing is left behind."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

from gaifman.config import Budget
from gaifman.errors import GaifmanError, KnowledgeBaseError, StoppedError
from gaifman.io import write
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.queries.answers import answers, prepare
from gaifman.queries.engine import Engine, get_engine
from processes import PATIENCE, child, cpu_seconds, python, run, wait_until
from worst_queries import EVERYTHING, WORST, crowded, idle, measured

KB = KnowledgeBase.from_facts(
    [("parent", "ann", "bob"), ("parent", "bob", "cleo"), ("person", "ann"), ("gave", "ann", "ring", "bob")],
    {("age", "ann"): 80.0},
    objects=["zoe"],
)
ENDLESS = "r(x, y) & s(z, u) & t(v, w)"


@pytest.fixture(scope="module")
def crowd() -> Iterator[Engine]:
    """A knowledge base in which much can be asked."""
    with Engine(crowded(), memory_mb=1_000) as engine:
        yield engine


def test_the_tables_are_those_of_a_saved_file(tmp_path: Path) -> None:
    write(KB, tmp_path / "kb.duckdb")
    names = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'main'"
    with Engine(KB) as engine, duckdb.connect(str(tmp_path / "kb.duckdb"), read_only=True) as saved:
        ours = set(engine.database.run_job(lambda cursor: cursor.execute(names).fetchall()))
        assert ours <= set(saved.execute(names).fetchall())
        assert {table for table, _ in ours} == {
            "objects", "relations", "facts1", "facts2", "facts3", "attribute_values",
        }  # fmt: skip
        for table in ("facts1", "facts2", "facts3"):
            columns = [column for name, column in sorted(ours) if name == table]
            text = f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid"
            assert engine.database.fetch_rows(text).tolist() == [list(row) for row in saved.execute(text).fetchall()]


def test_a_knowledge_base_owns_one_database_that_copies_and_pickles_leave_behind() -> None:
    kb = KnowledgeBase.from_facts([("p", "a")])
    with ThreadPoolExecutor(4) as pool:
        assert len({id(engine.database) for engine in pool.map(get_engine, [kb] * 8)}) == 1
    for other in (copy.copy(kb), copy.deepcopy(kb), pickle.loads(pickle.dumps(kb))):
        assert other == kb
        assert get_engine(other).database is not get_engine(kb).database
    with Engine(kb) as own:
        assert get_engine(own) is own


def test_a_database_ends_with_its_knowledge_base_at_once() -> None:
    """No cycle of references keeps the tables in memory until the next garbage collection."""
    kb = KnowledgeBase.from_facts([("p", "a"), ("r", "a", "b")])
    assert list(answers(kb, "r(x, y) & p(x)")) == [("a", "b")]
    folder = Path(get_engine(kb).database.temp_dir)
    gc.disable()
    try:
        del kb
        assert not folder.exists()
    finally:
        gc.enable()


def test_settings_that_cannot_be_are_refused() -> None:
    for memory in (1, 0, -5, 1.5, "much"):
        with pytest.raises(KnowledgeBaseError, match="memory_mb must be an integer"):
            Engine(KB, memory_mb=memory)  # type: ignore[arg-type]
    for disk in (-1, 1.5, 10**30):
        with pytest.raises(KnowledgeBaseError, match="disk_mb must be an integer"):
            Engine(KB, disk_mb=disk)  # type: ignore[arg-type]
    for threads in (0, 1.5):
        with pytest.raises(KnowledgeBaseError, match="threads must be an integer"):
            Engine(KB, threads=threads)  # type: ignore[arg-type]
    for seconds in (0, -1, True, "long"):
        with pytest.raises(GaifmanError, match=r"Budget\.seconds must be a number above 0"):
            Budget(seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(GaifmanError, match=r"Budget\.rows must be an integer"):
        Budget(rows=0)
    assert Budget(seconds=0.5, rows=None).seconds == 0.5


def test_statements_reach_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with Engine(KB) as engine, pytest.raises(duckdb.Error, match="disabled"):
        engine.database.fetch_rows(f"SELECT * FROM '{tmp_path / 'secret.csv'}'")


@pytest.mark.parametrize("text", WORST, ids=range(len(WORST)))
def test_the_worst_queries_stop_at_their_limit(crowd: Engine, text: str) -> None:
    """Counted in processor time, because a busy machine may be late."""
    _, late_cpu, how = measured(crowd, answers, text, Budget(seconds=0.2, rows=1_000, combinations=EVERYTHING))
    assert late_cpu < 1
    if how != "ended":
        wait_until(idle)


def test_a_stopped_query_is_a_clear_error_and_the_next_one_runs(crowd: Engine) -> None:
    with pytest.raises(StoppedError, match=r"stopped after 0\.1 seconds"):
        answers(crowd, ENDLESS, budget=Budget(seconds=0.1))
    assert len(answers(crowd, "p(x)", budget=Budget(rows=5))) == 5


def test_all_that_runs_can_be_stopped_from_another_thread(crowd: Engine) -> None:
    stopped = list[GaifmanError]()

    def ask() -> None:
        try:
            answers(crowd, ENDLESS, budget=Budget(combinations=10**30))
        except StoppedError as error:
            stopped.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: crowd.database.running == 2)
    crowd.database.interrupt()
    for thread in threads:
        thread.join()
    assert [error.message for error in stopped] == ["the query was cancelled"] * 2
    assert len(answers(crowd, "r(x, y)", budget=Budget(rows=5))) == 5


def test_queries_of_many_threads_are_answered_side_by_side(crowd: Engine) -> None:
    found: list[int] = []
    stopped: list[StoppedError] = []

    def ask(number: int) -> None:
        try:
            text = ENDLESS if number % 2 else f"r('o{number}', y)"
            found.append(len(answers(crowd, text, budget=Budget(seconds=PATIENCE if number % 2 == 0 else 0.5))))
        except StoppedError as error:
            stopped.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(stopped) == 4


def test_what_does_not_fit_into_memory_goes_to_disk_and_is_gone_afterwards() -> None:
    with Engine(crowded(2_000, 20_000), memory_mb=150, threads=1) as engine:
        folder = Path(engine.database.temp_dir)
        total = engine.database.fetch_scalar(
            "SELECT count(*) FROM (SELECT DISTINCT a.id AS x, b.id * 7 + a.id AS y FROM objects a, objects b)"
        )
        assert total == 4_000_000
        seen, parts = (
            0,
            engine.database.fetch_batches(
                "SELECT a.id AS x, b.id AS y, a.id AS z, b.id AS u FROM objects a, objects b ORDER BY ALL", 500_000
            ),
        )
        for part in parts:
            seen += len(part)
            assert part.shape[1] == 4
        assert seen == 4_000_000
        assert folder.is_dir()
    assert not folder.exists()


def test_more_memory_than_there_may_be_is_a_clear_error() -> None:
    with Engine(KB, memory_mb=64, threads=1) as engine:
        text = "SELECT len(list(a.range || b.range::VARCHAR)) FROM range(20000) a, range(20000) b"
        with pytest.raises(StoppedError, match="more memory than 64 MB"):
            engine.database.fetch_scalar(text, 60)


def test_more_disk_than_there_may_be_is_a_clear_error() -> None:
    """A query could once fill the disk."""
    everything = "SELECT a.id AS x, b.id AS y, a.id AS z, b.id AS u FROM objects a, objects b ORDER BY ALL"
    with (
        Engine(crowded(2_000, 20_000), memory_mb=100, disk_mb=10, threads=1) as engine,
        pytest.raises(StoppedError, match="more memory than 100 MB and 10 MB of disk") as caught,
    ):
        next(engine.database.fetch_batches(everything, 10))
    assert caught.value.hint.endswith("or allow more memory or disk")


def test_limits_can_be_set_later() -> None:
    with Engine(KB) as engine:
        read = "SELECT current_setting('memory_limit'), current_setting('max_temp_directory_size')"
        engine.database.limit(1_000, 5_000)
        assert engine.database.run_job(lambda cursor: cursor.execute(read).fetchone()) == ("953.6 MiB", "4.6 GiB")
        assert engine.database.table_mb > 0


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    """One of them once held 55 GB."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    script = SCRIPT.format(tests=str(Path(__file__).parents[2] / "support"))
    with child([sys.executable, "-c", script], env=environment) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        (folder / "duckdb_temp_storage-0.tmp").write_bytes(bytes(1_000))
        ended = "import sys, gaifman; sys.exit(len(gaifman.query(gaifman.demo(), 'country(x)')) == 0)"
        run(python("-c", ended), env=environment, check=True)
        assert folder.is_dir(), "its process runs"
        process.kill()
        process.wait()
        run(python("-c", ended), env=environment, check=True)
    assert not list(tmp_path.glob("gaifman-*"))


def test_rows_keep_the_order_of_facts() -> None:
    kb = crowded(500, 3_000)
    with Engine(kb) as engine:
        table = kb.fact_tables[2]
        rows = engine.database.fetch_rows("SELECT relation, a1, a2 FROM facts2 ORDER BY rowid")
        assert (rows == np.column_stack([table.relation, table.objects])).all()


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from worst_queries import crowded, chain
from gaifman.queries.engine import Engine
from gaifman.queries.answers import answers
engine = Engine(crowded(), memory_mb=200)
print(engine.database.temp_dir, flush=True)
answers(engine, chain(8))
"""


def interrupt_busy(process: subprocess.Popen[str]) -> None:
    """Send Ctrl-C when the query has worked for a while."""
    begin = cpu_seconds(process.pid)
    wait_until(lambda: process.poll() is not None or cpu_seconds(process.pid) > begin + 0.5)
    process.send_signal(signal.SIGINT)


def test_control_c_ends_the_process_and_leaves_nothing_behind() -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parents[2] / "support"))
    with child([sys.executable, "-c", script]) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        interrupt_busy(process)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in errors
    assert not folder.exists()
    assert str(folder.parent) == tempfile.gettempdir()


def test_the_command_ends_on_control_c_without_a_word_of_python(tmp_path: Path) -> None:
    write(crowded(), tmp_path / "crowd.duckdb")
    words = ["query", str(tmp_path / "crowd.duckdb"), ENDLESS, "--seconds", "3000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with child([sys.executable, "-m", "gaifman", *words], env=environment) as process:
        wait_until(lambda: list(tmp_path.glob("gaifman-*")))
        interrupt_busy(process)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not list(tmp_path.glob("gaifman-*"))


def test_the_statement_shown_runs_unchanged_on_the_saved_file(tmp_path: Path) -> None:
    kb = crowded(300, 2_000)
    write(kb, tmp_path / "crowd.duckdb")
    texts = [
        "exists z. r(x, z) & s(z, y) & ~t(x, y)",
        "p(x) & (forall y. r(x, y) -> exists z. s(y, z))",
        "r(x, y) | s(y, x)",
        "age(x) > 90 & ~p(x)",
        "exists q. q(x, 'o1')",
    ]
    with duckdb.connect(str(tmp_path / "crowd.duckdb"), read_only=True) as saved:
        for text in texts:
            rows = saved.execute(prepare(kb, text).statement.ordered_sql()).fetchall()
            assert [list(row) for row in rows] == answers(kb, text).tuples.tolist()
