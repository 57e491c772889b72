"""MkDocs hooks: the tutorial notebook and the changelog become pages of the site."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
SLOT = '<div data-output="{}"></div>'
"""Stands for an HTML output while Markdown is rendered, so that Markdown leaves the output alone."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())
    files.append(File.generated(config, "tutorial.md", content=page_of(notebook)))
    files.append(File.generated(config, "changelog.md", content=(ROOT / "CHANGELOG.md").read_text()))
    return files


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the notebook's HTML outputs where their slots are."""
    if page.file.src_uri != "tutorial.md":
        return content
    notebook = json.loads((ROOT / "docs" / "tutorial.ipynb").read_text())
    for number, found in enumerate(outputs_of(notebook)):
        content = content.replace(SLOT.format(number), f'<div class="output">{rendered(found)}</div>')
    return content


def page_of(notebook: dict[str, Any]) -> str:
    """The notebook as Markdown, with a slot for each output."""
    parts, number = [], 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for _ in cell.get("outputs", []):
            parts.append(SLOT.format(number))
            number += 1
    return "\n\n".join(parts) + "\n"


def outputs_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """All outputs, in order."""
    return [found for cell in notebook["cells"] for found in cell.get("outputs", [])]


def rendered(output: dict[str, Any]) -> str:
    """An output as HTML: its own HTML if it has some, else its text."""
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return re.sub(r"\n\s*\n", "\n", "".join(data["text/html"]))
    return f"<pre>{html.escape(''.join(data['text/plain']))}</pre>"
