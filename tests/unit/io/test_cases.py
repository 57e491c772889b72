r"""Whole readings, written out: files, options, and what becomes of them, in `tests/support/cases/reading`.

A case begins with `=== what it shows`; then come its files (`--- name`), in which the escapes of Python are read and a
backslash at the end of a line leaves out the newline; after `---> read(…)` the facts, values and notes, or an error.
To write the expected parts anew:

    python tests/unit/io/test_cases.py
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gaifman.errors import GaifmanError
from gaifman.io import read
from gaifman.kb.knowledge_base import format_name

FOLDER = Path(__file__).parents[2] / "support" / "cases" / "reading"


@dataclass
class Case:
    title: str
    files: dict[str, bytes]
    options: str
    given: str
    """The text of the case up to what is expected."""
    expected: str

    def outcome(self, folder: Path) -> str:
        """What a reading of the files gives, without the folder's name."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        options = eval(f"dict({self.options})")
        return outcome(folder, list(self.files), options).replace(f"{folder}/", "")


def outcome(folder: Path, names: list[str], options: dict[str, str]) -> str:
    try:
        kb = read(*(folder / name for name in names), **options)  # type: ignore[arg-type]
    except GaifmanError as error:
        return f"{type(error).__name__}: {error}\n"
    lines = [str(fact) for fact in kb.facts()]
    lines += [f"{format_name(attribute)}({format_name(obj)}) = {value!r}." for attribute, obj, value in kb.values()]
    lines += [f"% {note}" for note in kb.notes]
    return "".join(line + "\n" for line in lines)


def cases(path: Path) -> Iterator[Case]:
    for text in re.split(r"^(?==== )", path.read_text(), flags=re.MULTILINE)[1:]:
        given, arrow, expected = text.partition("---> read(")
        options, _, expected = expected.partition(")\n")
        title, *parts = re.split(r"^--- ", given, flags=re.MULTILINE)
        files = {}
        for part in parts:
            name, _, content = part.partition("\n")
            plain = content.replace("\\\n", "").encode().decode("unicode_escape").encode("latin-1")
            files[name] = plain
        yield Case(title[4:].strip(), files, options, f"{given}{arrow}{options})\n", expected.strip("\n") + "\n")


ALL = [
    pytest.param(case, id=f"{path.stem}: {case.title}") for path in sorted(FOLDER.glob("*.txt")) for case in cases(path)
]


@pytest.mark.parametrize("case", ALL)
def test_reading_gives_what_is_written(case: Case, tmp_path: Path) -> None:
    assert case.outcome(tmp_path) == case.expected


def test_there_are_many() -> None:
    assert len(ALL) > 50


def rewrite() -> None:
    """Write what happens into the files, to be read over by a person before it is kept."""
    for path in sorted(FOLDER.glob("*.txt")):
        text = ""
        for case in cases(path):
            with tempfile.TemporaryDirectory() as folder:
                text += case.given + case.outcome(Path(folder)) + "\n"
        path.write_text(text)


if __name__ == "__main__":
    rewrite()
    sys.exit(0)
