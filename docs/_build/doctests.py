"""A griffe extension: sessions with `>>>` in docstrings become code blocks, not quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

SESSION = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*", re.MULTILINE)
"""From a prompt to the next blank line."""


class Doctests(griffe.Extension):
    """Fences the sessions of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each object that is loaded."""
        if obj.docstring:
            obj.docstring.value = SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
