"""Checks of RDF files before the parser sees them: nesting and entities that would take all memory or time.

The parser of RDF/XML expands entities without a limit and takes the square of the nesting in time; that of the other
formats calls itself for each triple inside a triple. Here a file is refused as soon as it goes too deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.parsers import expat

from gaifman.errors import InputError, Location

MAX_XML_DEPTH = 1_000
"""Elements inside each other."""
MAX_TRIPLE_DEPTH = 100
"""Triples inside each other."""
MAX_ENTITY_LENGTH = 1_000
"""Characters of an entity; real ones stand for namespaces."""

_TRIPLE_ENDS = re.compile(rb"<<\(|\)>>")

LineText = Callable[[int], str]
"""Number of a line → its text, for error messages."""


class TripleGuard:
    """Refuses triples that are nested too deep."""

    def __init__(self, source: str) -> None:
        self._source, self._depth = source, 0

    def check(self, data: bytes, line: int) -> None:
        """Check some whole lines; `line` is the number of the first."""
        if b"<<(" not in data and not self._depth:
            return
        for match in _TRIPLE_ENDS.finditer(data):
            self._depth = self._depth + 1 if match[0] == b"<<(" else max(0, self._depth - 1)
            if self._depth > MAX_TRIPLE_DEPTH:
                start = data.rfind(b"\n", 0, match.start()) + 1
                at = Location(
                    self._source,
                    line + data.count(b"\n", 0, match.start()),
                    match.start() - start + 1,
                    data[start : start + 200].decode(errors="replace"),
                )
                raise InputError(f"triples are nested deeper than {MAX_TRIPLE_DEPTH}", location=at)


def safe_xml_parser(source: str, line_text: LineText) -> expat.XMLParserType:
    """Return an XML parser that refuses entities that refer to others, to files, or are long."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse_entity(name: str, is_parameter: bool, value: str | None, *details: str | None) -> None:
        _, system, *_ = details
        if is_parameter or value is None or system or "&" in value or "%" in value or len(value) > MAX_ENTITY_LENGTH:
            raise InputError(
                f"the entity {name} refers to other entities or files, or is long: it is not read",
                location=xml_location(parser, source, line_text),
                hint="write its text in its place",
            )

    parser.EntityDeclHandler = refuse_entity
    return parser


def xml_location(parser: expat.XMLParserType, source: str, line_text: LineText) -> Location:
    """Return where a parser is."""
    line = parser.CurrentLineNumber
    return Location(source, line, parser.CurrentColumnNumber + 1, line_text(line))


def feed_xml(parser: expat.XMLParserType, data: bytes, final: bool, source: str, line_text: LineText) -> None:
    """Parse some bytes; a mistake becomes an error with its location."""
    try:
        parser.Parse(data, final)
    except expat.ExpatError as error:
        line, column = error.lineno, error.offset + 1
        if final and line > 1 and not line_text(line):  # at the end, after the last line
            line, column = line - 1, len(line_text(line - 1)) + 1
        location = Location(source, line, column, line_text(line))
        raise InputError(f"not XML: {expat.ErrorString(error.code)}", location=location) from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know, or that has several bytes
        raise InputError(f"{source}: {error}", hint="save the file as UTF-8") from None


class XmlGuard:
    """Refuses XML that is not well-formed, is nested too deep, or has dangerous entities; finds its prefixes."""

    def __init__(self, source: str, line_text: LineText) -> None:
        self.prefixes: dict[str, str] = {}
        self._source, self._line_text, self._depth = source, line_text, 0
        self._parser = safe_xml_parser(source, line_text)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def check(self, data: bytes, line: int) -> None:
        """Check the next bytes; none mean the end."""
        feed_xml(self._parser, data, not data, self._source, self._line_text)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise InputError(
                f"elements are nested deeper than {MAX_XML_DEPTH:,}",
                location=xml_location(self._parser, self._source, self._line_text),
            )
        for key, value in attributes.items():
            if key.startswith("xmlns:"):
                self.prefixes.setdefault(key[6:], value)

    def _end(self, name: str) -> None:
        self._depth -= 1
