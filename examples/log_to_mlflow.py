"""Log the calibration of each epoch, and of the model, to MLflow.

It needs mlflow. ``mlflow ui --backend-store-uri sqlite:///mlflow.db`` shows the run.
"""

import mlflow

from calibrant import CalibratedRegressor, EpochLogger
from calibrant.data import load


def log(name: str, value: float, step: int) -> None:
    """Send one number to the active run."""
    mlflow.log_metric(name, value, step=step)


def main() -> None:
    """Train within a run, and add what the model shows on rows that are new."""
    arm = load("kin8nm")
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    model = CalibratedRegressor(
        learners=["network"],
        members=1,
        epochs=20,
        recalibrate_on="held_out",
        random_state=1,
        options={"held_out_share": 0.4},
    )
    with mlflow.start_run():
        mlflow.log_params({"members": model.members, "strength": model.strength})
        model.fit(arm.x[:3000], arm.y[:3000], callbacks=[EpochLogger(log)])
        card = model.evaluate(arm.x[4000:4500], arm.y[4000:4500])
        error = card.measure("calibration_error")
        mlflow.log_metrics({"calibration_error": error.value})
        mlflow.log_metrics({"calibration_floor": error.floor or 0.0})
    print(card.verdict())


if __name__ == "__main__":
    main()
