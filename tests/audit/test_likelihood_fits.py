"""Privacy losses of fits to whole data sets, and what is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]


@pytest.mark.parametrize("name", cases.FITS)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.FITS[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert report.passed, str(report)


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@pytest.mark.parametrize("name", cases.FITS)
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name):
    make, stream, neighbour, trials = cases.FITS[name]
    liar = cases.overclaiming(make, 8.0 if name == "PhasedSGD" else 4.0)
    report = likelihood_audit(liar, stream, neighbour, trials)
    assert report.violated


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("NoisyFrankWolfe", "first_scale"),
        ("PhasedSGD", "noise_multiplier"),
        ("NoisySGD", "noise_scale"),
        ("LocalizedMirrorDescent", "noise_multiplier"),
    ],
)
def test_noise_of_another_scale_is_caught(name, field):
    make, stream, neighbour, _ = cases.FITS[name]

    class Quiet(type(make(None))):
        """Adds less noise than it is audited for."""

        def _engine(self, features, labels):
            honest = self._parameters
            self._parameters = replace(honest, **{field: 0.8 * getattr(honest, field)})
            try:
                return super()._engine(features, labels)
            finally:
                self._parameters = honest

    def liar(source):
        learner = make(source)
        learner.__class__ = Quiet
        return learner

    report = likelihood_audit(liar, stream, neighbour, 150)
    assert "does not follow" in str(report)
