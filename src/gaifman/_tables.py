"""Results as tables: for pandas, Arrow and polars, and as text.

>>> class Ages(TableResult):
...     def columns(self):
...         return {"name": ["ada", "ben"], "age": [36, 9]}
>>> print(Ages().to_csv(), end="")
name,age
ada,36
ben,9
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gaifman.errors import ArgumentError, InputError, shorten

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Columns = Mapping[str, Sequence[Any]]
"""Name → the values, all of one length: texts, numbers, or None."""


class TableResult:
    """A result with columns of one length."""

    __slots__ = ()

    def columns(self) -> Columns:
        """The names of the columns and their values."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame."""
        found: pandas.DataFrame = _package("pandas").DataFrame(dict(self.columns()))
        return found

    def to_arrow(self) -> pyarrow.Table:
        """The table as an Arrow table."""
        found: pyarrow.Table = _package("pyarrow").table(dict(self.columns()))
        return found

    def to_polars(self) -> polars.DataFrame:
        """The table as a polars DataFrame."""
        found: polars.DataFrame = _package("polars").DataFrame(dict(self.columns()), strict=False)
        return found

    def to_csv(self, separator: str = ",") -> str:
        """The table as lines with a header."""
        try:
            csv.writer(io.StringIO(), delimiter=separator)
        except (TypeError, ValueError):
            raise ArgumentError(f"separator must be one character, got {shorten(repr(separator))}") from None
        return "".join(csv_lines(self.columns(), separator))

    def to_jsonl(self) -> str:
        """The table as one JSON object per line."""
        return "".join(json_lines(self.columns()))


def name_columns(
    variables: Sequence[str],
    rows: Sequence[Sequence[str]],
    own: Mapping[str, Sequence[Any]] | None = None,
    shown: Sequence[Sequence[str]] | None = None,
) -> Columns:
    """One column for each variable, then more columns; a variable with the name of one of those gets a `?`.

    With `shown`, rows of labels, a column of labels stands beside each.

    >>> name_columns(["x", "known"], [("ann", "bob")], {"known": [True]})
    {'x': ['ann'], '?known': ['bob'], 'known': [True]}
    >>> name_columns(["x"], [("Q64",)], shown=[("Berlin",)])
    {'x': ['Q64'], 'x_label': ['Berlin']}
    """
    more = own or {}
    taken = {*more, *(f"{name}_label" for name in variables if shown is not None)}
    found: dict[str, Sequence[Any]] = {}
    for i, name in enumerate(variables):
        found[f"?{name}" if name in taken else name] = [row[i] for row in rows]
        if shown is not None:
            found[f"{name}_label"] = [row[i] for row in shown]
    return found | {**more}


def columns_from(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """The columns of rows; None where a row has no value of a name.

    >>> columns_from([{"name": "ada", "age": 36}, {"name": "ben"}])
    {'name': ['ada', 'ben'], 'age': [36, None]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def flat_row(body: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The texts and numbers of a JSON object as one row; lists are left out.

    >>> flat_row({"name": "ada", "mrr": {"value": 0.5, "low": 0.4}, "rows": [1, 2]})
    {'name': 'ada', 'mrr_value': 0.5, 'mrr_low': 0.4}
    """
    found: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, Mapping):
            found |= flat_row(value, f"{prefix}{name}_")
        elif not isinstance(value, list | tuple):
            found[f"{prefix}{name}"] = value
    return found


def rows_of(columns: Columns) -> Iterator[tuple[Any, ...]]:
    """The rows of columns."""
    return zip(*columns.values(), strict=True)


def csv_lines(columns: Columns, separator: str = ",") -> Iterator[str]:
    """The lines of a CSV file with a header, or of a tab-separated file. None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    for row in (tuple(columns), *rows_of(columns)):
        writer.writerow(row)
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def json_lines(columns: Columns) -> Iterator[str]:
    """One JSON object per row, each a line."""
    for row in rows_of(columns):
        yield json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n"


def _package(name: str) -> Any:
    """A package that is not among the dependencies."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name} is not installed", hint=f"pip install {name}") from None
