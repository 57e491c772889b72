r"""HTML for notebooks: small tables, bars of probabilities and escaped text.

>>> table(("name", "facts"), [("a<b", 3)], numeric_columns=[1]).count("a&lt;b")
1
>>> print(to_html("<b>\u202e"), to_html(Html("<b>bold</b>")))
&lt;b&gt;\u202e <b>bold</b>

Text is escaped unless it is `Html`, so a name from a file can never become markup. Styles are inline, the colours can
be read on light and dark pages, and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from gaifman.errors import escape_unprintable

POSITIVE_COLOUR, NEGATIVE_COLOUR = "#1f6fb4", "#c8641a"
"""Colours of evidence for and against an answer."""
TRACK_COLOUR = "rgba(128,128,128,0.25)"
"""Background of a bar, translucent."""
BAR_WIDTH = 80
"""Width of a full bar, in pixels."""


class Html(str):
    """HTML, which is not escaped again."""

    __slots__ = ()


def to_html(text: object) -> Html:
    """Return the text escaped; control and bidirectional characters become visible."""
    return text if isinstance(text, Html) else Html(escape(escape_unprintable(str(text))))


def element(tag: str, *parts: object, style: str = "") -> Html:
    """Return an element with the parts, escaped, as its content."""
    attribute = f' style="{style}"' if style else ""
    return Html(f"<{tag}{attribute}>{''.join(map(to_html, parts))}</{tag}>")


def code(text: object) -> Html:
    """Return a formula or fact as code."""
    return element("code", text)


def bold(text: object) -> Html:
    """Return bold text."""
    return element("b", text)


def muted(text: object) -> Html:
    """Return grey text."""
    return element("span", text, style="opacity:0.65")


def paragraph(*parts: object) -> Html:
    """Return a paragraph."""
    return element("p", *parts, style="margin:4px 0")


def bullet_list(items: Iterable[object]) -> Html:
    """Return a bullet list."""
    return element("ul", *(element("li", item) for item in items), style="margin:2px 0")


def table(header: Sequence[object], rows: Iterable[Sequence[object]], numeric_columns: Collection[int] = ()) -> Html:
    """Return a table, with a header row unless `header` is empty; `numeric_columns`, from 0, are right-aligned."""

    def cells(tag: str, row: Sequence[object]) -> Html:
        sides = ("right" if number in numeric_columns else "left" for number in range(len(row)))
        return element("tr", *(element(tag, c, style=f"text-align:{side}") for c, side in zip(row, sides, strict=True)))

    body = element("tbody", *(cells("td", row) for row in rows))
    return element("table", element("thead", cells("th", header)) if any(header) else "", body)


def bar(fraction: float, label: object) -> Html:
    """Return a bar for a fraction from 0 to 1, with a label beside it.

    >>> "width:20px" in bar(0.25, "0.250")
    True
    """
    length = round(BAR_WIDTH * min(1.0, max(0.0, fraction)))  # in this order NaN gives no bar
    shape = "height:8px;border-radius:4px;background:"
    filled = element("span", style=f"display:block;width:{length}px;{shape}{POSITIVE_COLOUR}")
    track = f"display:inline-block;width:{BAR_WIDTH}px;{shape}{TRACK_COLOUR};margin-right:8px"
    return element("span", element("span", filled, style=track), label, style="white-space:nowrap")


def signed_number(effect: float) -> Html:
    """Return a number with its sign, beside the colour of evidence for or against."""
    colour = POSITIVE_COLOUR if effect >= 0 else NEGATIVE_COLOUR
    return element("span", f"{effect:+.3f}", style=f"border-left:4px solid {colour};padding-left:6px")


def stack(*parts: object) -> str:
    """Return the parts one below another, as a notebook shows them."""
    return str(element("div", *parts))
