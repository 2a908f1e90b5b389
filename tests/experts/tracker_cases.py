"""Configurations of the oblivious tracker at which much happens in forty rounds."""

from __future__ import annotations

import numpy as np

from dpoco.experts import ObliviousTracker
from dpoco.random import Source

T, N = 40, 5
LOSSES = np.random.default_rng(0).random((T, N))
# All kinds of messages, coins and caps; rates at which much happens in forty rounds.
CONFIGURATIONS = {
    "share": {"switches": 3, "share_rate": 0.1, "learning_rate": 0.5, "forced_switch": 0.2},
    "share, batches": {"switches": 3, "share_rate": 0.1, "learning_rate": 0.5,
                       "forced_switch": 0.2, "batch": 3},
    "static": {"share_rate": 0.0, "learning_rate": 0.5, "forced_switch": 0.2},
    "at most": {"switches": 3, "prior": "at_most", "learning_rate": 0.5, "forced_switch": 0.2},
    "at most, capped": {"switches": 3, "prior": "at_most", "learning_rate": 0.5,
                        "forced_switch": 0.2, "batch": 2, "max_resamples": 4},
    "always": {"switches": 3, "share_rate": 0.1, "learning_rate": 0.5, "forced_switch": 1.0},
    "never forced": {"switches": 3, "prior": "at_most", "learning_rate": 40.0},
}  # fmt: skip


def make(name="share", *, seed=1, experts=N, horizon=T, budget=None, **options):
    return ObliviousTracker(
        experts,
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **{**(CONFIGURATIONS[name] if name else {}), **options},
    )
