"""Any module, with its inputs standardized."""

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["StandardizedInputs"]


class StandardizedInputs(nn.Module):
    """A module that sees its inputs less a center and over a scale.

    Parameters
    ----------
    module
        Turns ``(n, features)`` into a law of batch shape ``(n,)``.
    features
        Number of inputs.

    Examples
    --------
    >>> network = StandardizedInputs(nn.Identity(), 1)
    >>> network.standardize(torch.tensor([[5.0]]), torch.tensor([[2.0]]))
    >>> network(torch.tensor([[9.0]])).tolist()
    [[2.0]]
    """

    center: Tensor
    scale: Tensor

    def __init__(self, module: nn.Module, features: int) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("center", torch.zeros(1, features))
        self.register_buffer("scale", torch.ones(1, features))

    def standardize(self, center: Tensor, scale: Tensor) -> None:
        """Set what is taken from the inputs and what they are divided by.

        Both of shape ``(1, features)``.
        """
        self.center.copy_(center)
        self.scale.copy_(scale)

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401  (what the module returns)
        """Hand standardized inputs ``(n, features)`` to the module."""
        return self.module((x - self.center) / self.scale)
