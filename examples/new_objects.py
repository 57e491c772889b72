"""Predict for objects that were not seen in training, and evaluate on held-out facts.

python examples/new_objects.py
"""

import gaifman


def main() -> None:
    """Train on the countries outside Africa, predict borders inside Africa."""
    kb = gaifman.demo()
    african = {x for (x,) in gaifman.query(kb, "exists r. located_in(x, r) & part_of(r, 'africa')")}
    train = kb.induced(set(kb.objects) - african)
    africa = kb.induced(african | {x for x in kb.objects if "country" not in kb.types(x)})

    completion = gaifman.complete(train, ["borders"], seed=1)
    model = completion.with_kb(africa)  # no country of this knowledge base was seen in training
    print(model.probability("borders", "chad", "niger"), model.probability("borders", "chad", "ghana"))
    print(model.answers("borders('chad', y)", restrict_to={"y": "country"}, top=6))

    pairs = sorted({tuple(sorted(fact.objects)) for fact in africa.facts("borders")})[::10]
    both = [("borders", *pair) for a, b in pairs for pair in ((a, b), (b, a))]  # one direction gives the other away
    test = gaifman.KnowledgeBase.from_facts(both)
    print(gaifman.evaluate(model, africa, test))


if __name__ == "__main__":
    main()
