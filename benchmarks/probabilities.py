"""Probabilities of proposed facts, beside facts that were held out, popularity, and rescaled raw scores.

python benchmarks/probabilities.py [--quick]

Of the demo, a tenth of the facts of each relation with at least 50 is held out at random: not those of `gaifman demo`,
which leaves no held-out fact its inverse. Of UMLS, WN18RR, FB15k-237 and NL27k, in the folder
`GAIFMAN_DATA`, the validation and the test facts are held out together, and a model is trained on the training facts
with default settings (on FB15k-237, links are hidden). Of FB15k-237 every sixth relation by name is measured, of NL27k
every eighth. `--quick` takes the demo only.

`ece` is the expected calibration error of what is proposed with 0.05 or more, `expected_ratio` the sum of all
probabilities by the number of held-out facts, `confident_true` the share of what is proposed with 0.9 or more that is
true, if there are 20, `set_coverage` how many held-out answers are in the answer sets. Brier scores are sums over all
candidates, per held-out fact.
"""

from __future__ import annotations

import random
import sys

import gaifman
from common import arguments, data, report
from gaifman.evaluation.proposals import ProposalTest

SETS = {"umls": 1, "WN18RR": 1, "FB15k-237": 6, "NL27k": 8}
"""Data set → which share of its relations is measured: one in this many."""
LINKED = ("FB15k-237",)
"""Their held-out pairs were chosen to be unlinked."""
MIN_CONFIDENT_COUNT = 20
MIN_FACTS, HELD_OUT_SHARE = 50, 0.1
"""Of the demo."""


def demo() -> ProposalTest:
    """The demo, without a tenth of the facts of each larger relation."""
    kb, choose = gaifman.demo(), random.Random(0)
    relations = [each.name for each in kb.relations.values() if each.arity == 2 and each.count >= MIN_FACTS]
    facts = [fact for name in relations for fact in kb.facts(name) if choose.random() < HELD_OUT_SHARE]
    visible = kb.without_facts(facts)
    return gaifman.measure_proposals(
        gaifman.complete(visible, relations), visible, gaifman.KnowledgeBase.from_facts(facts)
    )


def benchmark_set(name: str, every: int) -> ProposalTest | None:
    """A data set, without its validation and test facts; None without the data."""
    files = [data(f"{name}/{split}.txt.gz") for split in ("train", "valid", "test")]
    if None in files:
        return None
    train, *held_out = (gaifman.read(path) for path in files if path is not None)
    relations = sorted(train.relations)[::every]
    facts = [fact for kb in held_out for fact in kb.facts() if fact.relation in set(relations)]
    model = gaifman.complete(train, relations, hide="links" if name in LINKED else "auto")
    return gaifman.measure_proposals(model, train, gaifman.KnowledgeBase.from_facts(facts))


def figures(name: str, test: ProposalTest) -> dict[str, float | int]:
    """The figures of a data set, with its name before each."""
    whole, (count, precision) = test.as_dict(), test.confident()
    found: dict[str, float | int] = {
        "held_out": test.held_out,
        "expected_ratio": test.expected / test.held_out,
        "proposed": whole["proposed"],
        "ece": whole["ece"],
        "confident": count,
    }
    if precision is not None and count >= MIN_CONFIDENT_COUNT:
        found["confident_true"] = precision
    for group, own in whole["answer_sets"].items():
        found[f"set_coverage_{group.replace('-', '_')}"] = own["coverage"]
    for kind, quality in whole["quality"].items():
        found[f"{kind}_brier"] = quality["brier"]
        found[f"{kind}_ece"] = quality["ece"] if quality["ece"] is not None else 0.0
    return {f"{name.lower().replace('-', '_')}_{key}": value for key, value in found.items()}


def main() -> None:
    """Measure and report."""
    quick, found = arguments(__doc__).quick, figures("demo", demo())
    for name, every in {} if quick else SETS.items():
        sys.stderr.write(f"{name} …\n")
        test = benchmark_set(name, every)
        if test is not None:
            found |= figures(name, test)
    report("probabilities", found)


if __name__ == "__main__":
    main()
