"""Bugs that were printed: the constants of the papers that break privacy (``docs/errata.md``)."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.descriptions import changed, tuned
from tests.experts.detector_reference import worst_log_ratio
from tests.mechanisms.test_above_threshold import worst_ratio

import dpoco
from dpoco import noise
from dpoco.accounting import gaussian, shift_detector
from dpoco.accounting.claims import published_sigma
from dpoco.accounting.gaussian import generalized_gaussian_mu
from dpoco.domains import Box, LpBall
from dpoco.experts import BatchShare
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.mechanisms import NoisyMax
from dpoco.oco import LipschitzLearner
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.neighbours import Neighbours
from dpoco.published.sima_local import PublishedChannel
from dpoco.random import Source

from .checks import (
    black_box,
    closed_form,
    enumeration,
    law,
    likelihood,
    replay,
    sampled_losses,
    utility,
)
from .experts import negated, the_useful_epochs
from .kit import Bug, Patch, maker, other, remade

# ---- Han et al.: the noise -----------------------------------------------------------------------

PUSHES, D, Q = 1000, 5, 3.0
PRINTED_ORDER = math.log(5.0) - 1.0
SIGMA = published_sigma(dpoco.Budget(1.0, 1e-3), pushes=PUSHES, kappa=2.0, leaf_bound=10.0)
SHIFT = np.full(D, 20.0 / D ** (1.0 / Q))  # of l_3 norm 20, the largest move of a leaf


def node_losses(order: float) -> Any:
    """Privacy losses of one node whose noise has a norm of that order; laws by definition."""
    rng, size = np.random.default_rng(3), 20_000
    x = rng.gamma(1.0 / order, size=(size, D)) ** (1.0 / order)
    x *= rng.choice([-1.0, 1.0], size=x.shape)
    x /= (np.abs(x) ** order).sum(axis=1, keepdims=True) ** (1.0 / order)
    z = SIGMA * x * np.sqrt(rng.gamma(D / 2.0, 2.0, size=(size, 1)))

    def squared(y: Any) -> Any:
        return (np.abs(y) ** order).sum(axis=1) ** (2.0 / order)

    return (squared(z - SHIFT) - squared(z)) / (2.0 * SIGMA**2)


@functools.cache
def the_node() -> Any:
    levels = PUSHES.bit_length() + 1
    point = 1.0 / levels, 1e-3 / levels
    return SimpleNamespace(losses=lambda: node_losses(2.0), point=point)


def drawn(radius: float) -> Any:
    """Squared norms of the library's vectors, in units of 2 sigma^2; `radius` tampers with them."""
    scale = 3.0
    x = radius * noise.generalized_gaussian(Source.seeded(1), D, Q, 4000, scale=scale)
    return (np.abs(x) ** Q).sum(axis=1) ** (2.0 / Q) / (2.0 * scale**2)


def chi_square(x: Any) -> Any:
    from scipy.special import gammainc

    return gammainc(D / 2.0, x)


@functools.cache
def the_radius() -> Any:
    kappa = smoothness_constant(2.0, Q, D)
    sigma = published_sigma(dpoco.Budget(1.0, 1e-3), pushes=PUSHES, kappa=kappa, leaf_bound=10.0)
    mu = generalized_gaussian_mu(20.0, sigma, 2.0, Q, D) * math.sqrt(PUSHES.bit_length())
    return SimpleNamespace(
        draw=lambda: drawn(1.0), cdf=chi_square, sigma=sigma, mu=mu, claim=lambda e: 1e-3,
        closed_form=lambda e: gaussian.gaussian_delta(e, mu), epsilons=(1.0,),
    )  # fmt: skip


def misprinted(subject: Any) -> Any:
    root = math.sqrt(subject.sigma)  # deviations of sqrt(sigma) instead of sigma
    return other(
        subject,
        draw=lambda: drawn(1.0 / math.sqrt(3.0)),
        closed_form=lambda e: gaussian.gaussian_delta(e, subject.mu * root),
    )


WIDE = dpoco.Budget(10.0, 1e-5)


@functools.cache
def the_gaussian() -> Any:
    return SimpleNamespace(
        claim=lambda e: WIDE.delta,
        closed_form=lambda e: gaussian.gaussian_delta(e, 1.0 / gaussian.gaussian_sigma(WIDE, 1.0)),
        epsilons=(WIDE.epsilon,),
    )


def textbook(right: Any) -> Any:
    return lambda budget, s: s * math.sqrt(2.0 * math.log(1.0 / budget.delta)) / budget.epsilon


# ---- Han et al.: the learners --------------------------------------------------------------------

T = 6
LARGE = dpoco.Budget.from_dict({"epsilon": 3.0, "delta": 1e-2})  # without a warning
LEADER = maker(TreeFrankWolfe, LpBall(2, 2.0), LinearLoss(1.0), horizon=T, budget=LARGE)
LOUDER = maker(TreeFrankWolfe, LpBall(2, 2.0), LinearLoss(2.0), horizon=T, budget=LARGE)
GRADIENTS = np.tile([1.0, 0.0], (T, 1))


@functools.cache
def the_leader() -> Any:
    return SimpleNamespace(make=LEADER, stream=GRADIENTS, pairs=[(0, [-1.0, 0.0])])


class FirstTwice:
    """An engine that is given the first gradient with weight 2."""

    def __init__(self, engine: Any) -> None:
        self._inner = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def observe_gradient(self, turn: int, gradient: Any) -> None:
        self._inner.observe_gradient(turn, gradient * (2.0 if turn == 0 else 1.0))


SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(T, 2))
SIGNS[0] = [1.0, -1.0]
ONES = np.ones(T)
TURNED = ONES.copy()
TURNED[0] = -1.0
CORNERS = maker(
    PolyhedralFrankWolfe, LpBall(2, 1.0), SquaredLoss(1.0, 1.0), horizon=T, batch=1,
    budget=dpoco.Budget(3.0, 0.0),
)  # fmt: skip


@functools.cache
def the_polyhedral_leader() -> Any:
    return SimpleNamespace(
        make=CORNERS, stream=(SIGNS, ONES), neighbour=(SIGNS, TURNED), trials=300
    )


SIGNED = maker(NoisyMax, 4, horizon=1, budget=dpoco.Budget(1.0, 0.0), sensitivity=1.0)
UNSIGNED = maker(NoisyMax, 2, horizon=1, budget=dpoco.Budget(1.0, 0.0), sensitivity=1.0)


def signed_steps(gradient: Any, count: int, source: Any) -> Any:
    """Select among e_1, e_2, -e_1, -e_2."""
    scores = np.concatenate([-gradient, gradient])
    return np.array([SIGNED(source).select(scores) for _ in range(count)])


def exact_signs(gradient: Any, count: int, source: Any) -> Any:
    """Select a coordinate, and step along the sign of its exact entry."""
    chosen = [UNSIGNED(source).select(np.abs(gradient)) for _ in range(count)]
    return np.array([j + 2 * (gradient[j] > 0.0) for j in chosen])


@functools.cache
def the_step() -> Any:
    ours = np.array([0.5, 0.2])
    return SimpleNamespace(run=signed_steps, stream=ours, neighbour=-ours, epsilon=1.0, runs=1000)


# ---- Asi et al. ----------------------------------------------------------------------------------


@functools.cache
def the_threshold() -> Any:
    """Laplace noises of scale 2 and 4, on queries that move by up to 2."""

    def worst() -> float:
        moves = (0.0, 2.0)
        return float(worst_ratio(2.0, 4.0, "laplace", rises=moves, falls=moves, silent=(400,)))

    tests = ThresholdTests("laplace", 2.0, 4.0, sensitivity=2.0, spread=2.0, alarms=1)
    return SimpleNamespace(worst=worst, tests=tests, claimed=tests.loss(Neighbours()).pure)


def sensitivity_one(subject: Any) -> Any:
    printed = replace(subject.tests, sensitivity=1.0)
    return other(subject, claimed=printed.loss(Neighbours()).pure)


@functools.cache
def the_detector() -> Any:
    p = shift_detector.calibrate(2, horizon=4, budget=dpoco.Budget(1.0, 0.0), first=0)
    p = tuned(
        changed(p, scale=40.0, threshold_scale=40.0, query_scale=2.2),
        log_windows=0.0, log_selection=None, threshold=3.0,
    )  # fmt: skip

    def worst(**options: Any) -> float:
        return float(worst_log_ratio(p, **options))

    return SimpleNamespace(worst=worst, claimed=shift_detector.guarantee(p).epsilon)


def restarted(subject: Any) -> Any:
    return other(subject, worst=lambda: subject.worst(restart_at_the_alarm=True))


CORNER = np.tile([1.0, 0.0, 0.0, 0.0], (6, 1))
CORNER[1] = [1.0, 1.0, 0.0, 0.0]
ACROSS = CORNER.copy()
ACROSS[1] = 1.0 - CORNER[1]
SHARE = maker(
    BatchShare, 4, horizon=7, budget=dpoco.Budget(1.0, 0.0), batch=1, learning_rate=0.1,
    noise="laplace",
)  # fmt: skip


@functools.cache
def the_share() -> Any:
    return SimpleNamespace(
        make=SHARE, stream=CORNER, neighbour=ACROSS, pairs=[(1, ACROSS[1])], trials=500
    )


def one_coordinate(subject: Any) -> Any:
    """Plant: noise for one loss of sensitivity 1, not for all of them."""
    return remade(scale=SHARE.honest().plan.mechanism.scale / 4.0)(subject)


# ---- Agarwal et al. ------------------------------------------------------------------------------

NET = maker(
    LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=3, horizon=T,
    budget=dpoco.Budget(1.0, 1e-6),
)  # fmt: skip
POINTS = np.tile([0.0, 0.5, 1.0], (T, 1))


@functools.cache
def the_net() -> Any:
    pairs = [(1, [1.0, 0.5, 0.0]), (3, [0.5, 0.0, 0.5]), (4, [1.0, 1.0, 1.0]), (5, [0.5, 1.0, 0.5])]
    return SimpleNamespace(make=NET, stream=POINTS, pairs=pairs)


def quieter(factor: float) -> Any:
    def plant(subject: Any) -> Any:
        p = NET.honest().plan
        return remade(scale=p.mechanism.scale / factor)(subject)

    return plant


# ---- Sima et al. ---------------------------------------------------------------------------------

BLOCKS = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])


def report_ratio(sensitivity: str) -> float:
    """Largest log-ratio of a report's probabilities: labels, their random replacement, noise."""
    channel = PublishedChannel(BLOCKS, 1000, 1.0, 0.0, sensitivity)
    scale, worst = float(channel.scale), 0.0
    for row in channel.table:
        reports = np.unique(row)
        plain = np.exp(-np.abs(reports[:, None] - row[None, :]) / scale)
        mixed = 0.999 * plain + 0.001 * (plain @ channel.background)[:, None]
        worst = max(worst, float(np.log(mixed.max(axis=1) / mixed.min(axis=1)).max()))
    return worst


@functools.cache
def the_channel() -> Any:
    return SimpleNamespace(worst=lambda: report_ratio("round"), claimed=1.0)


BUGS = [
    Bug(
        "printed-order-of-the-norm", the_node,
        lambda subject: other(subject, losses=lambda: node_losses(PRINTED_ORDER)),
        (sampled_losses,),
    ),
    Bug("printed-radius-of-the-noise", the_radius, misprinted, (law, closed_form)),
    Bug(
        "printed-scale-at-large-epsilon", the_gaussian, lambda subject: subject, (closed_form,),
        Patch(gaussian, "gaussian_sigma", textbook),
    ),
    Bug(
        "printed-first-gradient", the_leader,
        remade(engine=lambda learner, source: FirstTwice(LOUDER(source)._engine)), (replay,),
    ),
    Bug("printed-noise-of-one-round", the_polyhedral_leader, remade(scale=1e-3), (likelihood,)),
    Bug(
        "printed-direction-of-the-step", the_step, lambda subject: other(subject, run=exact_signs),
        (black_box,),
    ),
    Bug("printed-argmax-of-losses", the_useful_epochs, negated, (utility,)),
    Bug("printed-sensitivity-of-the-test", the_threshold, sensitivity_one, (enumeration,)),
    Bug("printed-restart-at-the-alarm", the_detector, restarted, (enumeration,)),
    Bug("printed-noise-of-losses", the_share, one_coordinate, (replay, likelihood)),
    Bug("printed-norm-of-losses", the_net, quieter(2.0), (replay,)),
    Bug("printed-constant-of-the-net", the_net, quieter(math.sqrt(1.375)), (replay,)),
    Bug(
        "printed-width-of-likelihoods", the_channel,
        lambda subject: other(subject, worst=lambda: report_ratio("printed")), (enumeration,),
    ),
]  # fmt: skip
