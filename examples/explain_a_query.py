"""Ask a complex query: exact answers with their facts, then probable answers with their reasons.

python examples/explain_a_query.py
"""

import gaifman

QUERY = "exists z. flows_through(z, x) & flows_through(z, y) & x != y"


def main() -> None:
    """Which countries share a river with Portugal, and which probably do?"""
    kb = gaifman.demo()
    print("known:")
    for _, country in gaifman.query(kb, QUERY, x="portugal"):
        facts = gaifman.why(kb, QUERY, ("portugal", country))[0]
        print(" ", country, "because", *facts)

    model = gaifman.fit(kb, QUERY, seed=1)
    missing = model.answers(x="portugal", known="exclude", restrict_to={"y": "country"}, top=3, prior=0.01)
    print("probable, if one candidate in 100 is an answer:")
    for answer in missing:
        print(" ", answer)

    print("why the first one:")
    print(model.explain("portugal", *missing[0].names, top=3, prior=0.01))


if __name__ == "__main__":
    main()
