"""The coupled learners: decisions out of the domain, traces, short streams, clipped records."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oco.coupled_problems import FEW

T = 24


@pytest.mark.parametrize(
    "name",
    [
        "weights density_ratio ball linear",
        "weights scheduled ball huber",
        "leader density_ratio ball linear",
        "leader density_ratio box logistic",
    ],
)
def test_unbounded_decisions(coupled, name):
    """The domain is only what regret is measured against: decisions leave it."""
    changes = {"unbounded": True, "max_switches": T}
    if name.startswith("weights"):
        changes |= {"regularization": 0.5}
    else:
        changes |= {"step_size": 1.0, "barrier_weight": 0.0}
    stream = coupled.stream(name, T)
    for part in stream.data:
        part[...] = np.abs(part)
    whole, single = (coupled.make(name, **changes) for _ in range(2))
    want = stream.play(whole, 0, T)
    for t in range(T):
        assert np.array_equal(single.decide(), want[t])
        stream.observe(single, t)
    assert any(not whole.domain.contains(each) for each in want)
    assert np.isfinite(want).all()
    loaded = type(whole)._from_bytes(whole._to_bytes())
    assert np.array_equal(loaded.last_decision, single.last_decision)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", FEW)
def test_nothing_is_decided_over_a_single_block_or_without_a_switch(coupled, name):
    for own in [{"horizon": 1}, {"horizon": 5, "block": 5}, {"max_switches": 0}]:
        learner = coupled.make(name, **own)
        horizon = learner.horizon
        drawn = learner._engine.variates_drawn()
        decisions = coupled.stream(name, horizon).play(learner, 0, horizon)
        assert learner.switches == 0
        assert learner._engine.variates_drawn() == drawn
        assert (decisions == learner.last_decision).all()
        assert learner.guarantee.epsilon == 0.0  # nothing released depends on data


SAVED = [
    "weights density_ratio ball linear",
    "weights density_ratio box linear",
    "weights dartboard box logistic",
    "weights dartboard simplex squared",
    "weights anchored ball huber",
    "weights anchored simplex linear",
    "weights scheduled l3 quadratic",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio l3 squared",
    "leader density_ratio simplex quadratic",
    "leader scheduled ball huber",
    "leader scheduled simplex logistic",
]


@pytest.mark.parametrize("name", SAVED)
def test_the_state_grows_by_what_a_plan_says_of_a_record(coupled, name):
    learner, stream = coupled.make(name, block=1), coupled.stream(name, T)
    sizes = []
    for rounds in (0, 2, 5):  # with switches left, after which nothing would be kept
        stream.play(learner, learner.round, rounds)
        sizes.append(len(learner._engine.state()))
    each = learner._bytes_per_record
    assert (each > 0) == name.endswith(("logistic", "huber"))
    assert np.diff(sizes).tolist() == [2 * each, 3 * each]
