"""Quantile regularization in skorch (``pip install skorch``)."""

import torch
from skorch import NeuralNet
from torch.nn import Linear, ReLU, Sequential

from calibrant import Gaussian, GaussianHead, QuantileRegularizer, evaluate, nll


class RegularizedNet(NeuralNet):  # type: ignore[misc,unused-ignore]
    """The criterion is the regularizer: a search can set ``criterion__strength``."""

    def get_loss(self, raw: torch.Tensor, y: torch.Tensor, **_: object) -> torch.Tensor:
        """Add the regularizer to the negative log-likelihood."""
        law = GaussianHead()(raw)
        return nll(law, y.to(raw)).mean().add(self.criterion_(law, y.to(raw)))

    def predict_distribution(self, X: object) -> Gaussian:
        """Law of each row; with it ``calibrant.recalibrate(net, X, y)`` works too."""
        return GaussianHead()(torch.from_numpy(self.predict(X)))


def main() -> None:
    """Train without and with the regularizer; measure on 2,000 other rows."""
    torch.manual_seed(0)
    x = torch.rand(2500, 8)
    y = (6 * x[:, 0]).sin() + x[:, 1] * torch.randn(2500).abs()  # skewed noise
    layers = {"module": lambda: Sequential(Linear(8, 128), ReLU(), Linear(128, 2))}
    options = {"optimizer": torch.optim.Adam, "lr": 3e-3, "max_epochs": 300}
    options |= {"criterion": QuantileRegularizer, "train_split": None, "verbose": 0}
    net = RegularizedNet(**layers, **options, batch_size=250)
    for strength in (0.0, 20.0):
        net.set_params(criterion__strength=strength).fit(x[:500].numpy(), y[:500])
        law = net.predict_distribution(x[500:].numpy())
        print(f"strength {strength}: {evaluate(law, y[500:]).verdict()}")


if __name__ == "__main__":
    main()
