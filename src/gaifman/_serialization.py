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
from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.io.model_file import read_model
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Feature, Query
from gaifman.logic.parser import parse_feature
from gaifman.logic.schema import Schema
from gaifman.logic.transforms import used_symbols
from gaifman.models.calibration import Reliability, fit_calibration, reliability
from gaifman.models.mlp import BaseModel, make_base_model
from gaifman.models.scaling import FeatureScaler
from gaifman.training import Arrays, HeldOut, Scorer, TrainingConfig

CALIBRATION_FOLDS = 5
"""Parts of the held-out tuples, each judged by a calibration that has not seen it."""


def prune_features(scorer: Scorer, features: Sequence[Feature]) -> tuple[tuple[Feature, ...], Scorer]:
    """Only the features that have a column, and the scorer for those."""
    kept = scorer.scaler.features()
    columns = np.arange(len(kept), dtype=np.int32)
    inputs = FeatureScaler(columns, scorer.scaler.kinds[kept], scorer.scaler.centres, scorer.scaler.scales)
    return tuple(features[number] for number in kept.tolist()), replace(scorer, scaler=inputs)


def scorer_arrays(scorer: Scorer, prefix: str = "") -> Arrays:
    """What was learnt, by names that begin with a prefix."""
    arrays = {f"{prefix}inputs/{name}": array for name, array in scorer.scaler.arrays().items()}
    return arrays | {f"{prefix}base/{name}": array for name, array in scorer.base.state().items()}


def scorer_from_arrays(arrays: Arrays, kinds: Ints, base: BaseModel, prefix: str = "") -> Scorer:
    """The same back."""
    base.restore(strip_prefix(arrays, f"{prefix}base/"))
    return Scorer(FeatureScaler.from_arrays(strip_prefix(arrays, f"{prefix}inputs/"), kinds), base)


def strip_prefix(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def training_metadata(config: TrainingConfig, base: BaseModel, kbs: Sequence[KnowledgeBase]) -> dict[str, Any]:
    """How a model was made, for its file and its card."""
    recipe = ("positives", "negatives", "negative_sampling", "hard_negative_fraction", "hide", "holdout", "seed")
    own = [
        {"fingerprint": kb.fingerprint, "objects": len(kb.objects), "relations": len(kb.relations), "facts": len(kb)}
        for kb in kbs
    ]
    return {
        "version": __version__,
        "config": config.as_dict(),
        "radius": config.radius,
        "size": config.size,
        "phi": config.phi,
        "base": {"kind": base.kind, "settings": _settings(base) or {}},
        "examples": {name: getattr(config, name) for name in recipe},
        "kb": own[0] if len(own) == 1 else {"collection": own},
    }


def _settings(base: BaseModel) -> dict[str, Any] | None:
    """What a base model is made with; None where no file could hold it, which is no reason not to use it."""
    try:
        return dict(base.settings())
    except OutputError:
        return None


def untrained_copy(base: BaseModel) -> BaseModel:
    """One like it that has learnt nothing: another model may hold the given one, and must not see it learn anew."""
    settings = _settings(base)
    return copy.deepcopy(base) if settings is None else type(base)(**settings)


def losses_as_json(scorer: Scorer) -> list[float | None]:
    """The loss of each pass, for JSON; None where the base model does not know it."""
    return [None if np.isnan(loss) else loss for loss in scorer.losses]


@dataclass(frozen=True, slots=True)
class HeldOutReport:
    """How far a model's probabilities can be believed, by tuples that it did not learn from."""

    held_out: HeldOut
    uncalibrated: Reliability | None
    """Of the means as they are; None where nothing was held out."""
    calibrated: Reliability | None
    """Of calibrated ones: each fifth of the tuples by a calibration that was fitted to the others."""

    @classmethod
    def of(cls, held_out: HeldOut, ratio: float) -> HeldOutReport:
        """Judge held-out tuples; `ratio` is that of corruptions and answers in training."""
        if not len(held_out.means):
            return cls(held_out, None, None)
        fold, calibrated = np.arange(len(held_out.means)) % CALIBRATION_FOLDS, np.empty(len(held_out.means))
        for number in range(CALIBRATION_FOLDS):
            own = fold == number
            other = fit_calibration(held_out.means[~own], held_out.targets[~own], ratio=ratio)
            calibrated[own] = other.apply(held_out.means[own])
        return cls(held_out, reliability(held_out.means, held_out.targets), reliability(calibrated, held_out.targets))

    def metrics(self) -> dict[str, Any]:
        """Figures, for the model's file."""
        if self.uncalibrated is None or self.calibrated is None:
            return {"held_out": 0}
        found = {
            "ece_before": self.uncalibrated.ece,
            "ece_after": self.calibrated.ece,
            "brier": self.calibrated.brier,
            "loss": self.calibrated.log_loss,
            "auc": auc(self.held_out.means, self.held_out.targets),
        }
        rounded = {name: None if value is None else round(value, 6) for name, value in found.items()}
        share = round(float(self.held_out.targets.mean()), 6)
        return {"held_out": len(self.held_out.means), "prior": share, **rounded}

    def reliability_table(self) -> list[dict[str, float]]:
        """The reliability after calibration, for the model's card."""
        if self.calibrated is None:
            return []
        bins = zip(self.calibrated.predicted, self.calibrated.observed, self.calibrated.counts, strict=True)
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


def feature_metadata(features: Sequence[Feature], query: Query) -> dict[str, Any]:
    """Features as texts, with what is needed to read them again."""
    relations, attributes = used_symbols(features, query)
    return {
        "feature_texts": [str(feature) for feature in features],
        "relations_used": relations,
        "attributes_used": attributes,
    }


def schema_from_metadata(meta: Mapping[str, Any]) -> Schema:
    """What the formulas of a file speak of."""
    return Schema(dict(meta["relations_used"]), tuple(meta["attributes_used"]), ())


def features_from_metadata(meta: Mapping[str, Any], schema: Schema) -> tuple[Feature, ...]:
    """The features of a file."""
    # Not checked against the words: what ∃r ranges over need not be among the relations that are named.
    return tuple(schema.resolve_attribute(parse_feature(text)) for text in meta["feature_texts"])


def base_from_metadata(meta: Mapping[str, Any], base: BaseModel | None) -> BaseModel:
    """The untrained base model of a file: our own kinds by their settings, others must be given."""
    kind, settings = meta["base"]["kind"], meta["base"]["settings"]
    if base is not None:
        if base.kind != kind:
            raise InputError(f"the file's base model is a {kind}, not a {base.kind}")
        return base
    try:
        return make_base_model(kind, **settings)
    except KnowledgeBaseError:
        raise InputError(
            f"the base model of the file is a {kind}, which must be given to be filled",
            hint="gaifman.load(file, base=…)",
        ) from None


def read_model_state(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """What a file holds, or why it is no model of ours."""
    arrays, meta = read_model(path)
    if meta.get("kind") not in ("model", "completion"):
        raise InputError(f"{path} holds no model, but {meta.get('kind')!r}")
    return arrays, meta
