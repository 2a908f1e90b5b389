"""Losses of the pollsters: shape, range and what they are made of."""

from __future__ import annotations

import numpy as np

from dpoco.datasets import POLLSTERS, pollster_losses


def test_losses_are_bounded_errors_in_tens_of_points():
    losses = pollster_losses()
    assert losses.shape == (1001, len(POLLSTERS))
    assert losses.min() >= 0.0
    assert losses.max() <= 1.0
    # The first day: Gallup 43.843213, Ipsos 46.19925..., consensus 43.75505.
    assert np.isclose(losses[0, 0], (43.843213 - 43.75505) / 10.0)
    assert np.isclose(losses[0, 1], (46.19925042857143 - 43.75505) / 10.0)
    assert 0.1 < losses.mean() < 0.2
