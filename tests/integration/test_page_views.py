"""The page in a browser: views, snippets, keyboard and long names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import gaifman
from browser import CHROMIUM, CONTRAST, MISSING, SQUEEZED, UNSEEN, Fields, Watched, watched
from constrained import completed, completed_by_default, countries
from gaifman.cli.console import InputOptions, python_snippet
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.server.middleware import ServerLimits
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import PATIENT, TIMEOUT, Client, serving
from processes import PATIENCE, python, run
from trained import GOOD, towns

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
expect.set_options(timeout=1_000 * PATIENCE)
LONG = "/award/award_nominee/award_nominations./award/award_nomination/award_nominee_of_the_year"
REASON: Fields = {"q": "works_in('p01', y)", "why": "t1", "prior": "0.01"}
EXACT: Fields = {"q": "exists z. lives_in(x, z) & town_of(z, y)", "facts": "1"}
VIEWS: dict[str, Fields] = {
    "start": {},
    "answers": {"q": "works_in('p01', y)"},
    "reasons": REASON,
    "exact": EXACT,
    "object": {"object": "newcomer"},
    "degrees": {"view": "degrees"},
    "model": {"view": "model"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a knowledge base and of a model of two of its relations."""
    found = tmp_path_factory.mktemp("files")
    kb = towns().with_facts([("person", "newcomer"), ("lives_in", "newcomer", "t3")])
    (found / "kb.facts").write_text("\n".join(map(str, kb.facts())))
    gaifman.complete(gaifman.read(found / "kb.facts"), ["works_in", "citizen"], **GOOD).save(found / "towns.gaifman")
    return found


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    """A server of these files."""
    sources, model = (str(folder / "kb.facts"),), str(folder / "towns.gaifman")
    kb = gaifman.read(*sources)
    lines = python_snippet(sources, InputOptions(), model)
    with serving(ServerState(Service(kb, gaifman.load(model, kb), PATIENT), python=lines)) as found:
        yield found


@pytest.fixture(scope="module")
def bare() -> Iterator[Client]:
    """A server with long names, many facts and few rows per page, without a model."""
    facts = [(LONG, f"/m/{i % 7}", "hub") for i in range(7)] + [("p", "hub", f"o{i}") for i in range(60)]
    kb = KnowledgeBase.from_facts([*facts, *((f"{LONG}_{i}", "hub", "a" * 300) for i in range(40))])
    with serving(ServerState(Service(kb, None, ServerLimits(max_rows=30, seconds=TIMEOUT)))) as found:
        yield found


@pytest.fixture
def plain(window: Browser, bare: Client) -> Iterator[Watched]:
    """A window for a server without a model."""
    yield from watched(window, bare.port)


def test_the_start_shows_missing_facts_with_explanations(web: Watched) -> None:
    page = web.open()
    assert page.locator("#q").get_attribute("placeholder") == "citizen('p00', y)"
    row = page.locator(".missing li", has_text="works_in(newcomer, t3)")
    expect(row.locator(".figure")).to_have_text(page.locator(".missing .figure").first.inner_text())
    row.get_by_role("link").click()
    expect(page.locator("section.panel h2")).to_contain_text("works_in('newcomer', 't3')")
    expect(page.locator("p.description").first).to_have_text("newcomer lives in t3")
    expect(page.locator(".answers tr.open")).to_contain_text("t3")


def test_the_start_is_there_before_the_model_has_answered(web: Watched) -> None:
    held = list[Route]()
    web.page.route("**/api/answers*", lambda route: held.append(route))  # noqa: PLW0108 - it gets an attribute
    web.page.goto(f"{web.origin}/")
    expect(web.page.locator(".card").first).to_be_visible()
    expect(web.page.locator(".beside")).to_contain_text("Asking the model")
    assert len(held) <= 1  # one question at a time
    web.page.unroute("**/api/answers*")  # what was held goes on
    web.settled()


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_the_same_after_a_reload_and_on_the_way_back(web: Watched, view: str) -> None:
    def main() -> str:
        return web.settled().locator("main").inner_text()

    web.open(**VIEWS[view])
    first = main()
    web.page.reload()
    assert main() == first
    web.page.get_by_role("link", name="Degrees").click()
    expect(web.page.locator("h1")).to_contain_text("Degree distribution")
    web.page.go_back()
    expect(web.page.locator("h1")).not_to_contain_text("Degree distribution" if view != "degrees" else "?")
    assert main() == first


def test_snippets_run(web: Watched, folder: Path) -> None:
    pythons: list[str] = []
    for name, view in VIEWS.items():
        page = web.open(**view)
        curls = page.locator("pre[aria-label=curl]").all_text_contents()
        lines = page.locator("pre[aria-label=Python]").all_text_contents()
        assert len(curls) == len(lines) > 0, name
        for curl in curls if shutil.which("curl") else []:
            done = run(["bash", "-c", f"{curl} --fail"])
            assert done.stdout.startswith("{"), (name, curl, done.stderr)
        pythons += lines
    environment = {**os.environ, "PYTHONPATH": str(Path(gaifman.__file__).parent.parent)}
    script = "\nprint('---')\n".join(dict.fromkeys(pythons))
    assert "…" not in script
    done = run(python("-c", script), cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("---\n")
    assert len(parts) == len(dict.fromkeys(pythons))
    assert all(part.strip() for part in parts)


def test_escape_closes_the_explanation_and_focuses_the_answer(web: Watched) -> None:
    page = web.open(q="works_in('p01', y)", top="3")
    why = page.get_by_role("link", name="Why t1?")
    why.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#why")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.locator("section.panel")).to_have_count(0)
    expect(page.get_by_role("link", name="Why t1?")).to_be_focused()
    assert "top=3" in page.url


def test_the_query_box_is_accessible(web: Watched) -> None:
    page = web.open()
    box = page.get_by_role("combobox", name="Query")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("works_in('p0")
    expect(page.get_by_role("option")).to_have_count(8)
    assert page.evaluate(CONTRAST, 4.5)[1] == []
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    active = box.get_attribute("aria-activedescendant")
    expect(page.locator(f"#{active}")).to_have_attribute("aria-selected", "true")
    assert page.evaluate(CONTRAST, 4.5)[1] == []
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(box).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#options")).to_be_hidden()
    assert box.input_value() == "works_in('p0"


@pytest.mark.parametrize("view", ["start", "reasons", "object"])
def test_keyboard_focus_is_visible(web: Watched, view: str) -> None:
    page = web.open(**VIEWS[view])
    seen = list[str]()
    page.locator("body").focus()
    for _ in range(150):
        page.keyboard.press("Tab")
        at = page.evaluate(UNSEEN)
        if at is None:
            break
        assert not at["unseen"], at["name"]
        seen.append(at["name"])
    assert len(seen) > 10
    assert seen[0] == "Skip to the answers" or view == "reasons"  # where the title of the panel is the first
    assert page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").count() == 0


def test_an_object_with_many_facts_leads_to_all_of_them(plain: Watched) -> None:
    page = plain.open(object="hub")
    expect(page.locator(".pages")).to_contain_text("1 to 30 of 107")
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("31 to 60 of 107")
    page.locator(".chip", has_text="p 60").click()
    expect(page.locator(".pages")).to_contain_text("1 to 30 of 60")
    expect(page.locator(".group h3")).to_have_text("p 30")
    expect(page.locator(".fact").first).to_contain_text("p(hub, o0)")


def test_long_names_are_neither_wide_nor_squeezed(plain: Watched) -> None:
    views: list[Fields] = [
        {},
        {"object": "hub"},
        {"q": f"'{LONG}'(x, y)", "facts": "1"},
        {"q": f"'{LONG}_1'(x, y)", "facts": "1"},
        {"q": f"'{LONG}x'(x, y)"},
        {"view": "degrees"},
    ]
    for view in views:
        page = plain.open(**view)
        for width in (320, 800, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (view, width)
            assert page.evaluate(SQUEEZED) == [], (view, width)


@pytest.mark.parametrize("make", [completed, completed_by_default])
def test_conflicts_are_shown_with_answers_and_explanations(
    window: Browser, make: Callable[[], gaifman.Completion]
) -> None:
    with serving(ServerState(Service(countries(), make(), PATIENT))) as found:
        for opened in watched(window, found.port):
            page = opened.open(q="capital('country03', y)", why="second03")
            message = "conflicts with capital(country03, first03)"
            expect(page.locator("tr", has_text="second03").locator(".conflict")).to_have_text(message)
            against = page.locator(".reasons", has_text="Evidence against").locator("li").first
            expect(against).to_contain_text(message)
            expect(against).to_contain_text("functional: capital 1→2")
            expect(page.locator(".without")).to_contain_text("first03")
            for width in (320, 800, 1600):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
                assert page.evaluate(SQUEEZED) == [], width


def test_the_explanation_of_ranked_lists_has_their_parts(window: Browser) -> None:
    with serving(ServerState(Service(countries(), completed_by_default(), PATIENT))) as found:
        for opened in watched(window, found.port):
            page = opened.open(q="capital('country39', y)", why="first39")
            expect(page.locator("section.panel h2")).to_contain_text("capital('country39', 'first39')")
            expect(page.locator(".reasons", has_text="Evidence for").locator("li").first).to_be_visible()
            page.get_by_text("Sum of log-odds").click()
            table = page.locator("table.sum")
            expect(table).to_contain_text("competition: the other candidates")
            expect(table).not_to_contain_text("averaging")
            expect(table).not_to_contain_text("NaN")
            page = opened.open()
            expect(page.locator(".missing li").first).to_be_visible()
            page = opened.open(view="model")
            expect(page.locator("main")).to_contain_text("listwise")


def test_rows_of_answers_are_not_squeezed(web: Watched) -> None:
    for view in VIEWS.values():
        page = web.open(**view)
        for width in (320, 800, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate(SQUEEZED) == [], (view, width)


def test_a_new_view_begins_at_its_top_and_an_old_one_where_it_was(plain: Watched) -> None:
    page = plain.open(object="hub", relation="p")
    page.set_viewport_size({"width": 600, "height": 400})
    page.evaluate("scrollTo(0, 300)")
    link = page.locator(".fact a").last
    link.scroll_into_view_if_needed()
    was = page.evaluate("scrollY")
    assert was > 0
    link.click()
    expect(page.locator("h1")).to_contain_text("o")
    plain.settled()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(page.locator("h1")).to_contain_text("hub")
    plain.settled()
    page.wait_for_function("(was) => Math.abs(scrollY - was) < 2", arg=was)


def test_the_documentation_of_the_http_interface(web: Watched, client: Client) -> None:
    page = web.open()
    page.get_by_role("link", name="HTTP interface").click()
    web.settled()
    document = client.get("/openapi.json").json
    operations = [(method, path) for path, methods in document["paths"].items() for method in methods]
    expect(page.locator("section.operation[id*='-']")).to_have_count(len(operations))
    section = page.locator("#get-api-answers")
    expect(section).to_contain_text("GET /api/answers")
    for parameter in document["paths"]["/api/answers"]["get"]["parameters"]:
        expect(section).to_contain_text(parameter["name"])
    section.get_by_role("link", name="AnswersResponse").click()
    expect(page.locator("#AnswersResponse")).to_be_in_viewport()
    expect(page.locator("#AnswerRow")).to_contain_text("standard_error")
    for name in document["components"]["schemas"]:
        expect(page.locator(f"#{name}")).to_have_count(1)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(CONTRAST, 4.5)[1] == []
    for width in (320, 800, 1600):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    assert page.evaluate(SQUEEZED) == []


def test_an_empty_knowledge_base_has_a_page(window: Browser) -> None:
    with serving(ServerState(Service(KnowledgeBase.from_facts([])))) as client:
        for found in watched(window, client.port):
            page: Page = found.open()
            expect(page.locator("h1")).to_have_text("What is known?")
            found.open(view="degrees")
            expect(page.locator("main")).to_contain_text("No object has a neighbour")
