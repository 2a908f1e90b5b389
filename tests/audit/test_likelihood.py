"""Laws that likelihoods are computed from, and what a likelihood audit refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.audit import likelihood_cases as cases

import dpoco
from dpoco.audit import likelihood_audit, replay_audit
from dpoco.audit._laws import answer_chances, selection_law
from dpoco.audit._sums import noise_map
from dpoco.mechanisms import AboveThreshold, ContinualSum
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("method", ["blt", "blt_normalised", "banded", "tree", "toeplitz"])
def test_noise_maps_have_the_row_norms_of_the_accounting(method):
    from dpoco.accounting.continual_sum import factorisation, row_norm

    found = np.linalg.norm(noise_map(factorisation(method, 20), 20), axis=1)
    own = np.array([row_norm(method, t, 20) for t in range(1, 21)])
    np.testing.assert_allclose(found, own, rtol=1e-9)


@pytest.mark.parametrize("noise", ["exponential", "gumbel", "laplace"])
def test_selection_laws_are_those_of_noisy_scores(noise):
    rng = np.random.default_rng(1)
    scores, n = np.array([0.3, 1.0, -0.5]), 200_000
    draws = {
        "exponential": rng.exponential(size=(n, 3)),
        "gumbel": rng.gumbel(size=(n, 3)),
        "laplace": rng.laplace(size=(n, 3)),
    }[noise]
    for m in (2, 3):
        seen = np.bincount((scores[:m] + 0.7 * draws[:, :m]).argmax(axis=1), minlength=m) / n
        law = selection_law(noise, scores[:m], 0.7)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.abs(seen - law).max() < 0.006


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


# ---- what is refused -----------------------------------------------------------------------------


def test_streams_that_are_no_neighbours_are_refused():
    make, stream, neighbour, _ = cases.CASES["ContinualSum, blt"]
    with pytest.raises(ValueError, match="streams are equal"):
        likelihood_audit(make, stream, stream, 300)
    with pytest.raises(ValueError, match="differ in 6 rounds"):
        likelihood_audit(make, stream, -stream, 300)
    with pytest.raises(ValueError, match="different numbers of rounds"):
        likelihood_audit(make, stream, neighbour[:-1], 300)
    scores = cases.SCORES
    with pytest.raises(ValueError, match="promise"):
        likelihood_audit(cases.CASES["NoisyMax, gumbel"][0], scores, scores + 2.0, 300)
    quiet = cases.QUIET
    with pytest.raises(ValueError, match="promise"):
        likelihood_audit(cases.CASES["AboveThreshold"][0], quiet, quiet + 2.0, 300)
    both = quiet + np.where(np.arange(cases.T) % 2, 1.0, -1.0)
    with pytest.raises(ValueError, match="spread"):
        likelihood_audit(cases.CASES["AboveThreshold"][0], quiet, both, 300)


def test_too_few_trials_and_claims_of_nothing_are_refused():
    make, stream, neighbour, _ = cases.CASES["ContinualSum, blt"]
    with pytest.raises(ValueError, match="trials must be at least"):
        likelihood_audit(make, stream, neighbour, 50)
    with pytest.raises(ValueError, match="confidence"):
        likelihood_audit(make, stream, neighbour, 300, confidence=1.0)
    with pytest.raises(ValueError, match="got -1"):
        likelihood_audit(make, stream, neighbour, 300, seed=-1)
    options = {"horizon": cases.T, "budget": None}
    with pytest.raises(ValueError, match="no privacy guarantee"):
        likelihood_audit(
            lambda source: ContinualSum(2, source=source, **{"bound": 1.0, **options}),
            stream,
            neighbour,
            300,
        )
    with pytest.raises(ValueError, match="no privacy guarantee"):
        likelihood_audit(
            lambda source: AboveThreshold(source=source, **{"sensitivity": 1.0, **options}),
            cases.QUIET, cases.QUIET + 1.0, 300,
        )  # fmt: skip


def test_unknown_laws_are_refused():
    _, stream, neighbour, _ = cases.CASES["ContinualSum, blt"]
    stream, neighbour = (np.repeat(rows, 4, axis=1) for rows in (stream, neighbour))
    options = {"horizon": cases.T, "budget": cases.GAUSS, "norm": 4.0}
    with pytest.raises(ValueError, match="generalized Gaussian"):
        likelihood_audit(
            lambda source: ContinualSum(
                8, noise="generalized_gaussian", source=source, **{"bound": 1.0, **options}
            ),
            stream, neighbour, 300,
        )  # fmt: skip
    promise = dpoco.Budget(1.0, 0.0)

    class Unknown:
        guarantee = dpoco.mechanisms.NoisyMax(
            2, horizon=1, budget=promise, sensitivity=1.0
        ).guarantee

    with pytest.raises(TypeError, match="no audit of a Unknown"):
        likelihood_audit(lambda source: Unknown(), stream, neighbour, 300)


def test_a_learner_that_shows_no_last_decision_is_not_accused():
    make, stream, neighbour, _ = cases.SUMS["NoisyFTRL"]

    class Silent(type(make(Source.seeded(0)))):
        """Shows decisions in `decide` alone."""

        @property
        def last_decision(self):
            raise AttributeError("no such attribute")

    def silent(source):
        learner = make(source)
        learner.__class__ = Silent
        return learner

    with pytest.raises(ValueError, match="learners with last_decision"):
        likelihood_audit(silent, stream, neighbour, 300)
    assert not replay_audit(silent, stream, [(2, neighbour[2])]).findings
