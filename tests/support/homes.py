"""A table with all kinds of columns, and settings that train in a moment."""

from typing import Any

import numpy as np
import pyarrow as pa

TINY: dict[str, Any] = {
    "learners": ("network",),
    "loss": "nll",
    "members": 1,
    "folds": 2,
    "hidden": (8,),
    "epochs": 6,
    "batch_size": 32,
    "progress": False,
}


def homes(rows: int, seed: int = 0, *, noise: float = 10.0) -> pa.Table:
    """Prices of homes: numbers, a category, a boolean, a date, gaps, an identifier."""
    random = np.random.default_rng(seed)
    area = random.gamma(4, 25, rows).round(1)
    city = random.choice(["Lima", "Oslo", "Rome"], rows)
    bonus = {"Lima": 0.0, "Oslo": 60.0, "Rome": 30.0}
    price = 2 * area + [bonus[each] for each in city] + noise * random.normal(size=rows)
    day = np.datetime64("2024-01-01") + np.arange(rows)
    return pa.table(
        {
            "id": [f"h{number}" for number in range(rows)],
            "day": pa.array(day),
            "area": pa.array(area, mask=random.random(rows) < 0.05),
            "city": city,
            "garden": random.random(rows) < 0.5,
            "price": price,
        }
    )
