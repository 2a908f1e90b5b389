"""Engines of another law than the claim rests on, noise that is used again, unheeded weights."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from tests.audit import likelihood_cases as cases
from tests.audit.faults import derived, planted, rebuilt
from tests.descriptions import changed, number

from dpoco import _core
from dpoco.audit import likelihood_audit
from dpoco.audit._laws import Scores, place_draws
from dpoco.audit.likelihood import uniform_findings

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


OTHER = [
    *(("ContinualSum, blt", {"scale": factor}, None) for factor in (0.8, 1.25)),
    # Either side of a scale is seen by one test of the law of the noise.
    *((name, {"scale": 0.8}, None)
      for name in ("TreeFrankWolfe", "PrefixHedge", "BatchShare, knorm", "BatchShare, laplace")),
    *((name, {"scale": 1.25}, None)
      for name in ("ContinualSum, lattice", "NoisyFTRL", "BatchShare, gaussian")),
    *((f"NoisyMax, {noise}", {"scale": factor}, 1000)
      for factor in (0.1, 0.2) for noise in ("gumbel", "exponential")),
    ("PolyhedralFrankWolfe", {"scale": 0.3}, 450),
    ("EpochSelector, exponential", {"scale": 0.3}, 400),
    ("EpochSelector, laplace", {"scale": 8.0}, 400),
    ("AboveThreshold", {"threshold_scale": 6.0}, 400),
    ("AboveThreshold, alarms", {"threshold_scale": 6.0}, 400),
    ("ShiftDetector, early", {"query_scale": 0.2}, 400),
    ("ShiftDetector, early", {"threshold_scale": 0.1}, 400),
    ("ObliviousTracker", {"forced": 0.5}, 400),
    ("ObliviousTracker, at most", {"learning_rate": 6.0}, 400),
    ("LinUCB", {"scale": 0.7}, None),
    ("LinUCB, lattice", {"scale": 1.4}, None),
    ("HighDimensionalBandit", {"scale": 0.3}, None),
    ("HighDimensionalBandit, tree", {"scale": 0.7}, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "factors", "runs"), OTHER)
def test_an_engine_of_another_law_is_caught(name, factors, runs):
    make, stream, neighbour, trials = cases.CASES[name]

    def change(plan):
        values = {key: factor * number(plan, key) for key, factor in factors.items()}
        if getattr(plan.mechanism, "grid", 0.0) > 0.0:  # as fine as the other noise needs
            was, now = (math.frexp(each)[1] for each in (plan.mechanism.scale, values["scale"]))
            values["grid"] = math.ldexp(plan.mechanism.grid, now - was)
        return changed(plan, **values)

    report = likelihood_audit(planted(make, rebuilt(change)), stream, neighbour, runs or trials)
    assert report.violated, str(report)


@pytest.mark.parametrize("name", ["HighDimensionalBandit", "HighDimensionalBandit, tree"])
def test_arms_that_share_their_noise_are_caught(name):
    make, stream, neighbour, _ = cases.ARMS[name]

    honest = _core.HighDimensionalBandit

    def shared(domain, loss, mechanism, tuning, claims, start):
        same = [{**claim, "stream": 0} for claim in claims]
        return honest(domain, loss, mechanism, tuning, same, start)

    with patch.object(_core, "HighDimensionalBandit", shared):
        report = likelihood_audit(planted(make, rebuilt(lambda plan: plan)), stream, neighbour, 200)
    assert report.violated, str(report)


def test_fits_with_noise_of_another_scale_are_caught():
    make, stream, neighbour, _ = cases.FITS["SufficientStatistics"]

    def quiet(cls):
        class Quiet(cls):
            """Adds less noise than it is audited for."""

            def _engine(self):
                honest = self._mechanism
                self._mechanism = replace(honest, scale=0.8 * honest.scale)
                try:
                    return super()._engine()
                finally:
                    self._mechanism = honest

        return Quiet

    report = likelihood_audit(planted(make, derived(quiet)), stream, neighbour, 150)
    assert "does not follow" in str(report)


# ---- noise that comes back at any lag, draws that do not heed their weights ----------------------

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
        return place_draws(weights, np.minimum(picked, 3), exact, 0)

    assert found(CLEAN, **draws(weights)) == []
    # As likely as by the weights on average, but without them.
    assert "their weights" in str(found(CLEAN, **draws(np.full_like(weights, 0.25))))
    tilted = weights * np.exp(-exact)
    tilted /= tilted.sum(axis=2, keepdims=True)
    assert "the exact losses" in str(found(CLEAN, **draws(tilted)))


def overt(exact):
    """A class of learners that decide by what is not released."""

    def kind(cls):
        class Overt(cls):
            """Decides by the exact sums."""

            totals = None

            def decide(self):
                played = super().decide()
                return played if self.totals is None else exact(self, played)

            def observe(self, *record):
                super().observe(*record)
                row = np.asarray(record[0])
                self.totals = row if self.totals is None else self.totals + row

        return Overt

    return derived(kind)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("PrefixHedge", lambda learner, _: int(np.argmin(learner.totals))),
        ("PrefixHedge", lambda learner, _: learner.round % learner.experts),
        ("BatchShare, knorm", lambda learner, _: int(np.argmin(learner.totals))),
        ("BatchShare, gaussian", lambda learner, _: int(np.argmin(learner.totals))),
        ("LipschitzLearner", lambda learner, _: learner.points[int(np.argmin(learner.totals))]),
        ("NoisyFTRL", lambda learner, played: played - 1e-3 * learner.totals),
        ("PolyhedralFrankWolfe", lambda learner, played: played - 1e-3 * learner.totals),
    ],
)
def test_decisions_by_exact_sums_are_caught(name, exact):
    make, stream, neighbour, _ = cases.CASES[name]
    report = likelihood_audit(planted(make, overt(exact)), stream, neighbour, 250)
    assert any("decide" in text or "decisions" in text for text in report.findings), str(report)


@pytest.mark.parametrize(
    ("name", "scale", "finding"),
    [
        ("BatchShare, knorm", 0.0, "no noise at all"),
        ("BatchShare, laplace", 0.0, "no noise at all"),
        # Without noise sums are not centred, which Gaussian noise would be for.
        ("BatchShare, gaussian", 0.0, ""),
        ("PolyhedralFrankWolfe", 1e-9, ""),
        ("PolyhedralFrankWolfe, points", 1e-9, ""),
        ("NoisyMax, laplace", 1e-9, ""),
    ],
)
def test_hardly_any_noise_is_a_finding_and_no_warning(name, scale, finding):
    make, stream, neighbour, _ = cases.CASES[name]

    def quiet(plan):
        grid = {"grid": 0.0} if hasattr(plan.mechanism, "grid") else {}
        return changed(plan, scale=scale * number(plan, "scale"), **grid)

    fault = rebuilt(quiet, seen=scale > 0.0)
    report = likelihood_audit(planted(make, fault), stream, neighbour, 250)
    assert report.violated
    assert ("no noise at all" in str(report)) == bool(finding)
