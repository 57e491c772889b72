"""The rows of the paper's Table 2 with the published results, and how each row is trained and ranked.

>>> [row.label for row in select_rows(["1,3", "4"])]
['[1, ∞, 1, 5]', '[1, 20, 5, 25]', '[2, 20, 5, 25]']
>>> paper_result("wn18", ROWS[0])
PublishedResult(mean_rank=298, hits_10=93.9, hits_1=75.8)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from gaifman.errors import InputError, KnowledgeBaseError
from gaifman.evaluation.evaluate import EvaluationConfig
from gaifman.features.feature_sets import named_feature_set
from gaifman.jobs.train import SourceText, TrainingSpec
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.logic.ast import Atom, Constant, Feature, Variable
from gaifman.training import TrainingConfig

PAPER_NETWORK = {"activation": "sigmoid", "batch_size": 128}
"""The paper's base model: settings of the network."""
PATH_FEATURES = """\
each r. r(s1, s2)
each r. r(s2, s1)
each r. exists x. r(s1, x)
each r. exists x. r(x, s1)
each r. exists x. r(s2, x)
each r. exists x. r(x, s2)
each r, t. exists x. r(s1, x) & t(x, s2)
each r, t, u. exists x, y. r(s1, x) & t(x, y) & u(y, s2)
"""
"""All paths of up to three steps, for a knowledge base with few relations."""


@dataclass(frozen=True, slots=True)
class TrainingProtocol:
    """Features, negatives and network of a training."""

    phi: str = "paper"
    """Feature set."""
    file: SourceText | None = None
    """Text of a `.phi` file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `TrainingConfig` or of the network that differ from `PAPER_NETWORK`."""
    min_constant_count: int | None = None
    """Also add features `r(s1, 'c')` for constants in at least this many facts of r at one position; None for none."""


OUR_PROTOCOLS: Mapping[str, TrainingProtocol] = {
    "wn18": TrainingProtocol(
        "paths",
        SourceText("paths.phi", PATH_FEATURES),
        {"hard_negative_fraction": 0.2, "holdout": 0, "activation": "relu", "batch_size": 32, "epochs": 6},
    ),
    "fb15k": TrainingProtocol(
        "default",
        None,
        {"negative_sampling": "uniform", "holdout": 0, "dropout": 0.0, "batch_size": 64, "epochs": 6},
        min_constant_count=100,
    ),
}
"""The best protocol on the validation facts of each data set."""
PROTOCOLS = ("ours", "paper")
VISIBLE_FACTS = ("train", "train+valid")
"""Which facts may be visible while test facts are ranked."""


@dataclass(frozen=True, slots=True, order=True)
class TrainingSetting:
    """The settings of a row that change its training."""

    size: int | None
    """k; None for ∞."""
    positives: int
    """w."""
    negatives: int
    """w̃."""

    @property
    def name(self) -> str:
        """The name in file names: `k20-w5-25`."""
        return f"k{'all' if self.size is None else self.size}-w{self.positives}-{self.negatives}"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table."""

    number: int
    draws: int
    """N."""
    setting: TrainingSetting

    @property
    def label(self) -> str:
        """The row as in the paper: [N, k, w, w̃]."""
        setting = self.setting
        size = "∞" if setting.size is None else setting.size
        return f"[{self.draws}, {size}, {setting.positives}, {setting.negatives}]"


ROWS = (
    TableRow(1, 1, TrainingSetting(None, 1, 5)),
    TableRow(2, 1, TrainingSetting(20, 1, 2)),
    TableRow(3, 1, TrainingSetting(20, 5, 25)),
    TableRow(4, 2, TrainingSetting(20, 5, 25)),
    TableRow(5, 3, TrainingSetting(20, 5, 25)),
)


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """The paper's figures of a row; hits in percent."""

    mean_rank: float
    hits_10: float
    hits_1: float


DATASET_NAMES = {"wn18": "WN18", "fb15k": "FB15k"}
"""Data sets as they are written in text."""
PAPER_RESULTS: Mapping[str, Sequence[PublishedResult]] = {
    "wn18": (
        PublishedResult(298, 93.9, 75.8),
        PublishedResult(357, 88.1, 66.8),
        PublishedResult(392, 93.6, 76.4),
        PublishedResult(378, 93.9, 76.7),
        PublishedResult(352, 93.9, 76.7),
    ),
    "fb15k": (
        PublishedResult(124, 78.1, 59.8),
        PublishedResult(114, 79.2, 60.1),
        PublishedResult(97, 82.1, 65.6),
        PublishedResult(84, 83.4, 68.5),
        PublishedResult(75, 84.2, 69.2),
    ),
}


def paper_result(data: str, row: TableRow) -> PublishedResult:
    """Return the paper's figures of a row on a data set."""
    return PAPER_RESULTS[data][row.number - 1]


def protocol_for(name: str, data: str) -> TrainingProtocol:
    """Return the protocol `ours` or `paper` for a data set."""
    if name not in PROTOCOLS:
        raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {name!r}")
    return OUR_PROTOCOLS[data] if name == "ours" else TrainingProtocol()


def constant_features(kb: KnowledgeBase, min_count: int) -> list[str]:
    """Return features `r(s1, 'c')` and `r(s2, 'c')` for constants in at least `min_count` facts at one position.

    >>> from gaifman.kb.knowledge_base import KnowledgeBase
    >>> kb = KnowledgeBase.from_facts([("lives_in", "ann", "rome"), ("lives_in", "bob", "rome")])
    >>> constant_features(kb, 2)
    ["lives_in(s1, 'rome')", "lives_in(s2, 'rome')"]
    """
    counts = Counter[tuple[str, int, str]]()
    for fact in kb.facts():
        if len(fact.objects) == 2:
            counts.update((fact.relation, position, name) for position, name in enumerate(fact.objects))
    features = []
    for relation, position, name in sorted(key for key, count in counts.items() if count >= min_count):
        for variable in (Variable("s1"), Variable("s2")):
            terms = (Constant(name), variable) if position == 0 else (variable, Constant(name))
            features.append(str(Feature(Atom(relation, terms))))
    return features


def select_rows(texts: Iterable[str]) -> tuple[TableRow, ...]:
    """Return the rows of texts such as `1,3`; all rows if there are no texts."""
    numbers = [part.strip() for text in texts for part in text.split(",")]
    known = {str(row.number) for row in ROWS}
    for number in numbers:
        if number not in known:
            rows = "; ".join(f"{row.number} is {row.label}" for row in ROWS)
            raise InputError(f"the table has no row {number!r}", hint=f"--rows 1,3; {rows}")
    return tuple(row for row in ROWS if not numbers or str(row.number) in numbers)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A reproduction: rows of the table on a data set."""

    data: str
    """`wn18` or `fb15k`."""
    rows: tuple[TableRow, ...] = ROWS
    phi: str = "paper"
    """A named feature set, or the name of the one in `file`."""
    file: SourceText | None = None
    """Text of a `.phi` file."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `TrainingConfig` or of the network that differ from the paper's."""
    visible_facts: str = "train"
    """Facts that are visible while test facts are ranked: one of `VISIBLE_FACTS`. Training always uses `train`."""
    fraction: float | None = None
    """Fraction of the test facts to rank; None for all."""
    seed: int = 0

    def training_job(self, setting: TrainingSetting) -> TrainingSpec:
        """Return the training of a setting, with as many draws as its last row needs."""
        draws = max(row.draws for row in ROWS if row.setting == setting)
        network = {"base": "mlp", "radius": 1, "hide": "facts", "options": PAPER_NETWORK}
        settings = {"phi": self.phi, "draws": draws, "seed": self.seed, **network, **self.options}
        return TrainingSpec(
            TrainingConfig.from_settings(settings | asdict(setting)).as_dict(), phi=(self.file,) if self.file else ()
        )

    def check(self) -> None:
        """Raise an error for wrong settings, before anything is read or written."""
        if taken := sorted({"size", "positives", "negatives", "draws", "phi", "seed"} & set(self.options)):
            raise KnowledgeBaseError(
                f"{taken[0]} is set by the row or by its own option", hint="for example: --option epochs=5"
            )
        if self.visible_facts not in VISIBLE_FACTS:
            raise KnowledgeBaseError(
                f"visible facts must be one of {', '.join(VISIBLE_FACTS)}, not {self.visible_facts!r}"
            )
        EvaluationConfig(fraction=self.fraction)
        for setting in self.settings:
            self.training_job(setting).check()

    @property
    def settings(self) -> list[TrainingSetting]:
        """The trainings that the rows need, in the order of the table."""
        return [setting for setting, _ in groupby(self.rows, lambda row: row.setting)]

    def draws(self, setting: TrainingSetting) -> list[int]:
        """Return the numbers of draws that a setting is ranked with."""
        return [row.draws for row in self.rows if row.setting == setting]


def add_constant_features(experiment: Experiment, protocol: TrainingProtocol, kb: KnowledgeBase) -> Experiment:
    """Return the experiment with the constant features of its protocol, if it has any."""
    if protocol.min_constant_count is None:
        return experiment
    relations = {name: relation.arity for name, relation in kb.relations.items()}
    lines = [
        *map(str, named_feature_set(protocol.phi, 2, relations).features),
        *constant_features(kb, protocol.min_constant_count),
    ]
    return replace(experiment, phi="common", file=SourceText("common.phi", "".join(f"{line}\n" for line in lines)))
