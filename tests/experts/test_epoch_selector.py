"""Selection on epochs: which rounds feed which, privacy and regret claims, protocol, state."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.accounting import epoch_selector as accountant
from dpoco.experts import EpochSelector, EpochSelectorParameters
from dpoco.random import Source

PURE = dpoco.Budget(1.0, 0.0)


def make(n, *, seed=1, **options):
    return EpochSelector(
        n, **{"horizon": 100, "budget": PURE, **options}, source=Source.seeded(seed)
    )


def stationary(n, rounds, seed, gap=0.4):
    rng = np.random.default_rng(seed)
    means = np.full(n, 0.5)
    means[seed % n] -= gap
    return (rng.random((rounds, n)) < means).astype(float), seed % n


def test_epochs_without_noise():
    rng = np.random.default_rng(0)
    rows = rng.random((70, 5))
    learner = make(5, horizon=70, budget=None, first=2)
    played = learner.run(rows).decisions
    want, current = [], 2
    for t in range(1, 71):  # local time
        if t >= 2 and t & (t - 1) == 0:
            current = int(np.argmin(rows[t // 2 - 1 : t - 1].sum(axis=0)))
        want.append(current)
    assert played.tolist() == want
    assert not learner.guarantee.private


def test_it_finds_the_best_expert_and_not_the_worst():
    regrets, flipped = [], []
    for seed in range(8):
        rows, best = stationary(10, 2000, seed)
        regrets.append(make(10, horizon=2000, seed=seed).run(rows).regret(best)[-1])
        flipped.append(make(10, horizon=2000, seed=seed).run(1.0 - rows).decisions)
        assert np.mean(flipped[-1][64:] == best) < 0.2  # an argmax would play it
    assert np.mean(regrets) < 150.0
    noisy = [
        make(10, horizon=2000, seed=s, budget=dpoco.Budget(1e-3, 0.0))
        .run(stationary(10, 2000, s)[0])
        .regret(s % 10)[-1]
        for s in range(4)
    ]
    assert np.mean(noisy) > 400.0


@pytest.mark.parametrize("noise", ["exponential", "gumbel", "laplace"])
def test_the_regret_bound_holds(noise):
    for n, rounds, eps, gap in ((10, 1000, 1.0, 0.1), (2, 300, 0.3, 0.3), (30, 500, 5.0, 0.05)):
        budget = dpoco.Budget(eps, 0.0)
        p = accountant.calibrate(n, horizon=rounds, budget=budget, selection=noise)
        regrets = []
        for seed in range(40):
            rows, _ = stationary(n, rounds, seed, gap)
            learner = make(n, horizon=rounds, budget=budget, selection=noise, seed=seed)
            own = learner.run(rows).losses.sum()
            regrets.append(own - rows.sum(axis=0).min())
        margin = 5.0 * np.std(regrets) / math.sqrt(len(regrets))
        assert np.mean(regrets) - margin <= p.regret_bound < rounds
        assert math.isclose(p.regret_bound, sum(p.regret_terms.values()))
        assert p.regret_bound < 40.0 * max(np.mean(regrets), 5.0)


def test_the_regret_of_two_rounds_exactly():
    """Losses (0, 1) or (1, 0) with probability q: enumerate, for all q."""
    for eps in (0.5, 5.0):
        p = accountant.calibrate(2, horizon=2, budget=dpoco.Budget(eps, 0.0), first=0)
        worse = 0.5 * math.exp(-1.0 / p.scale)
        largest = 0.0
        for q in np.linspace(0.0, 1.0, 21):
            chances = {(0.0, 1.0): q, (1.0, 0.0): 1.0 - q}
            regret = 0.0
            for one, c1 in chances.items():
                good = 0 if one[0] < one[1] else 1
                for two, c2 in chances.items():
                    second = (1.0 - worse) * two[good] + worse * two[1 - good]
                    regret += c1 * c2 * (one[0] + second - min(np.add(one, two)))
            largest = max(largest, regret)
        assert largest <= p.regret_bound


def test_accounting():
    for noise in accountant.SELECTIONS:
        p = accountant.calibrate(7, horizon=50, budget=PURE, selection=noise)
        assert p.scale == 2.0
        g = accountant.guarantee(7, p, budget=PURE)
        assert g.epsilon == 1.0
        assert g.delta == 0.0
        assert g.certified
    for calibration in ("corrected", "paper"):
        p = accountant.calibrate(7, horizon=50, budget=PURE, calibration=calibration)
        assert (p.selection, p.scale) == ("laplace", 2.0)
        with pytest.raises(ValueError, match="Laplace"):
            accountant.calibrate(
                7, horizon=50, budget=PURE, calibration=calibration, selection="gumbel"
            )
    soft = dpoco.Budget(1.0, 1e-4)
    p = accountant.calibrate(7, horizon=50, budget=soft, selection="gumbel")
    assert p.scale < 2.0
    accountant.guarantee(7, p, budget=soft).require(soft)
    with pytest.raises(dpoco.BudgetExceeded):
        accountant.guarantee(7, p, budget=PURE).require(PURE)
    # Over any number of rounds the same.
    endless = accountant.calibrate(7, horizon=None, budget=PURE)
    assert endless.scale == 2.0
    assert accountant.guarantee(7, endless).horizon == 10**12
    assert accountant.regret_bound(7, endless, rounds=50) == accountant.regret_bound(
        7, accountant.calibrate(7, horizon=50, budget=PURE)
    )
    lying = EpochSelectorParameters(**{**vars(p), "scale": 0.5, "regret_bound": 0.0})
    assert accountant.guarantee(7, lying).regret_bound > 10.0
    with pytest.raises(dpoco.BudgetExceeded):
        EpochSelector(7, horizon=50, budget=PURE, parameters=lying)
    with pytest.raises(ValueError, match="experts"):
        accountant.guarantee(8, p)


def test_the_first_expert():
    assert make(5, first=3).decide() == 3
    firsts = {make(5, seed=s).decide() for s in range(60)}
    assert firsts == set(range(5))
    with pytest.raises(ValueError, match="first"):
        make(5, first=5)


def test_impossible_states_are_refused():
    learner = make(3, horizon=100)
    learner.run(np.full((20, 3), 0.5))
    state = learner._engine.state()
    make(3, horizon=100)._engine.restore(state)
    sums = len(state) - 3 * 8  # the recent parts, after their number; whole ones before
    for at, value in (
        (sums - 8 * 5, (5).to_bytes(8, "little")),  # rounds summed up
        (sums - 8 * 4, np.float64(1.0).tobytes()),  # a whole part before there can be one
        (sums, np.float64(2.5 + 2.0**-47).tobytes()),
        (0, (19).to_bytes(8, "little")),
        (8, (3).to_bytes(8, "little")),
        (sums - 16, (21).to_bytes(8, "little")),
        (sums, np.float64(5.5).tobytes()),
        (sums, np.float64(-0.5).tobytes()),
        (sums, np.float64(np.nan).tobytes()),
    ):
        with pytest.raises(dpoco.StateError):
            make(3, horizon=100)._engine.restore(state[:at] + value + state[at + 8 :])
