"""How a fitted regressor gets into a folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sklearn.utils.validation import check_is_fitted

from calibrant.estimators._state import described
from calibrant.storage import write_folder

if TYPE_CHECKING:
    from calibrant.estimators.regressor import CalibratedRegressor

__all__ = ["Saved"]


class Saved:
    """Gives a regressor its ``save``."""

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted model into a folder, to be read by ``calibrant.load``.

        The folder holds ``model.json`` (readable, with a format version and checksums)
        and ``arrays.safetensors``. It appears only when it is complete.

        Parameters
        ----------
        folder
            Where; it must not exist yet.
        overwrite
            Replace a model that is there.

        Returns
        -------
        Path
            The folder.
        """
        check_is_fitted(self, "model_")
        arrays, description = described(cast("CalibratedRegressor", self))
        return write_folder(
            folder,
            arrays=arrays,
            description=description,
            kind=type(self).__name__,
            overwrite=overwrite,
        )
