"""The rows of a sweep for other tools: JSON lines, CSV or Parquet."""

import csv
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from featureprism._files import as_json, csv_cell
from featureprism.lab.rows import Row


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """One strict JSON object for each row; null where JSON has no number."""
    for row in rows:
        yield as_json(row)


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Every column, in the order they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_csv(rows: list[Row]) -> str:
    """A table with a header; empty where a row has no such column."""
    text = StringIO()
    columns = columns_of(rows)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_cell, columns))
    writer.writerows([csv_cell(row.get(name, "")) for name in columns] for row in rows)
    return text.getvalue()


def write_parquet(rows: list[Row], path: Path) -> None:
    """The same table as Parquet; a column of mixed types becomes text."""
    if not find_spec("pyarrow"):
        raise ValueError("Parquet needs pyarrow: pip install 'featureprism[parquet]'.")
    import pyarrow
    from pyarrow import parquet

    table = {}
    for name in columns_of(rows):
        values = [row.get(name) for row in rows]
        kinds = {type(v) for v in values if v is not None}
        if kinds == {int, float}:
            values = [v if v is None else float(v) for v in values]
        elif len(kinds) > 1:
            values = [v if v is None else str(v) for v in values]
        table[name] = pyarrow.array(values)
    parquet.write_table(pyarrow.table(table), path)
