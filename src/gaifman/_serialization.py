"""What a model is made of, in its file and out of it: features as texts, scorers as arrays, what is said about them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaifman import __version__
from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.io.model_file import Arrays, read_model, strip_prefix
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Feature, Query
from gaifman.logic.parser import parse_feature
from gaifman.logic.schema import Schema
from gaifman.logic.transforms import used_symbols
from gaifman.models.base import BaseModel
from gaifman.models.registry import make_base_model
from gaifman.models.scaling import FeatureScaler
from gaifman.training import Scorer, TrainingConfig


def scorer_arrays(scorer: Scorer, prefix: str = "") -> Arrays:
    """What was learnt, by names that begin with a prefix."""
    arrays = {f"{prefix}scaler/{name}": array for name, array in scorer.scaler.arrays().items()}
    return arrays | {f"{prefix}base/{name}": array for name, array in scorer.base.state().items()}


def scorer_from_arrays(arrays: Arrays, kinds: Ints, base: BaseModel, prefix: str = "") -> Scorer:
    """The same back."""
    base.restore(strip_prefix(arrays, f"{prefix}base/"))
    return Scorer(FeatureScaler.from_arrays(strip_prefix(arrays, f"{prefix}scaler/"), kinds), base)


def training_metadata(config: TrainingConfig, base: BaseModel, kbs: Sequence[KnowledgeBase]) -> dict[str, Any]:
    """How a model was made, for its file and its card."""
    own = [
        {"fingerprint": kb.fingerprint, "objects": len(kb.objects), "relations": len(kb.relations), "facts": len(kb)}
        for kb in kbs
    ]
    return {
        "version": __version__,
        "config": config.as_dict(),
        "base": {"kind": base.kind, "settings": _settings(base) or {}},
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
        return make_base_model(kind, settings)
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
