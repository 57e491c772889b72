"""Conversion of networks and their features to arrays and metadata, and back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaifman.config import MAX_ARITY, check_int
from gaifman.errors import InputError
from gaifman.features.feature_sets import FeatureSet
from gaifman.io.model_file import Arrays, strip_prefix
from gaifman.kb.tables import Ints
from gaifman.logic.ast import Feature, Query, used_symbols
from gaifman.logic.parser import Schema, parse_feature
from gaifman.models.base import BaseModel, saved_settings
from gaifman.models.mlp import BASE_MODELS, make_base_model
from gaifman.models.scaling import FeatureScaler
from gaifman.training import Scorer


def scorer_arrays(scorer: Scorer, prefix: str = "") -> Arrays:
    """The arrays of a scorer; their names begin with `prefix`."""
    arrays = {f"{prefix}scaler/{name}": array for name, array in scorer.scaler.arrays().items()}
    return arrays | {f"{prefix}base/{name}": array for name, array in scorer.base.state().items()}


def scorer_from_arrays(arrays: Arrays, kinds: Ints, base: BaseModel) -> Scorer:
    """The scorer of arrays without a prefix; `base` is the untrained base model, which is restored."""
    scaler, state = FeatureScaler.from_arrays(strip_prefix(arrays, "scaler/"), kinds), strip_prefix(arrays, "base/")
    if "width" in state and state["width"].tolist() != [scaler.width]:  # before it is made, which takes memory
        raise InputError(f"the base model is for {state['width'].tolist()} columns, and there are {scaler.width:,}")
    base.restore(state)
    base.check_width(scaler.width)
    return Scorer(scaler, base)


def untrained_copy(base: BaseModel) -> BaseModel:
    """An untrained base model with the same settings: the given one can belong to another model."""
    settings = saved_settings(base)
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


def features_from_metadata(meta: Mapping[str, Any], arity_of_tuples: int) -> tuple[Feature, ...]:
    """The features of a file, for tuples of this length."""
    relations, attributes = dict(meta["relations_used"]), tuple(meta["attributes_used"])
    for name, arity in relations.items():
        check_int(f"the arity of {name}", arity, 1, MAX_ARITY)
    schema = Schema(relations, attributes, ())
    # Not checked against the schema: ∃r ranges over relations that no feature names.
    features = tuple(schema.resolve_attribute(parse_feature(text)) for text in meta["feature_texts"])
    if FeatureSet(features).expand(relations, arity_of_tuples) != features:
        raise InputError("a feature comes twice, or stands for several")  # the numbers of features would be others
    return features


def base_from_metadata(meta: Mapping[str, Any], base: BaseModel | None) -> BaseModel:
    """The untrained base model of a file; one that is not gaifman's own must be given."""
    kind, settings = meta["base"]["kind"], meta["base"]["settings"]
    if base is not None:
        if base.kind != kind:
            raise InputError(f"the file needs a base model of kind {kind}, not {base.kind}")
        return base
    if kind not in BASE_MODELS:
        raise InputError(
            f"the file needs a base model of kind {kind}", hint="pass an untrained one: gaifman.load(file, base=…)"
        )
    return make_base_model(kind, settings)
