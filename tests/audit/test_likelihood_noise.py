"""Engines of another law than the claim rests on, and noise that is used again."""

from __future__ import annotations

import sys
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from dpoco import _core
from dpoco.audit import likelihood_audit
from dpoco.mechanisms import ContinualSum, NoisyMax

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


OTHER = [
    *((name, {"noise_scale": factor}, None)
      for factor in (0.8, 1.25)
      for name in ("ContinualSum, blt", "ContinualSum, lattice", "TreeFrankWolfe", "NoisyFTRL",
                   "PrefixHedge", "BatchShare, knorm", "BatchShare, gaussian",
                   "BatchShare, laplace")),
    *((f"NoisyMax, {noise}", {"scale": factor}, 1000)
      for factor in (0.1, 0.2) for noise in ("gumbel", "exponential")),
    ("PolyhedralFrankWolfe", {"scale": 0.1}, 700),
    ("EpochSelector, exponential", {"scale": 0.3}, 400),
    ("EpochSelector, laplace", {"scale": 8.0}, 400),
    ("AboveThreshold", {"threshold_noise_scale": 6.0}, 400),
    ("AboveThreshold, alarms", {"threshold_noise_scale": 6.0}, 400),
    ("ShiftDetector, early", {"query_noise_scale": 0.2}, 400),
    ("ShiftDetector, early", {"threshold_noise_scale": 0.1}, 400),
    ("ObliviousTracker", {"forced_switch": 0.5}, 400),
    ("ObliviousTracker, at most", {"learning_rate": 6.0}, 400),
    ("LinUCB", {"noise_scale": 0.7}, None),
    ("LinUCB, lattice", {"noise_scale": 1.4}, None),
    ("HighDimensionalBandit", {"scale": 0.3}, None),
    ("HighDimensionalBandit, tree", {"noise_scale": 0.7}, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "factors", "runs"), OTHER)
def test_an_engine_of_another_law_is_caught(name, factors, runs):
    make, stream, neighbour, trials = cases.CASES[name]

    def change(p):
        if hasattr(p, "arm"):
            return replace(p, arm=change(p.arm))
        return replace(p, **{key: factor * getattr(p, key) for key, factor in factors.items()})

    report = likelihood_audit(cases.rebuilt(make, change), stream, neighbour, runs or trials)
    assert report.violated, str(report)


@pytest.mark.parametrize("name", ["HighDimensionalBandit", "HighDimensionalBandit, tree"])
def test_arms_that_share_their_noise_are_caught(name):
    make, stream, neighbour, _ = cases.ARMS[name]

    honest = _core.HighDimensionalBandit

    def shared(domain, loss, clipper, settings, start):
        for model in settings["models"]:
            for noise in (model[rule] for rule in ("sum", "selection") if rule in model):
                noise["stream"] = 0
        return honest(domain, loss, clipper, settings, start)

    def liar(source):
        learner = make(source)
        with patch.object(_core, "HighDimensionalBandit", shared):
            learner._engine = learner._build_engine({"key": source._key, "stream": 1})
        return learner

    report = likelihood_audit(liar, stream, neighbour, 200)
    assert report.violated, str(report)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("NoisyFrankWolfe", "first_scale"),
        ("PhasedSGD", "noise_multiplier"),
        ("NoisySGD", "noise_scale"),
        ("LocalizedMirrorDescent", "noise_multiplier"),
    ],
)
def test_fits_with_noise_of_another_scale_are_caught(name, field):
    make, stream, neighbour, _ = cases.FITS[name]

    class Quiet(type(make(None))):
        """Adds less noise than it is audited for."""

        def _engine(self, features, labels):
            honest = self._parameters, self._mechanism
            p = replace(honest[0], **{field: 0.8 * getattr(honest[0], field)})
            planted = self._accountant.mechanism_of(self._domain, self._loss, p)
            self._parameters, self._mechanism = p, planted
            try:
                return super()._engine(features, labels)
            finally:
                self._parameters, self._mechanism = honest

    def liar(source):
        learner = make(source)
        learner.__class__ = Quiet
        return learner

    report = likelihood_audit(liar, stream, neighbour, 150)
    assert "does not follow" in str(report)


def test_noise_that_is_used_again_is_caught():
    class Again(ContinualSum):
        """Gives out differences of the same noise in every round."""

        first = None

        def push(self, value):
            released = super().push(value)
            state = np.frombuffer(self._engine.state(), dtype="<u8")
            total = state[2 : 2 + self.parameters.dimension].view(np.float64)
            if self.first is None:
                self.first = released - total
            return total + self.first

    options = {"horizon": cases.T, "budget": cases.GAUSS, "method": "toeplitz", "numerics": "float"}
    make = cases.prepared(Again, 2, **options)
    report = likelihood_audit(make, cases.G, cases.H, 300)
    assert report.violated
    assert any("noise" in text for text in report.findings)


def test_selections_from_the_same_noise_are_caught():
    class Stuck(NoisyMax):
        """Draws every selection from the first one's uniforms."""

        chosen = None

        def select(self, scores):
            fresh = super().select(scores)
            self.chosen = fresh if self.chosen is None else self.chosen
            return self.chosen

    make = cases.prepared(Stuck, 4, horizon=3, budget=cases.PURE)
    assert likelihood_audit(make, cases.SCORES, cases.MOVED, 1000).violated
