"""State files, copies, threads, forks and interruption of the coupled learners."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpoco

T = 24
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
CUSTOM = ["weights dartboard ball custom", "leader density_ratio ball custom"]


# -- state files ----------------------------------------------------------------------------------


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


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("horizon", [1, 20])
@pytest.mark.parametrize(
    "name",
    [
        "weights dartboard box logistic",
        "weights density_ratio ball linear",
        "leader density_ratio ball logistic",
        "leader scheduled simplex squared",
    ],
)
def test_what_calibration_made_of_the_arguments_can_be_saved(coupled, name, horizon, tmp_path):
    """At such a budget nothing beats the constant decision, whichever coupling was asked for."""
    kind, coupling, domain, loss = coupled.parse(name)
    learner = kind(
        domain, loss, horizon=horizon, budget=dpoco.Budget(0.05, 1e-6), coupling=coupling, block=1
    )
    coupled.stream(name, horizon).play(learner, 0, 1)
    learner.save(tmp_path / "state")
    loaded = dpoco.load(tmp_path / "state")
    assert loaded.plan == learner.plan
    assert np.array_equal(loaded.last_decision, learner.last_decision)


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_losses_are_not_saved(coupled, name, tmp_path):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    for rounds in (0, 5):
        stream.play(learner, learner.round, rounds)
        with pytest.raises(dpoco.StateError, match="custom losses"):
            learner.save(tmp_path / "state")
        with pytest.raises(dpoco.StateError, match="custom losses"):
            pickle.dumps(learner)
    assert list(tmp_path.iterdir()) == []
    assert stream.play(learner, 5, T).shape == (T - 5, 3)  # and goes on
