"""Golden outputs: what they are, how they are recorded, and where they differ from the recorded ones.

Record them again, all or some, and read the diff:

    python tests/golden/record.py [name ...]

Floats of trained models are compared to a tolerance, since processors round differently. Features, exact answers and
array shapes are compared exactly. Only `features` uses internal modules; everything else is the public interface.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import gaifman

GOLDEN = Path(__file__).parent
TOLERANCE = 1e-6
"""Relative, and absolute for numbers below 1."""
LOOSE = {"explanations": 1e-4, "ranked_lists": 1e-3}
"""Log-odds of probabilities near 0 and 1 magnify rounding: compiled for SSE2 instead of AVX-512 they differ by 4e-6."""
LONG = 20
"""A longer list of texts is stored as its length, its digest and its first items."""

RELATIONS = ["borders", "capital", "member_of"]
QUICK: dict[str, Any] = {
    "options": {"epochs": 2, "hidden": [8]},
    "size": 8,
    "positives": 2,
    "negatives": 6,
    "min_examples": 0,
    "draws": 4,
    "seed": 1,
}
OTHER: dict[str, Any] = {
    **QUICK,
    "size": None,
    "negative_sampling": "typed",
    "hard_negative_fraction": 0.5,
    "hide": "links",
    "options": {"epochs": 2},
}
"""Settings that differ from the defaults."""
EXCLUDE: dict[str, Any] = {"known": "exclude"}
ONLY: dict[str, Any] = {"known": "only"}
CITIES: dict[str, Any] = {"restrict_to": {"y": "city"}}


# Trained models


@cache
def demo() -> gaifman.KnowledgeBase:
    """The bundled knowledge base."""
    return gaifman.demo()


@cache
def completion() -> gaifman.Completion:
    """Models of three relations of the demo."""
    return gaifman.complete(demo(), RELATIONS, **QUICK)


@cache
def neighbours_capital() -> gaifman.GaifmanModel:
    """A model of a query with an existential quantifier."""
    return gaifman.fit(demo(), "exists z. borders(x, z) & capital(z, y)", **QUICK)


@cache
def monarchy() -> gaifman.GaifmanModel:
    """A model of a query of one variable, with a logistic regression and other settings."""
    return gaifman.fit(demo(), "monarchy(x) & country(x)", base="logistic", **OTHER)


def trained() -> dict[str, gaifman.Completion | gaifman.GaifmanModel]:
    """Each trained model by name."""
    return {"completion": completion(), "exists": neighbours_capital(), "logistic": monarchy()}


def arrays() -> Any:
    """The arrays of each model: type, shape and a summary of the values."""
    return {name: {key: summary(array) for key, array in model.state()[0].items()} for name, model in trained().items()}


def summary(array: Any) -> dict[str, Any]:
    """An array in a few numbers."""
    about: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if not np.issubdtype(array.dtype, np.floating):
        return about | {"digest": digest(array.tolist())}
    values = array.astype(np.float64).reshape(-1)
    return about | {"mean": values.mean(), "mean_size": abs(values).mean(), "first": values[:3].tolist()}


def metadata() -> Any:
    """The metadata of each model, without the version of the package."""
    return {
        name: {key: value for key, value in model.state()[1].items() if key != "version"}
        for name, model in trained().items()
    }


def answers() -> Any:
    """Ranked answers: of one variable and of two, with known answers marked, excluded or alone."""
    models, lone = completion(), demo().with_facts([("twinned", "paris", "rome")])
    fallback = gaifman.complete(lone, ["twinned"], **QUICK)
    return [
        models.answers("capital('france', y)", top=5).as_dict(),
        models.answers("capital('france', y)", top=5, **CITIES, **EXCLUDE).as_dict(),
        models.answers("capital(x, 'lima')", top=4, candidates="seen").as_dict(),
        models.answers("member_of('chad', y)", top=8, **ONLY).as_dict(),
        models.answers("member_of(x, y)", {"y": "opec"}, top=6, prior=0.01).as_dict(),
        models.answers("borders(x, y)", top=6, candidates="typed", **EXCLUDE).as_dict(),
        models.answers("borders(x, y)", top=6, candidates="seen", draws=2).as_dict(),
        fallback.answers("twinned('lima', y)", top=3).as_dict(),
        neighbours_capital().answers(x="france", top=6).as_dict(),
        neighbours_capital().answers(top=6, candidates="seen", **EXCLUDE).as_dict(),
        monarchy().answers(top=6).as_dict(),
    ]


def probabilities() -> Any:
    """Single probabilities, each with its error and number of draws."""
    facts = [("capital", "france", "paris"), ("capital", "france", "rome"), ("borders", "peru", "chile")]
    found = [completion().probability(*fact) for fact in facts]
    found.append(completion().probability("member_of", "chad", "opec", max_error=0.02))
    found += [neighbours_capital().probability("france", city) for city in ("madrid", "lima")]
    found += [monarchy().probability(country) for country in ("spain", "france")]
    return [{"probability": each.value, "standard_error": each.error, "draws": each.draws} for each in found]


def explanations() -> Any:
    """Explanations of a known fact, of facts that are not known, and of answers of models."""
    return [
        completion().explain("capital", "france", "paris").as_dict(),
        completion().explain("capital", "france", "rome", top=3).as_dict(),
        completion().explain("member_of", "chad", "opec", draws=2, prior=0.01).as_dict(),
        neighbours_capital().explain("france", "madrid").as_dict(),
        monarchy().explain("spain", top=3).as_dict(),
    ]


def ranked_lists() -> Any:
    """The default learner: what it is made of, and what it says."""
    models = gaifman.complete(demo(), RELATIONS, seed=1)
    return {
        "metadata": {key: value for key, value in models.state()[1].items() if key != "version"},
        "answers": [
            models.answers("capital('france', y)", top=4).as_dict(),
            models.answers("member_of(x, y)", {"y": "opec"}, top=4, **EXCLUDE).as_dict(),
            models.answers("borders(x, y)", top=4, **EXCLUDE).as_dict(),
        ],
        "explanations": [
            models.explain("capital", "france", "paris", top=3).as_dict(),
            models.explain("capital", "france", "chamonix", top=3).as_dict(),
        ],
    }


def evaluation() -> Any:
    """The evaluation of a completion on facts that it has not seen."""
    held_out = [fact for relation in RELATIONS for fact in list(demo().facts(relation))[::40]]
    train, test = demo().without_facts(held_out), gaifman.KnowledgeBase.from_facts(held_out)
    models = gaifman.complete(train, RELATIONS, **QUICK)
    return gaifman.evaluate(models, train, test, draws=2, seed=3).as_dict()


# Exact answers


QUERIES = [
    "borders('france', y)",
    "exists z. borders(x, z) & capital(z, y)",
    "triple(z, x) :- exists y. separates(x, y, z)",
    "country(x) & ~(exists y. borders(x, y))",
    "country(x) & (forall y. borders(x, y) -> member_of(y, 'nato')) & (exists y. borders(x, y))",
    "population(x) > 100000000 | area(x) >= 5000000",
    "population(x) < population(y) & area(x) > area(y) & borders(x, y)",
    "exists r. r(x, 'danube')",
    "~country(x) & (monarchy(x) <-> landlocked(x)) & member_of(x, y)",
    "forall x. capital(x, y) -> city(y)",
    "forall x, y. borders(x, y) -> borders(y, x)",
]


def exact() -> Any:
    """Exact answers over the demo, and their witnesses."""
    path = "exists z. borders(x, z) & capital(z, y)"
    witnesses = {
        "madrid": gaifman.why(demo(), path, ("france", "madrid")),
        "lima": gaifman.why(demo(), path, ("france", "lima")),
        "or": gaifman.why(demo(), "borders(x, y) | borders(y, x)", ("france", "spain")),
    }
    return {
        "answers": [answered(demo(), text) for text in QUERIES],
        "with bindings": answered(demo(), path, x="france"),
        "exists": gaifman.exists(demo(), "population(x) > 1e9 & landlocked(x)"),
        "stream": digest([part.tolist() for part in gaifman.stream(demo(), path, batch_size=100)]),
        "witnesses": {name: [[str(fact) for fact in each] for each in found] for name, found in witnesses.items()},
    }


def answered(kb: gaifman.KnowledgeBase, text: str, **bindings: Any) -> dict[str, Any]:
    """The answers of one query: how many, a digest and the first."""
    found = gaifman.query(kb, text, **bindings)
    rows = [list(row) for row in found]
    about = {"query": text, "bracketed": found.bracketed, "variables": list(found.variables)}
    return about | {"count": gaifman.count(kb, text, **bindings), "digest": digest(rows), "first": rows[:2]}


# Random knowledge bases


ARITIES = {"person": 1, "town": 1, "knows": 2, "lives in": 2, "gave": 3, "sold": 4}
NAMES = [*"abcdefgh", "it's", "/m/01", "漢字", "7"]
UNARY = """
    each r. exists x. r(s1, x)
    each r. r(x, s1)
    exists x, y. gave(s1, x, y) & ~knows(x, y)
    forall x. knows(s1, x) -> person(x)
    count knows(s1, x) & town(x)
    mean age(x) for knows(x, s1)
    age(s1)
    'lives in'(x, 'b')
"""
BINARY = """
    each r. r(s1, s2)
    each r, q. exists x. r(s1, x) & q(x, s2)
    exists r. r(s1, s2)
    knows(x, y)
    exists x. knows(s1, x) & (knows(x, s2) | 'lives in'(s2, x)) & x != s2
    forall x, y. knows(x, y) -> knows(y, x)
    exists x, y. sold(s1, s2, x, y) | sold(x, y, s1, s2)
    sum age(x) for knows(s1, x) & ~knows(s2, x)
    max age(x) for person(x)
    age(s1) - age(s2)
"""


def random_kb(rng: random.Random) -> gaifman.KnowledgeBase:
    """At least one fact of each relation; some facts are uncertain, some objects have an age."""
    names = NAMES[: rng.randint(4, len(NAMES))]
    relations = [*ARITIES, *rng.choices(list(ARITIES), k=rng.randint(5, 60))]
    facts = [
        gaifman.Fact(name, tuple(rng.choices(names, k=ARITIES[name])), rng.choice([1.0, 1.0, 0.75, 0.3]))
        for name in relations
    ]
    ages = {("age", name): rng.randint(0, 160) / 2 for name in names if rng.random() < 0.6}
    return gaifman.KnowledgeBase.from_facts(facts, ages, ["b", "c"])


def random_formula(rng: random.Random, variables: tuple[str, ...], depth: int) -> str:
    """A formula as text, whose free variables are among these."""
    if not depth:
        name, arity = rng.choice(list(ARITIES.items()))
        terms = (rng.choice([*variables, *variables, "'b'"]) for _ in range(arity))
        relation = name if name.isidentifier() else f"'{name}'"
        return rng.choice(
            [f"{relation}({', '.join(terms)})"] * 4 + [f"age({variables[0]}) > 20", f"{variables[-1]} != 'c'"]
        )
    kind = rng.choice(["&", "&", "|", "->", "~", "exists", "forall"])
    if kind == "~":
        return f"~({random_formula(rng, variables, depth - 1)})"
    if kind in ("exists", "forall"):
        return f"({kind} z. {random_formula(rng, (*variables, 'z'), depth - 1)})"
    left, right = (random_formula(rng, variables, depth - 1) for _ in range(2))
    return f"({left}) {kind} ({right})"


def features(
    kb: gaifman.KnowledgeBase, phi: str, tuples: Sequence[tuple[str, ...]], query: str, **sampling: Any
) -> tuple[list[list[str]], list[dict[str, float]]]:
    """The members and the non-zero features of drawn neighbourhoods, without the facts that make the query true.

    `phi` is the name of a feature set, or its text. Uncertain facts drop out.
    """
    from gaifman.config import SamplingConfig
    from gaifman.features.compiler import compile_features
    from gaifman.features.evaluator import FeatureEvaluator
    from gaifman.features.feature_sets import named_feature_set, parse_phi
    from gaifman.kb.gaifman_graph import build_graph
    from gaifman.sampling.hiding import hide
    from gaifman.sampling.neighbourhoods import draw_neighbourhoods

    width, graph, wanted = len(tuples[0]), build_graph(kb), SamplingConfig(**sampling)
    arities = {name: relation.arity for name, relation in kb.relations.items()}
    chosen = parse_phi(phi, kb) if "\n" in phi else named_feature_set(phi, width, arities, kb.attributes)
    plan = compile_features(chosen, kb, width)
    numbers = [[kb.object_id(name) for name in names] for names in tuples]
    hidden = hide(kb, query, numbers)
    drawn = draw_neighbourhoods(graph, numbers, wanted, hidden)
    values = FeatureEvaluator(graph, plan).evaluate(drawn, hidden, drop_uncertain=wanted).to_dense()
    values = np.nan_to_num(values)  # a missing number is left out
    texts = [str(feature) for feature in plan.features]
    bounds = zip(drawn.starts.tolist(), drawn.starts.tolist()[1:], strict=False)
    members = [[kb.object_name(number) for number in drawn.members[begin:end].tolist()] for begin, end in bounds]
    rows = [dict(zip(texts, row, strict=True)) for row in values.tolist()]
    return members, [{text: value for text, value in row.items() if value} for row in rows]


def random_features(kb: gaifman.KnowledgeBase, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Features of a few tuples: the first row, and a digest of all."""
    for phi, query in ((UNARY, "person(x)"), (BINARY, "knows(x, y)"), ("default", "exists z. gave(x, z, y)")):
        known = list(gaifman.query(kb, query))[:2]
        names = list(kb.objects)
        tuples = [*known, *(tuple(rng.choices(names, k=len(known[0]))) for _ in range(2))]
        sampling = {
            "radius": rng.randint(1, 2),
            "size": rng.choice([2, 4, None]),
            "draws": 2,
            "seed": rng.randint(0, 9),
        }
        members, rows = features(kb, phi, tuples, query, **sampling)
        first = sorted(rows[0].items())[:4]
        yield {"members": members[0], "drawn": digest(members), "values": dict(first), "digest": digest(rows)}


def random_kbs() -> Any:
    """Queries and features over twenty random knowledge bases."""
    found = []
    for seed in range(20):
        rng = random.Random(seed)
        kb = random_kb(rng)
        texts = [random_formula(rng, ("x", "y"), depth) for depth in (1, 2, 2, 3)]
        about = {"seed": seed, "objects": len(kb.objects), "facts": len(kb), "fingerprint": kb.fingerprint}
        queries = [{name: value for name, value in answered(kb, text).items() if name != "first"} for text in texts]
        found.append(about | {"queries": queries, "features": list(random_features(kb, rng))})
    return found


# Recording and comparing


OUTPUTS: dict[str, Callable[[], Any]] = {
    "arrays": arrays,
    "metadata": metadata,
    "answers": answers,
    "probabilities": probabilities,
    "explanations": explanations,
    "ranked_lists": ranked_lists,
    "evaluation": evaluation,
    "exact": exact,
    "random_kbs": random_kbs,
}


def digest(value: Any) -> str:
    """A digest of a JSON value."""
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def compact(value: Any) -> Any:
    """The value as it is stored: long lists of texts as digests, floats with nine digits."""
    match value:
        case dict():
            return {str(key): compact(each) for key, each in value.items()}
        case [str(), *_] if len(value) > LONG:
            return {"length": len(value), "digest": digest(value), "first": value[:3]}
        case list() | tuple():
            return [compact(each) for each in value]
        case float():
            return float(f"{value:.9g}")
    return value


@cache
def actual(name: str) -> Any:
    """The present output."""
    return json.loads(json.dumps(compact(OUTPUTS[name]())))


@cache
def golden(name: str) -> Any:
    """The recorded output."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, text, truth value and null with its path."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, f"{path}/{key}")
    else:
        yield path, value


def split(value: Any) -> dict[str, list[tuple[str, Any]]]:
    """The numbers, the texts and the keys of an output, each with its path."""
    found = list(leaves(value))
    return {
        "numbers": [(path, leaf) for path, leaf in found if not isinstance(leaf, str)],
        "texts": [(path, leaf) for path, leaf in found if isinstance(leaf, str)],
        "keys": [(path, path) for path, _ in found],
    }


def same(one: Any, other: Any, tolerance: float) -> bool:
    """Equal; floats to the tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and bool(one == other)


def differences(name: str, part: str) -> list[str]:
    """Where the present output differs from the recorded one in one of its parts. Paths are only shown."""
    old, new = split(golden(name))[part], split(actual(name))[part]
    tolerance = LOOSE.get(name, TOLERANCE)
    pairs = zip(old, new, strict=False)
    found = [f"{at}: {was!r} is now {now!r}" for (_, was), (at, now) in pairs if not same(was, now, tolerance)]
    return found + [f"{len(old)} {part} are now {len(new)}"] * (len(old) != len(new))


def text_of(value: Any, depth: int = 0) -> str:
    """JSON whose short lists and objects take one line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= 118 or not isinstance(value, dict | list):
        return line
    indent = " " * (depth + 1)
    if isinstance(value, list):
        parts = [text_of(each, depth + 1) for each in value]
    else:
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {text_of(each, depth + 1)}" for key, each in value.items()]
    begin, end = "[]" if isinstance(value, list) else "{}"
    return f"{begin}\n{indent}" + f",\n{indent}".join(parts) + f"\n{' ' * depth}{end}"


def record(names: Sequence[str]) -> None:
    """Write the present outputs, and say which parts of each differ from the recorded ones."""
    for name in names or OUTPUTS:
        path = GOLDEN / f"{name}.json"
        parts = ("numbers", "texts", "keys")
        changed = [part for part in parts if differences(name, part)] if path.exists() else ["new"]
        path.write_text(text_of(actual(name)) + "\n", encoding="utf-8")
        print(f"{name}: {', '.join(changed) or 'unchanged'}")


if __name__ == "__main__":
    record(sys.argv[1:])
