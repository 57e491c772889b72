"""Write docs/tutorial.md from docs/tutorial.ipynb with its stored outputs: `python docs/_build/tutorial.py`."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
NOTE = "<!-- Made from tutorial.ipynb by `make docs`. -->"


def page_of(notebook: dict[str, Any]) -> str:
    """The notebook as Markdown."""
    parts = [NOTE]
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
    text = page_of(json.loads((DOCS / "tutorial.ipynb").read_text()))
    (DOCS / "tutorial.md").write_text(text)
