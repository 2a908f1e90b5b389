"""Noise that comes back at any lag or is not there, draws that do not heed their weights."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from dpoco.audit import likelihood_audit
from dpoco.audit._scorer import Scores, draws_of, uniform_findings
from dpoco.random import Source

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

ERROR, TRIALS, STEPS, ENTRIES = 1e-6, 300, 12, 3
RNG = np.random.default_rng(8)
CLEAN = RNG.uniform(size=(TRIALS, STEPS, ENTRIES))


def found(uniforms, **draws):
    other = Scores(np.zeros(TRIALS), RNG.uniform(size=uniforms.shape))
    return list(
        uniform_findings([Scores(np.zeros(TRIALS), uniforms, (), draws), other], ERROR, 0.0)
    )


def test_independent_uniforms_are_what_they_are():
    assert found(CLEAN) == []
    assert found(CLEAN[:, :, 0], order=CLEAN[:, :, 1]) == []
    assert found(np.empty((TRIALS, 0))) == []


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("lag", [1, 2, 5, 11])
def test_one_column_that_repeats_another_is_seen(lag, sign):
    u = CLEAN.copy()
    u[:, lag] = (sign * u[:, 0]) % 1.0
    findings = [text for text in found(u) if f"in steps 1 and {lag + 1}" in text]
    assert len(findings) == 1
    assert ("sign changed" in findings[0]) == (sign < 0.0)


def test_entries_that_share_their_noise_are_seen():
    u = CLEAN.copy()
    u[:, :, 2] = u[:, :, 0]
    assert any("in entries 1 and 3" in text for text in found(u))


def test_noise_that_comes_back_late_in_long_runs_is_seen():
    """Beyond the pairs that are compared one by one: all pairs at a lag together."""
    u = RNG.uniform(size=(TRIALS, 120))
    u[:, 60:] = u[:, :60]
    assert any("at a lag of 60" in text for text in found(u))


def test_draws_by_weights_are_uniform_and_others_are_not():
    weights = RNG.dirichlet(np.ones(4), size=(TRIALS, STEPS))
    exact = RNG.normal(size=(STEPS, 4))

    def draws(laws):
        picked = (RNG.uniform(size=(TRIALS, STEPS, 1)) > np.cumsum(laws, axis=2)).sum(axis=2)
        return draws_of(weights, np.minimum(picked, 3), exact, 0)

    assert found(CLEAN, **draws(weights)) == []
    # As likely as by the weights on average, but without them.
    assert "their weights" in str(found(CLEAN, **draws(np.full_like(weights, 0.25))))
    tilted = weights * np.exp(-exact)
    tilted /= tilted.sum(axis=2, keepdims=True)
    assert "the exact losses" in str(found(CLEAN, **draws(tilted)))


def overt(make, exact):
    """A maker of learners that decide by what is not released."""

    class Overt(type(make(Source.seeded(0)))):
        """Decides by the exact sums."""

        totals = None

        def decide(self):
            played = super().decide()
            return played if self.totals is None else exact(self, played)

        def observe(self, losses):
            super().observe(losses)
            row = np.asarray(losses)
            self.totals = row if self.totals is None else self.totals + row

    def liar(source):
        learner = make(source)
        learner.__class__ = Overt
        return learner

    return liar


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("PrefixHedge", lambda learner, _: int(np.argmin(learner.totals))),
        ("PrefixHedge", lambda learner, _: learner.round % learner.experts),
        ("BatchShare, knorm", lambda learner, _: int(np.argmin(learner.totals))),
        ("BatchShare, gaussian", lambda learner, _: int(np.argmin(learner.totals))),
        ("LipschitzLearner", lambda learner, _: learner.points[int(np.argmin(learner.totals))]),
        ("NoisyFTRL", lambda learner, played: played - 1e-3 * learner.totals),
    ],
)
def test_decisions_by_exact_sums_are_caught(name, exact):
    make, stream, neighbour, _ = cases.CASES[name]
    report = likelihood_audit(overt(make, exact), stream, neighbour, 250)
    assert any("decide" in text or "decisions" in text for text in report.findings), str(report)


@pytest.mark.parametrize(
    "name", ["BatchShare, knorm", "BatchShare, laplace", "BatchShare, gaussian"]
)
def test_no_noise_at_all_is_a_finding_and_no_warning(name):
    make, stream, neighbour, _ = cases.CASES[name]
    silent = cases.rebuilt(make, lambda p: replace(p, noise="none", noise_scale=0.0))
    report = likelihood_audit(silent, stream, neighbour, 250)
    assert report.violated
    # Without noise sums are not centred, which Gaussian noise would be for.
    assert ("no noise at all" in str(report)) == ("gaussian" not in name)


@pytest.mark.parametrize(
    "name", ["PolyhedralFrankWolfe", "PolyhedralFrankWolfe, points", "NoisyMax, laplace"]
)
def test_next_to_no_noise_is_a_finding_and_no_warning(name):
    make, stream, neighbour, _ = cases.CASES[name]
    honest = make.once().guarantee

    def quiet(source):
        learner = make(source)
        p = replace(learner.parameters, scale=1e-9 * learner.parameters.scale)
        cases.tampered(learner, p)
        learner._engine = learner._build_engine({"key": source._key, "stream": 1})
        learner._guarantee = honest
        return learner

    assert likelihood_audit(quiet, stream, neighbour, 250).violated
