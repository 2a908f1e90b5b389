"""Selection on epochs and windows: which rounds feed which, claims, protocol, state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.worlds import AdversarialBlocks

import dpoco
from dpoco.accounting import epoch_selector as accountant
from dpoco.accounting import window_selector
from dpoco.environments import SwitchingStochastic
from dpoco.evaluation import best_switching_sequence
from dpoco.experts import EpochSelector, WindowSelector
from dpoco.published import asi_tracking
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


def make_windows(n, *, seed=1, **options):
    return WindowSelector(
        n, **{"horizon": 100, "budget": PURE, **options}, source=Source.seeded(seed)
    )


def windows_of(rounds, longest):
    """Return first round and end of every window, from the definition."""
    found, start = [], 0
    while start < rounds:
        length = min(longest, 2 ** len(found))
        found.append((start, min(start + length, rounds)))
        start += length
    return found


@pytest.mark.parametrize("window", [None, 1, 3, 4, 7, 64])
def test_windows_without_noise(window):
    rows = np.random.default_rng(0).random((70, 5))
    options = {"horizon": 70, "budget": None, "first": 2}
    learner = make(5, **options) if window is None else make_windows(5, window=window, **options)
    want, best = [], 2
    for start, end in windows_of(70, 70 if window is None else window):
        want += [best] * (end - start)
        best = int(np.argmin(rows[start:end].sum(axis=0)))
    assert learner.run(rows).decisions.tolist() == want
    assert not learner.guarantee.private


@pytest.mark.parametrize("window", [64, 100, 10**6])
def test_a_long_window_is_the_epoch_selector(window):
    rows = np.random.default_rng(1).random((100, 5))
    epochs, windows = make(5), make_windows(5, window=window)
    assert windows.plan.forecast.regret_bound == pytest.approx(epochs.plan.forecast.regret_bound)
    assert windows.guarantee.loss == epochs.guarantee.loss
    assert windows.run(rows).decisions.tolist() == epochs.run(rows).decisions.tolist()
    assert windows._engine.state() == epochs._engine.state()


def charges(n, rounds, scale, window, gap):
    """Return what every round is charged with: gap-aware maximum on a fine grid."""
    found, before = [], None
    for start, end in windows_of(rounds, window):
        charge = 1.0
        if before is not None:
            harmonic = sum(1.0 / k for k in range(1, n + 1))
            charge = math.sqrt(math.log(n) / (2 * before)) + scale * (harmonic - 1.0) / before
            if gap > 0.0:
                at = np.linspace(gap, 1.0, 20_001)
                rate = np.minimum(at, 1.0 / scale)
                worst = (at * np.exp(-before * rate * (at - rate / 2))).max()
                charge = min(charge, (n - 1) * worst)
        found += [min(1.0, charge)] * (end - start)
        before = end - start
    return found


@pytest.mark.parametrize(
    ("n", "rounds", "shifts", "epsilon", "gap", "window", "pseudo"),
    [
        (10, 10**5, 5, 1.0, 0.0, 362, 10170.823),
        (10, 10**5, 5, 1.0, 0.4, 107, 1198.285),
        (10, 10**4, 5, 0.3, 0.4, 107, 1352.882),
        (2, 10**4, 20, 1.0, 0.4, 26, 1478.857),
        (100, 10**5, 20, 1.0, 0.4, 107, 5103.839),
        (10, 10**5, 0, 1.0, 0.0, 32768, 1239.113),
    ],
)
def test_bounds_of_windows_against_sums_over_all_rounds(
    n, rounds, shifts, epsilon, gap, window, pseudo
):
    options = {"expected_shifts": shifts, "gap": gap}
    p = window_selector.calibrate(
        n, horizon=rounds, budget=dpoco.Budget(epsilon, 0.0), **options
    )  # fmt: skip
    assert p.tuning.window == window
    lost = sorted(charges(n, rounds, 2.0 / epsilon, window, gap))
    spoilt = shifts * (2 * window - 1)
    want = spoilt + sum(lost[spoilt:])
    paths = (shifts + 1) * math.log(n) + math.log(math.comb(rounds - 1, shifts))
    luck = math.sqrt(rounds * paths / 2.0)
    bound = window_selector.regret(p)
    terms = bound.terms
    assert math.fsum(terms.values()) - terms["comparator"] == pytest.approx(want, rel=1e-4)
    assert want == pytest.approx(pseudo, rel=1e-4)
    assert bound.total == p.forecast.regret_bound == pytest.approx(want + luck, rel=1e-4)
    assert window_selector.guarantee(p).regret_bound == bound.total
    assert window_selector.regret(p, 1).total == 1.0


@pytest.mark.parametrize(("known", "figure"), [(0.0, 295.0), (0.4, 302.0)])
def test_windows_follow_a_law_that_shifts(known, figure):
    """Within 1.25 of the figure of another program; `bench/windows.py` has eight worlds each."""
    budget, found = dpoco.Budget(0.3, 0.0), []
    for seed in range(100, 104):
        losses = SwitchingStochastic(10, 10**4, switches=5, gap=0.4, seed=seed).matrix()
        options = {"horizon": 10**4, "budget": budget, "expected_shifts": 5}
        best = best_switching_sequence(losses, 5).total_loss
        learner = make_windows(10, **options, gap=known, seed=seed)
        found.append(learner.run(losses).losses.sum() - best)
        stuck = make(10, horizon=10**4, budget=budget, seed=seed).run(losses).losses.sum() - best
        assert stuck > 2.0 * found[-1]
    assert np.mean(found) < min(1.25 * figure, learner.plan.forecast.regret_bound)


def test_blocks_as_long_as_windows_make_regret_linear():
    losses = AdversarialBlocks(2, 10**4, block=128, seed=0).matrix()
    own = make_windows(2, horizon=10**4, window=128).run(losses).losses.sum()
    assert own - losses.sum(axis=0).min() > 0.45 * 10**4


def test_parameters_of_windows_are_not_those_of_epochs():
    with pytest.raises(TypeError, match="plan must be a plan for a WindowSelector"):
        make_windows(5, plan=make(5).plan)
    with pytest.raises(TypeError, match="plan must be a plan for a EpochSelector"):
        make(5, plan=make_windows(5).plan)


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
        bound = accountant.regret(p)
        assert np.mean(regrets) - margin <= bound.total < rounds
        assert math.isclose(bound.total, sum(bound.terms.values()))
        assert bound.total == p.forecast.regret_bound < 40.0 * max(np.mean(regrets), 5.0)


def test_the_regret_of_two_rounds_exactly():
    """Losses (0, 1) or (1, 0) with probability q: enumerate, for all q."""
    for eps in (0.5, 5.0):
        p = accountant.calibrate(2, horizon=2, budget=dpoco.Budget(eps, 0.0), first=0)
        worse = 0.5 * math.exp(-1.0 / accountant.find_noise(p.mechanism)[1])
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
        assert largest <= p.forecast.regret_bound


def test_accounting():
    for noise in accountant.SELECTIONS:
        p = accountant.calibrate(7, horizon=50, budget=PURE, selection=noise)
        assert accountant.find_noise(p.mechanism) == (noise, 2.0)
        g = accountant.guarantee(p, budget=PURE)
        assert g.epsilon == 1.0
        assert g.delta == 0.0
        assert g.certified
    p = asi_tracking.epoch_selector(7, horizon=50, budget=PURE)
    assert accountant.find_noise(p.mechanism) == ("laplace", 2.0)
    assert accountant.guarantee(p).calibration == "paper"
    soft = dpoco.Budget(1.0, 1e-4)
    p = accountant.calibrate(7, horizon=50, budget=soft, selection="gumbel")
    assert accountant.find_noise(p.mechanism)[1] < 2.0
    accountant.guarantee(p, budget=soft).require(soft)
    with pytest.raises(dpoco.BudgetExceeded):
        accountant.guarantee(p, budget=PURE).require(PURE)
    # Over any number of rounds the same.
    endless = accountant.calibrate(7, horizon=None, budget=PURE)
    assert accountant.find_noise(endless.mechanism)[1] == 2.0
    assert accountant.guarantee(endless).horizon == 10**12
    known = accountant.calibrate(7, horizon=50, budget=PURE)
    assert accountant.regret(endless, 50) == accountant.regret(known)
    with pytest.raises(ValueError, match="experts"):
        EpochSelector(8, horizon=50, budget=None, plan=p)


def test_the_first_expert():
    assert make(5, first=3).decide() == 3
    firsts = {make(5, seed=s).decide() for s in range(60)}
    assert firsts == set(range(5))
    with pytest.raises(ValueError, match="first"):
        make(5, first=5)
