"""Quantile regularization in a LightningModule (``pip install lightning``)."""

import lightning
from torch import Tensor, nn, optim, rand, randn
from torch.utils.data import DataLoader, TensorDataset

from calibrant import GaussianHead, QuantileRegularizer, evaluate, nll


class Regression(lightning.LightningModule):  # type: ignore[misc,unused-ignore]
    """In several processes the regularizer sees the PIT values of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
        self.regularizer = QuantileRegularizer()

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """Add the regularizer to the negative log-likelihood."""
        law = GaussianHead()(self.layers(batch[0]))
        return nll(law, batch[1]).mean().add(self.regularizer(law, batch[1]))

    def configure_optimizers(self) -> optim.Optimizer:
        """Take Adam."""
        return optim.Adam(self.parameters(), lr=3e-3)


def main() -> None:
    """Train on 500 rows, and measure on 2,000 others."""
    lightning.seed_everything(0, verbose=False)
    x = rand(2500, 8)
    y = (6 * x[:, 0]).sin() + x[:, 1] * randn(2500).abs()  # skewed noise
    rows = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=250, shuffle=True)
    model = Regression()
    lightning.Trainer(max_epochs=300, barebones=True).fit(model, rows)
    print(evaluate(GaussianHead()(model.layers(x[500:])), y[500:]).verdict())


if __name__ == "__main__":
    main()
