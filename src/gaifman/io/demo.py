"""The demo knowledge base.

>>> from gaifman.io.demo import demo
>>> ("borders", "france", "spain") in demo()
True
"""

from __future__ import annotations

from importlib.resources import as_file, files

from gaifman.io import read
from gaifman.kb.knowledge_base import KnowledgeBase


def demo() -> KnowledgeBase:
    """Return the countries of the world: their borders, regions, capitals, languages and more."""
    with as_file(files("gaifman").joinpath("data", "countries.facts")) as path:
        return read(path)
