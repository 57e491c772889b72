"""Write a page beside each notebook in docs, with its stored outputs: `python docs/_build/notebooks.py`."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
NOTE = "<!-- Made from {name} by `make docs`. -->"


def page_of(path: Path) -> str:
    """A notebook as Markdown."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    parts = [NOTE.format(name=path.name)]
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```py\n{source}\n```")
        parts += [f'<div class="output">{rendered(output)}</div>' for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def rendered(output: dict[str, Any]) -> str:
    """An output as HTML without blank lines, which would end it in Markdown."""
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]).strip())
    return f"<pre>{html.escape(''.join(data['text/plain']).strip())}</pre>"


if __name__ == "__main__":
    for each in NOTEBOOKS:
        each.with_suffix(".md").write_text(page_of(each))
