"""Run every benchmark and write what they measured to docs/results.md.

python benchmarks/all.py [--quick]        (or: make bench)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import arguments, machine

HERE = Path(__file__).parent
OTHERS = ("all", "common")
HEAD = """# Results

Made by `make bench`; each table by the command above it. This machine: {machine}. {data}

Times on a shared machine mean little by themselves; a ratio has both sides measured in the same run, in turns.
"""


def run(path: Path, quick: bool) -> dict[str, Any]:
    """Run one benchmark; the JSON object in its last line."""
    command = [sys.executable, str(path), *(["--quick"] if quick else [])]
    sys.stderr.write(f"{path.name} …\n")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(name: str, figures: dict[str, float], quick: bool) -> str:
    """The figures of one benchmark."""
    rows = "\n".join(f"| `{figure}` | {value:,} |" for figure, value in figures.items())
    option = " --quick" if quick else ""
    return f"\n## {name}\n\n`python benchmarks/{name}.py{option}`\n\n| figure | measured |\n| --- | ---: |\n{rows}\n"


def main() -> None:
    """Run all, then write the page: nothing is written when one fails."""
    quick = arguments(__doc__).quick
    paths = [path for path in sorted(HERE.glob("*.py")) if path.stem not in OTHERS]
    tables = [table(path.stem, run(path, quick)["figures"], quick) for path in paths]
    kind = ", ".join(str(value) for value in machine().values())
    data = (
        "Real data sets."
        if os.environ.get("GAIFMAN_DATA")
        else "Without GAIFMAN_DATA: generated data of the same shape."
    )
    (HERE.parent / "docs" / "results.md").write_text(HEAD.format(machine=kind, data=data) + "".join(tables))


if __name__ == "__main__":
    main()
