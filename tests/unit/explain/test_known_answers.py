"""Whether an explanation calls an answer known, for any query."""

from __future__ import annotations

import itertools

import pytest

import gaifman
from gaifman.logic.semantics import holds
from trained import FEW, towns


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("lives_in(x, y) & ~works_in(x, y)", {True: "scored as if it were not known", False: ""}),
        ("age(x) > 40 & lives_in(x, y)", {True: "scored as if it were not known", False: ""}),
        ("age(x) > 40 & town_of(y, 'c0')", {True: "scored as if it were not known", False: ""}),
        ("age(x) > 40 & x != y", {True: "scored as if it were not known", False: ""}),
    ],
)
def test_known_does_not_depend_on_what_can_be_hidden(query: str, note: dict[bool, str]) -> None:
    """A tuple was once called known if facts were hidden from it, and an answer by attributes not known."""
    model, seen = gaifman.fit(towns(), query, **FEW), set()
    for names in itertools.product(("p00", "p03", "p24", "p25", "p32"), ("t0", "t1", "t2")):
        found = model.explain(*names)
        assert found.known == holds(towns().structure(), gaifman.parse(found.query, towns()))
        assert found.known_note == note[found.known]
        (answer,) = model.answers(x=names[0], restrict_to={"y": [names[1]]}, top=1)
        assert (answer.known, answer.estimate) == (found.known, found.estimate)
        seen.add(found.known)
    assert seen == {True, False}
