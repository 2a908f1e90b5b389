"""The learner of Lipschitz losses at the edges: shared buffers, tiny domains, large nets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.oco.test_lipschitz_accountant import sensitivity
from tests.plans import changed

import dpoco
from dpoco.accounting import lipschitz as accountant
from dpoco.accounting.nets import net_shape
from dpoco.domains import Box
from dpoco.oco import LipschitzLearner
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-6)
LINE = Box([0.0], [1.0])
SQUARE = Box([0.0, 0.0], [1.0, 1.0])


def of_net(plan, **fields):
    return changed(plan, summand=replace(plan.mechanism.summand, **fields))


def make(**options):
    options = {"lipschitz": 1.0, "horizon": 50, "budget": BUDGET, "resolution": 9} | options
    return LipschitzLearner(LINE, source=Source.seeded(1), **options)


def test_callables_may_return_the_same_array_every_time():
    buffer = np.empty(9)

    def loss_at(z):
        def loss(x):
            np.abs(x[:, 0] - z, out=buffer)
            return buffer

        return loss

    centers = np.random.default_rng(0).random(50)
    trace = make().run([loss_at(z) for z in centers])
    apart = make().run(np.abs(make().points[:, 0] - centers[:, None]))
    assert np.array_equal(trace.decisions, apart.decisions)
    assert np.array_equal(trace.losses, apart.losses)
    # One changed loss moves the sum by what one loss can move it by.
    changed = centers.copy()
    changed[3] = 1.0 - changed[3]
    sums = []
    for some in (centers, changed):
        learner = make()
        learner.run([loss_at(z) for z in some[:40]])
        sums.append(learner._engine.nonprivate_sum())
    assert np.linalg.norm(sums[0] - sums[1]) <= learner.plan.mechanism.summand.movement(
        Neighbours()
    )


@pytest.mark.parametrize(
    ("domain", "horizon", "delta"),
    [(LINE, 10**6, 1e-9), (SQUARE, 10**6, 1e-9), (LINE, 10**5, 1e-10), (LINE, 10**8, 1e-7)],
)
def test_a_small_delta_takes_a_coarser_net(domain, horizon, delta):
    budget = dpoco.Budget(1.0, delta)
    p = accountant.calibrate(domain, lipschitz=1.0, horizon=horizon, budget=budget)
    accountant.guarantee(domain, p, budget=budget).require(budget)
    with pytest.raises(dpoco.CalibrationError, match="tails"):
        accountant.calibrate(
            domain, lipschitz=1.0, horizon=horizon, budget=dpoco.Budget(1.0, 1e-17)
        )


def test_enforcement_is_not_lost_silently():
    open_ended = of_net(make().plan, enforced=False)
    with pytest.raises(ValueError, match="enforce"):
        make(plan=open_ended)
    learner = make(plan=open_ended, enforce=False)
    assert not learner.guarantee.certified


def test_nets_in_the_plane_are_limited_along_each_axis():
    for resolution in ((2, 32768), (4097, 2)):
        with pytest.raises(ValueError, match="4096 points an axis"):
            accountant.calibrate(
                SQUARE, lipschitz=1.0, horizon=100, budget=BUDGET, resolution=resolution
            )


@pytest.mark.parametrize("scale", [1e-85, 1e-40, 1.0, 1e40, 1e85])
def test_sensitivities_scale_with_the_domain(scale):
    for name, counts, unit in (
        ("increments", (5,), LINE), ("grid_laplacian", (4, 3), SQUARE), ("parent", (5, 5), SQUARE),
    ):  # fmt: skip
        scaled = Box(unit.lower * scale, unit.upper * scale)
        reach = sensitivity(name, net_shape(scaled), counts, 1.0)
        expected = scale * sensitivity(name, net_shape(unit), counts, 1.0)
        assert reach == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("side", "slope"), [(1e100, 1e100), (1e-60, 1e-60), (1.04e-161, 1e65)])
def test_slopes_and_sides_beyond_double_precision_are_refused(side, slope):
    domain = Box([0.0], [side])
    with pytest.raises(ValueError, match="lipschitz"):
        accountant.calibrate(domain, lipschitz=slope, horizon=100, budget=BUDGET)
    good = make(resolution=5).plan
    with pytest.raises(ValueError, match="lipschitz"):
        accountant.guarantee(domain, of_net(good, lipschitz=min(slope, 1e100)))


@pytest.mark.parametrize("transform", ["increments", "parent"])
def test_huge_losses_overflow_no_sum_without_enforcement(transform):
    n = 2**14 + 1
    learner = make(resolution=n, transform=transform, enforce=False, horizon=9)
    signs = np.where(np.arange(n) % 2, 1.7e308, -1.7e308)
    for _ in range(4):
        learner.decide()
        learner.observe(signs)
    assert np.all(np.isfinite(learner._engine.nonprivate_sum()))
    assert np.all(np.isfinite(learner.weights))


def test_the_round_of_a_violation_is_named():
    learner = make(on_violation="raise")
    losses = [lambda x: 0.5 * x[:, 0]] * 9
    losses[7] = lambda x: 50.0 * x[:, 0]
    with pytest.raises(ValueError, match="round 7"):
        learner.run(losses)
