"""What a learner claims: guarantees, bounds on its risk, and the arguments it refuses."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from local_cases import FA, FC, build, play

from dpoco.environments import simulate_local
from dpoco.errors import NoiseDominatesWarning
from dpoco.local import DistributionLearner, Hypotheses, LocalClient
from dpoco.local._bounds import hedge_bound, tempered_bound
from dpoco.random import Source


def test_guarantee():
    learner = build("bit")
    guarantee = learner.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.view) == (1.0, 0.0, "server")
    assert guarantee.certified
    assert any("context of every round is disclosed" in text for text in guarantee.conditions)
    ten = learner.guarantee_for(reports_per_user=10, delta=1e-6)
    assert 1.0 < ten.epsilon < 10.0
    assert learner.guarantee_for(reports_per_user=10).epsilon == 10.0
    private = build("private").guarantee
    assert any("context never leaves" in text for text in private.conditions)
    spec = learner.round_spec()
    device = LocalClient(Hypotheses(FC), 1.0, simulation_seed=3)
    learner.update(spec, device.respond(spec, None, 2))
    assert not learner.guarantee.certified
    assert not pickle.loads(pickle.dumps(learner)).guarantee.certified


def test_risk_bounds():
    posterior = build("loss", horizon=10**6, learning_rate=0.5)
    expected = tempered_bound(4, 10**6, 1 / math.tanh(0.5), lambda t: 1e-6, 0.5)
    assert posterior.risk_bound() == pytest.approx(expected, rel=1e-9)
    with pytest.warns(NoiseDominatesWarning, match="ignoring all reports"):
        trivial = build("bit", horizon=1000).risk_bound()
    assert trivial == pytest.approx(1000 * math.log(4 * 1000))
    with pytest.warns(NoiseDominatesWarning):
        assert build("bit").risk_bound(50) == pytest.approx(
            sum(math.log(4 * (t + 1)) for t in range(1, 51)), rel=1e-9
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hadamard = build("bit", query="hadamard", learning_rate=1.0, horizon=10**7)
        assert hadamard.risk_bound() < 10**7 * math.log(4)
        response = build("subset", subset_size=1, learning_rate=1.0, horizon=10**7)
        assert response.risk_bound() < 10**7 * math.log(4)
    with pytest.raises(ValueError, match="rounds must be given"):
        build("bit").risk_bound()


def test_published_bound_of_the_posterior():
    hypotheses = Hypotheses(np.full((8, 4), 0.25))
    learner = DistributionLearner(
        hypotheses, epsilon=1.0, horizon=10**6, query="loss", channel="bit", learning_rate=0.5
    )
    assert learner.risk_bound() == pytest.approx(2.9e5, rel=0.25)
    best = min(
        DistributionLearner(
            hypotheses, epsilon=1.0, horizon=10**6, query="loss", channel="bit",
            learning_rate=0.5, mixing=float(mixing),
        ).risk_bound()
        for mixing in np.logspace(-6, -1, 30)
    )  # fmt: skip
    assert best == pytest.approx(1.8e5, rel=0.03)


HEDGE = {"learner": "hedge"}
SUBSETS = {**HEDGE, "channel": "subset"}
USED = [
    {"query": "loss", "range": "worst_case", "channel": "bit"}, {"interactive": True},
    {"interactive": True, "query": "scheffe"},  # chooses between bits and subsets
    {"subset_size": 2, "bits": 2},
    {"channel": "subset", "subset_size": 2}, {**SUBSETS, "subset_size": 2},
    {**HEDGE, "learning_rate": 0.1, "range": "worst_case", "mixing": 0.1},
    {**HEDGE, "learning_rate": 7.5, "bits": 1}, {**HEDGE, "interactive": True, "range": "exact"},
]  # fmt: skip


@pytest.mark.parametrize("given", USED)
def test_used_arguments_are_taken(given):
    DistributionLearner(Hypotheses(FC), epsilon=1.0, **given)


def test_repr_shows_no_weights():
    learner = play(build("bit"), 5)
    text = repr(learner)
    assert "epsilon=1.0" in text
    assert not any(f"{w:.3f}" in text for w in learner.weights)
    with pytest.raises(ValueError, match="read-only"):
        learner.weights[0] = 1.0


@pytest.mark.parametrize("eta", [None, "worst_case"])
def test_bounds_of_hedge_hold(eta):
    """Mean risk <= mean certificate <= bound, whatever the labels: here those of no hypothesis."""
    build = {
        "epsilon": 4.0,
        "horizon": 3000,
        "learner": "hedge",
        "range": "worst_case",
        "learning_rate": eta,
    }
    rng = np.random.default_rng(0)
    risk, promised = np.zeros(40), np.zeros(40)
    for run in range(40):
        learner = DistributionLearner(Hypotheses(FA), public_seed=run, **build)
        labels = rng.choice(4, p=FA[0], size=3000)
        risk[run] = simulate_local(learner, labels, truth=0, source=Source.seeded(run)).kl_risk
        promised[run] = learner.risk_certificate()
        bound = learner.risk_bound()
    assert risk.mean() < promised.mean() < bound < 3000 * math.log(3)
    inverse = 1 / math.tanh(2.0)
    assert hedge_bound(3, 3000, inverse, learner.mixing) < bound * 1.01
