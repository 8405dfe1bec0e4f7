"""Watch the calibration of each epoch in TensorBoard.

It needs ``pip install 'calibrant[tensorboard]'``. Run it with ``python
examples/log_to_tensorboard.py`` and look at the curves with ``tensorboard --logdir
runs``: each strength is a run of its own, then the model with the chosen one, whose
held-out calibration error stands beside what a perfectly calibrated model would show.
"""

from calibrant import CalibratedRegressor
from calibrant.data import load
from calibrant.training import TensorBoardLogger


def main() -> None:
    """Choose one of two strengths, and measure the model on rows that are new."""
    arm = load("kin8nm")
    model = CalibratedRegressor(
        members=1,
        epochs=20,
        recalibrate_on="held_out",
        strength="auto",
        random_state=1,
        options={"held_out_share": 0.4, "strength_grid": (0.0, 5.0)},
    )
    model.fit(arm.x[:3000], arm.y[:3000], callbacks=[TensorBoardLogger("runs")])
    card = model.evaluate(arm.x[4000:4500], arm.y[4000:4500])
    print(f"strength {model.strength_}: {card.verdict()}")


if __name__ == "__main__":
    main()
