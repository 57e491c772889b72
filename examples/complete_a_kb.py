"""Complete a knowledge base: hold out facts, train, and find them again among all candidates.

python examples/complete_a_kb.py
"""

import gaifman


def main() -> None:
    """Hold out every twentieth capital, and rank cities for the countries concerned."""
    kb = gaifman.demo()
    held_out = [*kb.facts("capital")][::20]
    train = kb.without_facts(held_out)

    completion = gaifman.complete(train, ["capital"], seed=1)
    print(completion)

    found = 0
    for country, capital in (fact.objects for fact in held_out):
        answers = completion.answers("capital(x, y)", x=country, restrict_to={"y": "city"}, top=1)
        best = answers[0]
        found += best.names == (capital,)
        print(f"{country}: {best.names[0]} {best.estimate}, held out: {capital}")
    print(f"{found} of {len(held_out)} held-out capitals come first")


if __name__ == "__main__":
    main()
