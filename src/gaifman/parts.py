"""What a model is made of, in its file and out of it: features as texts, scorers as arrays, what is said about them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gaifman import __version__
from gaifman.calibration import Reliability, fit_calibration, reliability
from gaifman.errors import InputError, KnowledgeError, OutputError
from gaifman.formulas import Atom, Attribute, walk
from gaifman.inputs import Inputs
from gaifman.kb import KnowledgeBase
from gaifman.learning import Arrays, HeldOut, Learning, Scorer
from gaifman.modelfile import read_model
from gaifman.network import BaseModel, base_model
from gaifman.parser import parse_feature
from gaifman.questions import Feature, Query
from gaifman.tables import Ints
from gaifman.vocabulary import Vocabulary

FOLDS = 5
"""Parts of the held-out tuples, each judged by a calibration that has not seen it."""


def restricted(scorer: Scorer, features: Sequence[Feature]) -> tuple[tuple[Feature, ...], Scorer]:
    """Only the features that have a column, and the scorer for those."""
    kept = scorer.inputs.features()
    columns = np.arange(len(kept), dtype=np.int32)
    inputs = Inputs(columns, scorer.inputs.kinds[kept], scorer.inputs.centres, scorer.inputs.scales)
    return tuple(features[number] for number in kept.tolist()), replace(scorer, inputs=inputs)


def scorer_arrays(scorer: Scorer, prefix: str = "") -> Arrays:
    """What was learnt, by names that begin with a prefix."""
    arrays = {f"{prefix}inputs/{name}": array for name, array in scorer.inputs.arrays().items()}
    return arrays | {f"{prefix}base/{name}": array for name, array in scorer.base.state().items()}


def scorer_of(arrays: Arrays, kinds: Ints, base: BaseModel, prefix: str = "") -> Scorer:
    """The same back."""
    base.restore(below(arrays, f"{prefix}base/"))
    return Scorer(Inputs.from_arrays(below(arrays, f"{prefix}inputs/"), kinds), base)


def below(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def described(learning: Learning, base: BaseModel, kbs: Sequence[KnowledgeBase]) -> dict[str, Any]:
    """How a model was made, for its file and its card."""
    recipe = ("positives", "negatives", "pool", "near", "hide", "holdout", "seed")
    own = [
        {"fingerprint": kb.fingerprint, "objects": len(kb.objects), "relations": len(kb.relations), "facts": len(kb)}
        for kb in kbs
    ]
    return {
        "version": __version__,
        "learning": learning.as_dict(),
        "radius": learning.radius,
        "size": learning.size,
        "phi": learning.phi,
        "base": {"kind": base.kind, "settings": _settings(base) or {}},
        "recipe": {name: getattr(learning, name) for name in recipe},
        "kb": own[0] if len(own) == 1 else {"collection": own},
    }


def _settings(base: BaseModel) -> dict[str, Any] | None:
    """What a base model is made with; None where no file could hold it, which is no reason not to use it."""
    try:
        return dict(base.settings())
    except OutputError:
        return None


def untaught(base: BaseModel) -> BaseModel:
    """One like it that has learnt nothing: another model may hold the given one, and must not see it learn anew."""
    settings = _settings(base)
    return copy.deepcopy(base) if settings is None else type(base)(**settings)


def known_losses(scorer: Scorer) -> list[float | None]:
    """The loss of each pass, for JSON; None where the base model does not know it."""
    return [None if np.isnan(loss) else loss for loss in scorer.losses]


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a model's probabilities can be believed, by tuples that it did not learn from."""

    held: HeldOut
    before: Reliability | None
    """Of the means as they are; None where nothing was held out."""
    after: Reliability | None
    """Of calibrated ones: each fifth of the tuples by a calibration that was fitted to the others."""

    @classmethod
    def of(cls, held: HeldOut, ratio: float) -> Trust:
        """Judge held-out tuples; `ratio` is that of corruptions and answers in training."""
        if not len(held.means):
            return cls(held, None, None)
        fold, calibrated = np.arange(len(held.means)) % FOLDS, np.empty(len(held.means))
        for number in range(FOLDS):
            own = fold == number
            other = fit_calibration(held.means[~own], held.targets[~own], ratio=ratio)
            calibrated[own] = other.apply(held.means[own])
        return cls(held, reliability(held.means, held.targets), reliability(calibrated, held.targets))

    def metrics(self) -> dict[str, Any]:
        """Figures, for the model's file."""
        if self.before is None or self.after is None:
            return {"held_out": 0}
        found = {
            "ece_before": self.before.error,
            "ece_after": self.after.error,
            "brier": self.after.brier,
            "loss": self.after.log_loss,
            "auc": auc(self.held.means, self.held.targets),
        }
        rounded = {name: None if value is None else round(value, 6) for name, value in found.items()}
        share = round(float(self.held.targets.mean()), 6)
        return {"held_out": len(self.held.means), "prior": share, **rounded}

    def table(self) -> list[dict[str, float]]:
        """The reliability after calibration, for the model's card."""
        if self.after is None:
            return []
        bins = zip(self.after.predicted, self.after.shares, self.after.counts, strict=True)
        return [
            {"predicted": round(float(p), 6), "share": round(float(s), 6), "count": float(n)} for p, s, n in bins if n
        ]


def auc(scores: npt.NDArray[np.float64], targets: npt.NDArray[np.float64]) -> float | None:
    """The chance that an answer scores above a corruption, ties half; None where one of both is missing.

    >>> auc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1.0, 1.0, 0.0, 0.0]))
    0.875
    """
    positive = scores[targets > 0]
    negative = np.sort(scores[targets == 0])
    if not len(positive) or not len(negative):
        return None
    below_it = np.searchsorted(negative, positive, side="left") + np.searchsorted(negative, positive, side="right")
    return float(below_it.mean() / (2 * len(negative)))


def spoken(features: Sequence[Feature], query: Query) -> tuple[dict[str, int], list[str]]:
    """Relations (name → arity) and attributes that features and the query speak of."""
    parts = [part for whole in (*(f.body for f in features), query.formula) for part in walk(whole)]
    relations = {
        part.relation: len(part.terms) for part in parts if isinstance(part, Atom) and isinstance(part.relation, str)
    }
    return dict(sorted(relations.items())), sorted({part.name for part in parts if isinstance(part, Attribute)})


def vocabulary_of(features: Sequence[Feature], query: Query) -> dict[str, Any]:
    """Features as texts, with what is needed to read them again."""
    relations, attributes = spoken(features, query)
    return {
        "feature_texts": [str(feature) for feature in features],
        "relations_used": relations,
        "attributes_used": attributes,
    }


def words_of(meta: Mapping[str, Any]) -> Vocabulary:
    """What the formulas of a file speak of."""
    return Vocabulary(dict(meta["relations_used"]), tuple(meta["attributes_used"]), ())


def features_of(meta: Mapping[str, Any], words: Vocabulary) -> tuple[Feature, ...]:
    """The features of a file."""
    # Not checked against the words: what ∃r ranges over need not be among the relations that are named.
    return tuple(words.resolve(parse_feature(text)) for text in meta["feature_texts"])


def made_base(meta: Mapping[str, Any], given: BaseModel | None) -> BaseModel:
    """The untrained base model of a file: our own kinds by their settings, others must be given."""
    kind, settings = meta["base"]["kind"], meta["base"]["settings"]
    if given is not None:
        if given.kind != kind:
            raise InputError(f"the file's base model is a {kind}, not a {given.kind}")
        return given
    try:
        return base_model(kind, **settings)
    except KnowledgeError:
        raise InputError(
            f"the base model of the file is a {kind}, which must be given to be filled",
            hint="gaifman.load(file, base=…)",
        ) from None


def open_model(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """What a file holds, or why it is no model of ours."""
    arrays, meta = read_model(path)
    if meta.get("kind") not in ("model", "completion"):
        raise InputError(f"{path} holds no model, but {meta.get('kind')!r}")
    return arrays, meta
