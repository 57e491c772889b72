"""Progress bars: only on a terminal, and right. The clock is the test's own."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest
from numba import njit
from rich.console import Console

from gaifman.cli import console
from gaifman.cli.console import format_counts, read_progress, work_progress
from gaifman.config import ProgressCallback
from gaifman.kernels import jit
from processes import wait_until


class Terminal:
    """A terminal in memory, with a clock that moves only when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int = 120, delay: float = 0.0) -> None:
        self.file, self.now = io.StringIO(), 0.0
        screen = Console(file=self.file, force_terminal=True, width=columns, height=40)
        monkeypatch.setattr(console, "_terminal", lambda: screen)
        monkeypatch.setattr(console, "_bars", partial(console._bars, clock=lambda: self.now))
        monkeypatch.setattr(console, "PROGRESS_DELAY", delay)

    @property
    def text(self) -> str:
        """All that was written, without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(monkeypatch)


def test_phase_share_count_rate_and_time_left_are_shown(terminal: Terminal) -> None:
    with work_progress("tuples") as report:
        assert report
        for step in range(1, 8):
            report("training parent", step * 500, 10_000)
            terminal.now += 0.1
    assert re.search(r"training parent .* 35%  3,500/10,000  5,000 tuples/s 0:00:02 left", terminal.text)


def test_work_without_known_end_and_hostile_phases(terminal: Terminal) -> None:
    with work_progress() as report:
        assert report
        report("[bold]a\tb[/]", 5, None)
    assert "[bold]a\\tb[/]" in terminal.text
    assert "%" not in terminal.text


def test_complete_phases_disappear_when_another_begins(terminal: Terminal) -> None:
    with work_progress() as report:
        assert report
        report("first", 3, 3)
        report("second", 1, 3)
        report("third", 1, 3)
    assert "first" not in terminal.text.rpartition("third")[0].rpartition("second")[2]
    assert "second" in terminal.text


def test_threads_may_report_at_once(terminal: Terminal) -> None:
    def work(report: ProgressCallback, number: int) -> None:
        for step in range(200):
            report(f"phase {number}", step, 199)

    with work_progress() as report:
        assert report
        threads = [threading.Thread(target=work, args=(report, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert "phase" in terminal.text


def test_a_phase_that_does_not_report_again_is_shown_after_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, delay=0.05)
    with work_progress() as report:
        assert report
        report("preparing", 0, None)
        report("training", 1, 10)
        wait_until(lambda: "training" in terminal.text)
    assert "preparing" not in terminal.text


def test_resumed_work_has_no_rate_for_what_was_done_before(terminal: Terminal) -> None:
    with work_progress("tuples") as report:
        assert report
        for step in range(5):
            report("training", 1_000_000 + step, 1_000_100)
            terminal.now += 0.1
    rates = [float(rate.replace(",", "")) for rate in re.findall(r"([\d.,]+) tuples/s", terminal.text)]
    assert rates
    assert max(rates) <= 10.1


def test_on_a_narrow_terminal_the_bar_shrinks_and_the_time_left_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, columns=80)
    with work_progress("tuples") as report:
        assert report
        for step in range(1, 8):
            report("training", step * 5_000, 800_000)
            terminal.now += 0.1
    assert re.search(r"tuples/s \d:\d\d:\d\d left", terminal.text)


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, delay=60)
    with work_progress() as report:
        assert report
        report("quick", 1, 1)
    assert terminal.text == ""


def test_the_first_run_shows_that_kernels_are_compiled(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "MIN_SECONDS", 0.0)
    inner = njit(lambda x: x + 1)
    outer = njit(lambda x: inner(x) * 2)
    with work_progress("tuples", kernels=4) as report:
        assert report
        report("preparing", 0, None)
        assert outer(1) == 4
    assert "compiling kernels (first run)" in terminal.text
    assert "50%  2/4" in terminal.text


def test_the_bar_of_compilation_disappears_when_work_goes_on(terminal: Terminal) -> None:
    with work_progress("tuples", kernels=20) as report:
        assert report
        for step in range(4):
            report(jit.PHASE, step, 20)
            terminal.now += 0.1
        report("training", 1, 10)
    assert "functions/s" not in terminal.text.rpartition("training")[2]
    assert "training" in terminal.text


def test_reading_shows_bytes_and_a_rate(terminal: Terminal) -> None:
    with read_progress() as report:
        assert report
        for step in range(1, 5):
            report("reading long.tsv", step * 1_000_000, 8_000_000)
            terminal.now += 0.1
    assert "reading long.tsv" in terminal.text
    assert "4.0/8.0 MB" in terminal.text
    assert "MB/s" in terminal.text


@pytest.mark.parametrize("bar", [read_progress, work_progress])
def test_without_a_terminal_there_is_nothing_to_report_to(
    bar: Callable[[], AbstractContextManager[ProgressCallback | None]], capfd: pytest.CaptureFixture[str]
) -> None:
    with bar() as report:
        assert report is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 10, None, "x"), "  0%  0/10"),
        ((10, 10, 3.25, "x"), "100%  10/10  3.2 x/s"),
        ((0, 0, None, "x"), "0/0"),
        ((1_234_567, None, 1e6, "answers"), "1,234,567  1,000,000 answers/s"),
        ((1, 3, 0.0, "x"), " 33%  1/3"),
    ],
)
def test_counts_as_text(arguments: tuple[int, float | None, float | None, str], text: str) -> None:
    assert format_counts(*arguments) == text
