"""A real browser for the page: chromium, driven by playwright. Not a test itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from processes import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "chromium is not installed: tests of the page are skipped (as root: apt-get install chromium)"


Field = str | list[str]
Fields = dict[str, Field]
"""Fields of the address of a view."""


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the installed browser; nothing is downloaded."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM)
        try:
            yield found
        finally:
            found.close()


class Watched:
    """A window that records console errors and requests to other hosts."""

    def __init__(self, page: Page, port: int) -> None:
        self.page, self.origin = page, f"http://127.0.0.1:{port}"
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        page.set_default_timeout(1_000 * PATIENCE)

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((f"{self.origin}/", "data:")):
            self.foreign.append(url)

    def open(self, **fields: Field) -> Page:
        """Open a view and wait until it is complete."""
        self.page.goto(f"{self.origin}/?{urlencode(fields, doseq=True)}")
        return self.settled()

    def settled(self) -> Page:
        """Wait until the view is complete."""
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page


def watched(window: Browser, port: int) -> Iterator[Watched]:
    """Yield a new window; fail on console errors and requests to other hosts."""
    context = window.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    found = Watched(context.new_page(), port)
    yield found
    assert found.complaints == []
    assert found.foreign == []
    context.close()


# In the page: visible texts whose contrast with their background is below a bound.
CONTRAST = """
(least) => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const over = (top, below) => [0, 1, 2].map((i) => (top[i] * top[3] + below[i] * (255 - top[3])) / 255);
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const pill = one.closest?.(".gaifman-name")?.querySelector("rect");
      layers.push(rgba(pill && one === element ? getComputedStyle(pill).fill : getComputedStyle(one).backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.localName === "title") continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const [one, other] = [light(over(rgba(colour), back)), light(back)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    seen += 1;
    const named = `${element.localName}.${element.getAttribute("class")}: ${element.textContent.slice(0, 40)}`;
    if (ratio < least) poor.push(`${ratio.toFixed(2)} ${named}`);
  }
  return [seen, poor];
}
"""

# In the page: texts in columns so narrow that they wrap at every letter.
SQUEEZED = """
() => [...document.querySelectorAll("main :is(p, td, th, li, a, code, h1, h2, h3, dt, dd, summary, span)")]
  .filter((one) => one.checkVisibility() && one.textContent.trim().length > 8 && !one.closest("svg"))
  .filter((one) => one.getBoundingClientRect().width < 44)
  .map((one) => `${one.localName}.${one.className}: ${one.textContent.slice(0, 40)}`)
"""

# In the page: the focused element, and whether its focus is invisible; null after the last element.
UNSEEN = """
() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  const name = one.getAttribute("aria-label") || one.textContent.trim().slice(0, 40) || one.id;
  const box = one.getBoundingClientRect();
  const seen = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0;
  return { name, unseen: !seen || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2 };
}
"""
