"""Tab-separated and comma-separated tables: which column holds what, and their rows.

>>> detect_layout([["ann", "parent", "bob"]]).format
'triples'
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from gaifman.config import MAX_ARITY
from gaifman.errors import InputError, Location, shorten
from gaifman.io.cells import is_number, parse_numbers
from gaifman.io.files import BATCH_SIZE, BLOCK_SIZE, TextBlock, file_stem
from gaifman.io.mapped_tables import TableColumns, TableMapper
from gaifman.io.readings import Table, find_doubt, may_be_header
from gaifman.kb.builder import NUMBER_FIELD, KnowledgeBaseBuilder
from gaifman.kb.tables import Ints, Longs
from gaifman.threads import cached_property

# Layouts, detected by the header or the first rows


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns of a table of facts or values."""

    format: str
    """`triples`, `nary`, `types` or `attributes`."""
    relation: int
    """Column of the relation, type or attribute."""
    objects: tuple[int, ...] | None
    """Columns of the objects; None: all remaining columns of the row."""
    number_column: int | None = None
    """Column of the confidence or value."""
    header: bool = False
    """Whether the first row is a header."""

    @property
    def column_count(self) -> int | None:
        """Number of columns of each row; None if rows may differ."""
        if self.objects is None:
            return None
        return 1 + len(self.objects) + (self.number_column is not None)

    def describe(self) -> str:
        """Return the names of the columns, in order."""
        names = {self.relation: {"types": "type", "attributes": "attribute"}.get(self.format, "relation")}
        if self.format == "triples" and self.objects:
            names |= dict(zip(self.objects, ("head", "tail"), strict=True))
        elif self.format == "nary" and self.objects:
            names |= {column: f"arg{i + 1}" for i, column in enumerate(self.objects)}
        elif self.objects:
            names[self.objects[0]] = "object"
        if self.number_column is not None:
            names[self.number_column] = "value" if self.format == "attributes" else "confidence"
        return ", ".join(names[column] for column in sorted(names)) + (", objects" * (self.objects is None))


DEFAULT_LAYOUTS: Final = {
    "triples": TableLayout("triples", 1, (0, 2)),
    "nary": TableLayout("nary", 0, None),
    "types": TableLayout("types", 1, (0,)),
    "attributes": TableLayout("attributes", 1, (0,), 2),
}
"""Format → its layout without a header."""

_RELATION: Final = frozenset({"relation", "predicate", "property", "edge"})
_HOLDER: Final = frozenset({"object", "subject", "entity", "head", "name"})
_WORDS: Final = {
    "triples": (
        frozenset({"head", "subject", "source", "from"}),
        _RELATION,
        frozenset({"tail", "object", "target", "to"}),
    ),
    "types": (_HOLDER, frozenset({"type", "class"})),
    "attributes": (_HOLDER, frozenset({"attribute", "property", "relation"}), frozenset({"value", "number"})),
}
_CONFIDENCE: Final = frozenset({"confidence", "weight", "probability", "score"})
_ROLES: Final[frozenset[str]] = _CONFIDENCE.union(*(words for roles in _WORDS.values() for words in roles))
_SHORT: Final = (("h", "r", "t"), ("s", "p", "o"), ("subj", "pred", "obj"), ("src", "rel", "dst"))
"""Short names of head, relation and tail, which are used together."""
_NUMBERED: Final = frozenset({"relation", "predicate"})
"""Names of the relation's column beside numbered arguments; `a1 edge a2` may be a fact."""
_POSITION: Final = re.compile(r"(?:arg|argument|a|object|obj|entity)_?([1-9])")


def parse_header(row: Sequence[str]) -> TableLayout | None:
    """Return the layout of a header row; None if the row is not a header.

    >>> parse_header(["relation", "arg1", "arg2"])
    TableLayout(format='nary', relation=0, objects=None, number_column=None, header=True)
    >>> parse_header(["arg2", "relation", "arg1"]).objects, parse_header(["H", "R", "T"]).objects
    ((2, 0), (0, 2))
    """
    words = _spell_out([word.strip().lower() for word in row])
    if len(set(words)) != len(words):
        return None
    number = next((column for column, word in enumerate(words) if word in _CONFIDENCE), None)
    for file_format, roles in _WORDS.items():
        columns = [next((c for c, word in enumerate(words) if word in names), -1) for names in roles]
        extra = [] if number is None else [number]
        if sorted(columns + extra) != list(range(len(words))):
            continue
        if file_format == "triples":
            return TableLayout(file_format, columns[1], (columns[0], columns[2]), number, True)
        if number is None:
            return TableLayout(file_format, columns[1], (columns[0],), columns[2] if columns[2:] else None, True)
    return _numbered(words, number)


def _spell_out(words: list[str]) -> list[str]:
    """Return the words with the short names of head, relation and tail written out."""
    for names in _SHORT:
        if set(names) == set(words) - _CONFIDENCE:
            long = dict(zip(names, ("head", "relation", "tail"), strict=True))
            return [long.get(word, word) for word in words]
    return words


def _may_be_fact(first: Sequence[str], layout: TableLayout, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a header of single letters may be a fact: it is alone, or others have its relation."""
    name, column = first[layout.relation], layout.relation
    return len(name.strip()) == 1 and (not rows or any(row[column] == name for row in rows if len(row) > column))


def _numbered(words: Sequence[str], number: int | None) -> TableLayout | None:
    """Return the layout of a header with a relation and numbered arguments, in any order."""
    relation = next((column for column, word in enumerate(words) if word in _NUMBERED), None)
    arguments = {int(match[1]): column for column, word in enumerate(words) if (match := _POSITION.fullmatch(word))}
    complete = len(arguments) + 1 + (number is not None) == len(words)
    if relation is None or not complete or sorted(arguments) != list(range(1, len(arguments) + 1)):
        return None
    if not 1 <= len(arguments) <= MAX_ARITY:
        return None
    order = tuple(arguments[position] for position in sorted(arguments))
    first = 1 + (number is not None)
    if relation == 0 and number in (None, 1) and order == tuple(range(first, len(words))):
        return TableLayout("nary", 0, None, number, True)  # rows may be shorter
    return TableLayout("nary", relation, order, number, True)


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Why the layout of a table cannot be detected."""

    message: str
    hint: str
    column: int = 0
    """Column of the first row that the message is about."""


def find_header_problem(row: Sequence[str]) -> LayoutProblem | None:
    """Return what is wrong with a first row that looks like a header: at least two of its words name columns.

    >>> find_header_problem(["subject", "predicate", "object", "date"]).message
    'this looks like a header; the column date is unknown'
    """
    words = [word.strip().lower() for word in row]
    known = [word in _ROLES or _POSITION.fullmatch(word) is not None for word in words]
    numbered = sum(known) > 1 and not _NUMBERED.isdisjoint(words)
    if len(_ROLES.intersection(words)) < 2 and not numbered:
        return None
    hint = f"remove such columns; {_DATA}"
    if not all(known):
        column = known.index(False)
        return LayoutProblem(f"this looks like a header; the column {shorten(row[column])} is unknown", hint, column)
    if _KINDS.isdisjoint(words):
        return LayoutProblem("this looks like a header, but it has no column for the relation", f"add one; {_DATA}")
    return LayoutProblem("this looks like a header, but its columns are not those of facts", f"{_HEADERS}; {hint}")


_KINDS: Final = _RELATION | {"type", "class", "attribute"}
_DATA: Final = "if the row is data, set --no-header (in Python header=False)"
_HEADERS: Final = "headers are head, relation, tail; relation, arg1, arg2 …; object, type; object, attribute, value"


def find_header(rows: Sequence[Sequence[str]], header: bool | None) -> TableLayout | None:
    """Return the layout that the first row names; None if it is not a header, or with `header=False`."""
    return None if header is False else parse_header(rows[0])


def detect_layout(
    rows: Sequence[Sequence[str]], header: bool | None = None, name: str = "table"
) -> TableLayout | LayoutProblem:
    """Return the layout of a table by its first rows, or why it cannot be detected.

    `header` says whether the first row is a header; None to detect it. `name` is the name of the table.
    """
    if not rows:
        return LayoutProblem("there are no rows", "")
    width = _width(rows)
    found = None if header is False else _layout_by_header(rows, width, header, name)
    if found or width is None:
        return found or DEFAULT_LAYOUTS["nary"]
    rows = [row for row in rows if len(row) == width]
    if doubt := find_doubt(rows, header, name):
        return _problem(doubt)
    return DEFAULT_LAYOUTS["nary"] if width > 4 else _layout_by_numbers(rows, name)


def _layout_by_header(
    rows: Sequence[Sequence[str]], width: int | None, header: bool | None, name: str
) -> TableLayout | LayoutProblem | None:
    """Return the layout that the first row names, if it is a header."""
    named = parse_header(rows[0])
    if named and header is None and _may_be_fact(rows[0], named, rows[1:]):
        return _problem(Table("the first row may be a header or a fact", rows, None, name=name))
    if named:
        return named
    if problem := find_header_problem(rows[0]):
        table = Table(problem.message, [row for row in rows if len(row) == len(rows[0])], True, name=name)
        return replace(problem, hint=f"{problem.hint}; or {table.hint()}" if table.readings() else problem.hint)
    return _skip_header(rows, width, name) if header else None


def _layout_by_numbers(rows: Sequence[Sequence[str]], name: str) -> TableLayout | LayoutProblem:
    """Return the layout of a table of facts without a header, by the columns that hold numbers."""
    columns = [all(map(is_number, column)) for column in zip(*rows, strict=True)]
    match columns:
        case [_, True]:
            return LayoutProblem(
                "two columns, of which the second is numeric: the name of the attribute is missing",
                "write object, attribute, value; if the numbers are types, set --input-format types; or "
                + Table("", rows, False, name=name).hint(),
                1,
            )
        case [_, _]:
            return DEFAULT_LAYOUTS["types"]
        case [False, _, True]:
            return DEFAULT_LAYOUTS["attributes"]
        case [_, _, _]:
            return DEFAULT_LAYOUTS["triples"]
        case [_, _, _, True] if _looks_like_confidence([float(row[3]) for row in rows]):
            return replace(DEFAULT_LAYOUTS["triples"], number_column=3)
        case [_, _, _, _] if len({row[1] for row in rows}) < len({row[0] for row in rows}):
            return LayoutProblem(
                "four columns: the second has repeated names and the fourth is not a confidence, "
                "so the column of the relation cannot be detected",
                "set --input-format nary if it is the first; if it is the second, remove the fourth column, "
                "or set --input-format triples if that is a confidence; or " + Table("", rows, False, name=name).hint(),
                3,
            )
        case [_, _, _, _]:
            return DEFAULT_LAYOUTS["nary"]
    return LayoutProblem(
        "one column, but facts need at least two",
        "columns are separated by a tab, in .csv files by a comma; perhaps the file is not a table",
    )


def _problem(table: Table) -> LayoutProblem:
    return LayoutProblem(table.message, table.hint(), table.column)


def _skip_header(rows: Sequence[Sequence[str]], width: int | None, name: str) -> TableLayout | LayoutProblem:
    """Return the layout of a table whose first row is a header of unknown words."""
    same = [row for row in rows if len(row) == width]
    if width is not None and len(rows[0]) == width and len(same) > 1 and find_doubt(same[1:], header=False):
        return _problem(Table("the columns can be read in several ways", same, True, name=name))
    rest = detect_layout(rows[1:], header=False)
    return replace(rest, header=True) if isinstance(rest, TableLayout) else rest


def _width(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the number of columns of most rows; None if each relation has its own number."""
    widths = Counter(map(len, rows))
    common = max(widths, key=lambda width: (widths[width], width))
    own: dict[str, int] = {}
    if len(widths) == 1 or any(own.setdefault(row[0], len(row)) != len(row) for row in rows):
        return common
    # Triples with a wrong row: most rows have one width, and the second column has repeated names.
    firsts, seconds = len(own), len({row[1] for row in rows if len(row) > 1})
    return common if 2 * widths[common] >= len(rows) and common > 2 and seconds < firsts else None


def _looks_like_confidence(numbers: Sequence[float]) -> bool:
    """Return whether most numbers are confidences; the others will be errors."""
    good = sum(0 < number <= 1 for number in numbers)
    return 2 * good >= len(numbers) or not any(number < 0 or number > 100 for number in numbers)


def layout_for_format(file_format: str, rows: Sequence[Sequence[str]], header: bool | None = None) -> TableLayout:
    """Return the layout of a format; a header may name the columns."""
    named = find_header(rows, header)
    if named and named.format == file_format:
        return named
    plain = replace(DEFAULT_LAYOUTS[file_format], header=bool(header))
    return replace(plain, number_column=3) if file_format == "triples" and len(rows[0]) == 4 else plain


# Rows

SAMPLE_ROWS = 1_000
"""Rows used to detect the layout."""

_SNIFF_BYTES = 1 << 16
"""Bytes used to detect the delimiter."""

_QUOTED = re.compile(rb'(?:^|(?<=[\t,;\n]))"(?:[^"]|"")*+(?:"(?=[\t,;\r\n])|"?\Z)')


def read_table(
    blocks: Iterator[TextBlock],
    suffix: str,
    file_format: str | None,
    builder: KnowledgeBaseBuilder,
    header: bool | None = None,
    mapper: TableMapper | None = None,
) -> str:
    """Read a table into the builder and return its format; `header` is that of `gaifman.read`."""
    first = next((block for block in blocks if block.data.strip()), None)
    if first is None:
        return file_format or "triples"
    delimiter = detect_delimiter(first.data, suffix)
    if delimiter != ("," if suffix == ".csv" else "\t"):
        word = f"separated by {_DELIMITERS[delimiter].split()[1]}s"
        builder.add_note(1, f"files whose columns are {word}", first.source, f"file whose columns are {word}")
    named = _text_columns(first, delimiter, header, mapper) if mapper else None
    if mapper and named:
        rows = read_csv_rows(chain([first], blocks), delimiter)
        return _read_mapped(rows, named, header is None, mapper, builder)
    rows = _rows(chain([first], blocks), delimiter)
    part = next(part for part in rows if len(part))
    layout = _find_layout(part, file_format, header, mapper)
    if layout.header:
        example = f"{first.source}: {', '.join(map(shorten, part.row(0)))}"
        builder.add_note(1, "first lines read as headers", example, "first line read as a header")
    add_rows(part.tail(1) if layout.header else part, layout, builder)
    for part in rows:
        add_rows(part, layout, builder)
    return layout.format


def _find_layout(
    rows: RowBatch, file_format: str | None, header: bool | None, mapper: TableMapper | None
) -> TableLayout:
    if file_format:
        return layout_for_format(file_format, _sample(rows), header)
    try:
        return _detect_layout(rows, header)
    except InputError:
        columns = TableColumns(rows.source, file_stem(rows.source), tuple(word.strip() for word in rows.row(0)))
        error = mapper.missing_in(columns) if mapper else None
        if error:
            raise error from None  # a mistake in the mapping, not in the table
        raise


# Tables that are read by a mapping


def _text_columns(first: TextBlock, delimiter: str, header: bool | None, mapper: TableMapper) -> TableColumns | None:
    part = next(part for part in read_csv_rows(iter([_first_lines(first)]), delimiter) if len(part))
    return mapped_columns(
        part.source, file_stem(part.source), part.row(0), header, mapper, lambda column: part.location(0, column)
    )


def mapped_columns(
    source: str,
    table: str,
    first: Sequence[object],
    header: bool | None,
    mapper: TableMapper,
    locate: Callable[[int], Location] | None = None,
) -> TableColumns | None:
    """Return the columns of a table by its first row; None if the mapping does not concern it.

    Only names of a header can be located. Without a header the columns are 1, 2, 3 …
    """
    words = tuple(str(word).strip() for word in first)
    text = "\t".join(words)
    place = locate or (lambda column: Location(source, 1, 1 + text.find(words[column]), text, len(words[column])))
    named = TableColumns(source, table, words, locate=place)
    if header is None:
        header = mapper.names_columns(named) or (mapper.mapping.wide and mapper.mapping.id is None)
    numbered = replace(named, names=tuple(str(column + 1) for column in range(len(words))), locate=None)
    columns = named if header else numbered
    return columns if mapper.concerns(columns) else None


def _first_lines(block: TextBlock) -> TextBlock:
    """Return the start of a block up to its first row; a quoted name in it may contain newlines."""
    at = len(block.data) - len(block.data.lstrip(b"\r\n"))
    end = block.data.find(b"\n", at) + 1
    while block.data.count(b'"', 0, end) % 2 and 0 < end < len(block.data):
        end = block.data.find(b"\n", end) + 1
    return replace(block, data=block.data[:end])


def _read_mapped(
    rows: Iterator[RowBatch],
    columns: TableColumns,
    detected: bool,
    mapper: TableMapper,
    builder: KnowledgeBaseBuilder,
) -> str:
    """Read a table by a mapping; `detected` says whether nobody told if it has a header."""
    part = next(part for part in rows if len(part))
    if columns.locate:
        part = part.tail(1)
    check_cells(part, columns)
    if detected and not columns.locate and may_be_header(_sample(part)):
        hint = "set --header or --no-header (in Python header=True or False)"
        raise InputError("the first row may be a header or data", location=part.location(0, 0), hint=hint)
    plan = mapper.start(columns, part, builder)
    plan.add(part, builder)
    for part in rows:
        check_cells(part, columns)
        plan.add(part, builder)
    return "table"


def check_cells(rows: RowBatch, columns: TableColumns) -> None:
    """Refuse a row that does not have a cell for each column."""
    wrong = rows.widths != len(columns.names)
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    width, expected = int(rows.widths[row]), len(columns.names)
    shown = ", ".join(shorten(name) for name in columns.names[:8]) + ("" if expected <= 8 else " …")
    raise InputError(
        f"expected {expected} columns ({shown}), got {width}",
        location=rows.location(row, expected if width > expected else width - 1),
        hint=f'a cell that contains {_DELIMITERS[rows.delimiter]} is written in "quotation marks"',
    )


_DELIMITERS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def detect_table_layout(data: bytes, suffix: str) -> tuple[str, TableLayout] | None:
    """Return the delimiter and layout that would be detected for a file; None if it would be refused."""
    cut = data.rfind(b"\n", 0, BLOCK_SIZE) + 1  # the same blocks as in `read_blocks`
    parts = [TextBlock("", 1, part) for part in (data[:cut], data[cut:]) if part]
    delimiter = detect_delimiter(data, suffix)
    try:
        rows = next((part for part in _rows(parts, delimiter) if len(part)), None)
        return (delimiter, _detect_layout(rows)) if rows else None
    except InputError:
        return None


def _sample(rows: RowBatch) -> list[list[str]]:
    return [rows.row(number) for number in range(min(len(rows), SAMPLE_ROWS))]


def _detect_layout(rows: RowBatch, header: bool | None = None) -> TableLayout:
    layout = detect_layout(_sample(rows), header, file_stem(rows.source) or "table")
    if isinstance(layout, TableLayout):
        return layout
    raise InputError(layout.message, location=rows.location(0, layout.column), hint=layout.hint)


def _rows(blocks: Iterable[TextBlock], delimiter: str, quoted: bool = False) -> Iterator[RowBatch]:
    if delimiter == "\t" and not quoted:
        return (split_rows(block, delimiter) for block in blocks)
    return read_csv_rows(iter(blocks), delimiter)


def detect_delimiter(data: bytes, suffix: str) -> str:
    r"""Return the delimiter that gives the first rows equally many columns, and the most; quoted text is ignored.

    >>> detect_delimiter(b"ann;age;80,5\nbob;age;70,2\n", ".csv"), detect_delimiter(b"p\ta,b\nq\ta,b\tc\n", ".tsv")
    (';', '\t')
    """
    text = _QUOTED.sub(b"", data[:_SNIFF_BYTES])
    lines = [line for line in text.split(b"\n")[:100] if line.strip(b"\r")]
    if len(data) > _SNIFF_BYTES:
        lines = lines[:-1] or lines  # the last one may be incomplete
    order = (b",", b";", b"\t") if suffix == ".csv" else (b"\t", b",", b";")
    counts = {mark: [line.count(mark) for line in lines] for mark in order}
    if suffix != ".csv" and all(counts[b"\t"]):
        return "\t"  # such tables have no quotes: a name may contain commas, but no tab
    equal = Counter({mark: number[0] for mark, number in counts.items() if len(set(number)) == 1 and number[0]})
    some = [mark for mark, number in counts.items() if number and number[0]]
    return (max(equal, key=equal.__getitem__) if equal else (some or order)[0]).decode()


class RowBatch:
    """Some rows of a table, as text."""

    def __init__(
        self,
        source: str,
        fields: list[str],
        widths: Longs,
        lines: Longs,
        delimiter: str = "\t",
        raw: Sequence[str] = (),
    ) -> None:
        self.source = source
        self.fields = fields
        """All fields, row after row."""
        self.widths = widths
        """Shape (rows,), int64: number of fields."""
        self.lines = lines
        """Shape (rows,), int64: line number of the start."""
        self.delimiter = delimiter
        self.raw = raw
        """Text of each row if fields are quoted, for the columns of errors."""

    def __len__(self) -> int:
        return len(self.widths)

    @cached_property
    def starts(self) -> Longs:
        """Shape (rows,), int64: index of the first field."""
        return np.cumsum(self.widths) - self.widths

    def row(self, number: int) -> list[str]:
        """Return the fields of a row."""
        start = int(self.starts[number])
        return self.fields[start : start + int(self.widths[number])]

    def location(self, row: int, field: int) -> Location:
        """Return the location of a field; the index after the last field is the end of the row."""
        fields, line = self.row(row), int(self.lines[row])
        if self.raw:
            return _quoted_location(self.source, line, self.raw[row], field, self.delimiter)
        column = sum(map(len, fields[:field])) + min(field, len(fields))
        width = len(fields[field]) if field < len(fields) else 1
        return Location(self.source, line, column + 1, self.delimiter.join(fields), max(width, 1))

    def locate(self, index: int) -> Location:
        """Return the location of an index of `fields`."""
        row = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.location(row, index - int(self.starts[row]))

    def tail(self, first: int) -> RowBatch:
        """Return the rows from `first` on."""
        start = int(self.widths[:first].sum())
        return RowBatch(
            self.source, self.fields[start:], self.widths[first:], self.lines[first:], self.delimiter, self.raw[first:]
        )

    def column(self, number: int) -> list[str]:
        """Return the fields of a column of a table whose rows are equally long."""
        return self.fields_at(self.starts + number)

    def fields_at(self, indices: Longs) -> list[str]:
        """Return the fields at some indices."""
        return [self.fields[index] for index in indices.tolist()]

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Encode all fields. A skipped field is not a name; it gets the number of its replacement."""
        names = self.fields
        if len(skipped):
            names = names.copy()
            for index, other in zip(skipped.tolist(), replacements.tolist(), strict=True):
                names[index] = names[other]
        return builder.encode_names(names, self.locate)


class ByteRowBatch(RowBatch):
    """Rows whose fields are spans of a block: most files are read without decoding each field."""

    def __init__(
        self, block: TextBlock, delimiter: str, spans: tuple[Longs, Longs], widths: Longs, lines: Longs
    ) -> None:
        self.source, self.delimiter, self.raw = block.source, delimiter, ()
        self.widths, self.lines = widths, lines
        self._block, self._spans = block, spans

    def fields_at(self, indices: Longs) -> list[str]:
        """Return the fields at some indices, decoded."""
        begins, ends = (bound[indices].tolist() for bound in self._spans)
        try:
            return [self._block.data[a:b].decode() for a, b in zip(begins, ends, strict=True)]
        except UnicodeDecodeError:
            self._block.decode()  # raises with the location
            raise

    @cached_property
    def fields(self) -> list[str]:
        """All fields, row after row, decoded."""
        return self.fields_at(np.arange(len(self._spans[0])))

    def row(self, number: int) -> list[str]:
        """Return the fields of a row."""
        start = int(self.starts[number])
        return self.fields_at(np.arange(start, start + int(self.widths[number])))

    def tail(self, first: int) -> ByteRowBatch:
        """Return the rows from `first` on."""
        start = int(self.widths[:first].sum())
        spans = (self._spans[0][start:], self._spans[1][start:])
        return ByteRowBatch(self._block, self.delimiter, spans, self.widths[first:], self.lines[first:])

    def encode_names(self, builder: KnowledgeBaseBuilder, skipped: Longs, replacements: Longs) -> Ints:
        """Encode all fields. A skipped field is not a name; it gets the number of its replacement."""
        begins, ends = self._spans
        if len(skipped):
            begins, ends = begins.copy(), ends.copy()
            begins[skipped], ends[skipped] = begins[replacements], ends[replacements]
        try:
            return builder.encode_bytes(
                self._block.data, begins, ends, lambda name: self.locate(self.fields.index(name))
            )
        except UnicodeDecodeError:
            self._block.decode()  # raises with the location
            raise


def split_rows(block: TextBlock, delimiter: str) -> RowBatch:
    r"""Return the rows of a block without quotes; blank lines are skipped.

    >>> rows = split_rows(TextBlock("x.tsv", 1, b"a\tb\n\nc\n"), "\t")
    >>> rows.fields, rows.widths.tolist(), rows.lines.tolist()
    (['a', 'b', 'c'], [2, 1], [1, 3])
    """
    block = block.normalise_newlines()
    block.check_no_nul()
    codes = np.frombuffer(block.data, np.uint8)
    ends = np.flatnonzero(_either(codes, ord(delimiter), 10))  # of all fields
    last = np.flatnonzero(codes[ends] == 10)  # of those, the ends of rows
    widths = np.diff(last, prepend=-1)
    begins = np.concatenate([[0], ends[:-1] + 1])
    lines = np.arange(block.line, block.line + len(last))
    blank = np.diff(ends[last], prepend=-1) == 1
    if blank.any():
        used = np.repeat(~blank, widths)
        begins, ends, widths, lines = begins[used], ends[used], widths[~blank], lines[~blank]
    return ByteRowBatch(block, delimiter, (begins, ends), widths, lines)


def _either(codes: npt.NDArray[np.uint8], one: int, other: int) -> npt.NDArray[np.bool_]:
    """Return where a code is one of two. One comparison is enough for tab and newline, which are 9 and 10."""
    match: npt.NDArray[np.bool_]
    match = (codes - np.uint8(one)) < 2 if one + 1 == other else (codes == one) | (codes == other)
    return match


def read_csv_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """Yield the rows of blocks with quoted fields, as in RFC 4180; a quoted field may contain newlines."""
    for block in blocks:
        if b'"' in block.data:
            yield from _read_quoted_rows(chain([block], blocks), delimiter)
            return
        yield split_rows(block, delimiter)


class _Lines:
    """Lines of blocks for Python's CSV reader; keeps the text of the current row."""

    def __init__(self, blocks: Iterable[TextBlock]) -> None:
        self.source, self.line, self.text = "", 1, ""
        self._lines = self._all(blocks)

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def _all(self, blocks: Iterable[TextBlock]) -> Iterator[str]:
        for number, block in enumerate(blocks):
            if number == 0:
                self.source, self.line = block.source, block.line
            for line in block.decode().split("\n")[:-1]:
                self.text += line + "\n"
                yield line + "\n"

    def take_row(self) -> tuple[int, str]:
        """Return line number and text of the row that was read."""
        line, text = self.line, self.text
        self.line, self.text = line + text.count("\n"), ""
        return line, text


def _read_quoted_rows(blocks: Iterable[TextBlock], delimiter: str) -> Iterator[RowBatch]:
    """Yield rows from Python's CSV reader; a row may continue in the next block."""
    lines = _Lines(blocks)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    batch: list[tuple[int, str, list[str]]] = []
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise _csv_error(lines, error) from None
        if fields is None or len(batch) >= BATCH_SIZE:
            yield _batch(lines.source, batch, delimiter)
            batch = []
        if fields is None:
            return
        line, text = lines.take_row()
        if fields:
            batch.append((line, text, fields))


def _csv_error(lines: _Lines, error: csv.Error) -> InputError:
    line, text = lines.take_row()
    location = Location(lines.source, line, 1, text.split("\n", 1)[0].rstrip("\r"))
    if "field limit" in str(error):
        return InputError(
            f"a field is longer than {csv.field_size_limit():,} characters",
            location=location,
            hint="perhaps a quotation mark is not closed; .tsv and .facts files can have longer names",
        )
    return InputError(
        f"invalid quotation marks: {error}",
        location=location,
        hint='write "" for a quotation mark inside quotation marks',
    )


def _batch(source: str, batch: Sequence[tuple[int, str, list[str]]], delimiter: str) -> RowBatch:
    return RowBatch(
        source,
        list(chain.from_iterable(fields for _, _, fields in batch)),
        np.array([len(fields) for _, _, fields in batch], np.int64),
        np.array([line for line, _, _ in batch], np.int64),
        delimiter,
        [text for _, text, _ in batch],
    )


def _quoted_location(source: str, line: int, text: str, field: int, delimiter: str) -> Location:
    """Return the location of a field in the text of a row, which may have several lines."""
    pattern = re.compile(rf'("(?:[^"]|"")*"|[^{re.escape(delimiter)}\n]*)(?:{re.escape(delimiter)}|\n|\Z)')
    at = 0
    match = None
    for _ in range(field + 1):
        match = pattern.match(text, at)
        if match is None or at >= len(text):
            break
        at = match.end()
    start, end = match.span(1) if match else (max(len(text) - 1, 0), len(text))
    location = Location.from_offset(source, text, start, max(1, end - start))
    return Location(source, line + location.line - 1, location.column, location.text.rstrip("\r"), location.width)


def add_rows(rows: RowBatch, layout: TableLayout, builder: KnowledgeBaseBuilder) -> None:
    """Add rows to the builder, by their layout."""
    if not len(rows):
        return
    _check_widths(rows, layout)
    numbers, skipped = None, np.zeros(0, np.int64)
    if layout.number_column is not None:
        column, skipped = layout.number_column, rows.starts + layout.number_column
        numbers = parse_numbers(rows.fields_at(skipped), lambda row: rows.location(row, column))
    ids = rows.encode_names(builder, skipped, skipped - (layout.number_column or 0) + layout.relation)
    if layout.objects is None:
        locate = _RowLocator(rows, np.arange(len(rows)), (layout.relation,), None)
        builder.check_arities(ids[rows.starts + layout.relation], rows.widths - _min_columns(layout) + 1, locate)
    for width in np.unique(rows.widths).tolist():
        chosen = np.flatnonzero(rows.widths == width)
        table = ids.reshape(-1, width) if len(chosen) == len(rows) else _gather(ids, rows.starts[chosen], width)
        columns = layout.objects or tuple(
            column for column in range(width) if column not in (layout.relation, layout.number_column)
        )
        part = None if numbers is None else numbers[chosen]
        locate = _RowLocator(rows, chosen, (layout.relation, *columns), layout.number_column)
        if layout.format == "attributes":
            assert part is not None
            builder.add_values(table[:, layout.relation], table[:, columns[0]], part, locate)
        else:
            builder.add_facts(table[:, layout.relation], table[:, columns], part, locate)


def _gather(ids: Ints, starts: Longs, width: int) -> Ints:
    """Return the rows of one width, shape (starts, width)."""
    rows: Ints = ids[starts[:, None] + np.arange(width)]
    return rows


@dataclass(frozen=True, slots=True)
class _RowLocator:
    """Row and field of the builder → location in the file."""

    rows: RowBatch
    chosen: Longs
    columns: tuple[int, ...]
    number: int | None

    def __call__(self, row: int, field: int) -> Location:
        column = self.columns[field] if field != NUMBER_FIELD else self.number
        return self.rows.location(int(self.chosen[row]), column or 0)


def _check_widths(rows: RowBatch, layout: TableLayout) -> None:
    fixed = layout.column_count
    if fixed is not None:
        wrong = rows.widths != fixed
        expected = f"{fixed} columns ({layout.describe()})"
    else:
        minimum = _min_columns(layout)
        wrong = (rows.widths < minimum) | (rows.widths >= minimum + MAX_ARITY)
        expected = f"{minimum} to {minimum + MAX_ARITY - 1} columns ({layout.describe()})"
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    width = int(rows.widths[row])
    field = fixed if fixed is not None and width > fixed else width - 1 if width < 2 else min(width - 1, 9)
    raise InputError(
        f"expected {expected}, got {width}",
        location=rows.location(row, field),
        hint="" if width > 1 else "columns are separated by a tab, in .csv files by a comma",
    )


def _min_columns(layout: TableLayout) -> int:
    """Return the number of columns of a fact with one object."""
    return 2 + (layout.number_column is not None)
