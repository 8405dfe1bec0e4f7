"""Watch the calibration of each epoch in TensorBoard.

It needs ``pip install 'calibrant[tensorboard]'``. Run it with ``python
examples/log_to_tensorboard.py`` and look at the curves with ``tensorboard --logdir
runs``: each strength is a run of its own, and the held-out calibration error stands
beside what a perfectly calibrated model would show.
"""

from calibrant import CalibratedRegressor
from calibrant.data import load
from calibrant.training import TensorBoardLogger


def main() -> None:
    """Choose one of two strengths, and measure the model on rows that are new."""
    arm = load("kin8nm")
    model = CalibratedRegressor(
        members=1,
        folds=5,
        epochs=20,
        strength="auto",
        strength_grid=(0.0, 5.0),
        callbacks=[TensorBoardLogger("runs")],
        random_state=0,
    )
    model.fit(arm.x[:1000], arm.y[:1000])
    card = model.evaluate(arm.x[5000:7000], arm.y[5000:7000])
    print(f"strength {model.strength_}: {card.verdict()}")


if __name__ == "__main__":
    main()
