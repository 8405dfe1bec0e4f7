"""Quantile regularization in a LightningModule (``pip install lightning``)."""

import lightning
from torch import Tensor, nn, optim, rand, randn
from torch.utils.data import DataLoader, TensorDataset

from calibrant import GaussianHead, QuantileRegularizer, SmoothRecalibrator, evaluate


class Regression(lightning.LightningModule):  # type: ignore[misc,unused-ignore]
    """In several processes the regularizer sees the PIT values of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 2))
        self.regularizer, self.head = QuantileRegularizer(), GaussianHead()

    def training_step(self, batch: list[Tensor]) -> Tensor:
        """Add the regularizer to the negative log-likelihood."""
        x, y = batch
        predicted = self.head(self.layers(x))
        loss: Tensor = self.regularizer(predicted, y) - predicted.log_prob(y).mean()
        return loss

    def configure_optimizers(self) -> optim.Optimizer:
        """Take Adam."""
        return optim.Adam(self.parameters(), lr=3e-3)


lightning.seed_everything(2, verbose=False)
x = rand(2500, 8)
y = (3 * x[:, 0]).sin() + x[:, 1] * randn(2500).abs()  # skewed noise

# Train on 1,000 rows, recalibrate with 1,000 others, and measure on 500 unseen ones.
model = Regression()
rows = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=250, shuffle=True)
lightning.Trainer(max_epochs=150, barebones=True).fit(model, rows)
held_out, unseen = (model.head(model.layers(x[n : n + 1000])) for n in (1000, 2000))
recalibrator = SmoothRecalibrator().fit(held_out, y[1000:2000])
print(evaluate(recalibrator.transform(unseen), y[2000:]).verdict())
