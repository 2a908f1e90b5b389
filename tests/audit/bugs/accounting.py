"""Bugs in what is claimed: the same noise, and a curve that lies below the true one."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.accounting import brute_force as brute_forced
from tests.accounting import test_three_ways as ways
from tests.accounting.test_three_ways_learners import transcript

from dpoco.accounting import (
    above_threshold,
    gaussian,
    rdp,
    sum_release,
)
from dpoco.accounting.budget import Budget
from dpoco.privacy.losses import coupled_bits
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import SquareRoot, Tree
from dpoco.privacy.mechanisms.selections import ThresholdTests
from dpoco.privacy.neighbours import Neighbours

from .checks import brute_force, closed_form, dp_accounting, enumeration, stated_point
from .kit import Bug, Patch

DELTA = 1e-6
COUNT = 17


def as_it_is(subject: Any) -> Any:
    """Plant: the patch alone."""
    return subject


# ---- repeated responses --------------------------------------------------------------------------

EACH = 0.2


@functools.cache
def library_responses() -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    keep = 1.0 / (1.0 + math.exp(-EACH))
    logs = {0: math.log(keep), 1: math.log1p(-keep)}
    turned = {0: math.log1p(-keep), 1: math.log(keep)}
    one = pld.from_two_probability_mass_functions(
        logs, turned, value_discretization_interval=1e-4, pessimistic_estimate=False
    )
    return one.self_compose(COUNT)


@functools.cache
def the_responses() -> Any:
    def ours(epsilon: float) -> float:
        return Responses(each=EACH, reports=COUNT).delta(epsilon)

    return SimpleNamespace(
        claim=ours,
        brute_force=lambda e: brute_forced.randomised_responses(EACH, COUNT, e),
        dp_accounting=lambda e: library_responses().get_delta_for_epsilon(e),
        epsilons=(0.5, 1.0, 1.5),
    )


# ---- Gaussian releases ---------------------------------------------------------------------------

MU = 0.7


@functools.cache
def library_gaussians() -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        1.0 / MU,
        value_discretization_interval=1e-4,
        pessimistic_estimate=False,
        use_connect_dots=False,
    )
    return one.self_compose(3)


@functools.cache
def the_gaussians() -> Any:
    return SimpleNamespace(
        claim=lambda e: gaussian.gaussian_delta(e, gaussian.compose_gdp([MU] * 3)),
        closed_form=lambda e: gaussian.gaussian_delta(e, MU * math.sqrt(3.0)),
        brute_force=lambda e: brute_forced.gaussian(MU, 3).low(e),
        dp_accounting=lambda e: library_gaussians().get_delta_for_epsilon(e),
        epsilons=(0.5, 2.0, 4.0),
    )


@functools.cache
def the_concentrated() -> Any:
    return SimpleNamespace(
        claim=lambda e: rdp.zcdp_delta(e, rdp.compose_zcdp([0.5 * MU**2] * 3)),
        closed_form=lambda e: gaussian.gaussian_delta(e, MU * math.sqrt(3.0)),
        brute_force=lambda e: brute_forced.gaussian(MU, 3).low(e),
        epsilons=(2.0, 4.0),
    )


# ---- continual sums ------------------------------------------------------------------------------


def calibrated(relation: str = "replace", method: str = "tree", rounds: int = 16) -> Any:
    return sum_release.calibrate(
        2, horizon=rounds, budget=Budget(1.0, DELTA), bound=0.5, relation=relation, method=method,
        noise="gaussian", numerics="float",
    )  # fmt: skip


def tree_nodes(rounds: int) -> int:
    """Nodes that hold the busiest round, by listing them."""
    nodes = [
        (k << level, (k + 1) << level)
        for level in range(rounds.bit_length())
        for k in range(rounds >> level)
    ]
    return max(sum(a <= t < b for a, b in nodes) for t in range(rounds))


def sum_subject(method: str, longest: Any) -> Any:
    """A calibrated sum, and its curve from the lengths of what a record moves."""

    def true_mu() -> float:
        scale = sum_release.guarantee(calibrated(method=method)).noise_scale
        return float(longest() / scale)

    def stated() -> tuple[float, float]:
        found = sum_release.guarantee(calibrated(method=method), budget=Budget(1.0, DELTA))
        return found.epsilon, found.delta

    return SimpleNamespace(
        claim=lambda e: sum_release.guarantee(calibrated(method=method)).delta_at(e),
        brute_force=lambda e: gaussian.gaussian_delta(e, true_mu()),
        closed_form=lambda e: gaussian.gaussian_delta(e, true_mu()),
        stated=stated,
        epsilons=(0.5, 1.0),
    )


@functools.cache
def the_tree() -> Any:
    return sum_subject("tree", lambda: math.sqrt(tree_nodes(16)))


def toeplitz_column() -> float:
    entries = [1.0]
    for k in range(1, 16):
        entries.append(entries[-1] * (2 * k - 1) / (2 * k))
    return math.sqrt(math.fsum(c * c for c in entries))


@functools.cache
def the_toeplitz() -> Any:
    return sum_subject("toeplitz", toeplitz_column)


def one_level_less(right: Any) -> Any:
    # As if 2^k rounds had k levels.
    return lambda tree, pushes: math.sqrt(max(1, (pushes - 1).bit_length()))


def halved(right: Any) -> Any:
    return lambda vector, near, order=2.0: right(vector, Neighbours("zero_out"), order)


def rounded_down(right: Any) -> Any:
    return lambda loss, delta: math.floor(100.0 * right(loss, delta) - 0.5) / 100.0


# ---- samples, coins, alarms ----------------------------------------------------------------------


def three_ways(name: str, count: int, epsilons: tuple[float, ...]) -> Any:
    case = next(each for each in ways.CASES if each.name == name)
    truth = case.truth(count, "replace")
    return SimpleNamespace(
        claim=lambda e: case.ours(count, "replace", e), brute_force=truth.low, epsilons=epsilons
    )


@functools.cache
def the_coins() -> Any:
    return three_ways("bits", 3, (0.5, 1.0, 2.0))


ALARMS = 3


@functools.cache
def the_alarms() -> Any:
    p = above_threshold.calibrate(
        horizon=1000, budget=Budget(1.0, 0.0), sensitivity=1.0, spread=2.0, alarms=ALARMS
    )

    def worst() -> float:
        b1, b2 = p.mechanism.threshold_scale, p.mechanism.query_scale
        silent = np.exp(24.0)
        return float(
            transcript(b1, b2, silent, ALARMS, 1.0, 0.0)
            - transcript(b1, b2, silent, ALARMS, 0.0, -1.0)
        )

    return SimpleNamespace(p=p, worst=worst, claimed=above_threshold.guarantee(p).epsilon)


def one_alarm(subject: Any) -> Any:
    p = subject.p
    claimed = above_threshold.guarantee(p).epsilon
    return SimpleNamespace(worst=subject.worst, claimed=claimed)


BUGS = [
    Bug(
        "dropped-repetitions", the_responses, as_it_is, (brute_force, dp_accounting),
        Patch(Responses, "delta",
              lambda right: lambda self, e: right(Responses(self.each), e)),
    ),
    Bug(
        "one-release-too-few", the_gaussians, as_it_is, (closed_form, brute_force, dp_accounting),
        Patch(gaussian, "compose_gdp", lambda right: lambda mus: right(list(mus)[1:])),
    ),
    Bug(
        "root-two-between-noise-and-accountant", the_gaussians, as_it_is,
        (closed_form, brute_force, dp_accounting),
        Patch(gaussian, "compose_gdp", lambda right: lambda mus: right(mus) / math.sqrt(2.0)),
    ),
    Bug(
        "parallel-composition-of-the-same-records", the_concentrated, as_it_is,
        (closed_form, brute_force),
        Patch(rdp, "compose_zcdp", lambda right: lambda rhos: max(rhos)),
    ),
    Bug(
        "tree-levels-at-a-power-of-two", the_tree, as_it_is, (brute_force,),
        Patch(Tree, "_longest_column", one_level_less),
    ),
    Bug(
        "longer-than-planned", the_toeplitz, as_it_is, (closed_form,),
        Patch(SquareRoot, "_longest_column",
              lambda right: lambda factor, pushes: right(factor, pushes // 2)),
    ),
    Bug(
        "zero-out-sold-as-replace", the_tree, as_it_is, (closed_form,),
        Patch(ClippedVector, "movement", halved),
    ),
    Bug(
        "epsilon-rounded-down", the_tree, as_it_is, (stated_point,),
        Patch(Loss, "epsilon", rounded_down),
    ),
    Bug(
        "lazy-switch-with-the-wrong-ratio", the_coins, as_it_is, (brute_force,),
        Patch(coupled_bits, "later_bit_pair", lambda right: lambda p, shift: (p, shift)),
    ),
    Bug(
        "one-alarm-for-all", the_alarms, one_alarm, (enumeration,),
        Patch(ThresholdTests, "loss",
              lambda right: lambda tests, near: right(replace(tests, alarms=1), near)),
    ),
]  # fmt: skip
