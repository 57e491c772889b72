"""Bars for long work: on a terminal alone, and right."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from gaifman.cli.console import format_counts, read_progress, work_progress

WORK = """
import threading, time
import gaifman.cli.console as t
t.PROGRESS_DELAY = {patience}
with t.work_progress("tuples") as report:
    {body}
"""


def on_a_terminal(body: str, patience: float = -1, columns: int = 120) -> str:
    """What a person sees of some work, escapes and all."""
    main, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    code = WORK.format(patience=patience, body=body.replace("\n", "\n    "))
    process = subprocess.Popen([sys.executable, "-c", code], stderr=other, env=environment)
    os.close(other)
    seen = b""
    try:
        while chunk := os.read(main, 65536):
            seen += chunk
    except OSError:
        pass  # Linux says so when the other side is closed
    assert process.wait() == 0, seen
    os.close(main)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode(errors="replace"))


def test_phase_share_count_rate_and_time_left_are_shown() -> None:
    seen = on_a_terminal('for i in range(1, 8):\n    report("training parent", i * 500, 10_000)\n    time.sleep(0.1)')
    assert "training parent" in seen
    assert re.search(r"\d+%  [\d,]+/10,000  [\d,]+ tuples/s", seen)
    assert re.search(r"0:00:0\d", seen)
    rates = [int(rate.replace(",", "")) for rate in re.findall(r"([\d,]+) tuples/s", seen)]
    assert 50 < rates[-1] < 8_000


def test_work_without_known_end_and_hostile_phases() -> None:
    seen = on_a_terminal('report("[bold]a\\tb[/]", 5, None)\ntime.sleep(0.2)')
    assert "[bold]a\\tb[/]" in seen
    assert "%" not in seen


def test_complete_phases_go_when_another_begins() -> None:
    body = 'report("first", 3, 3)\ntime.sleep(0.2)\nreport("second", 1, 3)\ntime.sleep(0.3)\nreport("third", 1, 3)'
    last = on_a_terminal(body).rsplit("third", 1)[0].rsplit("second", 1)
    assert "first" in last[0]
    assert "first" not in last[1]


def test_threads_may_report_at_once() -> None:
    body = (
        "def work(n):\n    for i in range(200):\n        report(f'phase {n}', i, 199)\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\ntime.sleep(0.2)"
    )
    assert "phase" in on_a_terminal(body)


def test_a_phase_that_is_not_heard_of_again_is_shown_when_patience_ends() -> None:
    seen = on_a_terminal('report("preparing", 0, None)\ntime.sleep(0.6)', patience=0.2)
    assert "preparing" in seen
    body = 'report("preparing", 0, None)\nreport("learning", 1, 10)\ntime.sleep(0.6)'
    seen = on_a_terminal(body, patience=0.2)
    assert "learning" in seen
    assert "preparing" not in seen


def test_work_that_goes_on_has_no_rate_for_what_was_done_before() -> None:
    body = 'for i in range(5):\n    report("learning", 1_000_000 + i, 1_000_100)\n    time.sleep(0.1)'
    rates = [float(rate.replace(",", "")) for rate in re.findall(r"([\d.,]+) tuples/s", on_a_terminal(body))]
    assert rates
    assert max(rates) < 1000


def test_on_a_narrow_terminal_the_bar_gives_way_to_the_time_left() -> None:
    body = 'for i in range(1, 8):\n    report("learning", i * 5_000, 800_000)\n    time.sleep(0.1)'
    assert re.search(r"tuples/s \d:\d\d:\d\d left", on_a_terminal(body, columns=80))


def test_work_of_a_moment_shows_nothing() -> None:
    assert on_a_terminal('report("quick", 1, 1)', patience=60) == ""


@pytest.mark.parametrize("bar", [read_progress, work_progress])
def test_without_a_terminal_there_is_nothing_to_report_to(bar, capfd: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
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
