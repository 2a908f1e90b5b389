"""Losses of the stocks: shape, range and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.datasets import STOCKS, stock_losses


def test_losses_are_returns_on_a_public_scale():
    try:
        losses = stock_losses()
    except ImportError:
        pytest.skip("this version of river does not bundle the stocks")
    assert losses.shape == (1257, len(STOCKS))
    assert losses.min() >= 0.0
    assert losses.max() <= 1.0
    # The first day: AAPL gained 1.042235 percent, XOM lost 0.372418.
    assert np.isclose(losses[0, STOCKS.index("AAPL")], 0.5 - 1.042235 / 20.0)
    assert np.isclose(losses[0, STOCKS.index("XOM")], 0.5 + 0.372418 / 20.0)
    assert 0.49 < losses.mean() < 0.5
