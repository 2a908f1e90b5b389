"""Engines whose noise has another scale than the claim rests on, or is used again."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from dpoco.audit import likelihood_audit
from dpoco.mechanisms import ContinualSum, NoisyMax

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize(
    "name",
    [
        "ContinualSum, blt", "ContinualSum, lattice", "TreeFrankWolfe", "NoisyFTRL", "PrefixHedge",
        "BatchShare, knorm", "BatchShare, gaussian", "BatchShare, laplace",
    ],
)  # fmt: skip
def test_an_engine_with_noise_of_another_scale_is_caught(name, factor):
    make, stream, neighbour, trials = cases.CASES[name]
    liar = cases.rebuilt(make, lambda p: replace(p, noise_scale=factor * p.noise_scale))
    assert likelihood_audit(liar, stream, neighbour, trials).violated


@pytest.mark.parametrize("factor", [0.1, 0.2])
@pytest.mark.parametrize("name", ["NoisyMax, gumbel", "NoisyMax, exponential"])
def test_selections_with_noise_of_another_scale_are_caught(name, factor):
    make, stream, neighbour, _ = cases.CASES[name]
    liar = cases.rebuilt(make, lambda p: replace(p, scale=factor * p.scale))
    assert likelihood_audit(liar, stream, neighbour, 1000).violated


def test_vertices_with_noise_of_another_scale_are_caught():
    make, stream, neighbour, _ = cases.CASES["PolyhedralFrankWolfe"]
    liar = cases.rebuilt(make, lambda p: replace(p, scale=0.1 * p.scale))
    assert likelihood_audit(liar, stream, neighbour, 700).violated


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
