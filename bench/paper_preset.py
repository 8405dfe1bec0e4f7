"""The paper's two models on one data set, by its own protocol.

    python bench/paper_preset.py airfoil.csv --network mc_dropout --repeats 5

Five folds without shuffling, each repeat the mean over them, mean and standard
deviation over the repeats. The target is the last column.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from _tables import measures, read_csv, unshuffled_folds

from calibrant import CalibratedRegressor


def main() -> None:
    """Run base and regularized models and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--network", default="mc_dropout")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.0, 20.0])
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    x, y = read_csv(given.csv)
    for strength in given.strengths:
        repeats = []
        for repeat in range(given.repeats):
            folds = []
            for number, (learn, test) in enumerate(unshuffled_folds(len(y))):
                model = CalibratedRegressor.paper(
                    given.network, strength=strength, random_state=10 * repeat + number
                ).fit(x[learn], y[learn])
                law = model.predict_distribution(x[test])
                folds.append(measures(law, y[test], all_y=y))
            names = ("plain_calibration_error", "rmse", "nll")
            repeats.append([np.mean([f[name] for f in folds]) for name in names])
        center, spread = np.mean(repeats, axis=0), np.std(repeats, axis=0)
        print(
            f"{given.csv.name} {given.network} strength {strength:g}: "
            f"calibration error {center[0]:.2f} ± {spread[0]:.2f}, "
            f"RMSE {center[1]:.3f} ± {spread[1]:.3f}, "
            f"NLL {center[2]:.3f} ± {spread[2]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
