"""The laws of what the compiled engine releases, against exact propagation over a grid.

Bounds are exceeded by chance with probability below 1e-6 (all together; the seeds are fixed).
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy
from tests.oco import comw_reference as reference
from tests.oco.comw_reference import glm, interval, linear
from tests.samples import bound

T, BETA, LAM, FORCED, CLIP = 60, 0.09, 25.0, 0.02, 0.04
ROUNDS = (10, 32, 55)  # rounds over when the compared decisions were released
_generator = np.random.default_rng(1)
# Slopes that first push one way, then the other, with some of the opposite sign mixed in.
SLOPES = _generator.uniform(0.6, 1.0, (T, 1)) * np.where(_generator.random((T, 1)) < 0.85, 1, -1)
SLOPES[30:] *= -1
LABELS = _generator.uniform(-1.0, 1.0, T)
# coupling -> settings and number of runs
COUPLINGS = {
    "dartboard": ({"factor_range": 2.0}, 18_000),
    "density_ratio": ({"clip_high": CLIP, "clip_low": CLIP}, 16_000),
    "wide density_ratio": ({"clip_high": 0.2, "clip_low": 0.2}, 16_000),
    "blocks": ({"factor_range": 2.0, "block": 4}, 15_000),
    "anchored": (
        {"anchors": 4, "lipschitz": 1.0, "clip_error": 1e-6, "clip_high": 1.0, "clip_low": 1.0},
        20_000,
    ),
    "scheduled": ({"forced_switch": 1.0, "block": 3}, 15_000),
    "maximal": ({"forced_switch": 0.0}, 16_000),
}
COUPLING_OF = {"wide density_ratio": "density_ratio", "blocks": "dartboard"}


@functools.cache
def samples(name):
    """Decisions of rounds 1 + ROUNDS (runs, 3) and switches (runs, T) on linear losses."""
    settings, runs = COUPLINGS[name]
    own = {"forced_switch": FORCED, "inverse_temperature": BETA, "regularization": LAM, **settings}
    return many(COUPLING_OF.get(name, name), linear(), SLOPES, None, runs, own)


def many(coupling, losses, x, y, runs, settings):
    rounds = len(x)
    make = reference.engines(interval(), losses, coupling=coupling, rounds=rounds, **settings)
    changed = np.empty((runs, rounds), dtype=np.uint8)
    loss, decisions = np.empty(rounds), np.empty((runs, rounds, 1))
    for i in range(runs):
        make(i).run(x, y, loss, decisions[i], changed[i])
    return decisions[:, list(ROUNDS), 0], changed


@functools.cache
def grid():
    return reference.Grid.of(lambda t, p: SLOPES[t, 0] * p, T, beta=BETA, lam=LAM)


@functools.cache
def exact(name):
    settings, _ = COUPLINGS[name]
    coupling = COUPLING_OF.get(name, name)
    factors = grid().log_factors(coupling, clip=settings.get("clip_high", 0.0))
    return reference.propagate(
        grid(), factors, forced=settings.get("forced_switch", FORCED),
        block=settings.get("block", 1), fresh="excess" if coupling == "maximal" else "gibbs",
    )  # fmt: skip


def distances(at, laws):
    points = grid().points
    return [reference.distance(at[:, k], laws[t], points) for k, t in enumerate(ROUNDS)]


# ---- the law of a decision -----------------------------------------------------------------------


@pytest.mark.parametrize("name", list(COUPLINGS))
def test_decisions_follow_their_law(name):
    at, _ = samples(name)
    limit = bound(len(at), 1e-7)
    # Where nothing is clipped that law is the Gibbs law of the losses before the block.
    if name != "anchored":
        assert max(distances(at, exact(name).laws)) < limit
    block = COUPLINGS[name][0].get("block", 1)
    gibbs = grid().laws()[np.arange(T + 1) // block * block]
    if name == "density_ratio":
        assert max(distances(at, gibbs)) > limit  # clipped hard: the propagation is needed
    else:
        assert max(distances(at, gibbs)) < limit


def wrong_rules():
    g = grid()
    dartboard, clipped = g.log_factors("dartboard"), g.log_factors("density_ratio", clip=CLIP)
    ratios = g.log_ratios()
    return {
        "dartboard": {
            "sign": -BETA * (g.losses.max(axis=1, keepdims=True) - g.losses),
            "half": 0.5 * dartboard,
            "double": 2.0 * dartboard,
            "no factor": 0.0 * dartboard,
        },
        "density_ratio": {
            "sign": np.clip(-ratios - CLIP, -2.0 * CLIP, 0.0),
            "no clip": np.minimum(ratios, 0.0),
            "no upper clip": np.minimum(ratios - CLIP, 0.0),
            "no shift": np.clip(ratios, -2.0 * CLIP, 0.0),
            "no normaliser": np.clip(-BETA * g.losses - CLIP, -2.0 * CLIP, 0.0),
            "no factor": 0.0 * clipped,
        },
        "maximal": {"half": 0.5 * g.log_factors("maximal"), "sign": np.minimum(-ratios, 0.0)},
    }


@pytest.mark.parametrize("name", ["dartboard", "density_ratio", "maximal"])
def test_wrong_acceptance_rules_are_told_apart(name):
    """The comparison above has the power to refuse each of these rules."""
    at, changed = samples(name)
    forced = 0.0 if name == "maximal" else FORCED
    for rule, factors in wrong_rules()[name].items():
        fresh = "excess" if name == "maximal" else "gibbs"
        wrong = reference.propagate(grid(), factors, forced=forced, fresh=fresh)
        far = max(distances(at, wrong.laws)) > bound(len(at), 1e-7)
        # A rule with the right law but other hazards shows in the number of switches.
        count = changed.sum(axis=1)
        off = abs(count.mean() - wrong.mean) > 6.0 * count.std() / np.sqrt(len(count))
        assert far or off, rule
        if rule in ("sign", "no factor", "no clip"):
            assert far, rule


@pytest.mark.parametrize("coupling", ["dartboard", "anchored", "scheduled"])
def test_decisions_follow_their_law_for_curved_losses(coupling):
    settings = {
        "forced_switch": 1.0 if coupling == "scheduled" else FORCED, "inverse_temperature": 0.5,
        "regularization": 4.0, "factor_range": 1.5, "anchors": 4, "lipschitz": 0.5,
        "clip_error": 1e-6, "clip_high": 4.0, "clip_low": 4.0,
    }  # fmt: skip
    at, _ = many(coupling, glm("huber"), SLOPES, LABELS, 6000, settings)
    own = reference.Grid.of(
        lambda t, p: reference.huber(SLOPES[t, 0] * p - LABELS[t]), T, beta=0.5, lam=4.0
    )
    far = [reference.distance(at[:, k], own.laws()[t], own.points) for k, t in enumerate(ROUNDS)]
    assert max(far) < bound(len(at), 1e-7)
    late = [reference.distance(at[:, k], own.laws()[0], own.points) for k in range(len(ROUNDS))]
    assert min(late) > 2.0 * bound(len(at), 1e-7)


# ---- switches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dartboard", "wide density_ratio", "blocks"])
def test_switches_are_a_poisson_binomial_count(name):
    _, changed = samples(name)
    count = changed.sum(axis=1)
    runs, law = len(count), exact(name)
    assert abs(count.mean() - law.mean) < 5.5 * np.sqrt(law.variance / runs)
    # The relative variance of a sample variance is (2 + excess kurtosis) / runs.
    tolerance = 5.5 * np.sqrt((2.0 + 1.0 / law.variance) / runs)
    assert abs(count.var() / law.variance - 1.0) < tolerance
    # Neither a Poisson variance nor one of positively correlated switches would pass.
    assert law.mean / law.variance - 1.0 > tolerance or name == "blocks"


def test_maximal_switches_as_often_as_the_laws_differ():
    _, changed = samples("maximal")
    laws = grid().laws()
    variation = 0.5 * np.abs(np.diff(laws, axis=0)).sum(axis=1)[: T - 1]
    mean = changed.sum(axis=1).mean()
    assert abs(mean - variation.sum()) < 6.0 * changed.sum(axis=1).std() / np.sqrt(len(changed))
    g = np.sqrt(BETA / LAM)
    assert variation.max() <= 2.0 * scipy.special.ndtr(g / 2.0) - 1.0 + 1e-9


def test_the_mean_hazard_of_the_unclipped_ratio():
    """1 - (1 - p) exp(-clip_high), the same in every round whatever the losses."""
    _, changed = samples("wide density_ratio")
    hazard = 1.0 - (1.0 - FORCED) * np.exp(-0.2)
    rate = changed[:, : T - 1].mean()
    assert rate == pytest.approx(hazard, rel=0.01)
    per_round = changed[:, : T - 1].mean(axis=0)
    assert np.abs(per_round - hazard).max() < 6.0 * np.sqrt(hazard / len(changed))
    assert not changed[:, T - 1].any()
