"""Time to read a knowledge base from text, compared with pandas, and the memory of ten million facts.

    GAIFMAN_DATA=… python benchmarks/reading.py [--quick]

Without `GAIFMAN_DATA`, a file of FB15k's shape is generated. `--quick` reads FB15k fewer times.
"""

from __future__ import annotations

import gzip
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import arguments, data, interleaved, median_ratio, report
from gaifman.config import DEFAULT_LIMITS
from gaifman.io import read
from gaifman.io.files import InputFile, read_blocks
from gaifman.io.tabular import split_rows
from gaifman.kb.builder import KnowledgeBaseBuilder
from gaifman.kb.tables import NameEncoder

NONE = np.zeros(0, np.int64)

CHILD = """
import resource, sys, time
start = time.perf_counter()
from gaifman.io import read
kb = read(sys.argv[1])
print(len(kb), time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def main() -> None:
    """Measure and print."""
    quick = arguments(__doc__).quick
    with tempfile.TemporaryDirectory() as folder:
        path = data("FB15k/train.txt.gz")
        if path is None:
            print("GAIFMAN_DATA names no FB15k: reading a generated file of its shape")
            path = like_fb15k(Path(folder) / "like_fb15k.txt.gz")
        runs = 7 if quick else 21
        figures = speed(path, runs) | numbering(path, runs)
        figures |= memory(generated(Path(folder) / "generated.tsv"))
    report("reading", figures)


def speed(path: Path, runs: int) -> dict[str, float | int]:
    """Text to knowledge base, compared with pandas reading the same text into columns."""
    import pandas

    facts = len(read(path))
    seconds = interleaved(
        runs,
        gaifman=lambda: read(path),
        pandas=lambda: pandas.read_csv(path, sep="\t", header=None, quoting=3),
    )
    ours, theirs = seconds["gaifman"], seconds["pandas"]
    print(f"{path.name}: {facts:,} facts in {statistics.median(ours):.3f} s, pandas {statistics.median(theirs):.3f} s")
    return {
        "fb15k_facts": facts,
        "fb15k_seconds": statistics.median(ours),
        "fb15k_seconds_over_pandas": median_ratio(ours, theirs),
        "fb15k_best_over_pandas_best": min(ours) / min(theirs),
        "facts_per_s": round(facts / statistics.median(ours)),
    }


def numbering(path: Path, runs: int) -> dict[str, float | int]:
    """Names to ids by arrays, compared with a dictionary, on undecoded blocks of the file."""
    cut = [(block, split_rows(block, "\t")) for block in read_blocks(InputFile.from_path(path), DEFAULT_LIMITS)]

    def by_arrays() -> None:
        draft = KnowledgeBaseBuilder()
        for _, rows in cut:
            rows.encode_names(draft, NONE, NONE)

    def by_dictionary() -> None:
        index = NameEncoder()
        for block, _ in cut:
            index.encode(block.decode().replace("\n", "\t").split("\t")[:-1])

    seconds = interleaved(runs, arrays=by_arrays, dictionary=by_dictionary)
    return {"interner_seconds_over_dictionary": median_ratio(seconds["arrays"], seconds["dictionary"])}


def memory(path: Path) -> dict[str, float | int]:
    """The peak memory of reading a file, in its own process."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    facts, seconds, kilobytes = done.stdout.split()
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    gigabytes = int(kilobytes) * unit / 1e9
    print(f"{int(facts):,} generated facts: {gigabytes:.2f} GB, {float(seconds):.1f} s")
    return {"peak_memory_gb_1e7_facts": gigabytes, "seconds_1e7_facts": float(seconds)}


def like_fb15k(path: Path) -> Path:
    """A file with as many objects, relations and facts as FB15k, and names of the same length."""
    draw = random.Random(15)
    objects = [f"/m/0{draw.getrandbits(28):x}" for _ in range(14_951)]
    relations = [f"/a_domain/of_things/with_a_long_property_name_{number}" for number in range(1_345)]
    with gzip.open(path, "wt", compresslevel=6) as file:
        for _ in range(483_142):
            head, tail = objects[int(14_951 * draw.random() ** 2)], objects[int(14_951 * draw.random() ** 2)]
            file.write(f"{head}\t{relations[int(1_345 * draw.random() ** 3)]}\t{tail}\n")
    return path


def generated(path: Path) -> Path:
    """A file of ten million random triples over a million objects."""
    draw = np.random.default_rng(7)
    with path.open("w") as file:
        for _ in range(100):
            heads, tails = draw.integers(0, 1_000_000, (2, 100_000)).tolist()
            relations = draw.integers(0, 200, 100_000).tolist()
            file.writelines(
                f"/entity/{head}\t/relation/{relation}\t/entity/{tail}\n"
                for head, relation, tail in zip(heads, relations, tails, strict=True)
            )
    return path


if __name__ == "__main__":
    main()
