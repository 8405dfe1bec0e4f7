"""Quantile regularization in skorch (``pip install skorch``)."""

import torch
from skorch import NeuralNet
from torch.nn import Linear, ReLU, Sequential

from calibrant import GaussianHead, QuantileRegularizer, SmoothRecalibrator, evaluate
from calibrant.distributions import Gaussian


class RegularizedNet(NeuralNet):  # type: ignore[misc,unused-ignore]
    """The criterion is the regularizer: a search can set ``criterion__strength``."""

    def get_loss(self, raw: torch.Tensor, y: torch.Tensor, **_: object) -> torch.Tensor:
        """Add the regularizer to the negative log-likelihood."""
        normal, y = GaussianHead()(raw), y.to(raw)
        loss: torch.Tensor = self.criterion_(normal, y) - normal.log_prob(y).mean()
        return loss

    def predict_distribution(self, X: object) -> Gaussian:
        """Distribution of each row; ``calibrant.recalibrate(net, X, y)`` uses it."""
        return GaussianHead()(torch.from_numpy(self.predict(X)))


def main() -> None:
    """Train on 1,000 rows, recalibrate with 1,000 others, measure on 500 unseen."""
    torch.manual_seed(2)
    x = torch.rand(2500, 8)
    y = (3 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
    layers = {"module": lambda: Sequential(Linear(8, 128), ReLU(), Linear(128, 2))}
    options = {"optimizer": torch.optim.Adam, "lr": 3e-3, "max_epochs": 150}
    options |= {"criterion": QuantileRegularizer, "train_split": None, "verbose": 0}
    net = RegularizedNet(**layers, **options, batch_size=250).fit(x[:1000], y[:1000])
    held_out, unseen = map(net.predict_distribution, x[1000:].split([1000, 500]))
    predictive = SmoothRecalibrator().fit(held_out, y[1000:2000]).transform(unseen)
    print(evaluate(predictive, y[2000:]).verdict())


if __name__ == "__main__":
    main()
