"""Regret bounds of the Frank-Wolfe learners: never passed by simulations, and no term too small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.samples import replays

import dpoco
from dpoco.accounting import continual_sum, frank_wolfe_regret
from dpoco.accounting.frank_wolfe_regret import Descent
from dpoco.accounting.leaf_bounds import LeafBounds
from dpoco.domains import Box, LpBall, Polytope, Simplex, VertexSet
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

DOMAINS = {
    "l1": LpBall(2, p=1.0),
    "l1.5": LpBall(2, p=1.5),
    "l2": LpBall(2),
    "l5": LpBall(2, p=5.0),
    "linf": LpBall(2, p=math.inf),
    "simplex": Simplex(3),
    "box": Box([-1.0, 0.0], [2.0, 0.5]),
}
LARGE = dpoco.Budget(15.0, 1e-6)
TREE = [(TreeFrankWolfe, name, {}) for name in DOMAINS]
CASES = [
    *TREE,
    *((PolyhedralFrankWolfe, name, {}) for name in ("l1", "simplex", "box")),
    (TreeFrankWolfe, "l2", {"batch": 7}),
    (TreeFrankWolfe, "l2", {"weights": "paper"}),
    (TreeFrankWolfe, "l2", {"step_scale": 2.0}),
    (TreeFrankWolfe, "l2", {"step_scale": 0.5, "sum_method": "tree"}),
    (TreeFrankWolfe, "l1.5", {"noise": "generalized_gaussian", "norm_order": 2.5}),
    (TreeFrankWolfe, "l1", {"numerics": "float", "sum_method": "tree"}),
    (PolyhedralFrankWolfe, "l1", {"selector": "laplace", "batch": 1}),
    (PolyhedralFrankWolfe, "l1", {"weights": "paper", "batch": 3}),
]


def mean_regrets(cls, domain, horizon, gaps, *, seeds, farthest, **options):
    """Return the mean regrets on +-g with drifts `gaps`, and the bound.

    `farthest` starts at the worst point of the domain.
    """
    d, q = domain.dimension, math.inf if cls is PolyhedralFrankWolfe else domain.dual_exponent
    direction = np.ones(d) / (1.0 if math.isinf(q) else d ** (1.0 / q))
    direction[-1] *= -0.7
    best = domain.minimize_linear(direction)
    start = domain.minimize_linear(-direction) if farthest else None
    new = cls(domain, LinearLoss(1.0), horizon=horizon, budget=LARGE, start=start, **options)
    found = []
    for gap in gaps:
        total = 0.0
        for seed, learner in enumerate(replays(new, seeds)):
            rng = np.random.default_rng([seed, horizon])
            signs = np.where(rng.random(horizon) < 0.5 * (1.0 + gap), 1.0, -1.0)
            decisions = learner.run(signs[:, None] * direction).decisions
            total += float(((decisions - best) @ (gap * direction)).sum())
        found.append(total / seeds)
    return found, new.guarantee.regret_bound


@pytest.mark.parametrize(
    ("cls", "name", "options"), CASES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_no_law_of_linear_losses_passes_the_bound(cls, name, options):
    """Gaps from invisible to certain, few and many rounds, from the centre and the worst start.

    The bound is far above three deviations of the means: no false alarm is to be expected. About
    0.4 s of CPU for a learner: 96 runs.
    """
    for horizon in (1, 2, 30, 400):
        if horizon < 2 * options.get("batch", 1) and "batch" in options:
            continue
        for farthest in (False, True):
            found, bound = mean_regrets(
                cls, DOMAINS[name], horizon, (0.05, 0.2, 1.0), seeds=4, farthest=farthest, **options
            )
            assert max(found) <= bound


def test_one_round_from_the_worst_start_has_the_whole_bound():
    """Half of the term "start", or of the range that caps all terms, would be too small."""
    for cls, name in ((TreeFrankWolfe, "l2"), (PolyhedralFrankWolfe, "l1")):
        domain = DOMAINS[name]
        d = domain.dimension
        direction = np.ones(d) / (math.sqrt(d) if name == "l2" else 1.0)
        start = domain.minimize_linear(-direction)
        learner = cls(
            domain, LinearLoss(1.0), horizon=1, budget=dpoco.Budget(4.0, 1e-6), start=start
        )
        regret = float((learner.decide() - domain.minimize_linear(direction)) @ direction)
        assert regret == pytest.approx(learner.guarantee.regret_bound)


def test_half_the_bound_is_too_small():
    (found,), bound = mean_regrets(
        PolyhedralFrankWolfe, LpBall(1, p=1.0), 400, (1.0,), seeds=6, farthest=True
    )
    # d = 1: the direction is -0.7.
    assert 0.5 * 0.7 * bound < found <= bound


@pytest.mark.parametrize("name", ["l1", "l2", "linf"])
def test_squared_losses_keep_to_the_bound(name):
    """Records +-x with labels that pull to the boundary: F is a quadratic, known exactly."""
    domain, loss, horizon = DOMAINS[name], SquaredLoss(1.0, 1.0), 500
    for size in (0.2, 1.0):
        x = size * np.array([1.0, 0.0])
        regrets = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            signs, noise = rng.choice([-1.0, 1.0], (2, horizon))
            labels = signs * np.clip(0.5 + 0.5 * noise, -1.0, 1.0)
            learner = TreeFrankWolfe(
                domain, loss, horizon=horizon, budget=LARGE,
                source=dpoco.random.Source.seeded(seed),
            )  # fmt: skip
            margins = learner.run(signs[:, None] * x, labels).decisions @ x
            # E (sign z - y)^2 = (z - 1/2)^2 + const, with |z| <= size.
            gap = (margins - 0.5) ** 2 - max(0.5 - size, 0.0) ** 2
            regrets.append(float(gap.sum()))
        assert np.mean(regrets) <= learner.guarantee.regret_bound


def test_streams_of_no_law_have_linear_regret():
    """Three constant blocks defeat the decisions without any noise: no bound for fixed streams."""
    for horizon in (300, 3000):
        third = horizon // 3
        slopes = np.concatenate([np.ones(third), -np.ones(2 * third)])[:, None]
        learner = TreeFrankWolfe(LpBall(1), LinearLoss(1.0), horizon=horizon, budget=None)
        decisions = learner.run(slopes).decisions
        assert float((decisions * slopes).sum()) + third >= 0.5 * horizon


# -- the recursion ---------------------------------------------------------------------------------


def dense(run, noise, rounding):
    """Return the bound by the recursion itself, update by update."""
    s, m = run.step_scale, run.batch
    curvature = 0.5 * run.loss.smoothness(run.domain) * run.diameter**2
    largest, sampling = run.range, run.sampling  # which take long to compute
    bias = run.offset * run.loss.lipschitz(run.domain) * run.diameter
    h, total = largest, 0.0
    every = np.arange(1.0, run.updates + 2.0)
    rounded = rounding(every, every)
    for k in range(1, run.updates + 2):
        rounds = m if k <= run.updates else run.horizon - m * run.updates
        total += rounds * min(largest, h)
        weight = k + run.offset
        error = sampling * math.sqrt(k / m) / weight + bias / weight
        error += noise(k) + rounded[k - 1] + s * curvature / (k + s)
        h = k / (k + s) * h + s / (k + s) * error
    return total


@pytest.mark.parametrize("step_scale", [1.0, 0.4, 3.0])
@pytest.mark.parametrize(("offset", "batch"), [(0, 1), (1, 3)])
@pytest.mark.parametrize("method", ["blt", "blt_normalised", "tree"])
def test_groups_of_updates_are_at_most_two_percent_above_the_recursion(
    method, step_scale, offset, batch
):
    """Beyond 4096 updates they are bounded in groups; in trees rows differ more than that."""
    updates = 7000
    run = Descent(
        domain=LpBall(2), order=2.0, loss=SquaredLoss(1.0, 1.0),
        leaf=LeafBounds(None, 3.0, math.inf), step_scale=step_scale, offset=offset, batch=batch,
        horizon=updates * batch + batch - 1,
    )  # fmt: skip
    planned = continual_sum.plan_method(method, updates, dpoco.privacy.neighbours.ONE)
    rows = continual_sum.row_norm(planned, np.arange(1, updates + 1), updates)
    width = frank_wolfe_regret.gaussian_width(run.domain)

    def noise(k):
        row = rows[min(k, updates) - 1]
        return 5.0 * width * row / (run.batch * (k + run.offset))

    error = frank_wolfe_regret.sum_error(run, planned, 5.0, 2.0)
    rounding = frank_wolfe_regret.sum_rounding(run, planned, 5.0, 2.0**-20, 0.0)
    found, exact = run.regret(error, rounding).total, dense(run, noise, rounding)
    assert exact * (1.0 - 1e-12) <= found
    assert found <= exact * (1.25 if method == "tree" else 1.02)


def test_long_steps_have_a_bound():
    """With s = 100 products of (j + s)/j leave all doubles after 10^6 updates."""
    found = []
    for step_scale in (10.0, 100.0, 1000.0):
        learner = TreeFrankWolfe(
            LpBall(3, p=1.0), LogisticLoss(1.0), horizon=10**6, budget=dpoco.Budget(1.0, 1e-8),
            step_scale=step_scale,
        )  # fmt: skip
        stated = learner.guarantee
        terms = [v for k, v in stated.details.items() if k.startswith("regret: ")]
        assert stated.regret_bound == pytest.approx(math.fsum(terms))
        found.append(stated.regret_bound / (10**6 * learner.plan.forecast.loss_range))
    # Longer steps average over fewer updates, until the last one alone decides.
    assert 0.0 < found[0] < found[1] < found[2] <= 1.0
    run = Descent(
        domain=LpBall(2), order=2.0, loss=SquaredLoss(1.0, 1.0),
        leaf=LeafBounds(None, 3.0, math.inf), step_scale=250.0, offset=0, batch=1, horizon=3000,
    )  # fmt: skip
    exact = dense(run, lambda k: 1.0 / k, lambda first, last: np.zeros_like(first))
    assert run.regret(lambda first, last: 1.0 / first).total == pytest.approx(exact, rel=1e-9)


def test_terms_add_up_to_the_bound_and_fall_per_round():
    shares = []
    for horizon in (10**3, 10**6, 10**9):
        learner = TreeFrankWolfe(
            LpBall(3), SquaredLoss(1.0, 1.0), horizon=horizon, budget=dpoco.Budget(1.0, 1e-9)
        )
        stated = learner.guarantee
        terms = [v for k, v in stated.details.items() if k.startswith("regret: ")]
        largest = learner.plan.forecast.loss_range * horizon
        assert stated.regret_bound == pytest.approx(min(math.fsum(terms), largest))
        shares.append(stated.regret_bound / horizon)
    assert shares[0] > 20.0 * shares[1] > 400.0 * shares[2]


def test_what_is_no_better_than_the_centre_is_said_to_be_useless():
    learner = TreeFrankWolfe(
        LpBall(5), SquaredLoss(1.0, 1.0), horizon=1000, budget=dpoco.Budget(1.0, 1e-9)
    )
    assert "no useful bound" in str(learner.guarantee)
    long = TreeFrankWolfe(
        LpBall(5), SquaredLoss(1.0, 1.0), horizon=10**6, budget=dpoco.Budget(1.0, 1e-9)
    )
    assert "independent records of one law" in str(long.guarantee)


@pytest.mark.parametrize(
    "loss", [SquaredLoss(1.0, 0.5), HuberLoss(1.0, 2.0, threshold=0.7), LogisticLoss(1.0)], ids=str
)
def test_no_decision_loses_more_than_the_range_to_another(loss):
    """By search over margins and labels; the range is attained."""
    domain = LpBall(1, radius=1.5)
    run = Descent(
        domain=domain, order=2.0, loss=loss, leaf=LeafBounds(None, 1.0, math.inf), step_scale=1.0,
        offset=0, batch=1, horizon=4,
    )  # fmt: skip
    margins = np.linspace(-1.5, 1.5, 301)
    labels = np.linspace(*loss.label_range, 101)
    values = np.array(
        [loss.value(np.ones(1), margins[:, None], np.full(301, label)) for label in labels]
    )
    largest = float((values.max(axis=1) - values.min(axis=1)).max())
    assert largest <= run.range * (1.0 + 1e-12)
    assert run.range == pytest.approx(largest, rel=1e-4)


def test_strong_convexity_helps_from_a_trillion_rounds_on():
    """What Theorem 2 of the page proves is above Theorem 1 at all sizes anybody uses."""
    ends = {}
    for horizon in (10**9, 10**11, 10**13):
        run = Descent(
            domain=LpBall(2), order=2.0, loss=SquaredLoss(1.0, 1.0),
            leaf=LeafBounds(4.0, 1.0, math.inf), step_scale=1.0, offset=0, batch=1,
            horizon=horizon,
        )  # fmt: skip
        general = run.regret(lambda first, last: np.zeros_like(first)).total
        curvature = 0.5 * run.loss.smoothness(run.domain) * run.diameter**2
        level = math.sqrt(2.0 * math.log(4.0 * 2.0 * float(horizon) ** 2))
        a = curvature + run.diameter * math.sqrt(2.0) * run.leaf.dual * level
        ends[horizon] = 8.0 * a * a / 0.25 * (1.0 + math.log(horizon)) / general
    assert ends[10**9] > 10.0
    assert ends[10**11] > 1.0 > ends[10**13]


def test_the_induction_of_theorem_2():
    """The recursion of the proof, with equality, stays below the bound of its claim."""
    for square in (4.0, 1.0, 0.1):
        h, slope, largest = 1.0, math.sqrt(square), 0.0
        for k in range(1, 20_000):
            largest = max(largest, k * h)
            h -= (max(h, slope * math.sqrt(h)) - 1.0 / math.sqrt(k)) / (k + 1)
            h = max(h, 0.0)
        assert 0.2 * 16.0 / square < largest <= 16.0 / square


# -- the terms -------------------------------------------------------------------------------------

SHAPES = [
    *DOMAINS.values(),
    LpBall(40, p=1.0),
    LpBall(40, p=1.2),
    LpBall(40, p=math.inf),
    Simplex(40),
    VertexSet(np.eye(5)),
    Polytope(np.vstack([np.eye(2), -np.eye(2)]), np.ones(4)),
]


def support(domain, g):
    """Return max <g, v - c> over the domain for rows g, c its centre."""
    best = np.array([domain.minimize_linear(-row) for row in g])
    return np.einsum("ij,ij->i", g, best - domain.center)


@pytest.mark.parametrize("domain", SHAPES, ids=str)
def test_sums_of_leaves_reach_no_farther_than_the_sampling_term(domain):
    """Random signs on all coordinates, along the diagonal, and on one; half the term is too small.

    300 sums of 64 leaves; in many dimensions no law tried uses up more than two fifths.
    """
    rng = np.random.default_rng(5)
    d, q = domain.dimension, domain.dual_exponent
    run = Descent(
        domain=domain, order=domain.p, loss=LinearLoss(1.0), leaf=LeafBounds(None, 1.0, math.inf),
        step_scale=1.0, offset=0, batch=1, horizon=64,
    )  # fmt: skip
    ones = 1.0 if math.isinf(q) else d ** (-1.0 / q)
    signs = rng.choice([-1.0, 1.0], (300, 64, d))
    laws = (
        ones * signs.sum(axis=1),
        ones * signs[:, :, :1].sum(axis=1) * np.ones(d),
        (np.eye(d)[rng.integers(0, d, (300, 64))] * signs[:, :, :1]).sum(axis=1),
    )
    reached = max(float(support(domain, law).mean()) for law in laws) / 8.0
    assert (0.5 if d <= 3 else 0.38) * run.sampling < reached <= run.sampling


@pytest.mark.parametrize("domain", SHAPES, ids=str)
def test_gaussian_noise_reaches_no_farther_than_the_width(domain):
    noise = np.random.default_rng(6).standard_normal((4000, domain.dimension))
    reached = support(domain, noise)
    error = 5.0 * float(reached.std()) / math.sqrt(4000)
    width = frank_wolfe_regret.gaussian_width(domain)
    assert float(reached.mean()) - error <= width <= 2.6 * float(reached.mean()) + error


@pytest.mark.parametrize("method", ["blt", "blt_normalised", "tree"])
def test_groups_know_their_noisiest_row(method):
    pushes = 100_000
    planned = continual_sum.plan_method(method, pushes, dpoco.privacy.neighbours.ONE)
    rows = continual_sum.row_norm(planned, np.arange(1, pushes + 1), pushes)
    starts = frank_wolfe_regret.groups(pushes) - 1
    found = frank_wolfe_regret.largest_rows(planned, pushes)
    assert np.diff(starts).max() > 500
    largest = np.maximum.reduceat(rows, starts[:-1])
    assert np.all(largest * (1.0 - 1e-12) <= found)
    assert np.all(found <= (2.0 if method == "tree" else 1.5) * largest)
