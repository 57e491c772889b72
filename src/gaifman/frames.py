"""One SELECT in the making: its tables, its conditions, and the column that each variable stands for.

>>> x, y = Variable("x"), Variable("y")
>>> frame = SelectBuilder({x: "f1.a1", y: "f1.a2"}, own={x, y})
>>> frame.add("facts2 f1", ["f1.relation = 3"])
>>> frame.add("facts1 f2", ["f2.relation = 7", "f2.a1 = f1.a1"], "ANTI")
>>> print(frame.text(["f1.a2 AS y"], distinct=frame.repeats([y])))
SELECT DISTINCT f1.a2 AS y FROM facts2 f1 ANTI JOIN facts1 f2 ON f2.relation = 7 AND f2.a1 = f1.a1 WHERE f1.relation = 3
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gaifman.logic.ast import Variable
from gaifman.safety import AnyVariable

Env = dict[AnyVariable, str]
"""The SQL expression that each variable stands for."""


@dataclass(slots=True)
class SelectBuilder:
    """One SELECT in the making."""

    env: Env
    correlated: bool = False
    """Whether it uses columns of a SELECT around it."""
    own_variables: set[AnyVariable] = field(default_factory=set)
    """Variables for which its tables have a column."""
    joins: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    combinations: int = 1
    """Combinations of objects that its untied variables imply, and those of the conditions within."""
    inner_combinations: int = 1
    fact_tables: list[tuple[int, str]] = field(default_factory=list)
    """Arity and alias of the table of each atom."""

    def join(self, table: str, conditions: Sequence[str], kind: str = "") -> None:
        """Join a table."""
        joined = " AND ".join(conditions)
        if not self.joins and not kind:
            self.joins.append(f"FROM {table}")
            self.where[:0] = conditions
        elif not kind:
            self.joins.append(f"JOIN {table} ON {joined}" if joined else f"CROSS JOIN {table}")
        else:
            self.joins.append(f"{kind} JOIN {table} ON {joined or 'true'}")

    def constants(self) -> Env:
        """The variables that stand for one object, which every SELECT within may use."""
        return {variable: text for variable, text in self.env.items() if text.isdigit()}

    def may_repeat(self, kept: Iterable[AnyVariable]) -> bool:
        """Whether a choice of some variables may come in several rows."""
        columns = {self.env[variable] for variable in kept}
        return any(self.env[variable] not in columns for variable in self.own_variables)

    def to_sql(self, columns: Sequence[str], separator: str = " ", *, distinct: bool = False) -> str:
        """The whole SELECT."""
        lines = [f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(columns)}", *self.joins]
        if self.where:
            lines.append(f"WHERE {' AND '.join(self.where)}")
        return separator.join(lines)


def quoted_columns(variables: Iterable[Variable]) -> list[str]:
    """Quoted names of columns: those of the variables, numbered where they differ only by case.

    >>> quoted_columns([Variable("x"), Variable("X"), Variable("born in")])
    ['"x"', '"X_2"', '"born in"']
    """
    names: list[str] = []
    seen: set[str] = set()
    for place, variable in enumerate(variables, start=1):
        name = variable.name
        while name.casefold() in seen:
            name = f"{name}_{place}"
        seen.add(name.casefold())
        names.append('"{}"'.format(name.replace('"', '""')))
    return names
