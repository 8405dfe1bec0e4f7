"""A regressor together with what it knows about the columns of a table."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.errors import InputError
from calibrant.storage import read_folder, write_folder
from calibrant.tables import Style, TableEncoder, open_source

# Torch is imported where a model predicts: ``calibrant info`` reads without it.
if TYPE_CHECKING:
    from calibrant.distributions.base import AbstractDistribution
    from calibrant.estimators.regressor import CalibratedRegressor
    from calibrant.tables import Source

__all__ = [
    "KIND",
    "TableModel",
    "Trend",
    "described_table",
    "how_it_did",
    "settings_of",
]

Array = npt.NDArray[np.float64]

#: Of the folder.
KIND = "TableModel"


@dataclass(frozen=True)
class Trend:
    """A line in the position in time, which the regressor does not have to learn."""

    feature: str
    slope: float  # of the target, for each unit of the feature
    center: float  # where the line is 0

    def __str__(self) -> str:
        return f"{self.slope:.4g} for each unit of {self.feature!r:.60}"

    def line(self, values: Any) -> Any:  # noqa: ANN401  (an array, or a number)
        """Height of the line at values of the feature, shape ``(n,)``."""
        return self.slope * (values - self.center)


@dataclass(frozen=True)
class TableModel:
    """Predicts one column of a table from the others, found by their names.

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
        held-out rows.
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

    regressor: "CalibratedRegressor"
    encoder: TableEncoder
    target: str
    about: Mapping[str, Any] = field(default_factory=dict)
    trend: Trend | None = None

    def features(self, table: Any) -> Array:  # noqa: ANN401  (as for fit_table)
        """Encode a whole table, shape ``(n, d)``."""
        source = self.open(table)
        return self.encoder.encode(source.read(self.encoder.needed), name=source.name)

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

    def predict_distribution(self, table: Any) -> "AbstractDistribution":  # noqa: ANN401
        """Predict the distribution of each row of a table, batch shape ``(n,)``."""
        return self.distribution(self.features(table))

    def distribution(self, x: Array) -> "AbstractDistribution":
        """Distribution of each encoded row ``(n, d)``, batch shape ``(n,)``."""
        return self.moved(self.regressor.model_.distribution(x), x)

    def line(self, x: Array) -> Array:
        """Height of the trend for each encoded row ``(n, d)``, shape ``(n,)``."""
        if self.trend is None:
            return np.zeros(len(x))
        place = self.encoder.feature_names.index(self.trend.feature)
        height: Array = self.trend.line(x[:, place])
        return height

    def moved(
        self, predictive: "AbstractDistribution", x: Array
    ) -> "AbstractDistribution":
        """Add the trend of encoded rows ``(n, d)`` to what a regressor predicts."""
        import torch

        from calibrant.distributions.conversion import rescaled

        if self.trend is None:
            return predictive
        return rescaled(predictive, torch.from_numpy(self.line(x)), 1.0)

    def with_about(self, **about: object) -> "TableModel":
        """Return the same with more about its making."""
        return replace(self, about={**self.about, **about})

    def settings(self, command: str | None = None) -> dict[str, str]:
        """Say what makes the model again, and the command that measured it."""
        lines = settings_of(self.about, self.regressor.strength_, self.trend)
        return lines if command is None else lines | {"Command": command}

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        page: str | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the model into a folder, which appears when it is complete.

        A ``page`` for people goes into it as ``report.html``.
        """
        from sklearn.utils.validation import check_is_fitted

        from calibrant.estimators.persistence import described

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
        from calibrant.estimators.persistence import as_written, named, restored

        arrays, state = read_folder(folder, kind=KIND)
        with named(folder):
            with as_written("description"):
                encoder, target, about, trend = described_table(state)
            regressor = restored(arrays, state.get("regressor"), {})
            with as_written("encoder"):
                if regressor.n_features_in_ != len(encoder.feature_names):
                    raise InputError(
                        f"its columns make {len(encoder.feature_names)} features, and "
                        f"its networks take {regressor.n_features_in_}."
                    )
        return cls(regressor, encoder, target, about, trend)


def described_table(
    parts: Mapping[str, Any],
) -> tuple[TableEncoder, str, dict[str, Any], Trend | None]:
    """Return columns, target, what is known about the making of a model, its trend."""
    missing = [name for name in ("encoder", "target", "about") if name not in parts]
    if missing:
        raise InputError(f"the description has no part {missing[0]!r}. Write it again.")
    encoder = TableEncoder.from_dict(parts["encoder"])
    target, about = parts["target"], parts["about"]
    if not isinstance(target, str) or not isinstance(about, dict):
        raise InputError("its target must be a name and its about a mapping.")
    match parts.get("trend"):
        case None:
            return encoder, target, about, None
        case {"feature": str(name), "slope": float(slope), "center": float(center)}:
            if name in encoder.feature_names and math.isfinite(slope + center):
                return encoder, target, about, Trend(name, slope, center)
    raise InputError("its trend must be a line in one of its features.")


@contextmanager
def _about_as_written() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError):
        raise InputError(
            "what the model says about its making is not as calibrant writes it."
        ) from None


def settings_of(
    about: Mapping[str, Any],
    strength: Any,  # noqa: ANN401  (a number, or else what was forged)
    trend: Trend | None = None,
) -> dict[str, str]:
    """Say what makes a model again, by name."""
    with _about_as_written():
        versions = about.get("versions", {}).items()
        changed = about.get("changed", {}).items()
        lines = {
            "Command": about.get("command"),
            "Table": about.get("table"),
            "SHA-256 of the table": about.get("sha256"),
            "Rows learned from": f"{about['rows']:,}" if "rows" in about else None,
            "Seed": about.get("seed"),
            "Strength of the regularizer": f"{strength:g}",
            "Settings": ", ".join(f"{n}={v}" for n, v in changed) or "the defaults",
            "Epochs": about.get("epochs"),
            "Trained": about.get("plan"),
            "Line in time": trend,
            "Versions": ", ".join(f"{n} {v}" for n, v in versions),
        }
        return {name: str(text) for name, text in lines.items() if text is not None}


def how_it_did(about: Mapping[str, Any]) -> str:
    """Say how many of the unseen rows its intervals covered."""
    with _about_as_written():
        card = about.get("scorecard")
        if not card:
            return "It was not measured on unseen rows."
        found = card["measures"]["coverage_90"]
        return (
            f"Its 90 % intervals covered {100 * found['value']:.1f} % of "
            f"{card['rows']:,} {card.get('which', 'unseen rows')}; a perfect model "
            f"would show {100 * found['low']:.1f} to {100 * found['high']:.1f} %."
        )
