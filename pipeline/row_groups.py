"""Repeated rows of a table: `labels` x `columns`, written once.

    - labels: {SimCLR: simclr, Supervised: {recipe: supervised, control: true}}
      columns: {linear: {probe: linear_uniclr, metrics: [ACC]}, kNN: {probe: knn}, "": {assigner: kmeans}}

stands for the rows "SimCLR: linear", "SimCLR: kNN", "SimCLR", "Supervised: linear", ... A label brings its recipe (or
keys of a row), a column brings its keys; a column without a name leaves the label as it is. Other keys of the group
belong to every row of it; a column's keys win over a label's, a label's over the group's.
"""

from collections.abc import Iterable, Mapping
from typing import Any


def expand(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with every group in place of its product, in order; label by label, and within one column by column."""
    expanded: list[dict[str, Any]] = []
    for row in rows:
        expanded += _product(row) if "labels" in row else [dict(row)]
    return expanded


def _product(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    shared = {key: value for key, value in group.items() if key not in ("labels", "columns")}
    product = []
    for label, named in group["labels"].items():
        of_label = {"recipe": named} if isinstance(named, str) else named
        for column, of_column in group["columns"].items():
            text = f"{label}: {column}" if column else label
            product.append({"label": text, **shared, **of_label, **of_column})
    return product
