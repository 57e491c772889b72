"""The settings of ranked lists, and when they are the base model.

>>> from gaifman.logic.ast import relation_query
>>> choose_base(TrainingConfig(), relation_query("capital", 2))
'listwise'
>>> choose_base(TrainingConfig(size=20), relation_query("capital", 2))
'mlp'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from gaifman.errors import FormulaError, KnowledgeBaseError, similar_names
from gaifman.listwise.mining import SPARSE_MINING, MiningConfig, WalkBound, choose_mining
from gaifman.listwise.ranker import ListwiseConfig
from gaifman.listwise.steps import StepIndex
from gaifman.logic.ast import Query
from gaifman.training import AUTO, LISTWISE, NETWORK_RADIUS, NETWORK_SIZE, TrainingConfig

NETWORK_SETS = ("paper", "universal-schema")
"""Feature sets that ask for the network if nothing else is given."""
_SHARED = ("seed", "hide", "holdout", "max_held_out", "mining", "bound")
"""Settings of training, not options of the base model."""


def listwise_options() -> list[str]:
    """The options of ranked lists."""
    return [each.name for kind in (MiningConfig, ListwiseConfig) for each in fields(kind) if each.name not in _SHARED]


def choose_base(config: TrainingConfig, query: Query) -> str:
    """The base model for a query: ranked lists for a relation, the network for other queries.

    A named feature set by itself, a size of neighbourhoods or an option of the network ask for the network, unless
    ranked lists are named. Other feature sets are added to what ranked lists mine.
    """
    if config.base == LISTWISE:
        if query.atomic_relation is None:
            raise FormulaError(
                f"{query} is not one relation with its variables in order, which ranked lists need",
                hint='for other queries: base="mlp", or --base mlp',
            )
        _check_options(config.options)
        return LISTWISE
    if config.base != AUTO:
        return config.base
    own = set(config.options) <= set(listwise_options())
    of_network = config.phi in NETWORK_SETS or config.size != AUTO or not own
    return "mlp" if of_network or query.atomic_relation is None else LISTWISE


def resolve_config(config: TrainingConfig, query: Query) -> TrainingConfig:
    """The settings with the base model, the size, the radius and what is hidden that `auto` stands for.

    The radius of ranked lists with a size stays `auto`: it depends on the length of paths.
    """
    base = choose_base(config, query)
    size, radius = config.size, config.radius
    if size == AUTO:
        size = None if base == LISTWISE else NETWORK_SIZE
    if radius == AUTO and (base != LISTWISE or size is None):
        radius = NETWORK_RADIUS
    return replace(config, base=base, size=size, radius=radius, hide="facts" if config.hide == AUTO else config.hide)


def check_validation(config: TrainingConfig, query: Query) -> None:
    """Raise an error if validation facts have nothing to choose with these settings."""
    if choose_base(config, query) != LISTWISE:
        raise KnowledgeBaseError(
            "validation facts choose what ranked lists hide, and the model is a network",
            hint='leave out the validation facts, or choose ranked lists: base="listwise", or --base listwise',
        )
    if config.hide != AUTO:
        raise KnowledgeBaseError(
            f"hide={config.hide} is given: validation facts have nothing to choose",
            hint="leave out one of the two",
        )


def check_base(config: TrainingConfig, query: Query) -> None:
    """Raise an error for a base model that does not exist, or options that it does not have."""
    resolved = resolve_config(config, query)
    if resolved.base == LISTWISE:
        listwise_config(resolved)
    else:
        resolved.make_base_model()


SPARSE_CONFIG = ListwiseConfig(SPARSE_MINING, questions=4_000, answers_per_question=1_000)
"""For sparse knowledge bases: there are few other answers to a question, and more questions help."""


def listwise_config(config: TrainingConfig, index: StepIndex | None = None) -> ListwiseConfig:
    """The settings of ranked lists, from those of training. Defaults depend on the knowledge base."""
    _check_options(config.options)
    sparse = index is not None and choose_mining(index) is SPARSE_MINING
    default = SPARSE_CONFIG if sparse else ListwiseConfig()
    mining = {each.name for each in fields(MiningConfig)}
    own = {name: value for name, value in config.options.items() if name not in mining}
    of_mining = {name: value for name, value in config.options.items() if name in mining}
    mining_config = replace(default.mining, seed=config.seed, **of_mining)
    return replace(default, mining=mining_config, bound=walk_bound(config), hide=config.hide, seed=config.seed, **own)


def walk_bound(config: TrainingConfig) -> WalkBound | None:
    """The members that walks pass through; None without a size."""
    if not isinstance(config.size, int):
        return None
    radius = None if isinstance(config.radius, str) else config.radius
    return WalkBound(config.size, config.draws, radius, config.seed)


def _check_options(options: Mapping[str, Any]) -> None:
    known = listwise_options()
    for option in options:
        if option not in known:
            raise KnowledgeBaseError(
                f"ranked lists have no option {option}",
                suggestions=similar_names(option, known),
                hint=f'options: {", ".join(known)}; those of the network need base="mlp", or --base mlp',
            )
