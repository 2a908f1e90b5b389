"""Sums of long batches: rounding must not carry two neighbouring streams apart.

Equal summands round to one unit of the last place below a power of two and to another one above it.
Sums that stand on either side drift apart with every record they share, unless what rounding loses
is kept. Half a batch of 2^(h + 1) ones puts them there; summands of 0.6 units in the other half
drive plain sums 2^(2 h - 53) farther apart than the one record that differs.
"""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

H = 16
STREAMS = [TreeFrankWolfe, PolyhedralFrankWolfe, NoisyFTRL]
BALL = LpBall(1, 1.0)


def summands(first, h=H):
    """Return the 2^(h + 1) summands of a batch that `first` begins."""
    values = np.ones(2 ** (h + 1))
    values[0] = first
    values[2**h + 1 :] = 0.6 * 2.0 ** (h - 52)
    return values


def remaining(count):
    """Return how far apart rounding may still bring the compensated sums of a batch."""
    return count * 2.0**-50  # 2^-51 for the batch, 2^-51 for the sum of batches


def moved(sum_of, h=H, low=-1.0):
    return sum_of(summands(1.0, h)) - sum_of(summands(low, h))


@pytest.mark.parametrize("h", [H, 20])
def test_plain_sums_drift_apart(h):
    # If they did not, nothing below would be tested.
    excess = moved(lambda values: np.add.accumulate(values)[-1], h) - 2.0
    assert excess == pytest.approx(2.0 ** (2 * h - 53), rel=1e-3)
    assert excess > 100.0 * remaining(2 ** (h + 1))


def find_learner(cls, loss, size, **options):
    return cls(
        BALL, loss, horizon=2 * size, batch=size, budget=dpoco.Budget(1.0, 1e-6),
        source=Source.seeded(0), **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "h"), [(LinearLoss(1.0), H), (LinearLoss(1.0), 20), (SquaredLoss(1.0, 1.0), H)]
)
@pytest.mark.parametrize("cls", STREAMS)
def test_sums_of_gradients_do_not_drift_apart(cls, loss, h):
    def sum_of(values):
        learner = find_learner(cls, loss, len(values))
        assert loss.glm or learner.guarantee.sensitivity == 2.0
        # The slope at 0 is 1.
        learner.run(values[:, None], np.full(len(values), -0.5) if loss.glm else None)
        return learner._engine.nonprivate_sum()[0]

    assert moved(sum_of, h) == pytest.approx(2.0, abs=remaining(2 ** (h + 1)))


def test_quadratic_statistics_do_not_drift_apart():
    def sum_of(values):
        values[2**H] = 0.5  # between 2^H - 0.5 and 2^H + 0.5: records are shrunk a little
        learner = find_learner(
            NoisyFTRL, SquaredLoss(1.0, 1.0), len(values), statistics="quadratic"
        )
        learner.run(np.sqrt(values)[:, None], np.zeros(len(values)))
        return learner._engine.nonprivate_sum()[0]

    assert moved(sum_of, low=0.0) == pytest.approx(1.0, abs=remaining(2 ** (H + 1)))


def test_rewards_of_a_bandit_do_not_drift_apart():
    def sum_of(values):
        learner = LinUCB(
            1, 1, horizon=len(values) + 1, batch=len(values), budget=dpoco.Budget(1.0, 1e-6),
            source=Source.seeded(0), context_bound=1.0, reward_bound=1.0
        )  # fmt: skip
        learner.run(np.sqrt(values)[:, None], np.zeros((len(values), 1)))
        return learner._engine.nonprivate_sum()[0]

    assert moved(sum_of, low=0.0) <= 1.0 + remaining(2 ** (H + 1))
