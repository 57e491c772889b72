"""A tiny data set in the layout of WN18 and FB15k, and settings that train on it quickly."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

QUICK = ("--option", "epochs=1", "--option", "min_examples=0", "--option", "hidden=[8]", "--threads", "1")
"""Options of a reproduction that takes a moment."""
SMALL = {"epochs": 1, "min_examples": 0, "hidden": [8]}


def lines(people: int = 20, seed: int = 3) -> dict[str, list[str]]:
    """Triples of three relations, one of which is the inverse of another, in three parts."""
    draw, names = random.Random(seed), [f"{i:08d}" for i in range(people)]
    facts = set()
    for name in names:
        for other in draw.sample(names, 3):
            facts |= {(name, "_hypernym", other), (other, "_hyponym", name)}
        facts.add((name, "_similar_to", draw.choice(names)))
    order = sorted(facts)
    draw.shuffle(order)
    texts = ["\t".join(fact) for fact in order]
    return {"test": texts[:8], "valid": texts[8:14], "train": texts[14:]}


def data_set(folder: Path, name: str = "WN18", *, packed: bool = True) -> Path:
    """Write it below a folder, as `--data` expects."""
    (folder / name).mkdir(parents=True)
    for part, own in lines().items():
        text = "".join(f"{line}\n" for line in own).encode()
        path = folder / name / (f"{part}.txt.gz" if packed else f"{part}.txt")
        path.write_bytes(gzip.compress(text, mtime=0) if packed else text)
    return folder
