"""Base models by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gaifman.config import check_choice
from gaifman.errors import KnowledgeBaseError, similar_names
from gaifman.models.base import BaseModel
from gaifman.models.mlp import MLP, Logistic

BASE_MODELS: Mapping[str, type[MLP]] = {"mlp": MLP, "logistic": Logistic}


def make_base_model(name: str, options: Mapping[str, Any] | None = None) -> BaseModel:
    """Create an untrained base model, `mlp` or `logistic`.

    >>> make_base_model("mlp", {"hidden": [50], "activation": "relu"}).settings()["hidden"]
    [50]
    """
    check_choice("base", name, BASE_MODELS)
    known = option_names(name)
    for option in options or {}:
        if option not in known:
            raise KnowledgeBaseError(
                f"{name} has no option {option}",
                suggestions=similar_names(option, known),
                hint=f"options of {name}: {', '.join(known)}",
            )
    return BASE_MODELS[name](**options or {})


def option_names(name: str) -> list[str]:
    """Return the options of a base model.

    >>> option_names("logistic")
    ['learning_rate', 'epochs', 'dropout', 'batch_size']
    """
    return list(inspect.signature(BASE_MODELS[name]).parameters)
