"""Replay catches bounds that are too small for what records move, and noise below the claim."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.descriptions import changed, number, unchecked

import dpoco
from dpoco.accounting import oblivious_tracker
from dpoco.audit import replay_audit
from dpoco.bandits import LinUCB
from dpoco.experts import ObliviousTracker, PrefixHedge
from dpoco.frank_wolfe import PolyhedralFrankWolfe, SufficientStatistics, TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.mechanisms import ContinualSum
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

cases = sys.modules["audit_replay_cases"]
tampered = sys.modules["audit_likelihood_cases"].tampered
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


LOUD = {
    "TreeFrankWolfe", "TreeFrankWolfe, batches", "TreeFrankWolfe, linear", "PolyhedralFrankWolfe",
    "PolyhedralFrankWolfe, batches", "PolyhedralFrankWolfe, points", "NoisyFTRL",
    "NoisyFTRL, batches", "NoisyFTRL, quadratic", "LipschitzLearner", "PrefixHedge", "LinUCB",
    "LinUCB, batches", "ContinualSum", "ContinualSum, l1 and generalized",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOUD))
def test_an_understated_sensitivity_is_caught(name):
    make, stream, replacements = cases.CASES[name]
    honest = replay_audit(make, stream, replacements)
    quantity = next(key for key in honest.changes if key == "the sum")

    def liar(source):
        learner = make(source)
        small = 0.99 * honest.changes[quantity][0]
        if name.startswith("Poly"):
            own = learner._mechanism
            scores = unchecked(own.scores, leaf=0.5 * small / own.scores.slope)
            learner._mechanism = unchecked(own, scores=scores)
            return learner
        summand = unchecked(learner._mechanism.summand, movement=lambda *_: small)
        learner._mechanism = unchecked(learner._mechanism, summand=summand)
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert not caught.passed
    assert "moved the sum" in str(caught)


@pytest.mark.parametrize("name", sorted(LOUD - {"ContinualSum, l1 and generalized"}))
def test_noise_below_the_claim_is_caught(name):
    make, stream, replacements = cases.CASES[name]
    if name.startswith("Polyhedral"):
        pytest.skip("its odds are the likelihood audit's")

    def liar(source):
        learner = make(source)
        total = learner._mechanism
        learner._mechanism = unchecked(total, scale=0.1 * total.scale)
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert "mu of the releases" in str(caught)
    assert not caught.passed


def halved(name, **changes):
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        plan = learner.plan
        own = {key: factor * number(plan, key) for key, factor in changes.items()}
        if isinstance(learner, ObliviousTracker):  # held to what is promised
            learner._guarantee = oblivious_tracker.guarantee(changed(plan, **own))
        else:
            tampered(learner, changed(plan, **own))
        return learner

    return replay_audit(liar, stream, replacements)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("NoisyMax", {"scale": 0.5}),
        ("NoisyMax, counts", {"scale": 0.9}),
        ("NoisyMax, counts", {"sensitivity": 2.0}),  # granted: no more than the guarantee was for
        ("AboveThreshold", {"query_scale": 0.5}),
        ("AboveThreshold, alarms", {"threshold_scale": 0.5}),
        ("BatchShare", {"scale": 0.25}),
        ("BatchShare, laplace", {"scale": 0.25}),
        ("BatchShare, gaussian", {"scale": 0.25}),
        ("BatchShare, response", {"scale": 0.25}),
        ("EpochSelector", {"scale": 0.5}),
        ("EpochSelector, gumbel", {"scale": 0.5}),
        ("WindowSelector", {"scale": 0.5}),
        ("ShiftDetector", {"scale": 0.25}),
        ("ObliviousTracker", {"learning_rate": 0.4}),
        ("ObliviousTracker, coins", {"learning_rate": 0.5}),
        ("ContinuousMultiplicativeWeights", {"high": 0.1, "low": 0.1}),
        ("ContinuousMultiplicativeWeights, dartboard", {"span": 0.1}),
        ("SufficientStatistics", {"scale": 0.2}),
    ],
)
def test_scales_that_do_not_fit_the_claim_are_caught(name, changes):
    report = halved(name, **changes)
    if changes == {"sensitivity": 2.0}:
        assert report.passed  # rows of the stream still move by no more
    else:
        assert not report.passed, str(report)


@pytest.mark.parametrize(
    ("used", "promised", "finding"),
    [
        ({"learning_rate": 1.25}, {}, "law of fresh draws"),
        ({"learning_rate": 1.25}, {}, "the coin of its batch"),
        ({"forced": 0.02}, {}, "a coin stays with a larger chance"),
        ({"cap": None}, {"cap": 1}, "more fresh draws"),
        ({"batch": 1}, {}, "coins of other batches"),
    ],
)
def test_coins_are_held_to_the_promise_and_not_to_the_parameters(used, promised, finding):
    honest, stream, replacements = cases.CASES["ObliviousTracker, coins"]
    own = honest(Source.seeded(0)).plan

    def make(source, changes=used):
        p = changed(own, **changes)
        return ObliviousTracker(cases.N, horizon=cases.T, budget=None, plan=p, source=source)

    promise = make(Source.seeded(0), promised).guarantee

    def liar(source):
        learner = make(source)
        learner._guarantee = promise
        return learner

    replacements = [*replacements, (3, np.arange(cases.N) % 2.0), (2, 1.0 - np.arange(cases.N) % 2)]
    assert finding in str(replay_audit(liar, stream, replacements))
    assert not replay_audit(make, stream, replacements).violated


def with_engine_of(name, other):
    """A learner that declares one thing and runs the engine of another."""
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        learner._engine = other(source)._engine
        return learner

    return replay_audit(liar, stream, replacements)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("TreeFrankWolfe", cases.of(TreeFrankWolfe, cases.BALL, SquaredLoss(100.0, 1.0))),
        ("PolyhedralFrankWolfe",
         cases.of(PolyhedralFrankWolfe, cases.CROSS, SquaredLoss(100.0, 1.0), batch=1)),
        ("NoisyFTRL, batches", cases.of(NoisyFTRL, cases.BALL, SquaredLoss(100.0, 1.0), batch=4)),
        ("PrefixHedge", cases.of(PrefixHedge, cases.N, loss_range=(-9.0, 0.5))),
        ("LipschitzLearner", cases.of(
            dpoco.oco.LipschitzLearner, dpoco.domains.Box([0.0], [1.0]), lipschitz=1.0,
            resolution=cases.N, enforce=False)),
        ("LinUCB", cases.of(LinUCB, 2, cases.D, batch=1, context_bound=9.0, reward_bound=9.0)),
        ("ContinualSum", cases.of(ContinualSum, cases.D, bound=50.0)),
    ],
)  # fmt: skip
def test_a_forgotten_clip_is_caught(name, other):
    if name == "PrefixHedge":
        _, stream, replacements = cases.CASES[name]

        class Wide(PrefixHedge):
            """Losses are scaled up before they are admitted, by a wrong range."""

            def observe(self, losses):
                super().observe(3.0 * np.asarray(losses) - 1.0)

        report = replay_audit(cases.of(Wide, cases.N), stream, replacements)
    else:
        report = with_engine_of(name, other)
    assert not report.passed


def test_a_forgotten_clip_of_a_fit_is_caught():
    class Unclipped(SufficientStatistics):
        def _engine(self):
            honest = self._mechanism, self._loss
            wide = replace(honest[0].summand, features=100.0)
            self._mechanism = replace(honest[0], summand=wide)
            try:
                return super()._engine()
            finally:
                self._mechanism, self._loss = honest

    assert not replay_audit(cases.batch(Unclipped), (cases.X, cases.Y), cases.RECORDS).passed
