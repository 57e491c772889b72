"""Run benchmarks and write their figures to docs/results.md.

python benchmarks/all.py [NAME ...] [--quick]        (or: make bench)

Without names, run all. The tables of other benchmarks stay as they are: each names the machine that it ran on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "results.md"
OTHERS = ("all", "common")
MARK = "<!-- raw figures -->\n"
"""Text above it is written by hand; below it are the tables."""


def run(path: Path, quick: bool) -> dict[str, Any]:
    """Run one benchmark; the JSON object in its last line."""
    command = [sys.executable, str(path), *(["--quick"] if quick else [])]
    sys.stderr.write(f"{path.name} …\n")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(name: str, result: dict[str, Any], quick: bool) -> str:
    """The figures of one benchmark."""
    rows = "\n".join(f"| `{figure}` | {value:,} |" for figure, value in result["figures"].items())
    kind = ", ".join(str(value) for value in result["machine"].values())
    real = bool(os.environ.get("GAIFMAN_DATA"))
    data = "real data sets" if real else "without GAIFMAN_DATA: generated data of the same shape"
    option = " --quick" if quick else ""
    command = f"`python benchmarks/{name}.py{option}` ({kind}; {data})"
    return f"\n### {name}\n\n{command}\n\n| figure | measured |\n| --- | ---: |\n{rows}\n"


def tables_of(text: str) -> dict[str, str]:
    """The tables below the mark, by name."""
    parts = re.split(r"(?m)^(?=\n### )", text)[1:]
    return {part.split()[1]: part for part in parts}


def main() -> None:
    """Run them, then write the page: nothing is written when one fails."""
    names = [path.stem for path in sorted(HERE.glob("*.py")) if path.stem not in OTHERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="each ends within 50 seconds")
    wanted = parser.parse_args()
    if unknown := set(wanted.names) - set(names):
        parser.error(f"there is no benchmark {sorted(unknown)[0]}")
    chosen = wanted.names or names
    made = {name: table(name, run(HERE / f"{name}.py", wanted.quick), wanted.quick) for name in chosen}
    head, mark, text = PAGE.read_text().partition(MARK)
    tables = {name: part for name, part in tables_of(text).items() if name in names} | made
    PAGE.write_text(head + mark + "".join(tables[name] for name in sorted(tables)))


if __name__ == "__main__":
    main()
