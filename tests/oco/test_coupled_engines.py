"""What the engines of the coupled learners are told: bounds, samplers, and sums that do not drift.

Decisions without noise to speak of are functions of the sum of clipped losses: they show what a
record became. Draws are compared with those of a sampler that was told by hand.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.probes import probes

from dpoco import _core
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.accounting import coupled_regularized_leader as ctrl
from dpoco.domains import Box, LpBall
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss
from dpoco.random import Source

D = 4
# Exponent of the records' norm, its bound and that in l_2, of which either may bind.
GEOMETRIES = {
    "l1 ball": (LpBall(D, 1.0), math.inf, 0.9, 1.2),
    "l4 ball": (LpBall(D, 4.0), 4.0 / 3.0, 1.2, 0.8),
    "l2 ball": (LpBall(D, 2.0), 2.0, 0.7, 0.9),
    "box": (Box([-1.0, 0.0, 2.0, -3.0], [1.0, 1.0, 3.0, 3.0]), 1.0, 1.3, 0.6),
}
QUIET = {
    # Noise of the decision far below what is looked for.
    "leader": {"noise_scale": 1e-90, "step_size": 0.25},
    "weights": {"inverse_temperature": 1e16, "regularization": 4.0},
}
FREE = {"unbounded": True, "private": False, "block": 1, "max_switches": None}


def clipped(records, q, bound, bound_l2):
    norms = [np.linalg.norm(records, order, axis=1) for order in (q, 2.0)]
    limits = (bound, math.inf if bound_l2 is None else bound_l2)
    ratios = [limit / np.maximum(norm, 1e-300) for limit, norm in zip(limits, norms, strict=True)]
    return np.minimum(1.0, np.minimum(*ratios))[:, None] * records


def records_around(bound):
    """Small, over either bound alone, over both: along axes, diagonals and anywhere."""
    rng = np.random.default_rng(4)
    shapes = [np.eye(D)[0], np.ones(D), np.array([1.0, -1.0, 0.0, 0.0]), np.eye(D)[3] - 0.1]
    shapes += list(rng.normal(size=(6, D)))
    return np.array([s * x / np.abs(x).max() for x in shapes for s in (0.3, 0.85, 1.1, 40.0)])


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", ["leader", "weights"])
def test_a_gradient_counts_up_to_both_bounds(coupled, kind, geometry):
    for declared in [True, False]:
        domain, q, bound, bound_l2 = GEOMETRIES[geometry]
        bound_l2 = bound_l2 if declared else None
        loss = LinearLoss(bound, gradient_bound_l2=bound_l2)
        given = records_around(bound)
        counted = clipped(given, q, bound, bound_l2)
        learner = coupled.make(
            f"{kind} scheduled ball linear", domain=domain, loss=loss, horizon=len(given) + 1,
            **QUIET[kind], **FREE,
        )  # fmt: skip
        totals = []
        for record in given:
            learner.decide()
            learner.observe(record)
            point = np.array(learner._engine.nonprivate_point())
            totals.append(point if kind == "leader" else -4.0 * point)
        assert np.allclose(totals, np.cumsum(counted, axis=0), rtol=0.0, atol=1e-7)
        # The accountant charges for the longest of them, and for no more.
        module = ctrl if kind == "leader" else comw
        for relation, sides in (("replace", 2.0), ("zero_out", 1.0)):
            p = module.calibrate(domain, loss, horizon=9, budget=None, relation=relation)
            stated = module.guarantee(domain, loss, coupled.plan(
                f"{kind} scheduled ball linear", domain=domain, loss=loss,
            ), relation=relation).sensitivity  # fmt: skip
            longest = np.linalg.norm(counted, axis=1).max()
            assert stated == pytest.approx(sides * longest, rel=1e-9)
            assert p.mechanism.losses.lipschitz == pytest.approx(longest, rel=1e-9)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", ["leader", "weights"])
def test_features_count_up_to_both_bounds(coupled, kind, geometry):
    """The decision is where the gradients of the clipped losses balance the regulariser."""
    for declared, family in itertools.product([True, False], ["logistic", "huber"]):
        domain, q, bound, bound_l2 = GEOMETRIES[geometry]
        bound_l2 = bound_l2 if declared else None
        given = records_around(bound)[[1, 2, 3, 6, 7, 11, 18, 23, 31]]
        labels = np.array([1.0, 0.0, 0.3] * 3)
        if family == "logistic":
            loss = LogisticLoss(bound, feature_bound_l2=bound_l2)
        else:
            loss = HuberLoss(bound, 2.0, threshold=0.2, feature_bound_l2=bound_l2)
        learner = coupled.make(
            f"{kind} scheduled ball {family}", domain=domain, loss=loss, horizon=len(given) + 1,
            **QUIET[kind], **FREE,
        )  # fmt: skip
        learner.run(given, labels)
        u = np.array(learner._engine.nonprivate_point())
        rows = clipped(given, q, bound, bound_l2)
        margins = rows @ (domain.center + u)
        if family == "logistic":
            slopes = 1.0 / (1.0 + np.exp(-margins)) - labels
        else:
            slopes = np.clip(margins - labels, -0.2, 0.2)
        assert np.abs(slopes @ rows + 4.0 * u).max() < 1e-5
        longest = np.linalg.norm(clipped(records_around(bound), q, bound, bound_l2), axis=1).max()
        steepest = 1.0 if family == "logistic" else 0.2
        stated = (ctrl if kind == "leader" else comw).guarantee(domain, loss, learner.plan)
        assert stated.details["lipschitz"] == pytest.approx(steepest * longest, rel=1e-9)


@pytest.mark.parametrize(("sampler", "tolerance"), [("exact", 0.0), ("mcmc", 1e-2), ("mcmc", 1e-9)])
def test_draws_are_those_of_the_sampler_that_was_asked_for(coupled, sampler, tolerance):
    """Where rejection takes thousands of proposals: exact draws take them, others are chains."""
    domain, loss, count = LpBall(3), HuberLoss(1.0, 1.0, threshold=0.5), 1200
    own = {"inverse_temperature": 100.0, "regularization": 0.5}
    rows, labels = np.tile(np.eye(3), (count // 3, 1)), np.zeros(count)
    exact = sampler == "exact"
    learner = coupled.make(
        "weights scheduled ball huber", horizon=count + 1, block=count, max_switches=5, loss=loss,
        sampler=sampler, sampler_tolerance=tolerance, seed=5, **own,
    )  # fmt: skip
    claim = Source.seeded(5)._claim()
    source, draw = _core.Source(claim["key"], claim["stream"]), np.empty((1, 3))
    settings = {
        "kind": "glm",
        "unbounded": False,
        "glm": loss._glm_engine,
        "clipper": _core.RecordClipper(3, 1.0, 2.0, math.inf),
    }
    told = _core.GibbsSampler(
        domain._engine, settings, *own.values(), exact_only=exact, tolerance=tolerance or 0.5
    )
    told.fill(source, draw)
    assert np.array_equal(learner._engine.nonprivate_point(), draw[0])
    learner.run(rows, labels)
    told.observe_records(rows, labels)
    told.fill(source, draw)
    report = probes.gibbs_report(told)
    if exact:
        assert report["method"] == "envelope"
        assert report["proposals"] > 100
    else:
        steps = math.ceil(6 * (math.log(3) + 2 * math.log(1 / tolerance)))
        assert (report["method"], report["proposals"]) == ("hit_and_run", steps)
    assert np.array_equal(learner._engine.nonprivate_point(), draw[0])
    assert learner.switches == 1


def test_sums_of_gradients_stay_within_a_rounding_of_the_true_ones(coupled):
    """Also that of the losses' values at the centre, which the state holds behind them."""
    high, low = 2**14, 2**17
    centre, domain = np.array([1.0, 3.0, -0.5]), Box([0.0, 2.0, -2.0], [2.0, 4.0, 1.0])
    creep = np.full((low, 3), -0.6 * 2.0**-52 * high) * [1.0, -1.0, 1.5]
    rng = np.random.default_rng(7)
    loose = rng.normal(size=(low, 3)) * 10.0 ** rng.uniform(-9, -1, size=(low, 1))
    parts = [np.tile([1.0, -1.0, 0.75], (high, 1)), creep, loose, np.full((low, 3), 0.1)]
    horizon = sum(map(len, parts)) + 1
    learner = coupled.make(
        "leader scheduled box linear", domain=domain, loss=LinearLoss(9.0), horizon=horizon,
        **QUIET["leader"], **(FREE | {"unbounded": False}),
    )  # fmt: skip
    seen = np.empty((0, 3))
    for part in parts:
        trace = learner.run(part, record_decisions=True)
        assert np.allclose(trace.losses, np.sum(part * trace.decisions, axis=1), atol=1e-12)
        seen = np.vstack([seen, part])
        found = np.array(learner._engine.nonprivate_point())
        exact = np.array([math.fsum(column) for column in seen.T])
        assert np.abs(found - exact).max() <= np.spacing(np.abs(exact)).max()
        words = np.frombuffer(learner._engine.state(), dtype=np.float64)
        sums = [k for k in range(len(words) - 3) if np.array_equal(words[k : k + 3], found)]
        # The decision's own coordinates are the same numbers, without a value behind them.
        value = math.fsum((seen * centre).ravel())
        near = [abs(words[k + 3] - value) for k in sums]
        assert min(near) <= 4.0 * np.spacing(abs(value)) + 1e-15
        plain = np.cumsum(seen, axis=0)[-1]
    assert np.abs(plain - exact).max() > 100.0 * np.spacing(high)  # without compensation
