"""Run benchmarks and write what they measured to docs/results.md.

python benchmarks/all.py [NAME ...] [--quick]        (or: make bench)

Without names all of them. The tables of others stay as they are: each says on which machine it was made.
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
BY_HAND = "reproduce"
"""A table that `gaifman reproduce` makes, in hours: it stays as it is."""
HEAD = """# Results

Made by `make bench`; each table by the command above it.

Times on a shared machine mean little by themselves; a ratio has both sides measured in the same run, in turns.
"""


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
    return f"\n## {name}\n\n{command}\n\n| figure | measured |\n| --- | ---: |\n{rows}\n"


def kept() -> dict[str, str]:
    """The tables that the page has."""
    text = PAGE.read_text() if PAGE.exists() else ""
    parts = re.split(r"(?m)^(?=\n## )", text)[1:]
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
    tables = {name: part for name, part in kept().items() if name in (*names, BY_HAND)} | made
    PAGE.write_text(HEAD + "".join(tables[name] for name in sorted(tables)))


if __name__ == "__main__":
    main()
