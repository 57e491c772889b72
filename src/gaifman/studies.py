"""What is reproduced of the paper: the rows of its Table 2 with its figures, and how each is trained and ranked.

>>> [row.label for row in chosen_rows(["1,3", "4"])]
['[1, ∞, 1, 5]', '[1, 20, 5, 25]', '[2, 20, 5, 25]']
>>> published("wn18", ROWS[0])
Published(mean_rank=298, hits_10=93.9, hits_1=75.8)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from gaifman.errors import InputError, KnowledgeError
from gaifman.evaluation import Terms
from gaifman.formulas import Atom, Constant, Variable
from gaifman.kb import KnowledgeBase
from gaifman.learning import Learning
from gaifman.phi import named
from gaifman.questions import Feature
from gaifman.training import Given, Order

NETWORK = {"activation": "sigmoid", "batch": 128}
"""The paper's base model."""
PATHS = """\
each r. r(s1, s2)
each r. r(s2, s1)
each r. exists x. r(s1, x)
each r. exists x. r(x, s1)
each r. exists x. r(s2, x)
each r. exists x. r(x, s2)
each r, t. exists x. r(s1, x) & t(x, s2)
each r, t, u. exists x, y. r(s1, x) & t(x, y) & u(y, s2)
"""
"""All paths of up to three steps, for a knowledge base of few relations: they rank pairs that nothing else links."""


@dataclass(frozen=True, slots=True)
class Manner:
    """In whose manner rows are trained."""

    phi: str = "paper"
    file: Given | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `Learning` or of the network, other than `NETWORK`."""
    common: int | None = None
    """With facts of one variable and a constant, where at least so many facts of a relation have it at one place."""


OURS: Mapping[str, Manner] = {
    "wn18": Manner(
        "paths",
        Given("paths.phi", PATHS),
        {"near": 0.2, "holdout": 0, "activation": "relu", "batch": 32, "epochs": 6},
    ),
    "fb15k": Manner(
        "default", None, {"pool": "uniform", "holdout": 0, "dropout": 0.0, "batch": 64, "epochs": 6}, common=100
    ),
}
"""What does best on the validation facts of each data set; [N, k, w, w̃] are the row's."""
MANNERS = ("ours", "paper")
FACTS = ("train", "train+valid")
"""What may be visible while test facts are ranked."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """What a training hangs on."""

    size: int | None
    """k; None for ∞."""
    positives: int
    """w."""
    negatives: int
    """w̃."""

    @property
    def name(self) -> str:
        """As files are named: `k20-w5-25`."""
        return f"k{'all' if self.size is None else self.size}-w{self.positives}-{self.negatives}"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    number: int
    draws: int
    """N."""
    setting: Setting

    @property
    def label(self) -> str:
        """As the paper writes it: [N, k, w, w̃]."""
        own = self.setting
        return f"[{self.draws}, {'∞' if own.size is None else own.size}, {own.positives}, {own.negatives}]"


ROWS = (
    Row(1, 1, Setting(None, 1, 5)),
    Row(2, 1, Setting(20, 1, 2)),
    Row(3, 1, Setting(20, 5, 25)),
    Row(4, 2, Setting(20, 5, 25)),
    Row(5, 3, Setting(20, 5, 25)),
)


@dataclass(frozen=True, slots=True)
class Published:
    """What the paper says of a row; hits in percent."""

    mean_rank: float
    hits_10: float
    hits_1: float


NAMES = {"wn18": "WN18", "fb15k": "FB15k"}
"""Data sets as people write them."""
PAPER: Mapping[str, Sequence[Published]] = {
    "wn18": (
        Published(298, 93.9, 75.8),
        Published(357, 88.1, 66.8),
        Published(392, 93.6, 76.4),
        Published(378, 93.9, 76.7),
        Published(352, 93.9, 76.7),
    ),
    "fb15k": (
        Published(124, 78.1, 59.8),
        Published(114, 79.2, 60.1),
        Published(97, 82.1, 65.6),
        Published(84, 83.4, 68.5),
        Published(75, 84.2, 69.2),
    ),
}


def published(data: str, row: Row) -> Published:
    """What the paper says of a row on a data set."""
    return PAPER[data][row.number - 1]


def manner_of(name: str, data: str) -> Manner:
    """`ours` or the `paper`'s, for a data set."""
    if name not in MANNERS:
        raise InputError(f"a manner is one of {', '.join(MANNERS)}, not {name!r}")
    return OURS[data] if name == "ours" else Manner()


def with_constants(kb: KnowledgeBase, least: int) -> list[str]:
    """Features that say of a variable that it has a fact with a common constant.

    >>> from gaifman.kb import KnowledgeBase
    >>> kb = KnowledgeBase.from_facts([("lives_in", "ann", "rome"), ("lives_in", "bob", "rome")])
    >>> with_constants(kb, 2)
    ["lives_in(s1, 'rome')", "lives_in(s2, 'rome')"]
    """
    counts = Counter[tuple[str, int, str]]()
    for fact in kb.facts():
        if len(fact.objects) == 2:
            counts.update((fact.relation, place, name) for place, name in enumerate(fact.objects))
    found = []
    for relation, place, name in sorted(key for key, count in counts.items() if count >= least):
        for variable in (Variable("s1"), Variable("s2")):
            terms = (Constant(name), variable) if place == 0 else (variable, Constant(name))
            found.append(str(Feature(Atom(relation, terms))))
    return found


def chosen_rows(texts: Iterable[str]) -> tuple[Row, ...]:
    """The rows of `1,3` or of several such texts; all of them where there are none."""
    numbers = [part.strip() for text in texts for part in text.split(",")]
    known = {str(row.number): row for row in ROWS}
    for number in numbers:
        if number not in known:
            rows = "; ".join(f"{row.number} is {row.label}" for row in ROWS)
            raise InputError(f"the table has no row {number!r}", hint=f"--rows 1,3; {rows}")
    return tuple(row for row in ROWS if not numbers or str(row.number) in numbers)


@dataclass(frozen=True, slots=True)
class Study:
    """What is reproduced, and how."""

    data: str
    """`wn18` or `fb15k`."""
    rows: tuple[Row, ...] = ROWS
    phi: str = "paper"
    """A named set of features, or the name of the given one."""
    file: Given | None = None
    """The text of a `.phi` file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `Learning` or of the network, other than the paper's."""
    facts: str = "train"
    """What is visible while test facts are ranked: one of `FACTS`. Learnt is from `train` always."""
    fraction: float | None = None
    """The share of the test facts that is ranked; None for all."""
    seed: int = 0

    def order(self, setting: Setting) -> Order:
        """What is to be trained."""
        most = max(row.draws for row in ROWS if row.setting == setting)
        own = {"phi": self.phi, "draws": most, "seed": self.seed, "options": NETWORK, **self.options}
        return Order(Learning.of(own | asdict(setting)).as_dict(), phi=self.file)

    def check(self) -> None:
        """Say what is wrong before anything is read or written."""
        if taken := sorted({"size", "positives", "negatives", "draws", "phi", "seed"} & set(self.options)):
            raise KnowledgeError(
                f"{taken[0]} is what a row, or an option of its own, says", hint="as in: --option epochs=5"
            )
        if self.facts not in FACTS:
            raise KnowledgeError(f"the visible facts are one of {', '.join(FACTS)}, not {self.facts!r}")
        Terms(fraction=self.fraction)
        for setting in self.settings:
            self.order(setting).check()

    @property
    def settings(self) -> list[Setting]:
        """Each training that the rows need, once, in the order of the table."""
        return [setting for setting, _ in groupby(self.rows, lambda row: row.setting)]

    def draws(self, setting: Setting) -> list[int]:
        """The numbers of draws that a training is ranked with."""
        return [row.draws for row in self.rows if row.setting == setting]


def fitted(study: Study, manner: Manner, kb: KnowledgeBase) -> Study:
    """The study with the features that its manner takes from the facts to be learnt from."""
    if manner.common is None:
        return study
    relations = {name: relation.arity for name, relation in kb.relations.items()}
    lines = [*map(str, named(manner.phi, 2, relations).features), *with_constants(kb, manner.common)]
    return replace(study, phi="common", file=Given("common.phi", "".join(f"{line}\n" for line in lines)))
