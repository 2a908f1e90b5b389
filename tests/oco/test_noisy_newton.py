"""Private Newton steps: an independent program, published digits, the lemma's pairs, and use."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import scipy
from tests.descriptions import unchecked
from tests.oco import noisy_newton_reference as reference

import dpoco
from dpoco.accounting import noisy_newton as accountant
from dpoco.accounting.forgetting import batch_lengths
from dpoco.audit import replay_audit
from dpoco.audit._sum_noise import sum_alone
from dpoco.domains import Box, LpBall
from dpoco.losses import HuberLoss, LogisticLoss
from dpoco.oco import NoisyFTRL, NoisyNewton
from dpoco.privacy.mechanisms.gaussian_sum import batch_starts
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


R, B = 8.0, math.sqrt(10.0 / 3.0)
LOGISTIC = LogisticLoss(B)


def budget(epsilon, rounds):
    return None if epsilon is None else dpoco.Budget(epsilon, 1.0 / (10 * rounds))


def ends_of(p):
    return list(islice(batch_starts(p.batch, "root"), 1, p.pushes + 1))


def world(rounds, d, seed, noise=False):
    """Records whose labels follow a logistic law, or are coins."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(1.0, 0.1, d - 1)
    turn, _ = np.linalg.qr(rng.normal(size=(d - 1, d - 1)))
    rows = np.clip((rng.normal(size=(rounds, d - 1)) * spread) @ turn.T * 0.5, -1.0, 1.0)
    rows = np.hstack([rows, np.ones((rounds, 1))])
    theta = rng.normal(size=d)
    theta *= 6.0 / np.linalg.norm(theta)
    theta[-1] = -1.5
    chance = 0.5 if noise else 1.0 / (1.0 + np.exp(-rows @ theta))
    return rows, (rng.random(rounds) < chance).astype(float)


def clipped(rows, bound):
    return rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]


@pytest.mark.parametrize(
    ("rounds", "epsilon", "known"),
    [
        (10**5, 1.0, (0.23670438, 11, 321, 1.7038588, 13.939363, 23.750707, 22.421732,
                      0.033848707, 99374)),
        (1250, 0.1, (0.039764373, 25, 30, None, 71.344980, 104.52143, 96.999913,
                     0.0078241992, None)),
        (49097, 8.0, (1.5697001, 2, 246, None, 2.0710792, None, 3.2767795, 0.23161358, 48672)),
    ],
)  # fmt: skip
def test_known_designs(rounds, epsilon, known):
    plan = accountant.calibrate(
        LpBall(10, 2.0, R), LOGISTIC, horizon=rounds, budget=budget(epsilon, rounds),
        numerics="float",
    )  # fmt: skip
    p, own = plan.mechanism, accountant.deviations(plan.mechanism)
    g = accountant.guarantee(LpBall(10, 2.0, R), LOGISTIC, plan)
    assert p.summand.weight == pytest.approx(0.77459667, rel=1e-7)
    assert g.sensitivity == pytest.approx(1.9364917, rel=1e-7)
    found = (
        g.mu, p.batch, p.pushes, g.column_norm, p.scale, own[-1],
        np.sqrt(np.mean(own**2)), plan.tuning.step_size, ends_of(p)[-1],
    )  # fmt: skip
    for each, published in zip(found, known, strict=True):
        assert published is None or each == pytest.approx(published, rel=6e-8)


@pytest.mark.parametrize(
    ("epsilon", "mean", "first", "trace"),
    [(None, 0.25901751, -2.8659536, 76.862787), (1.0, 0.35761492, -2.4527095, 205.30350)],
)
def test_the_independent_program_has_the_known_digits(epsilon, mean, first, trace):
    stream = dpoco.datasets.load("phishing")
    rows, labels = clipped(stream.features, B), stream.labels
    d, rounds = 10, len(rows)
    plan = accountant.calibrate(
        LpBall(d, 2.0, R), LOGISTIC, horizon=rounds, budget=budget(epsilon, rounds),
        numerics="float",
    )  # fmt: skip
    p, own = plan.mechanism, accountant.deviations(plan.mechanism)
    place, total = np.arange(1, 66), np.zeros(65)

    def release(k, block):
        total[:] += block
        return total + own[k] * np.cos(1.3 * (k + 1) + 0.7 * place)

    decisions, point, metric = reference.play(
        rows, labels, R, reference.half_slope, p.summand.weight, ends_of(p), own,
        release, plan.tuning.step_size,
    )  # fmt: skip
    losses = LogisticLoss(1.0).value
    played = [losses(x, row, y) for x, row, y in zip(decisions, rows, labels, strict=True)]
    assert np.mean(played) == pytest.approx(mean, rel=1e-6)
    assert point[0] == pytest.approx(first, rel=1e-6)
    assert np.trace(metric) == pytest.approx(trace, rel=1e-6)
    if epsilon is None:
        learner = NoisyNewton(LpBall(d, 2.0, R), LOGISTIC, horizon=rounds, budget=None)
        run = learner.run(stream.features, labels)
        assert run.losses.mean() == pytest.approx(mean, rel=1e-7)
        assert np.abs(run.decisions - decisions).max() < 1e-9


BOX = Box([-1.5, -0.5, -2.0, -1.0], [1.5, 0.5, 2.0, 1.0])


@pytest.mark.parametrize("half_life", [None, 40.0, 12.0, 3.0])
@pytest.mark.parametrize("numerics", ["float", "lattice"])
@pytest.mark.parametrize(
    ("domain", "loss", "scalars", "nearest"),
    [
        (LpBall(4, 2.0, 6.0), LogisticLoss(1.0), reference.half_slope, reference.on_ball),
        (LpBall(4, 2.0, 1.0), HuberLoss(1.0, 1.0, threshold=0.4), reference.huber(0.4),
         reference.on_ball),
        (BOX, LogisticLoss(9.0, feature_bound_l2=1.0), reference.half_slope,
         reference.on_box(BOX.lower, BOX.upper)),
    ],
    ids=["ball", "huber", "box"],
)  # fmt: skip
def test_decisions_are_those_of_an_independent_program(
    domain, loss, scalars, nearest, numerics, half_life
):
    """Of the same noise, drawn once more by a sum alone."""
    rounds, d = 300, 4
    rows, labels = world(rounds, d, 5)
    rows, labels = 1.5 * rows, labels if isinstance(loss, LogisticLoss) else 2.0 * labels - 1.0
    learner = NoisyNewton(
        domain, loss, horizon=rounds, budget=dpoco.Budget(8.0, 1e-4), numerics=numerics,
        source=Source.seeded(3), half_life=half_life,
    )  # fmt: skip
    tuning, total = learner.plan.tuning, learner._mechanism
    lengths = batch_lengths(total.batch, total.growth, total.pushes)
    ends = np.cumsum(lengths).astype(int).tolist()
    kept = None if half_life is None else np.exp2(-lengths * 0.3 / half_life)
    assert (total.growth is None) == (half_life in (12.0, 3.0))
    assert ((total.batch, total.growth) == (1, None)) == (half_life == 3.0)
    twin = sum_alone(total, Source.seeded(3)._claim())
    decisions, _, _ = reference.play(
        clipped(rows, 1.0), labels, getattr(domain, "radius", 0.0), scalars,
        total.summand.weight, ends, accountant.deviations(total, half_life),
        lambda k, block: np.array(twin.push(block)), tuning.step_size,
        nearest=nearest, kept=kept,
    )  # fmt: skip
    found = learner.run(rows, labels)
    assert np.abs(found.decisions - decisions).max() < 1e-7
    assert len(found.switches) > 10
    assert np.abs(decisions).max() > 0.1
    margins = np.einsum("td,td->t", clipped(rows, 1.0), decisions)
    plain = loss.value(np.ones(1), margins[:, None], labels)  # the logistic loss, not half slopes
    assert np.allclose(found.losses, plain, atol=1e-6)


def heavier(plan, weight):
    """A plan in doubles, whose curvatures have another weight."""
    summand = replace(plan.mechanism.summand, weight=weight)
    total = replace(plan.mechanism, summand=summand, grid=0.0, limit=0)
    return replace(plan, mechanism=total)


def packed_gap(learner, at, one, other):
    leaf = learner._engine.leaf
    records = [(np.array(x, dtype=float), float(y)) for x, y in (one, other)]
    return float(np.linalg.norm(np.subtract(*(leaf(at, at, x, y) for x, y in records))))


def test_extremal_records_of_the_lemma():
    """A bound that forgets curvature is passed, and so is the right one by another triangle."""
    options = {"horizon": 100, "budget": dpoco.Budget(1.0, 1e-4)}
    wide, loss = LpBall(3, 2.0, 1e4), LogisticLoss(1.0)
    learner = NoisyNewton(wide, loss, **options)
    bound = learner.guarantee.sensitivity
    far, u, v = np.array([0.0, 1e4, 0.0]), np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    turned = -math.cos(1e-2) * u + math.sin(1e-2) * v
    apart = packed_gap(learner, far, (u, 0.0), (turned, 0.0))
    assert 0.9999 * bound < apart <= bound
    assert apart > 1.06 * 2.0 * 0.5  # gradients alone
    still = np.zeros(3)
    assert packed_gap(learner, still, (u, 0.0), (-u, 0.0)) == pytest.approx(1.0, rel=1e-12)
    emptied = NoisyNewton(wide, loss, relation="zero_out", **options)
    alone = packed_gap(emptied, still, (v, 1.0), (np.nan * v, 1.0))
    assert alone == pytest.approx(emptied.guarantee.sensitivity, rel=1e-11)

    heavy = math.sqrt(3.0) * 0.5 / 0.25
    changed = heavier(learner.plan, heavy)
    angled = (np.array([math.sqrt(5 / 12), 0.0, math.sqrt(7 / 12)]),
              np.array([math.sqrt(5 / 12), 0.0, -math.sqrt(7 / 12)]))  # fmt: skip
    assert angled[0] @ angled[1] == pytest.approx(-1.0 / 6.0)
    honest = changed.mechanism.summand
    whole = honest.movement(learner.guarantee.neighbours)
    second = NoisyNewton(wide, loss, horizon=100, budget=None, plan=changed)
    records = [(x, y) for x, y in zip(angled, (0.0, 0.0), strict=True)]
    assert packed_gap(second, still, *records) == pytest.approx(whole, rel=1e-11)
    leaves = [second._engine.leaf(still, still, x, 0.0)[3:] for x in angled]
    off = np.triu_indices(3)[0] != np.triu_indices(3)[1]
    wrong = np.where(off, math.sqrt(2.0), 1.0) * np.subtract(*leaves)
    slopes = np.linalg.norm(0.5 * (angled[0] - angled[1]))
    assert math.hypot(slopes, np.linalg.norm(wrong)) > 1.01 * whole


def test_replay_finds_an_understated_sensitivity():
    rows, labels = world(60, 3, 2)
    rows[0], labels[0] = [math.sqrt(5 / 12), 0.0, math.sqrt(7 / 12)], 0.0
    worst = (0, np.array([math.sqrt(5 / 12), 0.0, -math.sqrt(7 / 12)]), 0.0)
    domain, loss, given = LpBall(3, 2.0, R), LogisticLoss(1.0), dpoco.Budget(1.0, 1e-4)
    plain = accountant.calibrate(domain, loss, horizon=60, budget=given)
    heavy = heavier(plain, math.sqrt(3.0) * 2.0)
    summand = heavy.mechanism.summand
    right = summand.movement(dpoco.privacy.neighbours.Neighbours())
    for factor in (1.0, 2.0 * 0.5 / right):

        def make(source, factor=factor):
            learner = NoisyNewton(domain, loss, horizon=60, budget=None, plan=heavy, source=source)
            total = learner._mechanism
            small = unchecked(total.summand, movement=lambda *_: factor * right)
            learner._mechanism = unchecked(total, summand=small)
            return learner

        assert replay_audit(make, (rows, labels), [worst]).passed == (factor == 1.0)


def test_the_noise_has_its_law():
    """Of empty records, in steps so short that no matrix turns them; a tenth more is found out."""
    d, drawn = 120, []
    for seed in range(8):
        learner = NoisyNewton(
            LpBall(d, 2.0, 1e-3), LOGISTIC, horizon=2, budget=dpoco.Budget(1.0, 1e-5),
            shrinkage=0.0, source=Source.seeded(seed),
        )  # fmt: skip
        learner.run(np.full((1, d), np.nan), np.zeros(1))
        deviation = accountant.deviations(learner._mechanism)[0]
        drawn.append(learner.last_decision / (learner.plan.tuning.step_size * deviation))
    squares = float(np.sum(np.square(drawn)))
    law = scipy.stats.chi2(8 * d)
    assert min(law.cdf(squares), law.sf(squares)) > 1e-6
    assert law.sf(1.15**2 * squares) < 1e-6
    assert scipy.stats.kstest(np.ravel(drawn), "norm").pvalue > 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_it_learns_where_there_is_something_to_learn(seed):
    """Steps against the gradient's sign, or of matrices that are noise, lose to the centre."""
    rows, labels = world(8000, 5, seed)
    run = NoisyNewton(
        LpBall(5, 2.0, R), LogisticLoss(math.sqrt(5 / 3)), horizon=8000, budget=budget(1.0, 8000),
        source=Source.seeded(seed),
    ).run(rows, labels)  # fmt: skip
    leader = NoisyFTRL(
        LpBall(5, 2.0, R), LogisticLoss(math.sqrt(5 / 3)), horizon=8000, budget=budget(1.0, 8000),
        step_size="predicted", source=Source.seeded(seed),
    ).run(rows, labels)  # fmt: skip
    assert run.losses[4000:].mean() < 0.85 * math.log(2.0)
    assert run.losses.mean() < leader.losses.mean()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("rounds", "epsilon"), [(1000, 0.01), (1000, 1.0), (10_000, 0.1)])
def test_on_labels_that_are_noise_it_hardly_loses_to_the_centre(rounds, epsilon, seed):
    rows, labels = world(rounds, 10, seed, noise=True)
    lost = [
        NoisyNewton(
            LpBall(10, 2.0, R), LOGISTIC, horizon=rounds, budget=budget(epsilon, rounds),
            source=Source.seeded(16 * seed + k),
        ).run(rows, labels, record_decisions=False).losses.mean()
        for k in range(3)
    ]  # fmt: skip
    assert np.mean(lost) - math.log(2.0) < 0.02


def test_an_unknown_horizon_has_a_plan_of_its_own():
    given = budget(1.0, 10**5)
    learner = NoisyNewton(LpBall(10, 2.0, R), LOGISTIC, horizon=None, budget=given)
    p, own = learner._mechanism, accountant.deviations(learner._mechanism)
    assert (p.batch, p.factorisation.kind) == (11, "blt")
    assert 31_000 < p.pushes < 32_000  # the root of 10^9
    assert len(learner.run(*world(500, 10, 1)).switches) > 10
    known = accountant.calibrate(
        LpBall(10, 2.0, R), LOGISTIC, horizon=10**5, budget=budget(1.0, 10**5)
    )
    assert 1.0 < own[300] / accountant.deviations(known.mechanism)[300] < 1.6
    planned = np.sqrt(np.mean(own[:321] ** 2))
    assert learner.plan.tuning.step_size == pytest.approx(
        0.3 * R / (math.sqrt(10) * planned), rel=1e-12
    )


def drifting(kind, rounds, d, seed, **options):
    """Records of a logistic law whose truth, 6 long, moves; and margins of the truth."""
    moving = dpoco.environments.DriftingRegression(kind, rounds, d, seed=seed, **options)
    margins = 6.0 * np.einsum("td,td->t", moving.features, moving.truth)
    drawn = np.random.default_rng(seed).random(rounds)
    return moving.features, (drawn < 1.0 / (1.0 + np.exp(-margins))).astype(float), margins


@pytest.mark.parametrize(
    ("kind", "options", "factor"),
    [
        ("turning", {"period": 5000}, 0.5),
        ("jumping", {"period": 10_000}, 0.7),
        ("constant", {}, 2.2),
    ],
)
def test_with_a_half_life_it_follows_the_truth(kind, options, factor):
    """Steps whose metric never falls lose two times more where the truth turns."""
    d, rounds, regrets = 5, 40_000, dict.fromkeys((None, 1200.0), 0.0)
    for seed, half_life in ((seed, half_life) for seed in range(2) for half_life in regrets):
        rows, labels, margins = drifting(kind, rounds, d, seed, **options)
        run = NoisyNewton(
            LpBall(d, 2.0, R), LogisticLoss(1.0), horizon=rounds, budget=budget(1.0, rounds),
            half_life=half_life, source=Source.seeded(seed),
        ).run(rows, labels, record_decisions=False)  # fmt: skip
        best = np.logaddexp(0.0, margins) - labels * margins
        regrets[half_life] += float((run.losses - best).mean())
    assert regrets[1200.0] < factor * regrets[None]


def test_forgetting_is_an_option_of_the_plan_and_costs_no_privacy():
    domain, loss, given = LpBall(3, 2.0, R), LogisticLoss(1.0), dpoco.Budget(1.0, 1e-9)
    for horizon, half_life in (
        (50_000, 1500.0), (50_000, 100.0), (None, 3000.0), (10**8, 3e6)
    ):  # fmt: skip
        own = NoisyNewton(domain, loss, horizon=horizon, budget=given, half_life=half_life)
        total = own._mechanism
        assert 0.999 < own.guarantee.epsilon <= 1.0
        own.guarantee.verify()
        assert total.batch <= half_life
        later = accountant.deviations(total, half_life)
        assert later[-1] < 1.001 * later[len(later) // 2]  # noise does not grow without end
    person = dpoco.Participation(rounds=3, separation=100)
    own = NoisyNewton(
        domain, loss, horizon=5000, budget=given, half_life=90.0, participation=person
    )
    assert own._mechanism.growth is None
    assert 0.99 < own.guarantee.epsilon <= 1.0
    plain = NoisyNewton(domain, loss, horizon=500, budget=given)
    assert "half_life" not in plain.plan.to_dict()["tuning"]
    for wrong in (0.0, -1.0, 0.5, math.nan, math.inf, "auto", True):
        with pytest.raises((ValueError, TypeError), match="half_life"):
            NoisyNewton(domain, loss, horizon=500, budget=given, half_life=wrong)


def test_choose_takes_one_that_forgets_where_the_truth_moves():
    problem = LpBall(3, 2.0, R), LogisticLoss(1.0)
    for horizon, half_life in ((10_000, 300.0), (None, 3000.0)):
        options = {"horizon": horizon, "budget": dpoco.Budget(1.0, 1e-6)}
        first, *_ = dpoco.choose(problem, **options, drift=True)
        assert (first.learner, first.options["half_life"]) == ("oco.NoisyNewton", half_life)
        assert not any("half_life" in each.options for each in dpoco.choose(problem, **options))


def test_what_is_not_proved_or_too_large_is_refused_in_one_line():
    given = {"horizon": 100, "budget": dpoco.Budget(1.0, 1e-4)}
    assert NoisyNewton(LpBall(3, 2.0), LogisticLoss(1.0), max_dimension=3, **given).round == 0
    p = NoisyNewton(LpBall(3, 2.0), LogisticLoss(1.0), **given).plan
    wrong = replace(p, tuning=replace(p.tuning, horizon=200))
    with pytest.raises(ValueError, match="so many rounds"):
        NoisyNewton(LpBall(3, 2.0), LogisticLoss(1.0), horizon=200, budget=None, plan=wrong)
    with pytest.warns(dpoco.NoiseDominatesWarning):
        NoisyNewton(LpBall(3, 2.0), LogisticLoss(1.0), horizon=100, budget=dpoco.Budget(0.01, 1e-4))
    said = NoisyNewton(LpBall(3, 2.0), LogisticLoss(1.0), **given).guarantee
    assert said.regret_bound == pytest.approx(100 * 2.0 / (1.0 + math.exp(-1.0)))
    assert "nothing better" in said.details["regret bound holds for"]
