"""Learners of other people are audited by the mechanisms that their guarantees describe."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.audit import likelihood_audit, replay_audit
from dpoco.domains import LpBall
from dpoco.losses import SquaredLoss
from dpoco.mechanisms import ContinualSum, NoisyMax

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
T, D, N = 8, 3, 4
BALL, LOSS = LpBall(D, 2.0), SquaredLoss(1.0, 1.0)
RNG = np.random.default_rng(0)
ROWS, LABELS = RNG.uniform(-0.5, 0.5, (T, D)), RNG.uniform(-1.0, 1.0, T)
LOSSES = RNG.uniform(size=(T, N))
PAIRS = [(2, -ROWS[2], 1.0), (0, [1e6, 0.0, 0.0], -1.0), (T - 1, np.full(D, np.nan), 0.0)]


class Leader:
    """Follows a private sum of gradients."""

    def __init__(self, source):
        self.domain, self.loss, self.horizon, self.round = BALL, LOSS, T, 0
        self.gradients = ContinualSum(
            D, horizon=T, budget=dpoco.Budget(3.0, 1e-3), bound=1.0, source=source
        )
        self.guarantee = self.gradients.guarantee
        self.theta = BALL.center

    def decide(self):
        return self.theta

    def gradient(self, features, label):
        return LOSS.gradient(self.theta, features, label)

    def observe(self, features, label):
        total = self.gradients.push(self.gradient(features, label))
        self.theta = BALL.project(BALL.center - 0.1 * total)
        self.round += 1


class Momentum(Leader):
    """Adds a part of the gradient of the round before, too."""

    before = 0.0

    def gradient(self, features, label):
        own = np.nan_to_num(super().gradient(features, label))
        mixed, self.before = own + 0.1 * self.before, own
        return mixed


class Twice(Leader):
    """Adds every gradient in two pieces, each as long as allowed."""

    def observe(self, features, label):
        self.gradients.push(self.gradient(features, label))
        super().observe(features, label)

    def __init__(self, source):
        super().__init__(source)
        self.horizon = T // 2


class Selective(Leader):
    """Adds large gradients only."""

    def observe(self, features, label):
        if np.nan_to_num(self.gradient(features, label)) @ np.ones(D) > 0.0:
            super().observe(features, label)


class Peeking(Leader):
    """Decides by the gradient as well as by the sum."""

    def observe(self, features, label):
        own = np.nan_to_num(self.gradient(features, label))
        super().observe(features, label)
        self.theta = BALL.project(self.theta - 0.01 * own)


def replay(kind, rounds=T):
    return replay_audit(kind, (ROWS[:rounds], LABELS[:rounds]), PAIRS[: 2 if rounds < T else 3])


def test_what_enters_a_sum_that_a_learner_holds_is_compared_at_equal_releases():
    report = replay(Leader)
    assert report.passed, str(report)
    moved, declared = report.changes["what enters gradients"]
    assert 1.0 < moved <= declared == 2.0
    assert report.changes["what enters gradients in other rounds"] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (Momentum, "what enters gradients in other rounds"),
        (Selective, "how often gradients is used depends on a record"),
        (Peeking, "a decision depends on a record otherwise than through answers of gradients"),
    ],
)
def test_a_record_that_acts_in_another_way_is_found(kind, found):
    assert found in "; ".join(replay(kind).findings)


def test_a_record_that_enters_a_sum_twice_is_found():
    assert "more than once" in "; ".join(replay(Twice, T // 2).findings)


class Chooser:
    """Plays the expert that a private selection on the losses of a round names."""

    factor = 1.0

    def __init__(self, source):
        self.experts, self.horizon, self.round, self.arm = N, T, 0, 0
        self.best = NoisyMax(
            N, horizon=T, budget=dpoco.Budget(8.0, 0.0), sensitivity=1.0, source=source
        )
        self.guarantee = self.best.guarantee

    def decide(self):
        return self.arm

    def observe(self, losses):
        self.arm = self.best.select(-self.factor * np.clip(losses, 0.0, 1.0))
        self.round += 1


class Exaggerating(Chooser):
    factor = 2.0


def test_promised_sensitivities_are_held_to_what_enters():
    pairs = [(1, 1.0 - np.round(LOSSES[1])), (3, [1e6, -1e6, 0.0, 0.0])]
    assert replay_audit(Chooser, LOSSES, pairs).passed
    assert "what best is asked" in "; ".join(replay_audit(Exaggerating, LOSSES, pairs).findings)


# ---- what is missing is said in one sentence -----------------------------------------------------


class Borrowed(Leader):
    """States the guarantee of another sum than the one it holds."""

    def __init__(self, source):
        super().__init__(source)
        self.guarantee = ContinualSum(
            D, horizon=T, budget=dpoco.Budget(1.0, 1e-3), bound=1.0
        ).guarantee


class Promising(Leader):
    """Draws its noise itself, and promises what it is."""

    def __init__(self, source):
        super().__init__(source)
        del self.gradients
        self.guarantee = dpoco.Guarantee.gaussian(
            sensitivity=2.0, noise_scale=9.0, delta=1e-3, horizon=T, released="sums"
        )


class Bare(Leader):
    """Hides the sum whose guarantee it states."""

    def __init__(self, source):
        super().__init__(source)
        del self.gradients


class Silent(Leader):
    """States no guarantee."""

    def __init__(self, source):
        super().__init__(source)
        self.guarantee = None


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Borrowed, "its guarantee is not that of gradients together"),
        (Promising, "there is none for a mechanism of kind 'declared' in a learner of records"),
        (Bare, "its engine has no leaf, nonprivate_sum, variates_drawn"),
        (Silent, "its guarantee describes no mechanism"),
    ],
)
def test_what_an_audit_misses_is_one_sentence(kind, sentence):
    with pytest.raises(TypeError, match=f"^no audit of a {kind.__name__}: ") as caught:
        replay(kind)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_law_of_such_a_learner_is_not_scored():
    other = ROWS.copy()
    other[0] *= -1.0
    with pytest.raises(ValueError, match="law of what such a learner releases is not known"):
        likelihood_audit(Leader, (ROWS, LABELS), (other, LABELS), 300)
