"""What delay costs: the proved bound of Hedge holds and is approached, bandits still learn."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.accounting.prefix_hedge import guarantee
from dpoco.environments import LinearWorld, play_delayed
from dpoco.experts import PrefixHedge
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

N, T, DELAY = 2, 2048, 63


def rate(delay):
    """Best without noise: docs/privacy/delayed_feedback.md."""
    return math.sqrt(math.log(N) / (T * (1 / 8 + delay / 4)))


def blocks(length, seed):
    """One random vector of losses per block: feedback comes when it is of no use any more."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, 2, size=(T // length, N)).astype(float), length, axis=0)


def mean_regret(losses, delay, **options):
    """Expected regret given the noise of the sums, exactly: no draw of decisions enters."""
    learner = PrefixHedge(N, horizon=T, source=Source.seeded(3), **options)
    waiting, total = [], 0.0
    for t in range(T):
        total += float(learner.weights @ losses[t])
        waiting.append(learner.decide(ticket=True)[1])
        if t >= delay:
            learner.observe(losses[t - delay], ticket=waiting[t - delay])
    for t in range(max(T - delay, 0), T):
        learner.observe(losses[t], ticket=waiting[t])
    return total - losses.sum(axis=0).min()


def test_delay_costs_what_is_known():
    eta = rate(DELAY)
    bound = math.sqrt(T * math.log(N) * (DELAY + 0.5))
    late, soon = [], []
    for seed in range(8):
        losses = blocks(DELAY + 1, seed)
        late.append(mean_regret(losses, DELAY, budget=None, learning_rate=eta))
        soon.append(mean_regret(losses, 0, budget=None, learning_rate=rate(0)))
        assert late[-1] <= bound * (1 + 1e-9)
        assert soon[-1] <= math.sqrt(T * math.log(N) / 2) * (1 + 1e-9)
    # Random blocks: the regret of a game of T/(D+1) rounds with losses of D+1, of order
    # sqrt(T (D+1)). With feedback at once the same losses can be exploited.
    assert np.mean(late) > 0.25 * bound
    assert np.mean(soon) < 0.2 * np.mean(late)


def test_delay_costs_no_more_with_noise():
    """Bound (a) plus the drift, with noise: over means of seeded streams, well below it."""
    delay, budget = 15, dpoco.Budget(4.0, 1e-5)
    learner = PrefixHedge(N, horizon=T, budget=budget, learning_rate=0.02)
    base = guarantee(learner.plan).regret_bound
    row = learner.plan.mechanism.scale  # a column's scale; rows are larger by at most this factor
    deviation = row * math.sqrt(T)
    bound = base + 0.02 / 4.0 * (T * delay + delay * 0.02 * deviation**2)
    regrets = [
        mean_regret(blocks(delay + 1, seed), delay, budget=budget, learning_rate=0.02)
        for seed in range(6)
    ]
    assert max(regrets) <= bound
    assert max(regrets) < T / 4


def test_an_expert_that_is_better_is_found_in_spite_of_delay():
    losses = np.random.default_rng(0).random((T, 3)) * [1.0, 0.5, 1.0]
    excess = {}
    for delay in (0, 32, 256):
        learner = PrefixHedge(
            3, horizon=T, budget=dpoco.Budget(4.0, 1e-5), learning_rate=0.05,
            source=Source.seeded(1),
        )  # fmt: skip
        run = play_delayed(learner, (losses,), delay)
        excess[delay] = run.values.sum() - losses[:, 1].sum()
        assert run.outstanding == min(delay + 1, T)
    assert excess[256] < 0.25 * 0.25 * T  # of uniform play's mean excess, a fifth of T
    # Nothing is known in the first `delay` steps: that is what it costs, about a sixth of each.
    gained = excess[256] - excess[0]
    assert 0.5 < gained / (256 / 6) < 1.5


@pytest.mark.parametrize("kind", ["linucb", "high_dimensional"])
def test_bandits_learn_from_delayed_rewards(kind):
    steps, delay = 3000, 100
    world = LinearWorld(3, 4, steps, seed=2)
    budget = dpoco.Budget(20.0, 1e-5)
    if kind == "linucb":
        make = lambda: dpoco.bandits.LinUCB(  # noqa: E731
            3, 4, horizon=steps, budget=budget, exploration=0.1,
            reward_bound=world.reward_bound, source=Source.seeded(1), context_bound=1.0
        )  # fmt: skip
    else:
        make = lambda: dpoco.bandits.HighDimensionalBandit(  # noqa: E731
            3, dpoco.domains.LpBall(4, 1.0, 2.0), horizon=steps, budget=budget,
            reward_bound=world.reward_bound, forced_rounds=50, batch=10, source=Source.seeded(1),
                context_bound=1.0
        )  # fmt: skip

    def regret(delays):
        actions = play_delayed(make(), (world.contexts, world.rewards), delays).decisions
        return float((world.means.max(axis=1) - world.means[np.arange(steps), actions]).sum())

    blind = float((world.means.max(axis=1) - world.means.mean(axis=1)).sum())
    soon, late, mixed = (
        regret(0),
        regret(delay),
        regret(np.random.default_rng(0).integers(-1, 2 * delay, steps)),
    )
    per_step = blind / steps
    assert soon < 0.5 * blind
    assert late < soon + 3.0 * delay * per_step
    assert mixed < soon + 5.0 * delay * per_step
