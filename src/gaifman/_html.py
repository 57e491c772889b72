r"""HTML for notebooks: small tables, bars of probabilities, and text that shows as it is.

>>> table(("name", "facts"), [("a<b", 3)], right=[1]).count("a&lt;b")
1
>>> print(to_html("<b>\u202e"), to_html(Html("<b>bold</b>")))
&lt;b&gt;\u202e <b>bold</b>

Text is escaped unless it is `Html`, which only the functions here and those who call `Html` themselves make. So a name
from a file can be no markup by being forgotten. Styles stand inline, and colours are such that a light and a dark page
can be read; nothing comes from outside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from gaifman.errors import escape_unprintable

POSITIVE_COLOUR, NEGATIVE_COLOUR = "#1f6fb4", "#c8641a"
"""The colours of what speaks for an answer, and against it."""
TRACK_COLOUR = "rgba(128,128,128,0.25)"
"""Behind a bar: a grey that lets the page through, whatever its colour is."""
BAR_WIDTH = 80
"""Of a bar, in pixels."""


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def to_html(text: object) -> Html:
    """What shows the text as it is; control characters and marks of direction become visible."""
    return text if isinstance(text, Html) else Html(escape(escape_unprintable(str(text))))


def element(tag: str, *parts: object, style: str = "") -> Html:
    """An element with these parts in it."""
    own = f' style="{style}"' if style else ""
    return Html(f"<{tag}{own}>{''.join(map(to_html, parts))}</{tag}>")


def code(text: object) -> Html:
    """A formula, or a fact."""
    return element("code", text)


def bold(text: object) -> Html:
    """What matters most."""
    return element("b", text)


def muted(text: object) -> Html:
    """What matters less."""
    return element("span", text, style="opacity:0.65")


def paragraph(*parts: object) -> Html:
    """A paragraph."""
    return element("p", *parts, style="margin:4px 0")


def bullet_list(items: Iterable[object]) -> Html:
    """A list."""
    return element("ul", *(element("li", item) for item in items), style="margin:2px 0")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], numeric_columns: Collection[int] = ()) -> Html:
    """A table with a head, unless all of that is empty; the columns `right`, from 0, hold numbers."""

    def cells(tag: str, row: Sequence[object]) -> Html:
        sides = ("right" if number in numeric_columns else "left" for number in range(len(row)))
        return element("tr", *(element(tag, c, style=f"text-align:{side}") for c, side in zip(row, sides, strict=True)))

    body = element("tbody", *(cells("td", row) for row in rows))
    return element("table", element("thead", cells("th", header)) if any(header) else "", body)


def bar(fraction: float, label: object) -> Html:
    """A bar as long as the share from 0 to 1, and words beside it.

    >>> "width:20px" in bar(0.25, "0.250")
    True
    """
    length = round(BAR_WIDTH * min(1.0, max(0.0, fraction)))  # in this order: what is not a number has no bar
    full = element(
        "span", style=f"display:block;width:{length}px;height:8px;border-radius:4px;background:{POSITIVE_COLOUR}"
    )
    whole = f"display:inline-block;width:{BAR_WIDTH}px;height:8px;border-radius:4px;background:{TRACK_COLOUR};margin-right:8px"
    return element("span", element("span", full, style=whole), label, style="white-space:nowrap")


def signed_number(effect: float) -> Html:
    """A number with its sign, beside the colour of what it speaks for."""
    colour = POSITIVE_COLOUR if effect >= 0 else NEGATIVE_COLOUR
    return element("span", f"{effect:+.3f}", style=f"border-left:4px solid {colour};padding-left:6px")


def stack(*parts: object) -> str:
    """Parts below one another: what a notebook shows."""
    return str(element("div", *parts))
