"""Streams, learners and transcripts of the likelihood audit, scored exactly."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from tests.oco import likelihood_reference as ref
from tests.plans import coupled, recoupled

from dpoco.accounting import continuous_multiplicative_weights, coupled_regularized_leader
from dpoco.accounting._certificate import read_loss
from dpoco.audit._laws import Gibbs, Leader, ShiftedGaussian, read_losses
from dpoco.domains import Box, LpBall
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader
from dpoco.random import Source

# Half of the noise is 25 deviations in 4000 runs, and 16 in these; in scheduled runs it is 6.
RUNS, SCHEDULED_RUNS = 1500, 4000
SIGMAS = 5.0  # of every comparison
EPSILONS = (0.2, 0.5, 1.0, 1.5)
INTERVAL = Box([-1.0], [1.0])


def planned(accountant, domain, loss, horizon, unbounded=False, **own):
    """Return a plan of one's own: what a forecast says is recomputed by the guarantee anyway."""
    quiet = accountant.calibrate(domain, loss, horizon=horizon, budget=None, unbounded=unbounded)
    return recoupled(quiet, **{"block": 1, **own})


@dataclasses.dataclass(frozen=True)
class Case:
    """A learner in one dimension and its two neighbouring streams."""

    learner: object
    streams: tuple  # two of (T,) weights of linear losses, or of (T, 2) features and labels

    def losses(self, stream):
        linear = isinstance(self.learner.loss, LinearLoss)
        rows = np.reshape(stream, (len(stream), -1))
        return read_losses(self.learner.loss, (rows,) if linear else (rows[:, :1], rows[:, 1]))

    def law(self, stream):
        """What the engine is said to draw from."""
        p = coupled(self.learner.plan)
        if isinstance(self.learner, ContinuousMultiplicativeWeights):
            if p.unbounded:
                sigma = 1.0 / math.sqrt(p.inverse_temperature * p.regularization)
                return ShiftedGaussian(
                    np.reshape(stream, (p.horizon, -1)), sigma, -1.0 / p.regularization
                )
            return Gibbs(self.losses(stream), p.inverse_temperature, p.regularization, 1.0)
        if isinstance(self.learner.loss, LinearLoss):
            return ShiftedGaussian(np.reshape(stream, (p.horizon, -1)), p.noise_scale, 1.0)
        return Leader(self.losses(stream), p.step_size, p.noise_scale, p.barrier_weight, 1.0)

    def rule(self):
        p = coupled(self.learner.plan)
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


def transcript(case, world, runs, seed=0):
    """Play one stream many times, each run on noise of its own."""
    p, stream = coupled(case.learner.plan), case.streams[world]
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


def ratio(case, world, runs=None, seed=0):
    if runs is None:
        runs = SCHEDULED_RUNS if case.rule().coupling == "scheduled" else RUNS
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
        "draws": (found.draws, lambda e: read_loss(draws_only).delta(e)),
        "changed bit": (found.changed_bit, lambda e: read_loss(bit_only).delta(e)),
        "later bits": (found.later_bits, lambda e: read_loss(later_only).delta(e)),
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
    p = planned(
        continuous_multiplicative_weights,
        domain,
        loss,
        horizon,
        coupling=coupling,
        unbounded=unbounded,
        **{"forced_switch": 1.0, "max_switches": horizon, **own},
    )
    learner = ContinuousMultiplicativeWeights(
        domain, loss, horizon=horizon, budget=None, plan=p, unbounded=unbounded,
        source=Source.seeded(0),
    )  # fmt: skip
    return Case(learner, alternating(horizon, first, d))


def leader_case(coupling, loss=None, *, horizon=12, streams=None, **own):
    loss = loss or LinearLoss(1.0)
    p = planned(
        coupled_regularized_leader,
        INTERVAL,
        loss,
        horizon,
        coupling=coupling,
        **{"forced_switch": 1.0, "max_switches": horizon, "step_size": 0.1, **own},
    )
    learner = CoupledRegularizedLeader(
        INTERVAL, loss, horizon=horizon, budget=None, plan=p, source=Source.seeded(0)
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
