"""Knowledge bases to try things on.

>>> from gaifman.io.demo import demo
>>> ("borders", "france", "spain") in demo()
True
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase


@cache
def demo() -> KnowledgeBase:
    """The countries of the world: what borders what, lies where, speaks what; read once and kept."""
    with as_file(files("gaifman").joinpath("data", "countries.facts")) as path:
        return read(path)
