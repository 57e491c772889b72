"""Random knowledge bases for other tests: arities, confidences, attributes, types and hostile names.

`knowledge_bases()` draws one; `HOSTILE` are names that break careless readers and writers.
"""

from __future__ import annotations

from hypothesis import strategies as st

from gaifman.kb.knowledge_base import Fact, KnowledgeBase

HOSTILE = (
    "it's", 'say "hi"', "back\\slash", "a,b", "a;b", "a\tb", "a\nb", "a\rb", "a\r\n", " lead", "trail ", "%not", "#not",
    "1", "0.9::p", "3.5", "nan", "-1", "1e5", "_", "?x", "X", "p(x).", ":-", "=", "exists", "relation", "head", "tail",
    "\u202eabc", "e\u0301", "漢字", "🜁", "\ufeffbom", "a\u2028b", "a\x85b", "a\x1fb", "/m/06rf7", "/", "//", "a/b#c",
    "null", "NULL", "''", '""', "'", '"', "\\", "\\n", "%", "#", ".", ",", "(", "{}", "$1", "a" * 300,
)  # fmt: skip
"""Names that break careless readers and writers."""

TAME = ("ann", "bob", "cleo", "dan", "eve")

names = st.one_of(
    st.sampled_from(TAME),
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8),
)
"""Any name."""

plain_names = st.sampled_from(TAME)

confidences = st.one_of(st.just(1.0), st.floats(0, 1, exclude_min=True))
"""Any confidence."""

numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def knowledge_bases(
    draw: st.DrawFn,
    *,
    largest_arity: int = 4,
    smallest_arity: int = 1,
    attributes: bool = True,
    uncertain: bool = True,
    isolated: bool = False,
    names: st.SearchStrategy[str] = names,
    facts: int = 8,
) -> KnowledgeBase:
    """A small knowledge base; `isolated` allows objects without facts and relations that lost theirs."""
    arities = draw(st.dictionaries(names, st.integers(smallest_arity, largest_arity), min_size=1, max_size=4))
    known = []
    for _ in range(draw(st.integers(0, facts))):
        relation = draw(st.sampled_from(sorted(arities)))
        objects = tuple(draw(names) for _ in range(arities[relation]))
        known.append(Fact(relation, objects, draw(confidences) if uncertain else 1.0))
    values = {}
    if attributes:
        free = names.filter(lambda name: arities.get(name) != 1)
        values = draw(st.dictionaries(st.tuples(free, names), numbers, max_size=4))
    extra = draw(st.lists(names, max_size=3)) if isolated else []
    kb = KnowledgeBase.from_facts(known, values, extra)
    if isolated and len(kb) and draw(st.booleans()):
        kb = kb.without_facts([next(kb.facts())])
    return kb
