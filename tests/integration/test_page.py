"""The page in a browser: the main tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser import CHROMIUM, CONTRAST, MISSING, Watched
from gaifman.server.app import STATIC_DIR, static_files
from gaifman.server.edits import EditsFile
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import PATIENT, TOKEN, Client, serving
from processes import PATIENCE
from trained import towns, worker

real = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert('1')</script>",
    "a\u202eb",
    "it's\\n",
    "x" * 300,
]
VIEWS: list[dict[str, str | list[str]]] = [
    {},
    {"q": "works_in('p01', y)", "why": "t1"},
    {"q": "exists z. lives_in(x, z) & town_of(z, y)", "facts": "1"},
    {"q": "werks_in(x, y)"},
    {"object": "p03"},
    {"object": HOSTILE[4]},
    {"view": "degrees"},
    {"view": "model"},
    {"view": "add"},
]
expect.set_options(timeout=1_000 * PATIENCE)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with hostile names, a model and permission to add facts."""
    new = [("person", "newcomer"), ("lives_in", "newcomer", "t3"), *(("lives_in", name, "t0") for name in HOSTILE)]
    kb = towns().with_facts(new)
    edits = EditsFile(tmp_path_factory.mktemp("web") / "new.facts")
    with serving(ServerState(Service(kb, worker(), PATIENT), edits, TOKEN)) as found:
        yield found


@real
def test_from_a_query_to_an_explanation_and_back(web: Watched) -> None:
    page = web.open()
    expect(page.locator(".card").first).to_contain_text("works_in(x, y)")
    page.locator("#q").press_sequentially("wor")
    page.get_by_role("option", name="works_in").click()
    page.locator("#q").press_sequentially("'p01', y)")
    expect(page.locator("#parsed")).to_contain_text("parsed as works_in('p01', y)")
    page.get_by_role("button", name="Ask").click()
    rows = page.locator("table.answers tbody tr")
    expect(rows.first).to_contain_text("known")
    expect(page.locator("tr.predicted").first).to_be_visible()
    assert "q=works_in" in page.url
    page.get_by_role("link", name="Why t1?").click()
    panel = page.locator("section.panel")
    expect(panel.get_by_role("heading", level=2)).to_contain_text("works_in('p01', 't1')")
    expect(panel).to_contain_text("the odds by")
    expect(panel).to_contain_text("The probability would be")
    expect(panel.locator("svg .gaifman-name").first).to_be_visible()
    assert panel.locator("svg path.gaifman-for").count()
    page.go_back()
    expect(panel).to_have_count(0)
    page.go_back()
    expect(page.locator(".card").first).to_be_visible()


@real
def test_a_fact_is_added_and_the_answer_changes(web: Watched) -> None:
    page = web.open(q="moved(x, y, 't4') & works_in(x, 't1')")
    expect(page.locator("caption")).to_contain_text("No answer")
    page.get_by_role("link", name="Add a fact").click()
    page.locator("#relation").fill("moved")
    for place, name in enumerate(("p01", "t0", "t4"), start=1):
        page.locator(f"#object-{place}").fill(name)
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Add fact").click()
    expect(page.locator("#result")).to_contain_text("Added.")
    page.get_by_role("link", name=re.compile("Ask again")).click()
    expect(page.locator("table.answers tbody tr")).to_have_count(1)
    expect(page.locator("table.answers tbody tr")).to_contain_text("p01")


@real
def test_an_error_is_marked_and_corrected(web: Watched) -> None:
    page = web.open(q="werks_in('p01', y)")
    expect(page.locator(".caret")).to_have_text("werks_in('p01', y)\n^^^^^^^^")
    expect(page.locator("main")).to_contain_text("Query syntax")
    expect(page.locator("#parsed")).to_contain_text("there is no relation werks_in")
    page.locator("#parsed").get_by_role("button", name="works_in").click()
    expect(page.locator("#parsed")).to_contain_text("parsed as works_in('p01', y)")


@real
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_as_text(web: Watched, name: str) -> None:
    page = web.open(object=name)
    shown = name.replace("\u202e", "\\u202e")
    assert page.locator("h1").inner_text().strip() == shown
    expect(page.locator(".fact").first).to_contain_text(f"lives_in({shown}, t0)")
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 1


@real
def test_hostile_names_are_completed_and_asked_for(web: Watched) -> None:
    page = web.open()
    page.locator("#q").press_sequentially("lives_in('it")
    page.get_by_role("option", name="it's").click()
    page.locator("#q").press_sequentially(", y)")
    page.locator("#q").press("Enter")
    expect(page.locator("table.answers tbody tr")).to_contain_text("t0")
    assert page.locator("#q").input_value() == r"lives_in('it\'s\\n', y)"


@real
def test_everything_works_with_the_keyboard(web: Watched) -> None:
    page = web.open()
    page.keyboard.press("/")
    page.keyboard.type("liv")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("x, 't3")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type(")")
    page.keyboard.press("Enter")
    expect(page.locator("caption")).to_contain_text("9 answers")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "newcomer":
            break
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("newcomer")
    expect(page.locator(".missing li").first).to_contain_text("works_in(newcomer, t3)")
    page.go_back()
    expect(page.locator("caption")).to_contain_text("9 answers")


@real
def test_an_object_the_degrees_and_the_model(web: Watched) -> None:
    page = web.open(object="p03")
    expect(page.locator(".values")).to_contain_text("age")
    expect(page.locator(".group").last).to_contain_text("works_in(p03, t3)")
    page.get_by_role("link", name="Degrees").click()
    expect(page.locator(".chart circle").first).to_be_visible()
    page.get_by_role("link", name="Model card").click()
    expect(page.locator("article h1")).to_contain_text("Model of")


@real
def test_the_curl_snippet_works(web: Watched, client: Client) -> None:
    page = web.open(q="works_in('p01', y)")
    page.locator("summary", has_text="curl").click()
    curl = page.locator("pre[aria-label=curl]").inner_text()
    found = re.fullmatch(r"curl -s 'http://[^/]*(/api/answers\?.*)'", curl)
    assert found
    assert client.get(found[1]).json["query"] == "works_in('p01', y)"
    assert "model.answers(\"works_in('p01', y)\"" in page.locator("pre[aria-label=Python]").inner_text()


def wide(page: Page) -> int:
    """Return how much wider the page is than its window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return found


@real
def test_every_view_is_usable_narrow_wide_light_and_dark(web: Watched) -> None:
    for view in VIEWS:
        page = web.open(**view)
        for width in (320, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert wide(page) <= 0, (view, width)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            seen, poor = page.evaluate(CONTRAST, 4.5)
            assert seen > 10
            assert poor == [], (view, theme)


def test_the_page_is_plain_files_without_other_addresses() -> None:
    files = static_files()
    assert {"/", "/main.js", "/style.css", "/icon.svg"} <= set(files)
    for path in Path(STATIC_DIR).rglob("*"):
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path.name
        assert "innerHTML" not in text, path.name
        assert "eval(" not in text, path.name
        assert not re.search(r"<style|\sstyle=|\son\w+=\"", text), path.name
        assert text.count("\n") <= 400, path.name
