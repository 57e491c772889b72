"""What `gaifman info MODEL` shows of a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaifman.cli.console import MAX_LISTED, print_fields, print_json, print_more, print_table

if TYPE_CHECKING:
    from gaifman.model_card import CardTables

SUFFIX = ".gaifman"
TEXT_COLUMNS = ("relation", "trained", "reason")
SHOWN_COLUMNS = (*TEXT_COLUMNS, "arity", "answers", "AUC", "typed AUC", "MRR", "held-out tuples")


def is_model(name: str) -> bool:
    """Whether a file is a model, by its first bytes; a damaged one by its name."""
    from gaifman.io.model_file import is_model_file

    return is_model_file(name) or (name.endswith(SUFFIX) and Path(name).is_file())


def print_model(name: str, show_all: bool, as_json: bool) -> None:
    """Print what a model was trained on, its relations, settings and held-out figures."""
    from gaifman.io.model_file import read_model_state
    from gaifman.model_card import card_tables

    arrays, meta = read_model_state(name)
    size = Path(name).stat().st_size
    tables = card_tables(meta, None if show_all else MAX_LISTED)
    if as_json:
        print_json(_as_dict(name, size, len(arrays), meta))
        return
    print_fields(
        [
            ("model", tables.title),
            ("file", f"{name}, {size:,} bytes"),
            ("version", f"gaifman {meta['version']}"),
            ("arrays", f"{len(arrays):,} with {sum(array.size for array in arrays.values()):,} numbers"),
        ]
    )
    _print_relations(tables)
    print_table("Training data", ["knowledge base", ""], tables.data)
    print_table("Training", ["setting", ""], tables.settings)
    if found := tables.found_constraints:
        kept = found if show_all else found[:MAX_LISTED]
        print_table("Constraints found in the data", ["constraint"], [[text] for text in kept])
        print_more(len(found) - len(kept), "constraints", "--all lists them")
    if tables.metrics:
        print_table("Held-out figures", ["metric", ""], tables.metrics)


def _print_relations(tables: CardTables) -> None:
    """Print the relations of a completion, with what fits the width of a terminal."""
    columns, rows, more = tables.relations
    if not rows:
        return
    kept = [i for i, column in enumerate(columns) if column in SHOWN_COLUMNS]
    shown = [columns[i] for i in kept]
    numeric = [i for i, column in enumerate(shown) if column not in TEXT_COLUMNS]
    print_table("Relations", shown, [[row[i] for i in kept] for row in rows], right=numeric)
    print_more(more, "relations", "--all lists them")


def _as_dict(name: str, size: int, arrays: int, meta: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says as fields for JSON."""
    keys = ("kind", "version", "query", "relations", "kb", "config", "base", "features", "metrics", "calibration")
    more = ("constraints", "found_constraints", "added_formulas")
    return {"file": name, "bytes": size, "arrays": arrays} | {key: meta[key] for key in (*keys, *more) if key in meta}
