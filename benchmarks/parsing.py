"""Time to parse a formula, and to refuse a hostile text.

python benchmarks/parsing.py [--quick]

The peer is the parser that lark generates from tests/support/grammar.lark, on the same texts in the same run.
`*_over_accepted` is the time to refuse a hostile text over the time to parse the largest formula within the limits.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from common import arguments, interleaved, median_ratio, report
from gaifman.errors import LimitError
from gaifman.logic.parser import parse

sys.path.append(str(Path(__file__).parent.parent / "tests" / "support"))

HOSTILE = {
    "deep_1e5": "(" * 100_000 + "p(x)" + ")" * 100_000,
    "negations_1e5": "~" * 100_000 + "p(x)",
    "one_megabyte": "p(x) & " * 150_000 + "p(x)",
}
LARGEST = " & ".join(["r(x, y)"] * 250)


def refuse(text: str) -> None:
    """Read a text that must be refused."""
    try:
        parse(text)
    except LimitError:
        return
    raise AssertionError("a hostile text was read")


def main() -> None:
    """Measure and print."""
    from fuzz import accepts
    from generators import Generator

    quick = arguments(__doc__).quick
    generator = Generator(random.Random(1))
    texts = [str(generator.formula(depth=4)) for _ in range(500 if quick else 3000)]
    seconds = interleaved(
        3 if quick else 7,
        ours=lambda: [parse(text) for text in texts],
        lark=lambda: [accepts(text, "formula") for text in texts],
        accepted=lambda: parse(LARGEST),
        **{name: (lambda text=text: refuse(text)) for name, text in HOSTILE.items()},
    )
    figures = {
        "formulas_per_s": len(texts) / min(seconds["ours"]),
        "seconds_over_lark": median_ratio(seconds["ours"], seconds["lark"]),
        "largest_accepted_ms": 1000 * min(seconds["accepted"]),
    }
    for name in HOSTILE:
        figures[f"refuse_{name}_ms"] = 1000 * min(seconds[name])
        figures[f"refuse_{name}_over_accepted"] = median_ratio(seconds[name], seconds["accepted"])
    report("parsing", figures)


if __name__ == "__main__":
    main()
