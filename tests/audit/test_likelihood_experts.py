"""Privacy losses of selections on epochs, alarms and coins: exact laws."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from dpoco.audit import likelihood_audit
from dpoco.audit._laws import answer_chances

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", cases.EXPERTS)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.EXPERTS[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert not report.violated, str(report)
    assert report.detectable < (7.5 if "alarms" in name else 4.5)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_laws_of_answers_add_up_and_are_those_of_the_noises(noise):
    excesses, scales = np.array([0.3, -1.0, 0.8]), (0.7, 1.3)
    every = [np.array(bits) for bits in itertools.product([False, True], repeat=3)]
    chances = [np.exp(answer_chances(excesses, bits, scales, noise)[-1]) for bits in every]
    assert sum(chances) == pytest.approx(1.0, abs=1e-12)
    rng, n = np.random.default_rng(0), 400_000
    draw = {"exponential": rng.exponential, "laplace": rng.laplace}[noise]
    seen = excesses + scales[1] * draw(size=(n, 3)) >= scales[0] * draw(size=(n, 1))
    for bits, chance in zip(every, chances, strict=True):
        deviation = np.sqrt(chance * (1.0 - chance) / n)
        assert abs(np.mean((seen == bits).all(axis=1)) - chance) < 5.5 * deviation
