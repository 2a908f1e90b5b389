"""The law of everything the coupled learners release, against what their guarantee claims.

Transcripts of the compiled engines are scored by an independent computation of their exact
likelihood under the stream they saw and under its neighbour (first loss replaced).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from dpoco.accounting._coupling_profile import profile_delta
from dpoco.accounting.euclidean import euclidean_problem
from dpoco.domains import Box, LpBall
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    ContinuousMultiplicativeWeightsParameters,
    CoupledRegularizedLeader,
    CoupledRegularizedLeaderParameters,
)
from dpoco.random import Source

_spec = importlib.util.spec_from_file_location(
    "likelihood_reference", Path(__file__).with_name("likelihood_reference.py")
)
ref = importlib.util.module_from_spec(_spec)
sys.modules["likelihood_reference"] = ref
_spec.loader.exec_module(ref)

RUNS = 4000
SIGMAS = 5.0  # of every comparison
EPSILONS = (0.2, 0.5, 1.0, 1.5)
INTERVAL = Box([-1.0], [1.0])


def parameters(kind, domain, loss, **own):
    """Parameters of one's own: derived values are recomputed by the guarantee anyway."""
    problem = euclidean_problem(domain, loss, own.pop("unbounded", False))
    shared = {
        "dimension": problem.dimension,
        "lipschitz": problem.lipschitz,
        "radius": problem.radius,
        "diameter": problem.diameter,
        "unbounded": problem.unbounded,
        "block": 1,
        "clip_high": 0.0,
        "clip_low": 0.0,
        "relation": "replace",
        "calibration": "tight",
        "private": True,
        "regret_bound": 0.0,
        "regret_terms": {},
        "expected_switches": 0.0,
    }
    return kind(**{**shared, **own})


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner in one dimension and its two neighbouring streams."""

    learner: object
    streams: tuple  # two of (T,) weights of linear losses, or of (T, 2) features and labels

    def losses(self, stream):
        own = self.learner.loss
        if isinstance(own, LinearLoss):
            return [ref.linear(float(w)) for w in stream]
        if isinstance(own, LogisticLoss):
            return [ref.logistic(float(v), float(y)) for v, y in stream]
        return [ref.huber(float(v), float(y), own.threshold) for v, y in stream]

    def law(self, stream):
        """What the engine is said to draw from."""
        p = self.learner.parameters
        if isinstance(self.learner, ContinuousMultiplicativeWeights):
            if p.unbounded:
                sigma = 1.0 / math.sqrt(p.inverse_temperature * p.regularization)
                return ref.ShiftedGaussian(
                    np.reshape(stream, (p.horizon, -1)), sigma, -1.0 / p.regularization
                )
            return ref.Gibbs(self.losses(stream), p.inverse_temperature, p.regularization)
        if isinstance(self.learner.loss, LinearLoss):
            return ref.ShiftedGaussian(np.reshape(stream, (p.horizon, -1)), p.noise_scale)
        return ref.Leader(self.losses(stream), p.step_size, p.noise_scale, p.barrier_weight)

    def rule(self):
        p = self.learner.parameters
        return ref.Rule(
            coupling=p.coupling,
            horizon=p.horizon,
            block=p.block,
            forced=p.forced_switch,
            cap=math.inf if p.max_switches is None else p.max_switches,
            clip_high=p.clip_high,
            clip_low=p.clip_low,
            factor_range=getattr(p, "factor_range", 0.0),
            anchors=getattr(p, "anchors", 0),
            lipschitz=p.lipschitz,
        )


def transcript(case, world, runs=RUNS, seed=0):
    """Play one stream many times, each run on noise of its own."""
    p, stream = case.learner.parameters, case.streams[world]
    blocks, n = case.rule().decisions + 1, p.dimension
    points = np.empty((runs, blocks, n))
    switched = np.zeros((runs, blocks - 1), dtype=bool)
    means = np.empty((runs, blocks)) if case.rule().anchors else None
    factors = np.zeros((runs, p.horizon))
    linear = isinstance(case.learner.loss, LinearLoss)
    rows = np.reshape(stream if linear else stream[:, 0], (p.horizon, -1)).astype(float)
    labels = None if linear else [float(y) for y in stream[:, 1]]
    tape = Source.seeded(seed)
    for i in range(runs):
        engine = case.learner._build_engine(tape._claim())
        factor = getattr(engine, "nonprivate_log_factor", None)
        ratio = getattr(engine, "nonprivate_log_ratio", None)
        before, point = 0, engine.nonprivate_point()
        for t in range(p.horizon):
            if t % p.block == 0:
                k = t // p.block
                points[i, k] = point
                if means is not None:
                    means[i, k] = engine.nonprivate_anchor_mean()[0]
            if linear:
                engine.observe_gradient(t, rows[t])
            else:
                engine.observe(t, rows[t], labels[t])
            factors[i, t] = factor() if factor is not None else ratio()
            if engine.switches != before:
                before, point = engine.switches, engine.nonprivate_point()
                switched[i, t // p.block] = True
    if n == 1:
        points = points[:, :, 0]
    return ref.Transcript(points, switched, means, factors)


@dataclasses.dataclass(frozen=True)
class Ratio:
    """ln P(transcript | stream it saw) / P(transcript | neighbour), by parts."""

    changed_bit: np.ndarray
    later_bits: np.ndarray
    draws: np.ndarray
    own: object  # likelihood under the stream it saw

    @property
    def total(self):
        return self.changed_bit + self.later_bits + self.draws


def ratio(case, world, runs=RUNS, seed=0):
    played = transcript(case, world, runs, seed + world)
    own, other = (
        ref.likelihood(played, case.law(case.streams[w]), case.rule()) for w in (world, 1 - world)
    )
    assert np.isfinite(own.bits).all()
    assert np.isfinite(own.draws).all()
    bits, draws = own.bits - other.bits, own.draws - other.draws
    return played, Ratio(bits[:, 0], bits[:, 1:].sum(axis=1), draws.sum(axis=1), own)


@functools.cache
def scored(name, world):
    """Of a named case; several tests look at the same runs."""
    case = CASES[name]()
    return (case, *ratio(case, world))


def findings(found, profile, delta_at):
    """Say which claims the likelihood ratios exceed by more than chance allows."""
    nothing = {"forced_switch": 1.0, "factor_floor": 1.0, "later_bits": 0, "shift": 0.0}
    coin = {"mu": 0.0, "kind": "gaussian"}
    bits = {name: profile[name] for name in nothing}
    draws_only = {**profile, **nothing}
    bit_only = {**coin, **bits, "later_bits": 0, "shift": 0.0}
    later_only = {**coin, **bits, "factor_floor": 1.0}
    parts = {
        "total": (found.total, delta_at),
        "draws": (found.draws, lambda e: profile_delta(draws_only, e)),
        "changed bit": (found.changed_bit, lambda e: profile_delta(bit_only, e)),
        "later bits": (found.later_bits, lambda e: profile_delta(later_only, e)),
    }
    over = []
    for name, (values, claim) in parts.items():
        for epsilon in (0.02, *EPSILONS):
            real = ref.delta_of(values, epsilon)
            if real.mean - SIGMAS * real.error > claim(epsilon) + 1e-12:
                over.append(f"{name} at epsilon {epsilon}")
    return over


# ---- the learners --------------------------------------------------------------------------------


def alternating(horizon, first, d=1):
    """+-x/2 in turn, and the first loss that of either world; on the first axis."""
    worlds = []
    for sign in (1.0, -1.0):
        weights = np.zeros((horizon, d))
        weights[:, 0] = 0.5 * (-1.0) ** np.arange(horizon)
        weights[0, 0] = sign * first
        worlds.append(weights[:, 0] if d == 1 else weights)
    return tuple(worlds)


def weights_case(coupling, *, horizon=12, first=1.0, unbounded=False, d=1, **own):
    domain = LpBall(d, 2.0, 1.0) if unbounded else INTERVAL
    loss = LinearLoss(1.0)
    p = parameters(
        ContinuousMultiplicativeWeightsParameters,
        domain,
        loss,
        horizon=horizon,
        coupling=coupling,
        unbounded=unbounded,
        **{"forced_switch": 1.0, "max_switches": horizon, **own},
    )
    learner = ContinuousMultiplicativeWeights(
        domain, loss, horizon=horizon, budget=None, parameters=p, unbounded=unbounded,
        source=Source.seeded(0),
    )  # fmt: skip
    return Case(learner, alternating(horizon, first, d))


def leader_case(coupling, loss=None, *, horizon=12, streams=None, **own):
    loss = loss or LinearLoss(1.0)
    problem = euclidean_problem(INTERVAL, loss)
    weight = 0.0
    if not isinstance(loss, LinearLoss):
        inverse = math.log(horizon**2 / (2.0 * horizon - 1.0))
        weight = problem.lipschitz * problem.diameter / inverse
    p = parameters(
        CoupledRegularizedLeaderParameters,
        INTERVAL,
        loss,
        horizon=horizon,
        coupling=coupling,
        smoothness=problem.smoothness,
        rank=problem.rank,
        barrier_weight=weight,
        **{"forced_switch": 1.0, "max_switches": horizon, "step_size": 0.1, **own},
    )
    learner = CoupledRegularizedLeader(
        INTERVAL, loss, horizon=horizon, budget=None, parameters=p, source=Source.seeded(0)
    )
    return Case(learner, alternating(horizon, 1.0) if streams is None else streams)


def records(horizon, first, label):
    """Features +-1/2 with label 1, but the first record is (+-first, label)."""
    worlds = []
    for sign in (1.0, -1.0):
        rows = np.ones((horizon, 2))
        rows[:, 0] = 0.5 * (-1.0) ** np.arange(horizon)
        rows[0] = sign * first, label
        worlds.append(rows)
    return tuple(worlds)


SHARP = {"inverse_temperature": 9.0, "regularization": 400.0}  # g = .15, hardly truncated
BROAD = {"inverse_temperature": 0.25, "regularization": 4.0}  # g = .25, the interval matters
SMOOTH = {"step_size": 0.2, "noise_scale": 4.0}

CASES = {
    "weights, density ratio": lambda: weights_case(
        "density_ratio", forced_switch=0.2, clip_high=0.2, clip_low=0.2, max_switches=5, **SHARP
    ),
    "weights, density ratio in blocks": lambda: weights_case(
        "density_ratio", forced_switch=0.3, clip_high=0.1, clip_low=0.3, block=3, horizon=17,
        **BROAD,
    ),
    "weights, dartboard": lambda: weights_case(
        "dartboard", forced_switch=0.3, factor_range=2.0, **BROAD
    ),
    "weights, dartboard in blocks": lambda: weights_case(
        "dartboard", forced_switch=0.3, factor_range=2.0, block=2, max_switches=3, **BROAD
    ),
    "weights, anchored": lambda: weights_case(
        "anchored", forced_switch=0.3, clip_high=1.15, clip_low=1.15, anchors=4, **SHARP
    ),
    "weights, anchored in blocks": lambda: weights_case(
        "anchored", forced_switch=0.3, clip_high=2.2, clip_low=2.2, anchors=3, block=2, **BROAD
    ),
    "weights, scheduled": lambda: weights_case("scheduled", block=2, **SHARP),
    "leader, density ratio": lambda: leader_case(
        "density_ratio", forced_switch=0.2, clip_high=0.2, clip_low=0.2, noise_scale=7.0,
        max_switches=5,
    ),
    "leader, density ratio in blocks": lambda: leader_case(
        "density_ratio", forced_switch=0.3, clip_high=0.1, clip_low=0.3, noise_scale=4.0, block=3,
        horizon=17,
    ),
    "leader, logistic": lambda: leader_case(
        "density_ratio", LogisticLoss(1.0), streams=records(12, 1.0, 1.0), forced_switch=0.2,
        clip_high=0.15, clip_low=0.15, max_switches=6, **SMOOTH,
    ),
    "leader, logistic in blocks": lambda: leader_case(
        "density_ratio", LogisticLoss(1.0), streams=records(12, 1.0, 1.0), forced_switch=0.4,
        clip_high=0.1, clip_low=0.2, block=2, **SMOOTH,
    ),
    "leader, huber": lambda: leader_case(
        "density_ratio", HuberLoss(1.0, 1.0, threshold=0.5), streams=records(12, 1.0, 0.6),
        forced_switch=0.2, clip_high=0.15, clip_low=0.15, step_size=0.05, noise_scale=4.0,
    ),
    "leader, logistic, scheduled": lambda: leader_case(
        "scheduled", LogisticLoss(1.0), streams=records(12, 1.0, 1.0), block=2, **SMOOTH
    ),
}  # fmt: skip


@pytest.mark.parametrize("world", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_the_exact_likelihood_ratio_obeys_the_guarantee(name, world):
    case, played, found = scored(name, world)
    # The factors that the compiled engine decided by are those of the independent computation.
    own = found.own.factors
    if isinstance(case.learner, CoupledRegularizedLeader):
        raw = np.zeros_like(own)
        law, p = case.law(case.streams[world]), case.learner.parameters
        for t in range(p.horizon if p.coupling != "scheduled" else 0):
            k = min(t // p.block, played.points.shape[1] - 1)
            raw[:, t] = law.log_ratio(t, played.points[:, k])
        wanted = played.factors != 0.0
        np.testing.assert_allclose(played.factors[wanted], raw[wanted], rtol=1e-7, atol=1e-9)
        assert wanted.any() or p.coupling == "scheduled"
    else:
        np.testing.assert_allclose(played.factors, own, rtol=1e-7, atol=1e-9)
    # Neighbours' likelihoods integrate to one over the transcripts of either.
    one = ref.mean_of(np.exp(-found.total))
    assert abs(one.mean - 1.0) <= SIGMAS * one.error
    assert one.error < 0.1
    guarantee = case.learner.guarantee
    assert findings(found, guarantee.coupling, guarantee.delta_at) == []
    if case.rule().coupling in ("dartboard", "anchored", "scheduled"):
        assert np.abs(found.later_bits).max() < 1e-12  # these bits cost nothing
    else:
        assert np.abs(found.later_bits).max() > 0.01
    # The audit exercises the claim: a real fraction of it is used up.
    assert found.total.std() > 0.2
    assert 0.05 < played.switched.mean() <= 1.0


def claimed(case, **changes):
    """The guarantee the same learner would have with other parameters."""
    p = dataclasses.replace(case.learner.parameters, **changes)
    return case.learner._accountant.guarantee(INTERVAL, case.learner.loss, p)


WRONG_NOISE = {
    "weights, density ratio": {"inverse_temperature": 9.0 / 4.0},
    "weights, scheduled": {"inverse_temperature": 9.0 / 4.0},
    "weights, anchored": {"inverse_temperature": 9.0 / 4.0},
    "leader, density ratio": {"noise_scale": 14.0},
    "leader, logistic, scheduled": {"noise_scale": 8.0},
}


@pytest.mark.parametrize("name", WRONG_NOISE)
def test_half_the_claimed_noise_is_caught(name):
    over = []
    for world in (0, 1):
        case, _, found = scored(name, world)
        lie = claimed(case, **WRONG_NOISE[name])
        over += findings(found, lie.coupling, lie.delta_at)
    assert any(each.startswith("draws") for each in over)


@pytest.mark.parametrize("name", ["weights, density ratio", "leader, density ratio"])
def test_ignored_shift_of_later_bits_is_caught(name):
    case, _, found = scored(name, 0)
    profile = {**case.learner.guarantee.coupling, "shift": 0.0}
    over = findings(found, profile, lambda e: profile_delta(profile, e))
    assert any(each.startswith("later bits") for each in over)


@pytest.mark.parametrize(
    "name",
    ["weights, density ratio", "weights, dartboard", "leader, density ratio", "leader, logistic"],
)
def test_a_wrong_floor_of_the_factors_is_caught(name):
    over = []
    for world in (0, 1):
        case, _, found = scored(name, world)
        true = case.learner.guarantee.coupling
        profile = {**true, "factor_floor": math.exp(0.1 * math.log(true["factor_floor"]))}
        over += findings(found, profile, lambda e, own=profile: profile_delta(own, e))
    assert any(each.startswith("changed bit") for each in over)


def test_a_wrong_law_of_the_draws_is_caught():
    """The martingale identity fails if the engine draws from another law than it is scored by."""
    case, played, _ = scored("weights, scheduled", 0)
    hotter = dataclasses.replace(case.learner.parameters, inverse_temperature=18.0)
    learner = case.learner
    twin = Case(
        ContinuousMultiplicativeWeights(
            INTERVAL, learner.loss, horizon=learner.horizon, budget=None, parameters=hotter
        ),
        case.streams,
    )
    own, other = (ref.likelihood(played, twin.law(case.streams[w]), case.rule()) for w in (0, 1))
    one = ref.mean_of(np.exp((other.draws - own.draws).sum(axis=1)))
    assert abs(one.mean - 1.0) > SIGMAS * one.error


# ---- where the accountant is tight ---------------------------------------------------------------

TIGHT = {
    "weights on the line": lambda: weights_case(
        "scheduled", horizon=25, unbounded=True, inverse_temperature=4.0, regularization=400.0
    ),
    "weights in the plane": lambda: weights_case(
        "scheduled", horizon=25, unbounded=True, d=2, block=2, inverse_temperature=9.0,
        regularization=400.0,
    ),
    "leader": lambda: leader_case("scheduled", horizon=25, noise_scale=10.0),
}  # fmt: skip


@pytest.mark.parametrize("world", [0, 1])
@pytest.mark.parametrize("name", TIGHT)
def test_scheduled_gaussian_draws_use_the_guarantee_up(name, world):
    case = TIGHT[name]()
    _, found = ratio(case, world, runs=4000)
    guarantee = case.learner.guarantee
    m = guarantee.mu
    assert m == pytest.approx(guarantee.coupling["mu"])
    mean = ref.mean_of(found.total)
    assert abs(mean.mean - 0.5 * m * m) <= SIGMAS * mean.error
    assert found.total.var() == pytest.approx(m * m, rel=SIGMAS * math.sqrt(2.0 / 4000))
    for epsilon in EPSILONS:
        real = ref.delta_of(found.total, epsilon)
        claim = guarantee.delta_at(epsilon)
        assert abs(real.mean - claim) <= SIGMAS * real.error
