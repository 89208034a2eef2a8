"""What a bench measures, as a table: for people, for machines, and with what its figures mean beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import rich.table


@dataclass
class Table:
    """Figures, and what they mean.

    Parameters
    ----------
    name : str
        What ``--table`` calls it.
    title : str
    definition : str
        What each figure is, and what it is not.
    columns : tuple of str
    rows : list of tuple
        Text, whole numbers, or shares (floats).
    """

    name: str
    title: str
    definition: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values: each row by the columns' names."""
        return {
            "title": self.title,
            "definition": self.definition,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
        }

    def text(self) -> rich.table.Table:
        """For the terminal."""
        from rich.table import Table as RichTable

        table = RichTable(title=self.title, caption=self.definition, title_justify="left", caption_justify="left")
        for number, column in enumerate(self.columns):
            # Figures are never cut short; on a narrow terminal names break, and columns' heads.
            width = max((len(_text(row[number])) for row in self.rows), default=0) if number else None
            table.add_column(column, justify="right" if number else "left", min_width=width, overflow="fold")
        for row in self.rows:
            table.add_row(*map(_text, row))
        return table


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
