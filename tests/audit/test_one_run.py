"""One-run audits: the bound against brute force, coins under seal, journals, and learners."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy

import dpoco
from dpoco.audit import NoPowerError, OneRunAudit, false_refutation, standard_case, standard_one_run
from dpoco.audit import one_run as subject
from dpoco.domains import LpBall
from dpoco.errors import StateError
from dpoco.losses import LinearLoss
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

BUDGET = dpoco.Budget(4.0, 1e-6)


def exact_tail(claim, canaries, guesses, correct):
    """Return the larger chance of so many right guesses of two mechanisms that keep the claim.

    All coins are answered alike, and the first `guesses` are guessed: each with the truth with
    chance `delta` and by randomized response otherwise; or all with the truth with that chance.
    """
    epsilon, delta = claim
    q = 1.0 / (1.0 + np.exp(-epsilon))
    alone = scipy.stats.binom.sf(correct - 1, guesses, delta + (1.0 - delta) * q)
    together = delta + (1.0 - delta) * scipy.stats.binom.sf(correct - 1, guesses, q)
    return max(alone, together)


def shared_leak(f_inverse, guesses, correct, share):
    """Chance of `correct` when a run in `share` answers all coins with one surest response."""
    # The most certain answers that a curve allows to an event of that chance: a(wrong) + b(right).
    low, high = 0.0, share
    for _ in range(60):
        right = 0.5 * (low + high)
        wrong = f_inverse(right)
        low, high = (right, high) if right + wrong <= share else (low, right)
    return share * scipy.stats.binom.sf(correct - 1, guesses, low / share)


@pytest.mark.parametrize("claim", [(0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 0.01), (4.0, 1e-3)])
@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (4, 2), (9, 9), (60, 25)])
def test_no_mechanism_is_refuted_too_often(claim, canaries, guesses):
    for correct in range(guesses + 1):
        bound = false_refutation(claim, canaries, guesses, correct)
        assert bound >= exact_tail(claim, canaries, guesses, correct) * (1 - 1e-9)
    assert false_refutation(claim, canaries, guesses, 0) == 1.0


def test_a_correlated_leak_is_covered_and_independent_answers_are_not_enough():
    """Runs of one in twenty are less private for all coins at once, as mu-GDP allows."""
    mu, guesses = 1.0, 40
    claim = dpoco.Guarantee.gaussian(sensitivity=mu, noise_scale=1.0, delta=1e-6, horizon=1)
    ratios, deltas = subject._state_curve(claim)

    def inverse(right):
        return max(0.0, float(np.max(ratios * (right - deltas))))

    broken = 0
    for share in (0.02, 0.05, 0.2, 0.5, 1.0):
        for correct in range(20, guesses + 1, 2):
            # All canaries are guessed in the share, none outside: as hard as it gets.
            chance = shared_leak(inverse, guesses, correct, share)
            bound = false_refutation(claim, guesses, guesses, correct)
            assert bound >= chance * (1 - 1e-9)
            # Wrong: as if coins were answered independently, each with the accuracy of the curve.
            broken += scipy.stats.binom.sf(
                correct - 1, guesses, scipy.special.ndtr(mu / 2)
            ) < chance * (1 - 1e-9)
    assert broken > 0


def test_the_bound_covers_every_law_of_a_small_linear_program():
    """Against the best law of the number of right guesses, over constraints on all sets of counts.

    The page's recursion uses sets {j, ..., c} only, so it must not be below the program's optimum,
    and must be its equal with these sets.
    """
    from scipy.optimize import linprog

    m, c = 5, 4
    for epsilon, delta in ((0.7, 0.0), (1.0, 0.05), (2.0, 0.01)):
        ratios, deltas = subject._curve(np.array([epsilon]), np.array([delta]))
        for v in range(1, c + 1):
            values = {}
            tails = [set(range(j, c + 1)) for j in range(1, c + 1)]
            subsets = [
                set(each)
                for n in range(1, c + 1)
                for each in itertools.combinations(range(1, c + 1), n)
            ]
            for name, families in (("tails", tails), ("all", subsets)):
                rows, limits = [], []
                for family in families:
                    for ratio, leak in zip(ratios, deltas, strict=True):
                        row = np.zeros(c + 1)
                        for i in family:
                            row[i] += ratio * i / m
                            row[i - 1] -= (c - i + 1) / m
                        rows.append(row)
                        limits.append(ratio * leak)
                aim = np.where(np.arange(c + 1) >= v, -1.0, 0.0)
                found = linprog(aim, rows, limits, np.ones((1, c + 1)), [1.0])
                values[name] = -found.fun
            bound = false_refutation((epsilon, delta), m, c, v)
            assert bound == pytest.approx(values["tails"], rel=2e-3)
            assert bound >= values["all"] * (1 - 1e-9)


def test_a_recursion_that_counts_one_wrong_guess_too_few_would_be_seen(monkeypatch):
    def wrong(curve, canaries, guesses, correct, chances):
        ratios, deltas = (each[:, None] for each in curve)
        tail, above = chances.copy(), np.zeros_like(chances)
        for j in range(correct, 0, -1):
            least = np.maximum(
                0.0, np.max(ratios * ((j * tail + above) / canaries - deltas), axis=0)
            )
            above += tail
            tail = np.maximum(tail, (above + canaries * least) / max(guesses - j, 0.5))
        return tail <= 1.0

    claim, setting = (1.0, 0.0), (9, 9, 7)
    assert false_refutation(claim, *setting) >= exact_tail(claim, *setting)
    monkeypatch.setattr(subject, "_possible", wrong)
    assert false_refutation(claim, *setting) < exact_tail(claim, *setting)


@functools.cache
def parameters(dimension, horizon):
    learner = NoisyFTRL(LpBall(dimension, 2.0), LinearLoss(1.0), horizon=horizon, budget=BUDGET)
    return learner.plan


def made(source, dimension=100, horizon=10_000, half=False):
    own = parameters(dimension, horizon)
    if half:
        own = replace(own, mechanism=replace(own.mechanism, scale=0.5 * own.mechanism.scale))
    return NoisyFTRL(
        LpBall(dimension, 2.0), LinearLoss(1.0), horizon=horizon, budget=None, plan=own,
        source=source,
    )  # fmt: skip


def planned(canaries=2500, dimension=100, horizon=10_000, **options):
    axes = np.eye(dimension)[np.arange(canaries) % dimension]
    rounds = np.arange(canaries) * (horizon - 1) // canaries
    make = functools.partial(made, dimension=dimension, horizon=horizon)
    return OneRunAudit(make, np.zeros((horizon, dimension)), rounds, axes, -axes, **options)


def test_half_the_noise_is_refuted_in_one_run_and_the_right_noise_is_not():
    """Over a second: eight rehearsals and two runs of ten thousand rounds in 100 dimensions.

    The right noise gives 425 right guesses with deviation 9, and 500 refute: no false alarm in 1e6.
    """
    audit = planned()
    audit._coins = np.random.default_rng(0).random(2500) < 0.5
    (stream,) = audit.records(np.zeros((10_000, 100)))
    halved, honest = (
        audit.report(made(Source.seeded(77), half=half).run(stream).decisions)
        for half in (True, False)
    )
    assert halved.violated
    assert halved.false_refutation <= 0.05 < honest.false_refutation
    assert halved.epsilon > 2.0 * honest.epsilon
    assert halved.mu > audit._guarantee._number("gdp", "mu")
    assert not honest.violated
    assert honest.mu < audit._guarantee._number("gdp", "mu")
    assert "VIOLATED" in str(halved)
    assert "no violation found" in str(honest)
    audit._coins = np.random.default_rng(1).random(2500) < 0.5
    decisions = made(Source.seeded(77), half=True).run(stream).decisions
    assert not audit.report(decisions).violated  # of other coins nothing is known


def test_coins_are_sealed_and_a_journalled_stream_carries_the_canaries(tmp_path):
    """Over a second: rehearsals, and two thousand rounds in a journal."""
    setting = {"canaries": 1500, "dimension": 300, "horizon": 2000}
    seal = tmp_path / "coins"
    audit = planned(**setting, sealed=seal)
    assert seal.stat().st_mode & 0o777 == 0o600
    again = planned(**setting, sealed=seal)
    assert again.commitment == audit.commitment
    assert again.power == audit.power
    assert (again._coins == audit._coins).all()
    # As an audit whose file came while it rehearsed.
    assert audit._draw_coins(seal)[1] == audit.commitment
    assert 600 < audit._coins.sum() < 900  # fair: 7.7 standard deviations
    live = [audit.canary(t) for t in range(2000)]
    assert sum(each is not None for each in live) == 1500
    make = functools.partial(
        NoisyFTRL, LpBall(300, 2.0), LinearLoss(1.0), horizon=2000, budget=BUDGET
    )
    with dpoco.journal.Journal(tmp_path / "releases.db") as journal:
        stream = journal.open("model", make)
        rows = np.stack([np.zeros(300) if each is None else each[0] for each in live])
        assert (rows == audit.records(np.zeros((2000, 300)))[0]).all()
        stream.process(rows, first_round=0)
        report = again.report(stream.releases(0, 2000))
    assert not report.violated
    assert report.correct > 0.5 * audit.power.guesses  # a correct learner tells something
    with pytest.raises(StateError, match="damaged, or of other canaries"):
        planned(**{**setting, "canaries": 1499}, sealed=seal)
    seal.write_bytes(seal.read_bytes()[:-1])
    with pytest.raises(StateError, match="damaged"):
        planned(**setting, sealed=seal)


@pytest.mark.parametrize(
    "name",
    ["tree-frank-wolfe", "polyhedral-frank-wolfe", "noisy-newton", "ctrl", "comw", "lipschitz",
     "prefix-hedge", "epoch-selector", "window-selector", "shift-detector", "oblivious-tracker",
     "batch-share", "linucb", "high-dimensional-bandit", "continual-sum"],
)  # fmt: skip
def test_every_learner_of_rounds_is_played_and_an_audit_without_power_refused(name, tmp_path):
    case = standard_case(name, horizon=8)
    with pytest.raises(
        NoPowerError, match=r"an audit without power: .* is refuted with probability"
    ):
        standard_one_run(case, canaries=4, rehearsals=2, sealed=tmp_path / "coins")
    assert not list(tmp_path.iterdir())  # nothing half done


def test_arguments_that_make_no_audit():
    axes = np.eye(2)

    def audit(rounds=(0, 2), first=axes):
        case = standard_case("noisy-ftrl")
        return OneRunAudit(case.make_learner, np.zeros((6, 2)), rounds, first, -axes)

    for rounds in ((1, 1), (0, 6), (-1, 2)):
        with pytest.raises(ValueError, match="rounds must be"):
            audit(rounds=rounds)
    with pytest.raises(ValueError, match="one record for each of 2 canaries"):
        audit(first=np.eye(2)[:1])
    with pytest.raises(TypeError, match="rounds must be integers"):
        audit(rounds=(0.5, 2.5))
    with pytest.raises(ValueError, match="rehearsals must be at least 2"):
        standard_one_run(standard_case("noisy-ftrl"), canaries=1, rehearsals=1)
    for name in ("sufficient-statistics", "noisy-max"):
        with pytest.raises(ValueError, match=r"rounds|queries"):
            standard_one_run(standard_case(name), canaries=1)
    with pytest.raises(ValueError, match="nothing is claimed"):
        false_refutation(dpoco.Guarantee.none(10), 1, 1, 1)
    with pytest.raises(ValueError, match="correct"):
        false_refutation((1.0, 0.0), 3, 2, 3)
    assert false_refutation((1000.0, 0.0), 2, 2, 2) == 1.0


def test_under_zero_out_one_of_the_records_is_empty_and_a_score_of_ones_own_counts():
    domain, loss = LpBall(2, 2.0), LinearLoss(1.0)

    def make(source):
        budget = dpoco.Budget._derived(50.0, 1e-3)
        return NoisyFTRL(
            domain, loss, horizon=200, budget=budget, relation="zero_out", source=source
        )

    rounds, ones = np.arange(150), np.tile([1.0, 0.0], (150, 1))
    with pytest.raises(ValueError, match="one of the two records must be empty"):
        OneRunAudit(make, np.zeros((200, 2)), rounds, ones, -ones)
    with pytest.raises(ValueError, match="scores must be finite"):
        OneRunAudit(make, np.zeros((200, 2)), rounds, ones, 0 * ones, score=lambda _: np.ones(3))
    with pytest.raises(NoPowerError):
        OneRunAudit(make, np.zeros((200, 2)), rounds, ones, 0 * ones, score=lambda _: np.ones(150))
