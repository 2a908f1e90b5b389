"""Small problems that all adapters' tests share."""

from __future__ import annotations

import numpy as np

from dpoco import Budget

BUDGET = Budget(4.0, 1e-6)
NAMES = ("a", "b", "c")
BOUNDS = {"feature_bound": 1.0, "label_bound": 1.0}


def records(rounds, seed=0):
    """Features (T, 3) in the l2 ball of radius 1/2, and labels of a linear rule."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-0.28, 0.28, size=(rounds, 3))
    return rows, rows @ [1.0, -1.0, 0.5] > 0.1


def dictionaries(rows):
    return [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()]
