"""Conversion of models to arrays and metadata, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaifman import __version__
from gaifman.errors import InputError, KnowledgeBaseError, OutputError
from gaifman.io.model_file import Arrays, read_model, strip_prefix
from gaifman.kb.collection import shared_names
from gaifman.kb.knowledge_base import KnowledgeBase
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Feature, Query
from gaifman.logic.parser import parse_feature
from gaifman.logic.schema import Schema
from gaifman.logic.transforms import used_symbols
from gaifman.models.base import BaseModel
from gaifman.models.registry import make_base_model
from gaifman.models.scaling import FeatureScaler
from gaifman.sampling.constraints import Constraints
from gaifman.training import Scorer, TrainingConfig


def scorer_arrays(scorer: Scorer, prefix: str = "") -> Arrays:
    """The arrays of a scorer; their names begin with `prefix`."""
    arrays = {f"{prefix}scaler/{name}": array for name, array in scorer.scaler.arrays().items()}
    return arrays | {f"{prefix}base/{name}": array for name, array in scorer.base.state().items()}


def scorer_from_arrays(arrays: Arrays, kinds: Ints, base: BaseModel) -> Scorer:
    """The scorer of arrays without a prefix; `base` is the untrained base model, which is restored."""
    base.restore(strip_prefix(arrays, "base/"))
    return Scorer(FeatureScaler.from_arrays(strip_prefix(arrays, "scaler/"), kinds), base)


def training_metadata(
    config: TrainingConfig, base: BaseModel, kbs: Sequence[KnowledgeBase], constraints: Constraints | None = None
) -> dict[str, Any]:
    """Settings, base model, knowledge bases and any constraints, for the file and the model card."""
    sizes = [
        {"fingerprint": kb.fingerprint, "objects": len(kb.objects), "relations": len(kb.relations), "facts": len(kb)}
        for kb in kbs
    ]
    return {
        "version": __version__,
        "config": config.as_dict(),
        "base": {"kind": base.kind, "settings": _settings(base) or {}},
        "kb": sizes[0] if len(sizes) == 1 else {"collection": sizes, "shared_names": len(shared_names(kbs))},
        **({"constraints": text} if constraints and (text := constraints.to_text()) else {}),
    }


def _settings(base: BaseModel) -> dict[str, Any] | None:
    """The settings of a base model; None if they cannot be saved."""
    try:
        return dict(base.settings())
    except OutputError:
        return None


def untrained_copy(base: BaseModel) -> BaseModel:
    """An untrained base model with the same settings: the given one can belong to another model."""
    settings = _settings(base)
    return copy.deepcopy(base) if settings is None else type(base)(**settings)


def losses_as_json(scorer: Scorer) -> list[float | None]:
    """The loss of each epoch; None if the base model does not report it."""
    return [None if np.isnan(loss) else loss for loss in scorer.losses]


def feature_metadata(features: Sequence[Feature], query: Query) -> dict[str, Any]:
    """Features as texts, with the relations and attributes that are needed to parse them."""
    relations, attributes = used_symbols(features, query)
    return {
        "feature_texts": [str(feature) for feature in features],
        "relations_used": relations,
        "attributes_used": attributes,
    }


def features_from_metadata(meta: Mapping[str, Any]) -> tuple[Feature, ...]:
    """The features of a file."""
    schema = Schema(dict(meta["relations_used"]), tuple(meta["attributes_used"]), ())
    # Not checked against the schema: ∃r ranges over relations that no feature names.
    return tuple(schema.resolve_attribute(parse_feature(text)) for text in meta["feature_texts"])


def base_from_metadata(meta: Mapping[str, Any], base: BaseModel | None) -> BaseModel:
    """The untrained base model of a file; one that is not gaifman's own must be given."""
    kind, settings = meta["base"]["kind"], meta["base"]["settings"]
    if base is not None:
        if base.kind != kind:
            raise InputError(f"the file needs a base model of kind {kind}, not {base.kind}")
        return base
    try:
        return make_base_model(kind, settings)
    except KnowledgeBaseError:
        raise InputError(
            f"the file needs a base model of kind {kind}", hint="pass an untrained one: gaifman.load(file, base=…)"
        ) from None


def read_model_state(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and metadata of a model file."""
    arrays, meta = read_model(path)
    if meta.get("kind") not in ("model", "completion"):
        raise InputError(f"{path} is not a model or a completion, but {meta.get('kind')!r}")
    return arrays, meta
