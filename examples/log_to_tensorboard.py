"""Watch the calibration of each epoch in TensorBoard.

It needs ``pip install tensorboard``. Run it with ``python
examples/log_to_tensorboard.py`` and look at the curves with ``tensorboard --logdir
runs``: one training after the other, at last the model with the chosen strength, whose
held-out calibration error stands beside what a perfectly calibrated model would show.
"""

from torch.utils.tensorboard import SummaryWriter

from calibrant import CalibratedRegressor, EpochLogger
from calibrant.data import load


def main() -> None:
    """Choose one of two strengths, and measure the model on rows that are new."""
    arm = load("kin8nm")
    writer = SummaryWriter("runs")
    model = CalibratedRegressor(
        learners=["network"],
        members=1,
        epochs=20,
        recalibrate_on="held_out",
        strength="auto",
        random_state=1,
        options={"held_out_share": 0.4, "strength_grid": (0.0, 5.0)},
    )
    model.fit(arm.x[:3000], arm.y[:3000], callbacks=[EpochLogger(writer.add_scalar)])
    writer.close()
    card = model.evaluate(arm.x[4000:4500], arm.y[4000:4500])
    print(f"strength {model.strength_}: {card.verdict()}")


if __name__ == "__main__":
    main()
