"""Tiny data sets in the layout of the public ones, and settings that train on them quickly."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

QUICK = ("--option", "epochs=1", "--option", "min_examples=0", "--option", "hidden=[8]", "--threads", "1")
"""Options of a reproduction that takes a moment."""
SMALL = {"epochs": 1, "min_examples": 0, "hidden": [8]}


def lines(people: int = 20, seed: int = 3, prefix: str = "") -> dict[str, list[str]]:
    """Triples of three relations, one of which is the inverse of another, in three parts."""
    draw, names = random.Random(seed), [f"{prefix}{i:08d}" for i in range(people)]
    facts = set()
    for name in names:
        for other in draw.sample(names, 3):
            facts |= {(name, "_hypernym", other), (other, "_hyponym", name)}
        facts.add((name, "_similar_to", draw.choice(names)))
    order = sorted(facts)
    draw.shuffle(order)
    texts = ["\t".join(fact) for fact in order]
    return {"test": texts[:8], "valid": texts[8:14], "train": texts[14:]}


def nary_lines(people: int = 12, seed: int = 3) -> dict[str, list[str]]:
    """Facts of a relation with two objects and of one with three, the relation first, in three parts."""
    draw, names = random.Random(seed), [f"p{i}" for i in range(people)]
    pairs = {("knows", *draw.sample(names, 2)) for _ in range(40)}
    triples = {("gives", one, other, draw.choice(names)) for _, one, other in sorted(pairs)}
    order = sorted({*pairs, *triples})
    draw.shuffle(order)
    texts = ["\t".join(fact) for fact in order]
    return {"test": texts[:8], "valid": texts[8:14], "train": texts[14:]}


def data_set(
    folder: Path, name: str = "WN18", *, packed: bool = True, parts: dict[str, list[str]] | None = None
) -> Path:
    """Write it below a folder, as `--data-dir` expects."""
    (folder / name).mkdir(parents=True)
    for part, own in (parts or lines()).items():
        text = "".join(f"{line}\n" for line in own).encode()
        path = folder / name / (f"{part}.txt.gz" if packed else f"{part}.txt")
        path.write_bytes(gzip.compress(text, mtime=0) if packed else text)
    return folder


def benchmark_sets(folder: Path) -> Path:
    """Write a small data set of each kind: triples, an inductive pair with other objects, and n-ary facts."""
    data_set(folder, "umls")
    data_set(folder, "grail/fb237_v1")
    data_set(folder, "grail/fb237_v1_ind", parts=lines(seed=4, prefix="new"))
    return data_set(folder, "JF17K", parts=nary_lines())
