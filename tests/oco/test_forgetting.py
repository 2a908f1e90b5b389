"""Learners that forget and choose: an independent implementation, unbiased estimates, utility."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.accounting import forgetting
from dpoco.accounting.continual_sum import factorisation
from dpoco.environments import DriftingRegression
from dpoco.oco import NoisyFTRL
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.random import Source

BALL, LOSS = dpoco.domains.LpBall(3, 2.0, 1.5), dpoco.losses.SquaredLoss(1.0, 1.0)
BUDGET = dpoco.Budget(1.0, 1e-6)


def make(domain=BALL, horizon=5000, seed=1, budget=BUDGET, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
        return NoisyFTRL(
            domain, LOSS, horizon=horizon, budget=budget, statistics="quadratic",
            source=Source.seeded(seed), **options,
        )  # fmt: skip


def power_series(factor, n):
    """c_0 .. c_(n-1), from the definition."""
    decay, weights = np.array(factor.decay), np.array(factor.weights)
    later = [(weights * (1.0 - decay) ** (i - 1)).sum() for i in range(1, n)]
    return np.array([1.0, *later])


def inverse(c):
    found = np.zeros(len(c))
    found[0] = 1.0
    for i in range(1, len(c)):
        found[i] = -c[1 : i + 1] @ found[:i][::-1]
    return found


# -- the law of the noise -------------------------------------------------------------------------


def test_damping_multiplies_coefficients_by_powers():
    factor, kept = factorisation("blt", 500), 0.97
    damped = power_series(forgetting.damp(factor, kept), 60)
    np.testing.assert_allclose(damped, power_series(factor, 60) * kept ** np.arange(60), rtol=1e-12)


@pytest.mark.parametrize("kept", [1.0, 0.9, "growing"])
def test_noise_of_damped_sums_is_that_of_matrices(kept):
    n, factor = 80, forgetting.damp(factorisation("blt", 500), 0.95)
    own = np.linspace(0.99, 0.7, n) if kept == "growing" else np.full(n, kept)
    gamma = inverse(power_series(factor, n + 1))
    decoder = np.array(
        [[gamma[t - i] if i <= t else 0.0 for i in range(n + 1)] for t in range(n + 1)]
    )
    view = np.zeros((n, n + 1))  # the sum behind push t, in increments
    for t in range(n):
        if t:
            view[t] = own[t] * view[t - 1]
        view[t, t] = 1.0
    rows = view @ decoder
    deviations, covariances = forgetting.view_noise(factor, own)
    np.testing.assert_allclose(deviations, np.linalg.norm(rows, axis=1), rtol=1e-10)
    expected = [rows[t] @ decoder[t + 1] for t in range(n)]
    np.testing.assert_allclose(covariances, expected, rtol=1e-9, atol=1e-12)


def test_covariances_of_increments_are_sums_of_exponentials():
    factor = forgetting.damp(factorisation("blt", 1000), 2.0 ** (-1 / 100))
    gamma = inverse(power_series(factor, 3000))
    square, rates, weights = forgetting.increment_covariances(factor)
    assert square == pytest.approx(gamma @ gamma, rel=1e-9)
    for j in (1, 2, 7, 40):
        assert (weights * rates ** (j - 1)).sum() == pytest.approx(
            gamma[:-j] @ gamma[j:], rel=1e-6, abs=1e-10
        )


def test_a_buffered_sum_is_close_to_the_optimal_one():
    """The same quantities of exact square-root coefficients, derived by hand, n = 1000."""
    kept = 2.0 ** (-1 / 100)
    factor = forgetting.damp(factorisation("blt", 1000), kept)
    deviations, covariances = forgetting.view_noise(factor, np.full(1000, kept))
    assert deviations[-1] == pytest.approx(1.5007426031, rel=1e-3)
    assert covariances[0] == pytest.approx(-0.4965462477, rel=2e-3)
    assert covariances[-1] == pytest.approx(-0.6232475443, rel=2e-3)
    total, _ = forgetting.view_noise(factor, np.ones(1000))
    assert total[-1] == pytest.approx(3.0534413909, rel=1e-3)


# -- what the engine decides ----------------------------------------------------------------------


def unpack(packed, d):
    rows, columns = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, columns] = packed * np.where(rows == columns, 1.0, math.sqrt(0.5))
    return matrix + np.triu(matrix, 1).T


def pack(matrix):
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def minimiser(matrix, vector, ridge, radius):
    """Of x'M+ x - 2 b'x + ridge |x|^2 in a ball, by bisection on the multiplier."""
    w, v = np.linalg.eigh(matrix)
    spectrum, pull = np.maximum(w, 0.0) + ridge, v.T @ vector
    low, high = 0.0, np.linalg.norm(pull) / radius
    if np.linalg.norm(pull / spectrum) <= radius:
        high = 0.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        outside = np.linalg.norm(pull / (spectrum + middle)) > radius
        low, high = (middle, high) if outside else (low, middle)
    return v @ (pull / (spectrum + high))


def correction(view, ridge, radius, alpha, d):
    """Q - 2 L / alpha^2 by central differences in packed coordinates."""
    size, step, total = d * (d + 1) // 2, 1e-5, 0.0

    def theta(packed):
        return minimiser(unpack(packed[:size], d), packed[size:] / alpha, ridge, radius)

    for i in range(len(view)):
        up, down = view.copy(), view.copy()
        up[i], down[i] = up[i] + step, down[i] - step
        above, below = theta(up), theta(down)
        if i < size:
            change = (pack(np.outer(above, above)) - pack(np.outer(below, below)))[i]
        else:
            change = -2.0 / alpha * (above - below)[i - size]
        total += change / (2.0 * step)
    return total


MATRIX = np.array([[4.0, 1.0, -0.5], [1.0, -2.0, 0.25], [-0.5, 0.25, 1.5]])
VECTOR = np.array([2.0, -1.0, 0.5])


def stein(matrix, vector, ridge, radius, alpha=1.0):
    """The minimiser, and Q - 2 L / alpha^2 by the page's closed form (centre 0)."""
    w, v = np.linalg.eigh(matrix)
    x = v.T @ minimiser(matrix, vector, ridge, radius)
    positive, pull = np.maximum(w, 0.0), v.T @ vector
    largest = int(np.argmax(np.abs(x)))
    multiplier = pull[largest] / x[largest] - positive[largest] - ridge
    bound = multiplier > 1e-9
    h = 1.0 / (positive + ridge + multiplier * bound)
    n = h * x
    pull_back = 1.0 / (n @ x) if bound else 0.0
    q = 0.0
    for i in range(len(w)):
        q -= 2.0 * (w[i] > 0.0) * x[i] ** 2 * (h[i] - n[i] ** 2 * pull_back)
        for j in range(i + 1, len(w)):
            rho = (positive[i] - positive[j]) / (w[i] - w[j])
            along = n[i] * x[j] + n[j] * x[i]
            q -= rho * (h[j] * x[i] ** 2 + h[i] * x[j] ** 2 - along**2 * pull_back)
    return v @ x, q - 2.0 * (h * (1.0 - n * x * pull_back)).sum() / alpha**2


def replay(learner, sums, plan=None):
    """The decisions behind all pushes, from the released sums alone; written from the page."""
    plan, d = plan or learner._forgetting, learner._domain.dimension
    alpha, radius = learner._mechanism.summand.weight, learner._domain.radius
    first = plan.reference
    candidates = [(view, ridge) for view in plan.views for ridge in plan.ridges]
    count = len(candidates) + 1
    theta = [np.zeros(d) for _ in range(count)]
    views = [np.zeros(sums.shape[1]) for _ in plan.views]
    shares, corrections = np.zeros(count), np.zeros(count)
    excess, variances, history, decisions = np.zeros(count), np.zeros(count), [], []
    lags = [
        sum(w * r ** (j - 1) for w, r in zip(plan.weights, plan.rates, strict=True))
        for j in range(1, len(sums) + 1)
    ]
    for t, increment in enumerate(np.diff(sums, axis=0, prepend=0.0)):
        memory = plan.memory[min(t, len(plan.memory) - 1)]
        forms = [np.concatenate([pack(np.outer(x, x)), -2.0 * x / alpha]) for x in theta]
        change = np.array(forms) - forms[first]
        cross, weight = np.zeros_like(change), 1.0
        for back in range(1, t + 1):
            weight *= plan.memory[min(t - back + 1, len(plan.memory) - 1)]
            cross += weight * lags[back - 1] * history[t - back]
        excess = memory * excess + change @ increment - (corrections - corrections[first])
        own = plan.variance * np.square(change).sum(1) + 2.0 * (change * cross).sum(1)
        variances = memory**2 * variances + own
        history.append(change)
        for v, view in enumerate(plan.views):
            kept, sigma = view.kept[min(t, len(view.kept) - 1)], view.deviations[t]
            views[v] = kept * views[v] + increment
            for r, ridge in enumerate(plan.ridges):
                a, edge = v * len(plan.ridges) + r, ridge * math.sqrt(2.0 * d) * sigma
                size = d * (d + 1) // 2
                matrix, vector = unpack(views[v][:size], d), views[v][size:] / alpha
                theta[a], terms = stein(matrix, vector, edge, radius, alpha)
                corrections[a] = view.covariances[t] * terms
        spread = np.sqrt(np.maximum(variances, 0.0))
        middle = np.median(np.delete(spread, first))
        if middle > 0.0:
            exponents = -(excess + 2.0 * spread) / (0.25 * middle)
            shares = np.exp(exponents - exponents.max())
        else:
            shares = np.eye(count)[first]
        shares /= shares.sum()
        decisions.append(shares @ np.array(theta))
    return np.array(decisions), shares


def draws(total, seed=1):
    """The noise of all sums, from sums of zeros with the same seed."""
    size = total.summand.size
    summand = ClippedVector(dimension=size, norm=2.0, bound=1.0, bound_l2=1.0)
    twin = _core.ContinualSum(
        dataclasses.replace(total, summand=summand, batch=1, growth=None),
        Source.seeded(seed)._claim(),
    )
    noise = np.empty((total.pushes, size))
    twin.run(np.zeros((total.pushes, size)), noise)
    return noise


def released_sums(learner, features, labels, seed=1):
    """What the engine releases: exact sums of statistics, and noise of a sum of the same seed."""
    total = learner._mechanism
    leaves = [
        np.concatenate([pack(np.outer(x, x)), learner._mechanism.summand.weight * y * x])
        for x, y in zip(features, labels, strict=True)
    ]
    ends = np.cumsum(forgetting.batch_lengths(total.batch, total.growth, total.pushes)).astype(int)
    return np.cumsum(leaves, axis=0)[ends - 1] + draws(total, seed), ends


def test_decisions_are_those_of_an_independent_implementation():
    world = DriftingRegression("turning", 600, 3, seed=2)
    features = 0.9 * world.features  # within the bound, so that nothing is clipped
    options = {"horizon": 600, "half_life": "auto", "batch": 20, "budget": dpoco.Budget(8.0, 1e-6)}
    learner = make(**options)
    run = learner.run(features, world.labels, record_decisions=True)
    sums, ends = released_sums(learner, features, world.labels)
    expected, shares = replay(learner, sums)
    assert len(learner.choices) > 9
    assert len(sums) > 15
    np.testing.assert_allclose(run.decisions[ends], expected, atol=2e-4)  # releases are rounded
    np.testing.assert_allclose([each.weight for each in learner.choices], shares, atol=5e-3)
    # The other sign of the shared noise is another learner.
    wrong = dataclasses.replace(
        learner._forgetting,
        views=tuple(
            dataclasses.replace(view, covariances=tuple(-c for c in view.covariances))
            for view in learner._forgetting.views
        ),
    )
    other, _ = replay(learner, sums, wrong)
    assert np.abs(other - expected).max() > 1e-3


# -- the estimates --------------------------------------------------------------------------------


@pytest.mark.parametrize(("ridge", "radius"), [(0.5, 10.0), (0.5, 1.0), (2.0, 10.0), (0.1, 2.0)])
def test_the_closed_form_is_the_central_difference(ridge, radius):
    _, found = stein(MATRIX, VECTOR, ridge, radius)
    packed = np.concatenate([pack(MATRIX), VECTOR])
    assert found == pytest.approx(correction(packed, ridge, radius, 1.0, 3), rel=1e-6)


def mean_errors(reacts, trials=2000):
    """Mean errors of naive and corrected estimates of the loss on the sixth increment, in units of
    their standard errors. 3 s: a bias of a twentieth of the deviation is to be seen."""
    n, s, kept = 6, 0.7, 0.9
    gamma = inverse(power_series(forgetting.damp(factorisation("blt", 100), 0.95), n))
    decoder = np.array([[gamma[t - i] if i <= t else 0.0 for i in range(n)] for t in range(n)])
    row = kept ** np.arange(n - 1)[::-1] @ decoder[:-1]  # of the view behind five increments
    shared = s * s * float(row @ decoder[-1])
    generator = np.random.default_rng(7)
    errors = np.empty((trials, 2))
    for trial in range(trials):
        e = generator.normal(size=(n, 9)) * s
        noise = row @ e
        if reacts:  # whoever knows the records knows the noise, and turns it round
            noise = -noise
        packed = np.concatenate([pack(MATRIX), VECTOR]) + noise
        theta, terms = stein(unpack(packed[:6], 3), packed[6:], 0.5, 1.0)
        naive = np.concatenate([pack(np.outer(theta, theta)), -2.0 * theta]) @ (decoder[-1] @ e)
        errors[trial] = naive, naive - shared * terms
    return errors.mean(axis=0) / (errors.std(axis=0) / math.sqrt(trials))


def test_the_corrected_estimate_is_unbiased_on_a_fixed_stream():
    naive, corrected = mean_errors(reacts=False)
    assert abs(corrected) < 5.0  # false alarm 6e-7
    assert naive > 10.0


def test_the_corrected_estimate_is_biased_where_the_stream_reacts():
    _, corrected = mean_errors(reacts=True)
    assert abs(corrected) > 8.0


# -- plans, guarantees, arguments -----------------------------------------------------------------


def test_forgetting_costs_no_privacy():
    plain, own = make(sum_method="blt"), make(half_life="auto")
    for learner in (plain, own):
        assert learner.guarantee.epsilon <= 1.0
        assert learner.guarantee.epsilon > 0.999
        learner.guarantee.verify()
    assert isinstance(own.guarantee.description, type(plain.guarantee.description))
    d = own.guarantee.description
    column = np.linalg.norm(power_series(d.factorisation, d.pushes))
    moved = plain.guarantee.sensitivity
    exact = moved * column / d.scale
    # On a lattice mu is a little larger.
    assert exact <= own.guarantee.mu <= exact * 1.001


def test_choices_add_up_and_have_names():
    learner = make(half_life="auto")
    assert [each.weight for each in learner.choices].count(1.0) == 1  # before there is a release
    world = DriftingRegression("turning", 5000, 3, seed=3)
    learner.run(world.features, world.labels)
    assert sum(each.weight for each in learner.choices) == pytest.approx(1.0)
    assert learner.choices[0].half_life == math.inf
    (never,) = (
        each for each in learner.choices if each.half_life == math.inf and each.ridge == 1.0
    )
    assert never.excess == never.deviation == 0.0
    assert learner.choices[-1].half_life is None
    assert make(half_life=500.0).choices == ()
    assert make().choices == ()


def test_gradients_are_not_forgotten():
    with pytest.raises(ValueError, match="quadratic"):
        NoisyFTRL(BALL, LOSS, horizon=1000, budget=BUDGET, half_life=100.0)


@pytest.mark.parametrize(
    "domain",
    [
        dpoco.domains.LpBall(3, 1.0, 1.0),
        dpoco.domains.Box([-1.0, -0.5, 0.0], [1.0, 0.5, 2.0]),
        dpoco.domains.Simplex(3),
    ],
)
def test_domains_without_a_closed_form(domain):
    world = DriftingRegression("turning", 3000, 3, seed=4)
    learner = make(domain, horizon=3000, half_life="auto", budget=dpoco.Budget(8.0, 1e-6))
    run = learner.run(world.features, world.labels, record_decisions=True)
    inside = [domain.contains(each) for each in run.decisions[::100]]
    assert all(inside)
    assert sum(each.weight for each in learner.choices) == pytest.approx(1.0)


def test_a_stream_without_end_has_constant_noise():
    learner = make(horizon=None, half_life=3000.0)
    (view,) = learner._forgetting.views
    assert view.deviations[-1] == pytest.approx(view.deviations[-1000], rel=1e-6)
    assert learner._mechanism.growth is None
    assert len(make(horizon=None, half_life="auto").choices) > 4


def test_without_privacy_the_best_candidate_is_taken():
    world = DriftingRegression("turning", 20_000, 3, period=4000, noise=0.1, seed=6)
    never = world.regret(make(horizon=20_000, budget=None).run(world.features, world.labels).losses)
    learner = make(horizon=20_000, budget=None, half_life="auto")
    assert world.regret(learner.run(world.features, world.labels).losses) < never / 5.0


def test_choose_takes_learners_that_forget_where_the_truth_moves():
    problem, options = (BALL, LOSS), {"horizon": 10_000, "budget": BUDGET}
    assert dpoco.choose(problem, **options, drift=True)[0].options["half_life"] == "auto"
    assert not any("half_life" in each.options for each in dpoco.choose(problem, **options))
    with pytest.raises(ValueError, match="drift=True needs switches"):
        dpoco.choose(10, **options, drift=True)
    shifting = dpoco.choose(10, **options, drift=True, switches=3)
    assert shifting[0].learner == "experts.WindowSelector"
    same = dpoco.choose(10, **options, adversary="shifting", switches=3)
    assert [each.learner for each in shifting] == [each.learner for each in same]
    # The shortest half-life that noise does not hide.
    for epsilon, half_life in ((1.0, 1000.0), (8.0, 300.0)):
        asked = {"horizon": 10_000, "budget": dpoco.Budget(epsilon, 1e-6), "drift": True}
        first, *_ = dpoco.choose((3, 5), **asked)
        assert (first.learner, first.options["half_life"]) == ("bandits.LinUCB", half_life)


# -- utility --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "period", "factor"),
    [
        ("constant", None, 1.3),
        ("fading", None, 1.3),
        ("turning", 25_000, 0.2),
        ("jumping", 25_000, 0.4),
    ],
)
def test_the_choice_follows_the_truth(kind, period, factor):
    """Two runs of 50,000 rounds and of both learners: regrets differ by factors. 1 s each."""
    own, never = 0.0, 0.0
    for seed in range(2):
        world = DriftingRegression(kind, 50_000, 5, period=period, seed=seed)
        domain = dpoco.domains.LpBall(5, 2.0, 2.0)
        for half_life in ("auto", None):
            learner = make(domain, horizon=50_000, seed=seed, half_life=half_life)
            found = world.regret(learner.run(world.features, world.labels).losses)
            own, never = (own + found, never) if half_life else (own, never + found)
    assert own < factor * never


def test_excess_is_what_the_candidate_would_have_lost_more():
    """An estimate from releases against the truth, 20,000 rounds of either learner."""
    world = DriftingRegression("turning", 20_000, 3, period=5000, seed=8)
    budget, options = dpoco.Budget(8.0, 1e-6), {"horizon": 20_000, "ridge": 1.0}
    learner = make(half_life="auto", budget=budget, **options)
    learner.run(world.features, world.labels)
    losses = {}
    for each in learner.choices[:-1]:
        twin = make(half_life="auto", budget=budget, **options)
        plan = twin._forgetting
        views = tuple(v for v in plan.views if v.half_life == each.half_life)
        kind = type(
            "One",
            (NoisyFTRL,),
            {
                "_forgetting": property(
                    lambda self, p=plan, v=views: dataclasses.replace(p, views=v)
                )
            },
        )
        alone = kind(
            BALL,
            LOSS,
            budget=budget,
            statistics="quadratic",
            half_life="auto",
            source=Source.seeded(1),
            **options,
        )
        losses[each.half_life] = alone.run(world.features, world.labels).losses
    rounds = np.arange(20_000)
    recent = 2.0 ** (-(20_000 - rounds) / 2000.0)
    for each in learner.choices[1:-1]:
        more = np.average(losses[each.half_life] - losses[math.inf], weights=recent)
        assert each.excess == pytest.approx(more, abs=max(0.01, 6.0 * each.deviation))
        assert each.excess < -0.02


@pytest.mark.parametrize("fault", ["sign", "raw"])
def test_planted_faults_of_the_choice_are_seen(fault):
    """A choice that adds what it should take off, or trusts raw estimates, prefers short memories
    where nothing changes. 1 s: four runs of 50,000 rounds."""
    changed = {"sign": -1.0, "raw": 0.0}[fault]

    class Faulty(NoisyFTRL):
        @property
        def _forgetting(self):
            plan = super()._forgetting
            return dataclasses.replace(
                plan,
                views=tuple(
                    dataclasses.replace(
                        view, covariances=tuple(changed * c for c in view.covariances)
                    )
                    for view in plan.views
                ),
            )

    regrets = {NoisyFTRL: 0.0, Faulty: 0.0}
    for seed in range(2):
        world = DriftingRegression("turning", 50_000, 5, period=20_000, seed=seed)
        for kind in regrets:
            learner = kind(
                dpoco.domains.LpBall(5, 2.0, 2.0), LOSS, horizon=50_000, budget=BUDGET,
                statistics="quadratic", half_life="auto", source=Source.seeded(seed),
            )  # fmt: skip
            regrets[kind] += world.regret(learner.run(world.features, world.labels).losses)
    assert regrets[Faulty] > 1.15 * regrets[NoisyFTRL]


def test_long_horizons_are_planned_like_streams_without_end():
    budget = dpoco.Budget(1.0, 1e-10)
    endless, long = (
        make(half_life="auto", horizon=horizon, budget=budget) for horizon in (None, 2 * 10**9)
    )
    lives = [[view.half_life for view in own._forgetting.views] for own in (endless, long)]
    assert lives[0] == lives[1]
