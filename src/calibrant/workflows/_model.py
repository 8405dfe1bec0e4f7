"""A model as it was handed in: itself, or its folder."""

import os

from calibrant.workflows.table_model import TableModel

__all__ = ["as_model"]


def as_model(model: TableModel | str | os.PathLike[str]) -> TableModel:
    """Load a model, if it is not one already."""
    return model if isinstance(model, TableModel) else TableModel.load(model)
