"""The coupled learners: order of calls, bad input, bounds, custom losses, arguments."""

from __future__ import annotations

import numpy as np
import pytest
from coupled_problems import FEW

T = 24


# -- order of calls -------------------------------------------------------------------------------


def test_run_is_round_by_round(coupled, any_problem):
    """Bit for bit; and decisions stay inside, few, and frozen once the cap is reached."""
    stream = coupled.stream(any_problem, T)
    whole, single, mixed = (coupled.make(any_problem) for _ in range(3))
    want = stream.play(whole, 0, T)
    changes = []
    for t in range(T):
        assert np.array_equal(single.decide(), want[t])
        before = single.switches
        stream.observe(single, t)
        changes.append(single.switches - before)
    assert np.array_equal(single.last_decision, whole.last_decision)
    assert np.array_equal(stream.play(mixed, 0, 7), want[:7])
    mixed.decide()
    assert np.array_equal(stream.play(mixed, 7, T), want[7:])
    for each in (*want, whole.last_decision):
        assert whole.domain.contains(each)
    moved = np.flatnonzero(np.any(np.diff(np.vstack([want, whole.last_decision]), axis=0), axis=1))
    switched = np.flatnonzero(changes)
    assert set(moved) <= set(switched)
    if any_problem.split()[0] == "weights":  # projected leaders may meet in a corner
        assert np.array_equal(moved, switched)
    assert whole.switches == sum(changes) == len(switched)
    assert 1 <= whole.switches <= whole.parameters.max_switches
    assert all(t % 2 == 1 and t < T - 1 for t in switched)
    if any_problem.split()[1] == "scheduled":
        assert whole.switches == 6
        assert switched[-1] == 11


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


@pytest.mark.parametrize("name", FEW)
def test_the_trace_is_that_of_the_clipped_records(coupled, name):
    stream, learner = coupled.stream(name, T), coupled.make(name)
    trace = learner.run(*stream.data)
    kept = trace.decisions
    for t in (0, 3, 11, T - 1):
        assert trace.losses[t] == pytest.approx(trace.comparator_losses(kept[t])[t], abs=1e-12)
    moves = np.flatnonzero(np.any(np.diff(kept, axis=0), axis=1))
    assert np.array_equal(trace.switches, moves)
    assert trace.switches.size == learner.switches
    short = coupled.make(name)
    with pytest.raises(ValueError, match="record_decisions"):
        _ = short.run(*stream.data, record_decisions=False).decisions
    assert np.array_equal(short.last_decision, learner.last_decision)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("own", [{"horizon": 1}, {"horizon": 5, "block": 5}, {"max_switches": 0}])
def test_nothing_is_decided_over_a_single_block_or_without_a_switch(coupled, name, own):
    learner = coupled.make(name, **own)
    horizon = learner.parameters.horizon
    drawn = learner._engine.variates_drawn()
    decisions = coupled.stream(name, horizon).play(learner, 0, horizon)
    assert learner.switches == 0
    assert learner._engine.variates_drawn() == drawn
    assert (decisions == learner.last_decision).all()
    assert learner.guarantee.epsilon == 0.0  # nothing released depends on data
