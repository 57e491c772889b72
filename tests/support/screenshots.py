"""Pictures of the page with the demo, for the documentation: `make screenshots`."""

from __future__ import annotations

from pathlib import Path

import gaifman
from browser import CHROMIUM, MISSING, Watched, browser
from gaifman.explain.svg import write_svg
from gaifman.server.service import Service
from gaifman.server.state import ServerState
from http_client import PATIENT, serving

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
RELATIONS = ["borders", "capital", "official_language", "separates", "uses_currency"]
HIDDEN = {
    ("borders", ("france", "italy")),
    ("borders", ("italy", "france")),
    ("capital", ("italy", "rome")),
}
"""Facts that are removed, so that true facts are missing."""
SHOTS: list[tuple[str, int, int, str, dict[str, str | list[str]]]] = [
    ("web-start", 1600, 1000, "light", {}),
    ("web-explanation", 1600, 1250, "light", {"q": "capital('italy', y)", "why": "rome"}),
    ("web-object", 1600, 1000, "dark", {"object": "italy"}),
    ("web-narrow", 320, 900, "dark", {"q": "borders('france', y)"}),
]


def main() -> None:
    """Train a few relations, draw an explanation, and take every picture of the page."""
    if CHROMIUM is None:
        raise SystemExit(MISSING)
    whole = gaifman.demo()
    facts = [fact for fact in whole.facts() if (fact.relation, fact.objects) not in HIDDEN]
    kb = gaifman.KnowledgeBase.from_facts(facts, {(name, obj): value for name, obj, value in whole.values()})
    model = gaifman.complete(kb, RELATIONS, seed=1)
    write_svg(model.explain("borders", "portugal", "spain").svg(), FOLDER / "explanation.svg")
    print("wrote docs/pictures/explanation.svg")
    with serving(ServerState(Service(kb, model, PATIENT))) as client, browser() as found:
        for name, width, height, theme, view in SHOTS:
            size = {"width": width, "height": height}
            context = found.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
            page = Watched(context.new_page(), client.port).open(**view)
            page.wait_for_load_state("networkidle")
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=FOLDER / f"{name}.png")
            context.close()
            print(f"wrote docs/pictures/{name}.png")


if __name__ == "__main__":
    main()
