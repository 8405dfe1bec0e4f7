"""Fit one model with several processes.

    torchrun --nproc-per-node 2 examples/fit_with_torchrun.py

Every process loads the same rows and learns from its part of every batch; all of them
end with the same model.
"""

import os

from calibrant import CalibratedRegressor
from calibrant.data import load
from calibrant.data.splits import shuffled_folds


def main() -> None:
    """Fit on four fifths of the rows, and let the first process speak."""
    data = load("yacht")
    learned, unseen = next(iter(shuffled_folds(len(data.y), folds=5, seed=0)))
    model = CalibratedRegressor(epochs=30, random_state=0, distributed=True)
    model.fit(data.x[learned], data.y[learned])
    if os.environ["RANK"] == "0":
        print(model.evaluate(data.x[unseen], data.y[unseen]).verdict())
        model.save("model", overwrite=True)


if __name__ == "__main__":
    main()
