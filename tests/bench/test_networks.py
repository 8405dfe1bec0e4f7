"""The comparison of networks: what is trained, and the table of ratios."""

import pytest
import torch

from bench import networks
from bench.networks import ARMS, TABLES, Stack, ratios


@pytest.mark.parametrize("shared", [False, True])
def test_members_are_of_their_own(shared: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    stack = Stack(3, shared=shared, generator=generator).float()
    weights = [layer.weight for layer in stack.layers]
    assert {len(weight) for weight in weights} == {1 if shared else networks._MEMBERS}
    x = torch.randn(5, 3, generator=generator, dtype=torch.float32)
    found = stack(x.expand(networks._MEMBERS, -1, -1))
    assert found.batch_shape == (networks._MEMBERS, 5)
    assert float(found.mean.detach().std(0).min()) > 0


def test_ratios_are_of_means_over_splits() -> None:
    kinds = {(kind, epochs) for kind, epochs, _ in ARMS}
    plain = {("default", base) for *_, base in ARMS}
    rows = [
        {"data": data, "method": kind, "epochs": epochs, "crps": crps * factor}
        for data in TABLES
        for kind, epochs in kinds | plain
        for factor in [2.0 if kind == "tabm" else 1.0]
        for crps in (1.0, 3.0)
    ]
    last = ratios(rows).splitlines()[-1]
    assert last == "| geometric mean | 1.000 | 1.000 | 2.000 | 2.000 |"
