"""A regressor together with what it knows about the columns of a table."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from calibrant._checks import InputError
from calibrant.distributions.base import AbstractDistribution
from calibrant.distributions.conversion import rescaled
from calibrant.estimators._about import KIND, Trend, described_table
from calibrant.estimators._state import as_written, described
from calibrant.estimators.loading import named, restored
from calibrant.estimators.regressor import CalibratedRegressor
from calibrant.storage import read_folder, write_folder
from calibrant.tables import Findings, Style, TableEncoder, open_source

if TYPE_CHECKING:
    from calibrant.tables import Source

__all__ = ["TableModel"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableModel:
    """Predicts the law of one column of a table from the others, found by their names.

    Made by ``fit_table``, or put together from its parts.

    Attributes
    ----------
    regressor
        A fitted :class:`CalibratedRegressor`, of the target less its trend.
    encoder
        What turns the columns into its features.
    target
        Name of the column that is predicted.
    about
        Anything about its making that JSON can hold: rows, settings, how it did on
        rows that were set aside.
    trend
        Line in time that is added to what the regressor predicts, or None.

    Examples
    --------
    >>> from calibrant import fit_table
    >>> x = np.linspace(0, 1, 200)
    >>> table = {"x": x, "shape": ["round", "flat"] * 100, "y": x**2}
    >>> model = fit_table(table, target="y", epochs=2, progress=False).model
    >>> model.predict_distribution({"shape": ["flat"], "x": [0.5]}).batch_shape
    torch.Size([1])
    """

    regressor: CalibratedRegressor
    encoder: TableEncoder
    target: str
    about: Mapping[str, Any] = field(default_factory=dict)
    trend: Trend | None = None

    def features(
        self,
        table: Any,  # noqa: ANN401  (a path, a data frame, columns by name)
        *,
        findings: Findings | None = None,
    ) -> Array:
        """Encode a whole table, shape ``(n, d)``.

        Parameters
        ----------
        table
            A path of a CSV or Parquet file, a data frame, or columns by name.
        findings
            Gathers what is unusual in it.
        """
        source = self.open(table)
        data = source.read(self.encoder.needed)
        return self.encoder.encode(data, name=source.name, findings=findings)

    def open(
        self,
        table: Any,  # noqa: ANN401
        *,
        style: Style | None = None,
    ) -> "Source":
        """Open a table that must have the columns which the model needs.

        What neither ``style`` nor the file says about numbers is as in training.
        """
        given, learned = style or Style(), self.encoder.style
        style = replace(
            given,
            thousands=given.thousands or learned.thousands,
            usual_decimal=learned.decimal,
        )
        return open_source(table, style=style, expect=self.encoder.needed)

    def law(self, x: Array) -> AbstractDistribution:
        """Law of each encoded row ``(n, d)``, batch shape ``(n,)``."""
        return self.moved(self.regressor.model_.law(x), x)

    def line(self, x: Array) -> Array:
        """Height of the trend for each encoded row ``(n, d)``, shape ``(n,)``."""
        if self.trend is None:
            return np.zeros(len(x))
        place = self.encoder.feature_names.index(self.trend.feature)
        height: Array = self.trend.line(x[:, place])
        return height

    def moved(self, law: AbstractDistribution, x: Array) -> AbstractDistribution:
        """Add the trend of encoded rows ``(n, d)`` to what a regressor predicts."""
        if self.trend is None:
            return law
        return rescaled(law, torch.from_numpy(self.line(x)), 1.0)

    def predict_distribution(self, table: Any) -> AbstractDistribution:  # noqa: ANN401
        """Predict the law of each row of a table, batch shape ``(n,)``."""
        return self.law(self.features(table))

    def with_regressor(
        self, regressor: CalibratedRegressor, **about: object
    ) -> "TableModel":
        """Return the same for another regressor, with more about its making."""
        return replace(self, regressor=regressor, about={**self.about, **about})

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        page: str | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the model into a folder, to be read by :meth:`load`.

        Parameters
        ----------
        folder
            Where; it must not exist yet.
        page
            A page for people, which goes into the same folder as ``report.html``.
        overwrite
            Replace a model that is there.

        Returns
        -------
        Path
            The folder. It appears only when it is complete.
        """
        check_is_fitted(self.regressor, "model_")
        arrays, description = described(self.regressor)
        return write_folder(
            folder,
            arrays=arrays,
            description={
                "regressor": description,
                "encoder": self.encoder.to_dict(),
                "target": self.target,
                "about": dict(self.about),
                "trend": None if self.trend is None else vars(self.trend),
            },
            kind=KIND,
            page=page,
            overwrite=overwrite,
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` has written.

        Nothing is unpickled or executed; what was changed since it was written, or does
        not fit together, gives an error that says so.
        """
        arrays, state = read_folder(folder, kind=KIND)
        with named(folder):
            return cls._from_parts(arrays, state)

    @classmethod
    def _from_parts(
        cls, arrays: Mapping[str, Tensor], parts: Mapping[str, Any]
    ) -> Self:
        with as_written("description"):
            encoder, target, about, trend = described_table(parts)
        regressor = restored(arrays, parts.get("regressor"), {})
        with as_written("encoder"):
            if regressor.n_features_in_ != len(encoder.feature_names):
                raise InputError(
                    f"its columns make {len(encoder.feature_names)} features, and its "
                    f"networks take {regressor.n_features_in_}."
                )
        return cls(regressor, encoder, target, about, trend)
