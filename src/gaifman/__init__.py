"""gaifman: the missing facts of a knowledge base, with probabilities and reasons.

>>> import gaifman
>>> kb = gaifman.demo()
>>> kb
<KnowledgeBase: 1,155 objects, 35 relations, 5,757 facts, 2 attributes with 394 values>
>>> print(gaifman.parse("exists z. borders(x, z) & capital(z, 'paris')", kb.vocabulary))
∃z borders(x, z) ∧ capital(z, 'paris')

What is named here is loaded when it is first used, so that `import gaifman` and `gaifman --help` cost next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaifman.config import Limits
    from gaifman.datasets import demo
    from gaifman.errors import FormulaError, GaifmanError, InputError, KnowledgeError, LimitError, OutputError
    from gaifman.facts import Fact
    from gaifman.io import read, write
    from gaifman.kb import KnowledgeBase, union
    from gaifman.parser import parse, parse_feature, parse_query

__version__ = "0.1.0"

_HOMES = {
    "Fact": "facts",
    "FormulaError": "errors",
    "GaifmanError": "errors",
    "InputError": "errors",
    "KnowledgeBase": "kb",
    "KnowledgeError": "errors",
    "LimitError": "errors",
    "Limits": "config",
    "OutputError": "errors",
    "demo": "datasets",
    "parse": "parser",
    "parse_feature": "parser",
    "parse_query": "parser",
    "read": "io",
    "union": "kb",
    "write": "io",
}

__all__ = [
    "Fact",
    "FormulaError",
    "GaifmanError",
    "InputError",
    "KnowledgeBase",
    "KnowledgeError",
    "LimitError",
    "Limits",
    "OutputError",
    "__version__",
    "demo",
    "parse",
    "parse_feature",
    "parse_query",
    "read",
    "union",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gaifman' has no attribute {name!r}")
    return getattr(import_module(f"gaifman.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
