"""gaifman: the missing facts of a knowledge base, with probabilities and reasons.

>>> import gaifman
>>> kb = gaifman.demo()
>>> kb
<KnowledgeBase: 1,833 objects, 52 relations, 9,632 facts, 2 attributes with 394 values>
>>> print(gaifman.parse("exists z. borders(x, z) & capital(z, 'paris')", kb.schema))
∃z borders(x, z) ∧ capital(z, 'paris')

Names are imported on first use, so that `import gaifman` and `gaifman --help` are fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaifman.completion import Completion, complete, load
    from gaifman.config import Budget, Limits
    from gaifman.description import Description, describe
    from gaifman.errors import (
        ArgumentError,
        FormulaError,
        GaifmanError,
        InputError,
        KnowledgeBaseError,
        LimitError,
        OutputError,
        StoppedError,
        TrainingError,
    )
    from gaifman.evaluation.evaluate import Evaluation, evaluate, evaluate_draw_counts
    from gaifman.evaluation.proposals import ProposalTest, measure_proposals
    from gaifman.explain.explanation import Explanation, Reason
    from gaifman.features.feature_sets import FeatureSet, parse_phi
    from gaifman.io import demo, read, write
    from gaifman.kb.knowledge_base import Fact, KnowledgeBase, union
    from gaifman.kb.leakage import Leakage
    from gaifman.kb.links import RelationLink
    from gaifman.kb.reviews import Provenance
    from gaifman.kb.split import Split
    from gaifman.logic.parser import parse, parse_feature, parse_query
    from gaifman.missing import MissingFact, MissingFacts
    from gaifman.model import GaifmanModel, Model, fit
    from gaifman.predict import Estimate, Estimates
    from gaifman.queries.answers import count, exists, query, stream
    from gaifman.queries.engine import Engine
    from gaifman.queries.witnesses import why
    from gaifman.ranking.ranked_answers import Answer, RankedAnswers
    from gaifman.review import add_reviewed
    from gaifman.sampling.constraints import Conflict, Constraints, FoundConstraint, parse_constraints
    from gaifman.sampling.found_constraints import find_constraints
    from gaifman.training import Callback, TrainingConfig

__version__ = "0.1.0"

_HOMES = {
    "Answer": "ranking.ranked_answers",
    "ArgumentError": "errors",
    "Budget": "config",
    "Callback": "training",
    "Completion": "completion",
    "Conflict": "sampling.constraints",
    "Constraints": "sampling.constraints",
    "Description": "description",
    "Engine": "queries.engine",
    "Estimate": "predict",
    "Estimates": "predict",
    "Evaluation": "evaluation.evaluate",
    "Explanation": "explain.explanation",
    "Fact": "kb.knowledge_base",
    "FeatureSet": "features.feature_sets",
    "FormulaError": "errors",
    "FoundConstraint": "sampling.constraints",
    "GaifmanError": "errors",
    "GaifmanModel": "model",
    "InputError": "errors",
    "KnowledgeBase": "kb.knowledge_base",
    "KnowledgeBaseError": "errors",
    "Leakage": "kb.leakage",
    "LimitError": "errors",
    "Limits": "config",
    "MissingFact": "missing",
    "MissingFacts": "missing",
    "Model": "model",
    "OutputError": "errors",
    "ProposalTest": "evaluation.proposals",
    "Provenance": "kb.reviews",
    "RankedAnswers": "ranking.ranked_answers",
    "Reason": "explain.explanation",
    "RelationLink": "kb.links",
    "Split": "kb.split",
    "StoppedError": "errors",
    "TrainingConfig": "training",
    "TrainingError": "errors",
    "add_reviewed": "review",
    "complete": "completion",
    "count": "queries.answers",
    "demo": "io",
    "describe": "description",
    "evaluate": "evaluation.evaluate",
    "evaluate_draw_counts": "evaluation.evaluate",
    "exists": "queries.answers",
    "find_constraints": "sampling.found_constraints",
    "fit": "model",
    "load": "completion",
    "measure_proposals": "evaluation.proposals",
    "parse": "logic.parser",
    "parse_constraints": "sampling.constraints",
    "parse_feature": "logic.parser",
    "parse_phi": "features.feature_sets",
    "parse_query": "logic.parser",
    "query": "queries.answers",
    "read": "io",
    "stream": "queries.answers",
    "union": "kb.knowledge_base",
    "why": "queries.witnesses",
    "write": "io",
}
"""Public name → its module."""

__all__ = [
    "Answer",
    "ArgumentError",
    "Budget",
    "Callback",
    "Completion",
    "Conflict",
    "Constraints",
    "Description",
    "Engine",
    "Estimate",
    "Estimates",
    "Evaluation",
    "Explanation",
    "Fact",
    "FeatureSet",
    "FormulaError",
    "FoundConstraint",
    "GaifmanError",
    "GaifmanModel",
    "InputError",
    "KnowledgeBase",
    "KnowledgeBaseError",
    "Leakage",
    "LimitError",
    "Limits",
    "MissingFact",
    "MissingFacts",
    "Model",
    "OutputError",
    "ProposalTest",
    "Provenance",
    "RankedAnswers",
    "Reason",
    "RelationLink",
    "Split",
    "StoppedError",
    "TrainingConfig",
    "TrainingError",
    "__version__",
    "add_reviewed",
    "complete",
    "count",
    "demo",
    "describe",
    "evaluate",
    "evaluate_draw_counts",
    "exists",
    "find_constraints",
    "fit",
    "load",
    "measure_proposals",
    "parse",
    "parse_constraints",
    "parse_feature",
    "parse_phi",
    "parse_query",
    "query",
    "read",
    "stream",
    "union",
    "why",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gaifman' has no attribute {name!r}")
    return getattr(import_module(f"gaifman.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
